"""Runs vector functions for many lanes at once. Each statement runs for all active lanes before the next statement.

:class:`Lanes` walks statements and expressions, and keeps the mask of active lanes. A subclass has the values, the
arrays, and the methods under "hooks" below:

* :class:`.host.HostLanes` computes everything with NumPy.
* :class:`.checked.CheckedLanes` also checks every access.
* :class:`.symbolic_run.Tracer` records accesses. Its values may be unknown. If a condition is unknown, it runs both
  branches; if a trip count is unknown, it runs the body twice; and it skips iterations of long loops.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.masks import Mask, mask_and, mask_andnot, mask_or, normalize

_METHODS: dict[type, str] = {kind: f"of_{kind.__name__.lower()}" for kind in ir.Expr.__subclasses__()}
_METHODS |= {kind: f"run_{kind.__name__.lower()}" for kind in ir.Stmt.__subclasses__()}


class Counter:
    """The values of a loop's counter; an int if they are the same in all lanes, else an array of int64.

    trips: the number of iterations; it may be negative if there are none.
    """

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        bounds = (start, stop, step)
        self.is_uniform = all(np.ndim(bound) == 0 for bound in bounds)
        self.start, stop, self.step = (
            int(bound) if self.is_uniform else np.asarray(bound).astype(np.int64) for bound in bounds
        )
        no_step = self.is_uniform and self.step == 0  # NumPy's integer division by 0 gives 0
        self.trips = 0 if no_step else -((self.start - stop) // self.step)

    def at(self, iteration: int, dtype: np.dtype[Any]) -> Any:
        """The counter's value in an iteration."""
        value: Any = self.start + iteration * self.step
        return dtype.type(value) if self.is_uniform else value.astype(dtype)

    def most_trips(self, active: Mask) -> int:
        """The largest number of iterations of an active lane."""
        if self.is_uniform:
            return max(0, self.trips)
        return int(np.where(active, self.trips, 0).max(initial=0))


