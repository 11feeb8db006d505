"""Widths of barriers that a launch's numbers tell: each must divide the group's lanes, and let none of them race.

The statements that all lanes of a group run alike are followed with the launch's numbers and extents, as far as these
decide them; then what lies on the two sides of the barriers is looked at, for all lanes of a group. What depends on
data is left to checked mode.
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
_LEAVES = (ir.Parameter, ir.ArrayExtent, ir.GridExtent)
_MOST_STEPS = 4096  # statements followed for one launch
_MOST_KEPT = 512
_WORK = 6_000  # expressions evaluated for all lanes of a group, for one launch
_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_SUMS: dict[str, Callable[[int, int], int]] = {
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


class LaunchWidths:
    """The given widths of a function's barriers, for a group of `lanes`. any: a launch tells something of them."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.lanes = math.prod(function.group or (1,))
        given = [one.width for one in ir.barriers(function.body) if one.width is not None and not one.from_condition]
        computed = any(not isinstance(width, ir.Const) for width in given)
        narrow = computed or any(isinstance(width, ir.Const) and width.value < self.lanes for width in given)
        self._leaves = control_inputs(function.body) if narrow else []
        self._shares = narrow and _shares_arguments(function.body)
        self.any = computed or bool(self._leaves) or self._shares
        self._computed = computed
        self._passed = BoundedCache(_MOST_KEPT)  # launches by their numbers
        self._alike = BoundedCache(_MOST_KEPT)  # how many of each kind were looked at

    def check(self, values: Values, offset: Sequence[int] | None = None) -> None:
        """Raise VectorError for a width that does not divide the group or is too narrow for what lies around it.

        `values` gives numbers and extents; offset: where the grid begins, along each axis. Widths are looked at for all
        numbers, what lies around them for the first MAX_SIMILAR_LAUNCHES of about one size.
        """
        sizes = _sizes(self.function, values)
        inside = tuple(lanes if size is None else min(size, lanes) for size, lanes in sizes)
        alone = tuple(size is not None and size <= lanes for size, lanes in sizes)  # there is one group only
        key = (*(values(leaf) for leaf in self._leaves), *inside, *alone, *(offset or ()))
        if self._passed.get(key) or self._passed.find(key):
            return
        if self._computed:
            _Followed(self.lanes, values).block(self.function.body)
        alike = tuple(map(magnitude, key))
        looked_at = self._alike.find(alike, 0)
        if looked_at < MAX_SIMILAR_LAUNCHES:
            self._trace(values, inside, alone, offset)
            if self._shares and not all(alone):  # in the first group places are numbers, so that `i ^ 8` is known
                self._trace(values, inside, [True] * len(alone), offset)
            self._alike.put(alike, looked_at + 1)
        self._passed.put(key, True)

    def _trace(
        self, values: Values, inside: Sequence[int], first: Sequence[bool], offset: Sequence[int] | None
    ) -> None:
        """Compare what the lanes of any group do, along the axes of `first` of the first group."""
        tracer = _Launched(self.function, values, inside, first, offset)
        with np.errstate(all="ignore"):
            tracer.block(self.function.body)
        check_given(self.function, tracer.events)


def control_inputs(body: list[ir.Stmt]) -> list[ir.Expr]:
    """The numbers and extents that decide which lanes do what: conditions, bounds, places and widths are made of them.

    What is only stored or added up changes from launch to launch and decides nothing.
    """
    given: dict[str, list[ir.Expr]] = {}
    open_: list[ir.Expr] = []
    for statement in ir.statements(body):
        values = [statement.value] if isinstance(statement, ir.Assign | ir.Store | ir.Atomic) else []
        if isinstance(statement, ir.Assign):
            given.setdefault(statement.variable.name, []).append(statement.value)
        open_ += [expr for expr in ir.expressions(statement) if not any(expr is value for value in values)]
        for value in values:
            open_ += _places(value)
    found: dict[str, ir.Expr] = {}
    while open_:
        for part in ir.walk(open_.pop()):
            if isinstance(part, ir.Read):
                open_ += given.pop(part.variable.name, [])
            elif isinstance(part, _LEAVES) and part.dtype.kind in "iub":
                found[repr(part)] = part
    return list(found.values())


def _places(value: ir.Expr) -> list[ir.Expr]:
    """What decides which elements an expression reads."""
    found: list[ir.Expr] = []
    for part in ir.walk(value):
        if isinstance(part, ir.Load):
            found += part.indices
        elif isinstance(part, ir.Select):
            found.append(part.condition)
        elif isinstance(part, ir.Logical):
            found.append(part.left)
    return found


def _shares_arguments(body: list[ir.Stmt]) -> bool:
    """Whether an argument is written and touched by other indexes too: by those of the grid and of the group, it may
    be, which only a launch tells to be the same."""
    written: set[str] = set()
    touched: dict[str, set[object]] = defaultdict(set)
    for statement in ir.statements(body):
        parts = [part for expr in ir.expressions(statement) for part in ir.walk(expr) if isinstance(part, ir.Load)]
        changed = [statement] if isinstance(statement, ir.Store | ir.Atomic) else []
        written.update(one.array.name for one in changed if isinstance(one.array, ir.GlobalArray))
        for one in (*parts, *changed):
            varies = any(isinstance(part, ir.Read) for index in one.indices for part in ir.walk(index))
            touched[one.array.name].add(id(one) if varies else repr(one.indices))
    return any(len(touched[name]) > 1 for name in written)


