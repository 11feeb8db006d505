"""The grammar of operator text: what is refused and where, what trees and C text come of the rest. No device."""

from __future__ import annotations

import contextlib
import sys
from random import Random
from typing import Any

import expressions
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pydp.algorithms.operators import operator_text
from pydp.algorithms.operators.calls import FUNCTIONS
from pydp.algorithms.operators.grammar import LONGEST, MOST_NODES, parse
from pydp.algorithms.operators.text import DEEPEST
from pydp.algorithms.operators.tree import fold
from pydp.errors import InvalidArgument

pytestmark = pytest.mark.host

PAIR = np.dtype([("x0", "i4"), ("v", "f4", 3), ("in", "f4")])
RECORD = np.dtype([("pair", PAIR), ("vector", cltypes.float3), ("é", "i4"), ("s0", "u1")])
DTYPES = [np.dtype("int32"), np.dtype("uint8"), np.dtype("float32"), np.dtype(cltypes.float4), np.dtype("c8"), RECORD]

# Text and the column that its error names.
WRONG = {
    "*(&a + 4) + b*0": 1,
    "a + *((int*) 305419896)": 5,
    "a + *(&a + 100000000)": 5,
    "a, b": 2,
    "max(a, b), b": 10,
    "(a, b)": 3,
    "a + (b": 5,
    "a) + (b": 2,
    "a + b;": 6,
    "a[0] + b": 2,
    "a = b": 3,
    "a += b": 3,
    "a <<= b": 3,
    "a++ + b": 2,
    "a + --b": 5,
    "a->x + b": 2,
    "&a == &b": 1,
    "a + b // c": 7,
    "a /* b */": 3,
    "a +\n b": 4,
    "a +\xa0b": 4,
    "a + 'b'": 5,
    'a + "b"': 5,
    "a + b\0": 6,
    "a + \ud800": 5,
    "a + \u0662": 5,
    "a + ²": 5,
    "\uff41 + b": 1,
    "a \\ b": 3,
    "a # b": 3,
    "": 1,
    " \t": 3,
    "a +": 4,
    "a b": 3,
    "a 1": 3,
    "a ? b": 3,
    "a : b": 3,
    "(a ? b)": 4,
    "a ? : b": 5,
    "a + * b": 5,
    "sizeof(a)": 1,
    "a + barrier(0)": 5,
    "a + get_global_id(0)": 5,
    "a + fract(b, b)": 5,
    "a + max(b)": 5,
    "a + max(b, b, b)": 5,
    "a + max()": 9,
    "a + sqrt": 5,
    "a + int": 5,
    "(int*)a": 1,
    "(unsigned int)a + b": 2,
    "(float4*)(a)": 1,
    "a + (int)": 10,
    "a + c": 5,
    "a.x + b": 3,
    "a. + b": 4,
    "a.0 + b": 2,
    "a + 08": 5,
    "a + 1f": 5,
    "a + 0x": 5,
    "a + 1.2.3": 5,
    "a + 12ab": 5,
    "a + 5lul": 5,
    "a + 1e999": 5,
    "a + 1e39f": 5,
    "a + 99999999999999999999": 5,
    f"a + {'9' * 3000}": 5,
    "a % 0.5f": 3,
    "~(a * 0.5f)": 1,
    "a << 1.5": 3,
    "sin(a)": 1,
    "add_sat(a, 0.5f)": 1,
    "as_short(a)": 1,
    "as_int_rte(a)": 1,
    "as_int(1.5) + b": 1,
    "(int + a) + b": 1,
    "a << (int2)(1)": 3,
    "convert_float_sat(a)": 1,
    "convert_int4(a)": 1,
    "convert_bool(a)": 1,
    "(int4)(a, b)": 1,
    "(int4)(a, b, a, b, a).x": 1,
    "(int4)(a, b, a, b).x": 19,
    "((int4)(a)).s4": 13,
    "((int4)(a)).xyzwx": 13,
    "((int3)(a)).hi": 13,
    "((int4)(a)) + ((float4)(b))": 13,
    "((float4)(a)) * (double)b": 15,
    "((int4)(a)) ? (double)a : b": 13,
    f"a + {'b' * 3000}": 5,
    f"a + {'b' * 3000}(b)": 5,
    f"a.{'b' * 3000}": 3,
}


