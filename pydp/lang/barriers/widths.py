"""Infers the width that each barrier needs from the accesses before and after it, and checks given widths (SPEC S4).

A barrier of width W synchronizes each aligned run of W lanes; the lane number is the row-major local index. Two
accesses to one element by different lanes, with barriers between them, are a dependency if at least one is a write or
update. Updates that commute do not depend on each other. Runs of different widths are nested, so a dependency is
satisfied if both lanes are in one run of the widest barrier between them. The inferred widths are the narrowest ones
that satisfy all dependencies of a group. A barrier in a loop has a width for each iteration if the trip count is known,
else one width. If the accessed elements are unknown before the launch, every lane is assumed to depend on every other
lane.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pydp.lang import ir
from pydp.lang.barriers.interval_accesses import IntervalAccesses
from pydp.lang.execute.lane_events import VERBS, Access, BarrierEvent, Event, SkippedIterations, lane_index, width_error
from pydp.lang.execute.symbolic_run import trace_group
from pydp.lang.ir.diagnostics import VectorError

MAX_BARRIER_EVENTS = 160  # for more, comparing all pairs of intervals takes too long: barriers keep the group's width


@dataclass(frozen=True)
class Width:
    """The width of a barrier: one number for all iterations, or one for each iteration in order. 1: no barrier needed.

    inferred: the width follows from all accesses around the barrier. If not, it is the group's size, because not all
    accesses were traced or compared.
    """

    per_iteration: tuple[int, ...]
    inferred: bool = field(default=True, compare=False)

    @property
    def widest(self) -> int:
        return max(self.per_iteration)

    @property
    def is_constant(self) -> bool:
        return len(set(self.per_iteration)) == 1

    def __str__(self) -> str:
        shown = self.per_iteration[:1] if self.is_constant else self.per_iteration
        return ", ".join("none" if width == 1 else str(width) for width in shown)


@dataclass(frozen=True)
class _Dependency:
    """Accesses in the intervals `first` and `last` need a barrier of at least `width` between them. certain: the
    barriers between them that are executed whenever both accesses are."""

    first: int
    last: int
    width: int
    certain: tuple[int, ...]


def infer(
    function: ir.Function, sharing: Iterable[Collection[str]] = (), max_intervals: int = MAX_BARRIER_EVENTS
) -> dict[int, Width]:
    """The narrowest width of each barrier that satisfies all dependencies between lanes, by the barrier's number.

    Widths are the powers of two that divide the group's size, and that size. sharing: sets of names of array arguments
    that may share memory. A barrier that the trace does not reach gets the group's size. So do all barriers if a group
    executes more than `MAX_BARRIER_EVENTS` barriers, or if more than `max_intervals` barriers separate intervals with
    different accesses.

    A tree reduction of 8 elements by 4 lanes has the widths 4, 2 and none in the iterations of its loop.
    """
    barriers = ir.barriers(function.body)
    size = max(1, math.prod(function.group or (1,)))
    result = {barrier.number: Width((size,), inferred=False) for barrier in barriers}
    group = _Group(trace_group(function), size, sharing)
    if not barriers or len(group.barrier_events) > MAX_BARRIER_EVENTS or group.distinct_intervals() > max_intervals + 1:
        return result
    widths = _assign_widths(group, list(group.dependencies()))
    for number, width in group.by_number(widths).items():
        result[number] = width
    return result


def check_given(function: ir.Function, events: Sequence[Event] | None = None) -> None:
    """Raise VectorError if a given width does not divide the group's size, or is too narrow and lets lanes race.

    events: a trace of a group's lanes that uses the values of a launch; by default, a trace without them. If a group
    executes more than `MAX_BARRIER_EVENTS` barriers, accesses with many barriers between them are not compared.
    """
    if all(barrier.width is None for barrier in ir.barriers(function.body)):
        return
    extents = function.group or (1,)
    size = math.prod(extents)
    events = trace_group(function) if events is None else events
    group = _Group([e for e in events if not isinstance(e, Access) or e.certain], size, (), conservative=False)
    given = [_given_width(event, size) for event in group.barrier_events]
    count = len(given)
    spans = count if count <= MAX_BARRIER_EVENTS else max(1, MAX_BARRIER_EVENTS**2 // (2 * count))
    for span in range(1, spans + 1):
        for first in range(count + 1 - span):
            last = first + span
            between = set(given[first:last])
            if max(between) < size and not any(first <= one <= last for one in group.incomplete_intervals):
                group.reject_race(first, last, between, extents)


def _given_width(event: BarrierEvent, size: int) -> int:
    """The width given for a barrier; the group's size if none is given or its value is unknown."""
    if event.barrier.width is None or event.width is None or not event.width.is_exact:
        return size
    if event.barrier.from_condition:
        return size  # the given number of lanes need not be an aligned run
    values: list[int] = np.unique(event.width.lanes).tolist()
    wrong = width_error(values, size)
    if wrong:
        raise VectorError(wrong, event.barrier.where)
    return values[0]


