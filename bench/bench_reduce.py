"""Reductions against NumPy's, PyTorch's, and kernels that only read, as read rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """Sums and maxima of whole arrays, rows and columns, on device data.

    The ratio to "NumPy arrays" is to the same call of pydp on NumPy arrays.
    """
    n = 1 << (20 if quick else 26)
    side = 1 << (10 if quick else 13)
    rng = np.random.default_rng(0)
    flat = rng.random(n, dtype=np.float32)
    square = flat[: side * side].reshape(side, side)
    cases: list[tuple[str, np.ndarray, str, Any, Any]] = [
        (f"sum of {n} float32", flat, "+", None, np.sum),
        (f"max of {n} float32", flat, "max", None, np.max),
        (f"sum of {n} int32", flat.view(np.int32), "+", None, np.sum),
        (f"sum of {n} uint8", flat.view(np.uint8)[:n], "+", None, np.sum),
        (f"sum of {n // 64} float32", flat[: n // 64], "+", None, np.sum),
        (f"row sums of {n // 64}x16 float32", flat[: n // 4].reshape(-1, 16), "+", 1, np.sum),
        (f"row sums of {side}x{side} float32", square, "+", 1, np.sum),
        (f"column sums of {side}x{side} float32", square, "+", 0, np.sum),
    ]
    rows = []
    for case, x, op, axis, reference in cases:
        field = pydp.field(x, device=device)

        def on_device(field: Any = field, op: str = op, axis: Any = axis) -> None:
            pydp.reduce(field, op, axis=axis)
            device.queue.finish()

        def on_host(x: Any = x, axis: Any = axis, reference: Any = reference) -> None:
            reference(x, axis=axis)

        def in_torch(torch: Any, x: Any, op: str = op, axis: Any = axis) -> None:
            function = torch.sum if op == "+" else torch.amax
            function(x) if axis is None else function(x, axis)

        def on_arrays(x: Any = x, op: str = op, axis: Any = axis) -> None:
            pydp.reduce(x, op, axis=axis, device=device)

        reads = Limits(device).reads(x.nbytes, field)
        others: peers.Candidates = {"NumPy": on_host, "NumPy arrays": on_arrays} | peers.torch(device, in_torch, x)
        ours: peers.Candidates = {"pydp": on_device, **reads}
        seconds = alternating(ours | others, warm=2)
        rate = x.nbytes / seconds["pydp"] / 1e9
        ratios = {name: seconds[name] / seconds["pydp"] for name in others}
        rows.append(
            Row(
                "reduce",
                case,
                device.name,
                seconds["pydp"],
                rate,
                "GB/s",
                ratios | {name: rate / read.rate(seconds[name]) for name, read in reads.items()},
            )
        )
    return rows
