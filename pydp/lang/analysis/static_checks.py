"""Checks of a vector function before any launch: out-of-bounds field indexes, races, uninitialized reads.

Only errors that certainly happen for some launch are reported; those that depend on data are left to checked mode.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis.bounds_check import lanes_in_bounds
from pydp.lang.analysis.race_check import LaneOrder, LocatedAccess, Race, find_race
from pydp.lang.barriers import widths
from pydp.lang.execute.lane_events import Access, BarrierEvent, Event, SkippedIterations, lane_index, race_text
from pydp.lang.execute.symbolic_run import trace_group
from pydp.lang.execute.symbolic_values import Symbols
from pydp.lang.ir.diagnostics import VectorError

WORK = 6_000  # limit for the number of evaluated expressions: a small part of the time of a kernel build

Intervals = dict[tuple[str, Symbols], list[LocatedAccess]]  # accesses since a barrier, by array and symbols of indexes


class StaticFacts(NamedTuple):
    """The results of :func:`check`.

    conditional_bounds: an index is out of bounds under a condition that only the values of a launch decide.
    fields_checked: no access to a local field, and no barrier, depends on the values of a launch, so a launch cannot
    have other races on local fields.
    """

    conditional_bounds: bool
    fields_checked: bool


def check(function: ir.Function) -> StaticFacts:
    """Raise VectorError if lanes of a group certainly race, or access elements that do not exist.

    Reported are: an index outside a local_field or private_field; a read of an element of a local_field that no lane
    has written; two accesses by different lanes to one element of a local_field without a barrier between them, one of
    them a write; a given barrier width that does not divide the group or is too narrow. Lanes that write equal values
    in one statement do not race. Accesses to arrays are checked at the launch (see :mod:`race_check`).
    """
    widths.check_given(function)
    if not function.locals and not function.privates:
        return StaticFacts(False, True)
    group = function.group or (1,) * function.grid_rank
    order = LaneOrder(np.zeros(math.prod(group), np.int64), by_group=True, several_groups=False)
    interval: Intervals = defaultdict(list)
    written: dict[str, np.ndarray | None] = {a.name: np.zeros(math.prod(a.shape), bool) for a in function.locals}
    conditional, fields_checked = False, True
    for event in trace_group(function, WORK):
        fields_checked = fields_checked and _is_known(event)
        if not isinstance(event, Access):
            if not isinstance(event, SkippedIterations) or event.barriers:
                _reject_races(interval, order, group)
            continue
        if isinstance(event.array, ir.GlobalArray) or event.dims is None:
            if isinstance(event.array, ir.LocalArray):
                _follow_writes(written, event, None, (), group)
            continue
        located, symbols = _locate(event, group)
        conditional = conditional or len(located.lanes) < len(event.lanes)
        if isinstance(event.array, ir.LocalArray):
            _follow_writes(written, event, located, symbols, group)
            if event.certain:
                interval[event.array.name, symbols].append(located)
    _reject_races(interval, order, group)
    return StaticFacts(conditional, fields_checked)


def _is_known(event: Event) -> bool:
    """Whether an event cannot cause a race on local fields that depends on the values of a launch: they have no effect
    on the event, or it accesses another array."""
    if isinstance(event, BarrierEvent):
        return event.iterations_known and not event.context
    if isinstance(event, SkippedIterations):
        return False
    if not isinstance(event.array, ir.LocalArray):
        return True
    known = event.dims is not None and all(index is not None and index.is_exact for index in event.dims)
    return known and event.certain and not event.context


def _locate(access: Access, group: tuple[int, ...]) -> tuple[LocatedAccess, Symbols]:
    """The elements of an access without the symbols of its indexes, and these symbols. Raises VectorError for an index
    that is certainly out of bounds."""
    inside = lanes_in_bounds(access, lambda lane: f"lane {lane_index(lane, group)} of a group")
    lanes, flat = access.lanes, np.zeros((), np.int64)
    symbols: dict[Any, int] = {}
    for index, extent in zip(access.dims or (), _shape(access.array), strict=True):
        assert index is not None
        flat = np.asarray(flat * extent + access.index_values(index))
        if index.symbols or symbols:
            symbols = {name: n * extent for name, n in symbols.items()}
            for name, n in index.symbols:
                symbols[name] = symbols.get(name, 0) + n
    flat = np.broadcast_to(flat, lanes.shape)
    if inside is not None:
        lanes, flat = lanes[inside], flat[inside]
    pairs = tuple(sorted(((name, n) for name, n in symbols.items() if n), key=repr))
    return LocatedAccess(access, 0, lanes, flat), pairs


def _shape(array: ir.Array) -> tuple[int, ...]:
    """The shape of a local or private array; the shapes of arguments are unknown here."""
    assert not isinstance(array, ir.GlobalArray), array
    return array.shape


def _follow_writes(
    written: dict[str, np.ndarray | None],
    access: Access,
    located: LocatedAccess | None,
    symbols: Symbols,
    group: tuple[int, ...],
) -> None:
    """Record the elements that may have been written. Raises VectorError for a read of one that was not.

    located: None if the elements are unknown."""
    name = access.array.name
    known = written[name]
    if known is None:
        return
    if access.kind == "write":
        if located is None or symbols:
            written[name] = None
        else:
            known[located.elements] = True
        return
    if located is None or symbols or not (access.certain and access.earlier_writes_traced):
        return
    missing = ~known[located.elements]
    if missing.any():
        at = int(np.argmax(missing))
        element = lane_index(int(located.elements[at]), _shape(access.array))
        lane = lane_index(int(located.lanes[at]), group)
        raise VectorError(f"lane {lane} of a group reads {name}{element} before any lane has written it", access.where)


def _reject_races(interval: Intervals, order: LaneOrder, group: tuple[int, ...]) -> None:
    """Raise VectorError if accesses between two barriers race, then clear them."""
    for (_name, symbols), accesses in interval.items():
        race = find_race(accesses, order)
        if race is not None:
            raise _error(race, symbols, group)
    interval.clear()


def _error(race: Race, symbols: Symbols, group: tuple[int, ...]) -> VectorError:
    first, second = race.first.access, race.second.access
    name = first.array.name
    element = f"one element of {name}" if symbols else f"{name}{lane_index(race.element, _shape(first.array))}"
    lanes = [f"lane {lane_index(lane, group)}" for lane in (race.lane, race.other)]
    text = race_text(first, lanes[0], element, second, lanes[1], "it")
    return VectorError(f"{text}, with no group_barrier() between them", second.where)
