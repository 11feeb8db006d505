"""Changed copies of functions in the typed form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builder import HERE, I32, add, array, assign, barrier, c, cmp, function, load, loop, place, read, store, var, when
from verify_form import verify

from pydp.lang import ir
from pydp.lang.ir.rewrite import Rewriter
from pydp.lang.ir.text import ir_text

pytestmark = pytest.mark.host

A, X, K = array("a"), var("x"), var("k")


class Doubled(Rewriter):
    """Doubles constants, and records the arguments of each method."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def expr(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Const):
            return replace(expr, value=2 * expr.value)
        return self.inside(expr, self.expr)

    def index(self, expr: ir.Expr) -> ir.Expr:
        self.seen.append("index")
        return self.expr(expr)

    def typed(self, expr: ir.Expr, dtype: np.dtype[Any]) -> ir.Expr:
        self.seen.append(dtype)
        return self.expr(expr)


def whole() -> ir.Function:
    element = ir.Load(I32, A, (c(1),), (ir.Bound(c(2), 8),))
    chosen = ir.Select(I32, cmp("lt", place(), 3), element, c(4), ir.ItemBound(c(5), 8, "m", "read", HERE))
    updates = ir.Atomic(HERE, "add", A, (c(6),), c(7))
    body = [
        loop(K, 1, 8, [assign(X, chosen), ir.Continue(HERE)], 1),
        when(cmp("lt", place(), 9), [barrier(width=c(10))], [ir.While(HERE, cmp("lt", read(X), 11), [updates])]),
        store(A, [c(12)], add(read(X), 13)),
    ]
    return function(body, arrays=[A], variables=[X, K])


def constants(body: list[ir.Stmt]) -> list[int]:
    found = [inner.value for one in ir.statements(body) for expr in ir.expressions(one) for inner in ir.walk(expr)
             if isinstance(inner, ir.Const)]  # fmt: skip
    return sorted(found)


def test_every_expression_is_changed() -> None:
    before = whole()
    made = Doubled().function(before)
    verify(made)
    assert constants(made.body) == [2 * value for value in constants(before.body)]
    chosen = made.body[0].body[0].value
    assert chosen.yes.bounds[0].index.value == 4 and chosen.item.index.value == 10
    assert ir_text(before) == ir_text(whole())


def test_indexes_and_values_are_changed_by_their_own_methods() -> None:
    rewriter = Doubled()
    rewriter.block([assign(X, load(A, 1))])
    assert rewriter.seen == [I32, "index"]
    rewriter.seen.clear()
    rewriter.block([loop(K, 0, 4, [barrier(width=c(2))])])
    assert rewriter.seen == [I32, I32, I32, "index"]


def test_unchanged_expressions_are_kept_and_statements_are_copied() -> None:
    before = whole()
    made = Rewriter().function(before)
    assert made == before
    pairs = list(zip(ir.statements(before.body), ir.statements(made.body), strict=True))
    assert len(pairs) == 8 and all(one.uid != other.uid for one, other in pairs)
    for one, other in pairs:
        assert all(a is b for a, b in zip(ir.expressions(one), ir.expressions(other), strict=True))


def test_a_statement_can_become_several() -> None:
    class Twice(Rewriter):
        def statement(self, one: ir.Stmt) -> list[ir.Stmt]:
            return 2 * super().statement(one) if isinstance(one, ir.Assign) else super().statement(one)

    made = Twice().block([loop(K, 0, 4, [assign(X, 1), ir.Break(HERE)])])
    assert made == [loop(K, 0, 4, [assign(X, 1), assign(X, 1), ir.Break(HERE)])]


def test_variables_and_parameters_get_other_types() -> None:
    class Wide(Rewriter):
        def variable(self, variable: ir.Variable) -> ir.Variable:
            return replace(variable, dtype=np.dtype(np.int64))

        def typed(self, expr: ir.Expr, dtype: np.dtype[Any]) -> ir.Expr:
            return ir.Const(dtype, 1)

    made = Wide().function(function([loop(K, 0, 4, [assign(X, 1)])], variables=[X, K]))
    verify(made)
    assert {one.dtype.itemsize for one in made.variables} == {8}
