"""Set operations and lexsort against NumPy, in items per second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench.measure import Row, alternating, cases_of

import pydp


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """Two Fields of 2^20 int32, of which about a tenth is in both."""
    n = 1 << (16 if quick else 20)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 10 * n, n).astype(np.int32) for _ in range(2))
    x, y = pydp.field(a, device=device), pydp.field(b, device=device)
    cases: list[tuple[str, Callable[[], Any], Callable[[], np.ndarray]]] = [
        *(
            (name, lambda name=name: getattr(pydp, name)(x, y), lambda name=name: getattr(np, name)(a, b))
            for name in ("isin", "union1d", "intersect1d", "setdiff1d", "setxor1d")
        ),
        ("lexsort", lambda: pydp.lexsort((x, y)), lambda: np.lexsort((a, b))),
    ]
    rows = []
    for case, ours, theirs in cases_of(cases, only):
        assert np.array_equal(ours().get(), theirs())

        def block(ours: Callable[[], Any] = ours) -> None:
            ours()
            device.queue.finish()

        seconds = alternating({"pydp": block, "NumPy": theirs}, repeats=5, budget=3.0)
        spent = seconds["pydp"]
        ratios = {"NumPy": seconds["NumPy"] / spent}
        name = f"{case} of {n} and {n} int32"
        rows.append(Row("sets", name, device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows
