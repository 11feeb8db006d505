"""Random Python functions of integers: the translation leaves what Python leaves, in every lane."""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_lanes import run_plain

import pydp
from pydp.lang.compile import FieldType, translate
from pydp.lang.execute import host

pytestmark = pytest.mark.host

NAMES = ("x", "y", "z")
LANES = 5
HELPER = """
def helper(p, q):
    if p > q:
        return p - q
    for h in range(3):
        p += h
        if p > q:
            return q % 7
        while p < -5:
            p += 4
            if p == q:
                return 1000
    return p * 3

def pair(p, q):
    p, q = q - 1, p + 1
    return p, q
"""


@st.composite
def numbers(draw, depth=0):
    """An expression of small integers; everything stays far from the limits of 32 bits."""
    kind = draw(st.integers(0, 3 if depth > 2 else 9))
    if kind <= 1:
        return draw(st.sampled_from((*NAMES, "i", "a[i]", "a[i + 1]", "k")))
    if kind <= 3:
        return str(draw(st.integers(-9, 9)))
    left, right = draw(numbers(depth + 1)), draw(numbers(depth + 1))
    if kind <= 5:
        return f"({left} {draw(st.sampled_from(('+', '-')))} {right})"
    if kind == 6:
        return f"({left} * ({right} % 5) // {draw(st.sampled_from((2, 3, -4)))})"
    if kind == 7:
        return f"({left} if {draw(conditions(depth + 1))} else {right})"
    if kind == 8:
        return f"helper({left}, {right})"
    return f"max({left}, min({right}, 50), -50) % 11"


@st.composite
def conditions(draw, depth=0):
    left, right = draw(numbers(depth + 1)), draw(numbers(depth + 1))
    test = f"{left} {draw(st.sampled_from(('<', '<=', '==', '!=')))} {right}"
    if depth < 2 and draw(st.booleans()):
        return f"({test} {draw(st.sampled_from(('and', 'or')))} not {draw(conditions(depth + 2))})"
    return test


@st.composite
def blocks(draw, depth, loops):
    """Lines of a block; `loops` is how many loops it is in."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, loops))
    return lines


def _in(lines):
    return [f"    {line}" for line in lines]


@st.composite
def statements(draw, depth, loops):
    kind = draw(st.integers(0, 4 if depth > 2 else 9))
    name = draw(st.sampled_from(NAMES))
    if kind <= 1:
        return [f"{name} = {draw(numbers())} % 1000"]
    if kind == 2:
        return [f"{name}, {draw(st.sampled_from(NAMES))} = pair({draw(numbers())} % 100, {name} % 100)"]
    if kind == 3:
        return [f"out[i] = (out[i] * 3 + {draw(numbers())}) % 9973"]
    if kind == 4:
        leave = ["return", "break", "continue"] if loops else ["return"]
        return [f"if {draw(conditions())}:", f"    {draw(st.sampled_from(leave))}"]
    if kind <= 7:
        lines = [f"if {draw(conditions())}:", *_in(draw(blocks(depth + 1, loops)))]
        if draw(st.booleans()):
            lines += ["else:", *_in(draw(blocks(depth + 1, loops)))]
        return lines
    if kind == 8:
        counter = draw(st.sampled_from(("k", "m")))
        head = f"for {counter} in range({draw(numbers())} % 4, {draw(numbers())} % 6, {draw(st.sampled_from((1, 2)))}):"
        return [head, *_in(draw(blocks(depth + 1, loops + 1)))]
    # a counter for each depth: an inner loop that is left must not set the outer one back
    return [f"n{depth} = 0", f"while n{depth} < 4:", f"    n{depth} += 1", *_in(draw(blocks(depth + 1, loops + 1)))]


@settings(max_examples=30)
@given(st.data())
def test_random_functions(tmp_path_factory, data):
    body = ["(i,) = idx", "k = 1", *(f"{name} = a[i] + {n}" for n, name in enumerate(NAMES))]
    body += data.draw(blocks(0, 0)) + data.draw(blocks(0, 0))
    body += ["out[i] = (out[i] * 7 + x * 3 + y * 5 + z) % 9973"]
    source = HELPER + "\ndef f(idx, out, a):\n" + "\n".join(_in(body)) + "\n"
    path = tmp_path_factory.mktemp("random") / "module.py"
    path.write_text(source)
    space = {"pydp": pydp}
    exec(compile(source, str(path), "exec"), space)
    start = np.random.default_rng(1).integers(-20, 20, LANES).astype(np.int64)
    wanted, got, hosted = (np.zeros(LANES, np.int64) for _ in range(3))
    run_plain(space["f"], (LANES,), None, [wanted, start])
    kind = FieldType(np.dtype(np.int64), 1)
    made = translate(space["f"], 1, None, [kind, kind])
    interpreter.run(made, (LANES,), None, [got, start], {})
    np.testing.assert_array_equal(got, wanted, source)
    host.run(made, (LANES,), None, [hosted, start], {})
    np.testing.assert_array_equal(hosted, wanted, source)
