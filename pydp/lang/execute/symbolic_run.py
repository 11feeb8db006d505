"""Runs a vector function with symbolic values for the lanes of one group, and records their accesses and barriers.

Values that depend only on lane indexes and loop counters are computed for every lane; values that depend on data are
unknown. :mod:`static_checks` searches the recorded events for races, and :mod:`widths` infers from them which lanes
each barrier must synchronize.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access, BarrierEvent, Event, SkippedIterations
from pydp.lang.execute.symbolic_evaluate import SymbolicEvaluator
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue, binary, merge, merge_states, symbol

WORK = 20_000  # limit for the number of evaluated expressions, each for all lanes: a few tenths of a second
FIRST_ITERATIONS, LAST_ITERATIONS = 6, 3  # the iterations of a loop that are traced if not all of them can be


def trace_group(function: ir.Function, work: int = WORK) -> list[Event]:
    """All accesses and barriers of one group, in program order. A function without a group has one lane.

    If `work` evaluations of expressions do not suffice, only the first and the last iterations of loops are traced.
    """
    tracer = Tracer(function, work)
    with np.errstate(all="ignore"):
        tracer.block(function.body)
    return tracer.events


class Tracer(SymbolicEvaluator):
    """Runs a function for all lanes with symbolic values; `events` has their accesses and barriers."""

    several_groups = False  # the lanes belong to one group and run loops with barriers together

    def __init__(self, function: ir.Function, most: int) -> None:
        super().__init__(function)
        self.max_work = most
        self.assignments_uncertain = False  # unknown lanes may have executed `continue` and skip what follows
        self.loops: list[np.ndarray] = []  # for each open loop, the lanes that executed `continue` in this iteration
        self.bodies: list[list[ir.Stmt]] = []  # the bodies of these loops

    def block(self, body: list[ir.Stmt]) -> None:
        for statement in body:
            if self.active is not self.all_lanes and not self.active.any():
                return
            getattr(self, "run_" + type(statement).__name__.lower())(statement)

    def run_assign(self, statement: ir.Assign) -> None:
        value = self.evaluate(statement.value)
        if statement.members or self.assignments_uncertain:
            value = None
            self.signatures.pop(statement.variable.name, None)
        elif value is None:
            self.signatures[statement.variable.name] = self.signature(statement.value)
        if value is not None or self.active is not self.all_lanes:
            self.signatures.pop(statement.variable.name, None)
        self.put(statement.variable, value)

    def put(self, variable: ir.Variable, value: OptionalValue) -> None:
        if self.active is not self.all_lanes and variable.name in self.values and not self.active.all():
            value = merge(self.active, value, self.values[variable.name])
        self.values[variable.name] = value

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
        absent = () if self.active is self.all_lanes else tuple(int(lane) for lane in np.nonzero(~self.active)[0])
        self.events.append(BarrierEvent(statement, self.context, self.iterations_known, width, absent))

    def run_if(self, statement: ir.If) -> None:
        condition = self.evaluate(statement.condition)
        if condition is not None and condition.is_exact:
            outer = self.active
            truth = np.broadcast_to(condition.lanes, outer.shape)
            self.active = outer & truth
            self.block(statement.then)
            after_then, self.active = self.active, outer & ~truth
            self.block(statement.orelse)
            self.active = self.active | after_then
            if self.active.all():
                self.active = self.all_lanes
            return
        before, signatures, outer = dict(self.values), dict(self.signatures), self.active
        ends = []
        for body in (statement.then, statement.orelse):
            self.values, self.signatures, self.active = dict(before), dict(signatures), outer
            with self.unknown_condition(self._is_uniform(condition, body)):
                self.block(body)
            ends.append((self.values, self.active))
        self.values = merge_states(ends[0][0], ends[1][0])
        self.active = ends[0][1] | ends[1][1]
        for inner in ir.statements([*statement.then, *statement.orelse]):
            if isinstance(inner, ir.Assign | ir.For):
                self.signatures.pop(inner.variable.name, None)
        jumps = list(ir.jumps([*statement.then, *statement.orelse]))
        if jumps:
            self._after_jumps(jumps, self._is_uniform(condition, statement.then))

    def _is_uniform(self, condition: OptionalValue, body: list[ir.Stmt]) -> bool:
        """Whether a condition of unknown outcome is uniform. It must be if its body has barriers."""
        return condition is not None or bool(ir.barriers(body))

    def _after_jumps(self, jumps: Sequence[ir.Stmt], uniform: bool) -> None:
        """The statements after a conditional jump run only if the jump was not taken. In a loop with barriers, all
        lanes break together, and a jump may skip barriers too."""
        continued = any(isinstance(jump, ir.Continue) for jump in jumps)
        self.assignments_uncertain = self.assignments_uncertain or continued
        has_barriers = bool(ir.barriers(self.bodies[-1]))
        uniform = uniform or (has_barriers and not continued)
        self._enter_unknown_condition(uniform)
        if has_barriers and not uniform:
            self._enter_unknown_condition(True)

    def run_for(self, statement: ir.For) -> None:
        start, stop, step = (self.evaluate(e) for e in (statement.start, statement.stop, statement.step))
        if start is None or stop is None or step is None or not step.is_exact or start.symbols != stop.symbols:
            self._unknown_loop(statement, start, step, uniform=stop is not None and stop.is_uniform)
            return
        first, last, stride = (np.asarray(v.lanes).astype(np.int64) for v in (start, stop, step))
        ahead = np.where(stride > 0, last - first, np.where(stride < 0, first - last, 0))
        trips = np.broadcast_to(-(-ahead // np.maximum(1, np.abs(stride))), (self.size,))
        symbols, dtype = start.symbols, statement.variable.dtype
        uniform = all(v.is_uniform for v in (start, stop, step))

        def iteration(number: int) -> None:
            going = trips > number
            if not going.all():
                self.active = self.active & going
            self.put(statement.variable, SymbolicValue((first + number * stride).astype(dtype)[()], symbols))

        outer = self.active
        count = int(trips[outer].max(initial=0))
        if not uniform and count > FIRST_ITERATIONS and not self.several_groups and ir.barriers(statement.body):
            count = FIRST_ITERATIONS  # the front end rejects this loop, because its barrier is divergent
        self._run_iterations(statement, count, iteration)
        self.active = outer

    def _run_iterations(self, statement: ir.For, count: int, iteration: Any) -> None:
        """Run the iterations 0 .. count - 1; if that is too much work, only the first and the last ones."""
        state, work_before, number = self._state(), self.work, 0
        while number < count:
            iteration(number)
            self.active = self._run_iteration(statement.body)
            if not self.active.any():
                break
            number += 1
            if number == FIRST_ITERATIONS:
                work_left = (self.work - work_before) / number * (count - number)
                if work_left > self.max_work - self.work:
                    self._skip(statement)
                    number = max(number, count - LAST_ITERATIONS)
        self._restore_state(statement, state)

    def _state(self) -> tuple[bool, tuple[int, ...], bool, bool]:
        return self.certain, self.context, self.iterations_known, self.assignments_uncertain

    def _restore_state(self, statement: ir.For | ir.While, state: tuple[bool, tuple[int, ...], bool, bool]) -> None:
        """Restore the state from before a loop. If lanes may have left it early, the values of variables that it
        assigns become unknown."""
        if self._state() != state:
            self._forget([statement])
        self.certain, self.context, self.iterations_known, self.assignments_uncertain = state

    def _run_iteration(self, body: list[ir.Stmt]) -> np.ndarray:
        """Run one iteration of a loop's body for the active lanes; returns the lanes that run the next one."""
        self.loops.append(np.zeros(self.size, bool))
        self.bodies.append(body)
        before = self.context
        self.block(body)
        continued = self.loops.pop()
        self.bodies.pop()
        if self.context != before and any(isinstance(jump, ir.Continue) for jump in ir.jumps(body)):
            self.context = before  # the next iteration does not depend on a `continue` in this one
            if any(isinstance(jump, ir.Break) for jump in ir.jumps(body)):
                self._enter_unknown_condition(True)
        return self.active if not continued.any() else self.active | continued

    def _skip(self, statement: ir.For | ir.While) -> None:
        """Skip iterations: they may access any element of the arrays that the body accesses."""
        self._forget(statement.body)
        self.events.append(SkippedIterations(ir.barriers(statement.body)))
        written = [(s.array, s.where) for s in ir.statements(statement.body) if isinstance(s, ir.Store | ir.Atomic)]
        for array, where in written:
            lanes = np.nonzero(self.active)[0]
            self.events.append(Access("write", array, lanes, None, False, self.context, where))
        for part in (p for s in ir.statements(statement.body) for e in ir.expressions(s) for p in ir.walk(e)):
            if isinstance(part, ir.Load):
                lanes = np.nonzero(self.active)[0]
                self.events.append(Access("read", part.array, lanes, None, False, self.context, part.where))
        self.iterations_known = False
        if any(isinstance(one, ir.Break) for one in ir.jumps(statement.body)):
            self.certain = False  # lanes may have left the loop in skipped iterations, before later barriers
            self._enter_unknown_condition(True)

    def _forget(self, body: list[ir.Stmt]) -> None:
        for statement in ir.statements(body):
            if isinstance(statement, ir.Assign | ir.For):
                self.values[statement.variable.name] = None
                self.signatures.pop(statement.variable.name, None)

    def _unknown_loop(
        self, statement: ir.For | ir.While, start: OptionalValue, step: OptionalValue, uniform: bool
    ) -> None:
        """Run two iterations of a loop with unknown trip count: enough to find dependencies between iterations."""
        outer, state, earlier_writes_traced = self.active, self._state(), self.earlier_writes_traced
        self._forget(statement.body)
        self.condition_count += 1
        iteration = ("iteration", self.condition_count)
        uniform = uniform or bool(ir.barriers(statement.body))
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
            self._run_iteration(statement.body)
        self._forget([statement])
        self.active, self.earlier_writes_traced = outer, earlier_writes_traced
        self.certain, self.context, self.iterations_known, self.assignments_uncertain = state

    def run_while(self, statement: ir.While) -> None:
        outer, state, iterations = self.active, self._state(), 0
        while self.active.any():
            condition = self.evaluate(statement.condition)
            if condition is None or not condition.is_exact or self.work > self.max_work:
                if iterations:
                    self._skip(statement)
                self._unknown_loop(statement, None, None, uniform=condition is not None and condition.is_uniform)
                break
            self.active = self.active & condition.lanes
            if self.active.any():
                self.active = self._run_iteration(statement.body)
            iterations += 1
        self.active = outer
        self._restore_state(statement, state)

    def run_break(self, statement: ir.Break) -> None:
        self.active = np.zeros_like(self.active)

    def run_continue(self, statement: ir.Continue) -> None:
        self.loops[-1] |= self.active
        self.active = np.zeros_like(self.active)
