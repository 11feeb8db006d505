"""The kernels of `bench_vector_functions` for Numba: `prange`, fastmath, and SVML if icc-rt is installed."""

from __future__ import annotations

import functools
import importlib
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

ZERO, HALF, ONE, TWO, FOUR = (np.float32(value) for value in (0, 0.5, 1, 2, 4))


@functools.cache
def kernels() -> SimpleNamespace:
    """The kernels by name; Numba compiles each at its first call. Raises ImportError if Numba is not installed."""
    numba = importlib.import_module("numba")
    prange = numba.prange
    parallel = numba.njit(parallel=True, fastmath=True)

    @parallel
    def stencil(out: Any, a: Any) -> None:
        """The border of `out` is not written."""
        for i in prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                out[i, j] = np.float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])

    @parallel
    def mandelbrot(picture: Any, scale: Any, left: Any, top: Any, limit: Any) -> None:
        for i in prange(picture.shape[0]):
            for j in range(picture.shape[1]):
                cr, ci = left + scale * np.float32(j), top - scale * np.float32(i)
                zr, zi, steps = ZERO, ZERO, 0
                while steps < limit and zr * zr + zi * zi <= FOUR:
                    zr, zi = zr * zr - zi * zi + cr, TWO * zr * zi + ci
                    steps += 1
                picture[i, j] = steps

    @parallel
    def accelerations(out: Any, x: Any, y: Any, z: Any, softening: Any) -> None:
        for i in prange(x.size):
            ax, ay, az = ZERO, ZERO, ZERO
            for j in range(x.size):
                dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                inverse = ONE / np.sqrt(dx * dx + dy * dy + dz * dz + softening)
                cube = inverse * inverse * inverse
                ax += dx * cube
                ay += dy * cube
                az += dz * cube
            out[0, i], out[1, i], out[2, i] = ax, ay, az

    @numba.njit(fastmath=True)
    def _normal(x: Any) -> Any:
        return HALF + HALF * np.float32(math.erf(x * np.float32(0.70710678)))

    @parallel
    def black_scholes(call: Any, put: Any, price: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> None:
        for i in prange(price.size):
            spread = volatility * np.sqrt(years[i])
            d1 = (np.log(price[i] / strike[i]) + (rate + HALF * volatility * volatility) * years[i]) / spread
            below, exercised = _normal(d1), _normal(d1 - spread)
            discounted = strike[i] * np.exp(-rate * years[i])
            call[i] = price[i] * below - discounted * exercised
            put[i] = discounted * (ONE - exercised) - price[i] * (ONE - below)

    return SimpleNamespace(
        stencil=stencil, mandelbrot=mandelbrot, accelerations=accelerations, black_scholes=black_scholes
    )
