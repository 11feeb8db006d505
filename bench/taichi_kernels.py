"""The kernels of `bench_vector_functions` for Taichi, on its CPU backend with its default settings.

Taichi reads the annotations of parameters, which therefore are no text here, and no types that mypy knows.
"""

import functools
import importlib
from types import SimpleNamespace


@functools.cache
def kernels() -> SimpleNamespace:
    """The kernels by name; Taichi compiles each at its first call. Raises ImportError if Taichi is not installed."""
    ti = importlib.import_module("taichi")
    array, number = ti.types.ndarray(), ti.f32

    @ti.kernel
    def stencil(out: array, a: array):
        """The border of `out` is not written."""
        for i, j in ti.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
            out[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])

    @ti.kernel
    def mandelbrot(picture: array, scale: number, left: number, top: number, limit: ti.i32):
        for i, j in picture:
            cr, ci = left + scale * j, top - scale * i
            zr, zi, steps = 0.0, 0.0, 0
            while steps < limit and zr * zr + zi * zi <= 4.0:
                zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
                steps += 1
            picture[i, j] = steps

    @ti.kernel
    def accelerations(out: array, x: array, y: array, z: array, softening: number):
        for i in x:
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(x.shape[0]):
                dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
                inverse = ti.rsqrt(dx * dx + dy * dy + dz * dz + softening)
                cube = inverse * inverse * inverse
                ax += dx * cube
                ay += dy * cube
                az += dz * cube
            out[0, i], out[1, i], out[2, i] = ax, ay, az

    @ti.func
    def _normal(x):
        """The cumulative normal distribution. Taichi has no erf: Abramowitz and Stegun, 7.1.26."""
        z = ti.abs(x) * 0.70710678
        t = 1.0 / (1.0 + 0.3275911 * z)
        series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        erf = 1.0 - series * ti.exp(-z * z)
        return 0.5 + 0.5 * ti.select(x < 0, -erf, erf)

    @ti.kernel
    def black_scholes(
        call: array, put: array, price: array, strike: array, years: array, rate: number, volatility: number
    ):
        for i in price:
            spread = volatility * ti.sqrt(years[i])
            d1 = (ti.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / spread
            below, exercised = _normal(d1), _normal(d1 - spread)
            discounted = strike[i] * ti.exp(-rate * years[i])
            call[i] = price[i] * below - discounted * exercised
            put[i] = discounted * (1.0 - exercised) - price[i] * (1.0 - below)

    return SimpleNamespace(
        stencil=stencil, mandelbrot=mandelbrot, accelerations=accelerations, black_scholes=black_scholes
    )
