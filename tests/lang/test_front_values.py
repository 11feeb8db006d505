"""Functions of plain values, operators and known functions: types and results against Python and NumPy."""

from __future__ import annotations

import math
import operator

import interpreter
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pydp
from pydp.lang import ir
from pydp.lang.compile import translate_value
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.source import syntax as source

pytestmark = pytest.mark.host

I8, U8, I32, U32, I64, U64 = (np.dtype(name) for name in ("i1", "u1", "i4", "u4", "i8", "u8"))
F16, F32, F64, BOOL = (np.dtype(name) for name in ("f2", "f4", "f8", "?"))
COMPLEX = np.dtype([("re", "f4"), ("im", "f4")])


def run(fn, *values, result=None):
    """fn of NumPy scalars through the translation, as a NumPy scalar."""
    made = translate_value(fn, [np.asarray(value).dtype for value in values], result)
    got = interpreter.run_value(made, *values)
    return np.asarray(got, made.result.dtype)[()]


def same(fn, *values, result=None):
    """The translation gives Python's result, to the bit; the type is the translation's own."""
    with np.errstate(all="ignore"):
        got, wanted = run(fn, *values, result=result), fn(*values)
    np.testing.assert_array_equal(got, np.asarray(wanted).astype(np.asarray(got).dtype))
    return np.asarray(got).dtype


# --- lambdas and where they stand

ADD, SUB = lambda a, b: a + b, lambda a, b: a - b
TABLE = {"max": lambda a, b: a if a > b else b, "min": lambda a, b: b if a > b else a}
POWERS = [lambda x: x, lambda x: x * x, lambda x: x * x * x]


def pair_of(n, m):
    return lambda x: x * n + m, lambda x: x * m + n, lambda x: x * n + (lambda: m)() if False else x


def scaled_by(factor):
    return lambda x: x * factor


def test_lambdas_of_one_line_are_told_apart():
    assert run(ADD, np.int32(7), np.int32(3)) == 10
    assert run(SUB, np.int32(7), np.int32(3)) == 4
    assert run(TABLE["max"], np.int32(7), np.int32(3)) == 7
    assert run(TABLE["min"], np.int32(7), np.int32(3)) == 3
    assert [run(f, np.int32(3)) for f in POWERS] == [3, 9, 27]
    assert run(lambda a, b: a * b, np.int32(7), np.int32(3)) == 21


@pytest.mark.parametrize("columns", [True, False])
def test_lambdas_of_one_line_with_closures(monkeypatch, columns):
    """With the columns that Python 3.11 notes, and by compiling again where there are none."""
    if not columns:
        monkeypatch.setattr(source, "_columns", lambda code: None)
    source._sources.clear()
    first, second, _ = pair_of(3, 5)
    assert (run(first, np.int32(2)), run(second, np.int32(2))) == (11, 13)
    assert run(TABLE["max"], np.int32(7), np.int32(3)) == 7
    assert [run(f, np.int32(3)) for f in POWERS] == [3, 9, 27]


def test_closures_of_one_text_are_told_apart():
    double, triple = scaled_by(2), scaled_by(3)
    assert (run(double, np.int32(5)), run(triple, np.int32(5)), run(scaled_by(2), np.int32(5))) == (10, 15, 10)
    assert run(scaled_by(2.5), np.float32(2)) == 5
    assert translate_value(double, [I32]) is translate_value(scaled_by(2), [I32])
    assert translate_value(double, [I32]) is not translate_value(scaled_by(2.0), [I32])
    assert translate_value(scaled_by(True), [I32]) is not translate_value(scaled_by(1), [I32])


STEP = 1


def uses_step(x):
    return x + STEP


def calls_uses_step(x):
    return uses_step(x) * 10


def test_a_changed_constant_is_seen(monkeypatch):
    assert run(calls_uses_step, np.int32(1)) == 20
    monkeypatch.setattr(f"{__name__}.STEP", 5)
    assert run(calls_uses_step, np.int32(1)) == 60


@pydp.vector
def decorated(a, b=2):
    """Doc."""
    return a * b


def test_a_decorated_function_runs_on_the_host_too():
    assert decorated(4) == 8 and decorated.__name__ == "decorated" and decorated.__doc__ == "Doc."
    assert run(decorated, np.int32(4)) == 8
    assert run(decorated, np.int32(4), np.int32(5)) == 20


# --- types


