"""Binary searches and set operations against NumPy, in items per second."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """2^22 random queries in 2^22 sorted elements, and sorted queries."""
    n = 1 << (16 if quick else 22)
    rng = np.random.default_rng(0)
    a = np.sort(rng.standard_normal(n, np.float32))
    v = rng.standard_normal(n, np.float32)
    rows = []
    for case, values in (("random", v), ("sorted", np.sort(v))):
        table, queries = pydp.field(a, device=device), pydp.field(values, device=device)
        assert np.array_equal(pydp.searchsorted(table, queries).get(), np.searchsorted(a, values))
        candidates: dict[str, Any] = {
            "pydp": lambda table=table, queries=queries: _blocking(device, table, queries),
            "NumPy": lambda values=values: np.searchsorted(a, values),
            **peers.torch(device, lambda torch, *given: torch.searchsorted(*given), a, values),
        }
        seconds = alternating(candidates, repeats=5, budget=5.0)
        spent = seconds.pop("pydp")
        ratios = {peer: took / spent for peer, took in seconds.items()}
        name = f"searchsorted: {n} {case} values in {n} float32"
        rows.append(Row("search", name, device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows


def _blocking(device: pydp.Device, table: Any, queries: Any) -> None:
    pydp.searchsorted(table, queries)
    device.queue.finish()
