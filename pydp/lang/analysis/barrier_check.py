"""Checks given barrier widths with the values of a launch: each must divide the group's size and prevent races.

The accesses around the barriers are checked in some groups of the launch. If a launch is not traced, because similar
ones were, or if computed widths depend on the group, the first lane of each group runs the statements that decide the
widths. Of more than FIRST_LANES groups (65,536), only groups at both ends of the grid are checked. Widths and accesses
that depend on data are left to checked mode.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.barriers.widths import check_given
from pydp.lang.execute.lane_events import Access, BarrierEvent, Event, width_error
from pydp.lang.execute.launch_lanes import LaunchTrace, LaunchValues, trace_launch
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.ir.rewrite import Rewriter

MAX_WORK = 6_000  # limit for the number of evaluated expressions in a trace of a launch
_MAX_WIDTH_WORK = 16_000  # the same for a trace of the statements that decide widths, of which few lanes are traced
_MAX_GROUPS = 4


class BarrierCheck:
    """The check of a function's given barrier widths. is_needed: the result depends on the values of a launch."""

    def __init__(self, function: ir.Function, inputs: Sequence[ir.Expr], controlling: set[str]) -> None:
        """inputs, controlling: the results of :func:`pydp.lang.analysis.launch_check.control_inputs`."""
        size = math.prod(function.group or (1,))
        given = [one.width for one in ir.barriers(function.body) if one.width is not None and not one.from_condition]
        computed = any(not isinstance(width, ir.Const) for width in given)
        narrow = computed or any(isinstance(width, ir.Const) and width.value < size for width in given)
        self.is_needed = computed or (narrow and (bool(inputs) or _may_share_elements(function.body)))
        self._deciding = _ControlOnly(controlling).function(function) if computed else None
        deciding = ir.parts(ir.statements(self._deciding.body)) if self._deciding is not None else ()
        self._depends_on_group = any(isinstance(part, ir.GroupIndex | ir.GlobalIndex) for part in deciding)
        self._size = size

    def check(self, trace: LaunchTrace) -> None:
        """Raise VectorError for a width that does not divide the group's size, or is too narrow, so that lanes of a
        group race."""
        if self.is_needed:
            if trace.is_cut or self._depends_on_group:
                self.check_values(trace.launch)
            else:
                self._check_values(trace)
            for group in _different_groups(trace):
                check_given(trace.function, _group_events(trace, group))

    def check_values(self, launch: LaunchValues) -> None:
        """Raise VectorError for a computed width that does not divide the group's size."""
        if self._deciding is not None:
            self._check_values(trace_launch(self._deciding, launch, (), _MAX_WIDTH_WORK, first_lanes=True))

    def _check_values(self, trace: LaunchTrace) -> None:
        for event in trace.events:
            if not isinstance(event, BarrierEvent) or event.width is None or event.barrier.from_condition:
                continue
            if event.width.is_exact:
                lanes = event.width.lanes
                for width in np.unique(lanes if event.width.is_uniform else np.delete(lanes, event.absent)).tolist():
                    wrong = width_error([width], self._size)
                    if wrong:
                        raise VectorError(wrong, event.barrier.where)


class _ControlOnly(Rewriter):
    """Removes stores, assignments to variables that are not `controlling`, and the blocks that are then empty."""

    def __init__(self, controlling: set[str]) -> None:
        self.controlling = controlling

    def expr(self, expr: ir.Expr) -> ir.Expr:
        return expr

    def statement(self, one: ir.Stmt) -> list[ir.Stmt]:
        if isinstance(one, ir.Store | ir.Atomic):
            return []
        if isinstance(one, ir.Assign | ir.For) and one.variable.name in self.controlling:
            return super().statement(one)
        kept = [] if isinstance(one, ir.Assign) else super().statement(one)
        has_blocks = isinstance(one, ir.If | ir.For | ir.While)
        return [new for new in kept if not has_blocks or any(ir.blocks(new))]


