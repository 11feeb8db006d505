"""Transposes against NumPy's and a copy kernel, in bytes read and written per second."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating, cases_of

import pydp

# name, shape, dtype, pydp's function, NumPy's, their arguments after the array
_Case = tuple[str, tuple[int, ...], Any, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """Square and rectangular arrays of several types; the copy kernel moves the same number of bytes."""
    side = 512 if quick else 4096
    whole, three = (pydp.transpose, np.transpose, ()), (16, side // 4, side // 4)
    cases: list[_Case] = [
        (f"{side}x{side} float32", (side, side), np.float32, *whole),
        (f"{side}x{side} float64", (side, side), np.uint64, *whole),
        (f"{side}x{side} uint8", (side, side), np.uint8, *whole),
        (f"{4 * side}x{side // 4} float32", (4 * side, side // 4), np.float32, *whole),
        (f"16x{side // 4}x{side // 4} float32, the last two axes", three, np.float32, *whole[:2], ((0, 2, 1),)),
        (f"moveaxis of 16x{side // 4}x{side // 4} float32", three, np.float32, pydp.moveaxis, np.moveaxis, (0, -1)),
        (f"swapaxes of 16x{side // 4}x{side // 4} float32", three, np.float32, pydp.swapaxes, np.swapaxes, (0, -1)),
    ]
    rows = []
    for case, shape, dtype, ours, theirs, axes in cases_of(cases, only):
        x = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
        field = pydp.field(x, device=device)
        turned = ours(field, *axes)
        copy = Limits(device).copy(x.nbytes, field, turned)
        np.testing.assert_array_equal(turned.get(), theirs(x, *axes))

        call = partial(ours, field, *axes, out=turned)

        def on_device(call: Callable[[], Any] = call) -> None:
            call()
            device.queue.finish()

        on_host = partial(np.ascontiguousarray, theirs(x, *axes))
        seconds = alternating({"pydp": on_device, "NumPy": on_host, "copy kernel": copy}, repeats=15, budget=4.0)
        spent = seconds["pydp"]
        per_byte = seconds["copy kernel"] / copy.work * 2 * x.nbytes
        ratios = {"copy kernel": per_byte / spent, "NumPy": seconds["NumPy"] / spent}
        rows.append(Row("transpose", case, device.name, spent, 2 * x.nbytes / spent / 1e9, "GB/s", ratios))
    return rows