@pytest.mark.parametrize(
    "fn, values, dtype",
    [
        (lambda a, b: a + b, (np.int8(100), np.int8(100)), I8),
        (lambda a, b: a + b, (np.uint8(200), np.int8(-100)), np.dtype("i2")),
        (lambda a, b: a * b, (np.int32(3), np.uint32(5)), I64),
        (lambda a: a + 1, (np.uint8(255),), U8),
        (lambda a: a - 1.5, (np.float32(1),), F32),
        (lambda a: a - 1.5, (np.float16(1),), F16),
        (lambda a: a * 3, (np.float64(0.1),), F64),
        (lambda a: -a, (np.uint32(1),), U32),
        (lambda a: a > 3, (np.int8(4),), BOOL),
        (lambda a: a < 1000, (np.int8(4),), BOOL),
        (lambda a: a == -1, (np.uint8(255),), BOOL),
        (lambda a: ~a, (np.int32(5),), I32),
        (lambda a, b: a & b, (np.bool_(True), np.bool_(False)), BOOL),
        (lambda a: 1 << a, (np.uint32(5),), U32),
        (lambda a, b: a % b, (np.int32(-7), np.int32(3)), I32),
        (lambda a, b: a // b, (np.float32(-7), np.float32(3)), F32),
        (lambda a: np.int64(a) * 2**40, (np.int32(-3),), I64),
        (lambda a: np.float32(a) / 3, (np.int64(7),), F32),
        (lambda a: np.uint8(a), (np.int32(300),), U8),
        (lambda a: a.astype(np.float64) / 3, (np.float32(1),), F64),
        (lambda a, b: a or b, (np.bool_(False), np.bool_(True)), BOOL),
        (lambda a: not a, (np.int32(0),), BOOL),
        (lambda a: a**2, (np.float32(1.1),), F32),
        (lambda a: a**3, (np.int32(-5),), I32),
        (lambda a: a**0.5, (np.float64(2),), F64),
        (lambda a: 2**a, (np.int32(9),), I32),
    ],
)
def test_types_are_numpys(fn, values, dtype):
    assert same(fn, *values) == dtype


@pytest.mark.parametrize(
    "fn, values, wanted, dtype",
    [
        (lambda a, b: a * b, (np.int32(3), np.float32(0.1)), np.float32(3) * np.float32(0.1), F32),
        (lambda a: a / 2, (np.int32(7),), 3.5, F32),
        (lambda a, b: a / b, (np.int64(1), np.int32(3)), 1 / 3, F64),
        (lambda a: a * 0.5, (np.int32(7),), 3.5, F32),
        (lambda a: a * 0.1, (np.int64(7),), 7 * 0.1, F64),
        (lambda a, b: (a > 0) + (b > 0), (np.int8(1), np.int8(2)), 2, I64),
        (lambda a: a > 0 or a < -5, (np.float32(-7),), True, BOOL),
        (lambda a: int(a), (np.float32(-2.7),), -2, I64),
        (lambda a: int(a), (np.int64(2**40),), 2**40, I64),
        (lambda a: float(a) * 0.1, (np.int8(3),), np.float32(3) * np.float32(0.1), F32),
        (lambda a: round(a), (np.float32(2.5),), 2, I64),
        (lambda a: math.floor(a) + math.ceil(a) * 10 + math.trunc(a) * 100, (np.float32(-1.5),), -112, I64),
        (lambda a: np.sqrt(a), (np.int32(9),), 3, F32),
        (lambda a: np.sqrt(a), (np.int64(9),), 3, F64),
        (lambda a: math.sqrt(2.0) * a, (np.float64(3),), math.sqrt(2) * 3, F64),
        (lambda a: math.pi * a, (np.float32(2),), np.float32(math.pi) * np.float32(2), F32),
        (lambda a: 1 / 3 + a, (np.float64(0),), 1 / 3, F64),
        (lambda a: True, (np.int8(3),), True, BOOL),
        (lambda a: 7, (np.int8(3),), 7, I64),
        (lambda a: 2**35 + 1, (np.int8(3),), 2**35 + 1, I64),
    ],
)
def test_types_of_the_language(fn, values, wanted, dtype):
    got = run(fn, *values)
    assert np.asarray(got).dtype == dtype
    np.testing.assert_array_equal(got, np.asarray(wanted, dtype))


def test_the_result_is_converted():
    made = translate_value(lambda a: a + 1, [I32], np.float64)
    assert made.result.dtype == F64 and interpreter.run_value(made, np.int32(4)) == 5.0
    assert translate_value(lambda a: a > 1, [I32], I32).result.dtype == I32


# --- known functions


def test_numpy_functions_by_their_names():
    """Each function becomes its own operation, whichever module it is taken from."""
    cases = [
        (lambda x: np.exp(x), "exp"), (lambda x: math.exp(x), "exp"), (lambda x: np.exp2(x), "exp2"),
        (lambda x: np.expm1(x), "expm1"), (lambda x: math.log(x), "log"), (lambda x: np.log2(x), "log2"),
        (lambda x: np.log10(x), "log10"), (lambda x: math.log1p(x), "log1p"), (lambda x: np.arcsin(x), "asin"),
        (lambda x: math.asin(x), "asin"), (lambda x: np.arccos(x), "acos"), (lambda x: math.atan(x), "atan"),
        (lambda x: np.arctan2(x, x), "atan2"), (lambda x: math.atan2(x, x), "atan2"), (lambda x: np.tanh(x), "tanh"),
        (lambda x: np.arcsinh(x), "asinh"), (lambda x: np.arccosh(x), "acosh"), (lambda x: np.arctanh(x), "atanh"),
        (lambda x: np.floor(x), "floor"), (lambda x: np.ceil(x), "ceil"), (lambda x: np.trunc(x), "trunc"),
        (lambda x: np.rint(x), "rint"), (lambda x: np.hypot(x, x), "hypot"), (lambda x: np.copysign(x, x), "copysign"),
        (lambda x: np.fmod(x, x), "fmod"), (lambda x: math.erf(x), "erf"), (lambda x: np.cbrt(x), "cbrt"),
        (lambda x: np.isnan(x), "isnan"), (lambda x: math.isinf(x), "isinf"), (lambda x: np.isfinite(x), "isfinite"),
        (lambda x: abs(x), "abs"), (lambda x: np.abs(x), "abs"), (lambda x: min(x, x), "minimum"),
        (lambda x: np.maximum(x, x), "maximum"), (lambda x: pydp.fma(x, x, x), "fma"), (lambda x: math.sqrt(x), "sqrt"),
    ]  # fmt: skip
    for fn, name in cases:
        result = translate_value(fn, [F32]).result
        assert isinstance(result, ir.Math) and result.name == name, name
        assert result.dtype == (BOOL if name.startswith("is") else F32)


@given(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32), st.integers(-1000, 1000), st.integers(1, 40))
def test_mixed_expressions(x, y, n, m):
    x, y, n, m = np.float32(x), np.float32(y), np.int32(n), np.int32(m)
    same(lambda x, y: np.clip(x, -5, 7) + np.minimum(x, y) * np.maximum(y, x), x, y)
    same(lambda x, y: np.where(x > y, x - y, np.square(y)), x, y)
    same(lambda x, y: np.sign(x) + np.sign(y) * 2, x, y)
    same(lambda n, m: divmod(n, m)[0] * 100 + divmod(n, m)[1], n, m)
    same(lambda n, m: min(n, m, 7) * 3 + max(n, m, -7) + abs(n), n, m)
    same(lambda n, m: (n & m) | (n ^ 5) + (n << 2) - (n >> 1), n, m)
    same(lambda n, m: n if 3 < m <= 20 < n else -m, n, m)
    same(lambda n, m: np.sign(n) * 3 + np.bitwise_and(n, m) + np.add(n, m) - operator.mul(n, 2), n, m)


