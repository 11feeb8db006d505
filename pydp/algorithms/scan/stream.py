"""Scans of NumPy arrays larger than the device's largest buffer: piece by piece, with a carried prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of
from pydp.algorithms.scan import arguments
from pydp.errors import InvalidArgument
from pydp.runtime import placement
from pydp.runtime.drivers import devices
from pydp.runtime.memory.host_memory import byte_range, create, fresh, host_allocation

ALWAYS_FITS = 1 << 27  # CL_DEVICE_MAX_MEM_ALLOC_SIZE is at least 128 MiB on full-profile devices
_GRAIN = 1 << 10  # a piece is a multiple of 1024 elements: each piece starts at a cache line


def limit_of(device: Any) -> int:
    """The maximum bytes of a piece: the buffer size that the device guarantees."""
    return int(device.profile.max_allocation)


def _device_of(device: Any, queue: Any) -> Any:
    if queue is not None and device is None:
        return devices.from_queue(queue)
    return devices.device(device)


def too_large(x: np.ndarray, device: Any, queue: Any, dtype: Any) -> bool:
    """Whether x or the result needs a larger buffer than the device allows."""
    widest = max(_extent(x), x.size * np.dtype(dtype or x.dtype).itemsize)
    return widest > limit_of(_device_of(device, queue))


def _extent(x: np.ndarray) -> int:
    """The bytes from an array's first element to its last one, inclusive."""
    low, high = byte_range(x)
    return high - low


def scan_in_pieces(run: Callable[..., Any], x: np.ndarray, request: Any, where: dict[str, Any]) -> Any:
    """Scan a large NumPy array by calling `run` for pieces that fit. `where` holds out, device, queue and wait_for."""
    value = arguments.value_dtype(x.dtype.newbyteorder("="), request.dtype, request.op)
    heads, out = request.segments[1], where["out"]
    if heads is not None:
        heads = np.asarray(heads)
        if heads.shape != x.shape:
            raise InvalidArgument(f"segments has shape {heads.shape}; it must have the shape of x, {x.shape}")
    if request.axis is None:
        with host_allocation():
            x = np.ascontiguousarray(x).reshape(-1)
            heads = np.ascontiguousarray(heads).reshape(-1) if heads is not None else None
        axis = 0
    else:
        axis = axis_of(request.axis, x.ndim)
    if out is None:
        result = fresh(x.shape, value)
    elif isinstance(out, np.ndarray):
        placement.check_out(out, x.shape, value, "out")
        result = out
    else:
        raise InvalidArgument(
            f"x has {x.nbytes} bytes and does not fit into one buffer of the device; out must be a NumPy array"
        )
    device = _device_of(where["device"], where["queue"])
    with host_allocation():
        if result is not x and np.may_share_memory(result, x):
            x = x.copy()  # a piece would overwrite elements that later pieces read
        if heads is not None and np.may_share_memory(result, heads):
            heads = heads.copy()
    _Pieces(run, request, device, where, value.itemsize).split(x, heads, result, axis)
    return result


class _Pieces:
    """Cuts arrays into pieces: along the other axes if possible, else along the scanned axis with a carried prefix."""

    def __init__(
        self, run: Callable[..., Any], request: Any, device: Any, where: dict[str, Any], itemsize: int
    ) -> None:
        self.run, self.request, self.device, self.where = run, request, device, where
        self.itemsize = itemsize
        self.limit = limit_of(device)

    def _fits(self, x: np.ndarray, result: np.ndarray) -> bool:
        return max(_extent(x), _extent(result)) <= self.limit

    def split(self, x: np.ndarray, heads: Any, result: np.ndarray, axis: int) -> None:
        """Scan x into result."""
        if self._fits(x, result):
            self._piece(x, heads, result, axis)
            return
        others = [k for k, size in enumerate(x.shape) if k != axis and size > 1]
        if not others:
            self._along(x, heads, result, axis)
            return
        wide = max((x, result), key=_extent)
        k = max(others, key=lambda one: abs(wide.strides[one]) * (wide.shape[one] - 1))
        half = x.shape[k] // 2
        for part in (slice(0, half), slice(half, None)):
            index = tuple(part if d == k else slice(None) for d in range(x.ndim))
            self.split(x[index], None if heads is None else heads[index], result[index], axis)

    def _along(self, x: np.ndarray, heads: Any, result: np.ndarray, axis: int) -> None:
        """Scan one line that is too long for a buffer: pieces in scan order; each passes its last value to the next."""
        n = x.shape[axis]
        widest = max(self.itemsize, abs(x.strides[axis]), abs(result.strides[axis]), 1)
        most = max(self.limit // widest, 1)
        step = most // _GRAIN * _GRAIN or most
        starts = list(range(0, n, step))
        context = self.device.context
        buffers = [create(context, 1, self.itemsize) for _ in range(2)]
        carry = None
        for number, start in enumerate(reversed(starts) if self.request.reverse else starts):
            stop = min(start + step, n)
            index = tuple(slice(start, stop) if d == axis else slice(None) for d in range(x.ndim))
            if number and heads is not None and self._begins_anew(heads, axis, start, stop):
                carry = None
            total = buffers[number % 2]
            self._piece(x[index], None if heads is None else heads[index], result[index], axis, carry, total)
            carry = total

    def _begins_anew(self, heads: np.ndarray, axis: int, start: int, stop: int) -> bool:
        """Whether the key changes between this piece and the previous one. The kernel itself handles flags."""
        if self.request.segments[0] != "keys":
            return False
        line = heads.reshape(-1) if heads.ndim == 1 else np.moveaxis(heads, axis, -1).reshape(-1)
        first, before = (stop - 1, stop) if self.request.reverse else (start, start - 1)
        return bool(line[first] != line[before])

    def _piece(
        self, x: np.ndarray, heads: Any, result: np.ndarray, axis: int, carry: Any = None, total: Any = None
    ) -> None:
        request = self.request._replace(axis=axis, segments=(self.request.segments[0], heads))
        self.run(x, request, {**self.where, "out": result}, carry, total)
