"""The accesses of one array in one barrier interval, as far as the lanes that share an element matter."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access

MIX = np.int64(1_000_003)  # folds the indexes of an argument's axes into one number; a clash only widens a barrier
Side = tuple[Access, int]


class Summary:
    """Accesses of an array. `context`: the conditions of unknown outcome around all of them. doubting: what a statement
    writes in several turns of a loop may be others' values where they are not known to be equal, and lanes may lie
    outside the grid, whose writes to arguments are dropped."""

    def __init__(self, conservative: bool) -> None:
        self._doubting = conservative
        self.accesses: list[tuple[Access, Any, np.ndarray, np.ndarray]] = []  # access, key, lanes, elements
        self._tables: dict[Any, _Table] | None = None
        self._context: tuple[int, ...] | None = None
        self._content: Hashable = None

    @property
    def content(self) -> Hashable:
        """Equal for summaries that need equal widths towards any other."""
        if self._content is None:
            sites: dict[Hashable, int] = {}
            self._content = tuple(
                (one.kind, id(one.site), _site(one, sites, self._doubting), one.certain and not one.context, key,
                 lanes.tobytes(), elements.tobytes())
                for one, key, lanes, elements in self.accesses
            )  # fmt: skip
        return self._content

    @property
    def context(self) -> tuple[int, ...]:
        return self._context or ()

    def add(self, access: Access, known: bool) -> None:
        """`known`: elements are those of this array alone (it shares no memory with other arrays)."""
        self._content = None
        self._context = access.context if self._context is None else _common(self._context, access.context)
        key, lanes, elements = _located(access) if known else (None, access.lanes, access.lanes)
        if len(lanes):
            self.accesses.append((access, key, lanes, elements))

    def tables(self) -> dict[Any, _Table]:
        """Elements with the lanes that touch them, for each combination of symbols; None: elements not known."""
        if self._tables is None:
            keys = {key for _, key, _, _ in self.accesses}
            made = ((key, [a for a in self.accesses if a[1] == key]) for key in keys)
            self._tables = {key: _Table(accesses, key is not None, self._doubting) for key, accesses in made}
        return self._tables

    def width_towards(self, later: Summary, widths: Sequence[int]) -> int:
        """The narrowest width that has all lanes of a dependency on a later interval in one run."""
        width = 1
        for key, table in self.tables().items():
            for other_key, other in later.tables().items():
                same = key is not None and key == other_key
                pairs = table.together(other) if same else table.anywhere(other)
                for low, high in pairs:
                    while width < widths[-1] and (low // width != high // width).any():
                        width = widths[widths.index(width) + 1]
                while same and width < widths[-1] and not table.reaches(other, width):
                    width = widths[widths.index(width) + 1]
        return width

    def racing(self, later: Summary, widths: Collection[int]) -> tuple[Side, Side] | None:
        """An access here and one of the later interval, with their lanes, that certainly need more than `widths`."""
        for access, key, lanes, elements in self.accesses:
            for other, other_key, other_lanes, other_elements in later.accesses:
                if key is None or key != other_key or _is_harmless(access, other):
                    continue
                shorter = min(len(access.context), len(other.context))
                if access.context[:shorter] != other.context[:shorter]:
                    continue
                meet = elements[:, None] == other_elements
                for width in widths:
                    meet &= lanes[:, None] // width != other_lanes // width
                    if (access.kind, other.kind) == ("write", "read"):
                        meet &= ~self.tables()[key].served(other_elements, other_lanes, width)
                if meet.any():
                    one, two = np.argwhere(meet)[0]
                    return (access, int(lanes[one])), (other, int(other_lanes[two]))
        return None


class _Table:
    """For each element and kind of access (see `_kind`) the lowest and the highest lane, -1 for none.

    `alike`: elements that one statement alone writes, surely, and the same in all turns of loops. Lanes that write such
    an element in one interval write equal values, or race: a lane that reads it later needs to have met just one of
    them. What turns overwrite would be seen by lanes that have met those alone who are through with it.
    """

    def __init__(
        self, accesses: Sequence[tuple[Access, Any, np.ndarray, np.ndarray]], known: bool, conservative: bool
    ) -> None:
        elements = [a[3] if known else np.zeros(len(a[2]), np.int64) for a in accesses]
        self.elements, place = np.unique(np.concatenate(elements), return_inverse=True)
        count = len(self.elements)
        kinds = {_kind(a[0]) for a in accesses}
        self.low = {kind: np.full(count, np.iinfo(np.int64).max) for kind in kinds}
        self.high = {kind: np.full(count, -1) for kind in kinds}
        self.lanes = np.concatenate([a[2] for a in accesses])
        self.place = place
        self.writes = np.concatenate([np.full(len(a[2]), a[0].kind == "write") for a in accesses])
        self.reads = np.concatenate([np.full(len(a[2]), a[0].kind == "read") for a in accesses])
        first_site, last_site = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
        sites: dict[Hashable, int] = {}
        start = 0
        for access, _, lanes, _ in accesses:
            at = place[start : start + len(lanes)]
            start += len(lanes)
            np.minimum.at(self.low[_kind(access)], at, lanes)
            np.maximum.at(self.high[_kind(access)], at, lanes)
            if access.kind == "write":
                site = _site(access, sites, conservative)
                first_site[at] = np.minimum(first_site[at], site)
                last_site[at] = np.maximum(last_site[at], site)
                dropped = conservative and isinstance(access.array, ir.GlobalArray)  # as lanes outside the grid do it
                if dropped or not access.certain or access.context:
                    last_site[at] = np.iinfo(np.int64).max
        self.alike = first_site == last_site

    def reaches(self, later: _Table, width: int) -> bool:
        """Whether each later read of an element that is written alike has a writer within `width`."""
        wanted = later.reads & np.isin(later.elements, self.elements[self.alike])[later.place]
        return bool(self.served(later.elements[later.place[wanted]], later.lanes[wanted], width).all())

    def served(self, elements: np.ndarray, lanes: np.ndarray, width: int) -> np.ndarray:
        """Which reads of `elements` by `lanes` are of an element written alike that has a writer within `width`."""
        step = int(max(self.lanes.max(initial=0), lanes.max(initial=0))) + 1
        chosen = self.writes & self.alike[self.place]
        written = self.place[chosen] * step + self.lanes[chosen] // width
        at = np.searchsorted(self.elements, elements).clip(max=len(self.elements) - 1)
        alike = (self.elements[at] == elements) & self.alike[at]
        return alike & np.isin(at * step + lanes // width, written)

    def together(self, other: _Table) -> list[tuple[np.ndarray, np.ndarray]]:
        """Lowest and highest lane of each element that both touch, one of them changing it."""
        _, here, there = np.intersect1d(self.elements, other.elements, assume_unique=True, return_indices=True)
        return self._pairs(other, here, there) if len(here) else []

    def anywhere(self, other: _Table) -> list[tuple[np.ndarray, np.ndarray]]:
        """As if all elements were one."""
        return self._folded()._pairs(other._folded(), np.zeros(1, int), np.zeros(1, int))

    def _folded(self) -> _Table:
        one = object.__new__(_Table)
        one.elements, one.alike = self.elements[:1], np.zeros(1, bool)
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
                    both &= ~self.alike[here]
                if both.any():
                    pairs.append((np.minimum(low, low_there)[both], np.maximum(high, high_there)[both]))
        return pairs


def _is_harmless(one: Access, other: Access) -> bool:
    """Whether two accesses never race: reads, updates by one operation, and what is done to other members."""
    if one.touches_other_member(other):
        return True
    if isinstance(one.site, ir.Atomic) and isinstance(other.site, ir.Atomic):
        return one.site.op == other.site.op
    return one.kind == other.kind == "read"


def _kind(access: Access) -> str:
    """The kind of an access; of updates whose order is all the same, with the operation: those by one operation on
    integers, and least and greatest values, of which nobody takes what was there before."""
    site = access.site
    if not isinstance(site, ir.Atomic) or site.old is not None:
        return access.kind
    return f"atomic {site.op}" if site.op in ("min", "max") or site.array.dtype.kind != "f" else access.kind


def _site(access: Access, sites: dict[Hashable, int], conservative: bool) -> int:
    """A number for the statement and the values of a write, of those that are numbered already where it is one."""
    return sites.setdefault((id(access.site), _written(access, conservative)), len(sites))


def _written(access: Access, conservative: bool) -> Hashable:
    """Equal for writes of equal values by every lane, as far as they are known; doubting: for no others."""
    if access.value is not None:
        lanes = np.asarray(access.value.lanes)
        return lanes.dtype.str, lanes.tobytes(), access.value.symbols
    if access.signature is not None:
        return np.asarray(access.signature).tobytes()
    return id(access) if conservative else None


def _common(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return left[:count]


def _located(access: Access) -> tuple[Any, np.ndarray, np.ndarray]:
    """The symbols of an access's element (None where it is not known), its lanes and their elements."""
    lanes = access.lanes
    if access.dims is None:
        return None, lanes, lanes
    exists, flat, keys = np.ones(len(lanes), bool), np.zeros(len(lanes), np.int64), []
    for axis, index in enumerate(access.dims):
        assert index is not None
        if _mentions_iteration(index.symbols):
            return None, lanes, lanes  # which turns of a loop of unknown length meet is not known
        values = np.asarray(index.lanes).astype(np.int64)
        values = values[lanes] if values.ndim else np.full(len(lanes), values)
        if isinstance(access.array, ir.LocalArray) and index.is_exact:
            exists &= (values >= 0) & (values < access.array.shape[axis])
        flat = flat * MIX + values
        keys.append(index.symbols)
    return tuple(keys), lanes[exists], flat[exists]


def _mentions_iteration(name: Any) -> bool:
    """Whether a symbol is made of the turn of a loop of unknown length."""
    if not isinstance(name, tuple):
        return False
    return name[:1] == ("iteration",) or any(_mentions_iteration(part) for part in name)
