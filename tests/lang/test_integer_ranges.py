"""Whether 32 bits are enough for weak integers: the largest number of a launch for which they are, worked out by hand.

Every function below gets a grid of ten lanes, an array `a` of int32 and a Python integer `q`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pydp.lang import ir
from pydp.lang.analysis.integer_widths import fits_32_bits
from pydp.lang.analysis.intervals import Range
from pydp.lang.compile import FieldType, NumberType, translate

pytestmark = pytest.mark.host

INT32_MAX = 2**31 - 1
LANES = 10


def ranges_of(q: Range) -> Callable[[ir.Expr], Range]:
    def input_range(expr: ir.Expr) -> Range:
        if isinstance(expr, ir.Parameter):
            return q
        return (LANES, LANES) if isinstance(expr, ir.GridExtent | ir.ArrayExtent) else (0, LANES - 1)

    return input_range


def fits(fn: Any, q: int | Range, stored: str = "i8") -> bool:
    types = [FieldType(np.dtype(stored), 1), FieldType(np.dtype("i4"), 1), NumberType(np.dtype("i4"), True)]
    made = translate(fn, 1, None, types)
    return fits_32_bits(made.weak_form or made, ranges_of(q if isinstance(q, tuple) else (q, q)))


CASES: list[tuple[Any, int]] = []


def up_to(largest: int) -> Callable[[Any], Any]:
    """32 bits are enough for `q` up to `largest`, and not for the next number."""

    def noted(fn: Any) -> Any:
        CASES.append((fn, largest))
        return fn

    return noted


@up_to(INT32_MAX - 5)
def quotient(i, o, a, q):
    o[i] = (q + 5) // 3


@up_to(INT32_MAX // 3)
def remainder(i, o, a, q):
    o[i] = (q * 3) % 7


@up_to(INT32_MAX - 9)
def stored(i, o, a, q):
    o[i] = q + i[0]


@up_to(30)
def shifted(i, o, a, q):
    o[i] = (1 << q) // 3


@up_to(9)  # 9**9 has 29 bits, 9**10 has 32
def power(i, o, a, q):
    o[i] = (i[0] ** q) // 2


@up_to(2**30 - 1)
def least(i, o, a, q):
    o[i] = min(q * 2, 50)


@up_to(INT32_MAX)  # the absolute value of the least int32 is one more
def absolute(i, o, a, q):
    o[i] = abs(0 - q)


@up_to(2**31)
def negated(i, o, a, q):
    o[i] = (-q) // 2


@up_to(INT32_MAX)
def compared(i, o, a, q):
    o[i] = a[i] < q


@up_to(INT32_MAX)
def made_a_float(i, o, a, q):
    o[i] = q * 2.0


@up_to((2**32 - 1) // 9)  # an index from 2**31 wraps below 0, which is outside too; from 2**32 it would wrap to 0
def indexed(i, o, a, q):
    o[i] = a[i[0] * q]


@up_to(2**32 - 1 - 9)
def indexed_by_a_sum(i, o, a, q):
    o[i] = a[q + i[0]]


@up_to(2**30 - 1)
def chosen(i, o, a, q):
    n = q if i[0] > 3 else -q
    o[i] = n * 2 // 3


@up_to(INT32_MAX - 3)  # the last k is q + 3
def while_below(i, o, a, q):
    k = 0
    while k < q:
        k += 4
    o[i] = k // 2


@up_to(2**30 - 1)
def doubled_until(i, o, a, q):
    k = 1
    while True:
        if k > q:
            break
        k *= 2
    o[i] = k // 3


@up_to(INT32_MAX // 3)
def added_in_a_loop(i, o, a, q):
    n = 0
    for _ in range(q):
        n += 3
    o[i] = n // 2


@up_to(2**31 // 3)
def subtracted_in_a_loop(i, o, a, q):
    n = 0
    for _ in range(q):
        n -= 3
    o[i] = n // 2


@up_to(INT32_MAX // 10)
def added_in_two_loops(i, o, a, q):
    n = 0
    for _ in range(10):
        for _ in range(q):
            n += 1
    o[i] = n // 2


@up_to(2**30 - 1)
def added_in_some_turns(i, o, a, q):
    n = 0
    for k in range(q):
        if k % 3 == 0:
            continue
        n += 2
    o[i] = n // 2


@up_to(INT32_MAX - 7)  # the counter is compared once more, after it has passed the end by up to seven
def counted_by_eight(i, o, a, q):
    for k in range(0, q, 8):
        o[k] = 0


@up_to(INT32_MAX - 9)  # the last k is q - 1
def with_the_counter(i, o, a, q):
    for k in range(q):
        o[k] = (k + 10) // 2


@up_to(2**30 - 1)
def assigned_before_a_break(i, o, a, q):
    n = 0
    for k in range(10):
        if a[k] > 3:
            n = q
            break
    o[i] = n * 2 // 3


@up_to(2**30 - 1)
def assigned_before_a_continue(i, o, a, q):
    n = 0
    for k in range(10):
        if a[k] > 3:
            n = q
            continue
        o[k] = 0
    o[i] = n * 2 // 3


@up_to(1291)  # 1290**3 has 31 bits, 1291**3 has 32
def cubed_between(i, o, a, q):
    t, cube = int(a[i]), 0
    if t < q and t > -q:
        cube = t * t * t
    o[i] = cube // 2


@up_to(1291)
def cubed_unless_outside(i, o, a, q):
    t, cube = int(a[i]), 0
    if not (t >= q or t <= -q):
        cube = t * t * t
    o[i] = cube // 2


@up_to(INT32_MAX - 9)  # t is at most q - 1
def bounded_above(i, o, a, q):
    t = int(a[i])
    if t >= q:
        t = q - 1
    o[i] = (t + 10) // 2


@pytest.mark.parametrize(("fn", "largest"), CASES, ids=[fn.__name__ for fn, _ in CASES])
def test_the_largest_number_for_which_32_bits_are_enough(fn: Any, largest: int) -> None:
    for q in (1, largest // 2, largest):
        assert fits(fn, q), q
    for q in (largest + 1, largest * 3 + 1, 2**45):
        assert not fits(fn, q), q
    assert fits(fn, (1, largest)) and not fits(fn, (1, largest + 1))


def test_low_bits_need_no_more() -> None:
    def low(i: Any, o: Any, a: Any, q: Any) -> None:
        o[i] = (q + i[0]) * 3 - (q << 3)

    def masked(i: Any, o: Any, a: Any, q: Any) -> None:
        o[i] = ((q + 1) & 255) // 2

    for q in (1, 2**31, 2**45, -(2**40)):
        assert fits(low, q, "i4") and fits(low, q, "u2") and fits(masked, q)
    assert not fits(low, 2**31, "i8")
    assert not fits(low, (7, 3), "i4")  # no number is in this range


def test_the_least_index() -> None:
    # An extent is at most 2**30: a wrapped index comes out beyond it, down to -(2**32) + 2**30 + 1.
    assert fits(indexed_by_a_sum, -(2**32) + 2**30 + 1) and not fits(indexed_by_a_sum, -(2**32) + 2**30)


def half_of_the_end(i, o, a, q):
    k = 1
    while k < q:
        k += 2
    o[i] = k // 2


def test_a_loop_may_end_at_the_last_number() -> None:
    for q, wanted in ((2**31 - 3, True), (2**31 - 2, True), (2**31 - 1, False)):
        assert fits(half_of_the_end, q) is wanted, q


def test_code_that_is_not_reached_needs_nothing() -> None:
    def unreached(i: Any, o: Any, a: Any, q: Any) -> None:
        t = q
        o[i] = 0
        if t > 1000:
            o[i] = t * t * t // 2

    assert fits(unreached, 1000) and fits(unreached, 1200) and not fits(unreached, 1300)
    assert fits(unreached, (0, 1000)) and not fits(unreached, (0, 1300))

    def inner(i: Any, o: Any, a: Any, q: Any) -> None:
        for k in range(q, 0):
            o[k] = q * q * q // 2

    assert fits(inner, 1300) and not fits(inner, -1300)


def behind_a_condition(i, o, a, q, n):
    t = n
    if i[0] > 100:
        t = n - 1
    o[i] = 0
    if t > 5:
        o[i] = (q + i[0]) // 3


def test_a_range_without_values_proves_nothing() -> None:
    types = [FieldType(np.dtype("i8"), 1), FieldType(np.dtype("i4"), 1), NumberType(np.dtype("i4"), True)]
    made = translate(behind_a_condition, 1, None, [*types, NumberType(np.dtype("u8"), False)])
    form = made.weak_form or made
    assert fits_32_bits(form, lambda one: (3, 7))
    assert not fits_32_bits(form, lambda one: (7, 3) if one.dtype == np.uint64 else (3, 7))


def test_functions_of_values_take_the_ranges_of_their_types() -> None:
    def input_range(expr: ir.Expr) -> Range:
        raise AssertionError(expr)

    x, i32 = ir.Variable("x", np.dtype("u1")), np.dtype("i4")
    number = ir.Cast(i32, ir.Read(x.dtype, x), weak=True)
    for exponent, wanted in ((3, True), (4, False)):  # 255**3 has 24 bits, 255**4 has 32
        value = ir.Binary(i32, "pow", number, ir.Const(i32, exponent), weak=True)
        made = ir.ValueFunction("f", [x], [], [], [], ir.Cast(np.dtype("i8"), value))
        assert fits_32_bits(made, input_range) is wanted, exponent
