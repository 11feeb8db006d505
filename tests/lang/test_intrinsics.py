"""The table of operators and functions: every row on devices, in Python and on the host, against independent values."""

from __future__ import annotations

import itertools
import math

import needs
import numpy as np
import pytest
from builder import BOOL, F32, I32, c
from test_scalar import INTEGERS, corners, evaluate
from test_scalar import lowering as lowering

import pydp
from pydp.errors import InvalidArgument
from pydp.lang import intrinsics, ir
from pydp.lang.intrinsics import FOR_PYTHON, FUNCTIONS
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.opencl import vector as vector_lowering
from pydp.lang.opencl.c_text import Block
from pydp.lang.opencl.scalar import ScalarC
from pydp.lang.opencl.vector_text import StripText

OF_INTEGERS = [row for row in FUNCTIONS.values() if row.rule in ("integer", "unsigned", "double")]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 7.25, -7.0, 1e-3, 300.0, np.inf, -np.inf, np.nan]


def signed_bits(value, dtype):
    """An exact integer wrapped to the type."""
    bits = 8 * dtype.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def saturated(value, dtype):
    limits = np.iinfo(dtype)
    return min(max(value, int(limits.min)), int(limits.max))


def exact(name, dtype, *values):
    """The result by Python's integers: written without the table."""
    bits = 8 * dtype.itemsize
    plain = [value % (1 << bits) for value in values]
    text = format(plain[0], f"0{bits}b")
    x, y, z = (*values, 0, 0)[:3]
    turn = y % bits
    results = {
        "popcount": lambda: text.count("1"),
        "clz": lambda: len(text) - len(text.lstrip("0")),
        "ctz": lambda: len(text) - len(text.rstrip("0")),
        "rotate": lambda: int(text[turn:] + text[:turn], 2),
        "hadd": lambda: (x + y) // 2,
        "rhadd": lambda: (x + y + 1) // 2,
        "add_sat": lambda: saturated(x + y, dtype),
        "sub_sat": lambda: saturated(x - y, dtype),
        "mul_hi": lambda: (x * y) >> bits,
        "mad_hi": lambda: ((x * y) >> bits) + z,
        "mad_sat": lambda: saturated(x * y + z, dtype),
        "abs_diff": lambda: abs(x - y),
        "bitselect": lambda: sum(((y if z >> n & 1 else x) >> n & 1) << n for n in range(bits)),
        "upsample": lambda: (x << bits) | (y % (1 << bits)),
    }
    result = intrinsics.result_dtype(FUNCTIONS[name].rule, dtype)
    return signed_bits(results[name](), result)


def operands(row, dtype):
    """Arrays of corner values for the function's arguments."""
    first, second = corners(dtype.name)
    third = np.resize(first[::-1], first.shape)
    arrays = [first, second, third][: row.arity]
    if row.rule == "double":
        arrays[1] = arrays[1].astype(f"u{dtype.itemsize}")
    return arrays


def expected(row, dtype, arrays):
    result = intrinsics.result_dtype(row.rule, dtype)
    rows = zip(*(one.tolist() for one in arrays), strict=True)
    return np.array([exact(row.name, dtype, *values) for values in rows], result)


CASES = [(row, np.dtype(name)) for row in OF_INTEGERS for name in INTEGERS if row.c_form(np.dtype(name)) is not None]


@pytest.mark.host
@pytest.mark.parametrize(("row", "dtype"), CASES, ids=lambda one: getattr(one, "name", None))
def test_python_has_exact_integers(row, dtype):
    arrays = operands(row, dtype)
    want = expected(row, dtype, arrays)
    got = FOR_PYTHON[row.name](*arrays)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype
    one = FOR_PYTHON[row.name](*(array[3] for array in arrays))
    assert (one, one.dtype) == (want[3], want.dtype)


@pytest.mark.parametrize("name", INTEGERS)
def test_devices_have_exact_integers(device, lowering, name):
    """All functions of integers; vectors of lanes take long to compile, so two types stand for all."""
    if lowering == vector_lowering.LOWERING.lower and name not in ("int32", "uint8"):
        pytest.skip("the vector mapping is tested with int32 and uint8")
    dtype = np.dtype(name)
    rows = [row for row, one in CASES if one == dtype and row.rule != "double"]
    arrays = operands(max(rows, key=lambda row: row.arity), dtype)

    def make(*loads):
        made = [ir.Math(intrinsics.result_dtype(row.rule, dtype), row.name, loads[: row.arity]) for row in rows]
        return [one if one.dtype == dtype else ir.Cast(dtype, one) for one in made]

    got = evaluate(device, lowering, make, dtype, *arrays)
    for row, ours in zip(rows, got, strict=True):
        want = expected(row, dtype, arrays[: row.arity]).astype(dtype)
        np.testing.assert_array_equal(ours, want, err_msg=row.name)