def _sizes(function: ir.Function, values: Values) -> list[tuple[int | None, int]]:
    """Along each axis the grid's extent, where it is known, and that of the groups."""
    sizes = (values(ir.GridExtent(function.index_dtype, axis)) for axis in range(function.grid_rank))
    return list(zip(sizes, function.group or (1,) * function.grid_rank, strict=True))


class _Launched(Tracer):
    """A group's lanes, with what a launch tells of numbers and extents."""

    def __init__(
        self,
        function: ir.Function,
        values: Values,
        inside: Sequence[int],
        first: Sequence[bool],
        begin: Sequence[int] | None,
    ) -> None:
        super().__init__(function, _WORK)
        self.launched, self.first, self.begin = values, first, begin
        self.inside = np.ones(self.size, bool)
        for place, extent in zip(self.local_indices, inside, strict=True):
            self.inside &= place < extent

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: OptionalValue = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        event = super().touch(kind, access, where, value, members)
        if event is not None and (kind == "atomic" or isinstance(access.array, ir.GlobalArray)):
            event.lanes = event.lanes[self.inside[event.lanes]]  # of others it has no effect
        return event

    def uniform_index(self, what: str, axis: int, dtype: np.dtype[Any]) -> OptionalValue:
        if what == "group" and self.first[axis]:
            return SymbolicValue(dtype.type(0))
        if what == "offset" and self.begin is not None:
            return SymbolicValue(dtype.type(self.begin[axis]))
        return super().uniform_index(what, axis, dtype)

    def _told(self, e: ir.Expr) -> OptionalValue:
        value = self.launched(e) if e.dtype.kind in "iub" else None
        return None if value is None else SymbolicValue(np.asarray(value).astype(e.dtype)[()])

    def of_parameter(self, e: ir.Parameter) -> OptionalValue:
        return self._told(e) or super().of_parameter(e)

    def of_gridextent(self, e: ir.GridExtent) -> OptionalValue:
        return self._told(e) or super().of_gridextent(e)

    def of_arrayextent(self, e: ir.ArrayExtent) -> OptionalValue:
        return self._told(e) or super().of_arrayextent(e)


class _Lost(Exception):
    """What happens next is not known."""


class _Left(Exception):
    """A break (or, where `again`, a continue) of the loop around."""

    def __init__(self, again: bool) -> None:
        self.again = again


class _Followed:
    """Runs statements with the values that are known."""

    def __init__(self, lanes: int, values: Values) -> None:
        self.lanes, self.values = lanes, values
        self.known: dict[str, int] = {}
        self.steps = 0

    def block(self, body: Sequence[ir.Stmt]) -> None:
        """Follow a list of statements to its end, or as far as it is known."""
        with suppress(_Lost):
            self._run(body)

    def _run(self, body: Sequence[ir.Stmt]) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                raise _Lost
            if isinstance(statement, ir.Assign):
                self._set(statement.variable.name, None if statement.members else self.of(statement.value))
            elif isinstance(statement, ir.If):
                self._if(statement)
            elif isinstance(statement, ir.For | ir.While):
                self._loop(statement)
            elif isinstance(statement, ir.Break | ir.Continue):
                raise _Left(isinstance(statement, ir.Continue))
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
            raise _Lost  # perhaps of the loop around: nothing that follows in it is sure

    def _forget(self, body: list[ir.Stmt]) -> None:
        for one in ir.statements(body):
            if isinstance(one, ir.Assign | ir.For):
                self.known.pop(one.variable.name, None)

    def _loop(self, loop: ir.For | ir.While) -> None:
        try:
            self._rounds(loop)
        except _Lost:
            if self.steps > _MOST_STEPS:
                raise
            self._forget([loop])

    def _rounds(self, loop: ir.For | ir.While) -> None:
        counts: Iterator[int] = iter(())
        if isinstance(loop, ir.For):
            start, stop, step = self.of(loop.start), self.of(loop.stop), self.of(loop.step)
            if start is None or stop is None or not step:
                raise _Lost
            counts = iter(range(start, stop, step))
        while True:
            if isinstance(loop, ir.For):
                count = next(counts, None)
                if count is None:
                    return
                self.known[loop.variable.name] = count
            else:
                condition = self.of(loop.condition)
                if condition is None:
                    raise _Lost
                if not condition:
                    return
            self.steps += 1
            try:
                self._run(loop.body)
            except _Left as left:
                if not left.again:
                    return

    def of(self, expr: ir.Expr) -> int | None:
        """The value of an integer or bool, None where it is not known."""
        if expr.dtype.kind not in "iub":
            return None
        value = self._value(expr)
        return None if value is None else int(bool(value)) if expr.dtype.kind == "b" else wrap(value, expr.dtype)

    def _value(self, expr: ir.Expr) -> int | None:
        if isinstance(expr, ir.Const):
            return int(expr.value)
        if isinstance(expr, ir.Read):
            return self.known.get(expr.variable.name)
        if isinstance(expr, _LEAVES):
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
            return int(_ORDERS[expr.op](*parts))
        if isinstance(expr, ir.Binary) and expr.op in _SUMS:
            return _SUMS[expr.op](*parts)
        if isinstance(expr, ir.Unary):
            return {"neg": -parts[0], "invert": ~parts[0], "not": int(not parts[0])}[expr.op]
        if isinstance(expr, ir.Math) and expr.name in ("minimum", "maximum"):
            return min(parts) if expr.name == "minimum" else max(parts)
        return abs(parts[0]) if isinstance(expr, ir.Math) and expr.name == "abs" else None