class Lanes(ABC):
    """Many lanes: the values of their variables, and the mask of the active lanes.

    operations: a module with the operations on values (unary, binary, compare, logical, select, merge, cast, apply,
    member, make_record): :mod:`.host_values` or :mod:`.symbolic_values`. work: the number of evaluated expressions; if
    it exceeds max_work, conditions of `while` loops count as unknown.
    """

    operations: Any
    max_work: float = math.inf

    def __init__(self) -> None:
        self.active: Mask = True
        self.values: dict[str, Any] = {}
        self.work = 0
        self._constants: dict[int, Any] = {}
        self._continued: list[Mask] = []  # for each open loop, the lanes that executed `continue` in this iteration

    # --- hooks --------------------------------------------------------------------------------------------

    def from_numpy(self, value: Any) -> Any:
        """The value of a NumPy scalar."""
        return value

    @abstractmethod
    def mask_of(self, condition: Any) -> Mask | None:
        """The value of a condition as a mask that later stores do not change; None if it is unknown."""

    def outcome_of(self, condition: Any) -> bool | None:
        """The value of a condition if it is known to be the same in all active lanes; else None."""
        mask = self.mask_of(condition)
        return mask if mask is True or mask is False else None

    @abstractmethod
    def counter_of(self, start: Any, stop: Any, step: Any) -> Counter | None:
        """The counter of a loop; None if the number of iterations is unknown."""

    def counter_value(self, start: Any, value: Any) -> Any:
        """The value of a loop's counter. value: the NumPy value that its :class:`Counter` gives for the iteration."""
        return value

    def iterations(self, loop: ir.For, counter: Counter) -> Iterable[int]:
        """The numbers of the iterations to run, in order."""
        return range(counter.most_trips(self.active))

    # Executors in which every condition and trip count is known need not have the next three.

    def run_unknown_if(self, statement: ir.If, condition: Any) -> None:
        """Run a conditional statement whose condition is unknown."""
        raise AssertionError(f"{type(self).__name__} has no unknown conditions")

    def run_unknown_for(self, statement: ir.For, start: Any, stop: Any, step: Any) -> None:
        """Run a loop with an unknown number of iterations."""
        raise AssertionError(f"{type(self).__name__} has no unknown trip counts")

    def run_unknown_while(self, statement: ir.While, condition: Any, iteration: int) -> None:
        """Run a loop from an iteration whose condition is unknown."""
        raise AssertionError(f"{type(self).__name__} has no unknown conditions")

    @abstractmethod
    def load(self, expression: ir.Load, members: tuple[str, ...]) -> Any:
        """The value of an array element, or of its member at the path `members`."""

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, body: list[ir.Stmt]) -> None:
        """Run statements until no lane is active."""
        for statement in body:
            if self.active is False:
                return
            getattr(self, _METHODS[type(statement)])(statement)

    def put(self, variable: ir.Variable, value: Any) -> None:
        """Assign ``variable = value`` in the active lanes."""
        name = variable.name
        if self.active is not True and name in self.values and value is not self.values[name]:
            value = self.operations.merge(self.active, value, self.values[name])
        self.values[name] = value

    def run_if(self, statement: ir.If) -> None:
        condition = self.evaluate(statement.condition)
        mask = self.mask_of(condition)
        if mask is None:
            self.run_unknown_if(statement, condition)
            return
        if mask is True or mask is False:
            self.block(statement.then if mask else statement.orelse)
            return
        outer = self.active
        yes = normalize(mask_and(outer, mask))
        no = normalize(mask_andnot(outer, mask))
        if yes is False or no is False:
            self.block(statement.then if no is False else statement.orelse)
            return
        self.active = yes
        self.block(statement.then)
        left, self.active = self.active, no
        self.block(statement.orelse)
        self.active = outer if left is yes and self.active is no else normalize(mask_or(left, self.active))

    def run_for(self, statement: ir.For) -> None:
        start, stop, step = (self.evaluate(bound) for bound in (statement.start, statement.stop, statement.step))
        counter = self.counter_of(start, stop, step)
        if counter is None:
            self.run_unknown_for(statement, start, stop, step)
            return
        outer = self.active
        for iteration in self.iterations(statement, counter):
            if not counter.is_uniform:
                self.active = normalize(mask_and(self.active, counter.trips > iteration))
            if self.active is False:
                break
            value = counter.at(iteration, statement.variable.dtype)
            self.put(statement.variable, self.counter_value(start, value))
            self.run_iteration(statement.body)
        self.active = outer

    def run_while(self, statement: ir.While) -> None:
        outer, iteration = self.active, 0
        while self.active is not False:
            condition = self.evaluate(statement.condition)
            mask = self.mask_of(condition)
            if mask is None or self.work > self.max_work:
                self.run_unknown_while(statement, condition, iteration)
                break
            self.active = normalize(mask_and(self.active, mask))
            self.run_iteration(statement.body)
            iteration += 1
        self.active = outer

    def run_iteration(self, body: list[ir.Stmt]) -> None:
        """Run one iteration of a loop's body. Afterwards, the lanes that have not left the loop are active."""
        going = self.active
        self._continued.append(False)
        self.block(body)
        left = mask_or(self.active, self._continued.pop())
        self.active = left if left is going else normalize(left)

    def run_break(self, statement: ir.Break) -> None:
        self.active = False

    def run_continue(self, statement: ir.Continue) -> None:
        self._continued[-1] = mask_or(self._continued[-1], self.active)
        self.active = False

    # --- expressions --------------------------------------------------------------------------------------

    def evaluate(self, expression: ir.Expr) -> Any:
        """The value of an expression."""
        self.work += 1
        return getattr(self, _METHODS[type(expression)])(expression)

    def evaluate_under(self, condition: Any, expression: ir.Expr, wanted: bool) -> Any:
        """The value of an expression that is evaluated only by the lanes in which the condition equals `wanted`."""
        outer, mask = self.active, self.mask_of(condition)
        self.active = mask_and(outer, mask) if wanted else mask_andnot(outer, mask)
        value = self.evaluate(expression)
        self.active = outer
        return value

    def of_const(self, e: ir.Const) -> Any:
        value = self._constants.get(e.uid)
        if value is None:
            value = self._constants[e.uid] = self.from_numpy(np.asarray(e.value).astype(e.dtype)[()])
        return value

    def of_unary(self, e: ir.Unary) -> Any:
        return self.operations.unary(e.op, self.evaluate(e.value), e.dtype)

    def of_binary(self, e: ir.Binary) -> Any:
        return self.operations.binary(e.op, self.evaluate(e.left), self.evaluate(e.right), e.dtype)

    def of_compare(self, e: ir.Compare) -> Any:
        return self.operations.compare(e.op, self.evaluate(e.left), self.evaluate(e.right))

    def of_logical(self, e: ir.Logical) -> Any:
        left = self.evaluate(e.left)
        outcome = self.outcome_of(left)
        if outcome is not None:
            return left if outcome == (e.op == "or") else self.evaluate(e.right)
        return self.operations.logical(e.op, left, self.evaluate_under(left, e.right, wanted=e.op == "and"))

    def of_select(self, e: ir.Select) -> Any:
        condition = self.evaluate(e.condition)
        outcome = self.outcome_of(condition)
        if outcome is not None:
            return self.evaluate(e.yes if outcome else e.no)
        yes, no = (self.evaluate_under(condition, part, wanted) for part, wanted in ((e.yes, True), (e.no, False)))
        return self.operations.select(condition, yes, no)

    def of_cast(self, e: ir.Cast) -> Any:
        return self.operations.cast(self.evaluate(e.value), e.dtype)

    def of_math(self, e: ir.Math) -> Any:
        return self.operations.apply(e.name, [self.evaluate(value) for value in e.values], e.dtype)

    def of_load(self, e: ir.Load) -> Any:
        return self.load(e, ())

    def of_member(self, e: ir.Member) -> Any:
        names: tuple[str, ...] = (e.name,)
        record = e.record
        while isinstance(record, ir.Member):
            names, record = (record.name, *names), record.record
        if isinstance(record, ir.Load):
            return self.load(record, names)
        return self.operations.member(self.evaluate(e.record), e)

    def of_makerecord(self, e: ir.MakeRecord) -> Any:
        return self.operations.make_record([self.evaluate(value) for value in e.values], e.dtype)
