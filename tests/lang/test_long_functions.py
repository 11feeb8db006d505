"""Long and deeply nested vector functions: what is accepted works in all lowerings, the rest is refused by line."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from typing import Any

import needs
import numpy as np
import pytest

import pydp
from pydp.algorithms.forall.arguments import Arguments
from pydp.algorithms.forall.plan import translation
from pydp.errors import InvalidArgument
from pydp.lang.frontend.expressions import MOST_NESTED
from pydp.lang.frontend.statements import MOST_BLOCKS
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.source.fingerprint import fingerprint

X = np.array([3, 1, 4, 1, 5, 9], np.int32)
_numbers = itertools.count()


def made(body: str) -> Callable[..., Any]:
    """work(idx, o, a) of these lines; i is the index."""
    text = f"def work(idx, o, a):\n    i = idx[0]\n{body}\n"
    name = f"<long function {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    function: Callable[..., Any] = space["work"]
    return function


@pytest.fixture(params=["simt", "vector", "host"])
def run(request: pytest.FixtureRequest, device: Any) -> Callable[..., np.ndarray]:
    """Runs a function over an array in a mapping, or on the host."""
    needs.vector_mapping(device, request.param)
    host = request.param == "host"
    options: dict[str, Any] = {"device": "host"} if host else {"device": device, "spec": {"mapping": request.param}}

    def go(fn: Callable[..., Any], a: np.ndarray = X) -> np.ndarray:
        o = np.zeros_like(a)
        pydp.forall(len(a), fn, o, a, **options)
        return o

    return go


def terms(count: int) -> str:
    return "    o[i] = " + " + ".join(["a[i]"] * count)


@pytest.mark.sweep
@pytest.mark.parametrize("count", [200, 1000])
def test_long_sums(run: Any, count: int) -> None:
    np.testing.assert_array_equal(run(made(terms(count))), X * count)


def test_long_expressions_keep_their_order(run: Any) -> None:
    """Sums and products of floats are rounded one after the other, from the left on."""
    x = np.random.default_rng(3).random(8).astype(np.float32)
    rng = np.random.default_rng(4)
    signs = rng.choice(["+", "-", "*"], 400)
    numbers = rng.random(400).astype(np.float32)
    text = "a[i]" + "".join(f" {sign} {float(one)!r}" for sign, one in zip(signs, numbers, strict=True))
    pending = "+"
    total: np.ndarray | None = None
    factor = x
    for sign, one in zip(signs, numbers, strict=True):
        if sign == "*":
            factor = factor * one
            continue
        total = factor if total is None else total + factor if pending == "+" else total - factor
        pending, factor = sign, np.full_like(x, one)
    total = factor if total is None else total + factor if pending == "+" else total - factor
    np.testing.assert_array_equal(run(made(f"    o[i] = {text}"), x), total)


@pytest.fixture
def deep() -> Iterator[None]:
    """Python's own parser needs this for 5000 terms."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(8000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.host
def test_five_thousand_terms(deep: None) -> None:
    o = np.zeros_like(X)
    pydp.forall(len(X), made(terms(5000)), o, X, device="host")
    np.testing.assert_array_equal(o, X * 5000)


@pytest.mark.parametrize("count", [MOST_BLOCKS - 2])
def test_nested_conditions(run: Any, count: int) -> None:
    links = "".join(f"    elif a[i] == {k}:\n        o[i] = {7 * k}\n" for k in range(1, count - 1))
    chain = made(f"    if a[i] == 0:\n        o[i] = 0\n{links}    else:\n        o[i] = -1")
    np.testing.assert_array_equal(run(chain), 7 * X)
    ends = "".join(f"    if a[i] == {k}:\n        o[i] = {k + 1}\n        return\n" for k in range(count - 1))
    np.testing.assert_array_equal(run(made(f"{ends}    o[i] = -1")), X + 1)


@pytest.mark.sweep
def test_nested_calls_chains_and_statements(run: Any) -> None:
    depth = MOST_NESTED - 4
    np.testing.assert_array_equal(run(made(f"    o[i] = {'abs(' * depth}a[i] - 5{')' * depth}")), abs(X - 5))
    np.testing.assert_array_equal(run(made(f"    o[i] = 1 if {' <= '.join(['a[i]'] * 300)} else 2")), X * 0 + 1)
    tests = " and ".join(f"a[i] != {k + 4}" for k in range(300))
    np.testing.assert_array_equal(run(made(f"    o[i] = 1 if {tests} else 2")), np.where(X < 4, 1, 2))
    lines = "    s = a[i]\n" + "    s = s * 3 + 1\n" * 1000 + "    o[i] = s"
    want = X.copy()
    for _ in range(1000):
        want = want * np.int32(3) + np.int32(1)
    np.testing.assert_array_equal(run(made(lines)), want)


