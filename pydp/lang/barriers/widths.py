"""The width that each barrier needs, from the index expressions on its two sides (SPEC S4).

A barrier of width W makes each aligned run of W lanes meet (lane number = row-major local index). A dependency is
two accesses of one element by different lanes, one of them a change, with barriers between them; atomic updates whose
order is all the same are none of each other. As runs are nested, it is kept where the widest of those barriers has both
lanes in one run. From all dependencies of a group follow the narrowest widths that keep every one of them: one for each
turn of loops of known length, one for all turns elsewhere. Where the elements are not known before the run, every lane
is taken to depend on every other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pydp.lang import ir
from pydp.lang.barriers.width_summary import Summary
from pydp.lang.execute.lane_events import Access, BarrierEvent, Event, SkippedIterations, lane_index
from pydp.lang.execute.symbolic_run import trace_group
from pydp.lang.ir.diagnostics import VectorError

MOST_MEETINGS = 160  # beyond, comparing all pairs of intervals takes too long: barriers keep their full width


@dataclass(frozen=True)
class Width:
    """The width of a barrier: one for all its turns, or one for each of them in order. 1: no lanes need to meet.

    found: by all accesses around it; else it is the whole group's because they were not all followed or compared.
    """

    turns: tuple[int, ...]
    found: bool = field(default=True, compare=False)

    @property
    def widest(self) -> int:
        return max(self.turns)

    @property
    def is_constant(self) -> bool:
        return len(set(self.turns)) == 1

    def __str__(self) -> str:
        shown = self.turns[:1] if self.is_constant else self.turns
        return ", ".join("none" if width == 1 else str(width) for width in shown)


@dataclass(frozen=True)
class _Need:
    """Between intervals `first` and `last` some barrier must be as wide as `width`; `sure` ones happen whenever both
    intervals' accesses do."""

    first: int
    last: int
    width: int
    sure: tuple[int, ...]


def infer(
    function: ir.Function, sharing: Iterable[Collection[str]] = (), most: int = MOST_MEETINGS
) -> dict[int, Width]:
    """The narrowest width of each barrier, by the barrier's number, that keeps every dependency between lanes.

    Widths are powers of two that divide the group's size, or that size itself. `sharing` names array arguments
    that may share memory with one another. Barriers that the analysis does not reach keep the whole group, as do all
    where a group meets more than `MOST_MEETINGS` times, or more than `most` times between unlike accesses.

    A tree reduction of 8 elements by 4 lanes has the widths 4, 2 and none in the turns of its loop.
    """
    barriers = ir.barriers(function.body)
    size = max(1, math.prod(function.group or (1,)))
    result = {barrier.number: Width((size,), found=False) for barrier in barriers}
    group = _Group(trace_group(function), size, sharing)
    if not barriers or len(group.meetings) > MOST_MEETINGS or group.distinct() > most + 1:
        return result
    widths = _assign(group, list(group.needs()))
    for number, found in group.by_number(widths).items():
        result[number] = found
    return result


