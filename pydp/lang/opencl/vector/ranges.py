"""Bounds of index expressions over all lanes of a block and all iterations of its loops, as C text for its start.

One test of these bounds per block decides whether its accesses need guards. Bounds are computed in 64 bits, so an
index that wraps is never considered in bounds. An index without known bounds is guarded at the access.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydp.lang import ir
from pydp.lang.opencl.vector.values import KernelContext, StripValue


class Range(NamedTuple):
    """The lowest and the highest value: C text of type long, or a Python integer."""

    low: str | int
    high: str | int


class Ranges:
    """Bounds of expressions inside one interval. loops: the For statements around the access, by counter name."""

    def __init__(
        self, kernel: KernelContext, body: list[ir.Stmt], carried: set[str], entry: Callable[[ir.Expr], StripValue]
    ) -> None:
        self.kernel = kernel
        self.loops: dict[str, ir.For] = {}
        self._entry = entry
        self._carried = carried
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
        write = _RULES.get(type(expr))
        return None if write is None else write(self, expr)

    def inside_extent(self, expr: ir.Binary) -> list[str] | None:
        """Conditions under which an index modulo an extent equals the index (periodic boundaries); None if unknown.

        Only for extents: most blocks are far from the boundary.
        """
        size = expr.right
        while isinstance(size, ir.Read) and len(self._assigned.get(size.variable.name, [])) == 1:
            if size.variable.name in self._counters or size.variable.name in self._carried:
                return None
            size = self._assigned[size.variable.name][0].value
        if not isinstance(size, ir.ArrayExtent | ir.GridExtent) or self.kernel.variances.of(expr.left).step is None:
            return None
        bounds = self.of(expr.left)
        return None if bounds is None else condition(bounds, f"(long)({self._entry(size).texts[0]})")

    def _is_entry(self, expr: ir.Expr) -> bool:
        """Whether the expression is a scalar that keeps its value from the start of the block to its end."""
        if isinstance(expr, ir.Const) or expr.dtype.kind not in "iu" or expr.dtype.itemsize < 4:
            return False
        variance = self.kernel.variances.of(expr)
        if variance.varies_by_lane or variance.varies_by_row:
            return False
        for inner in ir.walk(expr):
            if isinstance(inner, ir.Load):
                return False
            if isinstance(inner, ir.Read) and not self._at_entry(inner.variable.name):
                return False
        return True

    def _at_entry(self, name: str) -> bool:
        return name in self._carried and name not in self._assigned and name not in self._counters

    def _const(self, expr: ir.Const) -> Range | None:
        return Range(int(expr.value), int(expr.value)) if expr.dtype.kind in "iu" else None

    def _read(self, expr: ir.Read) -> Range | None:
        name = expr.variable.name
        assigned = self._assigned.get(name, [])
        if name in self._carried or (assigned and name in self._counters):
            return None
        if name in self._counters:
            return self._counter(name)
        variance = self.kernel.variances.variables[name]
        if len(assigned) != 1 or assigned[0].members or variance.step is None:
            return None  # a vector has undefined values in lanes that were masked at the assignment
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
        if self.kernel.variances.variables[name].step is None:
            return None
        start, stop = self.of(loop.start), self.of(loop.stop)
        if start is None or stop is None:
            return None
        if int(loop.step.value) > 0:
            return Range(start.low, _sum(stop.high, -1))
        return Range(_sum(stop.low, 1), start.high)

    def _index(self, expr: ir.LocalIndex | ir.GlobalIndex) -> Range | None:
        layout, variance = self.kernel.layout, self.kernel.variances.index(expr.axis)
        base = f"base_{expr.axis} + " if isinstance(expr, ir.GlobalIndex) else ""
        low = f"((long){base}local_{expr.axis})"
        more = layout.width - 1 if variance.varies_by_lane else layout.rows - 1 if variance.varies_by_row else 0
        return Range(low, _sum(low, more))

    def _binary(self, expr: ir.Binary) -> Range | None:
        left, right = self.of(expr.left), self.of(expr.right)
        if expr.dtype.kind not in "iu" or expr.dtype.itemsize < 4:
            return None
        divisor = int(expr.right.value) if isinstance(expr.right, ir.Const) else None
        if expr.op == "mod":
            return self._modulo(expr)
        if expr.op == "and" and divisor is not None and divisor >= 0:
            return Range(0, divisor)
        if left is None or right is None:
            return None
        if expr.op == "add":
            return Range(_sum(left.low, right.low), _sum(left.high, right.high))
        if expr.op == "sub":
            return Range(_difference(left.low, right.high), _difference(left.high, right.low))
        if expr.op == "mul":
            return _product(left, right)
        if expr.op == "floordiv" and divisor is not None and divisor > 0:
            return Range(self._divide(left.low, divisor), self._divide(left.high, divisor))
        return None

    def _modulo(self, expr: ir.Binary) -> Range | None:
        if isinstance(expr.right, ir.Const):
            size = int(expr.right.value)
            return Range(0, size - 1) if size > 0 else None
        size_range = self.of(expr.right)
        if size_range is None:
            return None
        return Range(f"min(0L, {_sum(size_range.low, 1)})", f"max(0L, {_sum(size_range.high, -1)})")

    def _divide(self, text: str | int, divisor: int) -> str | int:
        if isinstance(text, int):
            return text // divisor
        self.kernel.helpers.add(("floordiv", "long"))
        return f"lane_floordiv_long({text}, {divisor}L)"

    def _unary(self, expr: ir.Unary) -> Range | None:
        inner = self.of(expr.value) if expr.op == "neg" and expr.dtype.kind == "i" else None
        return None if inner is None else Range(_difference(0, inner.high), _difference(0, inner.low))

    def _cast(self, expr: ir.Cast) -> Range | None:
        if not (expr.dtype.kind in "iu" and expr.value.dtype.kind in "iu"):
            return None
        same = expr.dtype.itemsize == expr.value.dtype.itemsize
        return self.of(expr.value) if same or isinstance(expr.value, ir.Const) else None

    def _math(self, expr: ir.Math) -> Range | None:
        if expr.name not in ("minimum", "maximum") or expr.dtype.kind not in "iu":
            return None
        first, second = self.of(expr.values[0]), self.of(expr.values[1])
        if first is None or second is None:
            return None
        pick = "min" if expr.name == "minimum" else "max"
        return Range(_pick(pick, first.low, second.low), _pick(pick, first.high, second.high))

    def _select(self, expr: ir.Select) -> Range | None:
        yes, no = self.of(expr.yes), self.of(expr.no)
        if yes is None or no is None:
            return None
        return Range(_pick("min", yes.low, no.low), _pick("max", yes.high, no.high))


def _sum(first: str | int, second: str | int) -> str | int:
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    if second == 0:
        return first
    return f"({_long(first)} + {_long(second)})"


def _difference(first: str | int, second: str | int) -> str | int:
    if isinstance(second, int):
        return _sum(first, -second)
    return f"({_long(first)} - {second})"


def _product(left: Range, right: Range) -> Range | None:
    if isinstance(left.low, int) and left.low == left.high:
        left, right = right, left
    factor = right.low
    if factor != right.high:
        return None
    if isinstance(factor, int):
        ends = [_times(left.low, factor), _times(left.high, factor)]
        return Range(*ends) if factor >= 0 else Range(ends[1], ends[0])
    ends = [_times(left.low, factor), _times(left.high, factor)]
    return Range(_pick("min", *ends), _pick("max", *ends))


def _times(first: str | int, second: str | int) -> str | int:
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    return f"({_long(first)} * {_long(second)})"


def _pick(which: str, first: str | int, second: str | int) -> str | int:
    if first == second:
        return first
    if isinstance(first, int) and isinstance(second, int):
        return min(first, second) if which == "min" else max(first, second)
    return f"{which}({_long(first)}, {_long(second)})"


def _long(bound: str | int) -> str:
    return f"({bound}L)" if isinstance(bound, int) else bound


def condition(bounds: Range, extent: str) -> list[str]:
    """The C conditions that `bounds` are inside [0, extent)."""
    tests = []
    if not (isinstance(bounds.low, int) and bounds.low >= 0):
        tests.append(f"{_long(bounds.low)} >= 0")
    tests.append(f"{_long(bounds.high)} < {extent}")
    return tests


_RULES: dict[type, Callable[[Ranges, Any], Range | None]] = {
    ir.Const: Ranges._const,
    ir.Read: Ranges._read,
    ir.LocalIndex: Ranges._index,
    ir.GlobalIndex: Ranges._index,
    ir.Binary: Ranges._binary,
    ir.Unary: Ranges._unary,
    ir.Cast: Ranges._cast,
    ir.Math: Ranges._math,
    ir.Select: Ranges._select,
}
