"""Copies between the host and fields, assignment, conversion and reshaping."""

from __future__ import annotations

from math import prod
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl

from pydp.dtypes import native
from pydp.errors import InvalidArgument
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.data import FieldData
from pydp.runtime.arrays.operand import c_strides
from pydp.runtime.call import Call
from pydp.runtime.memory import host_memory
from pydp.runtime.memory.deferred_release import hold
from pydp.runtime.memory.storage import Storage
from pydp.runtime.placement import ARRAYS, Array, check_writable, home_of
from pydp.runtime.recording import recorded
from pydp.space import integers

_F = TypeVar("_F", bound=FieldData)
_FILL_SIZES = (1, 2, 4, 8, 16)  # element sizes in bytes that clEnqueueFillBuffer is used for
_FILLED_BYTES = 1 << 18  # on CPUs, clEnqueueFillBuffer fills more bytes up to 20 times slower than a kernel


def fetch(field: FieldData) -> np.ndarray:
    """Copy a field to a new C-contiguous array."""
    values = host_memory.fresh(field.shape, field.dtype)
    if values.size:
        read(field, values)
    return values


def read(field: FieldData, values: np.ndarray, blocking: bool = True) -> cl.Event:
    """Copy a field's elements into a C-contiguous array of the same shape and dtype."""
    storage, size = field._storage, field.dtype.itemsize
    storage.check_alive()
    queue = storage.device.queue
    if not field.is_contiguous:
        if blocking and storage.device.profile.shares_host_memory:
            return _read_mapped(field, values, queue)
        call = Call.begin({"field": field}, queue=queue)
        packed = call.contiguous(call.input("field"))
        event = call.enqueue(cl.enqueue_copy, _raw(values), packed, is_blocking=blocking)
        call.finish()
        return event
    waits = storage.waits(queue)
    event = host_memory.enqueued(
        cl.enqueue_copy, queue, _raw(values), storage.buffer, src_offset=field.offset * size, is_blocking=blocking,
        wait_for=waits or None,
    )  # fmt: skip
    event = hold(event, blocking)
    storage.note(event, queue)
    return event


def _raw(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1).view(np.uint8)


class _Mapped:
    """Context manager that maps a field into host memory; no copy is made if the device shares host memory."""

    def __init__(self, field: FieldData, queue: cl.CommandQueue, flags: int) -> None:
        self.field, self.queue, self.flags = field, queue, flags

    def __enter__(self) -> np.ndarray:
        field, size = self.field, self.field.dtype.itemsize
        storage = field._storage
        storage.check_alive()
        low, high = field.span
        self.mapped, complete = host_memory.enqueued(
            cl.enqueue_map_buffer, self.queue, storage.buffer, self.flags, low * size, ((high - low) * size,), np.uint8,
            wait_for=storage.waits(self.queue) or None, is_blocking=True,
        )  # fmt: skip
        complete.wait()  # see `make_visible`
        strides = tuple(stride * size for stride in field.strides)
        start = (field.offset - low) * size
        return np.ndarray(field.shape, field.dtype, self.mapped, start, strides)

    def __exit__(self, *_: object) -> None:
        self.event = self.mapped.base.release(self.queue)
        self.field._storage.note(self.event, self.queue)


def _read_mapped(field: FieldData, values: np.ndarray, queue: cl.CommandQueue) -> cl.Event:
    access = _Mapped(field, queue, cl.map_flags.READ)
    with access as elements:
        values[...] = elements
    return access.event


def _write(field: FieldData, values: np.ndarray, blocking: bool) -> cl.Event:
    """Copy a C-contiguous array in native byte order into a field of the same shape and dtype."""
    storage, size = field._storage, field.dtype.itemsize
    storage.check_alive()
    queue = storage.device.queue
    if field.is_contiguous:
        waits = storage.waits(queue)
        event = host_memory.enqueued(
            cl.enqueue_copy, queue, storage.buffer, _raw(values), dst_offset=field.offset * size, is_blocking=blocking,
            wait_for=waits or None,
        )  # fmt: skip
        event = hold(event, blocking)
        storage.note(event, queue)
        return event
    call = Call.begin({}, device=storage.device, queue=queue, out=field)
    target = call.output(field.shape, field.dtype)
    packed = call.temporary(field.shape, field.dtype)
    sent = call.enqueue(cl.enqueue_copy, packed, _raw(values), is_blocking=False)
    call.copy(packed, target)
    call.finish()
    if blocking:
        sent.wait()  # `values` may change from here on
    done = field._storage.event
    assert done is not None  # the copy has just been enqueued
    return done


def assign(target: FieldData, value: Any) -> None:
    """``target[...] = value``. A number, array-like, Field or pyopencl Array is broadcast and converted."""
    check_writable(target, "the field")
    if isinstance(value, (FieldData, Array)):
        _copy(value, target)
        return
    values = _converted(value, target)
    if target.size == 0:
        return
    large = target.device.profile.mapping == "vector" and target.nbytes > _FILLED_BYTES
    if values.ndim == 0 and target.is_contiguous and values.dtype.itemsize in _FILL_SIZES and not large:
        _fill(target, values)
    elif values.ndim == 0 and values.dtype.itemsize in elementwise.WORD_SIZES:
        call = Call.begin({}, device=target.device, queue=target.device.queue, out=target)
        elementwise.fill(call, values, call.output(target.shape, target.dtype))
        call.finish()
    elif values.shape == target.shape:
        _write(target, values, blocking=True)
    else:
        assign(target, _uploaded(target._storage, values))


