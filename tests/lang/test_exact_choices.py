"""Choices between weak and typed integers: which expressions and variables may have a weak integer's value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builder import BOOL, HERE, assign, c, cmp, function, loop, place, read, var

from pydp.lang import ir
from pydp.lang.analysis.exact_choices import ExactChoices, is_promoted
from pydp.lang.compile import FieldType, NumberType, translate

pytestmark = pytest.mark.host

U32, F64 = np.dtype("u4"), np.dtype("f8")
Q = ir.Parameter(np.dtype("i4"), "q", 0, weak=True)
TRUTH = ir.Const(BOOL, True)


def promoted(dtype: Any = U32, value: ir.Expr = Q) -> ir.Cast:
    return ir.Cast(np.dtype(dtype), value, promoted=True)


def holds(expr: ir.Expr, *body: ir.Stmt) -> bool:
    return ExactChoices(function(list(body))).holds(expr)


def test_promotions_of_weak_integers() -> None:
    assert is_promoted(promoted()) and is_promoted(promoted("u8"))
    for other in (ir.Cast(U32, Q), promoted(F64), promoted(U32, c(1.5, F64)), Q):
        assert not is_promoted(other)


def test_expressions() -> None:
    other = c(7, U32)
    assert holds(promoted()) and not holds(promoted("i8")) and not holds(promoted("u2")) and not holds(ir.Cast(U32, Q))
    assert holds(ir.Select(U32, TRUTH, promoted(), other)) and holds(ir.Select(U32, TRUTH, other, promoted()))
    assert not holds(ir.Select(U32, TRUTH, other, other))
    assert not holds(ir.Select(U32, TRUTH, promoted(), other, weak=True))
    for name, wanted in (("minimum", True), ("maximum", True), ("abs", False), ("clz", False)):
        values = (promoted(), other) if wanted else (promoted(),)
        assert holds(ir.Math(U32, name, values)) is wanted, name
    assert not holds(ir.Binary(U32, "add", promoted(), other))
    assert holds(ir.Math(U32, "minimum", (other, ir.Select(U32, TRUTH, other, promoted()))))


def test_variables_hold_what_is_assigned_to_them() -> None:
    x, y, z = var("x", U32), var("y", U32), var("z", U32)
    # y gets the value in the second iteration.
    body = [loop(var("k"), 0, 9, [assign(y, read(x)), assign(x, promoted())]), assign(z, ir.Unary(U32, "neg", read(y)))]
    assert ExactChoices(function(body)).variables == {"x", "y"}
    assert holds(read(y), *body) and not holds(read(z), *body)


def test_variables_of_other_types() -> None:
    for one in (var("x", "i8"), var("x", "f4"), ir.Variable("x", np.dtype("i4"), weak=True)):
        assert not ExactChoices(function([ir.Assign(HERE, one, promoted())])).variables, one
    member = ir.Assign(HERE, var("x", U32), promoted(), ("p",))
    assert not ExactChoices(function([member])).variables
    either = ir.If(HERE, cmp("lt", place(), 3), [assign(var("x", U32), c(1, U32))], [assign(var("x", U32), promoted())])
    assert ExactChoices(function([either])).variables == {"x"}


def choosing(idx: Any, o: Any, a: Any, q: Any) -> None:
    x = a[idx] if idx[0] > 3 else q
    y = x
    z = x + 1
    w = min(a[idx], q)
    v = abs(a[idx])
    o[idx] = y + z + w + v


@pytest.mark.parametrize(("dtype", "names"), [("i4", "xyw"), ("u4", "xyw"), ("i8", ""), ("u8", ""), ("f4", "")])
def test_choices_of_a_translated_function(dtype: str, names: str) -> None:
    types = [FieldType(np.dtype("i8"), 1), FieldType(np.dtype(dtype), 1), NumberType(np.dtype("i4"), True)]
    made = translate(choosing, 1, None, types)
    assert ExactChoices(made.weak_form or made).variables == set(names)


def test_arguments_of_functions_of_values_have_their_type() -> None:
    x, y = var("x", U32), var("y", U32)
    made = ir.ValueFunction("f", [x], [y], [], [assign(x, promoted()), assign(y, promoted())], read(x))
    assert ExactChoices(made).variables == {"y"}
