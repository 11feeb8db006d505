"""The k largest elements against NumPy and a read of the input, in items per second."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """k = 1, 100 and 10,000 of 2^24 float32 in a Field."""
    n = 1 << (18 if quick else 24)
    x = np.random.default_rng(0).standard_normal(n, np.float32)
    field = pydp.field(x, device=device)
    ordered = np.sort(x)[::-1]
    rows = []
    for k in (1, 100, 10000):
        values, indexes = pydp.top_k(field, k)
        assert np.array_equal(values.get(), ordered[:k]) and np.array_equal(x[indexes.get()], ordered[:k])
        read = Limits(device).read(x.nbytes)
        candidates: dict[str, Any] = {
            "pydp": lambda k=k: _blocking(device, field, k),
            "read kernel": read,
            "NumPy": lambda k=k: np.sort(np.partition(x, n - k)[n - k :]),
            **peers.torch(device, lambda torch, given, k=k: torch.topk(given, k), x),
        }
        seconds = alternating(candidates, repeats=5, budget=5.0)
        seconds["read kernel"] *= x.nbytes / read.work
        spent = seconds.pop("pydp")
        ratios = {peer: took / spent for peer, took in seconds.items()}
        rows.append(Row("top_k", f"{k} of {n} float32", device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows


def _blocking(device: pydp.Device, field: Any, k: int) -> None:
    pydp.top_k(field, k)
    device.queue.finish()
