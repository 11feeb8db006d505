"""Intervals of integers: the range of an operation's result from the ranges of its operands, and the ranges of the
counter and of the trip count of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Range = tuple[int, int]  # the least and the greatest value

INT32_RANGE: Range = (-(1 << 31), (1 << 31) - 1)
# `_NO_BOUND` stands for "no bound". The results of operations on it, even of a division by a 64-bit number, are above
# `_MOST`; `bounded` then restores it.
_NO_BOUND, _MOST = 1 << 300, 1 << 100
UNBOUNDED: Range = (-_NO_BOUND, _NO_BOUND)


def bounded(value: Range) -> Range:
    """The range with ends beyond `_MOST` replaced by "no bound"."""
    low, high = value
    return low if abs(low) < _MOST else UNBOUNDED[low > 0], high if abs(high) < _MOST else UNBOUNDED[high > 0]


def limits(dtype: np.dtype[Any]) -> Range:
    """The range of an integer type."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def within(value: Range, ends: Range) -> bool:
    return ends[0] <= value[0] and value[1] <= ends[1]


def hull(values: Iterable[Range]) -> Range:
    found = list(values)
    return min(one[0] for one in found), max(one[1] for one in found)


def common_part(left: Range, right: Range) -> Range:
    """The intersection; `left` if it is empty."""
    low, high = max(left[0], right[0]), min(left[1], right[1])
    return (low, high) if low <= high else left


def wrapped(value: Range, dtype: np.dtype[Any]) -> Range:
    """The range of values that have wrapped to a type."""
    ends = limits(dtype)
    return value if within(value, ends) else ends


def counter_range(start: Range, stop: Range, step: Range) -> Range:
    """The range of the counter of ``for i in range(start, stop, step)``, if the loop runs an iteration."""
    if step[0] > 0:
        return start[0], stop[1] - 1
    if step[1] < 0:
        return stop[0] + 1, start[1]
    return min(start[0], stop[0] + 1), max(start[1], stop[1] - 1)


def trip_count(distance: Range, step: Range) -> Range:
    """The range of the trip count of ``for i in range(start, stop, step)``. distance: the range of stop - start."""
    if step[1] < 0:
        distance, step = (-distance[1], -distance[0]), (-step[1], -step[0])
    if step[0] <= 0:
        return 0, max(-distance[0], distance[1], 0)
    return max(0, -(-distance[0] // step[1])), max(0, -(-distance[1] // step[0]))


def _corners(operation: Callable[[int, int], int], left: Range, right: Range) -> Range:
    found = [operation(a, b) for a in left for b in right]
    return min(found), max(found)


def _quotient(left: Range, right: Range) -> Range:
    parts = [part for part in ((right[0], min(right[1], -1)), (max(right[0], 1), right[1])) if part[0] <= part[1]]
    found = [_corners(lambda a, b: a // b, left, part) for part in parts]
    if right[0] <= 0 <= right[1]:
        found.append((0, 0))
    return hull(found)


def _remainder(left: Range, right: Range) -> Range:
    low, high = min(0, right[0] + 1), max(0, right[1] - 1)
    if left[0] >= 0 and right[0] > 0:
        high = min(high, left[1])
    return low, high


def _bits(left: Range, right: Range) -> Range:
    size = 1 << max(abs(end + (end < 0)).bit_length() for end in (*left, *right))
    return (0 if left[0] >= 0 and right[0] >= 0 else -size), size - 1


def _and(left: Range, right: Range) -> Range:
    positive = [one[1] for one in (left, right) if one[0] >= 0]
    return (0, min(positive)) if positive else _bits(left, right)


def _left_shift(left: Range, right: Range) -> Range:
    if not 0 <= right[0] <= right[1] <= 64:
        return UNBOUNDED
    return _corners(lambda a, b: a << b, left, right)


def _right_shift(left: Range, right: Range) -> Range:
    steps = (min(max(right[0], 0), 64), min(max(right[1], 0), 64)) if right[0] >= 0 else (0, 64)
    return _corners(lambda a, b: a >> b, left, steps)


def _power(left: Range, right: Range) -> Range:
    if not 0 <= right[0] <= right[1] <= 64:
        return UNBOUNDED
    largest = max(abs(left[0]), abs(left[1]), 1) ** right[1]
    return (0 if left[0] >= 0 else -largest), largest


OPERATIONS: dict[str, Callable[[Range, Range], Range]] = {
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "sub": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "mul": lambda left, right: _corners(lambda a, b: a * b, left, right),
    "floordiv": _quotient,
    "mod": _remainder,
    "and": _and,
    "or": _bits,
    "xor": _bits,
    "shl": _left_shift,
    "shr": _right_shift,
    "pow": _power,
}
