"""Bounds of the number of loop iterations of a lane, from the values of a launch, for drivers that end long loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.analysis.intervals import OPERATIONS, Range, counter_range, hull, limits, trip_count, within

Values = Callable[[ir.Expr], int | None]
_REMAINDER_ITERATIONS = {2: 41, 4: 278, 8: 2099}  # by float size: the largest difference of exponents, with denormals


class LoopBound:
    """Bounds of the total number of loop iterations of a lane, from the values of a launch. `values` returns the value
    of an extent or parameter. The final test of a loop's condition counts as an iteration."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.has_loops = any(isinstance(one, (ir.For, ir.While)) for one in ir.statements(function.body))

    def upper_bound(self, values: Values) -> int | None:
        """The maximum number of iterations, with hidden ones. None if it depends on data or lanes."""
        return _Bounds(self.function.body, values).upper(self.function.body)

    def lower_bound(self, values: Values) -> int:
        """The number of iterations that every lane certainly runs."""
        return _Bounds(self.function.body, values).lower(self.function.body)


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
    return any(_is_remainder(part) for part in ir.parts([statement]))


class _Bounds:
    """Bounds for parts of a body, from the values of a launch. counters: the ranges of the counters of open loops."""

    def __init__(self, body: Sequence[ir.Stmt], values: Values) -> None:
        self.values = values
        self.definitions = regions.definitions(body)
        self.counters: dict[str, Range] = {}
        every = list(ir.statements(list(body)))
        self._only_counters = {one.variable.name for one in every if isinstance(one, ir.For)}
        self._only_counters -= {one.variable.name for one in every if isinstance(one, ir.Assign)}

    def upper(self, body: Sequence[ir.Stmt]) -> int | None:
        total = 0
        for statement in body:
            total += hidden_iterations(ir.expressions(statement))
            if isinstance(statement, ir.While):
                return None
            if isinstance(statement, ir.For):
                parts = [self._loop_upper(statement)]
            else:
                # The lanes of a vector run both branches of a condition, and the driver counts both.
                parts = [self.upper(block) for block in ir.blocks(statement)]
            for part in parts:
                if part is None:
                    return None
                total += part
        return total

    def _loop_upper(self, loop: ir.For) -> int | None:
        trips = self._trips(loop)
        if trips is None:
            return None
        if trips[1] == 0:
            return 1  # the final test of the condition
        if any(map(_has_data_dependent_trips, ir.statements(loop.body))):
            return None
        with self._inside(loop):
            inner = self.upper(loop.body)
        return None if inner is None else trips[1] * (1 + inner) + 1

    def lower(self, body: Sequence[ir.Stmt]) -> int:
        total = 0
        for statement in body:
            if isinstance(statement, ir.If):
                total += min(self.lower(block) for block in ir.blocks(statement))
            if isinstance(statement, ir.For | ir.While):
                total += 1  # the final test of the condition
            elif any(ir.jumps([statement])):
                return total  # the following statements may be skipped
            if isinstance(statement, ir.For) and not any(ir.jumps(statement.body)):
                trips = self._trips(statement)
                if trips is not None and trips[0]:
                    with self._inside(statement):
                        total += trips[0] * (1 + self.lower(statement.body))
        return total

    @contextmanager
    def _inside(self, loop: ir.For) -> Iterator[None]:
        """Context manager for the body of a loop with known bounds: the range of its counter is known."""
        name = loop.variable.name
        start, stop, step = (self.range(one) for one in (loop.start, loop.stop, loop.step))
        if name in self._only_counters and start is not None and stop is not None and step is not None:
            self.counters[name] = counter_range(start, stop, step)
        yield
        self.counters.pop(name, None)

    def _trips(self, loop: ir.For) -> Range | None:
        """The range of the trip count; None if it is unknown."""
        start, stop, step = (self.range(one) for one in (loop.start, loop.stop, loop.step))
        if start is None or stop is None or step is None or step[0] != step[1] or step[0] == 0:
            return None
        return trip_count(self._difference(loop.stop, loop.start), step)

    def _difference(self, stop: ir.Expr, start: ir.Expr) -> Range:
        """The range of stop - start, where terms with the same loop counter cancel. Both have ranges, so nothing
        wraps."""
        factors: dict[str, int] = {}
        parts = [self._split_counters(stop, 1, factors), self._split_counters(start, -1, factors)]
        parts += [_scaled(self.counters[name], factor) for name, factor in factors.items()]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def _split_counters(self, expr: ir.Expr, factor: int, factors: dict[str, int]) -> Range:
        """Split `factor` times an expression: adds the coefficients of counters to `factors`, returns the range of the
        rest."""
        if isinstance(expr, ir.Read) and expr.variable.name in self.counters:
            factors[expr.variable.name] = factors.get(expr.variable.name, 0) + factor
            return 0, 0
        if isinstance(expr, ir.Cast):
            return self._split_counters(expr.value, factor, factors)
        found = self.range(expr)
        assert found is not None, expr
        if isinstance(expr, ir.Binary) and expr.op in ("add", "sub"):
            left = self._split_counters(expr.left, factor, factors)
            right = self._split_counters(expr.right, factor if expr.op == "add" else -factor, factors)
            return left[0] + right[0], left[1] + right[1]
        if isinstance(expr, ir.Binary) and expr.op == "mul":
            for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
                times = self.range(other)
                if times is not None and times[0] == times[1]:
                    return self._split_counters(one, factor * times[0], factors)
        return _scaled(found, factor)

    def range(self, expr: ir.Expr) -> Range | None:
        """The range of an integer expression; None if it is unknown or wraps."""
        found = self._unwrapped_range(expr)
        if found is None or expr.dtype.kind not in "iu":
            return None
        return found if within(found, limits(expr.dtype)) else None

    def _unwrapped_range(self, expr: ir.Expr) -> Range | None:
        """As `range`, without the check that the expression itself does not wrap."""
        if isinstance(expr, ir.Const):
            return int(expr.value), int(expr.value)
        if isinstance(expr, ir.Read):
            name = expr.variable.name
            if name in self.counters:
                return self.counters[name]
            return self.range(self.definitions[name]) if name in self.definitions else None
        if isinstance(expr, ir.Cast):
            return self.range(expr.value) if expr.value.dtype.kind in "iu" and expr.dtype.kind in "iu" else None
        if isinstance(expr, ir.Binary):
            left, right = self.range(expr.left), self.range(expr.right)
            if left is None or right is None:
                return None
            known = expr.op in ("add", "sub", "mul") or (expr.op == "floordiv" and right[0] > 0)
            return OPERATIONS[expr.op](left, right) if known else None
        value = self.values(expr)
        return None if value is None else (int(value), int(value))


def _scaled(ends: Range, factor: int) -> Range:
    return hull([(end * factor, end * factor) for end in ends])
