"""Reductions of NumPy arrays larger than the device's largest buffer: pieces are reduced, then their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.pieces import contiguous, delivered, fit, halves, target_of, widest_axis
from pydp.runtime.memory.host_memory import fresh, host_allocation


class PiecewiseReduction:
    """Reduces over `axes` in pieces that fit into `limit` bytes.

    run(piece, init, target): reduces a piece over all of `axes` into `target`, which keeps them with size 1. in_order:
    the operator does not commute; results of pieces are then combined in C order of the reduced axes.
    """

    def __init__(
        self,
        run: Callable[[np.ndarray, Any, np.ndarray], Any],
        axes: tuple[int, ...],
        in_order: bool,
        dtype: np.dtype,
        limit: int,
    ) -> None:
        self.run, self.axes, self.in_order, self.dtype, self.limit = run, axes, in_order, dtype, limit

    def __call__(self, x: np.ndarray, init: Any, keepdims: bool, out: Any) -> np.ndarray:
        """The reduction of x, in `out` or a new array."""
        shape = tuple(1 if k in self.axes else size for k, size in enumerate(x.shape) if keepdims or k not in self.axes)
        target, result = target_of(out, shape, self.dtype, x)
        self._into(x, target if keepdims else np.expand_dims(target, self.axes), init)
        return delivered(target, result)

    def _into(self, x: np.ndarray, target: np.ndarray, init: Any) -> None:
        if 2 * x.nbytes <= self.limit and not fit(self.limit, x):
            x = contiguous(x)  # few elements, far apart
        if fit(self.limit, x, target) and 2 * target.nbytes <= self.limit:
            self.run(x, init, target)
            return
        axis = self._cut(x, target)
        if axis not in self.axes:
            for x_half, target_half in halves(axis, x, target):
                self._into(x_half, target_half, init)
            return
        parts = []
        for (half,) in halves(axis, x):
            parts.append(fresh(target.shape, self.dtype))
            self._into(half, parts[-1], None)
        with host_allocation():
            both = np.concatenate(parts, axis)
        self.run(both, init, target)

    def _cut(self, x: np.ndarray, target: np.ndarray) -> int:
        """The axis to halve."""
        if not fit(self.limit, target) or 2 * target.nbytes > self.limit:  # the results of two halves must fit, too
            return widest_axis([target])
        axis = widest_axis([x])
        if axis in self.axes and self.in_order:
            return next(k for k in self.axes if x.shape[k] > 1)
        return axis
