"""Variance analysis: whether a value varies by the lane of a strip, by row, or by block.

A value that increases by the same integer from lane to lane (mostly an index) is kept as a scalar, the value of lane 0,
and a step; a uniform value has step 0. Every other value is a vector. A variable assigned under a divergent condition
varies too, unless it is only read under that condition.

Groups often load by a linear number, ``s[e // 16, e % 16] = ...`` with ``e = 16 * row + column + 256 * r``. If e
increases by one from lane to lane and is a multiple of the strip's width at lane 0, all lanes have the same quotient,
and their remainders are consecutive. `Multiples` finds such values. It keeps only powers of two, because these remain
divisors if a sum wraps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.analysis.forward import Facts, until_stable
from pydp.lang.opencl.vector.layout import StripLayout

_MOST = 1 << 20  # also used for zero


class Multiples:
    """The largest known powers of two that divide integer values at the first lane of each strip."""

    def __init__(self, nodes: list[regions.Node], layout: StripLayout) -> None:
        self._layout = layout
        set_by: list[ir.Assign | ir.For] = [
            s.statement for s in regions.group_controls(nodes) if isinstance(s.statement, ir.For)
        ]
        for interval in regions.intervals(nodes):
            set_by += [s for s in ir.statements(interval.body) if isinstance(s, ir.Assign | ir.For)]
        self._variables: Facts[str, int] = Facts(min)
        self._variables.update({statement.variable.name: _MOST for statement in set_by})

        def visit() -> None:
            for statement in set_by:
                self._variables.add(statement.variable.name, self._given(statement))

        until_stable(visit, self._variables)

    def _given(self, statement: ir.Assign | ir.For) -> int:
        if isinstance(statement, ir.For):
            return min(self.of(statement.start), self.of(statement.step))
        return 1 if statement.members else self.of(statement.value)

    def of(self, expr: ir.Expr) -> int:
        """A power of two that divides the expression."""
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
    """The step of a quotient or remainder by a constant, or None if the quotient may vary inside a strip.

    step: of the left operand. multiple: a divisor of the left operand at lane 0. Right shifts and masks of low bits are
    quotients and remainders.
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
    block = step * width  # a power of two, because each width is one
    if size < 1 or size % block or multiple % block:
        return None
    return 0 if expr.op in ("floordiv", "shr") else step


def _lowest(value: int) -> int:
    """The largest power of two that divides a number."""
    return min(_MOST, value & -value) if value else _MOST


class Variance(NamedTuple):
    """How a value varies. step: the difference from lane to lane, None if it is not constant."""

    step: int | None = 0
    varies_by_row: bool = False
    varies_by_block: bool = False

    @property
    def varies_by_lane(self) -> bool:
        """Whether the value differs between lanes of a row."""
        return self.step != 0

    @property
    def divergent(self) -> bool:
        """Whether a condition with this value is divergent within a block."""
        return self.varies_by_lane or self.varies_by_row

    @property
    def group_uniform(self) -> bool:
        """Whether the value is uniform in the group."""
        return not (self.varies_by_lane or self.varies_by_row or self.varies_by_block)


UNIFORM = Variance()


def has_step(dtype: np.dtype[Any]) -> bool:
    """Whether values of the dtype can be kept as scalar and step: integers whose C arithmetic wraps at their width."""
    return dtype.kind in "iu" and dtype.itemsize >= 4


def join(first: Variance, second: Variance) -> Variance:
    """The variance of a variable that two assignments set."""
    step = first.step if first.step == second.step else None
    return Variance(step, first.varies_by_row or second.varies_by_row, first.varies_by_block or second.varies_by_block)


def combined(variances: list[Variance]) -> Variance:
    """The variance of a value computed from several values, lane by lane."""
    lane = any(variance.varies_by_lane for variance in variances)
    return Variance(
        None if lane else 0,
        any(variance.varies_by_row for variance in variances),
        any(variance.varies_by_block for variance in variances),
    )


def binary_step(expr: ir.Binary, left: int | None, right: int | None) -> int | None:
    """The step of a sum, difference, or product with a constant; the result of another operation is uniform or None."""
    if left == 0 and right == 0:
        return 0
    if left is None or right is None or not has_step(expr.dtype):
        return None
    step = None
    if expr.op == "add":
        step = left + right
    elif expr.op == "sub":
        step = left - right
    elif expr.op == "mul" and isinstance(expr.right, ir.Const):
        step = left * int(expr.right.value)
    elif expr.op == "mul" and isinstance(expr.left, ir.Const):
        step = right * int(expr.left.value)
    return step if step is not None and abs(step) < 1 << 24 else None


def keeps_step(expr: ir.Cast) -> bool:
    """Whether a conversion keeps the step: between integers of the same width."""
    return has_step(expr.dtype) and has_step(expr.value.dtype) and expr.dtype.itemsize == expr.value.dtype.itemsize


_Around = list[tuple[list[ir.Stmt], Variance]]  # the enclosing lists of statements, each with its condition's variance


class Variances:
    """The variances of all variables and of all control flow of a function.

    variables: by name. control: by the uid of an If, For or While, the variance of its condition or bounds; for loops,
    joined with the conditions of breaks and continues. carried: the variables that carry values between intervals.
    scopes: of the variables of each interval.
    """

    def __init__(self, nodes: list[regions.Node], layout: StripLayout) -> None:
        self.layout = layout
        self.carried = regions.carried(nodes)
        self.scopes = {one: regions.Scopes(one.body, self.carried) for one in regions.intervals(nodes)}
        self.variables: Facts[str, Variance] = Facts(join)
        self.control: Facts[int, Variance] = Facts(lambda before, now: combined([before, now]))
        self._multiples = Multiples(nodes, layout)
        until_stable(lambda: self._visit(nodes), self.variables, self.control)

    # -- expressions ---------------------------------------------------------------------------------------

    def of(self, expr: ir.Expr) -> Variance:
        """The variance of an expression."""
        if isinstance(expr, ir.Read):
            return self.variables.get(expr.variable.name, UNIFORM)
        if isinstance(expr, ir.LocalIndex | ir.GlobalIndex):
            return self.index(expr.axis)
        if isinstance(expr, ir.Load):
            return self._load(expr)
        inside = [self.of(child) for child in ir.children(expr)]
        variance = combined(inside)
        if isinstance(expr, ir.Binary):
            return variance._replace(step=self.binary_step(expr, inside[0].step, inside[1].step))
        if isinstance(expr, ir.Unary) and expr.op == "neg" and inside[0].step is not None and has_step(expr.dtype):
            return variance._replace(step=-inside[0].step)
        if isinstance(expr, ir.Cast) and keeps_step(expr):
            return variance._replace(step=inside[0].step)
        if isinstance(expr, ir.Select) and not inside[0].varies_by_lane and inside[1].step == inside[2].step:
            return variance._replace(step=inside[1].step)
        return variance

    def binary_step(self, expr: ir.Binary, left: int | None, right: int | None) -> int | None:
        """The step of an operation on operands with these steps."""
        step = binary_step(expr, left, right)
        if step is None and left is not None and right == 0 and has_step(expr.dtype):
            return split_step(expr, left, self.layout.width, self._multiples.of(expr.left))
        return step

    def index(self, axis: int) -> Variance:
        """The variance of a lane's index along an axis."""
        layout = self.layout
        if axis == len(layout.group) - 1:
            return Variance(1, False, layout.strips > 1)
        if axis == layout.row_axis:
            return Variance(0, layout.rows > 1, layout.rows < layout.row_extent)
        return Variance(0, False, True)

    def _load(self, expr: ir.Load) -> Variance:
        variance = combined([self.of(index) for index in expr.indices])
        if isinstance(expr.array, ir.PrivateArray):
            return Variance(None, self.layout.rows > 1, True)
        return variance

    # -- statements ----------------------------------------------------------------------------------------

    def _visit(self, nodes: list[regions.Node]) -> None:
        for node in nodes:
            if isinstance(node, regions.Interval):
                self._body(node.body, [(node.body, UNIFORM)], self.scopes[node])
            elif isinstance(node, regions.GroupControl):
                if isinstance(node.statement, ir.For):
                    self.variables.add(node.statement.variable.name, UNIFORM)
                self._visit(node.body)
                self._visit(node.orelse)

    def _body(self, body: list[ir.Stmt], around: _Around, scopes: regions.Scopes) -> None:
        for statement in body:
            if isinstance(statement, ir.Assign):
                variance = self.of(statement.value)
                if statement.members:
                    variance = combined([variance, self.variables.get(statement.variable.name, UNIFORM)])
                self._assign(statement.variable, variance, around, scopes)
            elif isinstance(statement, ir.If):
                control = self.control.add(statement.uid, self.of(statement.condition))
                self._body(statement.then, [*around, (statement.then, control)], scopes)
                self._body(statement.orelse, [*around, (statement.orelse, control)], scopes)
            elif isinstance(statement, ir.For | ir.While):
                self._loop(statement, around, scopes)

    def _loop(self, statement: ir.For | ir.While, around: _Around, scopes: regions.Scopes) -> None:
        bounds = combined([self.of(expr) for expr in ir.expressions(statement)])
        jumps = [self.of(inner.condition) for inner in ir.jump_conditions(statement.body)]
        control = self.control.add(statement.uid, combined([bounds, *jumps]))
        inside = [*around, (statement.body, control)]
        if isinstance(statement, ir.For):
            counter = Variance(None if bounds.divergent else 0, bounds.varies_by_row, bounds.varies_by_block)
            self._assign(statement.variable, counter, inside, scopes)
        self._body(statement.body, inside, scopes)

    def _assign(self, variable: ir.Variable, variance: Variance, around: _Around, scopes: regions.Scopes) -> None:
        """Record an assignment; the conditions between the variable's scope and the assignment count too."""
        scope = scopes.of[variable.name]
        outside = next(number for number, (body, _) in enumerate(around) if body is scope)
        between = [control for _, control in around[outside + 1 :]]
        divergence = combined(between)
        if divergence.divergent:
            # The mask of the assignment has a text for each row if any enclosing condition varies by row.
            variance = Variance(
                None,
                variance.varies_by_row or any(control.varies_by_row for _, control in around),
                variance.varies_by_block,
            )
        varies_by_block = variance.varies_by_block or divergence.varies_by_block
        self.variables.add(variable.name, variance._replace(varies_by_block=varies_by_block))
