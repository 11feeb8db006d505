"""The arithmetic of lanes against NumPy: every operation, type and corner, in every mapping."""

from __future__ import annotations

import builtins
import math
import operator
from types import SimpleNamespace

import device_run
import needs
import numpy as np
import pytest
from builder import BOOL, F32, I32, array, assign, c, function, load, place, store

import pydp
from pydp.errors import InvalidArgument
from pydp.lang import ir
from pydp.lang.compile import translate_value
from pydp.lang.intrinsics import BY_ID
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.opencl import lowerings
from pydp.lang.opencl import vector as vector_lowering
from pydp.lang.opencl.c_text import Block
from pydp.lang.opencl.scalar import ScalarC
from pydp.lang.opencl.value_function import lower_value

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
LOWERINGS = {name: one.lower for name, one in lowerings().items()}


@pytest.fixture(params=list(LOWERINGS))
def lowering(request, device):
    needs.vector_mapping(device, request.param)
    return LOWERINGS[request.param]


def evaluate(device, lowering, make, results, *inputs):
    """Rows of make(loads of the inputs): a list of expressions, each converted to `results`."""
    sources = [array(f"in{number}", one.dtype, 1, number, writable=False) for number, one in enumerate(inputs)]
    expressions = make(*[load(source, place()) for source in sources])
    out = array("out", results, 2, len(inputs))
    body = [
        store(out, (c(row), place()), one if one.dtype == out.dtype else ir.Cast(out.dtype, one))
        for row, one in enumerate(expressions)
    ]
    made = function(body, arrays=[*sources, out])
    got = np.zeros((len(expressions), inputs[0].size), results)
    copies = [one.copy() for one in inputs]
    units = frozenset([("out", 1), *((source.name, 0) for source in sources)])
    device_run.run(device, lowering(made, device.profile, units), [*copies, got], (), (inputs[0].size,))
    return got


def corners(name):
    dtype = np.dtype(name)
    limits = np.iinfo(dtype)
    picked = {limits.min, limits.min + 1, -8, -3, -1, 0, 1, 2, 3, 7, 100, limits.max - 1, limits.max}
    values = np.array(sorted(v for v in picked if limits.min <= v <= limits.max), dtype)
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


def integer_reference(a, b):
    bits = 8 * a.dtype.itemsize
    zero, inside = b == 0, (b >= 0) & (b.astype(object) < bits)
    with np.errstate(all="ignore"):
        safe = np.where(zero, 1, b).astype(a.dtype)
        count = np.where(inside, b, 0).astype(a.dtype)
        gone = np.where(a < 0, -1, 0).astype(a.dtype)
        exponent = np.where(b < 0, 0, np.minimum(b.astype(object), 9)).astype(a.dtype)
        return [
            a + b,
            a - b,
            a * b,
            np.where(zero, 0, np.floor_divide(a, safe)),
            np.where(zero, 0, np.remainder(a, safe)),
            np.where(inside, np.left_shift(a, count), 0),
            np.where(inside, np.right_shift(a, count), gone),
            a & b,
            a | b,
            a ^ b,
            np.minimum(a, b),
            np.maximum(a, b),
            np.abs(a),
            (np.zeros_like(a) - a),
            ~a,
            a // np.asarray(4, a.dtype),
            a % np.asarray(8, a.dtype),
            a // np.asarray(3, a.dtype),
            np.power(a, exponent),
            a << np.asarray(3, a.dtype),
            a >> np.asarray(2, a.dtype),
        ]


def integer_expressions(dtype):
    def const(value):
        return ir.Const(dtype, value)

    def make(a, b):
        def two(op):
            return ir.Binary(dtype, op, a, b)

        low = ir.Math(dtype, "minimum", (b, const(9)))
        exponent = ir.Math(dtype, "maximum", (low, const(0)))
        return [
            *(two(op) for op in ("add", "sub", "mul", "floordiv", "mod", "shl", "shr", "and", "or", "xor")),
            ir.Math(dtype, "minimum", (a, b)),
            ir.Math(dtype, "maximum", (a, b)),
            ir.Math(dtype, "abs", (a,)),
            ir.Unary(dtype, "neg", a),
            ir.Unary(dtype, "invert", a),
            ir.Binary(dtype, "floordiv", a, const(4)),
            ir.Binary(dtype, "mod", a, const(8)),
            ir.Binary(dtype, "floordiv", a, const(3)),
            ir.Binary(dtype, "pow", a, exponent),
            ir.Binary(dtype, "shl", a, const(3)),
            ir.Binary(dtype, "shr", a, const(2)),
        ]

    return make


@pytest.mark.sweep
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(device, lowering, name):
    # Vectors of lanes take long to compile here (integer division goes lane by lane): one type stands for all.
    if lowering == vector_lowering.LOWERING.lower and name != "int32":
        pytest.skip("the vector mapping is tested with int32")
    a, b = corners(name)
    got = evaluate(device, lowering, integer_expressions(a.dtype), a.dtype, a, b)
    for row, (one, want) in enumerate(zip(got, integer_reference(a, b), strict=True)):
        np.testing.assert_array_equal(one, want.astype(a.dtype), err_msg=f"row {row}")


FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 0.1, 1e-3, 3e4, -3e4, np.inf, -np.inf, np.nan]


@pytest.fixture(params=["float32", "float64", "float16"])
def real(request, device):
    name = request.param
    needs.dtype(device, name)
    return np.dtype(name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats(device, lowering, real):
    if lowering == vector_lowering.LOWERING.lower and real.name != "float32":
        pytest.skip("the vector mapping is tested with float32")
    values = np.array(FLOATS, real)
    a, b = (one.ravel().copy() for one in np.meshgrid(values, values))

    def make(x, y):
        names = ("add", "sub", "mul", "floordiv", "mod")
        return [
            *(ir.Binary(real, op, x, y) for op in names),
            *(ir.Math(real, name, (x, y)) for name in ("minimum", "maximum", "copysign")),
            *(ir.Math(real, name, (x,)) for name in ("abs", "floor", "ceil", "trunc", "rint")),
            ir.Unary(real, "neg", x),
            *(ir.Cast(real, ir.Compare(BOOL, op, x, y)) for op in ("lt", "le", "gt", "ge", "eq", "ne")),
            *(ir.Cast(real, ir.Math(BOOL, name, (x,))) for name in ("isnan", "isinf", "isfinite")),
            ir.Select(real, ir.Cast(BOOL, x), y, ir.Const(real, 5.0)),
        ]

    want = [a + b, a - b, a * b, a // b, a % b, np.minimum(a, b), np.maximum(a, b), np.copysign(a, b), np.abs(a)]
    want += [np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), -a, a < b, a <= b, a > b, a >= b, a == b, a != b]
    want += [np.isnan(a), np.isinf(a), np.isfinite(a), np.where(a.astype(bool), b, real.type(5))]
    got = evaluate(device, lowering, make, real, a, b)
    for row, (one, expected) in enumerate(zip(got, want, strict=True)):
        np.testing.assert_array_equal(one, np.asarray(expected).astype(real), err_msg=f"row {row}")


def test_division_is_within_the_drivers_rounding(device, lowering):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(1000).astype(np.float32), rng.standard_normal(1000).astype(np.float32)
    (got,) = evaluate(device, lowering, lambda x, y: [ir.Binary(F32, "truediv", x, y)], F32, a, b)
    exact = "-cl-fp32-correctly-rounded-divide-sqrt" in device.profile.build_options
    np.testing.assert_allclose(got, a / b, rtol=0 if exact else 3e-7)


def test_conversions(device, lowering):
    """Truncation toward zero inside the range; outside it, NumPy's result on x86-64."""
    inside = np.array([0, 1, -1, 1.9, -1.9, 100.5, -100.5, 127, -128], np.float32)
    signed = [np.dtype(name) for name in ("int8", "int16", "int32", "int64")]
    got = evaluate(device, lowering, lambda x: [ir.Cast(dtype, x) for dtype in signed], signed[-1], inside)
    for one, dtype in zip(got, signed, strict=True):
        np.testing.assert_array_equal(one, inside.astype(dtype))
    outside = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9], np.float32)
    (got,) = evaluate(device, lowering, lambda x: [ir.Cast(np.dtype(np.int32), x)], np.dtype(np.int32), outside)
    assert (got == np.iinfo(np.int32).min).all()
    whole = np.array([0, 5, -5, 127, 128, 255, 256, -129, 2**31 - 1, -(2**31)], np.int32)
    kinds = [np.dtype(name) for name in [*INTEGERS, "float32", "bool"]]
    got = evaluate(device, lowering, lambda x: [ir.Cast(dtype, x) for dtype in kinds], signed[-1], whole)
    for one, dtype in zip(got, kinds, strict=True):
        np.testing.assert_array_equal(one, whole.astype(dtype).astype(np.int64))


def test_the_undecided_operand_is_not_evaluated(device, lowering):
    """`or` and `and` stop early, and a choice reads one side: indexes outside are never dereferenced."""
    flags = np.array([0, 1, 0, 1], np.int32)

    def make(x):
        near = ir.Load(x.dtype, x.array, (ir.Binary(x.dtype, "add", place(), c(1)),))
        zero = ir.Compare(BOOL, "eq", x, c(0))
        return [
            ir.Cast(x.dtype, ir.Logical(BOOL, "and", zero, ir.Compare(BOOL, "eq", near, c(1)))),
            ir.Cast(x.dtype, ir.Logical(BOOL, "or", zero, ir.Compare(BOOL, "eq", near, c(0)))),
            ir.Select(x.dtype, zero, near, ir.Binary(x.dtype, "sub", near, c(7))),
        ]

    got = evaluate(device, lowering, make, flags.dtype, flags)
    np.testing.assert_array_equal(got, [[1, 0, 1, 0], [1, 1, 1, 1], [1, -7, 1, -7]])


