"""Finds races between lanes: two accesses to one element that no barrier orders, at least one a write or update.

:mod:`static_checks` searches the accesses to local fields before any launch. :func:`check` searches the accesses to
arrays with the values of a launch; it searches local fields too if these values decide which barriers run. Barriers
order the lanes of one group; lanes of different groups, and lanes without a group, are never ordered. Lanes that write
equal values in one statement do not race.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import (
    VERBS,
    Access,
    SkippedIterations,
    differing_values,
    missing_order,
    race_text,
    racing_lanes,
)
from pydp.lang.execute.launch_lanes import LaunchTrace, LaunchValues, Sample
from pydp.lang.ir.diagnostics import VectorError

ELEMENTS = 64  # limit for the elements of an array whose accesses are compared pair by pair
PAIRS = 2000  # limit for the compared pairs of accesses, for all elements of an array
LANES = 64  # limit for the lanes of one access to one element, if they are of several groups


@dataclass(eq=False)
class LocatedAccess:
    """An access with the in-bounds elements of its lanes.

    interval: the number of barriers before the access. elements: numbers that identify the elements in memory.
    """

    access: Access
    interval: int
    lanes: np.ndarray
    elements: np.ndarray


class Race(NamedTuple):
    """Two accesses to one element by lanes that no barrier orders."""

    element: int
    first: LocatedAccess
    lane: int
    second: LocatedAccess
    other: int


class LaneOrder(NamedTuple):
    """How lanes are ordered.

    groups: the number of each lane's group. by_group: barriers order the lanes of a group. several_groups: the lanes
    are a sample of a launch. Then writes of unknown values are accepted; checked mode compares them.
    """

    groups: np.ndarray
    by_group: bool
    several_groups: bool


def find_race(accesses: Sequence[LocatedAccess], order: LaneOrder) -> Race | None:
    """A race between accesses to one array, or None. The search is limited, so it may miss a race."""
    if all(one.access.kind == "read" for one in accesses):
        return None
    elements = np.concatenate([one.elements for one in accesses])
    if not len(elements):
        return None
    lanes = np.concatenate([one.lanes for one in accesses])
    names, place = _numbered(elements)
    suspect = np.zeros(len(names), bool)
    groups = order.groups[lanes]
    if order.several_groups:
        suspect |= _shared(place, len(names), groups, accesses)
    if order.by_group:
        intervals = np.concatenate([np.full(len(one.lanes), one.interval) for one in accesses])
        keys = (place * (int(intervals.max()) + 1) + intervals) * (int(groups.max()) + 1) + groups
        unordered, inner = _numbered(keys)
        suspect[place[_shared(inner, len(unordered), lanes, accesses)[inner]]] = True
    pairs_left = PAIRS
    for element in names[suspect][:ELEMENTS]:
        touching = _without_repeats((one, one.lanes[one.elements == element]) for one in accesses)
        pairs = ((first, second) for number, second in enumerate(touching) for first in touching[: number + 1])
        for (first, these), (second, those) in islice(pairs, pairs_left):
            pairs_left -= 1
            pair = _racing(first, these, second, those, order)
            if pair is not None:
                return Race(int(element), first, pair[0], second, pair[1])
    return None


def _numbered(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted keys that include all `keys`, and the place of each of `keys` in them. Dense keys are not searched."""
    low = keys.min()
    span = int(keys.max() - low) + 1
    if span <= 4 * len(keys):
        return np.arange(low, low + span), keys - low
    return np.unique(keys, return_inverse=True)


def _shared(place: np.ndarray, count: int, who: np.ndarray, accesses: Iterable[LocatedAccess]) -> np.ndarray:
    """A mask of the `count` places with accesses by two of `who` that are not only reads or only atomic updates."""
    someone = np.zeros(count, who.dtype)
    someone[place] = who
    by_two = np.zeros(count, bool)
    by_two[place[who != someone[place]]] = True
    kinds = {kind: np.zeros(count, bool) for kind in VERBS}
    start = 0
    for one in accesses:
        kinds[one.access.kind][place[start : start + len(one.lanes)]] = True
        start += len(one.lanes)
    return np.asarray(by_two & (kinds["write"] | (kinds["read"] & kinds["atomic"])))


def _without_repeats(accesses: Iterable[tuple[LocatedAccess, np.ndarray]]) -> list[tuple[LocatedAccess, np.ndarray]]:
    """The accesses with lanes, without those that repeat an access of an earlier loop iteration."""
    kept: dict[Any, tuple[LocatedAccess, np.ndarray]] = {}
    for one, lanes in accesses:
        if len(lanes):
            access = one.access
            key = (
                access.site and access.site.uid,
                one.interval,
                access.context,
                lanes.tobytes(),
                access.value_key(lanes),
            )
            kept.setdefault(key, (one, lanes))
    return list(kept.values())


