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
_KINDS = {kind: number for number, kind in enumerate(VERBS)}  # "read", "write", "atomic"
_MOST_EMPTY = 8  # a table of elements has at most this many places for each access; else the elements are sorted


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
    kinds = np.repeat([_KINDS[one.access.kind] for one in accesses], [len(one.lanes) for one in accesses])
    intervals = np.repeat([one.interval for one in accesses], [len(one.lanes) for one in accesses])
    touched = _shared(elements, lanes, kinds)  # most functions have no such element
    if not touched.any():
        return None
    elements, lanes, kinds, intervals = elements[touched], lanes[touched], kinds[touched], intervals[touched]
    groups = order.groups[lanes]
    suspect = _shared(elements, groups, kinds) if order.several_groups else np.zeros(len(elements), bool)
    if order.by_group:
        place = np.unique(elements, return_inverse=True)[1]
        keys = (place * (int(intervals.max()) + 1) + intervals) * (int(groups.max()) + 1) + groups
        suspect = suspect | _shared(keys, lanes, kinds)
    pairs_left = PAIRS
    for element in np.unique(elements[suspect])[:ELEMENTS]:
        touching = _without_repeats((one, one.lanes[one.elements == element]) for one in accesses)
        pairs = ((first, second) for number, second in enumerate(touching) for first in touching[: number + 1])
        for (first, these), (second, those) in islice(pairs, pairs_left):
            pairs_left -= 1
            pair = _racing(first, these, second, those, order)
            if pair is not None:
                return Race(int(element), first, pair[0], second, pair[1])
    return None


def _shared(elements: np.ndarray, who: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """A mask of the accesses to elements that two of `who` access, not only with reads or only with atomic updates.

    kinds: the numbers of :data:`_KINDS`."""
    low = elements.min()
    place, count = elements - low, int(elements.max() - low) + 1
    if count > _MOST_EMPTY * len(elements):
        names, place = np.unique(elements, return_inverse=True)
        count = len(names)
    last = np.zeros(count, who.dtype)
    last[place] = who
    several = np.zeros(count, bool)
    several[place[last[place] != who]] = True
    if not several.any():
        return several[place]
    read, write, atomic = (np.bincount(place[kinds == kind], minlength=count) > 0 for kind in _KINDS.values())
    several &= write | (read & atomic)
    return several[place]


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
    by_memory: dict[tuple[str, int], list[tuple[Access, int]]] = defaultdict(list)
    interval = 0
    for event in trace.events:
        if isinstance(event, Access):
            if event.array.name in arrays:
                # Barriers order all accesses to a local field, because no other group can access it.
                part = interval if isinstance(event.array, ir.LocalArray) and sample.by_group else 0
                by_memory[launch.memory_of(event.array.name), part].append((event, interval))
        elif not isinstance(event, SkippedIterations) or event.barriers:
            interval += 1
    for accesses in by_memory.values():
        if all(access.kind == "read" for access, _ in accesses):
            continue
        located = [one for access, number in accesses if (one := _locate(access, number, trace)) is not None]
        race = find_race(located, LaneOrder(sample.group_number, sample.by_group, True))
        if race is not None:
            raise _error(race, sample)


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


def _error(race: Race, sample: Sample) -> VectorError:
    first, second = race.first.access, race.second.access
    name, other_name = first.array.name, second.array.name
    other = "it" if name == other_name else f"{other_name}{_index(second, race.other)}, the same element,"
    lanes = sample.name(race.lane), sample.name(race.other)
    text = race_text(first, lanes[0], f"{name}{_index(first, race.lane)}", second, lanes[1], other)
    same_group = sample.group_number[race.lane] == sample.group_number[race.other]
    return VectorError(f"{text}: {missing_order(sample.by_group, same_group)}", second.where)
