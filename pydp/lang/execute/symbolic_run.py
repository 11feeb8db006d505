"""The accesses of one group's lanes, in order, as far as they are known before a launch.

A vector function is run once for a group in the abstract: what depends on the lane's place and on loop counters
is computed for every lane; what depends on data is unknown. The result is a list of accesses and barriers which
:mod:`static_checks` searches for races and :mod:`widths` for the lanes that a barrier must bring together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access, BarrierEvent, Event, SkippedIterations
from pydp.lang.execute.symbolic_evaluate import Evaluator
from pydp.lang.execute.symbolic_values import Known, Value, binary, meet, merge, symbol

WORK = 20_000  # expressions evaluated for one function, each for all lanes: a few tenths of a second
FIRST, LAST = 6, 3  # turns of a loop that run where not all of them can


def trace(function: ir.Function, work: int = WORK) -> list[Event]:
    """All accesses and barriers of one group, in program order. A function without a group has one lane.

    Where `work` evaluations of expressions do not suffice, only the first and last turns of loops are followed.
    """
    tracer = Tracer(function, work)
    with np.errstate(all="ignore"):
        tracer.block(function.body)
    return tracer.events


class Tracer(Evaluator):
    """Runs a function for lanes in the abstract; `events` is what they did."""

    several_groups = False  # the lanes are those of one group, and go round loops with barriers together

    def __init__(self, function: ir.Function, most: int) -> None:
        super().__init__(function)
        self.most = most
        self.assignments_uncertain = (
            False  # lanes that went on to the next turn have missed the assignments that follow
        )
        self.loops: list[np.ndarray] = []  # for each loop, the lanes that have gone on to its next turn
        self.bodies: list[list[ir.Stmt]] = []  # of these loops

    def block(self, body: list[ir.Stmt]) -> None:
        for statement in body:
            if self.active is not self.everyone and not self.active.any():
                return
            getattr(self, "run_" + type(statement).__name__.lower())(statement)

    def run_assign(self, statement: ir.Assign) -> None:
        value = self.evaluate(statement.value)
        if statement.members or self.assignments_uncertain:
            value = None
            self.signatures.pop(statement.variable.name, None)
        elif value is None:
            self.signatures[statement.variable.name] = self.signature(statement.value)
        if value is not None or self.active is not self.everyone:
            self.signatures.pop(statement.variable.name, None)
        self.put(statement.variable, value)

    def put(self, variable: ir.Variable, value: Value) -> None:
        if self.active is not self.everyone and variable.name in self.values and not self.active.all():
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
        absent = () if self.active is self.everyone else tuple(int(lane) for lane in np.nonzero(~self.active)[0])
        self.events.append(BarrierEvent(statement, self.context, self.exact, width, absent))

    def run_if(self, statement: ir.If) -> None:
        condition = self.evaluate(statement.condition)
        if condition is not None and condition.is_exact:
            outer = self.active
            truth = np.broadcast_to(condition.lanes, outer.shape)
            self.active = outer & truth
            self.block(statement.then)
            left, self.active = self.active, outer & ~truth
            self.block(statement.orelse)
            self.active = self.active | left
            if self.active.all():
                self.active = self.everyone
            return
        before, signatures, outer = dict(self.values), dict(self.signatures), self.active
        ends = []
        for body in (statement.then, statement.orelse):
            self.values, self.signatures, self.active = dict(before), dict(signatures), outer
            with self.unsure(self._is_shared(condition, body)):
                self.block(body)
            ends.append((self.values, self.active))
        self.values = meet(ends[0][0], ends[1][0])
        self.active = ends[0][1] | ends[1][1]
        for inner in ir.statements([*statement.then, *statement.orelse]):
            if isinstance(inner, ir.Assign | ir.For):
                self.signatures.pop(inner.variable.name, None)
        left_by = list(ir.jumps([*statement.then, *statement.orelse]))
        if left_by:
            self._left_by(left_by, self._is_shared(condition, statement.then))

    def _is_shared(self, condition: Value, body: list[ir.Stmt]) -> bool:
        """Whether a condition of unknown outcome has the same outcome in all lanes."""
        return condition is not None or bool(ir.barriers(body))

    def _left_by(self, jumps: Sequence[ir.Stmt], shared: bool) -> None:
        """What follows in a loop that is perhaps left: lanes that meet in it leave it together, and what they then do
        not come to are barriers too."""
        continued = any(isinstance(jump, ir.Continue) for jump in jumps)
        self.assignments_uncertain = self.assignments_uncertain or continued
        meets = bool(ir.barriers(self.bodies[-1]))
        shared = shared or (meets and not continued)
        self._may_have_left(shared)
        if meets and not shared:
            self._may_have_left(True)

    def run_for(self, statement: ir.For) -> None:
        start, stop, step = (self.evaluate(e) for e in (statement.start, statement.stop, statement.step))
        if start is None or stop is None or step is None or not step.is_exact or start.symbols != stop.symbols:
            self._unknown_loop(statement, start, step, shared=stop is not None and stop.is_uniform)
            return
        first, last, stride = (np.asarray(v.lanes).astype(np.int64) for v in (start, stop, step))
        ahead = np.where(stride > 0, last - first, np.where(stride < 0, first - last, 0))
        trips = np.broadcast_to(-(-ahead // np.maximum(1, np.abs(stride))), (self.size,))
        symbols, dtype = start.symbols, statement.variable.dtype
        uniform = all(v.is_uniform for v in (start, stop, step))

        def turn(number: int) -> None:
            going = trips > number
            if not going.all():
                self.active = self.active & going
            self.put(statement.variable, Known((first + number * stride).astype(dtype)[()], symbols))

        outer = self.active
        most = int(trips[outer].max(initial=0))
        if not uniform and most > FIRST and not self.several_groups and ir.barriers(statement.body):
            most = FIRST  # the front end refuses it: lanes would part at the barrier
        self._turns(statement, most, turn)
        self.active = outer

    def _turns(self, statement: ir.For, count: int, turn: Any) -> None:
        """Run the turns 0 .. count - 1, or the first and the last few of them where that is too much work."""
        state, began, number = self._state(), self.work, 0
        while number < count:
            turn(number)
            self.active = self._once(statement.body)
            if not self.active.any():
                break
            number += 1
            if number == FIRST and (self.work - began) / number * (count - number) > self.most - self.work:
                self._skip(statement)
                number = max(number, count - LAST)
        self._end_loop(statement, state)

    def _state(self) -> tuple[bool, tuple[int, ...], bool, bool]:
        return self.certain, self.context, self.exact, self.assignments_uncertain

    def _end_loop(self, statement: ir.For | ir.While, state: tuple[bool, tuple[int, ...], bool, bool]) -> None:
        """Back to what held before a loop; lanes that may have left it early have unknown values of its variables."""
        if self._state() != state:
            self._forget([statement])
        self.certain, self.context, self.exact, self.assignments_uncertain = state

    def _once(self, body: list[ir.Stmt]) -> np.ndarray:
        """One turn of a loop's body for the active lanes; those that go on to the next turn."""
        self.loops.append(np.zeros(self.size, bool))
        self.bodies.append(body)
        before = self.context
        self.block(body)
        continued = self.loops.pop()
        self.bodies.pop()
        if self.context != before and any(isinstance(jump, ir.Continue) for jump in ir.jumps(body)):
            self.context = before  # the next turn comes, whether the rest of this one did or not
            if any(isinstance(jump, ir.Break) for jump in ir.jumps(body)):
                self._may_have_left(True)
        return self.active if not continued.any() else self.active | continued

    def _skip(self, statement: ir.For | ir.While) -> None:
        """Turns that are not run: they may touch anything in the arrays that the body touches."""
        self._forget(statement.body)
        self.events.append(SkippedIterations(ir.barriers(statement.body)))
        touched = [(s.array, s.where) for s in ir.statements(statement.body) if isinstance(s, ir.Store | ir.Atomic)]
        for array, where in touched:
            lanes = np.nonzero(self.active)[0]
            self.events.append(Access("write", array, lanes, None, False, self.context, where))
        for part in (p for s in ir.statements(statement.body) for e in ir.expressions(s) for p in ir.walk(e)):
            if isinstance(part, ir.Load):
                lanes = np.nonzero(self.active)[0]
                self.events.append(Access("read", part.array, lanes, None, False, self.context, part.where))
        self.exact = False
        if any(isinstance(one, ir.Break) for one in ir.jumps(statement.body)):
            self.certain = False  # lanes may have left in turns that are not run, and not come to later barriers
            self._may_have_left(True)

    def _forget(self, body: list[ir.Stmt]) -> None:
        for statement in ir.statements(body):
            if isinstance(statement, ir.Assign | ir.For):
                self.values[statement.variable.name] = None
                self.signatures.pop(statement.variable.name, None)

    def _unknown_loop(self, statement: ir.For | ir.While, start: Value, step: Value, shared: bool) -> None:
        """Two turns of a loop of unknown length: enough to see what meets across its end."""
        outer, state, settled = self.active, self._state(), self.settled
        self._forget(statement.body)
        self.serial += 1
        turn = ("turn", self.serial)
        shared = shared or bool(ir.barriers(statement.body))
        for number in range(2):
            self.active = outer
            self._may_have_left(shared)
            self.settled = number == 1 and settled
            self._forget(statement.body)
            if isinstance(statement, ir.For):
                counter = None
                if start is not None and step is not None and step.is_exact and step.is_uniform:
                    turns = binary("mul", symbol(turn, step.lanes.dtype), step, step.lanes.dtype)
                    ahead = binary("add", turns, Known(step.lanes * step.lanes.dtype.type(number)), step.lanes.dtype)
                    counter = binary("add", start, ahead, statement.variable.dtype)
                self.values[statement.variable.name] = counter
            else:
                self.evaluate(statement.condition)
            self._once(statement.body)
        self._forget([statement])
        self.active, self.settled = outer, settled
        self.certain, self.context, self.exact, self.assignments_uncertain = state

    def run_while(self, statement: ir.While) -> None:
        outer, state, turns = self.active, self._state(), 0
        while self.active.any():
            condition = self.evaluate(statement.condition)
            if condition is None or not condition.is_exact or self.work > self.most:
                if turns:
                    self._skip(statement)
                self._unknown_loop(statement, None, None, shared=condition is not None and condition.is_uniform)
                break
            self.active = self.active & condition.lanes
            if self.active.any():
                self.active = self._once(statement.body)
            turns += 1
        self.active = outer
        self._end_loop(statement, state)

    def run_break(self, statement: ir.Break) -> None:
        self.active = np.zeros_like(self.active)

    def run_continue(self, statement: ir.Continue) -> None:
        self.loops[-1] |= self.active
        self.active = np.zeros_like(self.active)
