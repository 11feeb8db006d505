"""Checks given barrier widths with the values of a launch: each must divide the group's size and prevent races.

First, the uniform statements are interpreted with the launch's numbers and extents, to check that computed widths
divide the group's size. Then the accesses around the barriers are traced for all lanes of a group and searched for
races. Widths and accesses that depend on data are left to checked mode.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.barriers.widths import check_given
from pydp.lang.execute.lane_events import Access, width_error
from pydp.lang.execute.launch_lanes import MAX_SIMILAR_LAUNCHES, magnitude
from pydp.lang.execute.symbolic_run import Tracer
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue
from pydp.lang.ir.data import wrap
from pydp.lang.ir.diagnostics import VectorError
from pydp.runtime.bounded import BoundedCache

Values = Callable[[ir.Expr], int | None]
_LAUNCH_INPUTS = (ir.Parameter, ir.ArrayExtent, ir.GridExtent)
_MAX_STEPS = 4096  # statements that are interpreted for one launch
_MAX_CACHED = 512
_MAX_WORK = 6_000  # expressions that are evaluated for all lanes of a group, for one launch
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "shl": lambda a, b: a << b if 0 <= b < 64 else 0,
    "shr": lambda a, b: a >> min(b, 64) if b >= 0 else (-1 if a < 0 else 0),
}


class BarrierWidthCheck:
    """The check of a function's given barrier widths. is_needed: the result depends on the values of a launch."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.lanes = math.prod(function.group or (1,))
        given = [one.width for one in ir.barriers(function.body) if one.width is not None and not one.from_condition]
        computed = any(not isinstance(width, ir.Const) for width in given)
        narrow = computed or any(isinstance(width, ir.Const) and width.value < self.lanes for width in given)
        self._inputs = control_inputs(function.body) if narrow else []
        self._may_share = narrow and _may_share_elements(function.body)
        self.is_needed = computed or bool(self._inputs) or self._may_share
        self._computed = computed
        self._passed = BoundedCache(_MAX_CACHED)  # launches that passed, by their values
        self._checked_by_magnitude = BoundedCache(_MAX_CACHED)  # number of traced launches, by the values' magnitudes

    def check(self, values: Values, offset: Sequence[int] | None = None) -> None:
        """Raise VectorError for a width that does not divide the group's size, or is too narrow and lets lanes race.

        values: returns the value of a number argument or extent. offset: the grid's offset along each axis. Widths are
        checked for every launch; races only for the first MAX_SIMILAR_LAUNCHES launches whose values have the same
        magnitudes.
        """
        sizes = _sizes(self.function, values)
        group_extents = tuple(lanes if size is None else min(size, lanes) for size, lanes in sizes)
        single_group = tuple(size is not None and size <= lanes for size, lanes in sizes)
        key = (*(values(one) for one in self._inputs), *group_extents, *single_group, *(offset or ()))
        if self._passed.get(key) or self._passed.find(key):
            return
        if self._computed:
            _WidthInterpreter(self.lanes, values).block(self.function.body)
        magnitudes = tuple(map(magnitude, key))
        checked = self._checked_by_magnitude.find(magnitudes, 0)
        if checked < MAX_SIMILAR_LAUNCHES:
            self._trace(values, group_extents, single_group, offset)
            if self._may_share and not all(single_group):  # in the first group, all indexes such as `i ^ 8` are known
                self._trace(values, group_extents, [True] * len(single_group), offset)
            self._checked_by_magnitude.put(magnitudes, checked + 1)
        self._passed.put(key, True)

    def _trace(
        self, values: Values, group_extents: Sequence[int], first: Sequence[bool], offset: Sequence[int] | None
    ) -> None:
        """Trace the lanes of an arbitrary group (of the first group along the axes of `first`) and search for races."""
        tracer = _LaunchValuesTracer(self.function, values, group_extents, first, offset)
        with np.errstate(all="ignore"):
            tracer.block(self.function.body)
        check_given(self.function, tracer.events)


def control_inputs(body: list[ir.Stmt]) -> list[ir.Expr]:
    """The numbers and extents on which conditions, loop bounds, indexes and barrier widths depend.

    Numbers that only contribute to stored values are not included.
    """
    given: dict[str, list[ir.Expr]] = {}
    pending: list[ir.Expr] = []
    for statement in ir.statements(body):
        values = [statement.value] if isinstance(statement, ir.Assign | ir.Store | ir.Atomic) else []
        if isinstance(statement, ir.Assign):
            given.setdefault(statement.variable.name, []).append(statement.value)
        pending += [expr for expr in ir.expressions(statement) if not any(expr is value for value in values)]
        for value in values:
            pending += _decisive_parts(value)
    found: dict[str, ir.Expr] = {}
    while pending:
        for part in ir.walk(pending.pop()):
            if isinstance(part, ir.Read):
                pending += given.pop(part.variable.name, [])
            elif isinstance(part, _LAUNCH_INPUTS) and part.dtype.kind in "iub":
                found[repr(part)] = part
    return list(found.values())