def _racing(
    first: LocatedAccess, these: np.ndarray, second: LocatedAccess, those: np.ndarray, order: LaneOrder
) -> tuple[int, int] | None:
    """Two lanes whose accesses to one element race; None if there are none."""
    one, other = first.access, second.access
    if order.several_groups:
        repeated = first is not second and one.site is other.site and one.kind == "write"
        if repeated and _repeats(one, these, other, those):
            return None
        these, those = _some(these), _some(those)

    def unordered() -> np.ndarray:
        here, there = order.groups[these][:, None], order.groups[those][None, :]
        result = np.asarray(these[:, None] != those[None, :])
        if one.context:
            result &= here == there  # the enclosing condition may have a different outcome in another group
        return result if first.interval == second.interval else result & (here != there)

    return racing_lanes(one, these, other, those, unordered, several_groups=order.several_groups)


def _some(lanes: np.ndarray) -> np.ndarray:
    """The lanes; if there are many, evenly spaced ones."""
    if len(lanes) <= LANES:
        return lanes
    return lanes[np.linspace(0, len(lanes) - 1, LANES).astype(int)]


def _repeats(one: Access, these: np.ndarray, other: Access, those: np.ndarray) -> bool:
    """Whether the same lanes write one element in two loop iterations, with equal values in each iteration."""
    if not np.array_equal(these, those):
        return False
    pairs = ((one, these), (other, those))
    return not any(differing_values(write, lanes[:1], write, lanes, True).any() for write, lanes in pairs)


# --- races on arrays in a launch -----------------------------------------------------------------------------


def shared_arrays(function: ir.Function, written: Collection[str], launch: LaunchValues) -> set[str]:
    """The array arguments whose memory the function writes. written: the names of the written arguments."""
    changed = {launch.memory_of(name) for name in written}
    return {array.name for array in function.arrays if launch.memory_of(array.name) in changed}


def check(trace: LaunchTrace, arrays: Collection[str]) -> None:
    """Raise VectorError if lanes of a launch certainly race on one of `arrays`, array arguments or local fields.

    A sample of the lanes is checked (see :class:`pydp.lang.execute.launch_lanes.Sample`); all lanes of a small launch.
    """
    sample, launch = trace.sample, trace.launch
    recorded: list[tuple[Access, int]] = []
    interval = 0
    for event in trace.events:
        if isinstance(event, Access):
            recorded += [(event, interval)] if event.array.name in arrays else []
        elif not isinstance(event, SkippedIterations) or event.barriers:
            interval += 1
    changed = {(access.array.name, interval) for access, interval in recorded if access.kind != "read"}
    by_memory: dict[str, list[LocatedAccess]] = defaultdict(list)
    for access, interval in recorded:
        # Reads of a local field do not race with the writes in other intervals: only one group accesses the field.
        if isinstance(access.array, ir.LocalArray) and (access.array.name, interval) not in changed:
            continue
        located = _locate(access, interval, trace)
        if located is not None:
            by_memory[launch.memory_of(access.array.name)].append(located)
    for accesses in by_memory.values():
        race = find_race(accesses, LaneOrder(sample.group_number, sample.by_group, True))
        if race is not None:
            raise _error(race, sample, launch)


def _locate(access: Access, interval: int, trace: LaunchTrace) -> LocatedAccess | None:
    """The lanes of an access and their elements; None if an index is unknown. Each group has its own local fields."""
    if access.dims is None or not access.certain:
        return None
    shape, start, strides = _memory(access, trace.launch)
    inside, elements = np.ones(len(access.lanes), bool), np.full((), start)
    if isinstance(access.array, ir.LocalArray):
        elements = trace.sample.group_number[access.lanes] * math.prod(shape)
    for index, extent, stride in zip(access.dims, shape, strides, strict=True):
        if index is None or not index.is_exact:
            return None
        values = access.index_values(index)
        inside &= (values >= 0) & (values < extent)
        elements = np.asarray(elements + values * stride)
    elements = np.broadcast_to(elements, inside.shape)
    if inside.all():
        return LocatedAccess(access, interval, access.lanes, elements)
    return LocatedAccess(access, interval, access.lanes[inside], elements[inside])


def _memory(access: Access, launch: LaunchValues) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """The shape of an array, and its start and strides in the memory that it shares with others, in elements."""
    array = access.array
    shape = launch.shapes[array.position] if isinstance(array, ir.GlobalArray) else array.shape
    if access.array.name in launch.aliases:
        return shape, *launch.aliases[access.array.name][1:]
    strides, count = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis], count = count, count * shape[axis]
    return shape, 0, tuple(strides)


def _index(access: Access, lane: int) -> list[int]:
    """The index with which a lane accesses an array."""
    found = (np.asarray(index.lanes) for index in access.dims or () if index is not None)
    return [int(values[lane] if values.ndim else values) for values in found]


def _error(race: Race, sample: Sample, launch: LaunchValues) -> VectorError:
    first, second = race.first.access, race.second.access
    name, other_name = first.array.name, second.array.name
    other = "it" if name == other_name else f"{other_name}{_index(second, race.other)}, the same element,"
    lanes = sample.name(race.lane), sample.name(race.other)
    text = race_text(first, lanes[0], f"{name}{_index(first, race.lane)}", second, lanes[1], other)
    same_group = sample.group_number[race.lane] == sample.group_number[race.other]
    return VectorError(f"{text}: {missing_order(sample.by_group, same_group)}", second.where)
