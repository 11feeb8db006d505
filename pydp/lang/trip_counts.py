"""How many loop iterations a lane runs, from the values of a launch: for drivers that end loops too early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydp.lang import ir

Values = Callable[[ir.Expr], int | None]


class LoopBound:
    """The most iterations of all loops of a lane, as a function of the launch's extents and numbers; those of integer
    powers count as well."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.has_loops = any(isinstance(one, (ir.For, ir.While)) for one in ir.statements(function.body))

    @property
    def is_known(self) -> bool:
        """Whether the extents and numbers of a launch tell the count."""
        return self.count(lambda leaf: None if _of_lane(leaf) else 1) is not None

    def count(self, values: Values) -> int | None:
        """The count, or None where it depends on data or lanes. `values` gives leaves: extents and parameters."""
        return _block(self.function.body, _Known(self.function.body), values)


def _of_lane(leaf: ir.Expr) -> bool:
    return not isinstance(leaf, (ir.ArrayExtent, ir.GridExtent)) and not (
        isinstance(leaf, ir.Parameter) and leaf.dtype.kind in "iu"
    )


class _Known:
    """What is known of variables: the ranges of loop counters, and the only definitions of others."""

    def __init__(self, body: Sequence[ir.Stmt]) -> None:
        self.ranges: dict[str, tuple[int, int]] = {}
        self.definitions: dict[str, ir.Expr | None] = {}
        for one in ir.statements(list(body)):
            name = one.variable.name if isinstance(one, (ir.Assign, ir.For)) else None
            if name is not None:
                only = name not in self.definitions and isinstance(one, ir.Assign) and not one.members
                self.definitions[name] = one.value if only and isinstance(one, ir.Assign) else None
        self.counters = {one.variable.name for one in ir.statements(list(body)) if isinstance(one, ir.For)}
        assigned = {one.variable.name for one in ir.statements(list(body)) if isinstance(one, ir.Assign)}
        self.counters -= assigned


def powers(expressions: Iterable[ir.Expr]) -> int:
    """Iterations of the loops by which integer powers are computed: one for each bit of the exponent."""
    parts = (part for one in expressions for part in ir.walk(one) if isinstance(part, ir.Binary) and part.op == "pow")
    return sum(8 * part.dtype.itemsize for part in parts if part.dtype.kind in "iu")


def _block(body: Sequence[ir.Stmt], known: _Known, values: Values) -> int | None:
    total = 0
    for statement in body:
        total += powers(ir.expressions(statement))
        if isinstance(statement, ir.While):
            return None
        if isinstance(statement, ir.For):
            part = _loop(statement, known, values)
        else:
            parts = [_block(block, known, values) for block in ir.blocks(statement)]
            counts = [part for part in parts if part is not None]
            part = max(counts, default=0) if len(counts) == len(parts) else None
        if part is None:
            return None
        total += part
    return total


def _loop(loop: ir.For, known: _Known, values: Values) -> int | None:
    start, stop, step = (_range(one, known, values) for one in (loop.start, loop.stop, loop.step))
    if start is None or stop is None or step is None or step[0] != step[1] or step[0] == 0:
        return None
    by = step[0]
    trips = max(0, -(-(stop[1] - start[0]) // by) if by > 0 else -(-(start[1] - stop[0]) // -by))
    if trips == 0:
        return 0
    ends = (start[0], stop[1] - 1) if by > 0 else (stop[0] + 1, start[1])
    name = loop.variable.name
    if name in known.counters:
        known.ranges[name] = ends
    inner = _block(loop.body, known, values)
    known.ranges.pop(name, None)
    return None if inner is None else trips * (1 + inner)


def _range(expr: ir.Expr, known: _Known, values: Values) -> tuple[int, int] | None:
    """The least and the greatest value of an integer expression, or None."""
    if isinstance(expr, ir.Const):
        return int(expr.value), int(expr.value)
    if isinstance(expr, ir.Read):
        name = expr.variable.name
        if name in known.ranges:
            return known.ranges[name]
        definition = known.definitions.get(name)
        return None if definition is None else _range(definition, known, values)
    if isinstance(expr, ir.Cast):
        return _range(expr.value, known, values) if expr.value.dtype.kind in "iu" and expr.dtype.kind in "iu" else None
    if isinstance(expr, ir.Binary):
        return _binary(expr, known, values)
    value: Any = values(expr)
    return None if value is None else (int(value), int(value))


def _binary(expr: ir.Binary, known: _Known, values: Values) -> tuple[int, int] | None:
    left, right = _range(expr.left, known, values), _range(expr.right, known, values)
    if left is None or right is None or expr.dtype.kind not in "iu":
        return None
    if expr.op == "add":
        return left[0] + right[0], left[1] + right[1]
    if expr.op == "sub":
        return left[0] - right[1], left[1] - right[0]
    corners = [(a, b) for a in left for b in right]
    if expr.op == "mul":
        products = [a * b for a, b in corners]
        return min(products), max(products)
    if expr.op == "floordiv" and right[0] > 0:
        quotients = [a // b for a, b in corners]
        return min(quotients), max(quotients)
    return None
