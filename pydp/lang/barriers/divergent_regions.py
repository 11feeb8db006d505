"""Moves barriers with a width out of divergent conditions, by splitting the code around them (SPEC S4).

``if lane < n: before(); group_barrier(n); after()`` synchronizes the n lanes for which the condition holds. It becomes
``m = lane < n; if m: before()``, a barrier that all lanes reach, and ``if m: after()``. This is correct because a
barrier may synchronize more lanes than needed. Nested conditions and loops with uniform trip counts are split too.
Other control flow around a barrier is not changed; :mod:`pydp.lang.barriers.uniform` rejects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydp.lang import ir
from pydp.lang.barriers.uniform import Uniformity, analyze
from pydp.lang.ir.rewrite import Rewriter
from pydp.lang.ir.types import BOOL


def split_divergent_regions(function: ir.Function) -> ir.Function:
    """The function with every barrier that has a width moved out of divergent conditions."""
    if not any(barrier.width is not None for barrier in ir.barriers(function.body)):
        return function
    uniformity = analyze(function)
    if not uniformity.barriers:
        return function
    splitter = _Splitter(function, uniformity)
    body = splitter.block(function.body)
    return replace(function, body=body, variables=[*function.variables, *splitter.masks])


class _Splitter(Rewriter):
    def __init__(self, function: ir.Function, uniformity: Uniformity) -> None:
        self.uniformity = uniformity
        self.taken = {item.name for item in function.variables} | {item.name for item in function.arrays}
        self.taken |= {item.name for item in function.locals} | {item.name for item in function.privates}
        self.taken |= {item.name for item in function.parameters}
        self.masks: list[ir.Variable] = []

    def expr(self, expr: ir.Expr) -> ir.Expr:
        return expr

    def statement(self, one: ir.Stmt) -> list[ir.Stmt]:
        """Split the divergent conditions around barriers in a statement that all lanes run."""
        if isinstance(one, ir.If) and ir.barriers([one]) and self.uniformity.cause(one.condition) is not None:
            splittable = self._can_split(one.then) and self._can_split(one.orelse)
            return self._split(one, None) if splittable else [one]
        return super().statement(one)

    def _can_split(self, body: Sequence[ir.Stmt]) -> bool:
        """Whether all barriers have a uniform width, and only conditions and loops with uniform trip counts enclose
        them."""
        for statement in body:
            if isinstance(statement, ir.Barrier):
                if statement.width is None or self.uniformity.cause(statement.width) is not None:
                    return False
            elif isinstance(statement, ir.Break | ir.Continue):
                return False
            elif not ir.barriers([statement]):
                if any(ir.jumps([statement])):
                    return False
            elif isinstance(statement, ir.If):
                if not self._can_split(statement.then) or not self._can_split(statement.orelse):
                    return False
            elif isinstance(statement, ir.For):
                divergent = any(self.uniformity.cause(item) is not None for item in ir.expressions(statement))
                if divergent or not self._can_split(statement.body):
                    return False
            else:
                return False
        return True

    def _mask(self, value: ir.Expr, where: ir.Where) -> tuple[ir.Assign, ir.Read]:
        name = "mask" if not self.masks else f"mask_{len(self.masks) + 1}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        variable = ir.Variable(name, BOOL, synthetic=True)
        self.masks.append(variable)
        return ir.Assign(where, variable, value), ir.Read(BOOL, variable)

    def _split(self, statement: ir.If, outer: ir.Expr | None) -> list[ir.Stmt]:
        """The two branches of a condition, each under its own mask. outer: the mask of the lanes that reach the
        condition; None: all lanes."""
        condition = statement.condition
        if outer is not None:
            condition = ir.Logical(BOOL, "and", outer, condition)
        yes, mask = self._mask(condition, statement.where)
        result: list[ir.Stmt] = [yes]
        other: ir.Expr = ir.Unary(BOOL, "not", mask)
        if outer is not None:
            other = ir.Logical(BOOL, "and", outer, other)
        result += self._under(statement.then, mask)
        if statement.orelse:
            if ir.barriers(statement.orelse):
                no, other = self._mask(other, statement.where)
                result.insert(1, no)
            result += self._under(statement.orelse, other)
        return result

    def _under(self, body: Sequence[ir.Stmt], mask: ir.Expr) -> list[ir.Stmt]:
        """A block in which all lanes run the barriers, and the lanes of a mask run the other statements."""
        result: list[ir.Stmt] = []
        run: list[ir.Stmt] = []

        def flush() -> None:
            if run:
                result.append(ir.If(run[0].where, mask, list(run)))
                run.clear()

        for statement in body:
            if not ir.barriers([statement]):
                run.append(statement)
                continue
            flush()
            if isinstance(statement, ir.If):
                result += self._split(statement, mask)
            elif isinstance(statement, ir.For):
                result.append(replace(statement, body=self._under(statement.body, mask)))
            elif isinstance(statement, ir.Barrier):
                result.append(replace(statement, from_condition=True))
            else:
                result.append(statement)
        flush()
        return result
