"""Whether the elements of one strided array share memory: such an array can be read, but not written."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_MOST_WORK: Any = 100_000  # steps of NumPy's search for two places of one address (about a millisecond)
_MOST_ELEMENTS = 1 << 22  # up to which addresses are compared one by one, where the search takes too long


@functools.lru_cache(maxsize=4096)
def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """Whether two different elements, of `item` units each and `strides` units apart, have a unit in common.

    The answer is exact; only for arrays of millions of elements whose strides interleave in ways that NumPy's search
    does not decide in its limit is it True without proof.

    >>> overlaps_itself((17, 9), (4, 4), 4), overlaps_itself((3, 2), (8, 12), 4)
    (True, False)
    """
    if 0 in shape:
        return False
    # Backwards or forwards, and in whichever order of axes, the same places are reached.
    axes = sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    reach = item
    for stride, size in axes:
        if stride < reach:
            return _collides(axes, item)
        reach += stride * (size - 1)
    return False


def _collides(axes: list[tuple[int, int]], item: int) -> bool:
    """Whether axes that reach into one another really meet.

    Two elements that differ first along one of the axes are as far apart as the first element of that axis and a later
    one, so for each axis the search is for a place that its first element shares with the later ones.
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
    """What NumPy takes for an array on places `start` and on of an imagined memory; nothing is read or written."""

    def __init__(self, shape: list[int], strides: list[int], start: int, item: int) -> None:
        self.shape = shape
        self.strides = strides
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{item}",
            "shape": tuple(shape),
            "strides": tuple(strides),
            "data": (1 + start, True),  # an address of 0 would stand for none
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
