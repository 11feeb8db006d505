"""lds: measured and predicted costs of bank conflicts, and the effect of virtual wavefronts, shared counters and double
buffers on histograms, reductions and products with one work-item for each lane."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl
from pydp.bench.measure import Row, alternating

import pydp
from pydp.algorithms.matmul.spec import MatmulSpec
from pydp.local_memory import banks_of, degree
from pydp.runtime.programs.program import kernel

_STRIDES = (1, 2, 4, 8, 16, 32, 33)


def run(device: Any, quick: bool = False) -> list[Row]:
    """Rows of reads with conflicts, then of kernels with several candidates, relative to their first candidates."""
    n = 1 << (16 if quick else 22)
    return [
        *_conflicts(device, quick),
        *_histograms(device, n),
        *_reductions(device, n),
        *_products(device, 64 if quick else 512),
    ]


def bank_conflicts(device: Any, quick: bool = False) -> dict[int, dict[str, float]]:
    """Dependent reads of local memory, by stride in words: the seconds of a launch, its reads, the time relative to
    stride 1, and the model's conflict degree."""
    profile = device.profile
    lanes = min(256, profile.max_group_size)
    groups, repeats = (4, 64) if quick else (8 * profile.compute_units, 512)
    banks = banks_of(profile.banks, profile.bank_bytes)
    out = cl.Buffer(device.context, cl.mem_flags.WRITE_ONLY, 4 * lanes * groups)
    made = {
        stride: kernel(device, "bench_banks.mako", "bench_banks", {"lanes": lanes, "stride": stride, "words": 4096})
        for stride in _STRIDES
    }

    def reads(stride: int) -> Any:
        return lambda: made[stride].enqueue(device.queue, (groups * lanes,), (lanes,), [out, np.int32(repeats)]).wait()

    seconds = alternating({str(stride): reads(stride) for stride in _STRIDES}, budget=2.0)
    return {
        stride: {
            "seconds": seconds[str(stride)],
            "reads": groups * lanes * repeats,
            "time": seconds[str(stride)] / seconds["1"],
            "degree": degree(banks, [4 * stride * lane for lane in range(banks.lanes)]),
        }
        for stride in _STRIDES
    }


def _conflicts(device: Any, quick: bool) -> Iterator[Row]:
    """Rows of `bank_conflicts`."""
    for stride, found in bank_conflicts(device, quick).items():
        spent = found["seconds"]
        note = "no banks" if device.profile.banks == 1 else f"conflict degree {found['degree']} predicted"
        yield Row(
            "lds", f"reads {stride} words apart", device.name, spent, found["reads"] / spent / 1e9, "Gread/s",
            {"1 word apart": 1 / found["time"]}, note,
        )  # fmt: skip


def _beside_first(device: Any, what: str, items: int, unit: str, candidates: dict[str, Any]) -> Iterator[Row]:
    """A row for each candidate: its rate and its ratio to the first one's. The notes mark the fastest."""
    seconds = alternating(candidates, budget=4.0)
    first, best = next(iter(seconds)), min(seconds, key=lambda name: seconds[name])
    for name, spent in seconds.items():
        note, ratios = "fastest" if name == best else "", {first: seconds[first] / spent}
        yield Row("lds", f"{what}, {name}", device.name, spent, items / spent / 1e9, unit, ratios, note)


def _histograms(device: Any, n: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    data = pydp.field(rng.random(n, np.float32), device=device)
    base = {"mapping": "simt", "lanes": 64, "parts": 8 * device.profile.compute_units, "sets": 4}
    for bins in (16, 100):
        ways: dict[str, dict[str, Any]] = {
            f"{counters}, {waves} wave(s)": {**base, "counters": counters, "waves": waves}
            for counters in (("sets", "own", "registers") if bins == 16 else ("sets", "own"))
            for waves in (1, 4)
        }
        if bins == 16:
            ways["registers, edges in registers too"] = {**base, "counters": "registers", "waves": 4, "constants": True}
        ways["the default mapping"] = {}
        expected = np.histogram(data.get(), bins, (0, 1))[0]
        for name, spec in ways.items():
            found = pydp.histogram(data, bins, (0, 1), spec=spec or None)[0].get()
            np.testing.assert_array_equal(found, expected, err_msg=name)
        calls = {
            name: lambda spec=spec, bins=bins: pydp.histogram(data, bins, (0, 1), spec=spec or None)[0].get()
            for name, spec in ways.items()
        }
        yield from _beside_first(device, f"histogram of {bins} bins, {n} float32", n, "Gitem/s", calls)


def _reductions(device: Any, n: int) -> Iterator[Row]:
    x = np.random.default_rng(1).integers(-99, 99, n).astype(np.int32)
    data = pydp.field(x, device=device)
    base = {"mapping": "simt", "lanes": 64, "part": 4096, "longest": 2**30, "columns": 1,
            "busy": 8 * device.profile.compute_units}  # fmt: skip
    sums: dict[str, dict[str, Any]] = {
        f"{waves} wave(s) of {items}": {**base, "waves": waves, "items": items}
        for waves, items in ((1, 1), (1, 8), (4, 1), (8, 1), (8, 4))
    }
    ordered = {f"{buffers} buffer(s)": {**base, "items": 16, "buffers": buffers} for buffers in (1, 2)}
    for what, op, ways in (("sum", "+", sums), ("sum in order", "a - 0 + b", ordered)):
        for name, spec in ways.items():
            found = pydp.reduce(data, op, dtype=np.int32, spec=spec)
            assert int(np.asarray(found)) == int(x.sum(dtype=np.int32)), name
        calls = {
            name: lambda spec=spec, op=op: np.asarray(pydp.reduce(data, op, dtype=np.int32, spec=spec))
            for name, spec in {**ways, "the default mapping": None}.items()
        }
        yield from _beside_first(device, f"{what} of {n} int32", n, "Gitem/s", calls)


def _products(device: Any, size: int) -> Iterator[Row]:
    rng = np.random.default_rng(2)
    a, b = (pydp.field(rng.random((size, size), np.float32), device=device) for _ in range(2))
    usual = MatmulSpec("simt", "staged", 32, 32, 8, 4, 4, 8, 8, width=4, unroll=8)
    ways = {f"{buffers} buffer(s)": dataclasses.replace(usual, buffers=buffers) for buffers in (1, 2)}
    results = [pydp.matmul(a, b, spec=spec).get().tobytes() for spec in ways.values()]
    assert results[0] == results[1]

    def product(spec: Any) -> Any:
        def call() -> None:
            pydp.matmul(a, b, spec=spec)
            device.queue.finish()

        return call

    calls = {name: product(spec) for name, spec in {**ways, "the default mapping": None}.items()}
    yield from _beside_first(device, f"staged product {size}", 2 * size**3, "GFLOP/s", calls)


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
