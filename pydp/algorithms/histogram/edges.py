"""Bin edges of histograms: NumPy's edges, the thresholds that a kernel compares values with, and how it searches them.
Pure functions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.errors import InvalidArgument, OutOfResources, shown
from pydp.runtime.bounded import BoundedCache

_MOST_REMEMBERED = 4096  # bins of calls whose edges are kept
_remembered: BoundedCache = BoundedCache(64)


class Binning(NamedTuple):
    """The bins of a call and how kernels search them. Calls with equal keys have equal bins; None: no key.

    edges: NumPy's edges. within: the edges that values can reach. search: None if the bin index is the value itself.
    """

    key: tuple[Any, ...] | None
    edges: np.ndarray
    within: np.ndarray
    search: Search | None

    @property
    def even(self) -> bool | None:
        """Whether the search needs no table; None without a search."""
        return None if self.search is None else self.search.least is None


def binning(sample: np.ndarray, bins: Any, limits: Any) -> Binning:
    """The bins of a call; see `edges_of`."""
    key = None if sample.size else _key(sample.dtype, bins, limits)
    if key is None:
        return _binning(key, sample, bins, limits)
    found: Binning = _remembered.get(key) or _remembered.make(key, _binning, key, sample, bins, limits)
    return found


def _key(dtype: np.dtype, bins: Any, limits: Any) -> tuple[Any, ...] | None:
    """A key for the edges of these arguments, or None for rare types of arguments and for many bins."""
    if isinstance(bins, (list, tuple)) and len(bins) <= _MOST_REMEMBERED:
        try:
            bins = np.asarray(bins)
        except (TypeError, ValueError):
            return None
    if isinstance(bins, np.ndarray) and bins.dtype.kind in "biuf" and bins.size <= _MOST_REMEMBERED:
        of_bins: tuple[Any, ...] = (bins.dtype.str, bins.shape, bins.tobytes())
    elif isinstance(bins, (int, np.integer)) and bins <= _MOST_REMEMBERED:
        of_bins = (type(bins), int(bins))
    else:
        return None
    if limits is None:
        return dtype.str, of_bins, None
    if not isinstance(limits, (list, tuple)) or not all(isinstance(end, (int, float, np.number)) for end in limits):
        return None
    return dtype.str, of_bins, tuple((type(end), repr(end)) for end in limits)


def _binning(key: tuple[Any, ...] | None, sample: np.ndarray, bins: Any, limits: Any) -> Binning:
    dtype, edges = sample.dtype, edges_of(sample, bins, limits).copy()  # NumPy returns an array of edges itself
    within = reached(dtype, edges)
    found = None
    if len(within) > 1 and not are_values(dtype, edges):
        found = search(within, dtype, np.ndim(bins) == 0, ends_of(sample, bins, limits))
    return Binning(key, edges, within, found)


def no_values(dtype: np.dtype) -> np.ndarray:
    """An empty array of the dtype for which NumPy computes edges."""
    return np.zeros(0, dtype if dtype.kind != "b" else np.uint8)


def edges_of(sample: np.ndarray, bins: Any, limits: Any) -> np.ndarray:
    """NumPy's edges. sample: the minimum and maximum of the data if no range is given, else empty."""
    if isinstance(bins, str):
        raise InvalidArgument(f"bins={shown(bins)} is not supported; a number of bins or an array of edges is accepted")
    if isinstance(bins, (int, np.integer)) and bins > sys.maxsize // 16:
        raise OutOfResources(f"the edges of bins={bins} do not fit into the address space")
    try:
        edges = np.histogram_bin_edges(sample, bins, limits)
        if edges.dtype.kind not in "biuf" or np.isnan(edges).any():
            raise TypeError(f"the edges are {edges}; integers and floats without NaN are accepted")
        if not edges.size:
            raise ValueError("bins contains no edge")
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"bins={shown(bins)} with range={shown(limits)} is invalid: {error}") from error
    except MemoryError as error:
        raise OutOfResources(f"the edges of bins={shown(bins)} need more memory than there is: {error}") from error
    return edges


def reached(dtype: np.dtype, edges: np.ndarray) -> np.ndarray:
    """The edges up to the first one above all values of a 64-bit integer dtype (the last edge does not count).

    Bins beyond that edge stay empty, and the kernel's edges have this dtype, which cannot represent such an edge."""
    if dtype.kind == "f" or dtype.itemsize < 8 or edges.dtype.kind == "b":
        return edges
    most = int(np.iinfo(dtype).max)
    above = np.flatnonzero(edges[:-1] >= float(most + 1) if edges.dtype.kind == "f" else edges[:-1] > most)
    return edges[: above[0] + 1] if above.size else edges


