"""Values of operator text on a device: NumPy's, also where C leaves them undefined, and for random expressions."""

from __future__ import annotations

from random import Random
from typing import Any

import expressions
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pydp

ROWS = 24
I32, I64 = np.iinfo(np.int32), np.iinfo(np.int64)
INTS = np.array([I32.min, I32.max, -1, 0, 1, 2, 7, -8, 46341, -46341, 32, 255], np.int32)
FLOATS = np.array([0, 1, -2.5, 3e9, -3e9, 1e30, -0.25, 127, 128, 255.5, -129, 65536], np.float32)


def _combined(x: np.ndarray, y: np.ndarray, op: Any) -> np.ndarray:
    """The operator of x[i] and y[i]."""
    return pydp.scan(np.stack([x, y], 1), op, axis=1)[:, 1]


def _written(x: np.ndarray, op: Any) -> np.ndarray:
    """The scan of `x`; both of two outputs must be written completely, for any earlier content."""
    found = []
    for fill in (0x11, 0x22):
        out = np.frombuffer(bytes([fill]) * x.nbytes, x.dtype).copy()
        found.append(np.asarray(pydp.scan(x, op, out=out)))
    np.testing.assert_array_equal(found[0], found[1])
    return found[0]


def _wide(function: Any) -> Any:
    """A function of int64 arrays, wrapped to int32 after."""
    return lambda x, y: function(x.astype(np.int64), y.astype(np.int64)).astype(np.int32)


def _divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, 0, np.trunc(x / np.where(y == 0, 1, y)))


OF_INTS = {
    "a + b": _wide(lambda x, y: x + y),
    "a - 3 * b": _wide(lambda x, y: x - 3 * y),
    "-a * b": _wide(lambda x, y: -x * y),
    "(a + b) / 2": _wide(lambda x, y: np.trunc((x + y).astype(np.int32) / 2)),
    "a + 1 > a ? 1 : b": lambda x, y: np.where(x == I32.max, y, 1),
    "a * b / b == a ? a : b": lambda x, y: np.where(_wide(_divided)(_wide(np.multiply)(x, y), y) == x, x, y),
    "a / b": _wide(_divided),
    "a % b": _wide(lambda x, y: np.where(y == 0, 0, x - _divided(x, y) * y)),
    "a / (b - b) + a": lambda x, y: x,
    "a / 0 + b": lambda x, y: y,
    "a % 0 + 1 / 0 + b": lambda x, y: y,
    "INT_MIN / -1 + 0 * b": lambda x, y: np.full_like(x, I32.min),
    "a << b": lambda x, y: x << (y & 31),
    "a >> b": lambda x, y: x >> (y & 31),
    "abs(a) > 5u ? a : b": lambda x, y: np.where(np.abs(x.astype("i8")) > 5, x, y),
    "abs(INT_MIN) + 0 * a": lambda x, y: np.full_like(x, I32.min),
    "abs_diff(INT_MIN, INT_MAX) + 0 * a": lambda x, y: np.full_like(x, -1),
    "abs_diff(a, b)": _wide(lambda x, y: np.abs(x - y)),
    "(int)1e30f + 0 * a": lambda x, y: np.full_like(x, I32.min),
    "a * 0.5f": lambda x, y: (x.astype("f4") * np.float32(0.5)).astype("i4"),
    "rint(1.5f) + 0 * b": lambda x, y: np.full_like(x, 2),
    "convert_int_rte(-2.5) + 0 * b": lambda x, y: np.full_like(x, -2),
    "(uchar)a + (char)b": lambda x, y: x.astype("u1").astype("i4") + y.astype("i1").astype("i4"),
    "(long)a * b > 0L ? a : b": lambda x, y: np.where(x.astype("i8") * y.astype("i8") > 0, x, y),
    "a & 255 | b << 8": lambda x, y: (x & 255) | (y << 8),
    "a < b && b != 0 || !a ? a : b": lambda x, y: np.where(((x < y) & (y != 0)) | (x == 0), x, y),
    "max(a, 0) + min(b, 10)": _wide(lambda x, y: np.maximum(x, 0) + np.minimum(y, 10)),
    "((int4)(a, b, 1, 2)).odd.x": lambda x, y: y,
    "shuffle((int2)(a, b), (uint4)(3, 2, 1, 0)).x": lambda x, y: y,
    "shuffle2((int2)(a, b), (int2)(b, 7), (uint2)(5, 7)).x": lambda x, y: y,
    "clamp(a, 10, 5)": lambda x, y: np.full_like(x, 5),
    "clamp((char)a, (char)10, (char)5)": lambda x, y: np.full_like(x, 5),
    "((int2)clamp((short2)((short)a), 10, 5).y).x": lambda x, y: np.full_like(x, 5),
    "mul24(a & 0x7fffff, b & 0x7fffff) < 0 ? 1 : 0": _wide(
        lambda x, y: ((x & 0x7FFFFF) * (y & 0x7FFFFF)).astype(np.int32) < 0
    ),
    "mad24(a & 255, 7, INT_MAX - 5) > INT_MAX - 5 ? 1 : 0": _wide(
        lambda x, y: ((x & 255) * 7 + I32.max - 5).astype(np.int32) > I32.max - 5
    ),
    "mul24((uint)a & 0xffffffu, 0xffffffu)": _wide(lambda x, y: (x & 0xFFFFFF) * 0xFFFFFF),
    "mad24((int2)(a & 255), (int2)(b & 255), (int2)(b)).y": _wide(lambda x, y: (x & 255) * (y & 255) + y),
    "a > b ? a : a == b ? 0 : b": lambda x, y: np.where(x == y, 0, np.maximum(x, y)),
}


