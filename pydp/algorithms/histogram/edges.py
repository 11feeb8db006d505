"""Bin edges of histograms: NumPy's edges, and the thresholds that a kernel compares values with. Pure functions."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, OutOfResources


def no_values(dtype: np.dtype) -> np.ndarray:
    """An empty array of the dtype for which NumPy computes edges."""
    return np.zeros(0, dtype if dtype.kind != "b" else np.uint8)


def edges_of(sample: np.ndarray, bins: Any, limits: Any) -> np.ndarray:
    """NumPy's edges. sample: the minimum and maximum of the data if no range is given, else empty."""
    if isinstance(bins, str):
        raise InvalidArgument(f"bins={bins!r} is not supported; a number of bins or an array of edges is accepted")
    if isinstance(bins, (int, np.integer)) and bins > sys.maxsize // 16:
        raise OutOfResources(f"the edges of bins={bins} do not fit into the address space")
    try:
        edges = np.histogram_bin_edges(sample, bins, limits)
        if edges.dtype.kind not in "biuf" or np.isnan(edges).any():
            raise TypeError(f"the edges are {edges}; integers and floats without NaN are accepted")
        if not edges.size:
            raise ValueError("bins contains no edge")
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"bins={bins!r} with range={limits!r} is invalid: {error}") from error
    except MemoryError as error:
        raise OutOfResources(f"the edges of bins={bins!r} need more memory than there is: {error}") from error
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
