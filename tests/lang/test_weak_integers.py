"""Python's integers in vector functions: their values choose no width, and only the destination's type wraps.

The reference is Python itself: every function is run lane by lane with Python's unbounded integers, and what it stores
is converted to the destination's type.
"""

from __future__ import annotations

import itertools
import linecache
import math
import random
from collections.abc import Callable
from typing import Any

import needs
import numpy as np
import pytest

import pydp
from pydp.algorithms.forall import plan as forall_plan
from pydp.algorithms.forall.arguments import Arguments
from pydp.errors import InvalidArgument, PydpError
from pydp.lang.analysis.integer_widths import fits_32_bits
from pydp.lang.analysis.intervals import limits
from pydp.lang.compile import FieldType, translate, translate_value
from pydp.lang.execute import host
from pydp.lang.opencl.value_function import lower_value
from pydp.lang.source.fingerprint import fingerprint

LANES = 6
NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32, 2**40, -(2**31), -(2**31) - 1, 2**63 - 1]
DTYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
WAYS = ("simt", "vector", "host", "checked")
OFFSET = 2**33  # a constant from around the functions


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, device: Any) -> str:
    """The mappings of a device, the host, and checked mode."""
    needs.vector_mapping(device, request.param)
    return str(request.param)


def run(device: Any, way: str, extent: Any, fn: Callable[..., Any], *args: Any) -> None:
    if way == "checked":
        with pydp.checked():
            pydp.forall(extent, fn, *args, device=device)
    elif way == "host":
        pydp.forall(extent, fn, *args, device="host")
    else:
        pydp.forall(extent, fn, *args, device=device, spec={"mapping": way})


def held(value: int, dtype: Any) -> Any:
    """A Python integer as a number of `dtype`, which wraps where it is one of integers."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.int64(value).astype(kind)
    return np.array(value % 2**64, np.uint64).astype(kind)[()]


def expected(fn: Callable[..., int], dtype: Any, *args: Any) -> np.ndarray:
    """The result of fn(lane, ...) for every lane, in `dtype`."""
    return np.array([held(int(fn(lane, *args)), dtype) for lane in range(LANES)], dtype)


# --- values ------------------------------------------------------------------------------------------------


def plus(i, q):
    return q + i


def minus(i, q):
    return i - q


def times(i, q):
    return q * i - q


def through_variables(i, q):
    t = q + i
    u = t
    t = u - 1
    return t


def chosen(i, q):
    return q + 1 if i % 2 else i - q


def chosen_by_statements(i, q):
    t = -q
    if i % 2:
        t = q
    return t + 1


def added_in_a_loop(i, q):
    s = 0
    for k in range(3):
        s += q
        s = s + k
    return s


def bits(i, q):
    return ((q ^ i) & ~5) | (q << i)


@pydp.vector
def twice(x):
    return 2 * x


def called(i, q):
    return twice(q + i)


def with_a_constant(i, q):
    return q + OFFSET * i


def divided(i, q):
    return (q * i) // 3 + (q - i) % 7


def divided_by_it(i, q):
    return (i - 3) // (q | 1) + (i - 3) % (q | 1)


def shifted(i, q):
    return (q + i) >> 3


def compared(i, q):
    return (1 if q + i < 2**31 else 0) + (2 if q - i > -(2**31) else 0) + (4 if q + i == q else 0)


def compared_in_a_chain(i, q):
    return 1 if -i < q + i <= 2**32 + 2 else 0


def extremes(i, q):
    return max(q + i, 5) - min(q - 1, i)


def absolute(i, q):
    return abs(q - i)


def truth(i, q):
    return (1 if q + i else 0) + (2 if q and i else 0)


def counted(i, q):
    s = 0
    for k in range(q, q + i):
        s += k
    return s


def counted_down(i, q):
    s = 0
    for k in range(q + 3 * i, q, -3):
        s = s * 2 + k // 2
    return s


def while_less(i, q):
    k = q
    while k < q + i:
        k += 2
    return k


def squares(i, q):
    return (q % 1000 + i) ** 5 // 7 + divmod(q, 9)[0]


RING = [plus, minus, times, through_variables, chosen, chosen_by_statements, added_in_a_loop, bits, called]
RING += [with_a_constant]
WHOLE = [divided, divided_by_it, shifted, compared, compared_in_a_chain, extremes, absolute, truth, counted]
WHOLE += [counted_down, while_less, squares]


def ring(idx, o, p, q):
    i = idx[0]
    o[i, 0] = p[i, 0] = plus(i, q)
    o[i, 1] = p[i, 1] = minus(i, q)
    o[i, 2] = p[i, 2] = times(i, q)
    o[i, 3] = p[i, 3] = through_variables(i, q)
    o[i, 4] = p[i, 4] = chosen(i, q)
    o[i, 5] = p[i, 5] = chosen_by_statements(i, q)
    o[i, 6] = p[i, 6] = added_in_a_loop(i, q)
    o[i, 7] = p[i, 7] = bits(i, q)
    o[i, 8] = p[i, 8] = called(i, q)
    o[i, 9] = p[i, 9] = with_a_constant(i, q)


def whole(idx, o, p, q):
    i = idx[0]
    o[i, 0] = p[i, 0] = divided(i, q)
    o[i, 1] = p[i, 1] = divided_by_it(i, q)
    o[i, 2] = p[i, 2] = shifted(i, q)
    o[i, 3] = p[i, 3] = compared(i, q)
    o[i, 4] = p[i, 4] = compared_in_a_chain(i, q)
    o[i, 5] = p[i, 5] = extremes(i, q)
    o[i, 6] = p[i, 6] = absolute(i, q)
    o[i, 7] = p[i, 7] = truth(i, q)
    o[i, 8] = p[i, 8] = counted(i, q)
    o[i, 9] = p[i, 9] = counted_down(i, q)
    o[i, 10] = p[i, 10] = while_less(i, q)
    o[i, 11] = p[i, 11] = squares(i, q)


def everywhere(idx, a, b, c, d, e, f, g, h, x, y, q):
    i = idx[0]
    a[i, 0] = b[i, 0] = c[i, 0] = d[i, 0] = e[i, 0] = f[i, 0] = g[i, 0] = h[i, 0] = x[i, 0] = y[i, 0] = q + i
    t = -q
    if i % 2:
        t = q
    t = t + 1
    a[i, 1] = b[i, 1] = c[i, 1] = d[i, 1] = e[i, 1] = f[i, 1] = g[i, 1] = h[i, 1] = x[i, 1] = y[i, 1] = t
    t = q // 3 - i
    a[i, 2] = b[i, 2] = c[i, 2] = d[i, 2] = e[i, 2] = f[i, 2] = g[i, 2] = h[i, 2] = x[i, 2] = y[i, 2] = t


def test_every_destination_takes_the_true_value(device: Any, way: str) -> None:
    dtypes = [*DTYPES, np.float32, np.float64 if device.profile.fp64 else np.float32]
    for q in NUMBERS:
        outs = [np.zeros((LANES, 3), dtype) for dtype in dtypes]
        run(device, way, LANES, everywhere, *outs, q)
        for o in outs:
            if o.dtype.kind == "f" and abs(q) > 2**62:
                continue  # its sums pass 64 bits
            for column, fn in enumerate((plus, chosen_by_statements, lambda i, q: q // 3 - i)):
                np.testing.assert_array_equal(o[:, column], expected(fn, o.dtype, q), err_msg=f"{q} {column}")


@pytest.mark.parametrize("fn", [ring, whole], ids=lambda one: one.__name__)
def test_no_operation_wraps_where_the_destination_does_not(device: Any, way: str, fn: Any) -> None:
    columns = RING if fn is ring else WHOLE
    for q in NUMBERS:
        if fn is whole and abs(q) > 2**60:
            continue  # its products pass 64 bits
        outs = [np.zeros((LANES, len(columns)), dtype) for dtype in (np.int64, np.int32)]
        run(device, way, LANES, fn, *outs, q)
        for o in outs:
            for column, one in enumerate(columns):
                want = expected(one, o.dtype, q)
                np.testing.assert_array_equal(o[:, column], want, err_msg=f"{one.__name__} {q} {o.dtype}")


def while_below(i, q):
    k = q - 7 - i
    while k < q:
        k += 2
    return k // 2


def negative_modulus(i, q):
    return (q % -(2**31 - 3) - 9 - i) // 2


def divided_difference(i, q):
    return (q - i) // 3


def remainder(i, q):
    return (q + i) % 7


def shifted_by_it(i, q):
    return (5 << (q & 31)) >> 2


def power(i, q):
    return (q % 1000 + i) ** 4 // 7


def least(i, q):
    return min(q + i, 10)


def order(i, q):
    return 1 if q + i < 2**31 - 1 else 0


def longest(i, q):
    s = 0
    for _ in range(i):
        for _ in range(3):
            s += q % 2**30
    return s // 2


def chosen_whole(i, q):
    return (q if i < 3 else i + 5) // 2 + (1 if i and q + i > 0 else 0)


ALONE = [while_below, negative_modulus, divided_difference, remainder, shifted_by_it, power, least, order, longest]
ALONE += [chosen_whole]


@pytest.mark.host
@pytest.mark.parametrize("fn", [*RING, *WHOLE, *ALONE], ids=lambda one: one.__name__)
def test_each_operation_by_itself_chooses_its_width(fn: Any) -> None:
    """In a function of its own, which nothing else makes one of 64 bits."""

    def alone(idx, o, q):
        o[idx] = fn(idx[0], q)

    for q in [*NUMBERS, 5, -5, 2**30, 2**31 - 3, 2**31 + 8, -(2**31) + 1]:
        if fn not in RING and abs(q) > 2**60:
            continue  # its products pass 64 bits
        for dtype in (np.int64, np.int32):
            o = np.zeros(LANES, dtype)
            pydp.forall(LANES, alone, o, q, device="host")
            np.testing.assert_array_equal(o, expected(fn, dtype, q), err_msg=f"{q} {dtype}")


def low_bits(idx, o, q):
    i = idx[0]
    o[i, 0] = plus(i, q)
    o[i, 1] = minus(i, q)
    o[i, 2] = times(i, q)
    o[i, 3] = through_variables(i, q)
    o[i, 4] = chosen(i, q)


class Table:
    """An array that Python reads: 0 outside, as in vector functions."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getitem__(self, index: int) -> int:
        return int(self.values[index]) if 0 <= index < len(self.values) else 0


