"""The verifier of the typed form: each rule, broken once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builder import BOOL, F32, HERE, I32, array, assign, c, cmp, function, load, loop, place, store, var, when
from verify_form import InvalidForm, verify

from pydp.lang import ir
from pydp.lang.compile import FieldType, translate

pytestmark = pytest.mark.host
I64, U8 = np.dtype(np.int64), np.dtype(np.uint8)
X = array("x", I32, 1, 0)
FLOATS = array("y", F32, 1, 1)
FIXED = array("z", I32, 1, 2, writable=False)


def made(*body, variables=()):
    return function(list(body), arrays=[X, FLOATS, FIXED], variables=list(variables))


def test_a_right_function_passes():
    i = var("i")
    verify(made(loop(i, 0, 3, [store(X, (place(),), load(X, place()))]), variables=[i]))


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        (store(X, (place(),), c(1.0, F32)), "x of int32 is stored float32"),
        (store(X, (place(), place()), c(1)), "x of rank 1 has 2 indexes"),
        (store(X, (c(1.0, F32),), c(1)), "an index of x is not an integer"),
        (store(FIXED, (place(),), c(1)), "z is read-only"),
        (store(array("w", I32, 1, 3), (place(),), c(1)), "w is not declared"),
        (assign(var("i"), c(1)), "the variable i is not declared"),
        (ir.Break(HERE), "Break is outside of a loop"),
        (when(c(1), [], []), "a condition is int32"),
        (store(X, (place(),), ir.Binary(I32, "add", c(1), c(1, I64))), "add of int32 and int64 gives int32"),
        (store(X, (place(),), ir.Binary(I32, "plus", c(1), c(1))), "the operator plus is unknown"),
        (store(X, (place(),), ir.Unary(I32, "not", c(1))), "not is applied to int32"),
        (store(X, (place(),), ir.Select(I32, cmp("lt", c(1), 2), c(1), c(1, I64))), "a choice between"),
        (store(X, (place(),), ir.Math(I32, "popcount", (c(1.0, F32),))), "popcount of float32 is not defined"),
        (store(X, (place(),), ir.Math(I32, "cube", (c(1),))), "the function cube is unknown"),
        (store(X, (place(),), ir.Math(I32, "rotate", (c(1), c(1, U8)))), "the arguments of rotate have different"),
        (store(FLOATS, (place(),), ir.Math(F32, "isnan", (c(1.0, F32),))), "isnan of float32 gives float32"),
        (store(X, (place(),), ir.Cast(I32, ir.Compare(BOOL, "lt", c(1), c(1, I64)))), "int32 is compared with int64"),
        (store(FLOATS, (place(),), replace(load(X, place()), dtype=F32)), "x is read as float32"),
    ],
    ids=lambda one: one if isinstance(one, str) else None,
)
def test_broken_rules(statement, rule):
    with pytest.raises(InvalidForm, match=rule):
        verify(made(statement))


def test_declared_types_are_used():
    i = var("i")
    other = replace(i, dtype=I64)
    with pytest.raises(InvalidForm, match="the variable i is declared as"):
        verify(made(assign(other, c(1, I64)), variables=[i]))


def test_every_pass_is_checked(monkeypatch):
    """The front end, the split of divergent regions, and the choice of widths."""
    seen = []
    monkeypatch.setattr(ir, "AFTER_PASS", [seen.append])

    def fresh(idx, out):
        out[idx] = idx[0] * 3 + 1

    translate(fresh, 1, None, [FieldType(I32, 1)])
    assert len(seen) == 3 and all(isinstance(one, ir.Function) for one in seen)
