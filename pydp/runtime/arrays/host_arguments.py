"""The NumPy arguments of one call: use in place, copies to the device, and copies back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from pydp.runtime.arrays.aliased_copy import AliasedCopy, dense, groups
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.memory import held_queues, host_memory
from pydp.runtime.memory.host_memory import (
    alignment,
    buffer_over,
    buffer_with,
    byte_range,
    check_dtype,
    create,
    fits_in_place,
)

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device


class HostArguments:
    """The NumPy arrays of one call.

    With `in_place` (a blocking call on a device that shares the host's memory), kernels use the memory of the arrays.
    Overlapping arrays then share one buffer, because OpenCL leaves two buffers over the same bytes undefined. Other
    arrays are copied to the device, and written ones are copied back at the end. Arrays that share elements get one
    common copy if kernels may write one and read another.
    """

    __slots__ = ("_back", "_buffers", "_copies", "_device", "_maps", "_ranges", "_together", "in_place")

    def __init__(self, device: Device, in_place: bool) -> None:
        self._device = device
        self.in_place = in_place
        self._ranges: list[tuple[int, int]] = []  # merged ranges of arrays that overlap a written one
        self._buffers: dict[tuple[int, int], cl.Buffer] = {}
        self._maps: dict[int, tuple[cl.Buffer, int]] = {}
        self._back: list[tuple[np.ndarray, cl.Buffer, list[tuple[np.ndarray, np.ndarray]]]] = []
        self._together: dict[int, AliasedCopy] = {}  # for arrays that share elements; keys are their ids
        self._copies: dict[int, cl.Buffer] = {}  # their buffers; keys are the ids of the copies

    def merge(self, arrays: Iterable[np.ndarray]) -> None:
        """Make arrays with overlapping memory share a buffer; needed if one of them is written."""
        found = [array for array in arrays if array.size and fits_in_place(array)]
        # Offsets in a buffer count elements of each array, so a buffer starts at an address aligned for all dtypes.
        step = max((alignment(array.dtype) for array in found), default=1)
        ranges = sorted((low - low % step, high) for low, high in map(byte_range, found))
        merged: list[tuple[int, int]] = []
        for low, high in ranges:
            if merged and low < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self._ranges = merged

    def share(self, arrays: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> None:
        """Make arrays that share elements with one of `written` share a copy, unless they share a buffer. Call `merge`
        first. Raises InvalidArgument if no common copy is possible."""
        if all(self._place(array) for array in arrays):
            return
        for group in groups(arrays, written):
            if not all(self._place(array) for array in group):
                together = AliasedCopy(group)
                self._together |= {id(array): together for array in group}

    def read(self, name: str, array: np.ndarray) -> Operand:
        """The operand of an array that kernels only read."""
        placed = self._in_place(name, array) or self._copied_together(name, array)
        if placed is not None:
            return placed
        memory, elements = dense(array, check_dtype(array.dtype, name), filled=True)
        buffer = buffer_with(self._device.context, memory)
        return Operand(name, buffer, 0, array.shape, _strides(elements, array), elements.dtype, memory)

    def write(self, name: str, array: np.ndarray, keep: bool) -> Operand:
        """The operand of an array that kernels write; with `keep`, kernels can also read the old elements."""
        placed = self._in_place(name, array)
        if placed is not None:
            buffer = placed.buffer
            if not self._device.profile.direct_host_memory:
                self._maps[id(buffer)] = (buffer, buffer.size)
            placed.result = array
            return placed
        placed = self._copied_together(name, array)
        if placed is not None:
            together = self._together[id(array)]
            self._back.append((together.memory, placed.buffer, [(array, together.elements(array))]))
            placed.result = array
            return placed
        memory, elements = dense(array, check_dtype(array.dtype, name), filled=keep)
        if keep:
            buffer = buffer_with(self._device.context, memory)
        else:
            buffer = create(self._device.context, cl.mem_flags.READ_WRITE, memory.nbytes)
        self._back.append((memory, buffer, [] if memory is array else [(array, elements)]))
        return Operand(name, buffer, 0, array.shape, _strides(elements, array), elements.dtype, memory, array)

    def copy_back(self, queue: cl.CommandQueue, event: cl.Event | None, loose: bool = False) -> None:
        """Wait for `event`, the last of the call, and make all results visible in the NumPy arrays. `loose` means an
        out-of-order queue.

        It waits for events and blocking commands, because one driver's clFinish returns after a flush.
        """
        for buffer, nbytes in self._maps.values():
            unmapped = host_memory.make_visible(queue, buffer, nbytes)
            if loose:
                held_queues.hold(self._device, queue, unmapped)
        for memory, buffer, scattered in self._back:
            if memory.size:
                raw = memory.reshape(-1).view(np.uint8)
                host_memory.enqueued(cl.enqueue_copy, queue, raw, buffer, is_blocking=True)
            for array, elements in scattered:
                array[...] = elements
        if event is not None and not self._maps:
            event.wait()

    def _copied_together(self, name: str, array: np.ndarray) -> Operand | None:
        together = self._together.get(id(array))
        if together is None:
            return None
        memory, elements = together.memory, together.elements(array)
        buffer = self._copies.get(id(together))
        if buffer is None:
            buffer = self._copies[id(together)] = buffer_with(self._device.context, memory)
        strides = _strides(elements, array)
        return Operand(name, buffer, together.start(array), array.shape, strides, elements.dtype, memory)

    def _place(self, array: np.ndarray) -> tuple[int, int, int] | None:
        """(low, high, first): the address range of the in-place buffer of an array, and the byte offset of its first
        element. None if kernels cannot use the array in place."""
        if not self.in_place or not fits_in_place(array):
            return None
        low, high = byte_range(array)
        for merged in self._ranges:
            if merged[0] <= low < merged[1]:
                low, high = merged
                break
        first = array.__array_interface__["data"][0] - low if array.size else 0
        if first % array.itemsize or high - low > self._device.profile.max_allocation:
            return None
        return low, high, first

    def _in_place(self, name: str, array: np.ndarray) -> Operand | None:
        place = None if id(array) in self._together else self._place(array)
        if place is None:
            return None
        low, high, first = place
        itemsize = array.itemsize
        buffer = self._buffers.get((low, high))
        if buffer is None:
            buffer = buffer_over(self._device.context, low, high, array)
            if self._ranges:
                self._buffers[low, high] = buffer
        strides = tuple(stride // itemsize for stride in array.strides)
        return Operand(name, buffer, first // itemsize, array.shape, strides, array.dtype, array)


def _strides(elements: np.ndarray, array: np.ndarray) -> tuple[int, ...]:
    """The strides, in elements, of a dense copy of `array`; stride 0 is kept for repeated axes."""
    size = elements.itemsize
    pairs = zip(elements.strides, array.strides, strict=True)
    return tuple(0 if given == 0 else stride // size for stride, given in pairs)
