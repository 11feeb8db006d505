"""Runs a lowered function on a device with NumPy arrays, for the tests of lowerings."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from pydp.lang.opencl.lowered import launch_shape
from pydp.runtime.programs import program

GUARD = 64  # elements before and after each array: NaN for floats, -1 for integers


def run(device, lowered, arrays, parameters=(), extent=(), offset=None):
    """Run the function over a grid. `arrays` (one for each GlobalArray, contiguous or not) are written in place.

    The elements around each array must stay as they are.
    """
    kernel = program.kernel(device, lowered.template, lowered.kernel_name, lowered.params)
    offset = offset if offset is not None else (0,) * len(extent)
    packed = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    guarded = [_guarded(array) for array in packed]
    buffers = [cl.Buffer(device.context, flags, hostbuf=array) for array in guarded]
    positions = list(dict.fromkeys(slot.position for slot in lowered.arguments if slot.kind == "array"))
    number = {position: place for place, position in enumerate(positions)}
    values = [_value(slot, packed, buffers, number, parameters, extent, offset) for slot in lowered.arguments]
    global_size, local_size = launch_shape(lowered, extent)
    overran = cl.Buffer(device.context, flags, hostbuf=np.zeros(1 + np.prod(global_size), np.int32))
    if lowered.arguments[-1].kind == "overran":
        values[-1] = overran
    kernel.enqueue(device.queue, global_size, local_size, values)
    for array, before, buffer in zip(arrays, guarded, buffers, strict=True):
        after = np.empty_like(before)
        cl.enqueue_copy(device.queue, after, buffer)
        array[...] = _inside(after, array)
        _inside(after, array)[...] = _inside(before, array)
        assert after.tobytes() == before.tobytes(), "elements around an array were written"
    first = np.zeros(1, np.int32)
    cl.enqueue_copy(device.queue, first, overran)
    assert first[0] == 0, "the driver ended a loop early"


def _guarded(array):
    """The elements of an array between guard elements."""
    found = np.frombuffer(b"\xff" * ((array.size + 2 * GUARD) * array.itemsize), array.dtype).copy()
    _inside(found, array)[...] = array
    return found


def _inside(guarded, array):
    return guarded[GUARD : GUARD + array.size].reshape(array.shape)


def _value(slot, packed, buffers, number, parameters, extent, offset):
    if slot.kind == "overran":
        return None
    if slot.kind == "parameter":
        value = parameters[slot.position]
        value = value if slot.item is None else value[slot.item]
        return np.array(value, slot.dtype) if slot.dtype.names else slot.dtype.type(value)
    if slot.kind in ("grid", "grid_offset"):
        return slot.dtype.type((extent if slot.kind == "grid" else offset)[slot.axis])
    place = number[slot.position]
    if slot.kind == "array":
        return buffers[place]
    array = packed[place]
    if slot.kind == "offset":
        return slot.dtype.type(GUARD)
    sizes = array.shape if slot.kind == "extent" else [stride // array.itemsize for stride in array.strides]
    return slot.dtype.type(sizes[slot.axis])
