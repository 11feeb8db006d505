"""Finds races between the lanes of a launch on arrays, before the launch, from the indexes of certain accesses.

Barriers order the lanes of one group; lanes of different groups, and lanes without a group, are never ordered. A race
is a pair of accesses to one element by lanes that are not ordered, at least one of them a write or update. Lanes that
write equal values in one statement do not race. Writes of unknown values are left to checked mode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access, SkippedIterations
from pydp.lang.execute.launch_lanes import LaunchValues, Sample, trace_launch
from pydp.lang.ir.diagnostics import VectorError

ELEMENTS = 48  # limit for the elements of an array whose accesses are compared pair by pair
PAIRS = 2000  # limit for the compared pairs of accesses, for all elements of an array
LANES = 64  # limit for the lanes of one access to one element

VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


def check(function: ir.Function, launch: LaunchValues) -> None:
    """Raise VectorError if lanes of this launch certainly race on an array.

    A sample of the lanes is checked (see :class:`pydp.lang.execute.launch_lanes.Sample`); all lanes of a small launch.
    """
    if any(n <= 0 for n in launch.extent):
        return
    written = {s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)}
    arrays = {array.name: launch.aliases.get(array.name, (array.name,))[0] for array in function.arrays}
    changed = {arrays[name] for name in written if name in arrays}
    checked_arrays = {name for name, first in arrays.items() if first in changed}
    if not checked_arrays:
        return
    sample = Sample(function, launch.extent, launch.offset)
    by_array: dict[str, list[_Located]] = defaultdict(list)
    interval = 0
    for event in trace_launch(function, sample, launch, checked_arrays):
        if isinstance(event, Access):
            if event.array.name not in checked_arrays:
                continue
            located = _locate(event, interval, launch)
            if located is not None:
                by_array[arrays[event.array.name]].append(located)
        elif not isinstance(event, SkippedIterations) or event.barriers:
            interval += 1
    for accesses in by_array.values():
        if any(one.access.kind != "read" for one in accesses):
            _search(accesses, sample)


@dataclass(eq=False)
class _Located:
    """An access with the in-bounds elements of its lanes.

    flat: the flat indexes in the array. elements: the positions in the memory that the array shares with others.
    """

    access: Access
    interval: int
    lanes: np.ndarray
    flat: np.ndarray
    elements: np.ndarray
    shape: tuple[int, ...]

    def index(self, element: int, lane: int) -> list[int]:
        """The index with which `lane` accesses `element`."""
        number = self.flat[(self.elements == element) & (self.lanes == lane)][0]
        return [int(k) for k in np.unravel_index(number, self.shape)] if self.shape else []


def _locate(access: Access, interval: int, launch: LaunchValues) -> _Located | None:
    assert isinstance(access.array, ir.GlobalArray)
    if access.dims is None or not access.certain:
        return None
    shape = launch.shapes[access.array.position]
    _first, start, steps = launch.aliases.get(access.array.name, ("", 0, (0,) * len(shape)))
    exists, flat, place = np.ones(len(access.lanes), bool), np.zeros((), np.int64), np.full((), start)
    for index, extent, step in zip(access.dims, shape, steps, strict=True):
        if index is None or not index.is_exact:
            return None
        values = np.asarray(index.lanes).astype(np.int64)
        values = values[access.lanes] if values.ndim else values
        exists &= (values >= 0) & (values < extent)
        flat = np.asarray(flat * extent + values)
        place = np.asarray(place + values * step)
    flat = np.broadcast_to(flat, exists.shape)
    place = np.broadcast_to(place, exists.shape) if access.array.name in launch.aliases else flat
    if not exists.all():
        return _Located(access, interval, access.lanes[exists], flat[exists], place[exists], shape)
    return _Located(access, interval, access.lanes, flat, place, shape)


def _search(accesses: list[_Located], sample: Sample) -> None:
    elements = np.concatenate([one.elements for one in accesses])
    if not len(elements):
        return
    lanes = np.concatenate([one.lanes for one in accesses])
    names, place = np.unique(elements, return_inverse=True)
    wrong = np.zeros(len(names), bool)
    groups = sample.group_number[lanes]
    _mark(wrong, place, names, groups, accesses)
    if sample.by_group:
        intervals = np.concatenate([np.full(len(one.lanes), one.interval) for one in accesses])
        keys = (place * (int(intervals.max()) + 1) + intervals) * (int(groups.max()) + 1) + groups
        together, inner = np.unique(keys, return_inverse=True)
        mixed = np.zeros(len(together), bool)
        _mark(mixed, inner, together, lanes, accesses)
        wrong[place[mixed[inner]]] = True
    left = PAIRS
    for element in names[wrong][:ELEMENTS]:
        left -= _search_element(int(element), accesses, sample, left)


def _mark(wrong: np.ndarray, place: np.ndarray, names: np.ndarray, who: np.ndarray, accesses: list[_Located]) -> None:
    """Set `wrong` for elements with accesses by two of `who` that are not only reads or only atomic updates."""
    low, high = np.full(len(names), np.iinfo(np.int64).max), np.full(len(names), -1)
    np.minimum.at(low, place, who)
    np.maximum.at(high, place, who)
    kinds = {kind: np.zeros(len(names), bool) for kind in VERBS}
    start = 0
    for one in accesses:
        kinds[one.access.kind][place[start : start + len(one.lanes)]] = True
        start += len(one.lanes)
    wrong |= (low != high) & (kinds["write"] | (kinds["read"] & kinds["atomic"]))


def _search_element(element: int, accesses: list[_Located], sample: Sample, most: int) -> int:
    """Compare the accesses to one element and raise VectorError for a race. Returns the number of compared pairs."""
    touching = _without_repeats((one, one.lanes[one.elements == element]) for one in accesses)
    pairs = ((first, second) for number, second in enumerate(touching) for first in touching[: number + 1])
    compared = list(islice(pairs, max(0, most)))
    for (first, these), (second, those) in compared:
        pair = _racing(first, these, second, those, sample)
        if pair is not None:
            raise _race(element, first, pair[0], second, pair[1], sample)
    return len(compared)


def _without_repeats(accesses: Iterable[tuple[_Located, np.ndarray]]) -> list[tuple[_Located, np.ndarray]]:
    """The accesses with lanes, without those that repeat an access of an earlier loop iteration."""
    kept: dict[Any, tuple[_Located, np.ndarray]] = {}
    for one, lanes in accesses:
        if len(lanes):
            given = one.access.signature if one.access.value is None else one.access.value.lanes
            value = None if given is None else _of(given, lanes).tobytes()
            kept.setdefault(
                (one.access.site and one.access.site.uid, one.interval, one.access.context, lanes.tobytes(), value),
                (one, lanes),
            )
    return list(kept.values())


def _racing(
    first: _Located, these: np.ndarray, second: _Located, those: np.ndarray, sample: Sample
) -> tuple[int, int] | None:
    """Two lanes whose accesses to one element race; None if there are none."""
    one, other = first.access, second.access
    if (one.kind == other.kind and one.kind != "write") or one.touches_other_member(other):
        return None
    if one.context != other.context:
        return None
    if first is not second and one.site is other.site and one.kind == "write" and _repeats(one, these, other, those):
        return None
    these, those = _some(these), _some(those)
    here, there = sample.group_number[these][:, None], sample.group_number[those][None, :]
    racing = these[:, None] != those[None, :]
    if one.context:
        racing &= here == there  # the enclosing condition may have a different outcome in another group
    if first.interval != second.interval:
        racing &= here != there
    if one.kind == other.kind:
        differing = _differing(one, these, other, those)
        if differing is None:
            return None
        racing &= differing
    if not racing.any():
        return None
    row, column = np.unravel_index(int(np.argmax(racing)), racing.shape)
    return int(these[row]), int(those[column])


def _some(lanes: np.ndarray) -> np.ndarray:
    """The lanes; if there are many, evenly spaced ones."""
    if len(lanes) <= LANES:
        return lanes
    return lanes[np.linspace(0, len(lanes) - 1, LANES).astype(int)]


def _repeats(one: Access, these: np.ndarray, other: Access, those: np.ndarray) -> bool:
    """Whether the same lanes write one element in two loop iterations, with equal values in each iteration."""
    if not np.array_equal(these, those):
        return False
    return all(_agree(access, lanes) for access, lanes in ((one, these), (other, those)))


def _agree(access: Access, lanes: np.ndarray) -> bool:
    differing = _differing(access, lanes[:1], access, lanes)
    return differing is None or not differing.any()


def _differing(one: Access, these: np.ndarray, other: Access, those: np.ndarray) -> Any:
    """A matrix of the lanes that certainly write different values; None if unknown."""
    if one.value is not None and other.value is not None:
        if one.value.symbols != other.value.symbols:
            return None
        left, right = _of(one.value.lanes, these)[:, None], _of(other.value.lanes, those)[None, :]
        return (left != right) & ~((left != left) & (right != right))
    if one.site is not other.site:
        return np.ones((len(these), len(those)), bool)
    if one.signature is None or other.signature is None:
        return None
    return _of(one.signature, these)[:, None] != _of(other.signature, those)[None, :]


def _of(values: Any, lanes: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    return values[lanes] if values.ndim else np.full(len(lanes), values)


def _race(element: int, first: _Located, lane: int, second: _Located, other: int, sample: Sample) -> VectorError:
    index, other_index = first.index(element, lane), second.index(element, other)
    name, other_name = first.access.array.name, second.access.array.name
    same = "it" if name == other_name else f"{other_name}{other_index}, the same element,"
    one = f"{sample.name(lane)} {VERBS[first.access.kind]} {name}{index} in line {first.access.where.line}"
    two = f"{sample.name(other)} {VERBS[second.access.kind]} {same} in line {second.access.where.line}"
    if not sample.by_group:
        why = "different lanes are never ordered"
    elif sample.group_number[lane] != sample.group_number[other]:
        why = "no barrier holds between groups"
    else:
        why = "there is no group_barrier() between them"
    return VectorError(f"Race: {one} and {two}: {why}", second.access.where)