def _decisive_parts(value: ir.Expr) -> list[ir.Expr]:
    """The subexpressions that decide which elements an expression reads."""
    found: list[ir.Expr] = []
    for part in ir.walk(value):
        if isinstance(part, ir.Load):
            found += part.indices
        elif isinstance(part, ir.Select):
            found.append(part.condition)
        elif isinstance(part, ir.Logical):
            found.append(part.left)
    return found


def _may_share_elements(body: list[ir.Stmt]) -> bool:
    """Whether an argument is written and also accessed with other index expressions. Only the values of a launch can
    show whether these are the same elements, for example for indexes in the grid and in the group."""
    written: set[str] = set()
    touched: dict[str, set[object]] = defaultdict(set)
    for statement in ir.statements(body):
        parts = [part for expr in ir.expressions(statement) for part in ir.walk(expr) if isinstance(part, ir.Load)]
        changed = [statement] if isinstance(statement, ir.Store | ir.Atomic) else []
        written.update(one.array.name for one in changed if isinstance(one.array, ir.GlobalArray))
        for one in (*parts, *changed):
            varies = any(isinstance(part, ir.Read) for index in one.indices for part in ir.walk(index))
            touched[one.array.name].add(one.uid if varies else repr(one.indices))
    return any(len(touched[name]) > 1 for name in written)


def _sizes(function: ir.Function, values: Values) -> list[tuple[int | None, int]]:
    """For each axis, the grid's extent (None if unknown) and the group's extent."""
    sizes = (values(ir.GridExtent(function.index_dtype, axis)) for axis in range(function.grid_rank))
    return list(zip(sizes, function.group or (1,) * function.grid_rank, strict=True))


class _LaunchValuesTracer(Tracer):
    """Traces a group's lanes with the numbers and extents of a launch."""

    def __init__(
        self,
        function: ir.Function,
        values: Values,
        group_extents: Sequence[int],
        first: Sequence[bool],
        offset: Sequence[int] | None,
    ) -> None:
        super().__init__(function, _MAX_WORK)
        self.launched, self.first, self.offset = values, first, offset
        self.in_grid = np.ones(self.size, bool)
        for place, extent in zip(self.local_indices, group_extents, strict=True):
            self.in_grid &= place < extent

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: OptionalValue = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        event = super().touch(kind, access, where, value, members)
        if event is not None and (kind == "atomic" or isinstance(access.array, ir.GlobalArray)):
            event.lanes = event.lanes[self.in_grid[event.lanes]]  # it has no effect for other lanes
        return event

    def uniform_index(self, what: str, axis: int, dtype: np.dtype[Any]) -> OptionalValue:
        if what == "group" and self.first[axis]:
            return SymbolicValue(dtype.type(0))
        if what == "offset" and self.offset is not None:
            return SymbolicValue(dtype.type(self.offset[axis]))
        return super().uniform_index(what, axis, dtype)

    def _launch_value(self, e: ir.Expr) -> OptionalValue:
        value = self.launched(e) if e.dtype.kind in "iub" else None
        return None if value is None else SymbolicValue(np.asarray(value).astype(e.dtype)[()])

    def of_parameter(self, e: ir.Parameter) -> OptionalValue:
        return self._launch_value(e) or super().of_parameter(e)

    def of_gridextent(self, e: ir.GridExtent) -> OptionalValue:
        return self._launch_value(e) or super().of_gridextent(e)

    def of_arrayextent(self, e: ir.ArrayExtent) -> OptionalValue:
        return self._launch_value(e) or super().of_arrayextent(e)


class _UnknownControl(Exception):
    """The next statement is unknown, because it depends on an unknown value."""


class _LoopJump(Exception):
    """A break or continue of the enclosing loop."""

    def __init__(self, is_continue: bool) -> None:
        self.is_continue = is_continue


