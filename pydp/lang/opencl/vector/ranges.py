"""Bounds of index expressions over all lanes of a block and all iterations of its loops, as C text for its start.

The tests of these bounds decide which blocks need guards at their accesses. Bounds are computed in 64 bits without
overflow, so an index that wraps is never considered in bounds: sums and products keep the true value, and operations
whose result depends on more than the low bits of an operand (`min`, division, bounds of loops) have a test that the
operand did not wrap. An index without known bounds is guarded at the access.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.ir.visit import Visitor
from pydp.lang.opencl.vector.values import KernelContext, StripValue

_INDEX_BITS = 32  # of indexes and extents in kernels with 32-bit indexes
_LARGE_BITS = 48  # of other integers of 64 bits, by a test
_MOST_BITS = 61  # of bounds; larger ones are not computed


class Bound(NamedTuple):
    """A 64-bit integer: `rest` (C text of type long, or a number) plus `step` times `counter`, the lane index that the
    innermost loop over blocks counts. bits: its magnitude is at most 2**bits. fixed: `rest` is the same in all
    iterations of that loop."""

    rest: str | int
    step: int = 0
    counter: str = ""
    bits: int = _LARGE_BITS
    fixed: bool = True

    @classmethod
    def of(cls, number: int) -> Bound:
        """A constant."""
        return cls(number, bits=abs(number).bit_length())

    @property
    def number(self) -> int | None:
        """The value, if it is a constant."""
        return self.rest if isinstance(self.rest, int) and not self.step else None

    @property
    def text(self) -> str:
        """C text of the value."""
        if not self.step:
            return _long(self.rest)
        moving = f"(long){self.counter}" if self.step == 1 else f"{self.step}L * {self.counter}"
        return f"({moving})" if self.rest == 0 else f"({_long(self.rest)} + {moving})"

    def plus(self, other: Bound, sign: int = 1) -> Bound:
        """The sum; with sign -1 the difference."""
        if isinstance(self.rest, int) and isinstance(other.rest, int):
            rest: str | int = self.rest + sign * other.rest
        elif other.rest == 0:
            rest = self.rest
        elif self.rest == 0 and sign > 0:
            rest = other.rest
        else:
            rest = f"({_long(self.rest)} {'+' if sign > 0 else '-'} {_long(other.rest)})"
        step, bits = self.step + sign * other.step, max(self.bits, other.bits) + 1
        return Bound(rest, step, self.counter or other.counter, bits, self.fixed and other.fixed)

    def times(self, factor: Bound) -> Bound:
        """The product."""
        by, bits = factor.number, self.bits + factor.bits
        if by is None:
            return written("({} * {})", self, factor)._replace(bits=bits)
        rest = self.rest * by if isinstance(self.rest, int) else f"({self.rest} * {by}L)"
        return Bound(rest, self.step * by, self.counter, bits, self.fixed)


def written(form: str, *bounds: Bound) -> Bound:
    """The bound with the C text `form`, in which each {} is one of `bounds`. Its magnitude is one of theirs."""
    fixed = all(bound.fixed and not bound.step for bound in bounds)
    return Bound(form.format(*(bound.text for bound in bounds)), bits=max(one.bits for one in bounds), fixed=fixed)


class Range(NamedTuple):
    """The lowest and the highest value."""

    low: Bound
    high: Bound


class Test(NamedTuple):
    """The condition that `bound` is less than `end`; without `end`, that it is not negative."""

    bound: Bound
    end: Bound | None = None

    @property
    def text(self) -> str:
        """The condition as C text."""
        return f"{self.bound.text} >= 0" if self.end is None else f"{self.bound.text} < {self.end.text}"

    @property
    def fixed(self) -> bool:
        """Whether the iterations of the loop in which the condition holds are known before the loop."""
        return self.bound.fixed and (self.end is None or (self.end.fixed and not self.end.step))


class Ranges(Visitor):
    """Bounds of expressions inside one interval.

    axis: the axis along which the innermost loop over blocks goes; None without a loop. loops: the For statements
    around the access, by counter name. tests: the conditions under which the accesses that `proves_inside` and the
    remainders that `keeps_left` accepted are in bounds, in order.
    """

    def __init__(
        self, kernel: KernelContext, body: list[ir.Stmt], entry: Callable[[ir.Expr], StripValue], axis: int | None
    ) -> None:
        self.kernel, self.axis = kernel, axis
        self.loops: dict[str, ir.For] = {}
        self.tests: dict[Test, None] = {}
        self._entry = entry
        self._carried = kernel.variances.carried
        self._assigned: dict[str, list[ir.Assign]] = {}
        self._counters: set[str] = set()
        self._around: dict[str, dict[str, ir.For]] = {}
        self._collect(body, {})

    def _collect(self, body: list[ir.Stmt], loops: dict[str, ir.For]) -> None:
        """Record the assignments and the loops around each."""
        for statement in body:
            inner = loops
            if isinstance(statement, ir.Assign):
                self._assigned.setdefault(statement.variable.name, []).append(statement)
                self._around[statement.variable.name] = loops
            elif isinstance(statement, ir.For):
                self._counters.add(statement.variable.name)
                inner = {**loops, statement.variable.name: statement}
            for block in ir.blocks(statement):
                self._collect(block, inner)

    def of(self, expr: ir.Expr) -> Range | None:
        """The bounds of an expression; None if they are unknown."""
        if self._is_entry(expr):
            bound = self._at_start(expr)
            return Range(bound, bound)
        found: Range | None = self.visit(expr)
        return None if found is None or max(found.low.bits, found.high.bits) > _MOST_BITS else found

    def whole(self, expr: ir.Expr) -> Range | None:
        """The bounds of an expression, with tests that it has not wrapped."""
        bounds = self.of(expr)
        if bounds is None or isinstance(expr, (*ir.INDEXES, ir.Const)) or self._is_entry(expr):
            return bounds
        ends, small = np.iinfo(expr.dtype), expr.dtype.itemsize < 8
        if small or expr.dtype.kind == "u":
            self._at_least(bounds.low, int(ends.min))
        if small:
            self.tests[Test(bounds.high, Bound.of(int(ends.max) + 1))] = None
        return bounds

    def proves_inside(self, array: ir.GlobalArray, axis: int, index: ir.Expr) -> bool:
        """Whether an index is in bounds under `tests`, which get its bounds."""
        return self._require(index, Bound(f"(long){self.kernel.names[array.name, None]}_e{axis}"))

    def keeps_left(self, expr: ir.Binary) -> bool:
        """Whether an index modulo an extent equals the index under `tests` (periodic boundaries).

        Only for extents: most blocks are far from the boundary.
        """
        size = expr.right
        while isinstance(size, ir.Read) and len(self._assigned.get(size.variable.name, [])) == 1:
            if size.variable.name in self._counters or size.variable.name in self._carried:
                return False
            size = self._assigned[size.variable.name][0].value
        if not isinstance(size, ir.ArrayExtent | ir.GridExtent) or self.kernel.variances.of(expr.left).step is None:
            return False
        return self._require(expr.left, size)

    def _require(self, index: ir.Expr, end: ir.Expr | Bound) -> bool:
        """Add the tests that an index is inside [0, end); without known bounds, none."""
        before = dict(self.tests)
        bounds = self.of(index)
        if bounds is None:
            self.tests = before
            return False
        extent = end if isinstance(end, Bound) else self._at_start(end)
        self._at_least(bounds.low, 0)
        self.tests[Test(bounds.high, extent)] = None
        return True

    def _at_least(self, bound: Bound, least: int) -> None:
        if bound.number is None or bound.number < least:
            self.tests[Test(bound.plus(Bound.of(-least)))] = None

    def _limited(self, bound: Bound, dtype: np.dtype[Any]) -> Bound:
        """A value of this type. Tests limit one of 64 bits, so that sums and products of it do not overflow."""
        if dtype.itemsize < 8:
            return bound._replace(bits=_INDEX_BITS)
        if isinstance(bound.rest, str):
            rest = bound._replace(step=0, bits=_MOST_BITS)
            self._at_least(rest, 0 if dtype.kind == "u" else -(1 << _LARGE_BITS))
            self.tests[Test(rest, Bound.of(1 << _LARGE_BITS))] = None
        return bound

    def _at_start(self, expr: ir.Expr) -> Bound:
        """The value of a scalar at the start of the block. Variables and the loop's own index may differ by block."""
        indexes = (ir.LocalIndex, ir.GlobalIndex)
        parts = list(ir.walk(expr))
        moves = any(
            isinstance(part, ir.Read) or (isinstance(part, indexes) and part.axis == self.axis) for part in parts
        )
        return self._limited(Bound(f"(long)({self._entry(expr).texts[0]})", fixed=not moves), expr.dtype)

    def _is_entry(self, expr: ir.Expr) -> bool:
        """Whether the expression is a scalar that keeps its value from the start of the block to its end."""
        if isinstance(expr, ir.Const) or expr.dtype.kind not in "iu" or expr.dtype.itemsize < 4:
            return False
        if self.kernel.variances.of(expr).divergent:
            return False
        for inner in ir.walk(expr):
            if isinstance(inner, ir.Load):
                return False
            if isinstance(inner, ir.Read) and not self._at_entry(inner.variable.name):
                return False
        return True

    def _at_entry(self, name: str) -> bool:
        return name in self._carried and name not in self._assigned and name not in self._counters

    # -- expressions of each kind ------------------------------------------------------------------------------

    def on_other(self, expr: ir.Expr) -> Range | None:
        return None

    def on_const(self, expr: ir.Const) -> Range | None:
        return Range(Bound.of(int(expr.value)), Bound.of(int(expr.value))) if expr.dtype.kind in "iu" else None

    def on_read(self, expr: ir.Read) -> Range | None:
        name = expr.variable.name
        assigned = self._assigned.get(name, [])
        if name in self._carried or self.kernel.variances.variables[name].step is None:
            return None  # a vector has undefined values in lanes that were masked at the assignment
        if name in self._counters:
            return None if assigned else self._counter(name)
        if len(assigned) != 1 or assigned[0].members:
            return None
        # The value was computed in an iteration of the loops around the assignment, not of those around the access.
        open_now, self.loops = self.loops, self._around[name]
        bounds = self.of(assigned[0].value)
        self.loops = open_now
        return bounds

    def _counter(self, name: str) -> Range | None:
        """The range of a loop's counter: :func:`pydp.lang.analysis.intervals.counter_range` as C text."""
        loop = self.loops.get(name)
        if loop is None or not isinstance(loop.step, ir.Const):
            return None
        start, stop = self.whole(loop.start), self.whole(loop.stop)
        if start is None or stop is None:
            return None
        if int(loop.step.value) > 0:
            return Range(start.low, stop.high.plus(Bound.of(-1)))
        return Range(stop.low.plus(Bound.of(1)), start.high)

    def on_local_index(self, expr: ir.LocalIndex) -> Range:
        return self._index(Bound.of(0), expr.axis)

    def on_global_index(self, expr: ir.GlobalIndex) -> Range:
        return self._index(self._limited(Bound(f"(long)base_{expr.axis}"), expr.dtype), expr.axis)

    def _index(self, base: Bound, axis: int) -> Range:
        low = local_index(axis, axis == self.axis).plus(base)
        return Range(low, low.plus(Bound.of(self.kernel.layout.spans[axis] - 1)))

    def on_binary(self, expr: ir.Binary) -> Range | None:
        if expr.dtype.kind not in "iu" or expr.dtype.itemsize < 4:
            return None
        divisor = int(expr.right.value) if isinstance(expr.right, ir.Const) else None
        if expr.op == "mod":
            return self._modulo(divisor, expr.right)
        if expr.op == "and" and divisor is not None and divisor >= 0:
            return Range(Bound.of(0), Bound.of(divisor))
        left = self.whole(expr.left) if expr.op == "floordiv" else self.of(expr.left)
        right = self.of(expr.right)
        if left is None or right is None:
            return None
        if expr.op == "add":
            return Range(left.low.plus(right.low), left.high.plus(right.high))
        if expr.op == "sub":
            return Range(left.low.plus(right.high, -1), left.high.plus(right.low, -1))
        if expr.op == "mul":
            return _product(left, right)
        if expr.op == "floordiv" and divisor is not None and divisor > 0:
            return Range(self.divide(left.low, divisor), self.divide(left.high, divisor))
        return None

    def _modulo(self, divisor: int | None, right: ir.Expr) -> Range | None:
        if divisor is not None:
            return Range(Bound.of(0), Bound.of(divisor - 1)) if divisor > 0 else None
        size = self.whole(right)
        if size is None:
            return None
        low, high = size.low.plus(Bound.of(1)), size.high.plus(Bound.of(-1))
        return Range(written("min(0L, {})", low), written("max(0L, {})", high))

    def divide(self, bound: Bound, divisor: int) -> Bound:
        """The quotient by a positive number, rounded down."""
        if divisor == 1:
            return bound
        if bound.number is not None:
            return Bound.of(bound.number // divisor)
        self.kernel.helpers.add(("floordiv", "long"))
        return written(f"lane_floordiv_long({{}}, {divisor}L)", bound)

    def on_unary(self, expr: ir.Unary) -> Range | None:
        inner = self.of(expr.value) if expr.op == "neg" and expr.dtype.kind == "i" else None
        return None if inner is None else Range(Bound.of(0).plus(inner.high, -1), Bound.of(0).plus(inner.low, -1))

    def on_cast(self, expr: ir.Cast) -> Range | None:
        if not (expr.dtype.kind in "iu" and expr.value.dtype.kind in "iu"):
            return None
        same = expr.dtype.itemsize == expr.value.dtype.itemsize
        return self.of(expr.value) if same or isinstance(expr.value, ir.Const) else None

    def on_math(self, expr: ir.Math) -> Range | None:
        if expr.name not in ("minimum", "maximum") or expr.dtype.kind not in "iu":
            return None
        pick = "min" if expr.name == "minimum" else "max"
        return self._picked(self.whole(expr.values[0]), self.whole(expr.values[1]), pick, pick)

    def on_select(self, expr: ir.Select) -> Range | None:
        return self._picked(self.of(expr.yes), self.of(expr.no), "min", "max")

    def _picked(self, first: Range | None, second: Range | None, lowest: str, highest: str) -> Range | None:
        """The lower or the higher bounds of two expressions."""
        if first is None or second is None:
            return None
        return Range(_pick(lowest, first.low, second.low), _pick(highest, first.high, second.high))


def local_index(axis: int, looped: bool) -> Bound:
    """The first local index of a block along an axis; looped: the innermost loop over blocks goes along it."""
    name = f"local_{axis}"
    return Bound(0, 1, name, _INDEX_BITS) if looped else Bound(f"(long){name}", bits=_INDEX_BITS)


def _product(left: Range, right: Range) -> Range | None:
    """The bounds of a product, one of whose factors is a single value."""
    if left.low == left.high and (left.low.number is not None or right.low != right.high):
        left, right = right, left
    factor = right.low
    if factor != right.high:
        return None
    low, high = left.low.times(factor), left.high.times(factor)
    if factor.number is not None:
        return Range(low, high) if factor.number >= 0 else Range(high, low)
    return Range(_pick("min", low, high), _pick("max", low, high))


def _pick(which: str, first: Bound, second: Bound) -> Bound:
    if first == second:
        return first
    if first.number is not None and second.number is not None:
        return Bound.of(min(first.number, second.number) if which == "min" else max(first.number, second.number))
    return written(f"{which}({{}}, {{}})", first, second)


def _long(value: str | int) -> str:
    return f"({value}L)" if isinstance(value, int) else value