def _may_share_elements(body: list[ir.Stmt]) -> bool:
    """Whether an argument is written and also accessed with other index expressions. Only the values of a launch can
    show whether these are the same elements, for example for indexes in the grid and in the group."""
    written: set[str] = set()
    touched: dict[str, set[object]] = defaultdict(set)
    for statement in ir.statements(body):
        changed = [statement] if isinstance(statement, ir.Store | ir.Atomic) else []
        written.update(one.array.name for one in changed if isinstance(one.array, ir.GlobalArray))
        for one in (*ir.loads([statement]), *changed):
            varies = any(isinstance(part, ir.Read) for index in one.indices for part in ir.walk(index))
            touched[one.array.name].add(one.uid if varies else repr(one.indices))
    return any(len(touched[name]) > 1 for name in written)


def _different_groups(trace: LaunchTrace) -> list[int]:
    """The first groups of a trace in which different numbers of lanes perform its accesses and reach its barriers."""
    group_number = trace.sample.group_number
    accesses = (event for event in trace.events if isinstance(event, Access))
    lanes = list({id(event.lanes): event.lanes for event in accesses}.values())
    lanes += [np.array(event.absent, int) for event in trace.events if isinstance(event, BarrierEvent) and event.absent]
    active = np.array([np.bincount(group_number[one], minlength=int(group_number[-1]) + 1) for one in lanes])
    if not len(active):
        return [0]
    _, first = np.unique(active, axis=1, return_index=True)
    return sorted(first.tolist())[:_MAX_GROUPS]


def _group_events(trace: LaunchTrace, group: int) -> list[Event]:
    """The events of one group of a trace, with the group's lane numbers."""
    first, stop = np.searchsorted(trace.sample.group_number, (group, group + 1)).tolist()
    parts: dict[int, np.ndarray] = {}  # the group's lanes, by the id of the array of all lanes, which accesses share
    found: list[Event] = []
    for event in trace.events:
        if isinstance(event, Access):
            lanes = parts.get(id(event.lanes))
            if lanes is None:
                low, high = np.searchsorted(event.lanes, (first, stop))
                lanes = parts[id(event.lanes)] = event.lanes[low:high] - first
            if len(lanes):
                found.append(_group_access(event, lanes, first, stop, trace.launch))
        elif isinstance(event, BarrierEvent):
            absent = tuple(lane - first for lane in event.absent if first <= lane < stop)
            if len(absent) < stop - first:
                found.append(replace(event, width=_part(event.width, first, stop), absent=absent))
        else:
            found.append(event)
    return found


def _group_access(event: Access, lanes: np.ndarray, first: int, stop: int, launch: LaunchValues) -> Access:
    """The part of an access that the lanes of a group, `first` to `stop`, perform on elements that exist."""
    dims = None if event.dims is None else tuple([_part(index, first, stop) for index in event.dims])
    if dims is not None and isinstance(event.array, ir.GlobalArray):
        lanes = lanes[_in_bounds(dims, lanes, launch.shapes[event.array.position])]
    value = _part(event.value, first, stop)
    signature = event.signature if np.ndim(event.signature) == 0 else event.signature[first:stop]
    state = (event.certain, event.context, event.where, event.site, value, event.earlier_writes_traced)
    return Access(event.kind, event.array, lanes, dims, *state, signature, event.members)


def _part(value: OptionalValue, first: int, stop: int) -> OptionalValue:
    if value is None or value.is_uniform:
        return value
    return SymbolicValue(value.lanes[first:stop], value.symbols)


def _in_bounds(dims: Sequence[OptionalValue], lanes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A mask of the lanes whose element exists, as far as it is known."""
    inside = np.ones(len(lanes), bool)
    for index, extent in zip(dims, shape, strict=True):
        if index is not None and index.is_exact:
            values: Any = index.lanes if index.is_uniform else index.lanes[lanes]
            inside &= (values >= 0) & (values < extent)
    return inside
