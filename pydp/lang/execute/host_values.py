"""Values of many lanes at once: uniform scalars, affine indexes, and arrays over the axes of lanes.

A value is one of: a NumPy scalar (uniform); an :class:`Affine` (an integer that changes by a constant step along each
axis of lanes, and becomes an array only on demand); an array with one axis for each axis of lanes, of extent 1 along
axes where the value does not change.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

Mask = Any  # True (all lanes), False (no lane) or an array of bools over the lanes
_ALL_BITS = 2**64 - 1  # mask of the widest integers: Python integers are reduced to 64 bits before NumPy gets them


@dataclass(frozen=True)
class Affine:
    """base + sum(steps[k] * position[k]) over the axes of lanes. The value fits `dtype` in every lane."""

    base: int
    steps: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def low(self) -> int:
        """The smallest value over all lanes, before wrapping."""
        return self.base + sum(min(0, step * (n - 1)) for step, n in zip(self.steps, self.shape, strict=True))

    @property
    def high(self) -> int:
        """The largest value over all lanes, before wrapping."""
        return self.base + sum(max(0, step * (n - 1)) for step, n in zip(self.steps, self.shape, strict=True))

    def array(self) -> np.ndarray:
        """The value in each lane as an array, of extent 1 along axes where it does not change."""
        rank = len(self.shape)
        value = np.full((1,) * rank, self.base & _ALL_BITS, np.uint64)
        for axis, step in enumerate(self.steps):
            if step:
                along = [1] * rank
                along[axis] = self.shape[axis]
                places = np.arange(self.shape[axis], dtype=np.uint64) * np.uint64(step & _ALL_BITS)
                value = value + places.reshape(along)
        return value.astype(self.dtype)


@functools.lru_cache(maxsize=64)
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def affine(base: int, steps: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An affine value; a scalar if it is uniform, an array if it wraps."""
    steps = tuple(step if n > 1 else 0 for step, n in zip(steps, shape, strict=True))
    value = Affine(base, steps, shape, dtype)
    lowest, highest = _limits(dtype)
    if lowest <= value.low and value.high <= highest:
        return value if any(steps) else dtype.type(base)
    return value.array() if any(steps) else np.asarray(base & _ALL_BITS, np.uint64).astype(dtype)[()]


def is_uniform(value: Any) -> bool:
    """Whether the value is known to be the same in all lanes."""
    return not isinstance(value, Affine) and np.ndim(value) == 0


def materialize(value: Any) -> Any:
    """The value as a NumPy scalar or array."""
    return value.array() if isinstance(value, Affine) else value


def bounds_of(value: Any) -> tuple[int, int]:
    """The smallest and the largest value of an integer over all lanes."""
    if isinstance(value, Affine):
        return value.low, value.high
    if np.ndim(value) == 0:
        return int(value), int(value)
    return int(value.min()), int(value.max())


def combine_affine(op: str, left: Any, right: Any, dtype: np.dtype[Any]) -> Any:
    """``left op right`` as an affine value; None if it is not affine. op: add, sub or mul."""
    if op == "mul":
        if isinstance(left, Affine) and isinstance(right, Affine):
            return None
        one, factor = (left, int(right)) if isinstance(left, Affine) else (right, int(left))
        return affine(one.base * factor, tuple(step * factor for step in one.steps), one.shape, dtype)
    shape = left.shape if isinstance(left, Affine) else right.shape
    sign = -1 if op == "sub" else 1
    (base, steps), (other, more) = (
        (v.base, v.steps) if isinstance(v, Affine) else (int(v), (0,) * len(shape)) for v in (left, right)
    )
    return affine(base + sign * other, tuple(a + sign * b for a, b in zip(steps, more, strict=True)), shape, dtype)


# --- masks -----------------------------------------------------------------------------------------------


def mask_and(left: Mask, right: Mask) -> Mask:
    """The lanes in both masks."""
    if left is False or right is False:
        return False
    if left is True:
        return right
    return left if right is True else left & right


def mask_or(left: Mask, right: Mask) -> Mask:
    """The lanes in at least one of two masks."""
    if left is True or right is True:
        return True
    if left is False:
        return right
    return left if right is False else left | right


def mask_andnot(left: Mask, right: Mask) -> Mask:
    """The lanes in the first mask that are not in the second."""
    if right is False or left is False:
        return left
    if right is True:
        return False
    return ~right if left is True else left & ~right


def normalize(mask: Any) -> Mask:
    """The mask; True or False if it has the same value for all lanes."""
    if mask is True or mask is False:
        return mask
    if np.ndim(mask) == 0:
        return bool(mask)
    if not mask.any():
        return False
    return True if mask.all() else mask