@pytest.mark.parametrize("text", WRONG)
def test_text_outside_the_grammar_is_refused_with_its_column(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text, np.dtype("int32"), "op")
    message = str(caught.value)
    assert f", column {WRONG[text]}: " in message and "accepted" in message
    assert len(message) < 400 and message.count("\n") == 0


def test_an_expression_of_neither_value_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"op '1 \+ 2': it uses none of a, b"):
        parse("1 + 2", np.dtype("int32"), "op")


@pytest.mark.parametrize(
    "text", ["a.pair.v + b.s0", "a.nothing", "a.pair.x0.x", "a.pair + b.pair", "!a.pair", "a ? b : a", "a.vector.w"]
)
def test_members_that_no_value_has(text: str) -> None:
    with pytest.raises(InvalidArgument, match="column"):
        parse(text, RECORD, "op")


@pytest.mark.parametrize("text", ["a.pair", "a.vector", "a.vector.xy", "(float2)(a.s0)"])
def test_results_of_another_type(text: str) -> None:
    fields = {"pair": "a.pair", "vector": "a.vector", "é": "a.é", "s0": text}
    with pytest.raises(InvalidArgument, match=r"column 1: the expression gives .*, which does not convert to uchar; "):
        operator_text(fields, RECORD)
    with pytest.raises(InvalidArgument, match="record"):
        operator_text(text, RECORD)


def test_no_listed_function_takes_a_pointer_or_reads_more_than_its_arguments() -> None:
    with_pointers = "fract frexp lgamma_r modf remquo sincos vload4 vstore4 vload_half async_work_group_copy prefetch"
    others = "get_global_id barrier mem_fence atomic_add atom_add printf read_imagef wait_group_events to_global"
    assert not FUNCTIONS & {*with_pointers.split(), *others.split()}
    assert not any(name.startswith(("v", "atom", "async", "get_", "read_", "write_", "work_")) for name in FUNCTIONS)


# --- limits -------------------------------------------------------------------------------------------------


LARGE = {
    "a+b" + "+0" * 8000: "16003 characters",
    "(" * 20000 + "a+b" + ")" * 20000: "40003 characters",
    "a" * 10**6: "characters",
    "(" * 2000 + "a+b": f"column {DEEPEST + 1}: more than {DEEPEST} brackets",
    "max(" * 500 + "a": "brackets are open",
    "a+b" + "+0" * 2000: f"more than {MOST_NODES} operands",
    "- " * 2000 + "a": f"more than {MOST_NODES} operands",
    "!" * 4000 + "a": f"more than {MOST_NODES} operands",
    "a*b" + "/a*b" * 100: "column 1: its C source has 303 nested brackets",
    "a?b:" * 1000 + "a": f"more than {MOST_NODES} operands",
}


@pytest.mark.parametrize("text", LARGE, ids=[text[:12] for text in LARGE])
def test_large_texts_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        operator_text(text, "int32")
    assert LARGE[text] in str(caught.value) and len(str(caught.value)) < 400


def test_a_long_text_within_the_limits_is_accepted() -> None:
    operator_text("(int)" * 800 + "a" + "+b" * 40, "int32")


def _deepened(levels: int, function: Any) -> Any:
    return function() if levels <= 0 else _deepened(levels - 1, function)


@pytest.mark.parametrize("text", ["(" * DEEPEST + "a" + ")" * DEEPEST + " + b", "a+b" + "+1" * 400, "- " * 900 + "a"])
def test_the_depth_of_the_callers_stack_does_not_matter(text: str) -> None:
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]
    found = _deepened(sys.getrecursionlimit() - used - 60, lambda: operator_text(text, "int32"))
    assert found.body.startswith("return ")


# --- the tree and its text ----------------------------------------------------------------------------------


def _c(text: str, dtype: Any = "int32") -> str:
    return operator_text(text, dtype).body.removeprefix("return ").removesuffix(";")


