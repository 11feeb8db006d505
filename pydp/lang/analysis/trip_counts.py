"""Bounds of the number of loop iterations of a lane, from the values of a launch, for drivers that end long loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pydp.lang import ir

Values = Callable[[ir.Expr], int | None]
Range = tuple[int, int]  # the smallest and the largest value
_REMAINDER_ITERATIONS = {2: 41, 4: 278, 8: 2099}  # by float size: the largest difference of exponents, with denormals


class LoopBound:
    """Bounds of the total number of loop iterations of a lane, from the values of a launch. `values` returns the value
    of an extent or parameter. The final test of a loop's condition counts as an iteration."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.has_loops = any(isinstance(one, (ir.For, ir.While)) for one in ir.statements(function.body))

    def upper_bound(self, values: Values) -> int | None:
        """The maximum number of iterations, with hidden ones. None if it depends on data or lanes."""
        return _upper_bound(self.function.body, _KnownRanges(self.function.body), values)

    def lower_bound(self, values: Values) -> int:
        """The number of iterations that every lane certainly runs."""
        return _lower_bound(self.function.body, _KnownRanges(self.function.body), values)


class _KnownRanges:
    """The known ranges of loop counters, and the definitions of variables that are assigned once."""

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
        """Context manager for the loop's body, where the counter is in the range `ends`."""
        name = loop.variable.name
        if name in self.counters:
            self.ranges[name] = ends
        yield
        self.ranges.pop(name, None)


def hidden_iterations(expressions: Iterable[ir.Expr]) -> int:
    """The iterations of loops inside operations: an integer power has one for each bit of the exponent; a float
    remainder (on llvmpipe) has one for each bit of the difference of the exponents."""
    return sum(_hidden_iterations(part) for one in expressions for part in ir.walk(one))


def _hidden_iterations(part: ir.Expr) -> int:
    if _is_remainder(part):
        return _REMAINDER_ITERATIONS[part.dtype.itemsize]
    if not isinstance(part, ir.Binary) or part.op != "pow" or part.dtype.kind not in "iu":
        return 0
    if isinstance(part.right, ir.Const):
        return 1 + max(int(part.right.value), 0).bit_length()
    return 1 + 8 * part.dtype.itemsize


def _is_remainder(part: ir.Expr) -> bool:
    """Whether an expression is computed with `fmod`."""
    named = isinstance(part, ir.Binary) and part.op in ("mod", "floordiv")
    return part.dtype.kind == "f" and (named or (isinstance(part, ir.Math) and part.name == "fmod"))


def _has_data_dependent_trips(statement: ir.Stmt) -> bool:
    """Whether a statement contains a hidden loop whose trip count depends on data. Its upper bound is far above the
    usual count, so it is not used inside a loop. Atomic updates of floats repeat until no other lane interferes.

    Launches with such loops are guarded: the call detects if the driver ended a loop early."""
    if isinstance(statement, ir.Atomic) and statement.array.dtype.kind == "f":
        return True
    return any(_is_remainder(part) for one in ir.expressions(statement) for part in ir.walk(one))


def _upper_bound(body: Sequence[ir.Stmt], known: _KnownRanges, values: Values) -> int | None:
    total = 0
    for statement in body:
        total += hidden_iterations(ir.expressions(statement))
        if isinstance(statement, ir.While):
            return None
        if isinstance(statement, ir.For):
            part = _loop_upper_bound(statement, known, values)
        else:
            parts = [_upper_bound(block, known, values) for block in ir.blocks(statement)]
            counts = [part for part in parts if part is not None]
            # The lanes of a vector run both branches of a condition, and the driver counts both.
            part = sum(counts) if len(counts) == len(parts) else None
        if part is None:
            return None
        total += part
    return total


def _loop_upper_bound(loop: ir.For, known: _KnownRanges, values: Values) -> int | None:
    trips = _trip_range(loop, known, values)
    if trips is None:
        return None
    (_, high), ends = trips
    if high == 0:
        return 1  # the final test of the condition
    if any(map(_has_data_dependent_trips, ir.statements(loop.body))):
        return None
    with known.inside(loop, ends):
        inner = _upper_bound(loop.body, known, values)
    return None if inner is None else high * (1 + inner) + 1


