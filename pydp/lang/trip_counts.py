"""How many loop iterations a lane runs, from the values of a launch: for drivers that end loops too early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pydp.lang import ir

Values = Callable[[ir.Expr], int | None]
_EXPONENTS = {2: 41, 4: 278, 8: 2099}  # by the bytes of a float: differences of exponents, those of denormals included


class LoopBound:
    """The most iterations of all loops of a lane, as a function of the launch's extents and numbers; those that
    no statement shows (see `hidden`), and the turns in which loops find their end, count as well."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.has_loops = any(isinstance(one, (ir.For, ir.While)) for one in ir.statements(function.body))

    @property
    def is_known(self) -> bool:
        """Whether the extents and numbers of a launch tell the count, whatever they are."""
        known = _Known(self.function.body, least=1)  # or what is in `range(1, n)` would not be looked at
        return _block(self.function.body, known, lambda leaf: None if _of_lane(leaf) else 1) is not None

    def count(self, values: Values) -> int | None:
        """The count, or None where it depends on data or lanes. `values` gives leaves: extents and parameters."""
        return _block(self.function.body, _Known(self.function.body), values)


def _of_lane(leaf: ir.Expr) -> bool:
    return not isinstance(leaf, (ir.ArrayExtent, ir.GridExtent)) and not (
        isinstance(leaf, ir.Parameter) and leaf.dtype.kind in "iu"
    )


class _Known:
    """What is known of variables: the ranges of loop counters, and the only definitions of others. least: turns that
    every loop is taken to have."""

    def __init__(self, body: Sequence[ir.Stmt], least: int = 0) -> None:
        self.least = least
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


def hidden(expressions: Iterable[ir.Expr]) -> int:
    """Iterations of loops that no statement shows: integer powers take one for each bit of the exponent, remainders of
    floats (on llvmpipe) one for each bit by which exponents differ."""
    return sum(_hidden(part) for one in expressions for part in ir.walk(one))


def _hidden(part: ir.Expr) -> int:
    if _is_remainder(part):
        return _EXPONENTS[part.dtype.itemsize]
    if not isinstance(part, ir.Binary) or part.op != "pow" or part.dtype.kind not in "iu":
        return 0
    if isinstance(part.right, ir.Const):
        return 1 + max(int(part.right.value), 0).bit_length()
    return 1 + 8 * part.dtype.itemsize


def _is_remainder(part: ir.Expr) -> bool:
    """Whether an expression is computed by `fmod`."""
    named = isinstance(part, ir.Binary) and part.op in ("mod", "floordiv")
    return part.dtype.kind == "f" and (named or (isinstance(part, ir.Math) and part.name == "fmod"))


def _values_decide(statement: ir.Stmt) -> bool:
    """Whether a statement goes round a hidden loop as often as values have it: in a loop of its own, the most that this
    could be would be far more than it is. Atomic updates of floats try until no other lane came between.

    Launches of such loops are watched, which sees that a loop was ended early; one hidden iteration after the last
    turn of all loops, where they have taken nearly as many as the driver allows, it does not see."""
    if isinstance(statement, ir.Atomic) and statement.array.dtype.kind == "f":
        return True
    return any(_is_remainder(part) for one in ir.expressions(statement) for part in ir.walk(one))


def _block(body: Sequence[ir.Stmt], known: _Known, values: Values) -> int | None:
    total = 0
    for statement in body:
        total += hidden(ir.expressions(statement))
        if isinstance(statement, ir.While):
            return None
        if isinstance(statement, ir.For):
            part = _loop(statement, known, values)
        else:
            parts = [_block(block, known, values) for block in ir.blocks(statement)]
            counts = [part for part in parts if part is not None]
            # The lanes of a vector go through both sides of a condition, and the driver counts them together.
            part = sum(counts) if len(counts) == len(parts) else None
        if part is None:
            return None
        total += part
    return total


def _loop(loop: ir.For, known: _Known, values: Values) -> int | None:
    start, stop, step = (_range(one, known, values) for one in (loop.start, loop.stop, loop.step))
    if start is None or stop is None or step is None or step[0] != step[1] or step[0] == 0:
        return None
    if known.least and not isinstance(loop.step, ir.Const):
        return None  # numbers may make it 0, or counters others
    by = step[0]
    trips = max(known.least, -(-(stop[1] - start[0]) // by) if by > 0 else -(-(start[1] - stop[0]) // -by))
    if trips == 0:
        return 1  # in which the loop finds its end
    if any(map(_values_decide, ir.statements(loop.body))):
        return None
    ends = (start[0], stop[1] - 1) if by > 0 else (stop[0] + 1, start[1])
    name = loop.variable.name
    if name in known.counters:
        known.ranges[name] = ends
    inner = _block(loop.body, known, values)
    known.ranges.pop(name, None)
    return None if inner is None else trips * (1 + inner) + 1


def _range(expr: ir.Expr, known: _Known, values: Values) -> tuple[int, int] | None:
    """The least and the greatest value of an integer expression; None where they are not known, or wrap."""
    found = _exact(expr, known, values)
    if found is None or expr.dtype.kind not in "iu":
        return None
    limits = np.iinfo(expr.dtype)
    return found if limits.min <= min(found) and max(found) <= limits.max else None


def _exact(expr: ir.Expr, known: _Known, values: Values) -> tuple[int, int] | None:
    """The same of numbers that have no limits, but for the parts of the expression."""
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
    if expr.op == "floordiv" and right[0] > 0 and (isinstance(expr.right, ir.Const) or not known.least):
        quotients = [a // b for a, b in corners]
        return min(quotients), max(quotients)
    return None
