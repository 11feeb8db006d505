"""Histograms against NumPy's, in items per second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pydp.bench.measure import Row, alternating, cases_of

import pydp


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """Counts of bytes and integers, with even and uneven bins, on device data and on NumPy arrays."""
    n = 1 << (20 if quick else 26)
    few = n // 4
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, n).astype(np.uint8)
    wide = rng.integers(0, 1000, few).astype(np.int32)
    real = rng.random(few, dtype=np.float32)
    shares = rng.random(few, dtype=np.float32)
    given_shares = pydp.field(shares, device=device)
    spread = np.logspace(-6, 0, 65)
    edges = np.sort(rng.random(65)).astype(np.float32)
    edges[0], edges[-1] = 0, 1
    cases: list[tuple[str, np.ndarray, Callable[[Any], Any], Callable[[Any], Any]]] = [
        (f"bincount of {n} uint8", small, pydp.bincount, np.bincount),
        (f"bincount of {few} int32 below 1000", wide, pydp.bincount, np.bincount),
        (
            f"100 even bins of {few} float32",
            real,
            lambda x: pydp.histogram(x, 100, (0, 1))[0],
            lambda x: np.histogram(x, 100, (0, 1))[0],
        ),
        (
            f"64 uneven bins of {few} float32",
            real,
            lambda x: pydp.histogram(x, edges)[0],
            lambda x: np.histogram(x, edges)[0],
        ),
        (
            f"64 bins with logarithmic edges of {few} float32",
            real,
            lambda x: pydp.histogram(x, spread)[0],
            lambda x: np.histogram(x, spread)[0],
        ),
        (
            f"100 even bins of {few} float32 with float32 weights",
            real,
            lambda x: pydp.histogram(x, 100, (0, 1), weights=given_shares)[0],
            lambda x: np.histogram(x, 100, (0, 1), weights=shares)[0],
        ),
    ]
    rows = []
    for case, x, ours, theirs in cases_of(cases, only):
        field = pydp.field(x, device=device)
        np.testing.assert_allclose(ours(field).get(), theirs(x), rtol=1e-5 if "weights" in case else 0)
        candidates = {"pydp": partial(_counts, ours, field), "NumPy": partial(theirs, x)}
        seconds = alternating(candidates, repeats=5, budget=5.0)
        spent = seconds["pydp"]
        rows.append(
            Row(
                "histogram",
                case,
                device.name,
                spent,
                x.size / spent / 1e9,
                "Gitem/s",
                {"NumPy": seconds["NumPy"] / spent},
            )
        )
    return rows


def _counts(count: Callable[[Any], Any], field: Any) -> np.ndarray:
    """The counts, copied to the host to wait for them."""
    return np.asarray(count(field).get())
