"""Sorts against NumPy, PyTorch and Warp, and against the merge sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.measure import Row, alternating, cases_of

import pydp
from pydp.algorithms.sort.policy import merge_default
from pydp.algorithms.sort.spec import SortProblem

# (function, dtype, shape, axis); the small ones are also the quick ones
_CASES: tuple[tuple[str, str, tuple[int, ...], int], ...] = (
    ("sort", "int32", (1 << 16,), 0),
    ("sort", "float32", (1 << 16,), 0),
    ("sort", "int32", (1 << 20,), 0),
    ("sort", "float32", (1 << 20,), 0),
    ("argsort", "int32", (1 << 20,), 0),
    ("sort_by_key", "int32", (1 << 20,), 0),
    ("sort", "int32", (1 << 24,), 0),
    ("sort", "float32", (1 << 24,), 0),
    ("sort", "int64", (1 << 23,), 0),
    ("sort", "float64", (1 << 23,), 0),
    ("sort", "int16", (1 << 24,), 0),
    ("sort", "uint8", (1 << 24,), 0),
    ("sort", "float32", (4096, 4096), 1),
    ("sort", "float32", (4096, 4096), 0),
    ("argsort", "int32", (1 << 22,), 0),
    ("argsort", "float32", (1 << 22,), 0),
    ("sort_by_key", "int32", (1 << 22,), 0),
    ("sort_by_key", "int32", (1 << 24,), 0),
)


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """Sorts of random numbers in million elements per second. Peers: np.sort (default kind) or a stable np.argsort;
    PyTorch, which always returns the order too; Warp, for pairs; pydp on NumPy arrays, and its merge sort."""
    rng = np.random.default_rng(0)
    return [_row(device, rng, *case) for case in cases_of(_CASES[:6] if quick else _CASES, only)]


def _row(device: pydp.Device, rng: Any, name: str, dtype: str, shape: tuple[int, ...], axis: int) -> Row:
    x = _numbers(rng, np.dtype(dtype), shape)
    values = np.zeros(shape, np.int32)
    host = (x, values) if name == "sort_by_key" else (x,)
    arrays = tuple(pydp.field(one, device=device) for one in host)
    function = getattr(pydp, name)
    merge = merge_default(device.profile, SortProblem(dtype, shape[axis], x.size // shape[axis], 2 * x.itemsize))

    def ours(spec: Any = None) -> None:
        function(*arrays, axis=axis, spec=spec)
        device.queue.finish()

    def sorts() -> Any:
        return np.sort(x, axis=axis)

    def argsorts() -> Any:
        order = np.argsort(x, axis=axis, kind="stable")
        return order if name == "argsort" else (x[order], order)

    calls: dict[str, Callable[[], Any]] = {
        "pydp": ours,
        "merge sort": lambda: ours(merge),
        "NumPy arrays": lambda: function(*host, axis=axis, device=device),
        "NumPy": sorts if name == "sort" else argsorts,
    }
    if name != "sort_by_key":
        calls |= peers.torch(device, lambda torch, x: torch.sort(x, dim=axis, stable=name == "argsort"), x)
    else:
        calls |= peers.warp_pairs(device, x, values)
    seconds = alternating(calls, budget=8.0, warm=2)  # the second call is recorded
    ratios = {peer: seconds[peer] / seconds["pydp"] for peer in calls if peer != "pydp"}
    case = f"{'x'.join(map(str, shape))} {dtype}{' axis 0' if axis == 0 and len(shape) > 1 else ''}"
    return Row(name, case, device.name, seconds["pydp"], x.size / seconds["pydp"] / 1e6, "Mitem/s", ratios)


def _numbers(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Integers over the whole range; floats with a normal distribution."""
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape).astype(dtype))
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