@pytest.mark.parametrize("text", OF_INTS)
def test_values_of_integers(device: Any, text: str) -> None:
    x, y = (one.ravel() for one in np.meshgrid(INTS, INTS))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(_combined(x, y, text), OF_INTS[text](x, y))


def test_longs_wrap_and_divide(device: Any) -> None:
    x = np.array([I64.min, I64.max, -1, I64.min, 5, 7], np.int64)
    y = np.array([-1, 1, I64.min, 0, 0, -2], np.int64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(_combined(x, y, "a + b"), x + y)
    assert _combined(x, y, "a / b").tolist() == [I64.min, I64.max, 0, 0, 0, -3]
    assert _combined(x, y, "a % b").tolist() == [0, 0, -1, 0, 0, 1]
    assert _combined(x, y, "mad_sat(a, b, 1L)").tolist() == [I64.max, I64.max, I64.max, 1, 1, -13]


def test_small_integers_are_promoted(device: Any) -> None:
    x, y = (one.ravel() for one in np.meshgrid(*[np.array([0, 1, 100, 127, 128, 200, 255], np.uint8)] * 2))
    wide = x.astype(int), y.astype(int)
    assert np.array_equal(_combined(x, y, "(a + b) / 2"), (wide[0] + wide[1]) // 2)
    assert np.array_equal(_combined(x, y, "a * b / 255"), wide[0] * wide[1] // 255)
    assert np.array_equal(_combined(x, y, "a - b < 0 ? 0 : a - b"), np.maximum(wide[0] - wide[1], 0))
    assert np.array_equal(
        _combined(x.view("i1"), y.view("i1"), "add_sat(a, b)"),
        np.clip(x.view("i1").astype(int) + y.view("i1"), -128, 127),
    )


def test_floats_become_integers_as_numpy_makes_them(device: Any) -> None:
    x = FLOATS[np.isfinite(FLOATS)]
    record = np.dtype([("i", "i4"), ("c", "i1"), ("l", "i8"), ("f", "f4")], align=True)
    values = np.zeros(x.size, record)
    values["f"] = x
    got = _combined(values, values, {"i": "a.f", "c": "a.f", "l": "b.f", "f": "b.f"})
    whole = [int(n) if abs(n) < 2.0**31 else I32.min for n in x.tolist()]
    assert got["i"].tolist() == whole
    assert got["c"].tolist() == np.array(whole).astype("i1").tolist()
    assert got["l"].tolist() == [int(n) if abs(n) < 2.0**63 else I64.min for n in x.tolist()]


OF_NAN = "exp exp2 exp10 expm1 sinh cosh tanh native_exp native_log native_sqrt native_cos native_recip".split()


@pytest.mark.parametrize("name", ["char", "short", "int", "long", "char2", "int4", "long3"])
def test_saturated_sums_of_constants(device: Any, name: str) -> None:
    """One driver folds its own functions of constants to the wrapped sum."""
    scalar, member = name.rstrip("0123456789"), "" if name[-1].isalpha() else ".y"
    low, high = int(np.iinfo(INTEGERS[scalar]).min), int(np.iinfo(INTEGERS[scalar]).max)
    pairs = [(high, 7), (low, -1), (low, low), (high, high), (high, low), (0, low), (-1, low), (5, -9), (-5, high)]
    members: list[Any] = [*((f"m{n}", "i8") for n in range(2 * len(pairs) + 2)), ("x", "i8"), ("y", "i8")]
    op, want = {"x": "b.x", "y": "b.y"}, []
    x = np.zeros((2, len(pairs)), np.dtype(members))
    for left, right in pairs:
        first, second = (f"({name})(({scalar})({one if one != I64.min else 'LONG_MIN'}))" for one in (left, right))
        for sign in ("add", "sub"):
            total = left + right if sign == "add" else left - right
            want.append(min(max(total, low), high))
            op[f"m{len(want) - 1}"] = f"{sign}_sat({first}, {second}){member} + (b.x ? 0 : 0)"
    values = 2 * len(pairs)
    x["x"], x["y"] = np.array(pairs).T
    for n, sign in enumerate(("add", "sub")):
        op[f"m{values + n}"] = f"{sign}_sat(({name})(({scalar})b.x), ({name})(({scalar})b.y)){member}"
    got = _combined(*x, op)
    assert [int(got[f"m{n}"][0]) for n in range(values)] == want
    assert got[f"m{values}"].tolist() == want[::2] and got[f"m{values + 1}"].tolist() == want[1::2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rint(1.5f)", 2),
        ("rint(-2.5f)", -2),
        ("rint(0.5)", 0),
        ("rint((float)(9 * LONG_MAX))", 9.223372e18),
        ("floor(-0.5f)", -1),
        ("rint((a - a) * 0.0f + 3.5f)", 4),
        ("(rint((a - a) * NAN) == 0.0f ? 1.0f : 2.0f)", 2),
        ("fdim(-INFINITY, -INFINITY)", 0),
        ("fdim(3.5f, -1.5f)", 5),
        ("(isnan(fdim(NAN, 1.0f)) ? 1.0f : 2.0f)", 1),
        *((f"(isnan({name}(NAN)) ? 1.0f : 2.0f)", 1) for name in OF_NAN),
        ("pow(1.0f, NAN)", 1),
        ("pow(3.0f, 2.0f)", 9),
        ("(isnan(pow(2.0f, NAN)) ? 1.0f : 2.0f)", 1),
        ("exp(0.0f) + tanh(0.0f) + native_exp(0.0f)", 2),
        ("native_sqrt(4.0f)", 2),
        ("(rint(INFINITY) == INFINITY ? 1.0f : 2.0f)", 1),
    ],
)
def test_functions_of_constants(device: Any, text: str, value: float) -> None:
    """One compiler stores nothing where its own function has no value for a constant."""
    x = np.array([5, 1, 9], np.float32)
    np.testing.assert_array_equal(_combined(x, x, f"{text} + a"), np.float32(value) + x)
    assert _written(x, f"{text} + a * 0")[1:].tolist() == [np.float32(value)] * 2


INTEGERS = {
    "char": np.dtype("i1"),
    "uchar": np.dtype("u1"),
    "short": np.dtype("i2"),
    "ushort": np.dtype("u2"),
    "int": np.dtype("i4"),
    "uint": np.dtype("u4"),
    "long": np.dtype("i8"),
    "ulong": np.dtype("u8"),
}
ROUNDED = {"": np.trunc, "_rtz": np.trunc, "_rte": np.rint, "_rtp": np.ceil, "_rtn": np.floor}
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 1e30, -1e30, 5e9, -5e9]
EDGES += [
    sign * (2.0**bits + move) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1) for move in (0, -0.5)
]