@pytest.mark.host
def test_what_is_nested_deeper_is_refused_by_its_line() -> None:
    o = np.zeros_like(X)
    links = "".join(f"    elif a[i] == {k}:\n        o[i] = {k}\n" for k in range(1, 2 * MOST_BLOCKS))
    with pytest.raises(VectorError, match=f"statements are nested more than {MOST_BLOCKS} levels deep") as found:
        pydp.forall(len(X), made(f"    if a[i] == 0:\n        o[i] = 0\n{links}"), o, X, device="host")
    assert MOST_BLOCKS < found.value.where.line < 3 * MOST_BLOCKS
    calls = "abs(" * (MOST_NESTED + 10) + "a[i]" + ")" * (MOST_NESTED + 10)
    with pytest.raises(VectorError, match=f"nested more than {MOST_NESTED} levels deep") as found:
        pydp.forall(len(X), made(f"    s = 1\n    o[i] = {calls}"), o, X, device="host")
    assert found.value.where.line == 4


@pytest.mark.host
def test_a_stack_that_is_nearly_full_is_no_untyped_error() -> None:
    depth = MOST_NESTED - 2
    fn = made(f"    o[i] = {'abs(' * depth}a[i]{')' * depth}")

    def call() -> None:
        pydp.forall(len(X), fn, np.zeros_like(X), X, device="host")

    with pytest.raises(InvalidArgument, match="nested too deeply for Python's recursion limit"):
        with_frames_left(250, call)
    call()


def with_frames_left(frames: int, call: Callable[[], None]) -> None:
    """call() from so deep that Python's recursion limit leaves `frames` for it."""
    used = 0
    frame: Any = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back

    def deeper(more: int) -> None:
        if more:
            deeper(more - 1)
        else:
            call()

    deeper(sys.getrecursionlimit() - used - frames)


def nested_greatest(count: int) -> Callable[..., Any]:
    """work(idx, o, a), a number, of nested calls of max, whose values are needed whole."""
    text = "max(" * count + "a + i" + "".join(f", i + {k})" for k in range(count))
    return made(f"    o[i] = {text} // 2")


def test_a_kernel_that_is_made_on_a_nearly_full_stack(device: Any) -> None:
    """The function was translated before, with frames enough."""
    count = 55
    fn, o = nested_greatest(count), np.zeros(6, np.int64)
    pydp.forall(6, fn, o, 3, device="host")
    with pytest.raises(InvalidArgument, match="work is nested too deeply for Python's recursion limit"):
        with_frames_left(140, lambda: pydp.forall(6, fn, o, 3, device=device))
    pydp.forall(6, fn, o, 5, device=device)
    assert o.tolist() == [max(5 + i, i + count - 1) // 2 for i in range(6)]


@pytest.mark.parametrize("place", ["device", "host"])
def test_new_numbers_on_a_nearly_full_stack(device: Any, place: str) -> None:
    """The function was translated and built before; whether 32 bits are enough is asked again."""
    fn, o = nested_greatest(60), np.zeros(6, np.int64)
    where = device if place == "device" else "host"
    for q in (3, 2**40):
        pydp.forall(6, fn, o, q, device=where)
    refused = 0
    for number, frames in enumerate(range(40, 260, 6)):
        q = 9 << number  # of a new magnitude each time

        def call(q: int = q) -> None:
            pydp.forall(6, fn, o, q, device=where)

        try:
            with_frames_left(frames, call)
        except InvalidArgument as error:
            assert "nested too deeply" in str(error)
            refused += 1
        call()
        assert o.tolist() == [max(q + i, i + 59) // 2 for i in range(6)]
    assert refused or place == "device"  # which takes 64 bits where it cannot tell


@pytest.mark.host
def test_an_answer_for_want_of_frames_is_not_kept() -> None:
    fn, o = nested_greatest(60), np.zeros(6, np.int64)
    given = Arguments((o, 3))
    translated = translation(fn, fingerprint(fn), 1, None, given.parts, False)
    assert translated.ranges is not None
    values, arrays = given.values, given.arrays

    def answers() -> list[bool]:
        assert translated.ranges is not None
        return [translated.ranges.fits((o, 1000 + number), arrays, (6,), (0,)) for number in range(3)]

    found: list[bool] = []
    with_frames_left(60, lambda: found.extend(answers()))
    assert values[1] == 3 and not any(found)
    assert all(answers())


@pytest.mark.host
def test_what_pythons_parser_cannot_read_is_refused() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(8000)
    fn = made(terms(6000))
    sys.setrecursionlimit(before)
    with pytest.raises(VectorError, match="nested too deeply for Python's parser"):
        pydp.forall(len(X), fn, np.zeros_like(X), X, device="host")
