"""Reductions with hooks (argmax, var, dot, ...) beside NumPy, PyTorch and kernels that only read, as read rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating, cases_of

import pydp

_Case = tuple[str, Callable[..., Any], Callable[..., Any], Callable[..., Any] | None, Any]


def _cases() -> list[_Case]:
    """(name, pydp's function, NumPy's, a call of PyTorch, axis)."""

    def along(name: str) -> Callable[..., Any]:
        def call(torch: Any, x: Any, axis: Any = None) -> Any:
            function = getattr(torch, name)
            return function(x) if axis is None else function(x, axis)

        return call

    def both(x: np.ndarray, axis: Any = None) -> Any:
        return np.min(x, axis=axis), np.max(x, axis=axis)

    def exponentials(torch: Any, x: Any, axis: Any = None) -> Any:
        return torch.logsumexp(x, tuple(range(x.dim())) if axis is None else axis)

    cases: list[_Case] = []
    for axis in (None, 0, 1):
        cases += [
            ("argmax", pydp.argmax, np.argmax, along("argmax"), axis),
            ("min_max", pydp.min_max, both, along("aminmax") if axis is None else None, axis),
            ("var", pydp.var, np.var, along("var"), axis),
        ]
    return [
        *cases,
        ("mean", pydp.mean, np.mean, along("mean"), None),
        ("count_nonzero", pydp.count_nonzero, np.count_nonzero, along("count_nonzero"), None),
        ("norm", pydp.norm, np.linalg.norm, lambda torch, x, axis=None: torch.linalg.vector_norm(x), None),
        ("logsumexp", pydp.logsumexp, lambda x, axis: np.log(np.sum(np.exp(x))), exponentials, None),
        ("nanmean", pydp.nanmean, np.nanmean, along("nanmean"), None),
    ]


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """Whole arrays, rows and columns of float32, on device data; then a dot product."""
    side = 1 << (9 if quick else 12)
    x = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    field = pydp.field(x, device=device)
    rows = []
    products = ("dot", "vdot", "inner")
    cases = [] if only in products else cases_of(_cases(), only)
    if only and only not in products and not cases:
        cases = [_named(only)]
    for name, ours, numpys, torchs, axis in cases:

        def on_device(ours: Any = ours, axis: Any = axis) -> None:
            ours(field, axis=axis)
            device.queue.finish()

        def in_torch(torch: Any, x: Any, torchs: Any = torchs, axis: Any = axis) -> None:
            torchs(torch, x, axis)

        others: dict[str, Any] = {"NumPy": lambda numpys=numpys, axis=axis: numpys(x, axis=axis)}
        others |= peers.torch(device, in_torch, x) if torchs is not None else {}
        text = f"{name} of {side}x{side} float32" + ("" if axis is None else f", axis {axis}")
        rows.append(_row(device, text, on_device, x.nbytes, others, field))
    if only and only not in products:
        return rows
    flat, other = x.reshape(-1), x[::-1].reshape(-1)
    fields = [pydp.field(one, device=device) for one in (flat, other)]

    name = only or "dot"

    def product() -> None:
        getattr(pydp, name)(*fields)
        device.queue.finish()

    others = {"NumPy": lambda: getattr(np, name)(flat, other)}
    others |= peers.torch(device, lambda torch, a, b: getattr(torch, name)(a, b), flat, other.copy())
    return [*rows, _row(device, f"{name} of {flat.size} float32", product, 2 * x.nbytes, others)]


def _named(name: str) -> _Case:
    """The case of a function that is measured on demand only, for whole arrays."""
    return name, getattr(pydp, name), getattr(np, name), None, None


def _row(device: pydp.Device, case: str, call: Any, nbytes: int, others: dict[str, Any], field: Any = None) -> Row:
    reads = Limits(device).reads(nbytes, field)
    seconds = alternating({"pydp": call} | reads | others, repeats=25, warm=2)
    rate = nbytes / seconds["pydp"] / 1e9
    ratios = {name: seconds[name] / seconds["pydp"] for name in others}
    ratios |= {name: rate / read.rate(seconds[name]) for name, read in reads.items()}
    return Row("reductions", case, device.name, seconds["pydp"], rate, "GB/s", ratios)
