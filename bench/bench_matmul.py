"""pydp.matmul against NumPy, the textbook kernel and the multiply-add peak, alternating in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp
from pydp.runtime.programs.program import kernel

SQUARES = [(size, size, size) for size in (512, 1024, 2048, 4096)]
SKINNY = [(4096, 4096, 64), (64, 4096, 4096), (4096, 64, 4096), (1, 4096, 4096)]  # (m, n, k)
_TEXTBOOK_TILE = 16


def run(
    device: Any,
    sizes: Sequence[tuple[int, int, int]] | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
    quick: bool = False,
) -> list[Row]:
    """One row per dtype and size (m, n, k): rate in GFLOP/s, ratios to NumPy, the textbook kernel and the peak."""
    chosen = list(sizes) if sizes is not None else SQUARES[:2] if quick else SQUARES + SKINNY
    rows = []
    for dtype in dtypes:
        if dtype == "float64" and not device.profile.fp64:
            continue
        peak = Limits(device).peak(dtype)
        rows += [_case(device, dtype, m, n, k, peak) for m, n, k in chosen]
    return rows


def _case(device: Any, dtype: str, m: int, n: int, k: int, peak: Any) -> Row:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    left, right = pydp.field(a, device=device), pydp.field(b, device=device)
    out, host = pydp.empty((m, n), dtype, device=device), np.empty((m, n), dtype)

    def ours() -> None:
        pydp.matmul(left, right, out=out).event.wait()

    candidates = {"pydp": ours, "numpy": lambda: np.matmul(a, b, out=host), "peak": peak}
    textbook = _textbook(device, dtype, left, right, m, n, k)
    if textbook is not None:
        candidates["textbook"] = textbook
    seconds = alternating(candidates)
    np.testing.assert_allclose(out.get(), host, rtol=0, atol=50 * np.finfo(dtype).eps * np.sqrt(k) * k**0.5)
    rate = 2.0 * m * n * k / seconds["pydp"] / 1e9
    peers = [name for name in ("numpy", "textbook") if name in seconds]
    ratios: dict[str, float] = {name: seconds[name] / seconds["pydp"] for name in peers}
    ratios["FMA peak"] = rate / peak.rate(seconds["peak"])
    return Row("matmul", f"{dtype} {m}x{n}x{k}", device.name, seconds["pydp"], rate, "GFLOP/s", ratios)


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
