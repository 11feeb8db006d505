"""Unrolls small loops over private arrays: constants then index the arrays, and their elements can be registers.

A loop is unrolled if its bounds are constants, it has few iterations, and its counter is part of an index of a private
array or of a strided index with gaps (4 * lane + counter). Integer arithmetic on constants is folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.ir.data import wrap
from pydp.lang.ir.rewrite import Rewriter

_MOST_ITERATIONS = 16
_MAX_FACTOR = 8
_MOST_STATEMENTS = 160  # of one unrolled loop


def unroll(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """A copy of `body` in which small constant loops over private arrays are unrolled."""
    return _Unrolling(body).block(body)


class _Unrolling(Rewriter):
    def __init__(self, body: list[ir.Stmt]) -> None:
        self.body = body

    @cached_property
    def reads(self) -> Counter[str]:
        """The number of reads of each variable in the whole body."""
        return _reads(self.body)

    def expr(self, expr: ir.Expr) -> ir.Expr:
        return expr

    def statement(self, one: ir.Stmt) -> list[ir.Stmt]:
        (changed,) = super().statement(one)
        return (
            _iterations(changed, self.reads, one) if isinstance(changed, ir.For) and _is_small(changed) else [changed]
        )


def _is_small(loop: ir.For) -> bool:
    values, name = ir.constant_range(loop), loop.variable.name
    if values is None or len(values) > _MOST_ITERATIONS:
        return False
    inside = list(ir.statements(loop.body))
    if len(values) * len(inside) > _MOST_STATEMENTS or ir.barriers(loop.body):
        return False
    if name in regions.assigned_in(loop.body) or any(ir.jumps(loop.body)):
        return False
    factors = range(2, min(_MAX_FACTOR, len(values)) + 1)
    uses = ((access, index) for access in ir.accesses(inside) for index in access.indices)
    return any(
        isinstance(access.array, ir.PrivateArray) or (not isinstance(access, ir.Atomic) and _has_factor(index, factors))
        for access, index in uses
        if any(variable.name == name for variable in regions.reads(index))
    )


def _has_factor(index: ir.Expr, factors: range) -> bool:
    """Whether an index contains a small multiple: iterations access the elements between the lanes' ones."""
    products = (one for one in ir.walk(index) if isinstance(one, ir.Binary) and one.op == "mul")
    constants = (side for one in products if one.dtype.kind in "iu" for side in (one.left, one.right))
    return any(isinstance(side, ir.Const) and int(side.value) in factors for side in constants)


def _iterations(loop: ir.For, all_reads: Counter[str], original: ir.Stmt) -> list[ir.Stmt]:
    values, variable = ir.constant_range(loop), loop.variable
    assert values is not None
    result: list[ir.Stmt] = []
    for value in values:
        result += Folding({variable.name: ir.Const(variable.dtype, value)}).block(loop.body)
    if values and all_reads[variable.name] > _reads([original])[variable.name]:
        result.append(ir.Assign(loop.where, variable, ir.Const(variable.dtype, values[-1])))
    return result


def _reads(body: list[ir.Stmt]) -> Counter[str]:
    """The number of reads of each variable."""
    return Counter(part.variable.name for part in ir.parts(ir.statements(body)) if isinstance(part, ir.Read))


class Folding(Rewriter):
    """Replaces the variables of `known` by constants, and folds arithmetic on integer constants."""

    def __init__(self, known: Mapping[str, ir.Const]) -> None:
        self.known = known

    def expr(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Read):
            return self.known.get(expr.variable.name, expr)
        return fold(self.inside(expr, self.expr))


def fold(expr: ir.Expr) -> ir.Expr:
    """Fold arithmetic and conversions of integer constants, with the results that the kernel would compute."""
    if expr.dtype.kind not in "iu":
        return expr
    if isinstance(expr, ir.Cast) and isinstance(expr.value, ir.Const) and expr.value.dtype.kind in "iu":
        return ir.Const(expr.dtype, wrap(int(expr.value.value), expr.dtype))
    if not (isinstance(expr, ir.Binary) and isinstance(expr.left, ir.Const) and isinstance(expr.right, ir.Const)):
        return expr
    left, right = int(expr.left.value), int(expr.right.value)
    results = {"add": left + right, "sub": left - right, "mul": left * right}
    if right:
        results |= {"floordiv": left // right, "mod": left % right}
    return ir.Const(expr.dtype, wrap(results[expr.op], expr.dtype)) if expr.op in results else expr
