"""Reductions, sorts and expansion of segments against NumPy and pydp's whole-array functions, in items per second."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench.measure import Row, alternating, cases_of

import pydp

# name, number of elements, NumPy's result, the candidates
_Case = tuple[str, int, Callable[[], np.ndarray], dict[str, Callable[[], Any]]]


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """2^24 elements in segments of 10, 1,000 and 2^24 / 10 elements on average; sorts of 2^22; repeats of 2^21."""
    n = 1 << (18 if quick else 24)
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, n).astype(np.int32)
    cases = [*_reductions(device, rng, x), *_sorts_and_scans(device, rng, x[: n // 4]), *_repeats(device, rng, x)]
    return [_row(device, *case) for case in cases_of(cases, only)]


def _reductions(device: pydp.Device, rng: np.random.Generator, x: np.ndarray) -> list[_Case]:
    field, n = pydp.field(x, device=device), x.size
    cases: list[_Case] = []
    for length in (10, 1000, n // 10):
        offsets = _offsets(rng, n // length, n)
        starts, filled = pydp.field(offsets, device=device), offsets[:-1][np.diff(offsets) > 0]
        cases.append(
            (f"segmented_reduce, {n} int32 in {n // length} segments", n, functools.partial(_sums, x, offsets), {
                "pydp": functools.partial(pydp.segmented_reduce, field, starts),
                "reduce": lambda: pydp.reduce(field),
                "NumPy reduceat": functools.partial(np.add.reduceat, x, filled),
            })
        )  # fmt: skip
    return cases


def _sorts_and_scans(device: pydp.Device, rng: np.random.Generator, x: np.ndarray) -> list[_Case]:
    n, keys = x.size, (x > 7).cumsum().astype(np.int32)
    offsets = _offsets(rng, n // 100, n)
    field, key_field, starts = (pydp.field(one, device=device) for one in (x, keys, offsets))
    numbers, heads = np.repeat(np.arange(n // 100), np.diff(offsets)), np.flatnonzero(np.diff(keys, prepend=-1))

    def order() -> np.ndarray:
        return np.lexsort((x, numbers))

    def scans() -> np.ndarray:
        sums = np.cumsum(x, dtype=np.int32)
        return sums - np.repeat(sums[heads] - x[heads], np.diff(heads, append=n))

    return [
        (f"segmented_sort, {n} int32 in {n // 100} segments", n, lambda: x[order()], {
            "pydp": lambda: pydp.segmented_sort(field, starts),
            "sort": lambda: pydp.sort(field),
            "NumPy lexsort": lambda: x[order()],
        }),
        (f"segmented_argsort, {n} int32 in {n // 100} segments", n, order, {
            "pydp": lambda: pydp.segmented_argsort(field, starts),
            "argsort": lambda: pydp.argsort(field),
            "NumPy lexsort": order,
        }),
        (f"scan_by_key of {n} int32", n, scans, {
            "pydp": lambda: pydp.scan_by_key(key_field, field),
            "scan": lambda: pydp.scan(field),
            "NumPy": scans,
        }),
    ]  # fmt: skip


def _repeats(device: pydp.Device, rng: np.random.Generator, x: np.ndarray) -> list[_Case]:
    n = x.size // 8
    x, counts = x[:n], rng.integers(0, 9, n)
    field, repeats, total = pydp.field(x, device=device), pydp.field(counts, device=device), int(counts.sum())

    def repeated() -> np.ndarray:
        return np.repeat(x, counts)

    return [
        (f"{ours.__name__} of {n} int32 to {total}", total, repeated, {
            "pydp": functools.partial(ours, field, repeats), "NumPy": repeated,
        })
        for ours in (pydp.repeat, pydp.run_length_decode)
    ]  # fmt: skip


def _sums(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return np.asarray(np.diff(np.append(0, np.cumsum(x, dtype=np.int64))[offsets]))


def _offsets(rng: np.random.Generator, segments: int, n: int) -> np.ndarray:
    return np.concatenate([[0], np.sort(rng.integers(0, n + 1, segments - 1)), [n]])


def _row(
    device: pydp.Device,
    case: str,
    items: int,
    right: Callable[[], np.ndarray],
    candidates: dict[str, Callable[[], Any]],
) -> Row:
    assert np.array_equal(candidates["pydp"]().get(), right())

    def blocking(call: Callable[[], Any]) -> Callable[[], None]:
        def block() -> None:
            call()
            device.queue.finish()

        return block

    seconds = alternating({name: blocking(call) for name, call in candidates.items()}, repeats=5, budget=4.0)
    spent = seconds.pop("pydp")
    ratios = {peer: took / spent for peer, took in seconds.items()}
    return Row("segments", case, device.name, spent, items / spent / 1e9, "Gitem/s", ratios)