@pytest.mark.parametrize(
    ("text", "dtype", "want"),
    [
        ("b+b", "f4", "(b + b)"),
        ("  ((b))\t+(b) ", "f4", "(b + b)"),
        ("a - (b - a)", "f4", "(a - (b - a))"),
        ("a * (b + a) / b", "f4", "(a * (b + a) / b)"),
        ("a - - b", "f4", "(a - -b)"),
        ("a < b < a", "f4", "((a < b) < a)"),
        ("a<b&&b<a||!a", "f4", "((a < b && b < a) || !a)"),
        ("a ? b : a ? a : b", "i4", "(a ? b : a ? a : b)"),
        ("(a ? b : a) ? a : b", "i4", "((a ? b : a) ? a : b)"),
        ("b + b", "i4", "(as_int((uint)b + (uint)b))"),
        ("a - 0x1F + b * 010", "i4", "(as_int((uint)a - 31u + (uint)b * 8u))"),
        ("-a", "i8", "(as_long(-(ulong)a))"),
        ("b + b", "u4", "(b + b)"),
        ("a / 4 % b", "i4", "(lane_truncmod_int(a / 4, b))"),
        ("fma(a, b, 1)", "f4", "(fma(a, b, (float)1))"),
        ("(float)a", "i4", "(lane_float_to_int((float)a))"),
        ("a || b", "?", "((a || b) != 0)"),
        ("a + 1", cltypes.char4, "(as_char4(as_uchar4(a) + as_uchar4((char4)((char)1))))"),
        ("a.lo", "c8", None),
        ("(float2)(a.x, b.y)", "c8", "((float2)(a.x, b.y))"),
    ],
)
def test_text_that_is_compiled(text: str, dtype: Any, want: str | None) -> None:
    if want is not None:
        assert _c(text, dtype) == want
    else:
        assert _c(text, dtype).startswith("((float2)(")


@pytest.mark.parametrize("number", ["3.40282347e+38f", "1.7976931348623157e308", "65519.0h", "0x1.fffffep127f"])
def test_the_largest_numbers_are_accepted_as_c_rounds_them(number: str) -> None:
    assert _c(f"a + {number}", "f4") == f"(a + {number})"


@pytest.mark.parametrize("number", ["3.4028236e38f", "1.7976931348623159e308", "65520.0h", "0x1p128f", "0x1p1024"])
def test_numbers_that_round_to_infinity_are_refused(number: str) -> None:
    with pytest.raises(InvalidArgument, match=r"column 5: .* is too large; numbers up to .* are accepted"):
        operator_text(f"a + {number}", "float32")


