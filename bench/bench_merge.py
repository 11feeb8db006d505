"""Merges of sorted arrays against NumPy and a copy kernel, in items per second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating, cases_of

import pydp


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """Two Fields of 2^23 sorted float32 each, alone and with int32 values."""
    n = 1 << (17 if quick else 23)
    rng = np.random.default_rng(0)
    a, b = (np.sort(rng.standard_normal(n, np.float32)) for _ in range(2))
    indexes = np.arange(n, dtype=np.int32)
    x, y, values = (pydp.field(one, device=device) for one in (a, b, indexes))

    def by_numpy() -> np.ndarray:
        return np.sort(np.concatenate([a, b]), kind="stable")  # finds the two runs and merges them

    assert np.array_equal(pydp.merge(x, y).get(), by_numpy())
    cases: list[tuple[str, int, Callable[[], Any]]] = [
        ("merge", 4, lambda: pydp.merge(x, y)),
        ("merge_by_key", 8, lambda: pydp.merge_by_key(x, values, y, values)),
    ]
    rows = []
    for case, item, ours in cases_of(cases, only):
        copy = Limits(device).copy(2 * n * item)
        candidates: peers.Candidates = {"pydp": _blocking(device, ours), "copy kernel": copy, "NumPy": by_numpy}
        seconds = alternating(candidates, repeats=5, budget=5.0)
        seconds["copy kernel"] *= 4 * n * item / copy.work  # scaled to a read and a write of each element
        spent = seconds.pop("pydp")
        ratios = {peer: took / spent for peer, took in seconds.items()}
        name = f"{case} of {n} and {n} float32"
        rows.append(Row("merge", name, device.name, spent, 2 * n / spent / 1e9, "Gitem/s", ratios))
    return rows


def _blocking(device: pydp.Device, call: Callable[[], Any]) -> Callable[[], None]:
    def block() -> None:
        call()
        device.queue.finish()

    return block
