"""Barriers with a width under a condition that not all lanes meet: the region around them is split (SPEC S4).

``if lane < n: before(); group_barrier(n); after()`` names the lanes that meet: those n for which the condition
holds. It becomes ``m = lane < n; if m: before()``, a barrier that all lanes reach, ``if m: after()``: a barrier of
more lanes only waits longer. Nested conditions and loops with counts that are the same for all lanes are split as
well; whatever else surrounds the barrier stays, and :mod:`pydp.lang.barriers.uniform` refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydp.lang import ir
from pydp.lang.barriers.uniform import Uniformity, analyse
from pydp.lang.ir.types import BOOL


def split_divergent_regions(function: ir.Function) -> ir.Function:
    """The function with every barrier that has a width taken out of conditions that differ from lane to lane."""
    if not any(barrier.width is not None for barrier in ir.barriers(function.body)):
        return function
    found = analyse(function)
    if not found.barriers:
        return function
    splitter = _Splitter(function, found)
    body = splitter.block(function.body)
    return replace(function, body=body, variables=[*function.variables, *splitter.masks])


class _Splitter:
    def __init__(self, function: ir.Function, found: Uniformity) -> None:
        self.found = found
        self.taken = {item.name for item in function.variables} | {item.name for item in function.arrays}
        self.taken |= {item.name for item in function.locals} | {item.name for item in function.privates}
        self.taken |= {item.name for item in function.parameters}
        self.masks: list[ir.Variable] = []

    def block(self, body: Sequence[ir.Stmt]) -> list[ir.Stmt]:
        """A block that all lanes run; its divergent conditions around barriers are split."""
        result: list[ir.Stmt] = []
        for statement in body:
            if not ir.barriers([statement]):
                result.append(statement)
            elif isinstance(statement, ir.If):
                result += self._condition(statement)
            elif isinstance(statement, ir.For | ir.While):
                result.append(replace(statement, body=self.block(statement.body)))
            else:
                result.append(statement)
        return result

    def _condition(self, statement: ir.If) -> list[ir.Stmt]:
        if self.found.cause(statement.condition) is None:
            return [replace(statement, then=self.block(statement.then), orelse=self.block(statement.orelse))]
        if not self._can_split(statement.then) or not self._can_split(statement.orelse):
            return [statement]
        return self._both_ways(statement, None)

    def _can_split(self, body: Sequence[ir.Stmt]) -> bool:
        """True where only conditions and loops of uniform counts are around the barriers, all with widths."""
        for statement in body:
            if isinstance(statement, ir.Barrier):
                if statement.width is None or self.found.cause(statement.width) is not None:
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
                counts = (statement.start, statement.stop, statement.step)
                if any(self.found.cause(item) is not None for item in counts) or not self._can_split(statement.body):
                    return False
            else:
                return False
        return True

    def _mask(self, value: ir.Expr, where: ir.Where) -> tuple[ir.Assign, ir.Read]:
        name = "meets" if not self.masks else f"meets_{len(self.masks) + 1}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        variable = ir.Variable(name, BOOL, synthetic=True)
        self.masks.append(variable)
        return ir.Assign(where, variable, value), ir.Read(BOOL, variable)

    def _both_ways(self, statement: ir.If, outer: ir.Expr | None) -> list[ir.Stmt]:
        """The two branches of a condition, each of its own mask; `outer` is the mask of the lanes that get here."""
        condition = statement.condition
        if outer is not None:
            condition = ir.Logical(BOOL, "and", outer, condition)
        yes, meets = self._mask(condition, statement.where)
        result: list[ir.Stmt] = [yes]
        other: ir.Expr = ir.Unary(BOOL, "not", meets)
        if outer is not None:
            other = ir.Logical(BOOL, "and", outer, other)
        result += self._under(statement.then, meets)
        if statement.orelse:
            if ir.barriers(statement.orelse):
                no, other = self._mask(other, statement.where)
                result.insert(1, no)
            result += self._under(statement.orelse, other)
        return result

    def _under(self, body: Sequence[ir.Stmt], mask: ir.Expr) -> list[ir.Stmt]:
        """A block for the lanes of a mask, its barriers for all lanes."""
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
                result += self._both_ways(statement, mask)
            elif isinstance(statement, ir.For):
                result.append(replace(statement, body=self._under(statement.body, mask)))
            elif isinstance(statement, ir.Barrier):
                result.append(replace(statement, from_condition=True))
            else:
                result.append(statement)
        flush()
        return result