def test_logic_of_numpy():
    for a in (0, 2):
        for b in (0, 5):
            pair = np.int32(a), np.int32(b)
            assert same(lambda a, b: np.logical_and(a, b), *pair) == BOOL
            assert same(lambda a, b: np.logical_or(a, b), *pair) == BOOL
            assert same(lambda a, b: np.logical_xor(a, b), *pair) == BOOL
            assert same(lambda a, b: np.not_equal(a, b), *pair) == BOOL
    assert run(lambda a: np.logical_not(a), np.float32(0)) == np.True_
    assert run(lambda a: np.deg2rad(a) + math.degrees(a), np.float64(2)) == 2 * (math.pi / 180) + 2 * (180 / math.pi)


def test_divmod_gives_two_numbers():
    assert run(divmod, np.int32(7), np.int32(3)).tolist() == (2, 1)
    with pytest.raises(VectorError, match="a number is needed here, not a tuple of 2"):
        run(divmod, np.int32(7), np.int32(3), result=I32)


@pytest.mark.parametrize("fn", [max, min, operator.add, np.hypot, np.maximum, math.atan2, operator.mul])
def test_functions_that_are_not_python(fn):
    a, b = np.float32(1.5), np.float32(-2.5)
    assert run(fn, a, b) == np.float32(fn(a, b))
    with pytest.raises(VectorError, match=r"takes|needed|has"):
        run(operator.add, np.int32(7))


# --- returns anywhere


def staircase(x):
    if x < 0:
        return -1
    for k in range(5):
        if x < k * 10:
            for m in range(k):
                if m * m > x:
                    return m * 1000
            return k
        elif x == 33:
            break
    else_value = 7
    while x > 50:
        x -= 3
        if x % 7 == 0:
            return x
    return else_value if x == 33 else 99


