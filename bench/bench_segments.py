"""Reductions, sorts and expansion of segments against NumPy and pydp's whole-array functions, in items per second."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """2^24 elements in segments of 10, 1,000 and 2^24 / 10 elements on average; sorts of 2^22; repeats of 2^21."""
    n = 1 << (18 if quick else 24)
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, n).astype(np.int32)
    field = pydp.field(x, device=device)
    rows = []
    for length in (10, 1000, n // 10):
        offsets = _offsets(rng, n // length, n)
        starts, filled = pydp.field(offsets, device=device), offsets[:-1][np.diff(offsets) > 0]
        want = np.diff(np.append(0, np.cumsum(x, dtype=np.int64))[offsets])
        assert np.array_equal(pydp.segmented_reduce(field, starts).get(), want)
        rows.append(
            _row(device, f"segmented_reduce, {n} int32 in {n // length} segments", n, {
                "pydp": functools.partial(pydp.segmented_reduce, field, starts),
                "reduce": lambda: pydp.reduce(field),
                "NumPy reduceat": functools.partial(np.add.reduceat, x, filled),
            })
        )  # fmt: skip
    m = n // 4
    part, keys = x[:m], (x[:m] > 7).cumsum().astype(np.int32)
    few, key_field, offsets = (
        pydp.field(part, device=device),
        pydp.field(keys, device=device),
        _offsets(rng, m // 100, m),
    )
    starts, numbers = pydp.field(offsets, device=device), np.repeat(np.arange(m // 100), np.diff(offsets))
    assert np.array_equal(pydp.segmented_sort(few, starts).get(), part[np.lexsort((part, numbers))])
    rows.append(
        _row(device, f"segmented_sort, {m} int32 in {m // 100} segments", m, {
            "pydp": lambda: pydp.segmented_sort(few, starts),
            "sort": lambda: pydp.sort(few),
            "NumPy lexsort": lambda: part[np.lexsort((part, numbers))],
        })
    )  # fmt: skip
    rows.append(
        _row(device, f"scan_by_key of {m} int32", m, {
            "pydp": lambda: pydp.scan_by_key(key_field, few),
            "scan": lambda: pydp.scan(few),
        })
    )  # fmt: skip
    counts = rng.integers(0, 9, m // 2)
    repeats, source, total = pydp.field(counts, device=device), pydp.field(part[: m // 2], device=device), counts.sum()
    assert np.array_equal(pydp.repeat(source, repeats).get(), np.repeat(part[: m // 2], counts))
    rows.append(
        _row(device, f"repeat of {m // 2} int32 to {total}", int(total), {
            "pydp": lambda: pydp.repeat(source, repeats),
            "NumPy": lambda: np.repeat(part[: m // 2], counts),
        })
    )  # fmt: skip
    return rows


def _offsets(rng: np.random.Generator, segments: int, n: int) -> np.ndarray:
    return np.concatenate([[0], np.sort(rng.integers(0, n + 1, segments - 1)), [n]])


def _row(device: pydp.Device, case: str, items: int, candidates: dict[str, Callable[[], Any]]) -> Row:
    def blocking(call: Callable[[], Any]) -> Callable[[], None]:
        def block() -> None:
            call()
            device.queue.finish()

        return block

    seconds = alternating({name: blocking(call) for name, call in candidates.items()}, repeats=5, budget=4.0)
    spent = seconds.pop("pydp")
    ratios = {peer: took / spent for peer, took in seconds.items()}
    return Row("segments", case, device.name, spent, items / spent / 1e9, "Gitem/s", ratios)
