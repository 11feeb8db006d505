"""The k largest elements, and partitions at a position, against NumPy and a read of the input, in items per second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating, cases_of

import pydp


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """k = 1, 100 and 10,000 of 2^24 float32 in a Field, and partitions of it at the median."""
    n = 1 << (18 if quick else 24)
    x = np.random.default_rng(0).standard_normal(n, np.float32)
    field = pydp.field(x, device=device)
    ordered = np.sort(x)[::-1]
    rows: list[Row] = []
    for k in () if only == "argpartition" else (1, 100, 10000):
        values, indexes = pydp.top_k(field, k)
        assert np.array_equal(values.get(), ordered[:k]) and np.array_equal(x[indexes.get()], ordered[:k])
        reads = Limits(device).reads(x.nbytes, field)
        candidates: dict[str, Any] = {
            "pydp": _finished(device, pydp.top_k, field, k),
            **reads,
            "NumPy": lambda k=k: np.sort(np.partition(x, n - k)[n - k :]),
            **peers.torch(device, lambda torch, given, k=k: torch.topk(given, k), x),
        }
        seconds = alternating(candidates, repeats=25, budget=6.0)
        seconds |= {name: seconds[name] * x.nbytes / read.work for name, read in reads.items()}
        spent = seconds.pop("pydp")
        ratios = {peer: took / spent for peer, took in seconds.items()}
        rows.append(Row("top_k", f"{k} of {n} float32", device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows + _partitions(device, field, x, only)


def _partitions(device: pydp.Device, field: Any, x: np.ndarray, only: str) -> list[Row]:
    """partition and argpartition at the median, against NumPy's, a sort and a read of the input."""
    n, rows = x.size, []
    middle = np.partition(x, n // 2)[n // 2]
    cases = (
        ("partition", pydp.partition, pydp.sort, np.partition),
        ("argpartition", pydp.argpartition, pydp.argsort, np.argpartition),
    )
    for name, ours, sorts, theirs in cases_of(cases, only):
        found = ours(field, n // 2).get()
        found = x[found] if name == "argpartition" else found
        assert found[n // 2] == middle and found[: n // 2].max() <= middle <= found[n // 2 :].min()
        reads = Limits(device).reads(x.nbytes, field)
        seconds = alternating(
            {
                "pydp": _finished(device, ours, field, n // 2),
                **reads,
                f"pydp.{sorts.__name__}": _finished(device, sorts, field),
                "NumPy": partial(theirs, x, n // 2),
            },
            repeats=5,
            budget=5.0,
        )
        seconds |= {name: seconds[name] * x.nbytes / read.work for name, read in reads.items()}
        spent = seconds.pop("pydp")
        ratios = {peer: took / spent for peer, took in seconds.items()}
        rows.append(Row("top_k", f"{name} of {n} float32", device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows


def _finished(device: pydp.Device, function: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    def run() -> None:
        function(*arguments)
        device.queue.finish()

    return run