def best(a, b):
    if a.re > b.re:
        return a
    if b.im > a.im:
        b.im = a.im
    return b


def test_returns_in_loops():
    for x in range(-3, 90):
        assert run(staircase, np.int32(x)) == staircase(x), x


class Pair:
    def __init__(self, re, im):
        self.re, self.im = re, im


def test_records_as_values():
    def record(re, im):
        return np.array((re, im), COMPLEX)[()]

    for first, second in (((3, 4), (1, 9)), ((1, 4), (2, 9)), ((1, 4), (2, 3))):
        wanted = best(Pair(*first), Pair(*second))
        got = run(best, record(*first), record(*second))
        assert (got["re"], got["im"]) == (wanted.re, wanted.im)
    product = lambda a, b: COMPLEX(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)  # noqa: E731
    got = run(product, record(1, 2), record(3, 4))
    assert (got["re"], got["im"]) == (-5, 10)
    assert run(lambda a: pydp.record(COMPLEX, im=a.re, re=a.im).im, record(1, 2)) == 1
    assert run(lambda a, b: a == b, record(1, 2), record(1, 2)) == np.True_


@pytest.mark.parametrize("name, size", [("float4", 4), ("int3", 3), ("double2", 2), ("uchar16", 16)])
def test_opencl_vectors(name, size):
    """Members by index or by letter; arithmetic by member, with vectors and with numbers."""
    dtype = getattr(cltypes, name)
    first, second = np.zeros((), dtype), np.zeros((), dtype)
    for n in range(size):
        first[f"s{n}"], second[f"s{n}"] = n + 3, 2 * n + 1

    def both(a, b):
        c = a * b + 2
        c.s1 = a.s0 + (b.y if size < 5 else b.s1)
        return c - -a if size != 16 else c

    got = run(both, first[()], second[()])
    for n in range(size):
        a, b = int(first[f"s{n}"]), int(second[f"s{n}"])
        c = 3 + int(second["s1"]) if n == 1 else a * b + 2
        assert got[f"s{n}"] == (c + a if size != 16 else c % 256)
    made = run(lambda a: a / 2, first[()])
    assert made["s0"] == (1.5 if dtype["s0"].kind == "f" else 1)
    if size == 3:
        assert run(lambda a: cltypes.int3(a.x, z=7, y=5), first[()])["s2"] == 7
    with pytest.raises(VectorError, match="two vectors of the same type"):
        translate_value(lambda a, b: a + b, [cltypes.float4, cltypes.float2])


def test_wrong_functions_of_values():
    with pytest.raises(VectorError, match="takes 2 arguments"):
        translate_value(lambda a, b: a + b, [I32])
    with pytest.raises(VectorError, match="a number is needed here, not a tuple of 2"):
        translate_value(lambda a, b: (a, b), [I32, I32], I32)
    with pytest.raises(VectorError, match="returns an empty tuple"):
        translate_value(lambda a: (), [I32])
    with pytest.raises(VectorError, match="only available in functions run by forall"):
        translate_value(lambda a: pydp.local_field(np.float32, 4)[a], [I32])
    with pytest.raises(VectorError, match="complex128"):
        translate_value(lambda a: a, [np.complex128])
    with pytest.raises(VectorError, match="float32 cannot be converted to a record"):
        translate_value(lambda a: a, [F32], COMPLEX)


# --- functions of the language on the host


def test_host_functions():
    assert pydp.where(3 > 2, 5, 6) == 5
    one = np.float32(1) + np.float32(2) ** -12
    exact = float(one) * float(one) - 1.0
    assert pydp.fma(one, one, np.float32(-1)) == np.float32(exact)
    assert pydp.fma(one, one, np.float32(-1)).dtype == np.float32
    assert pydp.fma(2.0, 3.0, 1.0) == 7.0
    # next to a tie that rounding twice would break the wrong way
    a, b, c = np.float32(2**12 + 1), np.float32(2**12 + 1), np.float32(2.0**-30)
    assert pydp.fma(a, b, c) == np.float32(16785408) + 2
    assert np.isinf(pydp.fma(np.float32(3e38), np.float32(10), np.float32(0)))
    assert pydp.record(COMPLEX, 1, im=2)["im"] == 2
    for wrong in (lambda: pydp.record(COMPLEX, 1), lambda: pydp.record(F32, 1), lambda: pydp.group_barrier()):
        with pytest.raises(pydp.InvalidArgument):
            wrong()
    for name in ("local_field", "private_field"):
        with pytest.raises(pydp.InvalidArgument, match="inside a vector function"):
            getattr(pydp, name)(np.float32, 4)