class _Group:
    """A group's accesses in each barrier interval, and the barriers between the intervals: barrier k ends interval k.

    conservative: see :class:`pydp.lang.barriers.interval_accesses.IntervalAccesses`.
    """

    def __init__(
        self, events: Sequence[Event], size: int, sharing: Iterable[Collection[str]], conservative: bool = True
    ) -> None:
        new_interval = partial(defaultdict[str, IntervalAccesses], partial(IntervalAccesses, conservative))
        self.size = size
        self.widths = [w for w in (1 << k for k in range(size.bit_length())) if size % w == 0]
        if self.widths[-1] != size:
            self.widths.append(size)
        self.barrier_events: list[BarrierEvent] = []
        self.skipped_barriers: set[int] = set()  # barriers of loops whose iterations were not all traced
        self.incomplete_intervals: set[int] = set()  # intervals with such loops
        self.intervals: list[dict[str, IntervalAccesses]] = [new_interval()]
        self._contents: dict[Hashable, int] = {}
        self._numbers: dict[IntervalAccesses, int] = {}
        shared_names = {name: min(shared) for shared in sharing for name in shared}
        for event in events:
            if isinstance(event, BarrierEvent):
                self.barrier_events.append(event)
                self.intervals.append(new_interval())
            elif isinstance(event, SkippedIterations):
                self.skipped_barriers.update(barrier.uid for barrier in event.barriers)
                self.incomplete_intervals.add(len(self.barrier_events))
            elif not isinstance(event.array, ir.PrivateArray):
                name = event.array.name
                shared_name = shared_names.get(name)
                self.intervals[-1][shared_name or name].add(event, known=shared_name is None)

    def dependencies(self) -> Iterator[_Dependency]:
        """The dependencies that do not follow from other ones, in order of the number of barriers between."""
        count = len(self.barrier_events)
        widths: dict[tuple[int, int], int] = {}  # required widths between accesses, by their content numbers
        conditional = np.cumsum([0, *(bool(event.context) for event in self.barrier_events)])
        guaranteed: dict[tuple[int, int], int] = {}  # widths between two intervals, whatever the unknown conditions are
        for span in range(1, count + 1):
            for first in range(count + 1 - span):
                last = first + span
                implied = max(guaranteed.get((first, last - 1), 1), guaranteed.get((first + 1, last), 1))
                all_certain = conditional[first] == conditional[last]
                widest = implied
                for name in self.intervals[first].keys() & self.intervals[last].keys():
                    before, after = self.intervals[first][name], self.intervals[last][name]
                    pair = self.content_number(before), self.content_number(after)
                    if pair not in widths:
                        widths[pair] = before.required_width(after, self.widths)
                    width = widths[pair]
                    if width == 1 or (all_certain and width <= implied):
                        continue
                    contexts = before.context, after.context
                    between = range(first, last)
                    certain = (k for k in between if all_certain or self._is_certain(self.barrier_events[k], contexts))
                    yield _Dependency(first, last, width, tuple(certain))
                    widest = max(widest, width) if all_certain else widest
                guaranteed[first, last] = widest

    def content_number(self, accesses: IntervalAccesses) -> int:
        """A number that is equal for accesses of equal content."""
        number = self._numbers.get(accesses)
        if number is None:
            number = self._contents.setdefault(accesses.content, len(self._contents))
            self._numbers[accesses] = number
        return number

    def distinct_intervals(self) -> int:
        """The number of intervals with different accesses."""
        contents = ({(name, self.content_number(one)) for name, one in held.items()} for held in self.intervals)
        return len({frozenset(content) for content in contents})

    def _is_certain(self, event: BarrierEvent, contexts: tuple[tuple[int, ...], ...]) -> bool:
        return any(context[: len(event.context)] == event.context for context in contexts)

    def by_number(self, widths: list[int]) -> dict[int, Width]:
        """The width of each barrier by its number: one for each iteration, or the widest if iterations are unknown."""
        executions: dict[int, list[int]] = defaultdict(list)
        exact: dict[int, bool] = defaultdict(lambda: True)
        for event, width in zip(self.barrier_events, widths, strict=True):
            number = event.barrier.number
            executions[number].append(self.size if event.barrier.uid in self.skipped_barriers else width)
            exact[number] &= event.iterations_known and event.barrier.uid not in self.skipped_barriers
        skipped = {event.barrier.number for event in self.barrier_events if event.barrier.uid in self.skipped_barriers}
        return {
            number: Width(tuple(found) if exact[number] else (max(found),), number not in skipped)
            for number, found in executions.items()
        }

    def reject_race(self, first: int, last: int, given: Collection[int], extents: tuple[int, ...]) -> None:
        """Raise VectorError if a dependency between two intervals is not satisfied by the barriers between them, which
        have the `given` widths."""
        for name, accesses in self.intervals[first].items():
            later = self.intervals[last].get(name)
            pair = None if later is None else accesses.find_race(later, given)
            if pair is None:
                continue
            (one, lane), (other, other_lane) = pair
            widest = max(self.barrier_events[first:last], key=lambda event: _given_width(event, self.size))
            before = f"lane {lane_index(lane, extents)} {VERBS[one.kind]} {name} in line {one.where.line} before it"
            after = f"lane {lane_index(other_lane, extents)} {VERBS[other.kind]} the same element in line"
            message = f"A barrier of width {max(given)} is too narrow: {before} and {after} {other.where.line} after it"
            raise VectorError(message, widest.barrier.where)


def _assign_widths(group: _Group, dependencies: list[_Dependency]) -> list[int]:
    """A width for each executed barrier: together they satisfy all dependencies, and none can be narrower alone."""
    widths = [1] * len(group.barrier_events)
    for one in dependencies:
        if one.certain:
            if max(widths[k] for k in one.certain) < one.width:
                widest = max(one.certain, key=lambda k: (widths[k], k))
                widths[widest] = one.width
        else:
            for k in range(one.first, one.last):
                widths[k] = max(widths[k], one.width)
    for k in sorted(range(len(widths)), key=lambda k: -widths[k]):
        _narrow(k, widths, dependencies)
    return widths


def _narrow(k: int, widths: list[int], dependencies: list[_Dependency]) -> None:
    """Reduce the width of barrier k to the widest dependency that no other barrier satisfies."""
    needed = 1
    for one in dependencies:
        if not one.first <= k < one.last:
            continue
        others = max((widths[j] for j in one.certain if j != k), default=0)
        if not one.certain or (k in one.certain and others < one.width):
            needed = max(needed, one.width)
    widths[k] = min(widths[k], needed)
