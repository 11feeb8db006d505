"""The accesses to one array in one barrier interval, and the lanes of two intervals that depend on each other."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access, racing_lanes

MIX = np.int64(1_000_003)  # combines the indexes of all axes into one number; a collision only widens a barrier
Side = tuple[Access, int]


class _Located(NamedTuple):
    """An access and the elements of its lanes. key: the symbols of the indexes; None: the elements are unknown."""

    access: Access
    key: Any
    lanes: np.ndarray
    elements: np.ndarray


class IntervalAccesses:
    """The accesses to an array in one barrier interval. context: the uniform conditions of unknown outcome that enclose
    all of them. conservative: assume that a statement writes different values in different iterations unless they are
    known to be equal, and that lanes may be outside the grid, where writes to arguments are dropped."""

    def __init__(self, conservative: bool) -> None:
        self._conservative = conservative
        self.accesses: list[_Located] = []
        self._tables: dict[Any, _Table] | None = None
        self._context: tuple[int, ...] | None = None
        self._content: Hashable = None

    @property
    def content(self) -> Hashable:
        """A key: objects with equal content require equal widths towards any other object."""
        if self._content is None:
            writes: dict[Hashable, int] = {}
            self._content = tuple(
                (one.kind, one.site and one.site.uid, _write_number(one, writes, self._conservative),
                 one.certain and not one.context, key, lanes.tobytes(), elements.tobytes())
                for one, key, lanes, elements in self.accesses
            )  # fmt: skip
        return self._content

    @property
    def context(self) -> tuple[int, ...]:
        return self._context or ()

    def add(self, access: Access, known: bool) -> None:
        """Add an access. known: the array shares no memory with other arrays, so the indexes identify the elements."""
        self._content = None
        self._context = access.context if self._context is None else _common_prefix(self._context, access.context)
        located = _locate(access) if known else _Located(access, None, access.lanes, access.lanes)
        if len(located.lanes):
            self.accesses.append(located)

    def tables(self) -> dict[Any, _Table]:
        """The elements and the lanes that access them, for each combination of symbols. Key None: unknown elements."""
        if self._tables is None:
            keys = {one.key for one in self.accesses}
            parts = ((key, [one for one in self.accesses if one.key == key]) for key in keys)
            self._tables = {key: _Table(accesses, key is not None, self._conservative) for key, accesses in parts}
        return self._tables

    def required_width(self, later: IntervalAccesses, widths: Sequence[int]) -> int:
        """The narrowest of `widths` for which the lanes of every dependency on a later interval are in one run."""
        width = 1
        for key, table in self.tables().items():
            for other_key, other in later.tables().items():
                same = key is not None and key == other_key
                pairs = table.same_element_pairs(other) if same else table.any_element_pairs(other)
                for low, high in pairs:
                    while width < widths[-1] and (low // width != high // width).any():
                        width = widths[widths.index(width) + 1]
                while same and width < widths[-1] and not table.all_reads_have_writer(other, width):
                    width = widths[widths.index(width) + 1]
        return width

    def find_race(self, later: IntervalAccesses, widths: Collection[int]) -> tuple[Side, Side] | None:
        """An access in this interval and one in a later interval, with their lanes, that certainly race if the barriers
        between them have `widths`; None if there are none."""
        for one in self.accesses:
            for two in later.accesses:
                if one.key is None or one.key != two.key:
                    continue
                unordered = partial(self._unordered, one, two, widths)
                pair = racing_lanes(one.access, one.lanes, two.access, two.lanes, unordered, barriers_between=True)
                if pair is not None:
                    return (one.access, pair[0]), (two.access, pair[1])
        return None

    def _unordered(self, one: _Located, two: _Located, widths: Collection[int]) -> np.ndarray:
        """For each lane of `one` and each lane of `two`, whether both access the same element and no barrier of one of
        `widths` synchronizes them, or synchronizes the reader with another lane that writes the element."""
        result = np.asarray(one.elements[:, None] == two.elements)
        for width in widths:
            result &= one.lanes[:, None] // width != two.lanes // width
            if (one.access.kind, two.access.kind) == ("write", "read"):
                result &= ~self.tables()[one.key].has_writer_within(two.elements, two.lanes, width)
        return result


class _Table:
    """The lowest and the highest lane for each element and kind of access (see `_kind`); high is -1 without an access.

    uniquely_written: the elements that only one statement writes, certainly, and with the same values in all iterations
    of loops. Lanes that write such an element in one interval write equal values (or race), so a barrier must
    synchronize a later reader with only one of them. This does not hold for other elements: a later iteration may
    overwrite the value that the reader needs.
    """

    def __init__(self, accesses: Sequence[_Located], known: bool, conservative: bool) -> None:
        elements = [one.elements if known else np.zeros(len(one.lanes), np.int64) for one in accesses]
        self.elements, place = np.unique(np.concatenate(elements), return_inverse=True)
        count = len(self.elements)
        kinds = {_kind(one.access) for one in accesses}
        self.low = {kind: np.full(count, np.iinfo(np.int64).max) for kind in kinds}
        self.high = {kind: np.full(count, -1) for kind in kinds}
        self.lanes = np.concatenate([one.lanes for one in accesses])
        self.place = place
        self.writes = np.concatenate([np.full(len(one.lanes), one.access.kind == "write") for one in accesses])
        self.reads = np.concatenate([np.full(len(one.lanes), one.access.kind == "read") for one in accesses])
        first_write, last_write = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
        writes: dict[Hashable, int] = {}
        start = 0
        for access, _, lanes, _ in accesses:
            at = place[start : start + len(lanes)]
            start += len(lanes)
            np.minimum.at(self.low[_kind(access)], at, lanes)
            np.maximum.at(self.high[_kind(access)], at, lanes)
            if access.kind == "write":
                number = _write_number(access, writes, conservative)
                first_write[at] = np.minimum(first_write[at], number)
                last_write[at] = np.maximum(last_write[at], number)
                # Writes of lanes outside the grid are dropped.
                may_be_dropped = conservative and isinstance(access.array, ir.GlobalArray)
                if may_be_dropped or not access.certain or access.context:
                    last_write[at] = np.iinfo(np.int64).max
        self.uniquely_written = first_write == last_write

    def all_reads_have_writer(self, later: _Table, width: int) -> bool:
        """Whether every later read of a uniquely written element has a writer in its run of `width` lanes."""
        wanted = later.reads & np.isin(later.elements, self.elements[self.uniquely_written])[later.place]
        return bool(self.has_writer_within(later.elements[later.place[wanted]], later.lanes[wanted], width).all())

    def has_writer_within(self, elements: np.ndarray, lanes: np.ndarray, width: int) -> np.ndarray:
        """A mask of reads of `elements` by `lanes`: the element is uniquely written and has a writer in the reader's
        run of `width` lanes."""
        step = int(max(self.lanes.max(initial=0), lanes.max(initial=0))) + 1
        chosen = self.writes & self.uniquely_written[self.place]
        written = self.place[chosen] * step + self.lanes[chosen] // width
        at = np.searchsorted(self.elements, elements).clip(max=len(self.elements) - 1)
        uniquely_written = (self.elements[at] == elements) & self.uniquely_written[at]
        return uniquely_written & np.isin(at * step + lanes // width, written)

    def same_element_pairs(self, other: _Table) -> list[tuple[np.ndarray, np.ndarray]]:
        """The lowest and the highest lane of each element that both access, at least one with a write or update."""
        _, here, there = np.intersect1d(self.elements, other.elements, assume_unique=True, return_indices=True)
        return self._pairs(other, here, there) if len(here) else []

    def any_element_pairs(self, other: _Table) -> list[tuple[np.ndarray, np.ndarray]]:
        """As :meth:`same_element_pairs`, as if all accesses were to one element."""
        return self._merged()._pairs(other._merged(), np.zeros(1, int), np.zeros(1, int))

    def _merged(self) -> _Table:
        one = object.__new__(_Table)
        one.elements, one.uniquely_written = self.elements[:1], np.zeros(1, bool)
        one.low = {kind: low.min(keepdims=True) for kind, low in self.low.items()}
        one.high = {kind: high.max(keepdims=True) for kind, high in self.high.items()}
        return one

    def _pairs(self, other: _Table, here: np.ndarray, there: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        pairs = []
        for kind in self.low:
            for kind_there in other.low:
                if kind == kind_there and kind not in ("write", "atomic"):
                    continue
                low, high = self.low[kind][here], self.high[kind][here]
                low_there, high_there = other.low[kind_there][there], other.high[kind_there][there]
                both = (high >= 0) & (high_there >= 0)
                if kind == "write" and kind_there == "read":
                    both &= ~self.uniquely_written[here]
                if both.any():
                    pairs.append((np.minimum(low, low_there)[both], np.maximum(high, high_there)[both]))
        return pairs


def _kind(access: Access) -> str:
    """The kind of an access. Updates that commute have a kind for each operation: updates of integers, and min and max,
    if the previous value is not used."""
    site = access.site
    if not isinstance(site, ir.Atomic) or site.old is not None:
        return access.kind
    return f"atomic {site.op}" if site.op in ("min", "max") or site.array.dtype.kind != "f" else access.kind


def _write_number(access: Access, writes: dict[Hashable, int], conservative: bool) -> int:
    """The number of a write: equal for writes by one statement with equal values. `writes` has the known numbers."""
    return writes.setdefault((access.site and access.site.uid, _value_key(access, conservative)), len(writes))


def _value_key(access: Access, conservative: bool) -> Hashable:
    """A key of the values of a write: equal if every lane writes equal values. Unknown values have equal keys unless
    `conservative`."""
    if access.value is not None:
        lanes = np.asarray(access.value.lanes)
        return lanes.dtype.str, lanes.tobytes(), access.value.symbols
    if access.signature is not None:
        return np.asarray(access.signature).tobytes()
    return access if conservative else None


def _common_prefix(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return left[:count]


def _locate(access: Access) -> _Located:
    """The in-bounds lanes of an access and their elements."""
    lanes = access.lanes
    if access.dims is None:
        return _Located(access, None, lanes, lanes)
    exists, flat, keys = np.ones(len(lanes), bool), np.zeros(len(lanes), np.int64), []
    for axis, index in enumerate(access.dims):
        assert index is not None
        if _mentions_iteration(index.symbols):
            return _Located(access, None, lanes, lanes)  # the lanes may be in different iterations of the loop
        values = access.index_values(index)
        if isinstance(access.array, ir.LocalArray) and index.is_exact:
            exists &= (values >= 0) & (values < access.array.shape[axis])
        flat = flat * MIX + values
        keys.append(index.symbols)
    return _Located(access, tuple(keys), lanes[exists], flat[exists])


def _mentions_iteration(name: Any) -> bool:
    """Whether a symbol depends on the iteration of a loop with unknown trip count."""
    if not isinstance(name, tuple):
        return False
    return name[:1] == ("iteration",) or any(_mentions_iteration(part) for part in name)