@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "uint32"])
def test_upsample(device, lowering, name):
    dtype, row = np.dtype(name), FUNCTIONS["upsample"]
    arrays = operands(row, dtype)
    wide = intrinsics.result_dtype("double", dtype)
    (got,) = evaluate(device, lowering, lambda high, low: [ir.Math(wide, "upsample", (high, low))], wide, *arrays)
    np.testing.assert_array_equal(got, expected(row, dtype, arrays))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_devices_have_the_functions_of_floats(device, lowering, name):
    """Rows that are marked exact give NumPy's bits; others are within the rounding of the device."""
    needs.dtype(device, name)
    if lowering == vector_lowering.LOWERING.lower and name != "float32":
        pytest.skip("the vector mapping is tested with float32")
    dtype = np.dtype(name)
    grid = np.array(list(itertools.product(FLOATS, repeat=2)), dtype)
    arrays = [grid[:, 0].copy(), grid[:, 1].copy(), grid[::-1, 0].copy()]
    rows = [row for row in FUNCTIONS.values() if row.c_form(dtype) is not None]

    def make(*loads):
        made = []
        for row in rows:
            result = BOOL if row.rule == "test" else dtype
            value = ir.Math(result, row.name, loads[: row.arity])
            made.append(value if result == dtype else ir.Cast(dtype, value))
        return made

    got = evaluate(device, lowering, make, dtype, *arrays)
    for row, ours in zip(rows, got, strict=True):
        want = np.asarray(row.numpy(*arrays[: row.arity])).astype(dtype)
        if row.is_exact(dtype):
            np.testing.assert_array_equal(ours, want, err_msg=row.name)
        else:
            finite = np.isfinite(want) & (np.abs(want) < 1e30)
            np.testing.assert_allclose(ours[finite], want[finite], rtol=1e-4, atol=1e-5, err_msg=row.name)
            assert np.array_equal(np.isnan(ours), np.isnan(want)) or row.name in ("fmin", "fmax"), row.name


