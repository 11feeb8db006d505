"""Expressions of arrays beside NumPy and PyTorch, in bytes per second of the arrays and the result."""

from __future__ import annotations

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """2^24 float32 in Fields."""
    n = 1 << (18 if quick else 24)
    x, y = np.random.default_rng(0).standard_normal((2, n), np.float32)
    fields = {name: pydp.field(one, device=device) for name, one in {"x": x, "y": y}.items()}
    half = np.float32(0.5)
    cases = [
        ("2 * x + y", lambda: 2 * x + y, lambda torch, x, y: 2 * x + y),
        ("x > y ? x * x : 0.5 * y", lambda: np.where(x > y, x * x, half * y),
         lambda torch, x, y: torch.where(x > y, x * x, 0.5 * y)),
        ("exp(-x * x) + sin(y)", lambda: np.exp(-x * x) + np.sin(y),
         lambda torch, x, y: torch.exp(-x * x) + torch.sin(y)),
    ]  # fmt: skip
    rows = []
    for text, theirs, torchs in cases:
        np.testing.assert_allclose(pydp.evaluate(text, **fields).get(), theirs(), rtol=1e-4, atol=1e-5)
        copy = Limits(device).copy(x.nbytes)

        def on_device(text: str = text) -> None:
            pydp.evaluate(text, **fields)
            device.queue.finish()

        calls: peers.Candidates = {"pydp": on_device, "copy kernel": copy, "NumPy": theirs}
        calls |= peers.torch(device, torchs, x, y)
        seconds = alternating(calls, repeats=5, budget=4.0, warm=2)
        seconds["copy kernel"] *= 3 * x.nbytes / copy.work
        spent = seconds["pydp"]
        ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
        rows.append(Row("evaluate", f"{text}, {n}", device.name, spent, 3 * x.nbytes / spent / 1e9, "GB/s", ratios))
    return rows
