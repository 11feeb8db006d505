"""The reference of pydp.evaluate: equal to NumPy's own expressions, to results of devices, and able to find faults."""

from __future__ import annotations

import re
from typing import Any

import needs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pydp
from pydp.errors import UnsupportedOnDevice
from pydp.tuning.reference import difference, expected, hosts

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 40, 50)).astype(np.float32)
N, M = RNG.integers(-9, 10, (2, 40, 50)).astype(np.int32)
VALUES = {"x": X, "y": Y, "n": N, "m": M, "u": M.astype(np.uint8), "b": N > 0, "row": X[0], "k": 3, "s": np.float32(2)}
OWN: dict[str, Any] = {
    "2 * x + y / 3 - 1.5": lambda: 2 * X + Y / 3 - 1.5,
    "n * m + (n & m) - (n | 3) ^ (m << 2)": lambda: N * M + (N & M) - (N | 3) ^ (M << 2),
    "n % m + -n % 5": lambda: N % M + -N % 5,
    "n < m && !(n == 3) || m != n": lambda: (N < M) & ~(N == 3) | (M != N),
    "n & m == 3": lambda: N & (M == 3),
    "x > y ? x : y > 0 ? y : -1": lambda: np.where(X > Y, X, np.where(Y > 0, Y, np.float32(-1))),
    "where(n > 0, n, 0) << 2 >> 1": lambda: np.where(N > 0, N, np.int32(0)) << 2 >> 1,
    "(int)x + n - (uchar)(n)": lambda: X.astype(np.int32) + N - N.astype(np.uint8),
    "sqrt(fabs(x)) + hypot(x, y)": lambda: np.sqrt(np.abs(X)) + np.hypot(X, Y),
    "sin(x) * exp(-y * y) + arctan2(x, y)": lambda: np.sin(X) * np.exp(-Y * Y) + np.arctan2(X, Y),
    "maximum(x, y) - min(x, 0.5)": lambda: np.maximum(X, Y) - np.minimum(X, 0.5),
    "clip(n, -2, 3) + abs(m)": lambda: np.clip(N, -2, 3) + np.abs(M),
    "floor(x) + ceil(y) + floor(n)": lambda: np.floor(X) + np.ceil(Y) + N,
    "isnan(x / (x - x)) | b": lambda: np.isnan(X / (X - X)) | (N > 0),
    "row * k + s * x + (2 * 3 - 7 / 2)": lambda: X[0] * 3 + np.float32(2) * X + 2.5,
    "u * 0x1F + 7u": lambda: M.astype(np.uint8) * 31 + np.uint32(7),
    "~n + 1L": lambda: ~N + np.int64(1),
    "log(x * x) - 1e-3f": lambda: np.log(X * X) - np.float32(1e-3),
}


def _expected(text: str) -> Any:
    return expected(pydp.evaluate, (text,), VALUES)


@pytest.mark.host
@pytest.mark.parametrize("text", OWN)
def test_values_are_numpys(text: str) -> None:
    (found,) = _expected(text)
    with np.errstate(all="ignore"):
        right = OWN[text]()
    assert found.values.dtype == right.dtype
    np.testing.assert_array_equal(found.values, right)


@pytest.mark.parametrize("text", OWN)
def test_results_of_devices(device: Any, text: str) -> None:
    want = _expected(text)
    needs.dtype(device, want[0].values.dtype)
    got = hosts(pydp.evaluate(text, device=device, **VALUES))
    assert difference(got, want) is None
    wrong = got[0].copy()
    finite = np.argwhere(np.isfinite(wrong))[7]
    wrong[tuple(finite)] = ~wrong[tuple(finite)] if wrong.dtype == bool else wrong[tuple(finite)] * 2 + 100
    assert str(difference([wrong], want)).startswith("1 of ")


# --- random expressions of random arrays ----------------------------------------------------------------------

BINARY = "+ - * / % & | ^ < > <= >= == != && ||".split()
ONE = "abs sqrt exp sin floor ceil trunc rint sign isnan arctan log1p cbrt".split()
TWO = "min max maximum minimum hypot arctan2 copysign fmod remainder floor_divide".split()
SHAPES = [(), (1,), (37,), (5, 1), (5, 37), (2, 5, 37), (2, 1, 1), (0, 37)]
OLD = 0x5A


def _text(data: st.DataObject, depth: int) -> str:
    if depth == 0 or data.draw(st.integers(0, 5)) == 0:
        return data.draw(st.sampled_from(["a", "b", "c", "a", "b", "c", "2", "-3", "0.5"]))
    first, second = _text(data, depth - 1), _text(data, depth - 1)
    form = data.draw(st.sampled_from(["binary", "binary", "one", "two", "where", "choice", "clip", "negated"]))
    if form == "binary":
        return f"({first} {data.draw(st.sampled_from(BINARY))} {second})"
    if form in ("one", "two"):
        name = data.draw(st.sampled_from(ONE if form == "one" else TWO))
        return f"{name}({first})" if form == "one" else f"{name}({first}, {second})"
    third = _text(data, depth - 1)
    return {
        "where": f"where({first} > 0, {second}, {third})",
        "choice": f"({first} < 1 ? {second} : {third})",
        "clip": f"clip({first}, 0, 3)",
        "negated": f"(- {first})",
    }[form]


def _array(data: st.DataObject, dtype: np.dtype) -> np.ndarray:
    shape = data.draw(st.sampled_from(SHAPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    steps = [data.draw(st.sampled_from([1, 1, 2, -1])) for _ in shape]
    sizes = [abs(step) * n for step, n in zip(steps, shape, strict=True)]
    x = rng.integers(0 if dtype.kind in "ub" else -4, 2 if dtype.kind == "b" else 5, sizes)
    return x.astype(dtype)[tuple(slice(None, None, step) for step in steps)]


@settings(max_examples=60)
@given(data=st.data())
def test_any_expression(device: Any, data: st.DataObject) -> None:
    """Text, dtypes, shapes, strides and kinds of arrays are drawn; memory around the result keeps its bytes."""
    dtypes = [one for one in map(np.dtype, "? i1 u1 i2 i4 u4 i8 f4 f8".split()) if needs.has(device, one)]
    text = _text(data, 3)
    names = sorted(set(re.findall(r"\b[abc]\b", text)))
    values: dict[str, Any] = {name: _array(data, data.draw(st.sampled_from(dtypes))) for name in names}
    want = expected(pydp.evaluate, (text,), values)
    assume(values and want is not None and needs.has(device, want[0].values.dtype))
    if data.draw(st.booleans()):
        values = {name: pydp.field(one) for name, one in values.items()}
    shape, dtype = want[0].values.shape, want[0].values.dtype
    memory = np.full((*(n + 4 for n in shape), dtype.itemsize), OLD, np.uint8)
    out = memory.view(dtype)[..., 0][tuple(slice(2, 2 + n) for n in shape)]
    try:
        got = hosts(pydp.evaluate(text, **values))
    except UnsupportedOnDevice:  # a part needs a type that the device lacks
        assume(False)
    if shape:
        pydp.evaluate(text, out=out, **values)
    assert difference(got, want) is None, (text, values)
    if shape:
        assert difference([out], want) is None, text
        memory[tuple(slice(2, 2 + n) for n in shape)] = OLD
        assert (memory == OLD).all(), text


@pytest.mark.host
@pytest.mark.parametrize("text", ["popcount(n)", "2 + 3", "x +", "x @ y", "(x", "z + x", "n ? 1 : 0", "1 % 0 + n"])
def test_without_reference(text: str) -> None:
    assert _expected(text) is None