def check_given(function: ir.Function, events: Sequence[Event] | None = None) -> None:
    """Raise VectorError for a barrier whose given width does not divide the group, or lets lanes race.

    events: what the lanes of a group do, where a launch tells more of it than the function does. Of a group that meets
    more than `MOST_MEETINGS` times, accesses with many meetings between them are not compared.
    """
    if all(barrier.width is None for barrier in ir.barriers(function.body)):
        return
    extents = function.group or (1,)
    size = math.prod(extents)
    found = trace_group(function) if events is None else events
    group = _Group([e for e in found if not isinstance(e, Access) or e.certain], size, (), conservative=False)
    given = [_given(meeting, size) for meeting in group.meetings]
    count = len(given)
    spans = count if count <= MOST_MEETINGS else max(1, MOST_MEETINGS**2 // (2 * count))
    for span in range(1, spans + 1):
        for first in range(count + 1 - span):
            last = first + span
            between = set(given[first:last])
            if max(between) < size and not any(first <= gap <= last for gap in group.gaps):
                group.refuse(first, last, between, extents)


def _given(meeting: BarrierEvent, size: int) -> int:
    """The width a barrier is given, the group's size where it is not known yet."""
    if meeting.barrier.width is None or meeting.width is None or not meeting.width.is_exact:
        return size
    if meeting.barrier.from_condition:
        return size  # that many lanes, wherever they are
    values = np.unique(meeting.width.lanes)
    width = int(values[0])
    if len(values) > 1 or width < 1 or size % width:
        shown = width if len(values) == 1 else f"{values.tolist()}, not the same for all lanes"
        message = f"A barrier's width is {shown}; numbers that divide the group's {size} lanes are accepted"
        raise VectorError(message, meeting.barrier.where)
    return width


class _Group:
    """A group's accesses, interval by interval, and the meetings between them: number k ends interval k.

    doubting: see :class:`pydp.lang.barriers.width_summary.Summary`.
    """

    def __init__(
        self, events: Sequence[Event], size: int, sharing: Iterable[Collection[str]], conservative: bool = True
    ) -> None:
        begun = partial(defaultdict[str, Summary], partial(Summary, conservative))
        self.size = size
        self.widths = [w for w in (1 << k for k in range(size.bit_length())) if size % w == 0]
        if self.widths[-1] != size:
            self.widths.append(size)
        self.meetings: list[BarrierEvent] = []
        self.skipped: set[int] = set()  # barriers of loops that were not run to their end
        self.gaps: set[int] = set()  # intervals in which that happened
        self.intervals: list[dict[str, Summary]] = [begun()]
        self._contents: dict[Hashable, int] = {}
        self._numbers: dict[int, int] = {}
        names = {name: min(shared) for shared in sharing for name in shared}
        for event in events:
            if isinstance(event, BarrierEvent):
                self.meetings.append(event)
                self.intervals.append(begun())
            elif isinstance(event, SkippedIterations):
                self.skipped.update(id(barrier) for barrier in event.barriers)
                self.gaps.add(len(self.meetings))
            elif not isinstance(event.array, ir.PrivateArray):
                name = event.array.name
                shared_name = names.get(name)
                self.intervals[-1][shared_name or name].add(event, known=shared_name is None)

    def needs(self) -> Iterator[_Need]:
        """The dependencies that do not follow from others, those over fewer barriers first."""
        count = len(self.meetings)
        known: dict[tuple[int, int], int] = {}
        doubtful = np.cumsum([0, *(bool(meeting.context) for meeting in self.meetings)])
        kept: dict[tuple[int, int], int] = {}  # widths kept between two intervals, whatever conditions come true
        for span in range(1, count + 1):
            for first in range(count + 1 - span):
                last = first + span
                follows = max(kept.get((first, last - 1), 1), kept.get((first + 1, last), 1))
                sure_all = doubtful[first] == doubtful[last]
                widest = follows
                for name in self.intervals[first].keys() & self.intervals[last].keys():
                    before, after = self.intervals[first][name], self.intervals[last][name]
                    pair = self.alike(before), self.alike(after)
                    if pair not in known:
                        known[pair] = before.width_towards(after, self.widths)
                    width = known[pair]
                    if width == 1 or (sure_all and width <= follows):
                        continue
                    contexts = before.context, after.context
                    sure = (k for k in range(first, last) if sure_all or self._is_sure(self.meetings[k], contexts))
                    yield _Need(first, last, width, tuple(sure))
                    widest = max(widest, width) if sure_all else widest
                kept[first, last] = widest

    def alike(self, summary: Summary) -> int:
        """A number for summaries of equal content."""
        found = self._numbers.get(id(summary))
        if found is None:
            found = self._numbers[id(summary)] = self._contents.setdefault(summary.content, len(self._contents))
        return found

    def distinct(self) -> int:
        """How many intervals there are that differ from all before them."""
        return len({frozenset((name, self.alike(one)) for name, one in held.items()) for held in self.intervals})

    def _is_sure(self, meeting: BarrierEvent, contexts: tuple[tuple[int, ...], ...]) -> bool:
        return any(context[: len(meeting.context)] == meeting.context for context in contexts)

    def by_number(self, widths: list[int]) -> dict[int, Width]:
        """Each barrier's widths in the order of its turns; the widest of all where the turns are not known."""
        turns: dict[int, list[int]] = defaultdict(list)
        exact: dict[int, bool] = defaultdict(lambda: True)
        for meeting, width in zip(self.meetings, widths, strict=True):
            number = meeting.barrier.number
            turns[number].append(self.size if id(meeting.barrier) in self.skipped else width)
            exact[number] &= meeting.iterations_known and id(meeting.barrier) not in self.skipped
        cut = {meeting.barrier.number for meeting in self.meetings if id(meeting.barrier) in self.skipped}
        return {n: Width(tuple(found) if exact[n] else (max(found),), n not in cut) for n, found in turns.items()}

    def refuse(self, first: int, last: int, given: Collection[int], extents: tuple[int, ...]) -> None:
        """Raise VectorError where a dependency between two intervals needs more than the barriers between, which are of
        the `given` widths."""
        for name in self.intervals[first].keys() & self.intervals[last].keys():
            pair = self.intervals[first][name].racing(self.intervals[last][name], given)
            if pair is None:
                continue
            (one, lane), (other, other_lane) = pair
            between = max(self.meetings[first:last], key=lambda m: _given(m, self.size))
            before = f"lane {lane_index(lane, extents)} {_VERBS[one.kind]} {name} in line {one.where.line} before it"
            after = f"lane {lane_index(other_lane, extents)} {_VERBS[other.kind]} the same element in line"
            message = f"A barrier of width {max(given)} is too narrow: {before} and {after} {other.where.line} after it"
            raise VectorError(message, between.barrier.where)


_VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


def _assign(group: _Group, needs: list[_Need]) -> list[int]:
    """Widths for all meetings that satisfy every need, each of them as narrow as the others allow."""
    widths = [1] * len(group.meetings)
    for need in needs:
        sure = need.sure
        if sure:
            if max(widths[k] for k in sure) < need.width:
                widest = max(sure, key=lambda k: (widths[k], k))
                widths[widest] = need.width
        else:
            for k in range(need.first, need.last):
                widths[k] = max(widths[k], need.width)
    for k in sorted(range(len(widths)), key=lambda k: -widths[k]):
        _narrow(k, widths, needs)
    return widths


def _narrow(k: int, widths: list[int], needs: list[_Need]) -> None:
    """Make one meeting as narrow as the needs allow that no other meeting satisfies."""
    least = 1
    for need in needs:
        if not need.first <= k < need.last:
            continue
        if not need.sure or (k in need.sure and max((widths[j] for j in need.sure if j != k), default=0) < need.width):
            least = max(least, need.width)
    widths[k] = min(widths[k], least)