def _whole(numbers: np.ndarray, name: str, saturate: bool = True) -> list[int]:
    """Whole numbers, infinities and NaNs as an integer type has them, or in its range."""
    if not saturate:
        return expressions.converted(numbers, name).tolist()  # type: ignore[no-any-return]
    low, high = int(np.iinfo(INTEGERS[name]).min), int(np.iinfo(INTEGERS[name]).max)
    return [0 if n != n else high if n >= high else low if n <= low else int(n) for n in numbers.tolist()]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("rounding", ROUNDED)
def test_conversions_of_values(device: Any, kind: str, rounding: str) -> None:
    """Scalars and vectors, saturated and not, in one record, so that a program tests all integers."""
    needed = {"f2": "fp16", "f4": None, "f8": "fp64"}[kind]
    if needed and not getattr(device.profile, needed):
        pytest.skip(f"the device has no {needed}")
    with np.errstate(all="ignore"):
        values = np.unique(np.array(EDGES).astype(kind))
    c_type = {"f2": "half", "f4": "float", "f8": "double"}[kind]
    members: list[Any] = [(f"{prefix}_{name}", one) for prefix in "mvs" for name, one in INTEGERS.items()]
    x = np.zeros(values.size, np.dtype([*members, ("f", kind)], align=True))
    x["f"] = values
    op = {f"m_{name}": f"convert_{name}_sat{rounding}(b.f)" for name in INTEGERS}
    pair = f"({c_type}2)(0, b.f)"
    op |= {f"v_{name}": f"convert_{name}2{rounding}({pair}).y" for name in INTEGERS}
    op |= {f"s_{name}": f"convert_{name}2_sat{rounding}({pair}).y" for name in INTEGERS}
    got = _combined(x, x, op | {"f": "a.f"})
    with np.errstate(invalid="ignore"):  # NumPy's NaN of float16 signals
        rounded = ROUNDED[rounding](values.astype("f8"))
    for name in INTEGERS:
        assert got[f"m_{name}"].tolist() == _whole(rounded, name), name
        assert got[f"v_{name}"].tolist() == _whole(rounded, name, saturate=False), name
        assert got[f"s_{name}"].tolist() == _whole(rounded, name), name