class _WidthInterpreter:
    """Interprets uniform statements with the known values, and checks the widths of barriers."""

    def __init__(self, lanes: int, values: Values) -> None:
        self.lanes, self.values = lanes, values
        self.known: dict[str, int] = {}
        self.steps = 0

    def block(self, body: Sequence[ir.Stmt]) -> None:
        """Interpret statements to the end, or until the control flow is unknown."""
        with suppress(_UnknownControl):
            self._run(body)

    def _run(self, body: Sequence[ir.Stmt]) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > _MAX_STEPS:
                raise _UnknownControl
            if isinstance(statement, ir.Assign):
                self._set(statement.variable.name, None if statement.members else self.of(statement.value))
            elif isinstance(statement, ir.If):
                self._if(statement)
            elif isinstance(statement, ir.For | ir.While):
                self._loop(statement)
            elif isinstance(statement, ir.Break | ir.Continue):
                raise _LoopJump(isinstance(statement, ir.Continue))
            elif isinstance(statement, ir.Barrier) and statement.width is not None and not statement.from_condition:
                width = self.of(statement.width)
                wrong = "" if width is None else width_error(width, self.lanes)
                if wrong:
                    raise VectorError(wrong, statement.where)

    def _set(self, name: str, value: int | None) -> None:
        if value is None:
            self.known.pop(name, None)
        else:
            self.known[name] = value

    def _if(self, statement: ir.If) -> None:
        condition = self.of(statement.condition)
        if condition is not None:
            self._run(statement.then if condition else statement.orelse)
            return
        self._forget([*statement.then, *statement.orelse])
        if any(ir.jumps([statement])):
            raise _UnknownControl  # the jump may leave the enclosing loop or iteration

    def _forget(self, body: list[ir.Stmt]) -> None:
        for one in ir.statements(body):
            if isinstance(one, ir.Assign | ir.For):
                self.known.pop(one.variable.name, None)

    def _loop(self, loop: ir.For | ir.While) -> None:
        try:
            self._run_loop(loop)
        except _UnknownControl:
            if self.steps > _MAX_STEPS:
                raise
            self._forget([loop])

    def _run_loop(self, loop: ir.For | ir.While) -> None:
        counters: Iterator[int] = iter(())
        if isinstance(loop, ir.For):
            start, stop, step = self.of(loop.start), self.of(loop.stop), self.of(loop.step)
            if start is None or stop is None or not step:
                raise _UnknownControl
            counters = iter(range(start, stop, step))
        while True:
            if isinstance(loop, ir.For):
                count = next(counters, None)
                if count is None:
                    return
                self.known[loop.variable.name] = count
            else:
                condition = self.of(loop.condition)
                if condition is None:
                    raise _UnknownControl
                if not condition:
                    return
            self.steps += 1
            try:
                self._run(loop.body)
            except _LoopJump as left:
                if not left.is_continue:
                    return

    def of(self, expr: ir.Expr) -> int | None:
        """The value of an integer or bool expression; None if it is unknown."""
        if expr.dtype.kind not in "iub":
            return None
        value = self._value(expr)
        return None if value is None else int(bool(value)) if expr.dtype.kind == "b" else wrap(value, expr.dtype)

    def _value(self, expr: ir.Expr) -> int | None:
        if isinstance(expr, ir.Const):
            return int(expr.value)
        if isinstance(expr, ir.Read):
            return self.known.get(expr.variable.name)
        if isinstance(expr, _LAUNCH_INPUTS):
            return self.values(expr)
        if isinstance(expr, ir.Select):
            condition = self.of(expr.condition)
            return None if condition is None else self.of(expr.yes if condition else expr.no)
        if isinstance(expr, ir.Logical):
            left = self.of(expr.left)
            return left if left is None or bool(left) == (expr.op == "or") else self.of(expr.right)
        parts = [self.of(child) for child in ir.children(expr)]
        known = [part for part in parts if part is not None]
        return self._computed(expr, known) if len(known) == len(parts) else None

    def _computed(self, expr: ir.Expr, parts: list[int]) -> int | None:
        if isinstance(expr, ir.Cast):
            return parts[0]
        if isinstance(expr, ir.Compare):
            return int(_COMPARISONS[expr.op](*parts))
        if isinstance(expr, ir.Binary) and expr.op in _ARITHMETIC:
            return _ARITHMETIC[expr.op](*parts)
        if isinstance(expr, ir.Unary):
            return {"neg": -parts[0], "invert": ~parts[0], "not": int(not parts[0])}[expr.op]
        if isinstance(expr, ir.Math) and expr.name in ("minimum", "maximum"):
            return min(parts) if expr.name == "minimum" else max(parts)
        return abs(parts[0]) if isinstance(expr, ir.Math) and expr.name == "abs" else None
