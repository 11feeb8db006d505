"""Random numbers beside NumPy's Generator, PyTorch and a kernel that only stores, in numbers per second."""

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
    """2^24 numbers into a Field: uniform, normal, integers; permutations of a Field."""
    n = 1 << (18 if quick else 24)
    rng, theirs = pydp.random.Generator(0), np.random.default_rng(0)
    cases: list[tuple[str, Any, Callable[[Any], Any], Callable[[Any], Any], Any]] = [
        ("random", np.float32, lambda out: rng.random(out=out), lambda out: theirs.random(dtype=np.float32, out=out),
         lambda torch, x: x.uniform_()),
        ("uniform from -1 to 1", np.float32, lambda out: rng.uniform(-1, 1, out=out),
         lambda out: theirs.uniform(-1, 1, out.size), lambda torch, x: x.uniform_(-1, 1)),
        ("normal", np.float32, lambda out: rng.normal(out=out),
         lambda out: theirs.standard_normal(dtype=np.float32, out=out), lambda torch, x: x.normal_()),
        ("standard_normal", np.float32, lambda out: rng.standard_normal(out=out),
         lambda out: theirs.standard_normal(dtype=np.float32, out=out), lambda torch, x: x.normal_()),
        ("integers below 1000", np.int32, lambda out: rng.integers(1000, dtype=np.int32, out=out),
         lambda out: theirs.integers(1000, size=out.size, dtype=np.int32), lambda torch, x: x.random_(1000)),
        ("permutation", np.float32, lambda out: rng.permutation(out), lambda out: theirs.permutation(out),
         lambda torch, x: x[torch.randperm(x.numel())]),
        ("shuffle", np.float32, lambda out: rng.shuffle(out), lambda out: theirs.shuffle(out), None),
    ]  # fmt: skip
    if device.profile.fp64:
        cases += [
            ("random", np.float64, lambda out: rng.random(dtype=np.float64, out=out),
             lambda out: theirs.random(out=out), lambda torch, x: x.uniform_()),
            ("normal", np.float64, lambda out: rng.normal(dtype=np.float64, out=out),
             lambda out: theirs.standard_normal(out=out), lambda torch, x: x.normal_()),
        ]  # fmt: skip
    rows = []
    for name, dtype, ours, numpys, torchs in cases_of(cases, only):
        field, host = pydp.empty(n, dtype, device), np.zeros(n, dtype)
        copy = Limits(device).copy(host.nbytes)

        def on_device(ours: Any = ours, field: Any = field) -> None:
            ours(field)
            device.queue.finish()

        calls: peers.Candidates = {"pydp": on_device, "copy kernel": copy, "NumPy": partial(numpys, host)}
        calls |= peers.torch(device, torchs, host) if torchs is not None else {}
        seconds = alternating(calls, repeats=5, budget=4.0, warm=2)
        seconds["copy kernel"] *= 2 * host.nbytes / copy.work
        spent = seconds["pydp"]
        ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
        case = f"{name} {np.dtype(dtype).name}, {n}"
        rows.append(Row("random", case, device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows
