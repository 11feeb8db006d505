"""The reference of pydp.evaluate: equal to NumPy's own expressions, to results of devices, and able to find faults."""

from __future__ import annotations

from typing import Any

import needs
import numpy as np
import pytest

import pydp
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


@pytest.mark.host
@pytest.mark.parametrize("text", ["popcount(n)", "2 + 3", "x +", "x @ y", "(x", "z + x", "n ? 1 : 0", "1 % 0 + n"])
def test_without_reference(text: str) -> None:
    assert _expected(text) is None
