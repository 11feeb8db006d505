"""Operators as text: names, expressions, fields; what may stand in an expression."""

from __future__ import annotations

import operator
import re
from types import SimpleNamespace

import numpy as np
import pyopencl.cltypes as cltypes
import pytest

from pydp.algorithms.operators import NAMES, Operator, operator_text
from pydp.errors import InvalidArgument, UnsupportedOnDevice

pytestmark = pytest.mark.host

_UFUNCS = {
    "+": np.add,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "logaddexp": np.logaddexp,
}


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float32", "float64", "bool"])
def test_identities_change_nothing(dtype):
    values = np.array([0, 1, 7, 100]).astype(dtype)
    for name in NAMES:
        if (name == "logaddexp") != (np.dtype(dtype).kind == "f") and name in ("logaddexp", "&", "|", "^"):
            continue
        if name in "&|^" and np.dtype(dtype).kind == "f":
            continue
        operator = operator_text(name, dtype)
        identity = np.array(operator.identity, dtype)
        assert np.array_equal(_UFUNCS[name](identity, values), values), name
        assert not operator.operands_in_order


@pytest.mark.parametrize(
    ("function", "name"), [(max, "max"), (min, "min"), (operator.add, "+"), (operator.mul, "*"), (operator.xor, "^")]
)
def test_python_functions_of_the_same_meaning(function, name):
    assert operator_text(function, "int32") == operator_text(name, "int32")


def test_the_identity_of_float_sums_keeps_negative_zeros():
    operator = operator_text("+", "float32")
    assert np.signbit(operator.identity) and not np.signbit(operator.start)


def test_ufuncs_are_names():
    for name, ufunc in _UFUNCS.items():
        dtype = "float32" if name == "logaddexp" else "int32"
        assert operator_text(ufunc, dtype).key == operator_text(name, dtype).key


def test_signed_sums_are_computed_in_unsigned_arithmetic():
    assert "as_int(as_uint(a) + as_uint(b))" in operator_text("+", "int32").function()
    assert "as_short16(as_ushort16(a) * as_ushort16(b))" in operator_text("*", "int16").vector_function(16)


def test_one_operator_is_one_object_of_one_dtype():
    operator = operator_text("a * b + 0", "int32")
    assert operator_text("a * b + 0", "int32") is operator
    assert operator_text(operator, "int32") is operator
    assert operator.identity is None and operator.operands_in_order
    with pytest.raises(InvalidArgument, match="float32 is needed"):
        operator_text(operator, "float32")
    with pytest.raises(InvalidArgument, match="no vector version"):
        operator.vector_function(4)


SAME = [
    ("+", "a+b", lambda a, b: a + b),
    ("*", "(a) * b", lambda one, two: one * two),
    ("min", "min(a, b)", lambda a, b: min(a, b)),
    ("max", "max(a, b)", lambda a, b: np.maximum(a, b)),
    ("&", "a & b", lambda a, b: a & b),
    ("|", "a | b", lambda a, b: a | b),
    ("^", "a ^ b", lambda a, b: a ^ b),
]


@pytest.mark.parametrize(("name", "text", "function"), SAME)
def test_expressions_and_functions_that_are_named_operators(name, text, function):
    for dtype in ("?", "i1", "u2", "i4", "u8", *(["f4"] if name not in "&|^" else [])):
        want = operator_text(name, dtype)
        in_python = dtype != "?" or name in "&|^"  # Python adds bools as integers
        for op in (text, function) if in_python else (text,):
            got = operator_text(op, dtype)
            assert (got.body, got.vector_body, got.operands_in_order) == (want.body, want.vector_body, False)
            assert (got.identity, got.start, got.operation) == (want.identity, want.start, name) and got.name != name


def test_named_operators_in_either_order():
    for op in ("b + a", lambda a, b: b + a, "max(b, a)", lambda a, b: max(b, a)):
        assert operator_text(op, "i4").operation in ("+", "max")
    assert operator_text("a + b", "c8").operation == operator_text("b + a", "c8").operation == "+"
    assert operator_text("a * b", "c8").operation == ""  # of two vectors, not of two complex numbers


def test_expressions_and_functions_that_are_no_named_operators():
    for op in (
        "a + b + 0",
        "a - b",
        "a + a",
        "a < b",
        "max(a, 3)",
        lambda a, b: a + a,
        lambda a, b: a + b + 1,
    ):
        assert operator_text(op, "int32").vector_body is None


RIGHT = [
    "b + a * 2",
    "a > b ? a : b",
    "(a + b) * 2.5e-3f",
    "max(b, a) + 1",
    "convert_float(a) + (float) b",
    "a*b-0x1F",
    "fma(a, b, 1.f)",
    "a != b && a < INFINITY ? a : b",
    "as_float(as_int(a) | as_int(b))",
]


@pytest.mark.parametrize("text", RIGHT)
def test_expressions_that_may_stand(text):
    function = operator_text(text, "float32").function("merge")
    assert function.startswith("static float merge(const float a, const float b) { return (")


WRONG = [
    "a;b",
    "a[0] + b",
    "{a}",
    "a + b // c",
    "a /* b */",
    "a + c",
    "a.q + b",
    "(a + b",
    "a) + (b",
    "a = b",
    "a += b",
    "++a + b",
    "a + b\nreturn 1",
    "a # b",
    "a \\ b",
    "a + 'b'",
    'a + "b"',
    "barrier(0) + a + b",
    "get_global_id(0) + a",
    "x0 + a + b",
    "1 + 2",
    "",
    "a @ b",
    "a $ b",
    "__asm(a)",
    "sizeof(a)",
    "${a} + b",
    "combine(a, b)",
]


