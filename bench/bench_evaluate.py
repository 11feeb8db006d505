"""Expressions of arrays beside NumPy and PyTorch, in bytes per second of the arrays and the result.

Operators of Fields, which one kernel computes, also run beside a kernel for each operator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp
from pydp.runtime.field import fusion


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """2^24 float32 in Fields."""
    n = 1 << (18 if quick else 24)
    x, y = np.random.default_rng(0).standard_normal((2, n), np.float32)
    fields = {name: pydp.field(one, device=device) for name, one in {"x": x, "y": y}.items()}
    half = np.float32(0.5)
    cases = [
        ("2 * x + y", lambda: 2 * x + y, lambda torch, x, y: 2 * x + y),
        ("x > y ? x * x : 0.5 * y", lambda: np.where(x > y, x * x, half * y),
         lambda torch, x, y: torch.where(x > y, x * x, 0.5 * y)),
        ("exp(-x * x) + sin(y)", lambda: np.exp(-x * x) + np.sin(y),
         lambda torch, x, y: torch.exp(-x * x) + torch.sin(y)),
    ]  # fmt: skip
    rows = []
    for text, theirs, torchs in cases:
        np.testing.assert_allclose(pydp.evaluate(text, **fields).get(), theirs(), rtol=1e-4, atol=1e-5)
        copy = Limits(device).copy(x.nbytes, fields["x"])

        def on_device(text: str = text) -> None:
            pydp.evaluate(text, **fields)
            device.queue.finish()

        calls: peers.Candidates = {"pydp": on_device, "copy kernel": copy, "NumPy": theirs}
        calls |= peers.torch(device, torchs, x, y)
        seconds = alternating(calls, repeats=5, budget=4.0, warm=2)
        seconds["copy kernel"] *= 3 * x.nbytes / copy.work
        spent = seconds["pydp"]
        ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
        rows.append(Row("evaluate", f"{text}, {n}", device.name, spent, 3 * x.nbytes / spent / 1e9, "GB/s", ratios))
    return [*rows, *(_operators(device, size, quick) for size in (n, 1000)), *_normalizations(device, quick)]


def _normalizations(device: pydp.Device, quick: bool) -> list[Row]:
    """Softmax and layer norm of rows of float32: a reduction and an expression."""
    side = 1 << (9 if quick else 12)
    x = np.random.default_rng(2).standard_normal((side, side)).astype(np.float32)
    rows = pydp.field(x, device=device)

    def softmax() -> Any:
        return pydp.evaluate("exp(x - s)", x=rows, s=pydp.logsumexp(rows, axis=1, keepdims=True))

    def layer_norm() -> Any:
        mean, variance = pydp.mean_var(rows, axis=1, keepdims=True)
        return pydp.evaluate("(x - m) * rsqrt(v + 1e-5f)", x=rows, m=mean, v=variance)

    def softmax_of(x: np.ndarray) -> np.ndarray:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def layer_norm_of(x: np.ndarray) -> np.ndarray:
        return np.asarray((x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5))

    found = []
    for name, ours, theirs, torchs in (
        ("softmax", softmax, softmax_of, lambda torch, x: torch.softmax(x, 1)),
        ("layer norm", layer_norm, layer_norm_of, lambda torch, x: torch.nn.functional.layer_norm(x, (side,))),
    ):
        np.testing.assert_allclose(ours().get(), theirs(x), rtol=1e-3, atol=1e-4)

        def on_device(ours: Callable[[], Any] = ours) -> None:
            ours()
            device.queue.finish()

        calls: peers.Candidates = {"pydp": on_device, "NumPy": partial(theirs, x)}
        calls |= peers.torch(device, torchs, x)
        seconds = alternating(calls, repeats=5, budget=4.0, warm=2)
        spent = seconds["pydp"]
        ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
        case = f"{name} of rows, {side}x{side}"
        found.append(Row("evaluate", case, device.name, spent, 2 * x.nbytes / spent / 1e9, "GB/s", ratios))
    return found


def _operators(device: pydp.Device, n: int, quick: bool) -> Row:
    """Operators of Fields of n float32."""
    arrays = list(np.random.default_rng(1).standard_normal((5, n), np.float32))
    fields = [pydp.field(one, device=device) for one in arrays]

    def expression(a: Any, x: Any, y: Any, z: Any, w: Any) -> Any:
        return a * x + y * z - w

    def on_device() -> Any:
        result = expression(*fields)
        result.event.wait()
        return result

    def separately() -> Any:
        most, fusion.MOST_STEPS = fusion.MOST_STEPS, 0
        try:
            return on_device()
        finally:
            fusion.MOST_STEPS = most

    np.testing.assert_array_equal(on_device().get(), expression(*arrays))
    many = 1 if n > 10000 else 100  # calls of a measurement
    calls: peers.Candidates = {
        name: partial(_repeat, call, many)
        for name, call in (("pydp", on_device), ("a kernel each", separately), ("NumPy", lambda: expression(*arrays)))
    }
    seconds = alternating(calls, repeats=5 if quick else 15, budget=6.0, warm=2)
    spent = seconds["pydp"] / many
    ratios = {peer: took / many / spent for peer, took in seconds.items() if peer != "pydp"}
    rate = 6 * arrays[0].nbytes / spent / 1e9
    return Row("evaluate", f"operators a * x + y * z - w, {n}", device.name, spent, rate, "GB/s", ratios)


def _repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()