CONSTANTS = ["NAN", "INFINITY", "-INFINITY", "1e30f", "-1e30f", "-1.5f", "2.5f", "2.5", "(a.m_int - a.m_int) * NAN"]


@pytest.mark.sweep
@pytest.mark.parametrize("width", ["", "2"])
@pytest.mark.parametrize("how", ["", "_sat", "_sat_rte", "_sat_rtp"])
def test_conversions_of_constants(device: Any, how: str, width: str) -> None:
    """Compilers fold their own conversions of constants to no value, and then leave out the store."""
    x = np.zeros(3, np.dtype([(f"m_{name}", one) for name, one in INTEGERS.items()], align=True))
    for text in CONSTANTS:
        number = np.nan if "NAN" in text else float(text.rstrip("f").replace("INFINITY", "inf"))
        given = f"(float2)(1, {text})" if width else text
        member = ".y" if width else ""
        op = {f"m_{name}": f"convert_{name}{width}{how}({given}){member} + a.m_{name} * 0" for name in INTEGERS}
        got = _written(x, op)[1:]
        rounded = ROUNDED[how.removeprefix("_sat")](np.full(2, number))
        for name in INTEGERS:
            assert got[f"m_{name}"].tolist() == _whole(rounded, name, "_sat" in how), (text, name)


@pytest.mark.parametrize("text", ["(double)a + b", "1.5h * a + b", "as_long(1.5) + b", "rint((double2)(a, b)).x"])
def test_types_that_the_device_lacks_are_refused_before_anything_is_enqueued(device: Any, text: str) -> None:
    profile, name = device.profile, "half" if "h *" in text else "double"
    x = np.array([1, 2, 3], np.float32)
    out = np.full(3, 7, np.float32)
    if profile.fp16 if name == "half" else profile.fp64:
        assert np.isfinite(pydp.scan(x, text)).all()
    else:
        for call in (lambda: pydp.scan(x, text, out=out), lambda: pydp.reduce(x, text)):
            with pytest.raises(pydp.UnsupportedOnDevice, match=f"computes with {name}"):
                call()
    assert (out == 7).all()


def test_a_key_of_a_type_that_the_device_lacks_is_refused(device: Any) -> None:
    x = np.array([1, 2, 3], np.float32)
    if device.profile.fp64:
        assert pydp.sort(x, key=lambda a: -np.float64(a)).tolist() == [3, 2, 1]
    else:
        with pytest.raises(pydp.UnsupportedOnDevice, match="computes with double"):
            pydp.sort(x, key=lambda a: -np.float64(a))


@pytest.mark.parametrize("text", ["convert_long_sat_rte((double)NAN)", "convert_int_sat_rte((double)NAN)"])
def test_a_double_that_is_no_number_becomes_0(device: Any, text: str) -> None:
    if not device.profile.fp64:
        pytest.skip("the device has no fp64")
    assert _written(np.array([3, 7, -5], np.int32), f"(int){text} + a * 0")[1:].tolist() == [0, 0]


