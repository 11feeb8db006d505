"""Keys for the tests of the radix sorts, and NumPy's stable order as their reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
KINDS = ["random", "sorted", "reversed", "equal", "few", "organ", "sawtooth", "skew1", "skew99", "near", "special"]
_SPECIAL = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.0, -1.0]


def made(dtype: Any, n: int, kind: str, seed: int) -> np.ndarray:
    """n keys of this kind; bools are always random."""
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if dtype.kind == "f" and kind != "random":
        keys = (rng.standard_normal(n) * 10.0 ** rng.integers(-9, 5)).astype(dtype)
    else:  # any bits: every NaN, infinity and denormal number
        keys = np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).copy()
    if kind == "sorted":
        return np.sort(keys)
    if kind == "reversed":
        return np.sort(keys)[::-1].copy()
    if kind == "equal":
        return np.full(n, keys[0] if n else 0, dtype)
    if kind == "few":
        return keys[rng.integers(0, min(n, 5), n)] if n else keys
    if kind == "organ":
        return (n // 2 - abs(np.arange(n) - n // 2)).astype(dtype)
    if kind == "sawtooth":
        return (np.arange(n) % 97).astype(dtype)
    if kind in ("skew1", "skew99"):
        keys[rng.random(n) < (0.01 if kind == "skew1" else 0.99)] = 1
    if kind == "near":  # equal high bits
        keys.view(f"u{dtype.itemsize}")[:] >>= np.array(dtype.itemsize * 7, f"u{dtype.itemsize}")
    if kind == "special":
        with np.errstate(invalid="ignore"):
            values = _SPECIAL if dtype.kind == "f" else [np.iinfo(dtype).min, np.iinfo(dtype).max, 0]
            keys[: n // 2] = np.array(values, dtype)[rng.integers(0, len(values), n // 2)]
    return keys


def indices(x: np.ndarray, descending: bool = False, axis: int = -1) -> np.ndarray:
    """The indexes that sort x stably; equal keys keep their order in descending sorts, too."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
