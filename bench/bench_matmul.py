"""pydp.matmul against NumPy, PyTorch, the textbook kernel and the multiply-add peak, alternating in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp
from pydp.runtime.programs.program import kernel

Size = tuple[int, ...]
SQUARES: list[Size] = [(size, size, size) for size in (512, 1024, 2048, 4096)]
SKINNY: list[Size] = [(4096, 4096, 64), (64, 4096, 4096), (4096, 64, 4096), (1, 4096, 4096)]  # (m, n, k)
SMALL: list[Size] = [(128, 128, 128), (256, 256, 256)]
BATCHES: list[Size] = [(10_000, 16, 16, 16), (1_000, 64, 64, 64), (100, 256, 256, 256)]  # (batch, m, n, k)
FUSED: list[Size] = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 64)]  # (m, n, k) with a bias and an activation
EPILOGUES = {
    "relu": ("max(x + bias, 0)", lambda torch, y: torch.relu(y)),
    "gelu": (
        "(x + bias) * 0.5 * (1 + tanh(0.7978845608 * ((x + bias) + 0.044715 * (x + bias) * (x + bias) * (x + bias))))",
        lambda torch, y: torch.nn.functional.gelu(y, approximate="tanh"),
    ),
}
DIGITS = (797, 3000, 64)  # as in `pydp demo`: b is the transposed view of a contiguous array
_SMALL = 2 * 512**3  # operations of a product whose launch takes a noticeable part of the time
_TEXTBOOK_TILE = 16


def run(
    device: Any,
    sizes: Sequence[Size] | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
    quick: bool = False,
) -> list[Row]:
    """One row per dtype and size, (m, n, k) or (batch, m, n, k); without sizes also complex64, a transposed b and
    products with a bias and an activation.

    Rates in GFLOP/s, ratios to NumPy, PyTorch, the same call on NumPy arrays, the textbook kernel, the
    multiply-add peak and, for one row, kernels that only read; for small products, to NumPy also with the
    time of an empty kernel subtracted from pydp's; for an epilogue, to the product followed by `evaluate`.
    """
    chosen = list(sizes) if sizes is not None else SQUARES[:2] if quick else SQUARES + SKINNY + SMALL + BATCHES
    rows = []
    for dtype in dtypes:
        if dtype == "float64" and not device.profile.fp64:
            continue
        peak = Limits(device).peak(dtype)
        rows += [_case(device, dtype, size, peak) for size in chosen]
        if dtype == "float32" and sizes is None and not quick:
            rows += [_case(device, dtype, DIGITS, peak, turned=True)]
            rows += [_case(device, "complex64", (1024, 1024, 1024), peak)]
    if sizes is None and "float32" in dtypes:
        rows += [_epilogue(device, name, size) for name in EPILOGUES for size in FUSED[: 1 if quick else None]]
    return rows


def _random(rng: Any, shape: Size, dtype: str) -> Any:
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if dtype == "complex64" else real).astype(dtype)


def _case(device: Any, dtype: str, size: Size, peak: Any, turned: bool = False) -> Row:
    *batch, m, n, k = size
    rng = np.random.default_rng(0)
    a, b = _random(rng, (*batch, m, k), dtype), _random(rng, (n, k) if turned else (*batch, k, n), dtype)
    left, right = pydp.field(a, device=device), pydp.field(b, device=device)
    if turned:
        b, right = b.T, right.T
    out = pydp.empty((*batch, m, n), dtype, device=device)
    host, result = (np.empty((*batch, m, n), dtype) for _ in range(2))

    def ours() -> None:
        pydp.matmul(left, right, out=out).event.wait()

    others: peers.Candidates = {
        "numpy": lambda: np.matmul(a, b, out=host),
        "NumPy arrays": lambda: pydp.matmul(a, b, out=result, device=device),
    }
    others |= peers.torch(device, lambda torch, a, b, out: torch.matmul(a, b, out=out), a, b, np.empty_like(host))
    textbook = None if batch or turned or dtype == "complex64" else _textbook(device, dtype, left, right, m, n, k)
    if textbook is not None:
        others["textbook"] = textbook
    limits = Limits(device)
    reads = limits.reads(b.nbytes, right) if m == 1 else {}
    launch = {"launch": limits.launch()} if 2 * host.size * k <= _SMALL else {}
    seconds = alternating({"pydp": ours, "peak": peak} | others | reads | launch, warm=2)
    np.testing.assert_allclose(out.get(), host, rtol=0, atol=50 * np.finfo(dtype).eps * np.sqrt(k) * k**0.5)
    work = 2.0 * host.size * k * (4 if dtype == "complex64" else 1)
    rate = work / seconds["pydp"] / 1e9
    ratios: dict[str, float] = {name: seconds[name] / seconds["pydp"] for name in others}
    ratios["FMA peak"] = rate / peak.limit
    for name, read in reads.items():
        ratios[name] = b.nbytes / seconds["pydp"] / 1e9 / read.rate(seconds[name])
    if launch and seconds["pydp"] > 1.2 * seconds["launch"]:  # else the difference is noise
        ratios["numpy, launch subtracted"] = seconds["numpy"] / (seconds["pydp"] - seconds["launch"])
    case = f"{dtype} {'x'.join(map(str, size))}{' b transposed' if turned else ''}"
    return Row("matmul", case, device.name, seconds["pydp"], rate, "GFLOP/s", ratios)


def _epilogue(device: Any, name: str, size: Size) -> Row:
    """A product with a bias and an activation, beside the product alone and the product followed by an expression."""
    text, torchs = EPILOGUES[name]
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b, bias = _random(rng, (m, k), "float32"), _random(rng, (k, n), "float32"), _random(rng, (n,), "float32")
    left, right, row = (pydp.field(x, device=device) for x in (a, b, bias))
    out = pydp.empty((m, n), "float32", device=device)

    def after() -> None:
        pydp.matmul(left, right, out=out)
        pydp.evaluate(text, x=out, bias=row, out=out).event.wait()

    after()
    want = out.get()
    calls: peers.Candidates = {
        "pydp": lambda: pydp.matmul(left, right, out=out, epilogue=(text, {"bias": row})).event.wait(),
        "then evaluate": after,
        "matmul alone": lambda: pydp.matmul(left, right, out=out).event.wait(),
    }
    weights = np.ascontiguousarray(b.T)
    calls |= peers.torch(
        device, lambda torch, a, w, bias: torchs(torch, torch.nn.functional.linear(a, w, bias)), a, weights, bias
    )
    calls["pydp"]()
    np.testing.assert_allclose(out.get(), want, rtol=1e-4, atol=1e-4)
    seconds = alternating(calls, warm=2)
    spent, work = seconds["pydp"], 2.0 * m * n * k
    ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
    case = f"float32 {'x'.join(map(str, size))} bias, {name}"
    return Row("matmul", case, device.name, spent, work / spent / 1e9, "GFLOP/s", ratios)


def _textbook(device: Any, dtype: str, a: Any, b: Any, m: int, n: int, k: int) -> Any:
    """The textbook kernel as a candidate, if it takes about a second or less."""
    if m * n * k > 1 << 28 or device.profile.max_group_size < _TEXTBOOK_TILE**2:
        return None
    name = {"float32": "float", "float64": "double"}[dtype]
    made = kernel(device, "textbook_matmul.mako", "textbook_matmul", {"type": name, "tile": _TEXTBOOK_TILE})
    out = pydp.empty((m, n), dtype, device=device)
    size = tuple(-(-length // _TEXTBOOK_TILE) * _TEXTBOOK_TILE for length in (n, m))
    args = [a.array.base_data, b.array.base_data, out.array.base_data, *(np.int32(x) for x in (m, n, k))]
    return lambda: made.enqueue(device.queue, size, (_TEXTBOOK_TILE, _TEXTBOOK_TILE), args).wait()


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
