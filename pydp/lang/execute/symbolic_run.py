"""Runs a vector function with symbolic values for the lanes of one group, and records their accesses and barriers.

Values that depend only on lane indexes and loop counters are computed for every lane; values that depend on data are
unknown. :mod:`static_checks` searches the recorded events for races, and :mod:`widths` infers from them which lanes
each barrier must synchronize.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute import symbolic_values
from pydp.lang.execute.lane_events import Access, BarrierEvent, Event, SkippedIterations
from pydp.lang.execute.lane_signature import Signature, reads_changing, signature
from pydp.lang.execute.lanes import Counter, Lanes
from pydp.lang.execute.masks import Mask, mask_or, normalize
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue, binary, merge_states, symbol
from pydp.runtime.bounded import BoundedCache

WORK = 20_000  # limit for the number of evaluated expressions, each for all lanes: a few tenths of a second
_latest = BoundedCache(1)  # the latest trace, by its function's id: it may be large, and a first call needs no other
FIRST_ITERATIONS, LAST_ITERATIONS = 6, 3  # the iterations of a loop that are traced if not all of them can be


def trace_group(function: ir.Function, work: int = WORK) -> list[Event]:
    """All accesses and barriers of one group, in program order. A function without a group has one lane.

    If `work` evaluations of expressions do not suffice, only the first and the last iterations of loops are traced. The
    static checks, the inference of widths and the bank layouts of a first call share one trace.
    """
    tracer: Tracer | None = _latest.find(id(function))
    if tracer is None or (tracer.is_cut and tracer.max_work < work):
        tracer = Tracer(function, work)
        with np.errstate(all="ignore"):
            tracer.block(function.body)
        _latest.put(id(function), tracer)  # the tracer references the function, so the id stays valid
    return tracer.events


class Tracer(Lanes):
    """Runs a function for all lanes with symbolic values; `events` has their accesses and barriers.

    Both branches of an unknown condition run, each from the state before it. A loop with an unknown number of
    iterations runs twice. `certain`, `context` and `iterations_known` say under which unknown conditions a statement
    runs (see :class:`Access` and :class:`BarrierEvent`).
    """

    operations = symbolic_values
    several_groups = False  # the lanes belong to one group and run loops with barriers together

    def __init__(self, function: ir.Function, work: int) -> None:
        super().__init__()
        self.function, self.max_work = function, work
        self.is_cut = False  # iterations were skipped because of `max_work`
        self.group = function.group or (1,) * function.grid_rank
        self.size = max(1, math.prod(self.group))
        self.local_indices = np.unravel_index(np.arange(self.size), self.group) if self.group else ()
        self.lanes = np.arange(self.size)
        self.certain, self.iterations_known, self.earlier_writes_traced = True, True, True
        self.context: tuple[int, ...] = ()
        self.assignments_uncertain = False  # unknown lanes may have executed `continue` and skip what follows
        self.signatures: dict[str, Signature] = {}
        self._reads_changing: dict[int, bool] = {}  # whether an expression reads an array that may change, by uid
        self.written = {s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)}
        self.events: list[Event] = []
        self.condition_count = 0
        self.loop_has_barriers = False  # the innermost open loop has barriers
        self.loop_values_uncertain = False  # unknown lanes may have left it before assignments

    # --- indexes, extents and arguments -------------------------------------------------------------------

    def from_numpy(self, value: Any) -> OptionalValue:
        return SymbolicValue(value) if value.dtype.names is None else None

    def of_read(self, e: ir.Read) -> OptionalValue:
        return self.values.get(e.variable.name)

    def of_parameter(self, e: ir.Parameter) -> OptionalValue:
        return symbol(("parameter", e.position, e.item), e.dtype)

    def uniform_index(self, what: str, axis: int, dtype: np.dtype[Any]) -> OptionalValue:
        """A uniform index along an axis: the group's index in the grid ("group") or the grid's offset ("offset")."""
        return symbol((what, axis), dtype)

    def of_groupindex(self, e: ir.GroupIndex) -> OptionalValue:
        return self.uniform_index("group", e.axis, e.dtype)

    def of_localindex(self, e: ir.LocalIndex) -> OptionalValue:
        if self.group[e.axis] == 1:
            return SymbolicValue(e.dtype.type(0))
        return SymbolicValue(self.local_indices[e.axis].astype(e.dtype))

    def of_globalindex(self, e: ir.GlobalIndex) -> OptionalValue:
        group, extent = self.uniform_index("group", e.axis, e.dtype), SymbolicValue(e.dtype.type(self.group[e.axis]))
        first = binary("mul", group, extent, e.dtype)
        first = binary("add", first, self.uniform_index("offset", e.axis, e.dtype), e.dtype)
        return binary("add", first, SymbolicValue(self.local_indices[e.axis].astype(e.dtype)), e.dtype)

    def of_gridextent(self, e: ir.GridExtent) -> OptionalValue:
        return symbol(("grid", e.axis), e.dtype)

    def of_arrayextent(self, e: ir.ArrayExtent) -> OptionalValue:
        return symbol(("extent", e.array.name, e.axis), e.dtype)

    # --- accesses, barriers and assignments ---------------------------------------------------------------

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: OptionalValue = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        """Record an access of the active lanes. Subclasses may ignore the access and return None."""
        dims = tuple(self.evaluate(index) for index in access.indices)
        known = None if any(value is None for value in dims) else dims
        state = (self.certain, self.context, where, access, value, self.earlier_writes_traced)
        event = Access(kind, access.array, self._active_lanes(), known, *state, members=members)
        self.events.append(event)
        return event

    def _active_lanes(self) -> np.ndarray:
        return self.lanes if self.active is True else np.nonzero(self.active)[0]

    def load(self, expression: ir.Load, members: tuple[str, ...]) -> OptionalValue:
        self.touch("read", expression, expression.where, members=members)
        return None

    def run_store(self, statement: ir.Store) -> None:
        value = self.evaluate(statement.value)
        event = self.touch("write", statement, statement.where, value, statement.members)
        if value is None and event is not None:
            event.signature = self.signature(statement.value)

    def run_atomic(self, statement: ir.Atomic) -> None:
        self.evaluate(statement.value)
        self.touch("atomic", statement, statement.where)

    def run_barrier(self, statement: ir.Barrier) -> None:
        width = self.evaluate(statement.width) if statement.width is not None else None
        absent = () if self.active is True else tuple(int(lane) for lane in np.nonzero(~self.active)[0])
        self.events.append(BarrierEvent(statement, self.context, self.iterations_known, width, absent))

    def run_assign(self, statement: ir.Assign) -> None:
        value = self.evaluate(statement.value)
        if statement.members or self.assignments_uncertain:
            value = None
            self.signatures.pop(statement.variable.name, None)
        elif value is None:
            self.signatures[statement.variable.name] = self.signature(statement.value)
        if value is not None or self.active is not True:
            self.signatures.pop(statement.variable.name, None)
        self.put(statement.variable, value)

    def signature(self, expression: ir.Expr) -> Signature:
        changing = self._reads_changing.get(expression.uid)
        if changing is None:
            changing = self._reads_changing[expression.uid] = reads_changing(expression, self.written)
        return None if changing else signature(expression, self.evaluate, self.signatures, self.written)

    def _forget(self, body: list[ir.Stmt]) -> None:
        """The values of variables that are assigned in a body become unknown."""
        for statement in ir.statements(body):
            if isinstance(statement, ir.Assign | ir.For):
                self.values[statement.variable.name] = None
                self.signatures.pop(statement.variable.name, None)

    # --- conditions ---------------------------------------------------------------------------------------

    def mask_of(self, condition: OptionalValue) -> Mask | None:
        if condition is None or not condition.is_exact:
            return None
        return bool(condition.lanes) if condition.is_uniform else condition.lanes

    def outcome_of(self, condition: OptionalValue) -> bool | None:
        mask = self.mask_of(condition)
        if mask is None or mask is True or mask is False:
            return mask
        truths = mask if self.active is True else mask[self.active]
        return bool(truths[0]) if len(truths) and (truths == truths[0]).all() else None

    def evaluate_under(self, condition: OptionalValue, expression: ir.Expr, wanted: bool) -> OptionalValue:
        if self.mask_of(condition) is not None:
            return super().evaluate_under(condition, expression, wanted)
        with self.unknown_condition(uniform=condition is not None):
            return self.evaluate(expression)

    @contextmanager
    def unknown_condition(self, uniform: bool) -> Iterator[None]:
        """Context manager: the code inside runs under a condition of unknown outcome. uniform: the outcome is the same
        for all lanes of a group."""
        state = self.certain, self.context, self.iterations_known
        self._enter_unknown_condition(uniform)
        yield
        self.certain, self.context, self.iterations_known = state

    def _enter_unknown_condition(self, uniform: bool) -> None:
        self.iterations_known = False
        if uniform:
            self.condition_count += 1
            self.context = (*self.context, self.condition_count)
        else:
            self.certain = False

    def run_unknown_if(self, statement: ir.If, condition: OptionalValue) -> None:
        """Run both branches. Variables that have different values afterwards become unknown."""
        branches = [*statement.then, *statement.orelse]
        before, signatures, outer = self.values, self.signatures, self.active
        ends = []
        for body in (statement.then, statement.orelse):
            self.values, self.signatures, self.active = dict(before), dict(signatures), outer
            with self.unknown_condition(self._is_uniform(condition, body)):
                self.block(body)
            ends.append((self.values, self.active))
        self.values = merge_states(ends[0][0], ends[1][0])
        self.active = normalize(mask_or(ends[0][1], ends[1][1]))
        for inner in ir.statements(branches):
            if isinstance(inner, ir.Assign | ir.For):
                self.signatures.pop(inner.variable.name, None)
        jumps = list(ir.jumps(branches))
        if jumps:
            self._after_jumps(jumps, self._is_uniform(condition, statement.then))

    def _is_uniform(self, condition: OptionalValue, body: list[ir.Stmt]) -> bool:
        """Whether a condition of unknown outcome is uniform. It must be if its body has barriers."""
        return condition is not None or bool(ir.barriers(body))

    def _after_jumps(self, jumps: Sequence[ir.Stmt], uniform: bool) -> None:
        """The statements after a conditional jump run only if the jump was not taken. In a loop with barriers, all
        lanes break together, and a jump may skip barriers too."""
        continued = any(isinstance(jump, ir.Continue) for jump in jumps)
        self.loop_values_uncertain = True
        self.assignments_uncertain = self.assignments_uncertain or continued
        uniform = uniform or (self.loop_has_barriers and not continued)
        self._enter_unknown_condition(uniform)
        if self.loop_has_barriers and not uniform:
            self._enter_unknown_condition(True)

    # --- loops --------------------------------------------------------------------------------------------

    def run_for(self, statement: ir.For) -> None:
        with self._loop(statement):
            super().run_for(statement)

    def run_while(self, statement: ir.While) -> None:
        with self._loop(statement):
            super().run_while(statement)

    @contextmanager
    def _loop(self, statement: ir.For | ir.While) -> Iterator[None]:
        """Context manager for a loop. Unknown conditions of jumps and trip counts end with the loop."""
        state = self.certain, self.context, self.iterations_known, self.assignments_uncertain
        outer = self.loop_has_barriers, self.loop_values_uncertain
        self.loop_has_barriers, self.loop_values_uncertain = bool(ir.barriers(statement.body)), False
        yield
        if self.loop_values_uncertain:
            self._forget([statement])
        self.loop_has_barriers, self.loop_values_uncertain = outer
        self.certain, self.context, self.iterations_known, self.assignments_uncertain = state

    def run_iteration(self, body: list[ir.Stmt]) -> None:
        before, work_before = self.context, self.work
        super().run_iteration(body)
        self.work = max(self.work, work_before + 1)  # an iteration of an empty body takes time too
        if self.context != before and any(isinstance(jump, ir.Continue) for jump in ir.jumps(body)):
            self.context = before  # the next iteration does not depend on a `continue` in this one
            if any(isinstance(jump, ir.Break) for jump in ir.jumps(body)):
                self._enter_unknown_condition(True)

    def counter_of(self, start: OptionalValue, stop: OptionalValue, step: OptionalValue) -> Counter | None:
        if start is None or stop is None or step is None or not step.is_exact or start.symbols != stop.symbols:
            return None
        return Counter(start.lanes, stop.lanes, step.lanes)

    def counter_value(self, start: SymbolicValue, value: Any) -> SymbolicValue:
        return SymbolicValue(value, start.symbols)

    def iterations(self, loop: ir.For, counter: Counter) -> Iterator[int]:
        """The numbers of all iterations; if they are too much work, only of the first and the last ones."""
        count, first, work_before = counter.most_trips(self.active), FIRST_ITERATIONS, self.work
        if not counter.is_uniform and not self.several_groups and ir.barriers(loop.body):
            count = min(count, first)  # the front end rejects this loop, because its barrier is divergent
        yield from range(min(count, first))
        work_left = (self.work - work_before) / first * (count - first)
        if count > first and self.active is not False and work_left > self.max_work - self.work:
            self.is_cut = True
            self._skip(loop)
            first = max(first, count - LAST_ITERATIONS)
        yield from range(first, count)

    def _skip(self, statement: ir.For | ir.While) -> None:
        """Skip iterations: they may access any element of the arrays that the body accesses."""
        self._forget(statement.body)
        lanes = self._active_lanes()
        self.events.append(SkippedIterations(ir.barriers(statement.body)))
        written = [(s.array, s.where) for s in ir.statements(statement.body) if isinstance(s, ir.Store | ir.Atomic)]
        for array, where in written:
            self.events.append(Access("write", array, lanes, None, False, self.context, where))
        for part in (p for s in ir.statements(statement.body) for e in ir.expressions(s) for p in ir.walk(e)):
            if isinstance(part, ir.Load):
                self.events.append(Access("read", part.array, lanes, None, False, self.context, part.where))
        self.iterations_known, self.loop_values_uncertain = False, True
        if any(isinstance(one, ir.Break) for one in ir.jumps(statement.body)):
            self.certain = False  # lanes may have left the loop in skipped iterations, before later barriers
            self._enter_unknown_condition(True)

    def run_unknown_for(
        self, statement: ir.For, start: OptionalValue, stop: OptionalValue, step: OptionalValue
    ) -> None:
        self._unknown_loop(statement, start, step, uniform=stop is not None and stop.is_uniform)

    def run_unknown_while(self, statement: ir.While, condition: OptionalValue, iteration: int) -> None:
        self.is_cut = self.is_cut or self.work > self.max_work
        if iteration:
            self._skip(statement)
        self._unknown_loop(statement, None, None, uniform=condition is not None and condition.is_uniform)

    def _unknown_loop(
        self, statement: ir.For | ir.While, start: OptionalValue, step: OptionalValue, uniform: bool
    ) -> None:
        """Run two iterations of a loop with unknown trip count: enough to find dependencies between iterations."""
        outer, earlier_writes_traced = self.active, self.earlier_writes_traced
        self.loop_values_uncertain = True
        self.condition_count += 1
        iteration = ("iteration", self.condition_count)
        uniform = uniform or self.loop_has_barriers
        for number in range(2):
            self.active = outer
            self._enter_unknown_condition(uniform)
            self.earlier_writes_traced = number == 1 and earlier_writes_traced
            self._forget(statement.body)
            if isinstance(statement, ir.For):
                counter = None
                if start is not None and step is not None and step.is_exact and step.is_uniform:
                    dtype = step.lanes.dtype
                    base = binary("mul", symbol(iteration, dtype), step, dtype)
                    ahead = binary("add", base, SymbolicValue(step.lanes * dtype.type(number)), dtype)
                    counter = binary("add", start, ahead, statement.variable.dtype)
                self.values[statement.variable.name] = counter
            else:
                self.evaluate(statement.condition)
            self.run_iteration(statement.body)
        self.active, self.earlier_writes_traced = outer, earlier_writes_traced
