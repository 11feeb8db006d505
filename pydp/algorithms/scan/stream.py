"""Scans of NumPy arrays larger than the device's largest buffer: piece by piece, with a carried prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of
from pydp.algorithms.pieces import (
    after_events,
    buffer_limit,
    contiguous,
    delivered,
    device_of,
    fit,
    halves,
    target_of,
    widest_axis,
)
from pydp.algorithms.scan import arguments
from pydp.errors import InvalidArgument
from pydp.runtime.memory.host_memory import create

_GRAIN = 1 << 10  # a piece is a multiple of 1024 elements: each piece starts at a cache line


def scan_in_pieces(run: Callable[..., Any], x: np.ndarray, request: Any, where: dict[str, Any]) -> Any:
    """Scan a large NumPy array by calling `run` for pieces that fit. `where` holds out, device, queue and wait_for."""
    where = after_events(where)
    value = arguments.value_dtype(x.dtype.newbyteorder("="), request.dtype, request.op)
    heads = request.segments[1]
    if heads is not None:
        heads = np.asarray(heads)
        if heads.shape != x.shape:
            raise InvalidArgument(f"segments has shape {heads.shape}; it must have the shape of x, {x.shape}")
    if request.axis is None:
        x = contiguous(x).reshape(-1)
        heads = contiguous(heads).reshape(-1) if heads is not None else None
        axis = 0
    else:
        axis = axis_of(request.axis, x.ndim)
    others = [x] if x is not where["out"] else []  # in place is possible
    others += [heads] if heads is not None else []
    target, result = target_of(where["out"], x.shape, value, *others)
    device = device_of(where)
    _Pieces(run, request, device, where, value.itemsize).split(np.asarray(x), heads, target, axis)
    return delivered(target, result)


class _Pieces:
    """Cuts arrays into pieces: along the other axes if possible, else along the scanned axis with a carried prefix."""

    def __init__(
        self, run: Callable[..., Any], request: Any, device: Any, where: dict[str, Any], itemsize: int
    ) -> None:
        self.run, self.request, self.device, self.where = run, request, device, where
        self.itemsize = itemsize
        self.limit = buffer_limit(where)

    def split(self, x: np.ndarray, heads: Any, result: np.ndarray, axis: int) -> None:
        """Scan x into result."""
        arrays = (x, result) if heads is None else (x, result, heads)
        if fit(self.limit, *arrays):
            self._piece(x, heads, result, axis)
            return
        others = [k for k, size in enumerate(x.shape) if k != axis and size > 1]
        if not others:
            self._along(x, heads, result, axis)
            return
        for x_half, result_half, *heads_half in halves(widest_axis(arrays, others), *arrays):
            self.split(x_half, heads_half[0] if heads_half else None, result_half, axis)

    def _along(self, x: np.ndarray, heads: Any, result: np.ndarray, axis: int) -> None:
        """Scan one line that is too long for a buffer: pieces in scan order; each passes its last value to the next."""
        n = x.shape[axis]
        arrays = (x, result) if heads is None else (x, result, heads)
        widest = max(self.itemsize, *(abs(one.strides[axis]) for one in arrays))
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
