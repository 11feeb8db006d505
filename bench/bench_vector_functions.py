"""Vector functions of users (`forall`) against the same loops in Numba, Taichi and Warp, and the device's limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.bench_forall import stencil
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp
import pydp.math

_RATE, _VOLATILITY = np.float32(0.02), np.float32(0.3)
_SOFTENING = np.float32(0.01)


@pydp.vector
def mandelbrot(idx: Any, picture: Any, scale: Any, left: Any, top: Any, limit: Any) -> None:
    """Steps until a point of the plane escapes."""
    cr, ci = left + scale * idx[1], top - scale * idx[0]
    zr, zi = 0.0, 0.0
    steps = 0
    while steps < limit and zr * zr + zi * zi <= 4.0:
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        steps += 1
    picture[idx] = steps


@pydp.vector
def accelerations(idx: Any, out: Any, x: Any, y: Any, z: Any, softening: Any) -> None:
    """Of bodies of mass 1, by all bodies. The peers' compilers may fuse products and sums; here, ``pydp.fma`` does."""
    i = idx[0]
    ax, ay, az = 0.0, 0.0, 0.0
    for j in range(x.extent[0]):
        dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
        square = pydp.fma(dx, dx, pydp.fma(dy, dy, pydp.fma(dz, dz, softening)))
        inverse = pydp.math.rsqrt(square)
        cube = inverse * inverse * inverse
        ax, ay, az = pydp.fma(dx, cube, ax), pydp.fma(dy, cube, ay), pydp.fma(dz, cube, az)
    out[0, i] = ax
    out[1, i] = ay
    out[2, i] = az


@pydp.vector
def black_scholes(
    idx: Any, call: Any, put: Any, price: Any, strike: Any, years: Any, rate: Any, volatility: Any
) -> None:
    """Prices of European options."""
    spread = volatility * np.sqrt(years[idx])
    d1 = (np.log(price[idx] / strike[idx]) + (rate + 0.5 * volatility * volatility) * years[idx]) / spread
    below = 0.5 + 0.5 * pydp.math.erf(0.70710678 * d1)  # the cumulative normal distribution
    exercised = 0.5 + 0.5 * pydp.math.erf(0.70710678 * (d1 - spread))
    discounted = strike[idx] * np.exp(-rate * years[idx])
    call[idx] = price[idx] * below - discounted * exercised
    put[idx] = discounted * (1.0 - exercised) - price[idx] * (1.0 - below)


def run(device: Any, quick: bool = False) -> list[Row]:
    """A stencil, the Mandelbrot set, n bodies and option prices, in elements per second."""
    return [_stencil(device, quick), _mandelbrot(device, quick), _bodies(device, quick), _options(device, quick)]


def _row(device: Any, case: str, size: int, ours: Callable[[], Any], theirs: peers.Candidates, copied: int = 0) -> Row:
    """copied: bytes that a call reads and writes, if memory limits it."""
    copy = Limits(device).copy(copied // 2) if copied else None
    seconds = alternating({"pydp": ours} | theirs | ({"copy": copy} if copy else {}))
    took = seconds["pydp"]
    ratios = {name: seconds[name] / took for name in theirs}
    if copy:
        ratios["copy limit"] = copied / took / 1e9 / copy.rate(seconds["copy"])
    return Row("vector_functions", case, device.name, took, size / took / 1e9, "Gitem/s", ratios)


def _stencil(device: Any, quick: bool) -> Row:
    side = 512 if quick else 4096
    a = np.random.default_rng(0).standard_normal((side, side), np.float32)
    given, out = pydp.field(a, device=device), pydp.zeros(a.shape, a.dtype, device=device)

    def ours() -> None:
        pydp.forall(a.shape, stencil, out, given).wait()

    calls, results = peers.compiled(device, "stencil", [a], a)
    row = _row(device, f"stencil {side}x{side}", a.size, ours, calls, 2 * a.nbytes)
    for (theirs,) in results.values():
        np.testing.assert_allclose(out.get()[1:-1, 1:-1], theirs[1:-1, 1:-1], rtol=0, atol=1e-6)
    return row


def _mandelbrot(device: Any, quick: bool) -> Row:
    shape = (96, 128) if quick else (768, 1024)
    view = tuple(np.float32(value) for value in (2.4 / shape[0], -2.2, 1.2))
    picture = pydp.zeros(shape, np.int32, device=device)

    def ours() -> None:
        pydp.forall(shape, mandelbrot, picture, *view, 256).wait()

    calls, results = peers.compiled(device, "mandelbrot", [np.zeros(shape, np.int32)], *view, 256)
    row = _row(device, f"Mandelbrot set {shape[0]}x{shape[1]}", shape[0] * shape[1], ours, calls)
    for (theirs,) in results.values():  # fused products let points near the border escape at another step
        assert np.mean(picture.get() != theirs) < 0.01
    return row


def _bodies(device: Any, quick: bool) -> Row:
    n = 512 if quick else 8192
    places = np.random.default_rng(0).standard_normal((3, n), np.float32)
    given = [pydp.field(one, device=device) for one in places]
    out = pydp.zeros(places.shape, np.float32, device=device)

    def ours() -> None:
        pydp.forall(n, accelerations, out, *given, _SOFTENING).wait()

    calls, results = peers.compiled(device, "accelerations", [places], *places, _SOFTENING)
    row = _row(device, f"{n} bodies", n * n, ours, calls)
    for (theirs,) in results.values():
        np.testing.assert_allclose(out.get(), theirs, rtol=1e-3, atol=1e-2 * np.abs(theirs).max())
    return row


def _options(device: Any, quick: bool) -> Row:
    n = 1 << (16 if quick else 22)
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(low, high, n).astype(np.float32) for low, high in ((5, 30), (1, 100), (0.25, 10))]
    given = [pydp.field(one, device=device) for one in inputs]
    out = [pydp.zeros(n, np.float32, device=device) for _ in range(2)]

    def ours() -> None:
        pydp.forall(n, black_scholes, *out, *given, _RATE, _VOLATILITY).wait()

    calls, results = peers.compiled(device, "black_scholes", inputs[:2], *inputs, _RATE, _VOLATILITY)
    row = _row(device, f"Black-Scholes, {n} options", n, ours, calls)
    for theirs in results.values():
        for one, other in zip(out, theirs, strict=True):
            np.testing.assert_allclose(one.get(), other, rtol=1e-3, atol=1e-3)
    return row