@recorded
def _copy(value: Any, target: Any) -> None:
    """``target[...] = value`` of a Field or pyopencl Array."""
    call = Call.begin({"value": value}, out=target, device=target.device)
    source = call.input("value")
    call.copy(source, call.output(target.shape, target.dtype))
    call.finish()


def _converted(value: Any, target: FieldData) -> np.ndarray:
    """Convert a host value to a C-contiguous array of the target's dtype that broadcasts to its shape."""
    try:
        given = np.asarray(value, target.dtype) if target.dtype.names else np.asarray(value)
        host_memory.check_dtype(given.dtype, "the value")
        if given.dtype.kind == "c" and target.dtype.kind != "c":
            raise InvalidArgument(f"complex values cannot be stored in a field of dtype {target.dtype}")
        if given.dtype.kind in "iu" and target.dtype.kind in "iu" and not hasattr(value, "dtype"):
            given = value  # Python integers must fit, as in NumPy
        with np.errstate(invalid="ignore", over="ignore"), host_memory.host_allocation():
            values = np.asarray(given, target.dtype, order="C")
        np.broadcast_to(values, target.shape)
    except InvalidArgument:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"the value does not fit a field of shape {target.shape} and dtype {target.dtype}: {error}"
        ) from None
    return values


def _fill(target: FieldData, value: np.ndarray) -> None:
    storage, size = target._storage, target.dtype.itemsize
    storage.check_alive()
    queue = storage.device.queue
    pattern = value.reshape(1).view(np.uint8)
    event = host_memory.enqueued(
        cl.enqueue_fill_buffer, queue, storage.buffer, pattern, target.offset * size, target.nbytes,
        wait_for=storage.waits(queue) or None,
    )  # fmt: skip
    storage.note(event, queue)


def _uploaded(like: Storage, values: np.ndarray) -> FieldData:
    buffer = host_memory.buffer_with(like.device.context, values)
    return FieldData(Storage(buffer, like.device), values.dtype, values.shape)


def copy_in(field: FieldData, values: Any, blocking: bool) -> cl.Event | None:
    """See Field.copy_in."""
    check_writable(field, "the field")
    shape = values.shape if hasattr(values, "shape") else np.shape(values)
    if tuple(shape) != field.shape:
        raise InvalidArgument(f"values have shape {tuple(shape)}; the shape of the field, {field.shape}, is needed")
    home = home_of(values)
    if home is not None and home.context != field.device.context:
        values = values.get()  # another device or context: copy through the host
    elif home is not None:
        assign(field, values)
        event = field.event
        if blocking and event is not None:
            event.wait()
        return event
    ready = _converted(values, field)
    if field.size == 0:
        return None
    return _write(field, ready, blocking)


def copy_out(field: FieldData, target: Any, blocking: bool) -> cl.Event | None:
    """See Field.copy_out."""
    if not isinstance(target, (np.ndarray, FieldData, Array)):
        raise InvalidArgument(f"target is a {type(target).__name__}; {ARRAYS} are accepted")
    if tuple(target.shape) != field.shape:
        raise InvalidArgument(
            f"target has shape {tuple(target.shape)}; the shape of the field, {field.shape}, is needed"
        )
    check_writable(target, "target")
    if not isinstance(target, np.ndarray):
        receiver = target if isinstance(target, FieldData) else FieldData.wrap(target)
        return copy_in(receiver, field, blocking)
    if target.dtype.newbyteorder("=") != field.dtype:
        raise InvalidArgument(f"target has dtype {target.dtype}; the dtype of the field, {field.dtype}, is needed")
    if field.size == 0:
        return None
    if target.flags.c_contiguous and target.dtype.isnative:
        return read(field, target, blocking)
    if not blocking:
        raise InvalidArgument(
            f"target has strides {target.strides} and dtype {target.dtype}; copy_out(blocking=False) takes a "
            "C-contiguous array in native byte order"
        )
    target[...] = fetch(field)
    return field.event


@recorded
def converted(field: FieldData, dtype: Any = None) -> Any:
    """Copy a field to a new C-contiguous field, converted to `dtype` if given."""
    call = Call.begin({"field": field})
    source = call.input("field")
    target = call.output(source.shape, source.dtype if dtype is None else native(dtype))
    call.copy(source, target)
    return call.finish(target)


def reshaped(field: _F, shape: tuple[Any, ...]) -> _F:
    """See Field.reshape. One size may be -1."""
    sizes = list(integers(shape, "reshape"))
    if sizes.count(-1) == 1:
        known = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = field.size // known if known else 0
    if any(size < 0 for size in sizes) or prod(sizes) != field.size:
        raise InvalidArgument(
            f"a field of shape {field.shape} ({field.size} elements) cannot be reshaped to {tuple(shape)}"
        )
    whole: _F = field if field.is_contiguous else converted(field)
    return whole._view((tuple(sizes), c_strides(tuple(sizes)), whole.offset))