def test_bools_stay_bools(device: Any) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert _combined(x, y, "a + b").tobytes() == (x | y).tobytes()
    assert _combined(x, y, "a * 256 + b").tobytes() == (x | y).tobytes()
    assert _combined(x, y, "0.25f * a").tobytes() == x.tobytes()


def test_vectors_and_their_components(device: Any) -> None:
    x, y = np.zeros(6, cltypes.int4), np.zeros(6, cltypes.int4)
    for n, name in enumerate(("s0", "s1", "s2", "s3")):
        x[name], y[name] = INTS[n : n + 6], INTS[n + 3 : n + 9]
    rows = [np.stack([one[name] for name in ("s0", "s1", "s2", "s3")], 1) for one in (x, y)]
    a, b = (row.astype(np.int64) for row in rows)
    for text, want in (
        ("a + b", a + b),
        ("a * b - a", a * b - a),
        ("a.wzyx", a[:, ::-1]),
        ("(int4)(a.lo, b.hi)", np.concatenate([a[:, :2], b[:, 2:]], 1)),
        ("a > b ? a : b", np.maximum(a, b)),
        ("a / b", _divided(a, b)),
        ("shuffle(a, as_uint4(b))", np.take_along_axis(a, b & 3, 1)),
        ("select(a, b, a < b)", np.maximum(a, b)),
        ("a << 3", a << 3),
        ("max(a, 0)", np.maximum(a, 0)),
    ):
        got = _combined(x, y, text)
        np.testing.assert_array_equal(np.stack([got[n] for n in ("s0", "s1", "s2", "s3")], 1), want.astype(np.int32))


EXTREMES = {
    "max(a.f, b.f)": np.maximum,
    "min(a.f, b.f)": np.minimum,
    "max(b.f, 1)": lambda x, y: np.maximum(y, 1),
    "min((float2)(1, a.f), (float2)(2, b.f)).y": np.minimum,
    "clamp(a.f, -1.0f, 2.5f)": lambda x, y: np.clip(x, -1, np.float32(2.5)),
    "clamp(a.f, b.f, 1)": lambda x, y: np.minimum(np.maximum(x, y), 1),
    "max(a.i, 1.5)": lambda x, y: np.full_like(x, 3),
    "(float)min(a.i * NAN, 1.5)": lambda x, y: np.full_like(x, np.nan),
    "max(1.5, 0.5) + a.i * 0": lambda x, y: np.full_like(x, 1.5),
}


def test_extremes_of_floats_propagate_nan(device: Any) -> None:
    numbers = np.array([np.nan, np.inf, -np.inf, 0, 1, -2.5, 3e38], np.float32)
    x, y = (one.ravel() for one in np.meshgrid(numbers, numbers))
    members: list[Any] = [("f", "f4"), ("i", "i4"), *((f"m{n}", "f4") for n in range(len(EXTREMES)))]
    rows = np.zeros((2, x.size), np.dtype(members))
    rows["f"], rows["i"] = (x, y), 3
    got = _combined(*rows, {"f": "b.f", "i": "b.i"} | {f"m{n}": text for n, text in enumerate(EXTREMES)})
    for n, (text, function) in enumerate(EXTREMES.items()):
        np.testing.assert_array_equal(got[f"m{n}"], function(x, y), text)


@pytest.mark.parametrize("text", ["dot((half)a, (half)2)", "(float)shuffle((half2)(a, a * 2), (ushort2)(1, 6)).x"])
def test_halves_that_one_driver_has_no_function_for(device: Any, text: str) -> None:
    if not device.profile.fp16:
        pytest.skip("the device has no fp16")
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(_combined(x, x, f"{text} + b * 0"), 2 * x)


