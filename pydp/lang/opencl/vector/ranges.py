"""Bounds of index expressions over all lanes of a block and all iterations of its loops, as C text for its start.

One test of these bounds per block decides whether its accesses need guards. Bounds are computed in 64 bits, so an
index that wraps is never considered in bounds. An index without known bounds is guarded at the access.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

from pydp.lang import ir
from pydp.lang.ir.visit import Visitor
from pydp.lang.opencl.vector.values import KernelContext, StripValue

Bound = str | int  # C text of type long, or a Python integer


class Range(NamedTuple):
    """The lowest and the highest value."""

    low: Bound
    high: Bound


class Ranges(Visitor):
    """Bounds of expressions inside one interval.

    loops: the For statements around the access, by counter name. conditions: the C conditions under which the accesses
    that `proves_inside` and the remainders that `keeps_left` accepted are in bounds, in order.
    """

    def __init__(self, kernel: KernelContext, body: list[ir.Stmt], entry: Callable[[ir.Expr], StripValue]) -> None:
        self.kernel = kernel
        self.loops: dict[str, ir.For] = {}
        self.conditions: dict[str, None] = {}
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
            text = f"(long)({self._entry(expr).texts[0]})"
            return Range(text, text)
        found: Range | None = self.visit(expr)
        return found

    def proves_inside(self, array: ir.GlobalArray, axis: int, index: ir.Expr) -> bool:
        """Whether an index is in bounds under `conditions`, which get its bounds."""
        bounds = self.of(index)
        return bounds is not None and self._require(bounds, f"{self.kernel.names[array.name, None]}_e{axis}")

    def keeps_left(self, expr: ir.Binary) -> bool:
        """Whether an index modulo an extent equals the index under `conditions` (periodic boundaries).

        Only for extents: most blocks are far from the boundary.
        """
        size = expr.right
        while isinstance(size, ir.Read) and len(self._assigned.get(size.variable.name, [])) == 1:
            if size.variable.name in self._counters or size.variable.name in self._carried:
                return False
            size = self._assigned[size.variable.name][0].value
        if not isinstance(size, ir.ArrayExtent | ir.GridExtent) or self.kernel.variances.of(expr.left).step is None:
            return False
        bounds = self.of(expr.left)
        return bounds is not None and self._require(bounds, f"(long)({self._entry(size).texts[0]})")

    def _require(self, bounds: Range, extent: str) -> bool:
        """Add the conditions that `bounds` are inside [0, extent)."""
        if not (isinstance(bounds.low, int) and bounds.low >= 0):
            self.conditions[f"{_long(bounds.low)} >= 0"] = None
        self.conditions[f"{_long(bounds.high)} < {extent}"] = None
        return True

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
        return Range(int(expr.value), int(expr.value)) if expr.dtype.kind in "iu" else None

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
        start, stop = self.of(loop.start), self.of(loop.stop)
        if start is None or stop is None:
            return None
        if int(loop.step.value) > 0:
            return Range(start.low, _computed("+", stop.high, -1))
        return Range(_computed("+", stop.low, 1), start.high)

    def on_local_index(self, expr: ir.LocalIndex) -> Range:
        return self._index(f"((long)local_{expr.axis})", expr.axis)

    def on_global_index(self, expr: ir.GlobalIndex) -> Range:
        return self._index(f"((long)base_{expr.axis} + local_{expr.axis})", expr.axis)

    def _index(self, low: str, axis: int) -> Range:
        return Range(low, _computed("+", low, self.kernel.layout.spans[axis] - 1))

    def on_binary(self, expr: ir.Binary) -> Range | None:
        left, right = self.of(expr.left), self.of(expr.right)
        if expr.dtype.kind not in "iu" or expr.dtype.itemsize < 4:
            return None
        divisor = int(expr.right.value) if isinstance(expr.right, ir.Const) else None
        if expr.op == "mod" and right is not None:
            return self._modulo(divisor, right)
        if expr.op == "and" and divisor is not None and divisor >= 0:
            return Range(0, divisor)
        if left is None or right is None:
            return None
        if expr.op == "add":
            return Range(_computed("+", left.low, right.low), _computed("+", left.high, right.high))
        if expr.op == "sub":
            return Range(_computed("-", left.low, right.high), _computed("-", left.high, right.low))
        if expr.op == "mul":
            return _product(left, right)
        if expr.op == "floordiv" and divisor is not None and divisor > 0:
            return Range(self._divide(left.low, divisor), self._divide(left.high, divisor))
        return None

    def _modulo(self, divisor: int | None, size: Range) -> Range | None:
        if divisor is not None:
            return Range(0, divisor - 1) if divisor > 0 else None
        return Range(f"min(0L, {_computed('+', size.low, 1)})", f"max(0L, {_computed('+', size.high, -1)})")

    def _divide(self, text: Bound, divisor: int) -> Bound:
        if isinstance(text, int):
            return text // divisor
        self.kernel.helpers.add(("floordiv", "long"))
        return f"lane_floordiv_long({text}, {divisor}L)"

    def on_unary(self, expr: ir.Unary) -> Range | None:
        inner = self.of(expr.value) if expr.op == "neg" and expr.dtype.kind == "i" else None
        return None if inner is None else Range(_computed("-", 0, inner.high), _computed("-", 0, inner.low))

    def on_cast(self, expr: ir.Cast) -> Range | None:
        if not (expr.dtype.kind in "iu" and expr.value.dtype.kind in "iu"):
            return None
        same = expr.dtype.itemsize == expr.value.dtype.itemsize
        return self.of(expr.value) if same or isinstance(expr.value, ir.Const) else None

    def on_math(self, expr: ir.Math) -> Range | None:
        if expr.name not in ("minimum", "maximum") or expr.dtype.kind not in "iu":
            return None
        pick = "min" if expr.name == "minimum" else "max"
        return self._picked(expr.values[0], expr.values[1], pick, pick)

    def on_select(self, expr: ir.Select) -> Range | None:
        return self._picked(expr.yes, expr.no, "min", "max")

    def _picked(self, one: ir.Expr, other: ir.Expr, lowest: str, highest: str) -> Range | None:
        """The lower or the higher bounds of two expressions."""
        first, second = self.of(one), self.of(other)
        if first is None or second is None:
            return None
        return Range(_pick(lowest, first.low, second.low), _pick(highest, first.high, second.high))


_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _computed(sign: str, first: Bound, second: Bound) -> Bound:
    """A sum, difference or product."""
    if sign == "-" and isinstance(second, int):
        sign, second = "+", -second
    if isinstance(first, int) and isinstance(second, int):
        return int(_OPERATIONS[sign](first, second))
    if sign == "+" and second == 0:
        return first
    return f"({_long(first)} {sign} {_long(second)})"


def _product(left: Range, right: Range) -> Range | None:
    """The bounds of a product, one of whose factors is a single value."""
    if isinstance(left.low, int) and left.low == left.high:
        left, right = right, left
    factor = right.low
    if factor != right.high:
        return None
    low, high = _computed("*", left.low, factor), _computed("*", left.high, factor)
    if isinstance(factor, int):
        return Range(low, high) if factor >= 0 else Range(high, low)
    return Range(_pick("min", low, high), _pick("max", low, high))


def _pick(which: str, first: Bound, second: Bound) -> Bound:
    if first == second:
        return first
    if isinstance(first, int) and isinstance(second, int):
        return min(first, second) if which == "min" else max(first, second)
    return f"{which}({_long(first)}, {_long(second)})"


def _long(bound: Bound) -> str:
    return f"({bound}L)" if isinstance(bound, int) else bound
