"""NumPy arguments of one call: which of them the device works on in place, and what goes back afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from . import host_memory
from .host_memory import buffer_over, buffer_with, byte_range, check_dtype, create, fits_in_place
from .operand import Operand, c_strides

if TYPE_CHECKING:
    from .device import Device


class HostArguments:
    """The NumPy arrays of one call.

    With `in_place` (a blocking call on a device that shares the host's memory) kernels work on the arrays'
    own bytes. Arrays that overlap share one buffer then, because OpenCL defines nothing for two buffers over
    the same bytes. Everything else is copied to the device, and written arrays are copied back at the end.
    """

    __slots__ = ("_back", "_buffers", "_device", "_maps", "_ranges", "in_place")

    def __init__(self, device: Device, in_place: bool) -> None:
        self._device = device
        self.in_place = in_place
        self._ranges: list[tuple[int, int]] = []  # merged ranges of arrays that overlap a written one
        self._buffers: dict[tuple[int, int], cl.Buffer] = {}
        self._maps: dict[int, tuple[cl.Buffer, int]] = {}
        self._back: list[tuple[np.ndarray, cl.Buffer, np.ndarray]] = []

    def merge(self, arrays: Iterable[np.ndarray]) -> None:
        """Let arrays whose memory overlaps share a buffer; needed where one of them is written."""
        ranges = sorted(byte_range(array) for array in arrays if array.size and fits_in_place(array))
        merged: list[tuple[int, int]] = []
        for low, high in ranges:
            if merged and low < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self._ranges = merged

    def read(self, name: str, array: np.ndarray) -> Operand:
        """The operand of an array that kernels only read."""
        placed = self._in_place(name, array)
        if placed is not None:
            return placed
        dtype = check_dtype(array.dtype, name)
        native = array.dtype == dtype and array.dtype.isnative
        if native and array.flags.f_contiguous and not array.flags.c_contiguous:
            buffer = buffer_with(self._device.context, array.T)
            strides = tuple(stride // array.itemsize for stride in array.strides)
            return Operand(name, buffer, 0, array.shape, strides, dtype, array)
        if not (native and array.flags.c_contiguous):
            array = _packed(array, dtype)
        buffer = buffer_with(self._device.context, array)
        return Operand(name, buffer, 0, array.shape, c_strides(array.shape), dtype, array)

    def write(self, name: str, array: np.ndarray, keep: bool) -> Operand:
        """The operand of an array that kernels write; with `keep` its old elements are there to be read."""
        placed = self._in_place(name, array)
        if placed is not None:
            buffer = placed.buffer
            self._maps[id(buffer)] = (buffer, buffer.size)
            placed.result = array
            return placed
        dtype = check_dtype(array.dtype, name)
        packed = array if array.flags.c_contiguous and array.dtype.isnative else None
        if keep:
            packed = _packed(array, dtype) if packed is None else packed
            buffer = buffer_with(self._device.context, packed)
        else:
            buffer = create(self._device.context, cl.mem_flags.READ_WRITE, array.nbytes)
            packed = host_memory.fresh(array.shape, dtype) if packed is None else packed
        self._back.append((packed, buffer, array))
        return Operand(name, buffer, 0, array.shape, c_strides(array.shape), dtype, array, array)

    def bring_back(self, queue: cl.CommandQueue) -> None:
        """Wait for the queue, with everything that was written visible in the NumPy arrays."""
        for buffer, nbytes in self._maps.values():
            host_memory.make_visible(queue, buffer, nbytes)
        for packed, buffer, _ in self._back:
            if packed.size:
                cl.enqueue_copy(queue, packed.reshape(-1).view(np.uint8), buffer, is_blocking=False)
        if self._back or not self._maps:
            queue.finish()
        for packed, _, array in self._back:
            if packed is not array:
                array[...] = packed

    def _in_place(self, name: str, array: np.ndarray) -> Operand | None:
        if not self.in_place or not fits_in_place(array):
            return None
        low, high = byte_range(array)
        start = low
        for merged in self._ranges:
            if merged[0] <= low < merged[1]:
                low, high = merged
                break
        if high - low > self._device.profile.max_allocation:
            return None
        buffer = self._buffers.get((low, high))
        if buffer is None:
            buffer = buffer_over(self._device.context, low, high, array)
            if self._ranges:
                self._buffers[low, high] = buffer
        itemsize = array.itemsize
        strides = tuple(stride // itemsize for stride in array.strides)
        first = array.__array_interface__["data"][0] - low if array.size else 0
        return Operand(name, buffer, first // itemsize, array.shape, strides, array.dtype, (array, start))


def _packed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A C-contiguous copy in native byte order."""
    copy = host_memory.fresh(array.shape, dtype)
    copy[...] = array
    return copy
