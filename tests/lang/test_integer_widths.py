"""The two forms of a function: its weak integers in 32 bits, or in 64. The values are compared with Python's."""

from __future__ import annotations

from typing import Any

import interpreter
import numpy as np
import pytest
from builder import BOOL, array, c, function, load, loop, place, read, store, var

from pydp.lang import ir
from pydp.lang.analysis.integer_widths import narrowed, widened
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.ir.data import wrap
from pydp.lang.ir.text import expr_text, ir_text

pytestmark = pytest.mark.host

I32, U32, I64, U64 = (np.dtype(name) for name in ("i4", "u4", "i8", "u8"))
LANES = 5
Q = ir.Parameter(I32, "q", 2, weak=True)
DTYPES = ["i1", "u2", "i4", "u4", "i8", "u8"]


def form_of(fn: Any, dtype: Any, stored: Any = "i8") -> ir.Function:
    types = [FieldType(np.dtype(stored), 1), FieldType(np.dtype(dtype), 1), NumberType(I32, True)]
    made = translate(fn, 1, None, types)
    return made.weak_form or made


def run(made: ir.Function, a: Any, q: int, stored: Any = "i8") -> list[int]:
    out = np.zeros(LANES, stored)
    interpreter.run(made, (LANES,), None, [out, a], {2: q})
    return out.tolist()


def values_of(dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.array([info.max, info.min, 3, 100, info.max // 2], dtype)


def counted(i, o, a, q):
    n = q
    for k in range(3):
        n = n * 3 + k
    o[i] = n // 7 + (q >> 2) + abs(q) % 5


def compared(i, o, a, q):
    o[i] = (
        (a[i] < q) * 1
        + (a[i] <= q) * 2
        + (a[i] > q) * 4
        + (a[i] >= q) * 8
        + (a[i] == q) * 16
        + (a[i] != q) * 32
        + (q < a[i]) * 64
        + (q >= a[i]) * 128
    )


def chosen(i, o, a, q):
    x = a[i] if i[0] < 2 else q
    o[i] = x


def least(i, o, a, q):
    o[i] = min(a[i], q)


def divided(i, o, a, q):
    o[i] = a[i] // q + a[i] % q * 3 + min(a[i], q) * 5 + max(a[i], q) * 7


NUMBERS = [0, 3, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, -(2**40) + 7, 2**62, -(2**62)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_comparisons_are_by_value(dtype: str) -> None:
    a = values_of(dtype)
    wide = widened(form_of(compared, dtype), large=True)
    for q in NUMBERS:
        wanted: dict[Any, int] = {}
        for lane in range(LANES):
            compared((lane,), wanted, {(lane,): int(a[lane])}, q)
        assert run(wide, a, q) == [wanted[lane,] for lane in range(LANES)], q


def test_wide_arithmetic_has_64_bits() -> None:
    made = form_of(counted, "i4")
    a = values_of("i4")
    for q in (0, 3, -1, 2**31, 2**40, -(2**40) + 7):
        stored: dict[Any, int] = {}
        counted(0, stored, None, q)
        assert set(run(widened(made, large=True), a, q)) == {stored[0]}, q
        if abs(q) < 2**25:
            assert set(run(narrowed(made), a, q)) == {stored[0]}, q


@pytest.mark.parametrize("dtype", ["i4", "u4"])
@pytest.mark.parametrize("stored", ["i4", "i8"])
def test_a_wide_choice_keeps_the_weak_value(dtype: str, stored: str) -> None:
    a = values_of(dtype)
    wide = widened(form_of(chosen, dtype, stored), large=True)
    for q in NUMBERS:
        wanted = [int(a[lane]) if lane < 2 else q for lane in range(LANES)]
        assert run(wide, a, q, stored) == [wrap(one, np.dtype(stored)) for one in wanted], q


@pytest.mark.parametrize("dtype", ["i4", "u4"])
def test_a_wide_minimum_is_of_the_whole_values(dtype: str) -> None:
    a = values_of(dtype)
    wide = widened(form_of(least, dtype), large=True)
    for q in NUMBERS:
        wanted = [min(int(one), q) for one in a]
        assert run(wide, a, q) == wanted, q


@pytest.mark.parametrize("dtype", ["i4", "u4"])
def test_wide_operations_of_typed_integers_take_the_whole_weak_value(dtype: str) -> None:
    a = values_of(dtype)
    wide = widened(form_of(divided, dtype), large=True)
    for q in NUMBERS:
        wanted = [x // q + x % q * 3 if q else 0 for x in a.tolist()]  # dividing by 0 gives 0
        wanted = [one + min(x, q) * 5 + max(x, q) * 7 for one, x in zip(wanted, a.tolist(), strict=True)]
        assert run(wide, a, q) == [wrap(one, np.dtype(dtype)) for one in wanted], q


def test_types_of_the_wide_form() -> None:
    k, typed = ir.Variable("k", I32, weak=True), var("x")
    out = array("o", I32)
    body = [loop(k, 0, Q, [store(out, (read(k),), load(out, place()))]), ir.Assign(ir.NOWHERE, typed, c(1))]
    made = function(body, arrays=[out], parameters=[Q, ir.Parameter(I32, "p", 3)], variables=[k, typed])
    before = ir_text(made)
    wide = widened(made, large=True)
    assert wide.index_dtype == I64 and [one.dtype for one in wide.parameters] == [I64, I32]
    assert [one.dtype for one in wide.variables] == [I64, I32]
    repeated, assigned = wide.body
    assert isinstance(repeated, ir.For) and isinstance(assigned, ir.Assign)
    assert {one.dtype for one in (repeated.start, repeated.stop, repeated.step, repeated.variable)} == {I64}
    (kept,) = repeated.body
    assert isinstance(kept, ir.Store) and isinstance(kept.value, ir.Load)
    assert kept.indices[0].dtype == kept.value.indices[0].dtype == I64 and kept.value.dtype == I32
    assert assigned.value == c(1) and ir_text(made) == before


def test_the_narrow_form_has_the_low_bits_of_constants() -> None:
    def low(value: int, dtype: Any = I32) -> Any:
        made = function([ir.Assign(ir.NOWHERE, var("x", dtype), c(value, dtype))])
        statement = narrowed(made).body[0]
        assert isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Const)
        return statement.value.value

    for value in (0, -1, 2**31 - 1, 2**31, 2**32 + 5, -(2**31), -(2**31) - 1, 2**40 - 1):
        assert low(value) == wrap(value, I32), value
    assert low(2**40, I64) == 2**40


def test_the_narrow_form_converts_no_type_to_itself() -> None:
    inner = ir.Cast(I32, ir.Cast(I32, read(var("y"))), weak=True)
    value = ir.Select(I32, ir.Const(BOOL, True), inner, ir.Cast(I32, ir.Cast(U32, inner)))
    statement = narrowed(function([ir.Assign(ir.NOWHERE, var("x"), value)])).body[0]
    assert isinstance(statement, ir.Assign) and expr_text(statement.value) == "(y if True else int32(uint32(y)))"
