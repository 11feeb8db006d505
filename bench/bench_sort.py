"""Sorts against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """Sorts and stable argsorts of random int32 and float32, in million elements per second."""
    rows = []
    rng = np.random.default_rng(0)
    for n in (1 << 16, 1 << 20) if quick else (1 << 16, 1 << 20, 1 << 22):
        for dtype in (np.int32, np.float32):
            x = rng.integers(-(2**31), 2**31 - 1, n, dtype=np.int32).astype(dtype)
            field = pydp.field(x, device=device)
            calls: dict[str, tuple[Any, Any]] = {
                "sort": (lambda f=field: pydp.sort(f), lambda x=x: np.sort(x, kind="stable")),
                "argsort": (lambda f=field: pydp.argsort(f), lambda x=x: np.argsort(x, kind="stable")),
            }
            for name, (ours, theirs) in calls.items():

                def call(ours: Any = ours) -> None:
                    ours()
                    device.queue.finish()

                seconds = alternating({"pydp": call, "NumPy": theirs}, budget=4.0)
                rate = n / seconds["pydp"] / 1e6
                ratios = {"NumPy, stable": seconds["NumPy"] / seconds["pydp"]}
                rows.append(Row(name, f"{n} {np.dtype(dtype)}", device.name, seconds["pydp"], rate, "Mitem/s", ratios))
    return rows