@pytest.mark.parametrize("text", WRONG)
def test_expressions_that_may_not_stand(text):
    with pytest.raises(InvalidArgument) as caught:
        operator_text(text, "float32")
    assert "accepted" in str(caught.value) or "must pair" in str(caught.value)


@pytest.mark.parametrize("name", ["mean", "maximum", "add"])
def test_words_that_are_no_names_are_told_the_names(name):
    with pytest.raises(
        InvalidArgument, match=re.escape(f"op '{name}' is not the name of an operator; {' '.join(NAMES)}")
    ):
        operator_text(name, "float32")


def test_components_and_fields():
    assert "a.x * b.y" in operator_text("(float2)(a.x * b.y, b.x)", "complex64").body
    assert "(uint)a.s0 + (uint)b.s0" in operator_text("(int4)(a.s0 + b.s0)", cltypes.int4).body
    record = np.dtype([("low", "i4"), ("in", "i4", 1), ("pair", [("x0", "i4"), ("y0", "i4")])])
    with pytest.raises(InvalidArgument, match="fields"):
        operator_text({"low": "a.low"}, record)
    operator = operator_text({"count": "a.count + b.count", "float": "a.float"}, [("count", "i4"), ("float", "f4")])
    assert "r.count = (as_int((uint)a.count + (uint)b.count));" in operator.body
    assert "a.float" not in operator.body  # the member has another name in C, where float is a keyword
    with pytest.raises(InvalidArgument, match="array"):
        operator_text({"v": "a.v"}, [("v", "f4", 3)])
    with pytest.raises(InvalidArgument, match="expression"):
        operator_text({"v": 3}, [("v", "f4")])


WIDE = np.dtype([(f"field_{n}", "f4") for n in range(400)])
WRONG_ANYWHERE = [
    ("a.nothing", WIDE, "field_4 and 395 more are accepted"),
    ("a + b", WIDE, "a record with the fields field_0"),
    ("+", WIDE, "a record with the fields field_0"),
    ("max(a, b)", WIDE, "field_4 and 395 more"),
    ({"x": "a"}, WIDE, "op has unknown fields x"),
    ({f"x{n}": "a" for n in range(300)}, WIDE, "x4 and 295 more"),
    ({"é" * 9000: "a"}, WIDE, "unknown fields"),
    ({10**5000: "a"}, WIDE, "a value of type int"),
    ({name: f"a.{name}" for name in WIDE.names[:-1]}, WIDE, "no expression for the fields field_399"),
    ({}, WIDE, "field_4 and 395 more"),
    ({"x": "a"}, np.dtype("f4"), "float32 has no fields"),
    (
        {"r": "a.r.field_1"},
        np.dtype([("r", WIDE)]),
        "does not convert to a record with the fields field_0, field_1, field_2, field_3, field_4 and 395 more;",
    ),
    ({"r": 3**20000}, np.dtype([("r", WIDE)]), "a value of type int"),
    ({"v" * 900: "a"}, np.dtype([("v" * 900, "f4", 3)]), "is an array"),
    ("x" * 4000, np.dtype("i4"), "is not the name of an operator"),
    (10**5000, np.dtype("i4"), "op a value of type int is not an operator"),
    ([10**5000], np.dtype("i4"), "is not an operator"),
    (np.zeros(10**5), np.dtype("i4"), "is not an operator"),
    (Operator("x" * 4000, WIDE, "return a;"), np.dtype("i4"), "int32 is needed"),
]


@pytest.mark.parametrize(("op", "dtype", "message"), WRONG_ANYWHERE, ids=[text for _, _, text in WRONG_ANYWHERE])
def test_errors_are_short_whatever_is_given(op, dtype, message):
    with pytest.raises(InvalidArgument, match=re.escape(message)) as caught:
        operator_text(op, dtype)
    assert len(str(caught.value)) < 300


class Bare:
    """A device without the optional types."""

    name = "bare"
    profile = SimpleNamespace(fp64=False, fp16=False)


@pytest.mark.parametrize(
    ("text", "c_type"),
    [
        ("(double)a + b", "double (float64)"),
        ("1.5h * a + b", "half (float16)"),
        ("convert_half(a) + b", "half (float16)"),
        ("((double2)(a, b)).x", "double (float64)"),
        ("as_long(1.5) + b", "double (float64)"),
        ("nan(1L) + a + b", "double (float64)"),
    ],
)
def test_types_that_a_device_lacks_are_named(text, c_type):
    operator = operator_text(text, "float32")
    with pytest.raises(UnsupportedOnDevice) as caught:
        operator.check(Bare())
    assert str(caught.value) == f"op {text!r} computes with {c_type}, which 'bare' does not have"
    operator.check(SimpleNamespace(name="full", profile=SimpleNamespace(fp64=True, fp16=True)))


@pytest.mark.parametrize("op", ["1.5 * a + b", "M_PI * a + b", "a + b", "+", lambda a, b: a + 1.5 * b])
def test_literals_without_suffix_need_no_double(op):
    operator_text(op, "float32").check(Bare())


def test_vectors_and_complex_numbers():
    assert operator_text("+", cltypes.float4).start_text == "((float4)(0x0.0p+0f, 0x0.0p+0f, 0x0.0p+0f, 0x0.0p+0f))"
    assert "uint4" in operator_text("+", cltypes.int4).function()
    assert "a.x * b.x - a.y * b.y" in operator_text("*", "complex64").body
    assert "a.x == b.x && a.y <= b.y" in operator_text("min", "complex64").body
    for op in ("&", "logaddexp"):
        with pytest.raises(InvalidArgument, match="complex64"):
            operator_text(op, "complex64")


def test_ready_operators_are_taken_as_they_are():
    ready = Operator("mine", np.dtype("int32"), "return a + b + 1;")
    assert operator_text(ready, np.int32) is ready
