"""Values of many lanes at once: uniform scalars, affine indexes, and arrays over the axes of lanes.

A value is one of: a NumPy scalar (uniform); an :class:`Affine` (an integer that changes by a constant step along each
axis of lanes, and becomes an array only on demand); an array with one axis for each axis of lanes, of extent 1 along
axes where the value does not change.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir, numpy_math
from pydp.lang.intrinsics import BINARY, COMPARISONS, FUNCTIONS, UNARY

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


# --- operations (see :class:`pydp.lang.execute.lanes.Lanes`) ----------------------------------------------


def unary(op: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """op value."""
    if op == "neg" and isinstance(value, Affine):
        return combine_affine("mul", value, -1, dtype)
    return UNARY[op].numpy(materialize(value))


def binary(op: str, left: Any, right: Any, dtype: np.dtype[Any]) -> Any:
    """left op right."""
    if isinstance(left, Affine) or isinstance(right, Affine):
        partner = right if isinstance(left, Affine) else left
        if op in ("add", "sub", "mul") and (isinstance(partner, Affine) or is_uniform(partner)):
            value = combine_affine(op, left, right, dtype)
            if value is not None:
                return value
        left, right = materialize(left), materialize(right)
    return BINARY[op].numpy(left, right)


def compare(op: str, left: Any, right: Any) -> Any:
    """left op right as a bool."""
    if isinstance(left, Affine) or isinstance(right, Affine):
        decided = _decided_by_ranges(op, left, right)
        if decided is not None:
            return decided
        left, right = materialize(left), materialize(right)
    if left.dtype.names is not None:
        return (left == right) if op == "eq" else (left != right)
    return COMPARISONS[op].numpy(left, right)


def _decided_by_ranges(op: str, left: Any, right: Any) -> np.bool_ | None:
    """The result of a comparison if the ranges of its operands decide it for all lanes; else None."""
    if not all(isinstance(side, Affine) or (is_uniform(side) and side.dtype.kind in "iu") for side in (left, right)):
        return None
    (a, b), (c, d) = bounds_of(left), bounds_of(right)
    if b < c:
        return np.bool_(op in ("lt", "le", "ne"))
    if a > d:
        return np.bool_(op in ("gt", "ge", "ne"))
    if b == c and op in ("le", "gt"):
        return np.bool_(op == "le")
    if a == d and op in ("ge", "lt"):
        return np.bool_(op == "ge")
    return None


def logical(op: str, left: Any, right: Any) -> Any:
    """left op right of bools."""
    return np.logical_and(left, right) if op == "and" else np.logical_or(left, right)


def merge(mask: Any, new: Any, old: Any) -> Any:
    """`new` in the lanes of a mask, `old` in the other lanes."""
    return np.where(mask, materialize(new), materialize(old))


select = merge


def cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """The value converted to `dtype`."""
    if isinstance(value, Affine):
        if dtype.kind in "iu":
            return affine(value.base, value.steps, value.shape, dtype)
        value = value.array()
    return value if value.dtype == dtype else numpy_math.cast(value, dtype)


def apply(name: str, values: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    """The function `name` of values."""
    value = FUNCTIONS[name].numpy(*map(materialize, values))
    return value if value.dtype == dtype else value.astype(dtype)


def member(record: Any, member: ir.Member) -> Any:
    """The member of a record."""
    value = ir.member_of(record, member.record.dtype, (member.name,))
    return value if np.ndim(value) else value[()]


def make_record(values: Sequence[Any], dtype: np.dtype[Any]) -> Any:
    """A record from the values of its members."""
    arrays = [materialize(value) for value in values]
    record = np.zeros(np.broadcast_shapes(*(np.shape(value) for value in arrays)), dtype)
    for name, value in zip(dtype.names or (), arrays, strict=True):
        record[name] = value
    return record[()]
