"""Check whether elements of one strided array share memory. Such an array can be read, but not written."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_MOST_WORK: Any = 100_000  # limit of NumPy's search for two indexes with one address (about a millisecond)
_MOST_ELEMENTS = 1 << 22  # up to this size, all addresses are compared if the search exceeds its limit


@functools.lru_cache(maxsize=4096)
def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether two elements of an array overlap. `strides` and `item`, the element size, are in the same unit.

    The result is exact, with one exception: it is True for arrays of millions of elements if NumPy's search does not
    decide within its limit.

    >>> overlaps_itself((17, 9), (4, 4), 4), overlaps_itself((3, 2), (8, 12), 4)
    (True, False)
    """
    if 0 in shape:
        return False
    # The sign of a stride and the order of the axes do not change the set of addresses.
    axes = sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    reach = item
    for stride, size in axes:
        if stride < reach:
            return _collides(axes, item)
        reach += stride * (size - 1)
    return False


def _collides(axes: list[tuple[int, int]], item: int) -> bool:
    """Whether axes whose ranges interleave make elements overlap.

    The distance of two elements that differ first along an axis equals the distance of the first element of that axis
    and a later one. Each axis therefore needs one search: its first element against the later ones.
    """
    if axes[0][0] == 0:
        return True
    try:
        for place in range(len(axes)):
            (stride, size), rest = axes[place], axes[place + 1 :]
            first = _Places([n for _, n in rest], [step for step, _ in rest], 0, item)
            later = _Places([size - 1, *first.shape], [stride, *first.strides], stride, item)
            if np.shares_memory(np.asarray(first), np.asarray(later), max_work=_MOST_WORK):
                return True
        return False
    except (np.exceptions.TooHardError, OverflowError):
        return _all_addresses_collide(axes, item)


class _Places:
    """An array interface that starts at the fictitious address `start`; its memory is never accessed."""

    def __init__(self, shape: list[int], strides: list[int], start: int, item: int) -> None:
        self.shape = shape
        self.strides = strides
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{item}",
            "shape": tuple(shape),
            "strides": tuple(strides),
            "data": (1 + start, True),  # NumPy treats address 0 as null
        }


def _all_addresses_collide(axes: list[tuple[int, int]], item: int) -> bool:
    count = 1
    for _, size in axes:
        count *= size
    if count > _MOST_ELEMENTS:
        return True
    starts = np.zeros(1, np.int64)
    for stride, size in axes:
        starts = (starts[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    starts.sort()
    return bool((np.diff(starts) < item).any())
