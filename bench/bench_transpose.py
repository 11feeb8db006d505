"""Transposes against NumPy's and a copy kernel, in bytes read and written per second."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """Square and rectangular arrays of several types; the copy kernel moves the same number of bytes."""
    side = 512 if quick else 4096
    cases: list[tuple[str, tuple[int, ...], Any, tuple[int, ...] | None]] = [
        (f"{side}x{side} float32", (side, side), np.float32, None),
        (f"{side}x{side} float64", (side, side), np.uint64, None),
        (f"{side}x{side} uint8", (side, side), np.uint8, None),
        (f"{4 * side}x{side // 4} float32", (4 * side, side // 4), np.float32, None),
        (f"16x{side // 4}x{side // 4} float32, the last two axes", (16, side // 4, side // 4), np.float32, (0, 2, 1)),
    ]
    rows = []
    for case, shape, dtype, axes in cases:
        x = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
        field = pydp.field(x, device=device)
        copy = Limits(device).copy(x.nbytes)
        turned = pydp.transpose(field, axes)
        np.testing.assert_array_equal(turned.get(), x.transpose(axes))

        def on_device(field: Any = field, axes: Any = axes, out: Any = turned) -> None:
            pydp.transpose(field, axes, out=out)
            device.queue.finish()

        def on_host(x: np.ndarray = x, axes: Any = axes) -> None:
            np.ascontiguousarray(x.transpose(axes))

        seconds = alternating({"pydp": on_device, "NumPy": on_host, "copy kernel": copy}, repeats=15, budget=4.0)
        spent = seconds["pydp"]
        per_byte = seconds["copy kernel"] / copy.work * 2 * x.nbytes
        ratios = {"copy kernel": per_byte / spent, "NumPy": seconds["NumPy"] / spent}
        rows.append(Row("transpose", case, device.name, spent, 2 * x.nbytes / spent / 1e9, "GB/s", ratios))
    return rows
