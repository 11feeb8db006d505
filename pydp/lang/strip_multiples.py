"""What values are multiples of at the first lanes of strips, so that quotients and remainders keep their steps.

Groups often fetch by a flat number, ``s[e // 16, e % 16] = ...`` with ``e = 16 * row + column + 256 * r``.
Where e goes up by one from lane to lane and is a multiple of the strip's width at its first lane, all lanes share the
quotient, and remainders are neighbours. Only powers of two are kept: sums that wrap leave these as they are.
"""

from __future__ import annotations

from pydp.lang import ir, regions
from pydp.lang.strip_layout import Layout

_MOST = 1 << 20  # stands for zero, too


class Multiples:
    """Powers of two that divide values of integers at the first lanes of strips."""

    def __init__(self, nodes: list[regions.Node], layout: Layout) -> None:
        self._layout = layout
        set_by: list[ir.Assign | ir.For] = [
            s.statement for s in regions.shared(nodes) if isinstance(s.statement, ir.For)
        ]
        for interval in regions.intervals(nodes):
            set_by += [s for s in ir.statements(interval.body) if isinstance(s, ir.Assign | ir.For)]
        self._variables: dict[str, int] = {statement.variable.name: _MOST for statement in set_by}
        changed = True
        while changed:  # downwards, until all assignments hold
            changed = False
            for statement in set_by:
                name = statement.variable.name
                found = min(self._variables[name], self._given(statement))
                changed = changed or found != self._variables[name]
                self._variables[name] = found

    def _given(self, statement: ir.Assign | ir.For) -> int:
        if isinstance(statement, ir.For):
            return min(self.of(statement.start), self.of(statement.step))
        return 1 if statement.members else self.of(statement.value)

    def of(self, expr: ir.Expr) -> int:
        """A power of two of which the expression is a multiple."""
        if expr.dtype.kind not in "iu" or expr.dtype.itemsize < 4:
            return 1
        if isinstance(expr, ir.Const):
            return _lowest(int(expr.value))
        if isinstance(expr, ir.Read):
            return self._variables.get(expr.variable.name, 1)
        if isinstance(expr, ir.LocalIndex):
            return self._layout.width if expr.axis == len(self._layout.group) - 1 else 1
        if isinstance(expr, ir.Cast) or (isinstance(expr, ir.Unary) and expr.op == "neg"):
            return self.of(expr.value)
        if isinstance(expr, ir.Binary):
            return self._binary(expr)
        return 1

    def _binary(self, expr: ir.Binary) -> int:
        left, right = self.of(expr.left), self.of(expr.right)
        if expr.op in ("add", "sub"):
            return min(left, right)
        if expr.op == "mul":
            return min(_MOST, left * right)
        if expr.op == "mod" and isinstance(expr.right, ir.Const):
            return min(left, right)
        if expr.op == "shl" and isinstance(expr.right, ir.Const) and 0 <= int(expr.right.value) < 20:
            return min(_MOST, left << int(expr.right.value))
        return 1


def split_step(expr: ir.Binary, step: int, width: int, multiple: int) -> int | None:
    """The step of a quotient or remainder by a constant; the left operand has a `step` and is a `multiple` at lane 0.

    None where a strip may reach beyond one quotient. Right shifts and masks of low bits are quotients and remainders.
    """
    if not isinstance(expr.right, ir.Const) or step < 1 or step & (step - 1):
        return None
    size, bits = int(expr.right.value), 8 * expr.dtype.itemsize - 1
    if expr.op == "shr":
        size = 1 << size if 0 <= size < bits else 0
    elif expr.op == "and":
        size = size + 1 if size >= 0 and not size & (size + 1) else 0
    elif expr.op not in ("floordiv", "mod"):
        return None
    block = step * width  # a power of two, as is each width
    if size < 1 or size % block or multiple % block:
        return None
    return 0 if expr.op in ("floordiv", "shr") else step


def _lowest(value: int) -> int:
    """The highest power of two that divides a number."""
    return min(_MOST, value & -value) if value else _MOST