def test_a_literal_that_only_a_uint_holds_takes_its_type() -> None:
    assert "(rotate(a, (uint)3000000000))" in _c("rotate(a, 3000000000)", "u4")
    assert _c("a + 3000000000", cltypes.uint4) == "(a + (uint4)((uint)3000000000))"
    assert _c("a + 3000000000", "u4") == "(as_long((ulong)a + 3000000000UL))"  # C's type
    with pytest.raises(InvalidArgument, match=r"no larger than the vector's component type .*; use convert_TYPE"):
        operator_text("a + 3000000000L", cltypes.uint4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = b", "'=' (an assignment) is not accepted"),
        ("a++ + b", "'++' (an increment) is not accepted"),
        ("max(a)", "max is given 1 argument; 2 are accepted"),
        ("abs(a, b, a)", "abs is given 3 arguments; 1 is accepted"),
    ],
)
def test_errors_name_the_fault(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        operator_text(text, "int32")
    assert message in str(caught.value)


def test_operators_bind_as_in_c() -> None:
    levels = {symbol: level for level, row in enumerate(expressions.LEVELS) for symbol in row}
    for first in levels:
        for second in levels:
            tree = parse(f"a {first} b {second} a", np.dtype("int32"), "op")
            assert tree.symbol == (first if levels[first] < levels[second] else second), (first, second)
        assert parse(f"-a {first} ~b", np.dtype("int32"), "op").symbol == first
        assert parse(f"(int)a {first} b", np.dtype("int32"), "op").symbol == first
        assert parse(f"a {first} b ? a {first} b : a {first} b", np.dtype("int32"), "op").symbol == "?"


def test_members_are_called_by_their_names_in_c() -> None:
    body = operator_text({"pair": "a.pair", "vector": "a.vector", "é": "a.é", "s0": "a.pair.in"}, RECORD).body
    assert "a.pair.in" in body and "é" not in body and "a.m_xc3a9" in body


@pytest.mark.parametrize(
    ("text", "iterations"),
    [
        ("fmod(a, b)", 278),
        ("fmod(a, b) + remainder(b, fmod(a, 2.0f))", 3 * 278),
        ("fmod((float4)(a), 3.0f).x", None),
        ("((float4)(fmod((float4)(a), 3.0f))).x + b", 4 * 278),
        ("a + b", 0),
    ],
)
def test_iterations_of_remainders_are_counted_by_component(text: str, iterations: int | None) -> None:
    if iterations is None:
        assert operator_text(text, "float32").iterations == 4 * 278
    else:
        assert operator_text(text, "float32").iterations == iterations


def test_helpers_and_extensions_stand_before_the_function() -> None:
    assert "lane_truncdiv_int(int first" in operator_text("a / b", "int32").declarations
    assert "cl_khr_fp16" in operator_text("(float)(half)a + b", "float32").declarations
    assert operator_text("a + b", "float32").declarations == ""


# --- properties ---------------------------------------------------------------------------------------------


def _tried(text: str) -> None:
    for dtype in DTYPES:
        try:
            operator_text(text, dtype)
        except InvalidArgument as error:
            assert len(str(error)) < 600


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    _tried(text)


@settings(max_examples=100)
@given(st.text(max_size=12), st.sampled_from(["a + {}", "{}(a)", "a.{}", "(a {} b)"]))
def test_no_text_in_an_expression_raises_anything_else(part: str, around: str) -> None:
    _tried(around.format(part))


WORDS = """
    a b c ( ) ( ) , . ? : + - * / % << >> < > <= >= == != & ^ | && || ! ~ = += ++ -- [ ] ; x s0 s0123 lo pair x0 in
    max(a,b) max( fma( (int) (float) (char) (float4) (float4)( as_int( convert_uchar_sat( convert_float( select(
    1 0 08 0x1F 1.5 1.5f .5 1e9 1e99f 7u 5L 18446744073709551615u INFINITY NAN M_PI INT_MIN sizeof int void
    and or not if else is lambda True ** a**b a<b<a a+b a?b:a \0 é ² // /* ' " \\ $T ${a} # @ ->
""".split()
WORDS += [" ", "\t", "\n", "\ud800"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=24))
def test_no_soup_of_words_raises_anything_else(words: list[str]) -> None:
    _tried(" ".join(words))
    _tried("".join(words))


def _random_expression(random: Random) -> str:
    values = np.zeros(1, expressions.record_dtype(True))
    return expressions.Expressions(random, values, values, fp64=True, loops=True).any(random.randrange(6)).text


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.integers(0, 4))
def test_no_changed_expression_raises_anything_else(random: Random, changes: int) -> None:
    text = list(_random_expression(random))
    for _ in range(changes):
        place = random.randrange(len(text) + 1)
        text[place : place + random.randrange(3)] = random.choice(["", *"()*& ,0.?:x"])
    dtype = expressions.record_dtype(True)
    with contextlib.suppress(InvalidArgument):
        parse("".join(text), dtype, "op")


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_a_printed_tree_gives_the_same_tree(random: Random) -> None:
    dtype, text = expressions.record_dtype(True), _random_expression(random)
    try:
        tree = parse(f"({text}) * a.m_int", dtype, "op")
    except InvalidArgument as error:
        assert len(text) > LONGEST - 20 or "more than" in str(error)
        reject()
    printed = expressions.source_text(tree)
    if len(printed) <= LONGEST:
        assert parse(printed, dtype, "op") == tree
        assert expressions.source_text(parse(printed, dtype, "op")) == printed
    assert fold(tree, lambda node, below: 1 + sum(below)) <= MOST_NODES