def integers(idx, out, x, y, n):
    """Typed integers, weak ones, literals, and the composed functions."""
    i = idx[0]
    out[i, 0] = pydp.math.popcount(x[i]) + pydp.math.clz(y[i])
    out[i, 1] = pydp.math.rotate(x[i], i)
    out[i, 2] = pydp.math.rotate(x[i], 5) ^ pydp.math.rotate(x[i], n)
    out[i, 3] = pydp.math.popcount(i) * 100 + pydp.math.popcount(-1)
    out[i, 4] = pydp.math.clamp(x[i], -100, n)
    out[i, 5] = pydp.math.bitselect(x[i], y[i], 0xFF)
    out[i, 6] = pydp.math.sign(x[i]) + pydp.math.select(1, 2, x[i] > 0)
    out[i, 7] = pydp.math.mad_sat(x[i], y[i], n) + pydp.math.mad24(n, n, 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mapping", ["simt", "vector"])
def test_a_vector_function_and_python_agree(device, mapping):
    needs.vector_mapping(device, mapping)
    x = np.array([0, 1, -1, 123456789, -(2**31), 2**31 - 1, 77, -3], np.int32)
    y = np.roll(x, 3)
    want = np.zeros((8, 8), np.int64)
    for i in range(8):
        integers((i,), want, x, y, 9)
    out = np.zeros((8, 8), np.int64)
    pydp.forall(8, integers, out, x, y, 9, spec={"mapping": mapping}, device=device)
    np.testing.assert_array_equal(out, want)


def floats(idx, out, x, y):
    i = idx[0]
    out[i, 0] = pydp.math.mix(x[i], y[i], 0.25)
    out[i, 1] = pydp.math.step(0.5, x[i])
    out[i, 2] = pydp.math.smoothstep(-1.0, 2.0, x[i])
    out[i, 3] = pydp.math.select(0.0, 1.0, pydp.math.isunordered(x[i], y[i]))
    out[i, 4] = pydp.math.select(0.0, 1.0, pydp.math.islessgreater(x[i], y[i]))
    out[i, 5] = pydp.math.rsqrt(np.abs(y[i]) + 1)
    out[i, 6] = pydp.math.fmax(x[i], y[i])
    out[i, 7] = pydp.math.degrees(x[i]) + pydp.math.radians(y[i])


def test_floats_in_a_vector_function(device):
    x = np.array([0, 1, -1, np.nan, 2.5, 0.25, -7, 1], np.float32)
    y = np.array([1, 1, -1, 2, np.nan, 0.5, 3, -2], np.float32)
    want, out = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
    for i in range(8):
        floats((i,), want, x, y)
    pydp.forall(8, floats, out, x, y, device=device)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def test_functions_of_the_table_are_operators(device):
    x = np.array([3, 250, 7, 255, 16], np.uint8)
    np.testing.assert_array_equal(pydp.scan(x, pydp.math.add_sat, device=device), [3, 253, 255, 255, 255])
    keys = pydp.sort(x, key=pydp.math.popcount, device=device)
    np.testing.assert_array_equal(keys, [16, 3, 7, 250, 255])


# --- without a device ------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_a_function_without_a_form_is_refused_by_both_lowerings(monkeypatch):
    """No lowering passes an unknown operation on to the compiler."""
    row = intrinsics.Function("cube", 1, "real", lambda x: x**3, {"f8": "cube"}, "x * x * x")
    monkeypatch.setitem(FUNCTIONS, "cube", row)
    with pytest.raises(InvalidArgument, match="cube of float32 is not defined; float64 is accepted"):
        ScalarC(Block()).expr(ir.Math(F32, "cube", (c(1.0, F32),)))
    with pytest.raises(InvalidArgument, match="cube of float32 is not defined"):
        StripText(4, set()).function_of("cube", ["x"], F32)
    with pytest.raises(InvalidArgument, match="popcount of float32 is not defined; integers are accepted"):
        StripText(4, set()).function_of("popcount", ["x"], F32)
    with pytest.raises(InvalidArgument, match="erf of int32 is not defined; floats are accepted"):
        ScalarC(Block()).expr(ir.Math(I32, "erf", (c(1),)))


@pytest.mark.host
def test_wrong_types_are_refused_at_the_line():
    def of_a_float(idx, out, x):
        out[idx] = pydp.math.popcount(x[idx])

    def two_arguments(idx, out, x):
        out[idx] = pydp.math.popcount(x[idx], 1)

    x = np.zeros(3, np.float32)
    with pytest.raises(VectorError, match="popcount of float32 is not defined; integers are accepted"):
        pydp.forall(3, of_a_float, x.astype(np.int32), x)
    with pytest.raises(VectorError, match=r"pydp.math.popcount takes exactly 1 argument, not 2|popcount takes"):
        pydp.forall(3, two_arguments, x.astype(np.int32), x.astype(np.int32))


@pytest.mark.host
def test_python_refuses_wrong_types():
    with pytest.raises(InvalidArgument, match="popcount of float64 is not defined; integers are accepted"):
        pydp.math.popcount(1.5)
    with pytest.raises(InvalidArgument, match="popcount is given 2 arguments; 1 are accepted"):
        pydp.math.popcount(1, 2)
    with pytest.raises(InvalidArgument, match="clz is given <U1; bools, integers and floats are accepted"):
        pydp.math.clz("a")
    with pytest.raises(InvalidArgument, match="upsample of int64 is not defined; int8, int16, int32"):
        pydp.math.upsample(1, 2)
    with pytest.raises(AttributeError, match=r"has no attribute 'gamma'; it has abs, .*popcount"):
        pydp.math.gamma  # noqa: B018


@pytest.mark.host
def test_python_integers_must_fit_the_type_of_the_others():
    """As in a vector function: they do not wrap."""
    calls = [("add_sat", np.uint8(1), 300), ("add_sat", np.uint8(1), -1), ("upsample", np.int8(1), 256)]
    for function, *values in [*calls, ("bitselect", np.int32(0), np.int32(1), 2**31)]:
        wrong = f"{function} is given {values[-1]}, which does not fit "
        with pytest.raises(InvalidArgument, match=wrong):
            FOR_PYTHON[function](*values)
    assert pydp.math.add_sat(np.uint8(1), 254) == 255


@pytest.mark.host
def test_python_takes_lists():
    np.testing.assert_array_equal(pydp.math.popcount([1, 7, 255]), [1, 3, 8])
    np.testing.assert_array_equal(pydp.math.fmax([1.5, 2.5], 2.0), [2.0, 2.5])


@pytest.mark.parametrize("name", ["int8", "uint16", "int32"])
def test_integers_become_the_same_floats_in_python(device, name):
    """Integers of at most 32 bits become float32, beside Python numbers and float32 too."""

    def remainders(idx, out, x, y):
        i = idx[0]
        out[i, 0] = pydp.math.fmod(x[i], 3)
        out[i, 1] = pydp.math.copysign(x[i], -2.5)
        out[i, 2] = pydp.math.fmod(x[i], y[i])

    x = np.array([1, 100, np.iinfo(name).max, np.iinfo(name).max - 1], name)
    y = np.array([3, 7, 5, 2.5], np.float32)
    out, want = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    pydp.forall(4, remainders, out, x, y, device=device)
    for i in range(4):
        remainders((i,), want, x, y)
        assert pydp.math.fmod(x[i], 3).dtype == pydp.math.fmod(x[i], y[i]).dtype == np.float32
    np.testing.assert_array_equal(out, want)


@pytest.mark.host
def test_every_function_is_documented_and_exported():
    assert set(pydp.math.__all__) >= set(FUNCTIONS)
    for name in pydp.math.__all__:
        assert len(getattr(pydp.math, name).__doc__ or "") > 10, name
    assert "Takes integers of one type" in pydp.math.rotate.__doc__
    assert "Results of float64 are the same on all devices, other results may differ" in pydp.math.sqrt.__doc__
    assert (
        "the same on all devices, except that some devices flush subnormal floats to zero." in pydp.math.floor.__doc__
    )
    assert "the same on all devices.\n" in pydp.math.clz.__doc__
    assert math.isclose(pydp.math.smoothstep(0, 2, 1.0), 0.5)
    assert pydp.math.fma(2.0**60, 2.0**60, 1.0) == 2.0**120


def mixed(idx, out, x, q):
    """Weak integers beside typed ones: functions of bits take the type's bits, whatever the value was before."""
    i = idx[0]
    chosen = x[i] if i > 1 else q
    out[i, 0] = pydp.math.popcount(chosen)
    out[i, 1] = pydp.math.clz(chosen)
    out[i, 2] = pydp.math.rotate(chosen, q)
    out[i, 3] = pydp.math.popcount(q + i)
    out[i, 4] = pydp.math.add_sat(x[i], q)


@pytest.mark.parametrize("q", [2**31, 2**33 + 5, -(2**31) - 1])
def test_python_integers_that_do_not_fit_the_type_beside_them(device, q):
    x = np.zeros(4, np.int32)
    with pytest.raises(InvalidArgument, match=f"q is {q}, which does not fit int32"):
        pydp.forall(4, mixed, np.zeros((4, 5), np.int64), x, q, device=device)


@pytest.mark.parametrize("q", [3, 2**31 - 1, -1])
def test_python_integers_beside_typed_ones(device, q):
    x = np.array([5, -1, 2**31 - 1, -(2**31)], np.int32)
    out = np.zeros((4, 5), np.int64)
    pydp.forall(4, mixed, out, x, q, device=device)
    for i in range(4):
        chosen = int(x[i]) if i > 1 else q
        want = [exact(name, I32, chosen) for name in ("popcount", "clz")]
        want += [exact("rotate", I32, chosen, q), bin((q + i) % 2**64).count("1")]
        want += [exact("add_sat", I32, int(x[i]), q)]
        assert out[i].tolist() == want


def constants(idx, out, x):
    nan = np.float32(np.nan)
    out[idx, 0] = np.exp(nan)
    out[idx, 1] = np.tanh(x[idx]) + np.expm1(nan)
    out[idx, 2] = pydp.math.fdim(np.float32(-np.inf), np.float32(-np.inf))
    out[idx, 3] = pydp.math.add_sat(np.int8(100), np.int8(100)) + pydp.math.sub_sat(np.int16(-(2**15)), np.int16(1))
    out[idx, 4] = 5 if np.exp(nan) == 0 else 7


@pytest.mark.parametrize("mapping", ["simt", "vector"])
def test_functions_of_constants(device, mapping):
    """Compilers compute these; some of their results are wrong, or undefined, so that nothing is stored."""
    needs.vector_mapping(device, mapping)
    out = np.zeros((4, 5), np.float32)
    pydp.forall(4, constants, out, np.ones(4, np.float32), spec={"mapping": mapping}, device=device)
    np.testing.assert_array_equal(out, np.tile(np.array([np.nan, np.nan, 0, 127 - 2**15, 7], np.float32), (4, 1)))
