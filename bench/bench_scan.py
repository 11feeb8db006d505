"""Inclusive sums against pyopencl's scan, the cumsum of NumPy and PyTorch, and a copy kernel, in items per second."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp
from pydp.algorithms.lookback import STRATEGIES

_QUICK = (1 << 16, 1 << 20)
_FULL = (1 << 16, 1 << 20, 1 << 23, 1 << 26)


def run(device: pydp.Device, quick: bool = False, only: str = "", sizes: Sequence[int] | None = None) -> list[Row]:
    """Flat sums of `sizes` int32 and float32; at the largest size every strategy, segments and both axes; columns; the
    functions with NumPy's names.

    The ratio to "NumPy arrays" is to the same call of pydp on NumPy arrays.
    """
    sizes = tuple(sizes) if sizes is not None else _QUICK if quick else _FULL
    named = [_named(device, name, max(sizes)) for name in ("cumsum", "cumprod") if only in (name, "")]
    if only in ("cumsum", "cumprod"):
        return named
    rows = [_flat(device, dtype, n) for dtype in ("int32", "float32") for n in sizes]
    rows += _variants(device, max(sizes))
    for shape, in_place in (
        ((4096, 4096), False),
        ((1_000_000, 64), False),
        ((10_000_000, 8), False),
        ((10_000_000, 8), True),
    ):
        rows.append(_columns(device, (shape[0] // 16 if quick else shape[0], shape[1]), in_place))
    return rows + named


def _blocking(device: pydp.Device, call: Callable[[], Any]) -> Callable[[], None]:
    def block() -> None:
        call()
        device.queue.finish()

    return block


def _row(device: pydp.Device, case: str, seconds: dict[str, float], n: int) -> Row:
    ratios = {peer: took / seconds["pydp"] for peer, took in seconds.items() if peer != "pydp"}
    return Row("scan", case, device.name, seconds["pydp"], n / seconds["pydp"] / 1e9, "Gitem/s", ratios)


def _flat(device: pydp.Device, dtype: str, n: int) -> Row:
    """One size and dtype against all peers."""
    from pyopencl.scan import InclusiveScanKernel

    x = np.random.default_rng(0).integers(0, 100, n).astype(dtype)
    field, out = pydp.field(x, device=device), pydp.empty((n,), dtype, device=device)
    array = cl.array.to_device(device.queue, x)
    target = cl.array.empty_like(array)
    theirs = InclusiveScanKernel(device.context, np.dtype(dtype), "a+b", neutral="0")
    host, ours = np.empty_like(x), np.empty_like(x)
    copies = Limits(device).copies(x.nbytes, field, out)
    candidates: peers.Candidates = {
        "pydp": _blocking(device, lambda: pydp.scan(field, out=out)),
        **copies,
        "pyopencl": _blocking(device, lambda: theirs(array, target)),
        "NumPy": lambda: np.cumsum(x, dtype=dtype, out=host),
        "NumPy arrays": lambda: pydp.scan(x, out=ours, device=device),
    }
    candidates |= peers.torch(device, lambda torch, x, out: torch.cumsum(x, 0, dtype=x.dtype, out=out), x, host)
    seconds = alternating(candidates, warm=2)
    for name, copy in copies.items():
        seconds[name] *= 2 * x.nbytes / copy.work  # scaled to the bytes that the scan reads and writes
    return _row(device, f"sum of {n} {dtype}", seconds, n)


def _columns(device: pydp.Device, shape: tuple[int, int], in_place: bool) -> Row:
    """Sums down axis 0 against the flat sum of the same elements, NumPy and a copy kernel."""
    x = np.random.default_rng(2).integers(0, 100, shape).astype(np.int32)
    field, out = pydp.field(x, device=device), pydp.empty(shape, np.int32, device=device)
    source = out if in_place else field
    host = np.empty_like(x)
    copy = Limits(device).copy(x.nbytes, source, out)
    seconds = alternating(
        {
            "pydp": _blocking(device, lambda: pydp.scan(source, axis=0, out=out)),
            "flat sum": _blocking(device, lambda: pydp.scan(source.reshape(-1), out=out.reshape(-1))),
            "copy kernel": copy,
            "NumPy": lambda: np.cumsum(x, axis=0, dtype=np.int32, out=host),
        },
        repeats=5,
    )
    seconds["copy kernel"] *= 2 * x.nbytes / copy.work
    case = f"sum over axis 0 of {shape[0]} x {shape[1]} int32" + (", in place" if in_place else "")
    return _row(device, case, seconds, x.size)


def _named(device: pydp.Device, name: str, n: int) -> Row:
    """cumsum or cumprod of int32, which NumPy computes in int64."""
    x = np.random.default_rng(3).integers(0, 100, n).astype(np.int32)
    field, out = pydp.field(x, device=device), pydp.empty((n,), np.int64, device=device)
    ours, theirs, host = getattr(pydp, name), getattr(np, name), np.empty(n, np.int64)
    candidates: peers.Candidates = {
        "pydp": _blocking(device, lambda: ours(field, out=out)),
        "NumPy": lambda: theirs(x, out=host),
        "NumPy arrays": lambda: ours(x, out=host, device=device),
    }
    candidates |= peers.torch(device, lambda torch, x, out: getattr(torch, name)(x, 0, out=out), x, host)
    return _row(device, f"{name} of {n} int32", alternating(candidates, warm=2), n)


def _variants(device: pydp.Device, n: int) -> list[Row]:
    """Strategies, operators, segments and axes against the flat sum of the same elements."""
    x = np.random.default_rng(1).integers(0, 100, n).astype(np.int32)
    field, out = pydp.field(x, device=device), pydp.empty((n,), np.int32, device=device)
    flags = pydp.field((np.arange(n) % 1000 == 0).astype(np.uint8), device=device)
    side = 1 << ((n.bit_length() - 1) // 2)
    square = pydp.field(x[: side * side].reshape(side, side), device=device)
    squared = pydp.empty((side, side), np.int32, device=device)
    calls: dict[str, Callable[[], Any]] = {
        f"strategy {name}": functools.partial(pydp.scan, field, out=out, strategy=name)
        for name in STRATEGIES
        if device.profile.loop_limit is None or name == "reduce_then_scan"
    }
    calls |= {
        "exclusive": lambda: pydp.scan(field, out=out, exclusive=True),
        "reversed": lambda: pydp.scan(field, out=out, reverse=True),
        "in place": lambda: pydp.scan(out, out=out),
        "max": lambda: pydp.scan(field, "max", out=out),
        "expression a > b ? a : b": lambda: pydp.scan(field, "a > b ? a : b", out=out),
        "segments of 1000": lambda: pydp.scan(field, segments=flags, out=out),
        "rows of a square": lambda: pydp.scan(square, axis=1, out=squared),
        "columns of a square": lambda: pydp.scan(square, axis=0, out=squared),
    }
    rows = []
    for case, call in calls.items():
        flat = _blocking(device, lambda: pydp.scan(field, out=out))
        seconds = alternating({"pydp": _blocking(device, call), "flat sum": flat}, repeats=5)
        rows.append(_row(device, f"{case}, {n} int32", seconds, n))
    return rows
