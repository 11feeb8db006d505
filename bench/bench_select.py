"""Selections and runs against NumPy, pydp's scan and a copy kernel, in items per second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating, cases_of

import pydp


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """2^24 elements in Fields: half of them kept by a predicate and by a mask, indexes, partitions, sorted runs."""
    n = 1 << (18 if quick else 24)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n, np.float32)
    runs = np.sort(rng.integers(0, n // 10, n)).astype(np.float32)
    keys = runs.astype(np.int32)
    bits = (x > 0).astype(np.int32)
    side = 1 << (n.bit_length() // 2)
    square_bits = bits.reshape(side, -1)
    heads = np.flatnonzero(np.diff(keys, prepend=-1))
    field, mask, zeros, sorted_field, key_field = (
        pydp.field(one, device=device) for one in (x, x > 0, bits, runs, keys)
    )
    square = zeros.reshape(side, -1)
    cases: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
        ("select x > 0", lambda: pydp.select(field, "x > 0"), lambda: x[x > 0]),
        ("select by mask", lambda: pydp.select(field, mask=mask), lambda: x[bits != 0]),
        ("flatnonzero", lambda: pydp.flatnonzero(zeros), lambda: np.flatnonzero(bits)),
        ("nonzero of rows", lambda: pydp.nonzero(square)[1], lambda: np.nonzero(square_bits)[1]),
        ("argwhere of rows", lambda: pydp.argwhere(square), lambda: np.argwhere(square_bits)),
        ("compress", lambda: pydp.compress(mask, field), lambda: np.compress(bits != 0, x)),
        ("partition x > 0", lambda: pydp.partition(field, "x > 0")[0], lambda: np.concatenate([x[x > 0], x[x <= 0]])),
        ("partition into three parts", lambda: pydp.partition(field, "x > 0.5f", second="x < -0.5f")[0],
         lambda: np.concatenate([x[x > 0.5], x[x < -0.5], x[np.abs(x) <= 0.5]])),
        ("run_length_encode, runs of 10", lambda: pydp.run_length_encode(sorted_field)[0], lambda: runs[heads]),
        ("unique of sorted elements", lambda: pydp.unique(sorted_field), lambda: np.unique(runs)),
        ("reduce_by_key, runs of 10", lambda: pydp.reduce_by_key(key_field, zeros)[1],
         lambda: np.add.reduceat(bits, heads)),
    ]  # fmt: skip
    rows = []
    for case, ours, theirs in cases_of(cases, only):
        np.testing.assert_array_equal(ours().get(), theirs())
        copies = Limits(device).copies(x.nbytes, field)
        seconds = alternating(
            {
                "pydp": _blocking(device, ours),
                **copies,
                "scan": _blocking(device, lambda: pydp.scan(field)),
                "NumPy": theirs,
            },
            repeats=5,
            budget=5.0,
        )
        for name, copy in copies.items():
            seconds[name] *= 2 * x.nbytes / copy.work  # scaled to a read and a write of each element
        ratios = {peer: took / seconds["pydp"] for peer, took in seconds.items() if peer != "pydp"}
        spent = seconds["pydp"]
        rows.append(Row("select", f"{case} of {n}", device.name, spent, n / spent / 1e9, "Gitem/s", ratios))
    return rows


def _blocking(device: pydp.Device, call: Callable[[], Any]) -> Callable[[], None]:
    def block() -> None:
        call()
        device.queue.finish()

    return block
