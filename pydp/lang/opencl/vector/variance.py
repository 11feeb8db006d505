"""What a value depends on, among the lanes that one work-item runs: the lane of the strip, the row, the block.

A value that steps by the same integer from lane to lane (mostly an index) is kept as a scalar, the value at
lane 0; a uniform value has step 0. Every other value is a vector. A condition that differs between lanes or rows makes
the variables assigned under it differ too, unless nothing outside of it reads them.

Groups often fetch by a flat number, ``s[e // 16, e % 16] = ...`` with ``e = 16 * row + column + 256 * r``.
If e goes up by one from lane to lane and is a multiple of the strip's width at its first lane, all lanes share the
quotient, and remainders are neighbours. `Multiples` finds such values. Only powers of two are kept: sums that wrap
leave these as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.opencl.vector.layout import Layout

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


class Variance(NamedTuple):
    """step: from lane to lane, None where there is none; row: rows of a block differ; lead: blocks do."""

    step: int | None = 0
    row: bool = False
    lead: bool = False

    @property
    def lane(self) -> bool:
        """Lanes of a row differ."""
        return self.step != 0

    @property
    def masks(self) -> bool:
        """As a condition: lanes or rows part ways."""
        return self.lane or self.row

    @property
    def shared(self) -> bool:
        """One value for the whole group."""
        return not (self.lane or self.row or self.lead)


SHARED = Variance()


def steps(dtype: np.dtype[Any]) -> bool:
    """Values of the dtype may be kept as a scalar and a step: integers whose C arithmetic wraps at their own width."""
    return dtype.kind in "iu" and dtype.itemsize >= 4


def join(first: Variance, second: Variance) -> Variance:
    """What holds for a value that is one or the other."""
    step = first.step if first.step == second.step else None
    return Variance(step, first.row or second.row, first.lead or second.lead)


def among(variances: list[Variance]) -> Variance:
    """A value computed from several, lane by lane: a vector where any of them moves from lane to lane."""
    lane = any(facet.lane for facet in variances)
    return Variance(None if lane else 0, any(facet.row for facet in variances), any(facet.lead for facet in variances))


def binary_step(expr: ir.Binary, left: int | None, right: int | None) -> int | None:
    """The step of a sum, difference, or product with a constant; other operations have one only of 0."""
    if left == 0 and right == 0:
        return 0
    if left is None or right is None or not steps(expr.dtype):
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
    """A conversion between integers of one width."""
    return steps(expr.dtype) and steps(expr.value.dtype) and expr.dtype.itemsize == expr.value.dtype.itemsize


class Variances:
    """The facets of all variables of a function, and of its conditions and loops.

    `variables` is by name; `control` by id of an If, For or While: how its condition or bounds, and the jumps
    out of a loop, part the lanes.
    """

    def __init__(self, nodes: list[regions.Node], layout: Layout, scopes: dict[int, regions.Scopes]) -> None:
        self.layout = layout
        self.variables: dict[str, Variance] = {}
        self.control: dict[int, Variance] = {}
        self._scopes = scopes
        self._nodes = nodes
        self._multiples = Multiples(nodes, layout)
        self._changed = True
        while self._changed:
            self._changed = False
            self._visit(nodes)

    # -- expressions ---------------------------------------------------------------------------------------

    def of(self, expr: ir.Expr) -> Variance:
        """The facet of an expression."""
        if isinstance(expr, ir.Read):
            return self.variables.get(expr.variable.name, SHARED)
        if isinstance(expr, ir.LocalIndex | ir.GlobalIndex):
            return self.index(expr.axis)
        if isinstance(expr, ir.Load):
            return self._load(expr)
        inside = [self.of(child) for child in ir.children(expr)]
        facet = among(inside)
        if isinstance(expr, ir.Binary):
            return facet._replace(step=self.binary_step(expr, inside[0].step, inside[1].step))
        if isinstance(expr, ir.Unary) and expr.op == "neg" and inside[0].step is not None and steps(expr.dtype):
            return facet._replace(step=-inside[0].step)
        if isinstance(expr, ir.Cast) and keeps_step(expr):
            return facet._replace(step=inside[0].step)
        if isinstance(expr, ir.Select) and not inside[0].lane and inside[1].step == inside[2].step:
            return facet._replace(step=inside[1].step)
        return facet

    def binary_step(self, expr: ir.Binary, left: int | None, right: int | None) -> int | None:
        """The step of an operation on operands of these steps."""
        step = binary_step(expr, left, right)
        if step is None and left is not None and right == 0 and steps(expr.dtype):
            return split_step(expr, left, self.layout.width, self._multiples.of(expr.left))
        return step

    def index(self, axis: int) -> Variance:
        """The facet of a lane's index along an axis."""
        layout = self.layout
        if axis == len(layout.group) - 1:
            return Variance(1, False, layout.strips > 1)
        if axis == layout.row_axis:
            return Variance(0, layout.rows > 1, layout.rows < layout.row_extent)
        return Variance(0, False, True)

    def _load(self, expr: ir.Load) -> Variance:
        facet = among([self.of(index) for index in expr.indices])
        if isinstance(expr.array, ir.PrivateArray):
            return Variance(None, self.layout.rows > 1, True)
        return facet

    # -- statements ----------------------------------------------------------------------------------------

    def _visit(self, nodes: list[regions.Node]) -> None:
        for node in nodes:
            if isinstance(node, regions.Interval):
                self._body(node.body, [(id(node.body), SHARED)], self._scopes[id(node)])
            elif isinstance(node, regions.Shared):
                if isinstance(node.statement, ir.For):
                    self._set(node.statement.variable.name, SHARED)
                self._visit(node.body)
                self._visit(node.orelse)

    def _body(self, body: list[ir.Stmt], around: list[tuple[int, Variance]], scopes: regions.Scopes) -> None:
        for statement in body:
            if isinstance(statement, ir.Assign):
                facet = self.of(statement.value)
                if statement.members:
                    facet = among([facet, self.variables.get(statement.variable.name, SHARED)])
                self._assign(statement.variable, facet, around, scopes)
            elif isinstance(statement, ir.If):
                parts = self._control(statement, self.of(statement.condition))
                self._body(statement.then, [*around, (id(statement.then), parts)], scopes)
                self._body(statement.orelse, [*around, (id(statement.orelse), parts)], scopes)
            elif isinstance(statement, ir.For | ir.While):
                self._loop(statement, around, scopes)

    def _loop(self, statement: ir.For | ir.While, around: list[tuple[int, Variance]], scopes: regions.Scopes) -> None:
        bounds = among([self.of(expr) for expr in ir.expressions(statement)])
        parts = among([bounds, self._jumps(statement.body)])
        parts = self._control(statement, parts)
        inside = [*around, (id(statement.body), parts)]
        if isinstance(statement, ir.For):
            counter = Variance(None if bounds.masks else 0, bounds.row, bounds.lead)
            self._assign(statement.variable, counter, inside, scopes)
        self._body(statement.body, inside, scopes)

    def _jumps(self, body: list[ir.Stmt]) -> Variance:
        """How the conditions around the breaks and continues of a loop part the lanes."""
        found = SHARED
        for statement in body:
            if isinstance(statement, ir.If) and any(ir.jumps([statement])):
                condition = self.of(statement.condition)
                inner = among([self._jumps(statement.then), self._jumps(statement.orelse)])
                found = among([found, condition, inner])
        return found

    def _control(self, statement: ir.Stmt, facet: Variance) -> Variance:
        before = self.control.get(id(statement))
        facet = facet if before is None else among([before, facet])
        if facet != before:
            self.control[id(statement)] = facet
            self._changed = True
        return facet

    def _assign(
        self, variable: ir.Variable, facet: Variance, around: list[tuple[int, Variance]], scopes: regions.Scopes
    ) -> None:
        """Join what is assigned, and the conditions between the variable's scope and here."""
        scope = id(scopes.of[variable.name])
        places = [place for place, _ in around]
        between = [parts for _, parts in around[places.index(scope) + 1 :]]
        parted = among(between)
        if parted.masks:
            # The mask under which it is set has a part for each row where any condition around parts the rows.
            facet = Variance(None, facet.row or any(parts.row for _, parts in around), facet.lead)
        self._set(variable.name, facet._replace(lead=facet.lead or parted.lead))

    def _set(self, name: str, facet: Variance) -> None:
        before = self.variables.get(name)
        facet = facet if before is None else join(before, facet)
        if facet != before:
            self.variables[name] = facet
            self._changed = True