def _lower_bound(body: Sequence[ir.Stmt], known: _KnownRanges, values: Values) -> int:
    total = 0
    for statement in body:
        if isinstance(statement, ir.If):
            total += min(_lower_bound(block, known, values) for block in ir.blocks(statement))
        if isinstance(statement, (ir.For, ir.While)):
            total += 1  # the final test of the condition
        elif any(ir.jumps([statement])):
            return total  # the following statements may be skipped
        trips = _trip_range(statement, known, values) if isinstance(statement, ir.For) else None
        if isinstance(statement, ir.For) and trips is not None and not any(ir.jumps(statement.body)):
            (low, _), ends = trips
            with known.inside(statement, ends):
                total += low * (1 + _lower_bound(statement.body, known, values)) if low else 0
    return total


def _trip_range(loop: ir.For, known: _KnownRanges, values: Values) -> tuple[Range, Range] | None:
    """(range of the trip count, range of the counter); None if unknown."""
    start, stop, step = (_range(one, known, values) for one in (loop.start, loop.stop, loop.step))
    if start is None or stop is None or step is None or step[0] != step[1] or step[0] == 0:
        return None
    by = step[0]
    low, high = _difference(loop.stop, loop.start, known, values)
    if by < 0:
        low, high = -high, -low
    trips = max(0, -(-low // abs(by))), max(0, -(-high // abs(by)))
    return trips, ((start[0], stop[1] - 1) if by > 0 else (stop[0] + 1, start[1]))


def _difference(stop: ir.Expr, start: ir.Expr, known: _KnownRanges, values: Values) -> Range:
    """The range of stop - start, where terms with the same loop counter cancel. Both have ranges, so nothing wraps."""
    factors: dict[str, int] = {}
    parts = [_split_counters(stop, 1, factors, known, values), _split_counters(start, -1, factors, known, values)]
    parts += [_scaled(known.ranges[name], factor) for name, factor in factors.items()]
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _split_counters(expr: ir.Expr, factor: int, factors: dict[str, int], known: _KnownRanges, values: Values) -> Range:
    """Split `factor` times an expression: adds the coefficients of counters to `factors`, returns the rest's range."""
    if isinstance(expr, ir.Read) and expr.variable.name in known.ranges:
        factors[expr.variable.name] = factors.get(expr.variable.name, 0) + factor
        return 0, 0
    if isinstance(expr, ir.Cast):
        return _split_counters(expr.value, factor, factors, known, values)
    found = _range(expr, known, values)
    assert found is not None, expr
    if isinstance(expr, ir.Binary) and expr.op in ("add", "sub"):
        left = _split_counters(expr.left, factor, factors, known, values)
        right = _split_counters(expr.right, factor if expr.op == "add" else -factor, factors, known, values)
        return left[0] + right[0], left[1] + right[1]
    if isinstance(expr, ir.Binary) and expr.op == "mul":
        for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
            times = _range(other, known, values)
            if times is not None and times[0] == times[1]:
                return _split_counters(one, factor * times[0], factors, known, values)
    return _scaled(found, factor)


def _scaled(ends: Range, factor: int) -> Range:
    return min(end * factor for end in ends), max(end * factor for end in ends)


def _range(expr: ir.Expr, known: _KnownRanges, values: Values) -> Range | None:
    """The range of an integer expression; None if it is unknown or wraps."""
    found = _unwrapped_range(expr, known, values)
    if found is None or expr.dtype.kind not in "iu":
        return None
    limits = np.iinfo(expr.dtype)
    return found if limits.min <= min(found) and max(found) <= limits.max else None


def _unwrapped_range(expr: ir.Expr, known: _KnownRanges, values: Values) -> Range | None:
    """As :func:`_range`, without the check that the expression itself does not wrap."""
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


def _binary(expr: ir.Binary, known: _KnownRanges, values: Values) -> Range | None:
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