def ends_of(sample: np.ndarray, bins: Any, limits: Any) -> tuple[int, int] | None:
    """The integer ends of the range of equal bins: the float edges may round them. None if there are no such ends."""
    if np.ndim(bins) != 0:
        return None
    ends = list(sample if limits is None else limits)
    if len(ends) != 2 or not all(isinstance(end, (int, np.integer)) for end in ends) or ends[0] == ends[1]:
        return None
    return int(ends[0]), int(ends[1])


def are_values(dtype: np.dtype, edges: np.ndarray) -> bool:
    """Whether each value of the dtype has its own bin, such as 256 bins from 0 to 256 for uint8 images."""
    if dtype.kind != "u" or len(edges) - 2 != np.iinfo(dtype).max:
        return False
    return np.array_equal(edges, np.arange(len(edges)))


def thresholds(edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The edges in a kernel's dtype. Comparisons with them give the same results as with the exact edges.

    >>> thresholds(np.array([0, 0.7, 1]), np.dtype(np.float32))[1] > 0.7
    np.True_
    """
    return _nearest(edges, dtype) if dtype.kind == "f" else _whole(edges, dtype)


def _nearest(edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Edges as floats of another precision: v >= e is v >= (the smallest float not below e). For the last edge, v <= e
    is v <= (the largest float not above e)."""
    with np.errstate(over="ignore"):
        near = edges.astype(dtype)
        found = np.where(near < edges, np.nextafter(near, dtype.type(np.inf)), near)
        if near[-1] > edges[-1]:
            found[-1] = np.nextafter(near[-1], dtype.type(-np.inf))
        else:
            found[-1] = near[-1]
    return found


def _whole(edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Edges as integers: v >= e is v >= ceil(e). For the last edge, v <= e is v <= floor(e)."""
    least, most = (int(limit) for limit in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    # Infinite edges cannot be converted to integers.
    ends = np.clip(edges.astype(np.float64), -(2.0**65), 2.0**65) if edges.dtype.kind == "f" else edges
    whole = [int(np.ceil(edge)) for edge in ends[:-1]] + [int(np.floor(ends[-1]))]
    if whole[-1] < least:  # no value is this small: make all bins empty
        whole[0], whole[-1] = most, least
    return np.array([min(max(value, least), most) for value in whole], dtype)


# --- the search for the slot of a value (kernels_cl/histogram_bins.mako) ---------------------------------

_MOST_EVEN = 1 << 19  # bins; a float32 guess is then closer than an eighth of a bin
_FEW_CELLS = 4096  # cells of a table that stays in the L1 cache; a bin has 64 cells if the table has at most this many
_MOST_CELLS = 1 << 18  # maximum cells of a table; a bin has at least 4
_NARROW = 1e-30  # narrower ranges of float32 would need denormal or infinite coefficients


def value_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype to which kernels convert values: at least 32 bits."""
    if dtype.kind == "f" or dtype.itemsize == 8:
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return np.dtype(np.int32 if dtype.kind == "i" else np.uint32)


def threshold_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the thresholds: integers are compared as 64-bit integers, half precision as float."""
    if dtype.kind == "f":
        return value_dtype(dtype)
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


@dataclass(frozen=True, eq=False)
class Search:
    """The arguments of a search; see histogram_bins.mako. least: the table, None for equal bins."""

    thresholds: np.ndarray
    first: np.generic
    scale: np.floating
    shift: np.floating
    cells: int
    top: int
    least: np.ndarray | None
    most: int


def search(edges: np.ndarray, dtype: np.dtype, equal: bool, ends: tuple[int, int] | None = None) -> Search:
    """How kernels search the edges for values of `dtype`. ends: integers that replace the first and the last edge.

    Equal bins need no table, unless rounding makes a guess wrong by half a bin: there are too many bins, or their range
    is narrow and far from zero."""
    wide, bins = value_dtype(dtype), len(edges) - 1
    bounds = thresholds(edges, threshold_dtype(dtype))
    top = bins + 1
    if wide.kind == "f":
        with np.errstate(over="ignore"):
            bounds[-1] = np.nextafter(bounds[-1], wide.type(np.inf)) if bounds[-1] < np.inf else np.nan
            finite = bounds[np.isfinite(bounds)]
            first, last = (finite[0], finite[-1]) if finite.size else (wide.type(0), wide.type(0))
            width = float(last) - float(first)
    else:
        least, most = int(np.iinfo(bounds.dtype).min), int(np.iinfo(bounds.dtype).max)
        if ends is not None and ends[0] <= most and ends[1] >= least:  # else no value is in range
            bounds[[0, -1]] = max(ends[0], least), min(ends[1], most)
        if bounds[-1] == most:
            top = bins
        elif edges[-1] >= least:  # else all values are above
            bounds[-1] += 1
        low, high = (int(limit) for limit in (np.iinfo(wide).min, np.iinfo(wide).max))
        first = wide.type(min(max(int(bounds[0]), low), high))
        width = float(min(max(int(bounds[-1]), low), high) - int(first))
    real = np.float64 if wide == np.float64 else np.float32
    if equal and bins <= _MOST_EVEN:
        with np.errstate(over="ignore"):
            span = float(edges[-1]) - float(edges[0])
        scale = bins / span if span > _NARROW else 0.0
        usable = scale >= np.finfo(real).tiny  # a product with 0 has no order
        below = float(first) - float(edges[0]) if wide.kind == "f" else float(int(first) - int(edges[0])) + (
            float(int(edges[0])) - float(edges[0])
        )  # fmt: skip
        found = Search(bounds, first, real(scale), real(below * scale + 0.5), bins, top, None, 1)
        if usable and _nearest_edges(found):
            return found
    cells = min(max(4 * bins, min(64 * bins, _FEW_CELLS)), _MOST_CELLS)
    scale = (cells - 1) / width if np.isfinite(width) and width > _NARROW else 0.0
    return _with_table(Search(bounds, first, real(scale), real(0), cells - 1, top, None, 1))


def _guesses(given: Search, values: np.ndarray) -> np.ndarray:
    """A kernel's guesses of values of the thresholds' dtype. A kernel then limits them to `cells`, and rounds down."""
    real = type(given.scale)
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind == "f":
            above = values.astype(real) - given.first
        else:
            raised = np.maximum(values, values.dtype.type(int(given.first)))
            above = (raised.view(np.uint64) - np.uint64(int(given.first) % 2**64)).astype(real)
        found = above * given.scale + given.shift
        return np.clip(np.where(np.isnan(found), 0, found), 0, 2 * given.cells).astype(np.float64)


def _nearest_edges(given: Search) -> bool:
    """Whether each guess is the nearest threshold: threshold b is guessed as b, and so is the value just below. A tenth
    of a bin remains for other roundings than NumPy's."""
    bounds = given.thresholds
    if bounds.dtype.kind == "f":
        with np.errstate(over="ignore"):
            below = np.nextafter(bounds, bounds.dtype.type(-np.inf))
    else:
        below = np.where(bounds > int(given.first), bounds - bounds.dtype.type(1), bounds.dtype.type(int(given.first)))
    places = np.arange(bounds.size)
    high_enough, low_enough = _guesses(given, bounds) >= places + 0.1, _guesses(given, below) <= places + 0.9
    return bool(high_enough.all() and low_enough[:-1].all())  # guesses are limited to the last edge


def _with_table(given: Search) -> Search:
    """The search with its table: of each cell, the number of thresholds below all its values."""
    bins, cells = given.thresholds.size - 1, given.cells + 1
    guesses = _guesses(given, given.thresholds)
    if given.thresholds.dtype.kind == "f" and np.isnan(given.thresholds[-1]):
        guesses[-1] = given.cells  # no value reaches it
    slack = 1e-3 + guesses * 2.0**-20  # for other roundings than NumPy's
    lowest = np.clip(np.floor(guesses - slack), 0, given.cells)
    highest = np.clip(np.floor(guesses + slack), 0, given.cells)
    every = np.arange(cells)
    low = np.searchsorted(highest, every, "left")  # thresholds of earlier cells only
    high = np.searchsorted(lowest, every, "right")
    most = max(1, int((high - low).max()))
    low = np.minimum(low, bins + 1 - most).astype(np.int32)
    return Search(given.thresholds, given.first, given.scale, given.shift, given.cells, given.top, low, most)