def looked_up(i, q, a):
    return a[q + i] + a[i - q] * 10 + a[(q + i) % 5] * 100 + a[q * i] * 1000


def indexed(idx, o, q, a):
    o[idx] = looked_up(idx[0], q, a)


def test_indexes_that_32_bits_do_not_hold_are_outside(device: Any, way: str) -> None:
    a = np.arange(1, 6, dtype=np.int64)
    for q in (0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32, 2**32 + 1, -(2**32), 2**40, -(2**31) - 1):
        o = np.zeros(LANES, np.int64)
        run(device, "host" if way == "checked" else way, LANES, indexed, o, q, a)  # it names indexes that are outside
        np.testing.assert_array_equal(o, expected(looked_up, np.int64, q, Table(a)), err_msg=f"{q}")


def product_of_indexes(idx, o):
    i, j = idx
    o[idx] = i * j * i * j


def test_products_of_indexes_do_not_wrap(device: Any, way: str) -> None:
    o = np.zeros((3, 3000), np.int64)
    run(device, way, o.shape, product_of_indexes, o)
    i, j = np.indices(o.shape)
    np.testing.assert_array_equal(o, (i * j) ** 2)
    large = np.zeros((400, 700), np.int64)
    run(device, way, large.shape, product_of_indexes, large)
    i, j = np.indices(large.shape)
    np.testing.assert_array_equal(large, (i * j) ** 2)


def reals(idx, o, p, q):
    i = idx[0]
    o[i, 0] = p[i, 0] = (q + i) * 0.5
    o[i, 1] = p[i, 1] = (q + i) / 4
    o[i, 2] = p[i, 2] = float(q + i)


def test_floats_are_made_of_the_true_value(device: Any, way: str) -> None:
    for q in NUMBERS[:-1]:
        outs = [np.zeros((LANES, 3), np.float32)] * 2
        if device.profile.fp64:
            outs[1] = np.zeros((LANES, 3), np.float64)
        run(device, way, LANES, reals, *outs, q)
        for o in outs:
            want = (q + np.arange(LANES))[:, np.newaxis].astype(o.dtype) * np.array([0.5, 0.25, 1], o.dtype)
            np.testing.assert_array_equal(o, want, err_msg=f"{q}")


def tuple_of_numbers(idx, o, t):
    o[idx] = t[0] * idx[0] + t[1]


def test_numbers_in_tuples(device: Any, way: str) -> None:
    for t in ((2**31 - 1, 5), (2**35, -(2**40)), (3, 2**31 - 1)):
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, tuple_of_numbers, o, t)
        assert o.tolist() == [t[0] * lane + t[1] for lane in range(LANES)]


