"""Checks of a vector function before any launch: out-of-bounds field indexes, races, uninitialized reads.

Only errors that certainly happen for some launch are reported; those that depend on data are left to checked mode.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.barriers import widths
from pydp.lang.execute.lane_events import Access, SkippedIterations, lane_index
from pydp.lang.execute.symbolic_run import trace_group
from pydp.lang.execute.symbolic_values import Symbols
from pydp.lang.ir.diagnostics import VectorError

WORK = 6_000  # limit for the number of evaluated expressions: a small part of the time of a kernel build
PAIRED = 64  # limit for the elements of an interval whose accesses are compared pair by pair


def check(function: ir.Function) -> bool:
    """Raise VectorError if lanes of a group certainly race, or access elements that do not exist.

    Reported are: an index outside a local_field or private_field; a read of an element of a local_field that no lane
    has written; two accesses by different lanes to one element of a local_field without a barrier between them, one of
    them a write; a given barrier width that does not divide the group or is too narrow. Lanes that write equal values
    in one statement do not race. Accesses to arrays are checked at the launch (see :mod:`race_check`).

    Returns whether an index is out of bounds under a condition that only the values of a launch decide.
    """
    widths.check_given(function)
    if not function.locals and not function.privates:
        return False
    group = function.group or (1,) * function.grid_rank
    intervals: dict[str, list[_Located]] = defaultdict(list)
    written: dict[str, np.ndarray | None] = {a.name: np.zeros(math.prod(a.shape), bool) for a in function.locals}
    doubtful = False
    for event in trace_group(function, WORK):
        if not isinstance(event, Access):
            if not isinstance(event, SkippedIterations) or event.barriers:
                _close(intervals, group)
            continue
        if isinstance(event.array, ir.GlobalArray):
            continue
        located = _locate(event, group)
        doubtful = doubtful or (located is not None and len(located.lanes) < len(event.lanes))
        if isinstance(event.array, ir.LocalArray):
            _follow_writes(written, event, located, group)
            if located is not None and event.certain:
                intervals[event.array.name].append(located)
    _close(intervals, group)
    return doubtful


@dataclass(eq=False)
class _Located:
    """An access with the flat indexes of its elements, without the symbols."""

    access: Access
    lanes: np.ndarray
    elements: np.ndarray
    symbols: Symbols
    order: int = field(default=0)


def _locate(access: Access, group: tuple[int, ...]) -> _Located | None:
    """The elements of an access. Raises VectorError for an index that is certainly out of bounds."""
    if access.dims is None:
        return None
    assert not isinstance(access.array, ir.GlobalArray)
    lanes, flat = access.lanes, np.zeros((), np.int64)
    symbols: dict[Any, int] = {}
    exists: Any = None
    for axis, (index, extent) in enumerate(zip(access.dims, access.array.shape, strict=True)):
        assert index is not None
        values = np.asarray(index.lanes).astype(np.int64)
        values = values[lanes] if values.ndim else values
        flat = np.asarray(flat * extent + values)
        if index.symbols or symbols:
            symbols = {name: n * extent for name, n in symbols.items()}
            for name, n in index.symbols:
                symbols[name] = symbols.get(name, 0) + n
        if index.is_exact and (values.min(initial=0) < 0 or values.max(initial=0) >= extent):
            outside = np.broadcast_to((values < 0) | (values >= extent), lanes.shape)
            if access.certain and not access.context:
                at = int(np.argmax(outside))
                value = int(np.broadcast_to(values, lanes.shape)[at])
                lane = f"Lane {lane_index(int(lanes[at]), group)} of a group"
                raise VectorError(outside_text(access, axis, value, lane), access.where)
            exists = ~outside if exists is None else exists & ~outside
    pairs = tuple(sorted(((name, n) for name, n in symbols.items() if n), key=repr))
    flat = np.broadcast_to(flat, lanes.shape)
    if exists is not None:
        lanes, flat = lanes[exists], flat[exists]
    return _Located(access, lanes, flat, pairs)


def _shape(array: ir.Array) -> tuple[int, ...]:
    """The shape of a local or private array; the shapes of arguments are unknown here."""
    assert not isinstance(array, ir.GlobalArray), array
    return array.shape


def outside_text(access: Access, axis: int, value: int, lane: str) -> str:
    """The error message for an index outside a local or private field."""
    kind = "local_field" if isinstance(access.array, ir.LocalArray) else "private_field"
    verb = {"read": "reads", "write": "writes"}.get(access.kind, "updates")
    extent = _shape(access.array)[axis]
    return (
        f"{lane} {verb} {access.array.name} at index {value} of axis {axis}: this {kind} has "
        f"indexes 0 to {extent - 1} there"
    )


def _follow_writes(
    written: dict[str, np.ndarray | None], access: Access, located: _Located | None, group: tuple[int, ...]
) -> None:
    """Record the elements that may have been written. Raises VectorError for a read of one that was not."""
    name = access.array.name
    known = written[name]
    if known is None:
        return
    if access.kind == "write":
        if located is None or located.symbols:
            written[name] = None
        else:
            known[located.elements] = True
        return
    if located is None or located.symbols or not (access.certain and access.earlier_writes_traced):
        return
    missing = ~known[located.elements]
    if missing.any():
        at = int(np.argmax(missing))
        element = lane_index(int(located.elements[at]), _shape(access.array))
        lane = lane_index(int(located.lanes[at]), group)
        raise VectorError(f"Lane {lane} of a group reads {name}{element} before any lane has written it", access.where)


# --- races -----------------------------------------------------------------------------------------------


def _close(intervals: dict[str, list[_Located]], group: tuple[int, ...]) -> None:
    """Search the accesses between two barriers for races, then clear them."""
    for accesses in intervals.values():
        if any(a.access.kind != "read" for a in accesses):
            by_symbols: dict[Symbols, list[_Located]] = defaultdict(list)
            for number, access in enumerate(accesses):
                access.order = number
                by_symbols[access.symbols].append(access)
            for together in by_symbols.values():
                _search(together, group)
    intervals.clear()


def _search(accesses: list[_Located], group: tuple[int, ...]) -> None:
    elements = np.concatenate([a.elements for a in accesses])
    lanes = np.concatenate([a.lanes for a in accesses])
    changes = np.concatenate([np.full(len(a.lanes), a.access.kind != "read") for a in accesses])
    if not len(elements):
        return
    names, place = np.unique(elements, return_inverse=True)
    lowest = np.full(len(names), np.iinfo(np.int64).max)
    highest, changed = np.full(len(names), -1), np.zeros(len(names), bool)
    np.minimum.at(lowest, place, lanes)
    np.maximum.at(highest, place, lanes)
    np.logical_or.at(changed, place, changes)
    for element in names[changed & (lowest != highest)][:PAIRED]:
        _search_element(int(element), accesses, group)


def _search_element(element: int, accesses: list[_Located], group: tuple[int, ...]) -> None:
    """Compare the accesses to one element pair by pair, and raise VectorError for a race."""
    touching = [(a, a.lanes[a.elements == element]) for a in accesses]
    touching = [(a, lanes) for a, lanes in touching if len(lanes)]
    for number, (second, those) in enumerate(touching):
        for first, these in touching[: number + 1]:
            pair = _racing(first, these, second, those)
            if pair is not None:
                raise _race(element, first, pair[0], second, pair[1], group)


def _racing(first: _Located, these: np.ndarray, second: _Located, those: np.ndarray) -> tuple[int, int] | None:
    """Two lanes whose accesses to one element race; None if there are none."""
    one, other = first.access, second.access
    if (one.kind == other.kind and one.kind != "write") or one.touches_other_member(other):
        return None
    shorter = min(len(one.context), len(other.context))
    if one.context[:shorter] != other.context[:shorter]:
        return None
    agreeing = one.kind == other.kind and one.site is other.site and _comparable(one, other)
    for lane in these:
        racing = those != lane
        if agreeing:
            left, right = _written(other, those), _written(one, lane)
            racing &= (left != right) & ~((left != left) & (right != right))  # NaN equals NaN here
        if racing.any():
            return int(lane), int(those[np.argmax(racing)])
    return None


def _comparable(one: Access, other: Access) -> bool:
    """Whether it is known which lanes of two writes have equal values."""
    if one.value is not None and other.value is not None:
        return one.value.symbols == other.value.symbols
    return one.signature is not None and other.signature is not None


def _written(access: Access, lanes: Any) -> Any:
    values = np.asarray(access.signature if access.value is None else access.value.lanes)
    return values[lanes] if values.ndim else values


def _race(
    element: int, first: _Located, lane: int, second: _Located, other: int, group: tuple[int, ...]
) -> VectorError:
    array = first.access.array
    name = array.name
    if not first.symbols:
        at = str(lane_index(element, _shape(array)))
        name = f"{name}{at}"
    else:
        name = f"one element of {name}"
    verbs = {"read": "reads", "write": "writes", "atomic": "updates"}
    one = f"lane {lane_index(lane, group)} {verbs[first.access.kind]} {name} in line {first.access.where.line}"
    two = f"lane {lane_index(other, group)} {verbs[second.access.kind]} it in line {second.access.where.line}"
    return VectorError(f"Race: {one} and {two}, with no group_barrier() between them", second.access.where)