OF_VECTORS = {
    "shuffle((int2)(1 + b.x, 2 + b.x), (uint4)(3, 2, 1, 4)) + a*0": [2, 1, 2, 1],
    "shuffle2((int2)(1, 2), (int2)(3, 4), (uint4)(3, 6, 1, 4)) + a*0": [4, 3, 2, 1],
    "(int4)((int2)(shuffle((char2)(1, 2), (uchar2)(131, 2)).x), (int2)3) + a*0": [2, 2, 3, 3],
    "as_int4(nan((int4)5 + b)) & 0x7fffffff": 0x7FC00005,
    "as_int4(nan(b + 5)) & 0x7fffffff": 0x7FC00005,
    "(int4)(as_int(nan(5 + b.x))) & 0x7fffffff": 0x7FC00005,
    "(int4)(as_int(nan((uchar)(5 + b.x)))) & 0x7fffffff": 0x7FC00005,
    "(int4)(isnan(nan((int3)5).z)) + a*0": 1,
    "a * 0 + (as_int4((uint4)7u > 3000000000) + 1)": 1,
    "(int4)INT_MIN / 4294967295u + a*0": I32.min,
    "(int4)INT_MIN % 4294967295u + a*0": 0,
    "((int4)7 / 4294967295u) + a*0": -7,
    "((int4)7 / 4294967291u) + a*0": -1,
    "((int4)7 % 4294967291u) + a*0": 2,
    "((int4)INT_MIN / 4294967294u) + a*0": 1 << 30,
    "(int4)(((long2)LONG_MIN / 18446744073709551615u).x == LONG_MIN) + a*0": 1,
    "(int4)(((long2)LONG_MIN % 18446744073709551615u).x != 0 ? 1 : 0) + a*0": 0,
    "(int4)(((long2)9 / 18446744073709551613u).y) + a*0": -3,
    "(int4)(((uint2)7u / 4294967295u).x) + a*0": 0,
    "(int4)(((char2)-128 / 127).x) + a*0": -1,
}


@pytest.mark.parametrize("text", OF_VECTORS)
def test_a_literal_beside_a_vector_is_one_of_its_elements(device: Any, text: str) -> None:
    """An unsigned literal beside a signed vector may be -1, by which the smallest integer has no quotient in C."""
    x = np.zeros(5, cltypes.int4)
    got = _written(x, text)[1:]
    want = np.full(4, OF_VECTORS[text]).tolist()
    assert [got[name].tolist() for name in ("s0", "s1", "s2", "s3")] == [[one] * 4 for one in want]


@pytest.mark.parametrize(
    "text", ["*(&a + 4) + b*0", "a + *((int*) 305419896)", "a + *(&a + 100000000)", "a, b", "a+b" + "+0" * 8000]
)
def test_text_that_leaves_the_values_is_refused_by_both(device: Any, text: str) -> None:
    for function in (pydp.scan, pydp.reduce):
        with pytest.raises(pydp.InvalidArgument, match="accepted"):
            function(INTS, text)


LARGE = {
    "sums": "a + b" + " + 0" * 498,
    "brackets": "(" * 128 + "a" + ")" * 128 + " + b",
    "calls": "max(" * 127 + "a" + ", b)" * 127,
    "conditions": "a > b ? a : " * 199 + "b",
    "conditions inside": "(" * 126 + "a" + " > b ? a : b)" * 126,
    "signs": "- " * 996 + "a + b",
    "casts": "(char)(int)" * 40 + "a + b",
}


@pytest.mark.parametrize("name", LARGE)
def test_compilers_take_the_largest_text(device: Any, name: str) -> None:
    x = np.array([3, 3], np.int32)
    want = {"sums": 6, "brackets": 6, "signs": 6, "casts": 6}.get(name, 3)
    assert pydp.scan(x, LARGE[name]).tolist() == [3, want]


# --- random expressions -------------------------------------------------------------------------------------


@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.randoms(use_true_random=False))
def test_random_expressions_have_the_values_of_c(device: Any, random: Random) -> None:
    """One expression for each member of a record, so that a program tests fourteen of them."""
    fp64 = device.profile.fp64
    dtype = expressions.record_dtype(fp64)
    x = np.zeros((ROWS, 2), dtype)
    expressions.fill(x, random)
    make = expressions.Expressions(random, x[:, 0], x[:, 1], fp64=fp64, loops=device.profile.loop_limit is None)
    op: dict[str, str] = {}
    want: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in dtype.names or ():
        value = make.member_value(name, random.randrange(5))
        op[name] = value.text if value is not None else f"a.{name}"
        if value is not None:
            want[name] = value.data, value.known
    got = pydp.scan(x, op, axis=1)[:, 1]
    for name, (data, known) in want.items():
        found = got[name]
        if found.dtype.names:
            found = np.stack([found[part] for part in found.dtype.names if part[0] == "s"], 1)
        found = found.reshape(data.shape)
        wrong = known & (found != data) & ~((found != found) & (data != data))
        assert not wrong.any(), (op[name], found[wrong], data[wrong], x[wrong.any(axis=1)][0])
