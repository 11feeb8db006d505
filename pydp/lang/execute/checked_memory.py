"""Shadow memory of checked mode: records the accesses to each unit of memory, and finds races among them.

A region is the memory of arrays that overlap, divided into the largest units that separate their elements and members.
For each unit and kind of access, a shadow stores the lowest and the highest lane. This suffices to detect accesses by
two different lanes, groups, or runs of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pydp.runtime.memory.host_memory import byte_range

# "echo": a lane that wrote the same value as the "write" of the same statement; the two do not race
KINDS = ("write", "echo", "read", "atomic")
RACING = (
    ("write", "write"), ("write", "read"), ("write", "atomic"), ("atomic", "read"), ("echo", "write"), ("echo", "read"),
    ("echo", "atomic"),
)  # fmt: skip
SITE_BITS = 12  # an entry is lane << SITE_BITS | number of the access in the source
SITES = (1 << SITE_BITS) - 1
NO_ENTRY_LOW, NO_ENTRY_HIGH = np.iinfo(np.int64).max, -1

Finding = tuple[int, tuple[str, int], tuple[str, int]]  # unit, then kind and entry of both accesses


class Shadow:
    """The lowest and the highest entry of each kind of access for every unit of a region."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.low: dict[str, np.ndarray] = {}
        self.high: dict[str, np.ndarray] = {}
        self.touched: list[np.ndarray] = []

    def add(self, kind: str, units: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Record accesses of one kind, with the lowest and the highest entry for each unit."""
        if kind not in self.low:
            self.low[kind] = np.full(self.size, NO_ENTRY_LOW)
            self.high[kind] = np.full(self.size, NO_ENTRY_HIGH)
        np.minimum.at(self.low[kind], units, low)
        np.maximum.at(self.high[kind], units, high)
        self.touched.append(units)

    def units(self, groups: np.ndarray | None = None, lanes: int = 1) -> np.ndarray:
        """The units that have entries; only those that lanes of some groups (of `lanes` lanes) accessed."""
        units = np.unique(np.concatenate(self.touched)) if self.touched else np.empty(0, np.int64)
        if groups is None:
            return units
        last = np.full(len(units), NO_ENTRY_HIGH)
        for high in self.high.values():
            last = np.maximum(last, high[units])
        return units[np.isin((last >> SITE_BITS) // lanes, groups)]

    def move(self, units: np.ndarray, into: Shadow | None) -> None:
        """Move the entries of units to another shadow; with None, delete them."""
        kept = np.setdiff1d(self.units(), units, assume_unique=True)
        self.touched = [kept] if len(kept) else []
        for kind, low in self.low.items():
            high = self.high[kind]
            if into is not None:
                held = units[high[units] != NO_ENTRY_HIGH]
                into.add(kind, held, low[held], high[held])
            low[units], high[units] = NO_ENTRY_LOW, NO_ENTRY_HIGH

    def same_writer(self, units: np.ndarray, site: int) -> np.ndarray:
        """A mask of the units that exactly one lane wrote, in the access `site`."""
        if "write" not in self.low:
            return np.zeros(len(units), bool)
        entry = self.low["write"][units]
        return (entry == self.high["write"][units]) & (entry & SITES == site)


def find(shadows: Sequence[Shadow], units: np.ndarray, run: int) -> Finding | None:
    """Two accesses to one unit, at least one of them a write or update, by lanes of different runs of `run` lanes."""
    if not len(units):
        return None
    found: list[Finding] = []
    sides = {kind: _ends(shadows, kind, units) for kind in KINDS}
    for one, other in RACING:
        (low, high), (low_other, high_other) = sides[one], sides[other]
        both = (high != NO_ENTRY_HIGH) & (high_other != NO_ENTRY_HIGH)
        for left, right in ((low, high_other), (high, low_other), (low, low_other), (high, high_other)):
            mask = both & (_run(left, run) != _run(right, run))
            if one == "echo" and other == "write":
                mask &= (left & SITES) != (right & SITES)
            if mask.any():
                at = int(np.argmax(mask))
                kind = "write" if one == "echo" else one
                found.append((int(units[at]), (kind, int(left[at])), (other, int(right[at]))))
                break
    return min(found, key=lambda finding: finding[0]) if found else None


def _ends(shadows: Sequence[Shadow], kind: str, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.full(len(units), NO_ENTRY_LOW), np.full(len(units), NO_ENTRY_HIGH)
    for shadow in shadows:
        if kind in shadow.low:
            low = np.minimum(low, shadow.low[kind][units])
            high = np.maximum(high, shadow.high[kind][units])
    return low, high


def _run(entries: np.ndarray, run: int) -> np.ndarray:
    return (entries >> SITE_BITS) // run


class Region:
    """The memory of arrays that overlap. current: accesses since the last barrier. behind_barriers[w]: older accesses,
    separated only by barriers of width w. launch: accesses of the whole launch; None if only one group can access it.
    """

    def __init__(self, arrays: Sequence[np.ndarray], between_groups: bool) -> None:
        ends = [byte_range(array) for array in arrays]
        self.base = min(low for low, _ in ends)
        self.unit = _unit(arrays, self.base)
        self.size = max(high for _, high in ends) - self.base
        self.size = max(1, self.size // self.unit)
        self.current = Shadow(self.size)
        self.behind_barriers: dict[int, Shadow] = {}
        self.launch = Shadow(self.size) if between_groups else None
        self.written = np.zeros(self.size, bool)

    def units_of(self, memory: np.ndarray, at: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The units of elements, one row per element. `memory` may be a view of a record member."""
        first = np.full(count, memory.__array_interface__["data"][0] - self.base, np.int64)
        for index, stride in zip(at, memory.strides, strict=True):
            first = first + index * stride
        return (first // self.unit)[:, None] + np.arange(memory.dtype.itemsize // self.unit)


def _unit(arrays: Sequence[np.ndarray], base: int) -> int:
    unit = 0
    for array in arrays:
        address = array.__array_interface__["data"][0]
        unit = math.gcd(unit, address - base, *array.strides, *_sizes(array.dtype, 0))
    return max(1, unit)


def _sizes(dtype: np.dtype[Any], offset: int) -> Iterator[int]:
    """The sizes and offsets in bytes of a dtype's members."""
    yield dtype.base.itemsize
    yield offset
    dtype = dtype.base
    for name in dtype.names or ():
        assert dtype.fields is not None
        yield from _sizes(*dtype.fields[name][:2])