MATH = {
    "sqrt": (0.0, 9.0), "exp": (-3, 3), "exp2": (-3, 3), "expm1": (-1, 1), "log": (0.1, 9), "log2": (0.1, 9),
    "log10": (0.1, 9), "log1p": (-0.5, 3), "sin": (-9, 9), "cos": (-9, 9), "tan": (-1, 1), "asin": (-1, 1),
    "acos": (-1, 1), "atan": (-9, 9), "sinh": (-3, 3), "cosh": (-3, 3), "tanh": (-3, 3), "asinh": (-3, 3),
    "acosh": (1, 9), "atanh": (-0.9, 0.9), "cbrt": (-9, 9),
}  # fmt: skip


def test_functions(device, lowering):
    points = np.linspace(0, 1, 50, dtype=np.float32)

    def make(x):
        rows = []
        for name, (low, high) in MATH.items():
            scaled = ir.Binary(F32, "mul", x, c(np.float32(high - low), F32))
            rows.append(ir.Math(F32, name, (ir.Binary(F32, "add", scaled, c(np.float32(low), F32)),)))
        one = ir.Binary(F32, "add", x, c(1.0, F32))
        rows += [ir.Math(F32, name, (x, one)) for name in ("atan2", "hypot", "fmod")]
        rows += [ir.Binary(F32, "pow", one, x), ir.Math(F32, "fma", (x, x, one)), ir.Math(F32, "rsqrt", (one,))]
        return [*rows, ir.Math(F32, "exp10", (x,)), ir.Math(F32, "erf", (x,))]

    got = evaluate(device, lowering, make, F32, points)
    want = []
    for name, (low, high) in MATH.items():
        f = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
             "atanh": "arctanh"}.get(name, name)  # fmt: skip
        want.append(getattr(np, f)(points * np.float32(high - low) + np.float32(low)))
    one = points + 1
    want += [np.arctan2(points, one), np.hypot(points, one), np.fmod(points, one), one**points]
    want += [points * points + one, 1 / np.sqrt(one), 10**points]
    for row, (ours, theirs) in enumerate(zip(got, want, strict=False)):
        np.testing.assert_allclose(ours, theirs, rtol=3e-5, atol=2e-6, err_msg=f"row {row}")
    assert abs(got[-1][-1] - 0.8427008) < 1e-5


# --- without a device ------------------------------------------------------------------------------------------------


def _calls(function, count):
    """A vector function that calls `function` with `count` values."""

    def one(a):
        return function(a)

    def two(a, b):
        return function(a, b)

    def three(a, b, c):
        return function(a, b, c)

    return (one, two, three)[count - 1]


def _as_kernel(made):
    """A kernel that computes the function of values for each element of its arrays."""
    arrays = [array(f"in{n}", one.dtype, 1, n, writable=False) for n, one in enumerate(made.arguments)]
    out = array("out", made.result.dtype, 1, len(arrays))
    given = [assign(one, load(source, place())) for one, source in zip(made.arguments, arrays, strict=True)]
    variables = {one.name: one for one in [*made.arguments, *made.variables]}
    return function(
        [*given, *made.body, store(out, (place(),), made.result)],
        arrays=[*arrays, out],
        variables=list(variables.values()),
        privates=made.privates,
    )


_PROFILE = SimpleNamespace(
    compute_units=2,
    vector_registers=32,
    simd_bytes=64,
    cache_line=64,
    nontemporal_bytes=None,
    loop_limit=None,
    int64_atomics=True,
    is_simulator=False,
)


def _functions():
    """Every function that the front end knows, with the numbers of arguments to try."""
    modules = (np, math, operator, builtins, pydp.math)
    by_id = {id(value): value for module in modules for value in vars(module).values() if id(value) in BY_ID}
    assert by_id.keys() == BY_ID.keys()
    return [by_id[key] for key in sorted(BY_ID, key=lambda key: BY_ID[key])]


@pytest.mark.host
@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64", "bool"])
def test_every_function_of_every_type_is_written_or_refused(dtype):
    """Every function that the front end accepts for a type has C text."""
    written = set()
    for called in _functions():
        for count in (1, 2, 3):
            try:
                made = translate_value(_calls(called, count), [np.dtype(dtype)] * count)
            except VectorError:
                continue
            assert lower_value(made).text
            assert vector_lowering.LOWERING.lower(_as_kernel(made), _PROFILE).params["body"]
            written.add(getattr(called, "__name__", str(called)))
    assert {"sqrt", "floor", "isnan", "add", "abs", "minimum", "fma", "logical_not"} <= written


@pytest.mark.host
def test_what_has_no_meaning_is_refused():
    writer = ScalarC(Block())
    with pytest.raises(InvalidArgument, match=r"sqrt of int32 is not defined; floats are accepted"):
        writer.expr(ir.Math(I32, "sqrt", (c(4),)))
    with pytest.raises(InvalidArgument, match="gamma is not a function of the table"):
        writer.expr(ir.Math(F32, "gamma", (c(4.0, F32),)))
    with pytest.raises(InvalidArgument, match="GridExtent is not known in an operator, key or comparison function"):
        writer.expr(ir.GridExtent(I32, 0))
    with pytest.raises(InvalidArgument, match="a is an array; an operator, key or comparison function takes numbers"):
        writer.expr(ir.Load(I32, ir.GlobalArray("a", I32, 1, False, 0), (c(0),)))
