"""How many loop iterations a lane runs, from the values of a launch: for drivers that end loops too early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pydp.lang import ir

Values = Callable[[ir.Expr], int | None]
Range = tuple[int, int]  # the least and the greatest value
_EXPONENTS = {2: 41, 4: 278, 8: 2099}  # by the bytes of a float: differences of exponents, those of denormals included


class LoopBound:
    """Bounds of the total number of loop iterations of a lane, from the values of a launch. `values` returns the value
    of an extent or parameter. The final test of a loop's condition counts as an iteration."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.has_loops = any(isinstance(one, (ir.For, ir.While)) for one in ir.statements(function.body))

    def upper_bound(self, values: Values) -> int | None:
        """The maximum number of iterations, including those of hidden loops (see `hidden`). None if it depends on data
        or lanes."""
        return _block(self.function.body, _Known(self.function.body), values)

    def lower_bound(self, values: Values) -> int:
        """The number of iterations that every lane certainly runs."""
        return _least(self.function.body, _Known(self.function.body), values)


class _Known:
    """What is known of variables: the ranges of loop counters, and the only definitions of others."""

    def __init__(self, body: Sequence[ir.Stmt]) -> None:
        self.ranges: dict[str, Range] = {}
        self.definitions: dict[str, ir.Expr | None] = {}
        for one in ir.statements(list(body)):
            name = one.variable.name if isinstance(one, (ir.Assign, ir.For)) else None
            if name is not None:
                only = name not in self.definitions and isinstance(one, ir.Assign) and not one.members
                self.definitions[name] = one.value if only and isinstance(one, ir.Assign) else None
        self.counters = {one.variable.name for one in ir.statements(list(body)) if isinstance(one, ir.For)}
        assigned = {one.variable.name for one in ir.statements(list(body)) if isinstance(one, ir.Assign)}
        self.counters -= assigned

    @contextmanager
    def inside(self, loop: ir.For, ends: Range) -> Iterator[None]:
        """The loop's counter is between `ends`."""
        name = loop.variable.name
        if name in self.counters:
            self.ranges[name] = ends
        yield
        self.ranges.pop(name, None)


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

    Launches of such loops are guarded: the call detects if the driver ended a loop early."""
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
    turns = _turns(loop, known, values)
    if turns is None:
        return None
    (_, most), ends = turns
    if most == 0:
        return 1  # in which the loop finds its end
    if any(map(_values_decide, ir.statements(loop.body))):
        return None
    with known.inside(loop, ends):
        inner = _block(loop.body, known, values)
    return None if inner is None else most * (1 + inner) + 1


def _least(body: Sequence[ir.Stmt], known: _Known, values: Values) -> int:
    total = 0
    for statement in body:
        if isinstance(statement, ir.If):
            total += min(_least(block, known, values) for block in ir.blocks(statement))
        if isinstance(statement, (ir.For, ir.While)):
            total += 1  # that of its end
        elif any(ir.jumps([statement])):
            return total  # what comes after may be left out
        turns = _turns(statement, known, values) if isinstance(statement, ir.For) else None
        if isinstance(statement, ir.For) and turns is not None and not any(ir.jumps(statement.body)):
            (least, _), ends = turns
            with known.inside(statement, ends):
                total += least * (1 + _least(statement.body, known, values)) if least else 0
    return total


def _turns(loop: ir.For, known: _Known, values: Values) -> tuple[Range, Range] | None:
    """((the least, the most turns), (the least, the greatest value of the counter)); None where they are not known."""
    start, stop, step = (_range(one, known, values) for one in (loop.start, loop.stop, loop.step))
    if start is None or stop is None or step is None or step[0] != step[1] or step[0] == 0:
        return None
    by = step[0]
    least, most = _apart(loop.stop, loop.start, known, values)
    if by < 0:
        least, most = -most, -least
    turns = max(0, -(-least // abs(by))), max(0, -(-most // abs(by)))
    return turns, ((start[0], stop[1] - 1) if by > 0 else (stop[0] + 1, start[1]))


def _apart(stop: ir.Expr, start: ir.Expr, known: _Known, values: Values) -> Range:
    """The least and the greatest of stop - start, whose ranges are known, so that nothing in them wraps: what both have
    of a counter takes itself away."""
    factors: dict[str, int] = {}
    parts = [_parted(stop, 1, factors, known, values), _parted(start, -1, factors, known, values)]
    parts += [_times(known.ranges[name], factor) for name, factor in factors.items()]
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _parted(expr: ir.Expr, factor: int, factors: dict[str, int], known: _Known, values: Values) -> Range:
    """`factor` times an expression: what it has of counters is added to `factors`, the range of the rest returned."""
    if isinstance(expr, ir.Read) and expr.variable.name in known.ranges:
        factors[expr.variable.name] = factors.get(expr.variable.name, 0) + factor
        return 0, 0
    if isinstance(expr, ir.Cast):
        return _parted(expr.value, factor, factors, known, values)
    found = _range(expr, known, values)
    assert found is not None, expr
    if isinstance(expr, ir.Binary) and expr.op in ("add", "sub"):
        left = _parted(expr.left, factor, factors, known, values)
        right = _parted(expr.right, factor if expr.op == "add" else -factor, factors, known, values)
        return left[0] + right[0], left[1] + right[1]
    if isinstance(expr, ir.Binary) and expr.op == "mul":
        for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
            times = _range(other, known, values)
            if times is not None and times[0] == times[1]:
                return _parted(one, factor * times[0], factors, known, values)
    return _times(found, factor)


def _times(ends: Range, factor: int) -> Range:
    return min(end * factor for end in ends), max(end * factor for end in ends)


def _range(expr: ir.Expr, known: _Known, values: Values) -> Range | None:
    """The least and the greatest value of an integer expression; None where they are not known, or wrap."""
    found = _exact(expr, known, values)
    if found is None or expr.dtype.kind not in "iu":
        return None
    limits = np.iinfo(expr.dtype)
    return found if limits.min <= min(found) and max(found) <= limits.max else None


def _exact(expr: ir.Expr, known: _Known, values: Values) -> Range | None:
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


def _binary(expr: ir.Binary, known: _Known, values: Values) -> Range | None:
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
