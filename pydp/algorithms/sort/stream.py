"""Sorts of NumPy arrays larger than the device's largest buffer.

Rows that fit, also with the scratch memory of the kernels, are sorted as they are, in groups. A longer row is sorted in
two passes:

1. Runs of a piece's length are sorted on the device.
2. A sample of all runs, sorted on the device, gives splitters. Binary searches find each splitter's position in each
   run, so the elements between two splitters are one slice of each run. The slices fit into one piece together, which
   the device sorts stably.

A splitter is an element and its position, so equal elements are separated, too. All comparisons are the device's: key=,
less= and descending= need no second implementation.

Source: H. Shi and J. Schaeffer, Parallel Sorting by Regular Sampling (1992).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.pieces import contiguous, fit, halves, widest_axis
from pydp.algorithms.sort.radix import element_bytes
from pydp.dtypes import native
from pydp.runtime.memory.host_memory import fresh, host_allocation
from pydp.runtime.memory.scratch import size_class

_SHARE = 4  # a piece of a long row is this part of the limit: kernels need scratch memory of its size
_POSITION = np.dtype(np.int64)


class Sorters(NamedTuple):
    """Sorts of arrays that fit, along the last axis, by the call's order.

    keys(x, out): the sorted elements, in `out`. pairs(x, values): (sorted elements, reordered values), both new.
    positions(x, out): the stable argsort, in `out` or a new array.
    """

    keys: Callable[[np.ndarray, np.ndarray], Any]
    pairs: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    positions: Callable[[np.ndarray, np.ndarray | None], np.ndarray]


def scratch_bytes(size: int, dtype: np.dtype, carried: np.dtype | None, positions: bool) -> int:
    """The size of the largest scratch buffer for sorting `size` elements; see `element_bytes` for the others."""
    moved = 0 if carried is None else carried.itemsize
    return size_class(size * max(element_bytes(dtype, carried, positions), moved))


def sort_in_pieces(
    sort: Sorters,
    limit: int,
    x: np.ndarray,
    values: np.ndarray | None,
    keys: np.ndarray | None,
    moved: np.ndarray | None,
) -> None:
    """Sort the rows of x (its last axis) into `keys`, and reorder `values` in the same way into `moved`.

    keys or moved may be None. Without values, the elements' positions in their row are moved. The arrays have one
    shape; the results share no memory with the others.
    """
    given = (x, values, keys, moved)
    arrays = [one for one in given if one is not None]
    others = [k for k in range(x.ndim - 1) if x.shape[k] > 1]
    scratch = scratch_bytes(x.size, x.dtype, None if moved is None else moved.dtype, values is None)
    if fit(limit, *arrays) and scratch <= limit:
        if moved is None:
            assert keys is not None
            sort.keys(x, keys)
        elif values is None:
            sort.positions(x, moved)
        else:
            found, moved[...] = sort.pairs(x, values)
            if keys is not None:
                keys[...] = found
    elif others:
        axis = widest_axis(arrays, others)
        parts = [(None, None) if one is None else [half for (half,) in halves(axis, one)] for one in given]
        for x_part, *rest in zip(*parts, strict=True):
            assert x_part is not None
            sort_in_pieces(sort, limit, x_part, *rest)
    else:
        row = (0,) * (x.ndim - 1)
        _long_row(sort, limit, x[row], *(None if one is None else one[row] for one in (values, keys, moved)))


def _long_row(
    sort: Sorters,
    limit: int,
    x: np.ndarray,
    values: np.ndarray | None,
    keys: np.ndarray | None,
    moved: np.ndarray | None,
) -> None:
    widest = max(one.itemsize for one in (x, values, moved) if one is not None)
    length = max(limit // (_SHARE * widest), 1)
    bounds = [*range(0, x.size, length), x.size]
    run_keys = fresh(x.shape, native(x.dtype))
    run_values = None if moved is None else fresh(x.shape, moved.dtype)
    for start, stop in itertools.pairwise(bounds):
        part = contiguous(x[start:stop])
        if run_values is None:
            sort.keys(part, run_keys[start:stop])
        else:
            carried = np.arange(start, stop, dtype=_POSITION) if values is None else contiguous(values[start:stop])
            run_keys[start:stop], run_values[start:stop] = sort.pairs(part, carried)
    at = 0
    for starts, stops in itertools.pairwise(_cuts(sort, run_keys, bounds, length)):
        slices = [slice(start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]
        part = _joined(run_keys, slices)
        to = slice(at, at + part.size)
        at += part.size
        if run_values is None:
            assert keys is not None
            place = keys[to] if fit(limit, keys[to]) else fresh(part.shape, part.dtype)
            sort.keys(part, place)
            if not np.may_share_memory(place, keys):
                keys[to] = place
        else:
            assert moved is not None
            found, moved[to] = sort.pairs(part, _joined(run_values, slices))
            if keys is not None:
                keys[to] = found


def _joined(x: np.ndarray, slices: list[slice]) -> np.ndarray:
    with host_allocation():
        return np.concatenate([x[one] for one in slices])


def _cuts(sort: Sorters, keys: np.ndarray, bounds: list[int], length: int) -> list[list[int]]:
    """Positions in each sorted run, between which at most `length` elements of all runs together lie.

    bounds: where the runs begin, and where the last one ends.
    """
    begin, end = np.array(bounds[:-1]), np.array(bounds[1:])
    runs = begin.size
    step = max(length // (4 * runs), 1)
    sample = np.concatenate([np.arange(*ends, step) for ends in itertools.pairwise(bounds)])
    share = max(length // step - runs, 1)  # samples between two splitters; each run has at most `step` elements more
    splitters = sample[sort.positions(keys[sample], None)[share::share]]
    home = (np.searchsorted(begin, splitters, "right") - 1)[:, None]  # the run of each splitter
    run = np.arange(runs)[None, :]
    low, high = (np.where(run == home, splitters[:, None], ends) for ends in (begin, end))
    while (low < high).any():
        where = np.nonzero(low < high)
        middle = (low[where] + high[where]) // 2
        element, splitter = keys[middle], keys[splitters[where[0]]]
        earlier = (run < home)[where]  # equal elements of earlier runs come before the splitter
        pairs = np.stack([np.where(earlier, element, splitter), np.where(earlier, splitter, element)], 1)
        changes = sort.positions(pairs, None)[:, 0] == 1
        left = changes == earlier  # the cut is not right of the element
        high[where] = np.where(left, middle, high[where])
        low[where] = np.where(left, low[where], middle + 1)
    return [bounds[:-1], *low.tolist(), bounds[1:]]
