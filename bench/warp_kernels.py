"""The kernels of `bench_vector_functions` for Warp, on its CPU device with its default settings.

Warp reads the annotations of parameters, which therefore are no text here, and no types that mypy knows.
"""

import functools
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


@functools.cache
def kernels() -> SimpleNamespace:
    """Functions of NumPy arrays, by name; Warp compiles each at its first call. Raises ImportError without Warp."""
    wp = importlib.import_module("warp")
    one, two = wp.array(dtype=wp.float32), wp.array2d(dtype=wp.float32)
    number = wp.float32

    @wp.kernel
    def stencil(out: two, a: two):
        """The border of `out` is not written."""
        i, j = wp.tid()
        if i > 0 and i < a.shape[0] - 1 and j > 0 and j < a.shape[1] - 1:
            out[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])

    @wp.kernel
    def mandelbrot(picture: wp.array2d(dtype=wp.int32), scale: number, left: number, top: number, limit: wp.int32):
        i, j = wp.tid()
        cr, ci = left + scale * wp.float32(j), top - scale * wp.float32(i)
        zr, zi, steps = wp.float32(0.0), wp.float32(0.0), wp.int32(0)
        while steps < limit and zr * zr + zi * zi <= 4.0:
            real = zr * zr - zi * zi + cr
            zi = 2.0 * zr * zi + ci
            zr = real
            steps += 1
        picture[i, j] = steps

    @wp.kernel
    def accelerations(out: two, x: one, y: one, z: one, softening: number):
        i = wp.tid()
        ax, ay, az = wp.float32(0.0), wp.float32(0.0), wp.float32(0.0)
        for j in range(x.shape[0]):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            inverse = 1.0 / wp.sqrt(dx * dx + dy * dy + dz * dz + softening)
            cube = inverse * inverse * inverse
            ax += dx * cube
            ay += dy * cube
            az += dz * cube
        out[0, i] = ax
        out[1, i] = ay
        out[2, i] = az

    @wp.func
    def normal(x: number):
        return 0.5 + 0.5 * wp.erf(0.70710678 * x)

    @wp.kernel
    def black_scholes(call: one, put: one, price: one, strike: one, years: one, rate: number, volatility: number):
        i = wp.tid()
        spread = volatility * wp.sqrt(years[i])
        d1 = (wp.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / spread
        below, exercised = normal(d1), normal(d1 - spread)
        discounted = strike[i] * wp.exp(-rate * years[i])
        call[i] = price[i] * below - discounted * exercised
        put[i] = discounted * (1.0 - exercised) - price[i] * (1.0 - below)

    def shared(x: np.ndarray) -> Any:
        return wp.array(x, dtype=wp.dtype_from_numpy(x.dtype), device="cpu", copy=False)

    def launched(kernel: Any, dim: Callable[..., Any]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            given = [shared(x) if isinstance(x, np.ndarray) else x for x in arguments]
            wp.launch(kernel, dim(*arguments), given, device="cpu")

        return call

    return SimpleNamespace(
        stencil=launched(stencil, lambda out, a: out.shape),
        mandelbrot=launched(mandelbrot, lambda picture, *rest: picture.shape),
        accelerations=launched(accelerations, lambda out, x, *rest: x.size),
        black_scholes=launched(black_scholes, lambda call, *rest: call.size),
    )