def updated(idx, o, q):
    pydp.atomic_add(o, 0, q + idx[0])
    pydp.atomic_max(o, 1, (q + idx[0]) // 2)


def test_atomic_updates(device: Any, way: str) -> None:
    for q in NUMBERS[:-1]:
        for dtype in (np.int64, np.int32) if device.profile.int64_atomics else (np.int32,):
            o = np.array([0, np.iinfo(dtype).min], dtype)
            run(device, way, LANES, updated, o, q)
            assert o[0] == held(LANES * q + LANES * (LANES - 1) // 2, dtype)
            assert o[1] == max(held((q + lane) // 2, dtype) for lane in range(LANES))


# --- numbers of arrays beside them -------------------------------------------------------------------------


def beside_small(idx, o, q, a):
    o[idx] = a[idx] + q


def beside_wide(idx, o, q, a):
    o[idx] = a[idx] * q


@pydp.vector
def compared_with(x, i, q):
    return (1 if x < q else 0) + (2 if x >= q + i else 0) + (4 if q == x else 0) + (8 if q - i > x else 0)


def compared_with_all(idx, o, q, a, b, c, d, e, f, g, h):
    i = idx[0]
    o[i, 0] = compared_with(a[i], i, q)
    o[i, 1] = compared_with(b[i], i, q)
    o[i, 2] = compared_with(c[i], i, q)
    o[i, 3] = compared_with(d[i], i, q)
    o[i, 4] = compared_with(e[i], i, q)
    o[i, 5] = compared_with(f[i], i, q)
    o[i, 6] = compared_with(g[i], i, q)
    o[i, 7] = compared_with(h[i], i, q)


def test_typed_integers_are_compared_by_their_values(device: Any, way: str) -> None:
    arrays = []
    for dtype in DTYPES:
        limits = np.iinfo(dtype)
        arrays.append(np.array([0, 1, limits.max, limits.min, 100, limits.max // 2 + 1], dtype))
    for q in [*NUMBERS[:-1], -1, 2**62, -(2**62), 127, 128, 255, 256, 65535, 32768, 2**32 - 1, 0x7FFF]:
        o = np.zeros((LANES, len(DTYPES)), np.int32)
        run(device, way, LANES, compared_with_all, o, q, *arrays)
        want = [[compared_with(int(a[i]), i, q) for a in arrays] for i in range(LANES)]
        np.testing.assert_array_equal(o, want, err_msg=f"{q}")


def test_narrow_and_wide_typed_integers_lose_nothing(device: Any, way: str) -> None:
    for q in NUMBERS[:-1]:
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, beside_small, o, q, np.full(LANES, 200, np.uint8))
        assert o.tolist() == [q + 200] * LANES
        run(device, way, LANES, beside_wide, o, q, np.full(LANES, 3, np.int64))
        assert o.tolist() == [3 * q] * LANES


def whole_beside(idx, o, q, a):
    w = q + idx[0]
    o[idx] = a[idx] // w + min(a[idx], w) % 5 + (a[idx] >> (w & 3))


def test_typed_integers_of_32_bits_are_divided_by_the_true_value(device: Any, way: str) -> None:
    a = np.array([7, -7, 2**31 - 1, -(2**31) + 1, 100, -1], np.int32)
    for q in (1, 3, 2**31 - 1, 2**31, 2**40, -(2**31) - 9):
        o = np.zeros(LANES, np.int32)
        run(device, way, LANES, whole_beside, o, q, a)
        w = [q + lane for lane in range(LANES)]
        want = [
            held(int(one) // by + min(int(one), by) % 5 + (int(one) >> (by & 3)), np.int32)
            for one, by in zip(a, w, strict=True)
        ]
        np.testing.assert_array_equal(o, want, err_msg=f"{q}")


def test_typed_integers_wrap_as_numpys(device: Any, way: str) -> None:
    a = np.full(LANES, 2**31 - 1, np.int32)
    for q in (1, 2**31 - 1, -(2**31)):
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, beside_small, o, q, a)
        with np.errstate(over="ignore"):
            assert o.tolist() == (a + q).tolist()  # int32: that of what it meets


def choices(i, q, x, y, c):
    """Several forms of a choice between weak and typed integers."""
    t = q + i
    if c:
        t = x
    u = x if c else q - i
    v = u
    if i > 3:
        v = max(u, y, q + i)
    w = int(v)
    return (
        max(q + i, x),
        min(x, q - i, y),
        q + i if c else x,
        x if c else max(y, min(q, 7 * i + q)),
        t,
        v,
        w // 2 + i,
        (t > 2**31 - 1) + 2 * (u < x) + 4 * (max(q + i, x) >= 2**31),
    )


def chosen_of_both(idx, o, f, a, b, c, q):
    i = idx[0]
    found = choices(i, q, a[i], b[i], c[i] > 0)
    for k in range(8):
        o[i, k] = f[i, k] = found[k]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_choices_between_weak_and_typed_integers_keep_the_value(device: Any, way: str, dtype: Any) -> None:
    """Their destination converts it, not the type of the other one."""
    ends = np.iinfo(dtype)
    a = np.array([7, ends.min, ends.max, 100, 5, ends.max - 1], dtype)
    b = np.array([2, ends.max, 9, ends.min, 0, 77], dtype)
    c = np.array([0, 1, 0, 1, 0, 1], np.int32)
    real = np.float64 if device.profile.fp64 else np.int64
    for q in (5, int(ends.max) - 2, int(ends.max), int(ends.min) + 1):
        if q < 0 and dtype == np.uint32:
            continue
        o, f = np.zeros((LANES, 8), np.int64), np.zeros((LANES, 8), real)
        run(device, way, LANES, chosen_of_both, o, f, a, b, c, q)
        want = [choices(i, q, int(a[i]), int(b[i]), c[i] > 0) for i in range(LANES)]
        np.testing.assert_array_equal(o, np.array(want, np.int64), err_msg=f"{q}")
        np.testing.assert_array_equal(f, np.array(want, real), err_msg=f"{q}")
        short = np.zeros((LANES, 8), np.int32)
        run(device, way, LANES, chosen_of_both, short, f, a, b, c, q)
        np.testing.assert_array_equal(short, np.array(want, np.int64).astype(np.int32), err_msg=f"{q}")


def held_in_a_variable(i, q, a):
    t = q + i
    if a[i] > 5:
        t = a[i]
    return t


def read_as_weak(i, q, a):
    u = a[i] if a[i] > 5 else q + i
    w = int(u)
    return w // 2


def chosen_twice(i, q, a):
    t = q + i
    if a[i] > 5:
        t = a[i]
    u = t if i % 2 else a[i]
    return u % 1000


def as_an_index(i, q, a):
    t = q + i
    if a[i] > 5:
        t = a[i]
    return a[t] + 1


def compared_choice(i, q, a):
    return 1 if (a[i] if a[i] > 5 else q + i) > 2**31 - 1 else 2


@pytest.mark.host
@pytest.mark.parametrize(
    "fn", [held_in_a_variable, read_as_weak, chosen_twice, as_an_index, compared_choice], ids=lambda one: one.__name__
)
def test_each_choice_by_itself_chooses_its_width(fn: Any) -> None:
    """In a function of its own, which nothing else makes one of 64 bits."""

    def alone(idx, o, q, a):
        o[idx] = fn(idx[0], q, a)

    a = np.array([7, 2, 3, 2**31 - 1, -(2**31), 5], np.int32)
    for q in (0, 3, 2**31 - 3, 2**31 - 1, 2**31, 2**32 - 4, -(2**31) - 2, 2**40, -(2**32)):
        o = np.zeros(LANES, np.int64)
        pydp.forall(LANES, alone, o, q, a, device="host")
        np.testing.assert_array_equal(o, expected(fn, np.int64, q, Table(a)), err_msg=f"{q}")


def divided_choice(idx, o, q, a):
    i = idx[0]
    o[idx] = max(q + i, a[i]) // 3 + min(q - i, a[i]) % 7


def test_typed_operations_take_the_whole_value_of_a_choice(device: Any, way: str) -> None:
    a = np.array([7, -7, 2**31 - 1, -(2**31), 100, -1], np.int32)
    for q in (5, 2**31 - 1, -(2**31) + 1):
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, divided_choice, o, q, a)
        want = [max(q + i, int(a[i])) // 3 + min(q - i, int(a[i])) % 7 for i in range(LANES)]
        assert o.tolist() == want, q


def indexed_by_a_choice(idx, o, a, b, q):
    t = q + idx[0]
    if idx[0] > 3:
        t = a[idx]
    o[idx] = b[t] + 10 * b[max(t, a[idx])]


def test_chosen_indexes_that_32_bits_do_not_hold_are_outside(device: Any, way: str) -> None:
    a, b = np.zeros(LANES, np.int32), np.arange(3, 9, dtype=np.int64)
    for q in (0, 2**31 - 1):
        o = np.zeros(LANES, np.int64)
        run(device, "host" if way == "checked" else way, LANES, indexed_by_a_choice, o, a, b, q)
        at = [0 if i > 3 else q + i for i in range(LANES)]
        assert o.tolist() == [11 * (b[k] if k < LANES else 0) for k in at]


def cast_first(idx, o, q):
    o[idx] = np.int32(q + idx[0])


def test_casts_wrap(device: Any, way: str) -> None:
    for q in NUMBERS[:-1]:
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, cast_first, o, q)
        assert o.tolist() == [int(held(q + lane, np.int32)) for lane in range(LANES)]


NOTHING = 0


def made_of_choices(i, q, a, kind, added):
    x = min(a, q * (i + 1))
    t = max(q * (i + 1), a) if a > 3 else q * (i - 1)
    u = x
    u += 0
    return (kind(x), kind(t), x + added, added + t, x - 0, t >> 0, u, abs(x), abs(t))


def int32_of_choices(idx, o, q, a):
    found = made_of_choices(idx[0], q, a[idx], np.int32, NOTHING)
    for k in range(9):
        o[idx[0], k] = found[k]


def uint32_of_choices(idx, o, q, a):
    found = made_of_choices(idx[0], q, a[idx], np.uint32, NOTHING)
    for k in range(9):
        o[idx[0], k] = found[k]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_operations_that_change_nothing_convert_a_choice(device: Any, way: str, dtype: Any) -> None:
    """A cast to the type that a choice has, and the addition of 0, convert as any other arithmetic does."""
    fn = int32_of_choices if dtype == np.int32 else uint32_of_choices
    a = np.array([7, 0, 2**31 - 1, 3, 100, 1], dtype)
    for q in (3, 2**31 - 1, 1000) if dtype == np.uint32 else (3, 2**31 - 1, -(2**31), -5):
        o = np.zeros((LANES, 9), np.int64)
        run(device, way, LANES, fn, o, q, a)
        want = [made_of_choices(i, q, int(a[i]), int, 0) for i in range(LANES)]
        assert o.tolist() == np.array(want, np.int64).astype(dtype).astype(np.int64).tolist(), q


def sizes_of_choices(idx, o, a, q):
    o[idx] = abs(min(a[idx], q // (idx[0] + 1)))


def test_sizes_of_choices_of_unsigned_integers(device: Any, way: str) -> None:
    for q in (-3, -(2**31) - 1, 2**33):
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, sizes_of_choices, o, np.full(LANES, 7, np.uint32), q)
        assert o.tolist() == [abs(min(7, q // (i + 1))) for i in range(LANES)], q


def with_captured(number: int) -> Callable[..., Any]:
    """A function of the captured integer."""

    def work(idx, o, q, a):
        i = idx[0]
        s = number
        if i > 2:
            s = s + i
        o[i, 0] = (q + number) + a[i]
        o[i, 1] = (q + s) - i + a[i]
        o[i, 2] = q + number + i
        o[i, 3] = (i + number) // 3
        o[i, 4] = (i - q <= number) + 2 * (i + number > number) + 4 * (number != i)
        o[i, 5] = number if i == 1 else i

    return work


def test_the_value_of_a_captured_integer_chooses_no_type(device: Any, way: str) -> None:
    """Sums of equal values with a typed integer are the same for every captured integer, as for arguments."""
    a = np.array([5, 2**31 - 1, -(2**31), 2**31 - 100, 0, 2**31 - 5], np.int32)
    lanes = range(LANES)
    for number in (2**31 - 1, 2**31, 2**32 + 7, -(2**31) - 1):
        q = 100 - number
        o = np.zeros((LANES, 6), np.int64)
        run(device, way, LANES, with_captured(number), o, q, a)
        assert o[:, 0].tolist() == [int(held(int(a[i]) + 100, np.int32)) for i in lanes], number
        moved = [int(held(int(a[i]) + 100 + (0 if i > 2 else -i), np.int32)) for i in lanes]
        assert o[:, 1].tolist() == moved, number
        assert o[:, 2].tolist() == [100 + i for i in lanes]
        assert o[:, 3].tolist() == [(i + number) // 3 for i in lanes]
        want = [(i - q <= number) + 2 * (i + number > number) + 4 * (number != i) for i in lanes]
        assert o[:, 4].tolist() == want
        assert o[:, 5].tolist() == [number if i == 1 else i for i in lanes]
        if number >= 2**31:
            with pytest.raises(InvalidArgument, match=f"is {number}, which does not fit int32"):
                run(device, way, LANES, with_captured(number), o, 0, a)


def literals_of_64_bits(idx, o):
    i = idx[0]
    o[i, 0] = i + 2**63
    o[i, 1] = 2**63 + i
    o[i, 2] = 2**63 + (i - 5)


def test_literals_beyond_int64_on_either_side(device: Any, way: str) -> None:
    o = np.zeros((LANES, 3), np.uint64)
    run(device, way, LANES, literals_of_64_bits, o)
    assert o.tolist() == [[2**63 + i, 2**63 + i, 2**63 + i - 5] for i in range(LANES)]


def meets_a_sum(idx, o, q, a):
    o[idx] = a[idx] * (2 * q + 1)


@pytest.mark.parametrize("dtype, q", [(np.int32, 2**31), (np.int32, 2**40), (np.int32, -(2**31) - 1), (np.uint32, -1)])
def test_numbers_that_do_not_fit_what_they_meet_are_refused_before_the_launch(way: str, device: Any, dtype, q) -> None:
    a, o = np.ones(LANES, dtype), np.full(LANES, 7, np.int64)
    with pytest.raises(OverflowError):
        a + q
    with pytest.raises(
        InvalidArgument, match=rf"beside_small: q is {q}, which does not fit {np.dtype(dtype)}, .* combined"
    ):
        run(device, way, LANES, beside_small, o, q, a)
    with pytest.raises(InvalidArgument, match=rf"is {2 * q + 1}, which does not fit"):
        run(device, way, LANES, meets_a_sum, o, q, a)
    assert (o == 7).all()


@pytest.mark.parametrize("q", [2**63, 2**64 - 1, -(2**63) - 1, 2**70])
def test_numbers_beyond_64_bits_are_refused_by_name(device: Any, way: str, q: int) -> None:
    o = np.zeros(LANES, np.uint64)
    with pytest.raises(InvalidArgument, match=rf"argument 1 is {q}; .*64 bits"):
        run(device, way, LANES, many_uses, o, q)


def behind_a_condition(idx, o, p, q, n):
    t = n
    if idx[0] > 100:
        t = n - 1
    o[idx] = p[idx] = 0
    if t > 5:
        o[idx] = (q + idx[0]) // 3
    if t < -5:
        p[idx] = (q + idx[0]) // 3


@pytest.mark.sweep
def test_typed_arguments_at_the_edges_of_their_types(device: Any, way: str) -> None:
    """A condition on one hides no code from the choice of 32 or 64 bits."""
    for q in (5, 2**31 - 1, 2**40):
        want = expected(lambda i, q: (q + i) // 3, np.int64, q)
        for dtype in DTYPES:
            ends = np.iinfo(dtype)
            for n in {int(ends.min), int(ends.min) + 1, 100, ends.max // 2 + 1, int(ends.max) - 1, int(ends.max)}:
                outs = [np.zeros(LANES, np.int64) for _ in range(2)]
                run(device, way, LANES, behind_a_condition, *outs, q, np.dtype(dtype).type(n))
                np.testing.assert_array_equal(outs[0], want * (n > 5), err_msg=f"{q} {n} {dtype}")
                np.testing.assert_array_equal(outs[1], want * (n < -5), err_msg=f"{q} {n} {dtype}")


def of_a_float(idx, o, x):
    o[idx] = (int(x[idx]) - 1) // 2


def test_the_least_int32_of_a_float(device: Any, way: str) -> None:
    for dtype in (np.float32, np.float64) if device.profile.fp64 else (np.float32,):
        x = np.array([-(2.0**31), -5, 0, 2**24, -(2.0**31) + 128, 2.0**31 - 128], dtype)
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, of_a_float, o, x)
        assert o.tolist() == [(int(one) - 1) // 2 for one in x]


LARGE = [3e9, -3e9, 2.0**31, -(2.0**31) - 4096, 2.0**62, -(2.0**63), 1e18, 7, -7.5, 0]


def stored(idx, o, x):
    o[idx] = int(x[idx])


def rounded(idx, o, x):
    o[idx] = round(x[idx])


def down(idx, o, x):
    o[idx] = math.floor(x[idx])


def up_in_steps(idx, o, x):
    k = math.ceil(x[idx]) // 2
    m = k + 1
    o[idx] = m - 1


def in_a_loop(idx, o, x):
    found = 0
    for k in range(3):
        if k == 1:
            found = int(x[idx])
    o[idx] = found


def chosen_or_an_array(idx, o, x, y):
    o[idx] = int(x[idx]) if y[idx] > 0 else y[idx]


def in_a_variable_with_an_array(idx, o, x, y):
    v = y[idx]
    if y[idx] > 0:
        v = int(x[idx])
    o[idx] = v


def meets_an_array(idx, o, x, wide):
    o[idx] = 1 if int(x[idx]) > wide[idx] else max(0, int(x[idx]) - wide[idx]) // 4096


def in_a_function(value):
    whole = int(value)
    return whole


def through_a_function(idx, o, x):
    o[idx] = in_a_function(x[idx])


@pytest.mark.parametrize("fn", [stored, rounded, down, up_in_steps, in_a_loop, through_a_function])
def test_floats_beyond_32_bits_in_a_wide_destination(device: Any, way: str, fn: Any) -> None:
    for dtype in (np.float32, np.float64) if device.profile.fp64 else (np.float32,):
        parts = np.array([LARGE[:LANES], LARGE[-LANES:]], dtype)
        for x, out in itertools.product(parts, (np.int64, np.int32, np.int16)):
            fitting = np.abs(x) < np.iinfo(out).max if out != np.int64 else np.full(LANES, True)
            values = np.where(fitting, x, 1)
            o, want = np.zeros(LANES, out), np.zeros(LANES, np.int64)
            run(device, way, LANES, fn, o, values)
            for lane in range(LANES):
                fn(lane, want, values)
            assert o.tolist() == want.tolist(), (dtype, out)


def test_floats_beyond_32_bits_beside_integers_of_arrays(device: Any, way: str) -> None:
    x = np.resize(np.array(LARGE, np.float32), LANES)
    for fn in (chosen_or_an_array, in_a_variable_with_an_array):
        y = np.resize(np.array([1, 1, 0, 3, -4], np.int32), LANES)
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, fn, o, x, y)
        assert o.tolist() == [int(x[lane]) if y[lane] > 0 else y[lane] for lane in range(LANES)]
    x = np.where(np.abs(x) < 2**60, x, 5).astype(np.float32)
    wide = np.resize(np.array([2**33, -(2**33), 0], np.int64), LANES)
    o = np.zeros(LANES, np.int32)
    run(device, way, LANES, meets_an_array, o, x, wide)
    assert o.tolist() == [
        1 if int(a) > b else max(0, int(a) - b) // 4096 for a, b in zip(x.tolist(), wide.tolist(), strict=True)
    ]


def counted_from(idx, o, x):
    n = int(x[idx])
    for k in range(n, n + 3):
        o[idx] = k


def in_a_register(idx, o, x):
    a = 0
    b = 0
    c = 0
    for _ in range(4):
        a = b
        b = c
        c = int(x[idx])
    o[idx] = a


@pytest.mark.parametrize("fn", [counted_from, in_a_register])
def test_floats_beyond_32_bits_through_loops(device: Any, way: str, fn: Any) -> None:
    x = np.resize(np.array([3e9, -3e9, 2.0**40, 7], np.float32), LANES)
    o, want = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    run(device, way, LANES, fn, o, x)
    for lane in range(LANES):
        fn(lane, want, x)
    assert o.tolist() == want.tolist()


def typed_products(idx, o, p, y, x):
    p[idx] = (y[idx] * int(x[idx])) >> 4
    o[idx] = y[idx] * int(x[idx])


def a_choice_of_unsigned(idx, o, y, x):
    v = y[idx]
    if y[idx] > 5:
        v = int(x[idx])
    o[idx] = v if idx[0] % 2 == 0 else max(int(x[idx]), y[idx])


def test_floats_and_arrays_of_32_bits(device: Any, way: str) -> None:
    """Products with array integers of 32 bits wrap; choices between the two keep the value."""
    x = np.resize(np.array([4, -3, 100.5], np.float32), LANES)
    for dtype in (np.int32, np.uint32):
        y = np.resize(np.array([2**30 + 5, 7, 2**31 - 1], dtype), LANES)
        o, p = np.zeros(LANES, np.int64), np.zeros(LANES, dtype)
        run(device, way, LANES, typed_products, o, p, y, x)
        with np.errstate(over="ignore"):
            want = y * np.array([held(int(one), dtype) for one in x], dtype)
        assert o.tolist() == want.tolist() and p.tolist() == (want >> np.dtype(dtype).type(4)).tolist()
    x = np.resize(np.array([3e9, 5e9, -3e9, 2.0**40, 1], np.float32), LANES)
    y = np.resize(np.array([6, 2**31 + 5, 9, 2], np.uint32), LANES)
    o = np.zeros(LANES, np.int64)
    run(device, way, LANES, a_choice_of_unsigned, o, y, x)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    chosen = [int(a) if b > 5 else b for a, b in pairs]
    assert o.tolist() == [
        max(int(a), b) if k % 2 else c for k, ((a, b), c) in enumerate(zip(pairs, chosen, strict=True))
    ]


def remainder_of(idx, o, x, y):
    o[idx] = int(x[idx]) % 1000


def clamped(idx, o, x, y):
    o[idx] = min(max(int(x[idx]), 0), 255)


def clamped_by_branches(idx, o, x, y):
    k = int(x[idx])
    if k < 0:
        k = 0
    if k > 255:
        k = 255
    o[idx] = k


def masked(idx, o, x, y):
    o[idx] = int(x[idx]) & 0x1FFFFF


def sign_bit(idx, o, x, y):
    o[idx] = (int(x[idx]) >> 31) & 1


def largest(idx, o, x, y):
    o[idx] = max(int(x[idx]), int(y[idx]))


def smallest(idx, o, x, y):
    o[idx] = min(int(x[idx]), int(y[idx]))


def largest_of_typed(idx, o, x, y):
    o[idx] = max(int(x[idx]), y[idx])


def smallest_of_typed(idx, o, x, y):
    o[idx] = min(int(x[idx]), y[idx])


def remainder_by_typed(idx, o, x, y):
    o[idx] = int(x[idx]) % y[idx]


def quotient_by_typed(idx, o, x, y):
    o[idx] = int(x[idx]) // (y[idx] * 1000)


def more_than_the_remainder(idx, o, x, y):
    o[idx] = int(x[idx]) % y[idx] + 1


def sum_of_the_smaller(idx, o, x, y):
    least = min(int(x[idx]), y[idx] - 1)
    o[idx] = max(least, 0) + y[idx]


MADE_SMALL = [remainder_of, clamped, clamped_by_branches, masked, sign_bit, largest, smallest, largest_of_typed]
MADE_SMALL += [remainder_by_typed, more_than_the_remainder, sum_of_the_smaller]


@pytest.mark.parametrize("fn", [*MADE_SMALL, smallest_of_typed, quotient_by_typed])
def test_small_integers_made_of_large_floats(device: Any, way: str, fn: Any) -> None:
    """The results fit 32 bits; the values that they are computed from do not."""
    x = np.resize(np.array([3e9, -3e9, 2.0**40, 2.0**33 + 2048, -7, 12], np.float32), LANES)
    for dtype in (np.int32, np.uint32) if fn is not quotient_by_typed else (np.int32,):  # uint32 wraps -500000
        y = np.resize(np.array([5, 6, 7, 2**21], dtype), LANES)
        o, want = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
        run(device, way, LANES, fn, o, x, y)
        for lane in range(LANES):
            fn(lane, want, x, [int(one) for one in y])
        assert o.tolist() == want.tolist(), dtype


def large_arguments(idx, o, p, q):
    o[idx] = int(p * 0.5) + int(q / 2)


def test_host_floats_beyond_32_bits(device: Any, way: str) -> None:
    for p, q in ((2.0**40, 2**42), (-(2.0**33), 6), (8.0, -(2**50))):
        o = np.zeros(LANES, np.int64)
        run(device, way, LANES, large_arguments, o, p, q)
        assert set(o.tolist()) == {int(p * 0.5) + q // 2}


def plus_converted(a, b):
    return a + int(np.float32(b) * np.float32(2))


def test_floats_beyond_32_bits_in_an_operator(device: Any) -> None:
    x = np.full(5, 2**33, np.int64)
    assert pydp.scan(x, plus_converted, device=device).tolist() == [2**33 * (1 + 2 * k) for k in range(5)]


def remainder_plus(a, b):
    return a + int(np.float32(b)) % 1000


def test_remainders_of_large_floats_in_an_operator(device: Any) -> None:
    x = np.array([0, 3 * 10**9, 3 * 10**9], np.int64)
    assert pydp.scan(x, remainder_plus, device=device).tolist() == [0, 0, 0]


def as_an_index(idx, o, x, table):
    k = int(x[idx])
    o[idx] = table[k % 4] if 0 <= k < 9 else table[k]


def test_converted_floats_as_indexes_stay_narrow(device: Any, way: str) -> None:
    """No 64-bit integer is made of them, so none is used for them."""
    x, table = np.resize(np.array([0, 3.5, 8.9, 2], np.float32), LANES), np.arange(9, dtype=np.int32)
    o = np.zeros(LANES, np.int64)
    run(device, way, LANES, as_an_index, o, x, table)
    assert o.tolist() == [table[int(one) % 4] for one in x]
    types = (FieldType(np.int64, 1), FieldType(np.float32, 1), FieldType(np.int32, 1))
    form = translate(as_an_index, 1, None, types).weak_form
    assert form is not None and fits_32_bits(form, lambda leaf: limits(leaf.dtype))


def beside_a_number(idx, o, x, q):
    o[idx] = int(x[idx]) + q


def beside_an_index(idx, o, x):
    o[idx] = int(x[idx]) + idx[0]


def beside_both(idx, o, x, q):
    o[idx] = 1 if int(x[idx]) + q - idx[0] > 5 else (int(x[idx]) + q) % 1000


def chosen_entry(idx, o, x, q, table):
    o[idx] = table[min(max(int(x[idx]) + q, 0), 3)]


def test_numbers_and_grids_do_not_choose_the_bits_of_converted_floats(device: Any, way: str) -> None:
    """int(x) has 32 bits if the function makes no 64-bit integer or float64 of it, for every number and grid."""
    x = np.full(LANES, 4e9, np.float32)
    least = -(2**31)
    for q in (0, 1, 1000, 2**31 - 1):
        o = np.zeros(LANES, np.float32)
        run(device, way, LANES, beside_a_number, o, x, q)
        assert o.tolist() == [np.float32(least + q)] * LANES, q
        o = np.zeros(LANES, np.int32)
        run(device, way, LANES, beside_both, o, x, q)
        want = [1 if least + q - lane > 5 else (least + q) % 1000 for lane in range(LANES)]
        assert o.tolist() == want, q
        run(device, way, LANES, chosen_entry, o, x, q, np.arange(10, 14, dtype=np.int32))
        assert o.tolist() == [10] * LANES, q
    for size in (LANES, 100, 3000):
        o = np.zeros(size, np.float32)
        run(device, way, size, beside_an_index, o, np.full(size, 4e9, np.float32))
        np.testing.assert_array_equal(o, (least + np.arange(size)).astype(np.float32))


def test_floats_beyond_32_bits_in_a_float64(device: Any, way: str) -> None:
    needs.dtype(device, np.float64)
    for dtype in (np.float32, np.float64):
        x = np.resize(np.array([4e9, -5e9, 7.5, 2.0**40], dtype), LANES)
        for q in (0, 1, 1000):
            o = np.zeros(LANES, np.float64)
            run(device, way, LANES, beside_a_number, o, x, q)
            assert o.tolist() == [int(one) + q for one in x]
    o = np.zeros(LANES, np.float64)
    run(device, way, LANES, fraction, o, x)
    assert o.tolist() == [float(one) - int(one) for one in x]


def fraction(idx, o, x):
    o[idx] = x[idx] - int(x[idx])


# --- one kernel for all values -----------------------------------------------------------------------------


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are asked for."""
    found: list[str] = []
    kernel = forall_plan.program.kernel

    def noted(*args: Any, **named: Any) -> Any:
        found.append(args[1])
        return kernel(*args, **named)

    monkeypatch.setattr(forall_plan.program, "kernel", noted)
    return found


def many_uses(idx, o, q):
    o[idx] = (q + idx[0]) // 3 + (q << 2)


def test_a_thousand_numbers_are_two_kernels(device: Any, built: list[str]) -> None:
    rng = random.Random(5)
    numbers = [rng.randrange(-(2**k), 2**k) for k in range(1, 60) for _ in range(17)]
    assert len(numbers) > 1000
    o = np.zeros(LANES, np.int64)
    for q in numbers:
        pydp.forall(LANES, many_uses, o, q, device=device)
        assert o.tolist() == [(q + lane) // 3 + (q << 2) for lane in range(LANES)]
    assert len(built) == 2


def test_a_destination_of_32_bits_takes_one_kernel(device: Any, built: list[str]) -> None:
    o = np.zeros((LANES, 5), np.int32)
    for q in NUMBERS:
        pydp.forall(LANES, low_bits, o, q, device=device)
        for column, fn in enumerate((plus, minus, times, through_variables, chosen)):
            np.testing.assert_array_equal(o[:, column], expected(fn, np.int32, q))
    assert len(built) == 1


# --- values that keep 32 bits ------------------------------------------------------------------------------------


def spmv(i, y, start, column, value, x):
    total = 0.0
    for k in range(start[i[0]], start[i[0] + 1]):
        total += value[k] * x[column[k]]
    y[i] = total


def interpolated(i, o, a, scale):
    x, y = int(i[1] * scale), int(i[0] * scale)
    if x + 1 < a.shape[1] and y + 1 < a.shape[0]:
        o[i] = a[y, x] + a[y, x + 1] - a[y + 1, x]


def flat(i, o, a, width):
    o[i[0] * width + i[1]] = a[i[0] * width + i[1]]


def heap(i, o, a, n):
    j = i[0]
    while 2 * j + 1 < n:
        child = 2 * j + 1
        if child + 1 < n and a[child + 1] > a[child]:
            child += 1
        j = child
    o[i] = j


def searched(i, o, a, x):
    low, high = 0, a.extent[0]
    while low < high:
        middle = (low + high) // 2
        if a[middle] < x[i]:
            low = middle + 1
        else:
            high = middle
    o[i] = low


def mandelbrot(i, o, width, height, most):
    cx, cy = i[1] / width * 3 - 2, i[0] / height * 2 - 1
    x, y, n = 0.0, 0.0, 0
    while n < most and x * x + y * y < 4:
        x, y = x * x - y * y + cx, 2 * x * y + cy
        n += 1
    o[i] = n


def torus(i, o, a, by):
    o[i] = a[(i[0] + by) % a.extent[0], (i[1] - by) % a.extent[1]]


def stack(i, o, a):
    held = pydp.private_field(np.int32, 32)
    held[0] = i[0]
    depth, count = 1, 0
    while depth > 0:
        depth -= 1
        value = held[depth]
        count += 1
        if value > 1 and depth < 30:
            held[depth] = value // 2
            held[depth + 1] = value // 3
            depth += 2
    o[i] = count


def binned(i, h, x, low, scale):
    b = int((x[i] - low) * scale)
    if 0 <= b < h.extent[0]:
        pydp.atomic_add(h, b, 1)


def averaged(i, o, a, radius):
    total, n = 0.0, 0
    for d in range(-radius, radius + 1):
        k = i[0] + d
        if 0 <= k < a.extent[0]:
            total += a[k]
            n += 1
    o[i] = total / n


def counted_matches(i, o, a):
    n = 0
    for k in range(a.extent[0]):
        if a[k] < a[i]:
            n += 1
    o[i] = n * 0.5


def generated(i, o, seed):
    state = np.int32(i[0]) + np.int32(seed)
    for _ in range(10):
        state = state * 1664525 + 1013904223
    o[i] = state // 7


F4 = np.dtype(np.float32)
KEPT: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (spmv, 9, (np.zeros(9, F4), np.zeros(10, "i4"), np.zeros(9, "i4"), np.zeros(9, F4), np.zeros(9, F4))),
    (interpolated, (9, 9), (np.zeros((9, 9), F4), np.zeros((9, 9), F4), 0.5)),
    (flat, (9, 12), (np.zeros(108, F4), np.zeros(108, F4), 12)),
    (flat, (4096, 4096), (np.zeros(4096**2, "i1"), np.zeros(4096**2, "i1"), 4096)),
    (heap, 9, (np.zeros(9, F4), np.zeros(9, F4), 9)),
    (searched, 9, (np.zeros(9, F4), np.zeros(9, F4), np.zeros(9, F4))),
    (mandelbrot, (9, 9), (np.zeros((9, 9), "i4"), 9, 9, 100)),
    (torus, (9, 9), (np.zeros((9, 9), F4), np.zeros((9, 9), F4), 3)),
    (stack, 9, (np.zeros(9, "i4"), np.zeros(9, F4))),
    (binned, 9, (np.zeros(9, "i4"), np.zeros(9, F4), 0.0, 3.0)),
    (averaged, 9, (np.zeros(9, F4), np.zeros(9, F4), 3)),
    (generated, 9, (np.zeros(9, np.int32), 77)),
    (counted_matches, 9, (np.zeros(9, F4), np.zeros(9, F4))),
]


def form_of(fn: Any, extent: Any, args: tuple[Any, ...]) -> Any:
    """(the typed form, that of a launch)"""
    shape = extent if isinstance(extent, tuple) else (extent,)
    given = Arguments(args)
    made = forall_plan.translation(fn, fingerprint(fn), len(shape), None, given.parts, False)
    return made, made.for_launch(given.values, given.arrays, shape, (0,) * len(shape))


@pytest.mark.host
@pytest.mark.parametrize(("fn", "extent", "args"), KEPT, ids=lambda one: getattr(one, "__name__", ""))
def test_usual_index_arithmetic_keeps_32_bits(fn: Any, extent: Any, args: tuple[Any, ...]) -> None:
    made, launched = form_of(fn, extent, args)
    assert launched is made
    assert made.function.index_dtype == np.int32


def strided(i, o, q):
    n = 0
    for k in range(0, q, 2**29):
        n += k & 1 | 1
    o[i] = n


def test_a_counter_may_pass_32_bits_after_its_last_turn(device: Any, way: str) -> None:
    o = np.zeros(LANES, np.int32)
    run(device, way, LANES, strided, o, 1_800_000_000)
    assert (o == 4).all()


def shifted_away(i, o, q):
    o[i] = 1 << q


def test_all_bits_of_a_shift_count(device: Any, way: str) -> None:
    for q, want in ((0, 1), (30, 2**30), (32, 0), (2**32, 0), (2**40 + 1, 0)):
        o = np.full(LANES, 7, np.int32)
        run(device, way, LANES, shifted_away, o, q)
        assert (o == want).all(), q


@pytest.mark.host
def test_what_32_bits_may_not_hold_takes_64() -> None:
    a = np.zeros(9, np.float32)
    for fn, extent, args in [
        (flat, (9, 9), (a, a, 2**31)),
        (heap, 9, (a, a, 2**31 - 1)),
        (mandelbrot, (9, 9), (np.zeros((9, 9), "i4"), 9, 9, 2**40)),
        (product_of_indexes, (400, 700), (np.zeros((400, 700), np.int64),)),
        (strided, 9, (np.zeros(9, np.int32), 1_800_000_000)),
    ]:
        made, launched = form_of(fn, extent, args)
        assert launched is not made and launched.function.index_dtype == np.int64, fn


def test_explain_says_which_width_runs(device: Any) -> None:
    o = np.zeros(LANES, np.int64)
    small = pydp.explain(pydp.forall, LANES, many_uses, o, 5, device=device)
    large = pydp.explain(pydp.forall, LANES, many_uses, o, 2**40, device=device)
    assert small.facts["index type"] == np.int32 and not any("64 bits" in line for line in small.choices)
    assert large.facts["index type"] == np.int64
    assert any("Python integers have 64 bits here" in line for line in large.choices)


# --- functions of values -----------------------------------------------------------------------------------


@pytest.mark.host
def test_functions_of_values_take_64_bits_where_32_may_not_hold() -> None:
    wide = translate_value(lambda x: np.int64(int(x) ** 5), [np.uint8])
    x = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(host.run_value(wide, x), x.astype(np.int64) ** 5)
    assert "long" in lower_value(wide).text
    short = translate_value(lambda x: np.int32(int(x) ** 5), [np.uint8])
    np.testing.assert_array_equal(host.run_value(short, x), (x.astype(np.int64) ** 5).astype(np.int32))


def test_operators_take_64_bits_where_32_may_not_hold(device: Any) -> None:
    x = np.arange(100, dtype=np.uint8)
    made = pydp.reduce(x, lambda a, b: a + b, dtype=np.uint8, device=device)
    assert made == x.sum(dtype=np.uint8)


# --- random functions --------------------------------------------------------------------------------------


def random_term(rng: random.Random, depth: int) -> str:
    """An expression of weak integers: i (0 to 5), q, r, s, and literals."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(["i", "q", "r", "s", str(rng.choice([1, 2, 3, 7, 100, 65536, 2**31 - 1]))])
    left, right = random_term(rng, depth - 1), random_term(rng, depth - 1)
    form = rng.randrange(10)
    if form < 5:
        return f"({left} {rng.choice(['+', '-', '+', '-', '*', '&', '|', '^'])} {right})"
    if form < 7:
        return f"({left} {rng.choice(['//', '%'])} {rng.choice(['3', '7', '-5', '1000', '(i + 1)', '(q | 1)'])})"
    if form == 7:
        return f"({left} >> {rng.choice(['1', '2', 'i', '40'])})"
    if form == 8:
        return f"{rng.choice(['min', 'max'])}({left}, {right})"
    return f"({left} if {right} {rng.choice(['<', '<=', '==', '>'])} {random_term(rng, depth - 1)} else abs({right}))"


def random_function(seed: int) -> Callable[..., Any]:
    """work(idx, o, q, r, n): q and r are weak; n is a typed scalar, which conditions look at."""
    rng = random.Random(seed)
    lines = ["def work(idx, o, q, r, n):", "    i = idx[0]", "    s = 0", "    t = n"]
    lines += ["    if i > 100:", f"        t = {rng.choice(['n', 'n - 1', 'n + n', 'n - n'])}"]
    lines.append(f"    s = {random_term(rng, 2)}")
    lines.append(
        f"    if {rng.choice(['t', 'n'])} {rng.choice(['>', '<', '!=', '>='])} {rng.choice(['5', '0', 'q', 'n'])}:"
    )
    lines.append(f"        s = {random_term(rng, 2)}")
    lines.append(f"    for k in range({rng.choice(['3', 'i', '2'])}):")
    lines.append(f"        s = {rng.choice(['s + ', 's - ', ''])}{random_term(rng, 2)}{rng.choice([' + k', ''])}")
    lines.append(f"    if {random_term(rng, 1)} < {random_term(rng, 2)}:")
    lines.append(f"        s = {random_term(rng, 2)}")
    lines.append(f"    o[idx] = s + {random_term(rng, 3)}")
    text = "\n".join(lines) + "\n"
    name = f"<weak integers {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    function: Callable[..., Any] = space["work"]
    return function


def within_64_bits(fn: Callable[..., Any], q: int, r: int, n: int) -> np.ndarray | None:
    """The values in Python, None where one passes 62 bits on the way."""
    seen: list[int] = []

    class Number(int):
        pass

    def made(name: str) -> Callable[..., Any]:
        operation = getattr(int, name)

        def method(*args: Any) -> Any:
            result = operation(*args)
            if result is not NotImplemented and not isinstance(result, bool):
                seen.append(result)
                return Number(result)
            return result

        return method

    for name in "add sub mul and or xor floordiv mod rshift".split():
        setattr(Number, f"__{name}__", made(f"__{name}__"))
        setattr(Number, f"__r{name}__", made(f"__r{name}__"))
    Number.__abs__ = made("__abs__")  # type: ignore[method-assign]
    stored: dict[Any, int] = {}
    for lane in range(LANES):
        fn((Number(lane),), stored, Number(q), Number(r), n)
    if any(abs(value) >= 2**62 for value in seen):
        return None
    return np.array([int(stored[lane,]) for lane in range(LANES)], np.int64)


TYPED = [np.dtype(dtype).type(end) for dtype in DTYPES for end in (np.iinfo(dtype).min, 7, np.iinfo(dtype).max)]


def random_calls(seeds: range) -> Any:
    rng = random.Random(seeds.start)
    numbers = [0, 1, -1, 5, 1000, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 3, -(2**33), 2**40]
    for seed in seeds:
        fn = random_function(seed)
        for _ in range(6):
            q, r, n = rng.choice(numbers), rng.choice(numbers), rng.choice(TYPED)
            want = within_64_bits(fn, q, r, int(n))
            if want is not None:
                yield fn, q, r, n, want


@pytest.mark.host
def test_random_functions_on_the_host() -> None:
    checked = 0
    for fn, q, r, n, want in random_calls(range(40)):
        dtype = (np.int64, np.int32, np.int64, np.uint16)[checked % 4]
        o = np.zeros(LANES, dtype)
        pydp.forall(LANES, fn, o, q, r, n, device="host")
        np.testing.assert_array_equal(o, want.astype(dtype), err_msg=f"{fn.__code__.co_filename} {q} {r} {n!r}")
        checked += 1
    assert checked > 80


def test_random_functions_on_the_device(device: Any, way: str) -> None:
    for fn, q, r, n, want in random_calls(range(1000, 1003)):
        o = np.zeros(LANES, np.int64)
        try:
            run(device, way, LANES, fn, o, q, r, n)
        except PydpError as error:
            raise AssertionError(f"{fn.__code__.co_filename} {q} {r} {n!r}") from error
        np.testing.assert_array_equal(o, want, err_msg=f"{fn.__code__.co_filename} {q} {r} {n!r}")


def random_weak(rng: random.Random, depth: int) -> str:
    """An expression of weak integers, some of them made of choices."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["i", "(q + i)", "(r - i)", "(q - 3 * i)", "7"])
    left, right = random_weak(rng, depth - 1), random_weak(rng, depth - 1)
    form = rng.randrange(4)
    if form == 0:
        return f"({left} {rng.choice('+-')} {right})"
    if form == 1:
        return f"({left} // {rng.choice([3, -5])})"
    if form == 2:
        return f"int({random_choice(rng, depth - 1)})"
    return f"({left} if {random_condition(rng, depth - 1)} else {right})"


def random_choice(rng: random.Random, depth: int) -> str:
    """A choice between weak integers and typed ones: t and u, which may hold either, and elements of arrays."""
    if depth <= 0:
        return rng.choice(["t", "u", "t", "u", "a[i]", "b[i]"])
    one, weak = random_choice(rng, depth - 1), f"({random_weak(rng, depth - 1)} + i - i)"
    if rng.random() < 0.5:
        return f"{rng.choice(['min', 'max'])}({one}, {weak}, {random_choice(rng, depth - 1)})"
    return f"({one} if {random_condition(rng, depth - 1)} else {weak})"


def random_condition(rng: random.Random, depth: int) -> str:
    other = rng.choice(["(q + i)", "100", str(2**31), str(-(2**31) - 5), random_choice(rng, depth - 1)])
    return f"{random_choice(rng, depth - 1)} {rng.choice(['<', '<=', '>', '==', '!='])} {other}"


def random_choosing_function(seed: int) -> Callable[..., Any]:
    rng = random.Random(seed)
    lines = ["def work(idx, o, a, b, q, r):", "    i = idx[0]", "    t = a[i]", "    u = b[i]", "    w = 0"]
    for _ in range(2):
        lines.append(f"    if {random_condition(rng, 1)}:")
        lines.append(f"        {rng.choice('tu')} = {rng.choice([random_choice(rng, 2), '(q + i)', '(i - r)'])}")
    lines.append(f"    for k in range({rng.choice(['3', 'i'])}):")
    lines += [f"        {rng.choice('tu')} = {random_choice(rng, 2)}", f"        w = w + {random_weak(rng, 2)} - k"]
    stored = [random_choice(rng, 3), f"{random_weak(rng, 3)} // 2", "w // 2", "t", "u"]
    lines += [f"    o[i, {column}] = {value}" for column, value in enumerate(stored)]
    text = "\n".join(lines) + "\n"
    name = f"<choices {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    function: Callable[..., Any] = space["work"]
    return function


def check_random_choices(seeds: range, run_it: Callable[..., None]) -> None:
    numbers = [0, 5, 2**31 - 1, 2**31 - 4, -(2**31), -(2**31) + 3, 2**31, 2**33, -(2**35), 2**30]
    elements = [0, 1, -7, 2**31 - 1, -(2**31), 2**31 - 5, 99]
    for seed in seeds:
        fn, rng = random_choosing_function(seed), random.Random(-seed)
        for _ in range(4):
            q, r = rng.choice(numbers), rng.choice(numbers)
            a, b = (np.array([rng.choice(elements) for _ in range(LANES)], np.int32) for _ in range(2))
            stored: dict[Any, int] = {}
            for lane in range(LANES):
                fn((lane,), stored, a.tolist(), b.tolist(), q, r)
            o = np.zeros((LANES, 5), np.int64)
            run_it(LANES, fn, o, a, b, q, r)
            want = [[stored[lane, column] for column in range(5)] for lane in range(LANES)]
            np.testing.assert_array_equal(o, want, err_msg=f"{fn.__code__.co_filename} {q} {r}")


@pytest.mark.host
def test_random_choices_on_the_host() -> None:
    check_random_choices(range(30), lambda *args: pydp.forall(*args, device="host"))


def test_random_choices_on_the_device(device: Any, way: str) -> None:
    check_random_choices(range(1000, 1002), lambda *args: run(device, way, *args))
