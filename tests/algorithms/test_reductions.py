"""The reductions with hooks against NumPy: positions, bounds, tests, moments, products, norms, masks, NaN."""

from __future__ import annotations

import dataclasses
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selections import Guarded

import pydp

EXACT = {
    "argmin": np.argmin,
    "argmax": np.argmax,
    "min_max": lambda x, **named: (np.min(x, **named), np.max(x, **named)),
    "any": np.any,
    "all": np.all,
    "count_nonzero": lambda x, **named: np.asarray(np.count_nonzero(x, **named), np.int64),
    "nanmin": np.nanmin,
    "nanmax": np.nanmax,
}
ROUNDED = {"mean": np.mean, "var": np.var, "std": np.std, "nanmean": np.nanmean, "nanvar": np.nanvar}
LANES = {"mapping": "simt", "lanes": 16, "items": 2, "waves": 3, "part": 64, "longest": 2**30, "columns": 1, "busy": 4}
VECTORS = {
    "mapping": "vector",
    "width": 4,
    "unroll": 2,
    "part": 64,
    "longest": 2**30,
    "columns": 8,
    "busy": 8,
    "rows": 4,
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0], np.float32)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of empty and of NaN-only slices


def _same(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            _same(one, other)
        return
    got = np.asarray(got.get() if hasattr(got, "get") else got)
    assert got.dtype == np.asarray(want).dtype and got.shape == np.shape(want), (got.dtype, got.shape)
    np.testing.assert_array_equal(got, want)


def _close(got: Any, want: Any, dtype: Any, scale: float = 1.0) -> None:
    """want: computed in float64. Runs are float64 on CPUs that have it; else sums of 16 float32 are rounded."""
    got = np.asarray(got.get() if hasattr(got, "get") else got)
    assert got.dtype == np.dtype(dtype) and got.shape == np.shape(want), (got.dtype, got.shape)
    # float32 runs: the squares of 16 elements are rounded to some eight units, and only 1/16 of their sum may remain.
    profile = pydp.device().profile
    units = 8 if profile.fp64 and profile.mapping == "vector" else 128
    tolerance = units * float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)


def _data(n: int, dtype: str, seed: int, special: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if special:
        return rng.choice(SPECIAL, n).astype(dtype)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(n).astype(dtype)
    low = {"i": -9, "u": 0, "b": 0}[np.dtype(dtype).kind]
    return rng.integers(low, 2 if dtype == "?" else 10, n).astype(dtype)


# --- small, for the simulator ---------------------------------------------------------------------------------------


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [None, VECTORS, LANES], ids=["default", "vector", "simt"])
def test_small(device: Any, spec: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (3, 150)).astype(np.float32)
    for axis in (0, 1):
        _same(pydp.argmax(x, axis, spec=spec), np.argmax(x, axis))
        _same(pydp.min_max(x, axis, spec=spec), (x.min(axis), x.max(axis)))
        _close(pydp.var(x, axis, spec=spec), x.astype(np.float64).var(axis), np.float32)
    _same(pydp.argmin(x, spec=spec), np.argmin(x))
    _same(pydp.dot(x[0], x[1], spec=spec), np.dot(x[0], x[1]))
    _same(pydp.sum(x, where=x > 0, spec=spec), np.sum(x, where=x > 0))


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [VECTORS, LANES], ids=["vector", "simt"])
def test_small_without_nan(device: Any, spec: Any) -> None:
    x = np.random.default_rng(1).choice(SPECIAL, 90)
    x[np.isinf(x)] = 3
    _close(pydp.nanvar(x, spec=spec), np.nanvar(x.astype(np.float64)), np.float32)
    _same(pydp.nanmax(x, spec=spec), np.nanmax(x))
    _same(pydp.count_nonzero(x, spec=spec), np.asarray(np.count_nonzero(x), np.int64))


# --- values, sizes, layouts -----------------------------------------------------------------------------------------

SIZES = st.one_of(
    st.integers(1, 5000), st.sampled_from([15, 16, 17, 63, 64, 65, 127, 128, 1023, 1024, 1025, 4095, 4097])
)


@pytest.mark.parametrize(
    "name, dtype", [*((name, "f4") for name in EXACT), ("argmin", "u1"), ("min_max", "i4"), ("count_nonzero", "u1")]
)
@settings(max_examples=25)
@given(n=SIZES, seed=st.integers(0, 2**32), special=st.booleans(), step=st.sampled_from([1, 1, -1, 3]))
def test_exact_results_of_any_size(
    device: Any, name: str, dtype: str, n: int, seed: int, special: bool, step: int
) -> None:
    x = _data(n, dtype, seed, special and dtype == "f4")[::step]
    _same(getattr(pydp, name)(x, device=device), EXACT[name](x))


@pytest.mark.parametrize("name", ROUNDED)
@settings(max_examples=25)
@given(n=SIZES, seed=st.integers(0, 2**32), special=st.booleans(), step=st.sampled_from([1, 1, -1, 3]))
def test_moments_of_any_size(device: Any, name: str, n: int, seed: int, special: bool, step: int) -> None:
    x = _data(n, "f4", seed, special)[::step]
    _close(getattr(pydp, name)(x, device=device), ROUNDED[name](x.astype(np.float64)), np.float32)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["argmax", "min_max", "any", "nanmin", "var", "nanmean"])
@settings(max_examples=15)
@given(st.data())
def test_axes_and_strides(device: Any, name: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=3)))
    x = _data(int(np.prod(shape)), "f4", data.draw(st.integers(0, 99))).reshape(shape).round(1)
    x = x.transpose(data.draw(st.permutations(range(len(shape)))))
    x = x[tuple(slice(None, None, data.draw(st.sampled_from([1, 1, -1, 2]))) for _ in shape)]
    axes: Any = [None, *range(-x.ndim, x.ndim)]
    if name not in ("argmax",):
        axes += [(0, 1), (0, -1)]
    axis, keepdims = data.draw(st.sampled_from(axes)), data.draw(st.booleans())
    got = getattr(pydp, name)(x, axis, keepdims=keepdims, device=device)
    if name in EXACT:
        _same(got, EXACT[name](x, axis=axis, keepdims=keepdims))
    else:
        _close(got, ROUNDED[name](x.astype(np.float64), axis=axis, keepdims=keepdims), np.float32)


LIMITS = (1, 15, 16, 17, 31, 63, 64, 65, 1023, 1024, 1025, 2049, 65_535, 65_536, 65_537, 262_145, 1_000_003)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["f4", "i1", "f8", "?"])
def test_sizes_either_side_of_every_limit(device: Any, dtype: str) -> None:
    needs.dtype(device, *([dtype] if dtype[0] == "f" else []))
    for n in LIMITS:
        x = np.zeros(n, dtype)
        for place in (n // 2, n - 1):
            x[:] = 0
            x[place] = 1
            assert pydp.argmax(x) == place and pydp.argmin(x) == (0 if place else min(1, n - 1)), (n, place)
            assert pydp.count_nonzero(x) == 1 and pydp.any(x)
        low, high = pydp.min_max(x)
        assert (low, high) == (x.min(), 1), n
        if dtype == "f4":
            x[:] = np.arange(n) % 7
            _close(pydp.var(x), x.astype(np.float64).var(), np.float32)
            _close(pydp.mean(x), x.astype(np.float64).mean(), np.float32)


def test_ties_and_nan_are_first(device: Any) -> None:
    for n in (5, 100, 5000, 200_000):
        x = np.zeros(n, np.float32)
        assert pydp.argmax(x) == pydp.argmin(x) == 0
        x[n // 3 :] = -0.0
        assert pydp.argmax(x) == pydp.argmin(x) == 0
        x[[n // 2, n - 1]] = 1
        assert pydp.argmax(x) == n // 2 and pydp.argmin(x) == 0
        x[[n // 2 + 1, n - 1]] = np.nan
        assert pydp.argmax(x) == pydp.argmin(x) == n // 2 + 1
        assert pydp.nanargmax(x) == n // 2 and pydp.nanargmin(x) == 0
        assert all(np.isnan(one) for one in pydp.min_max(x))
        x[:] = -np.inf
        assert pydp.argmax(x) == pydp.nanargmax(x) == 0
        x[:] = np.nan
        assert pydp.argmax(x) == 0 and pydp.nanargmax(x) == pydp.nanargmin(x) == -1
        assert np.isnan(pydp.nanmin(x)) and np.isnan(pydp.nanmean(x)) and pydp.nansum(x) == 0


@pytest.mark.parametrize("axis", [0, 1])
def test_positions_in_matrices(device: Any, axis: int) -> None:
    for shape in ((70, 3000), (3000, 70), (2000, 5), (5, 2000)):
        x = np.random.default_rng(0).integers(0, 50, shape).astype(np.float32)
        for view in (x, x[::-1, ::2], np.asfortranarray(x)):
            _same(pydp.argmax(view, axis), np.argmax(view, axis))
            _same(pydp.argmin(view), np.argmin(view))
            _close(pydp.std(view, axis), view.astype(np.float64).std(axis), np.float32)


@pytest.mark.sweep
def test_other_mapping(device: Any) -> None:
    x = np.random.default_rng(0).integers(-5, 6, (37, 531)).astype(np.float32)
    for spec in (LANES, {**LANES, "items": 1, "waves": 8}, VECTORS):
        for axis in (None, 0, 1):
            _same(pydp.argmin(x, axis, spec=spec), np.argmin(x, axis))
            _close(pydp.var(x, axis, spec=spec), x.astype(np.float64).var(axis), np.float32)
            _same(pydp.nansum(x, axis, spec=spec), np.nansum(x, axis))


# --- accuracy -------------------------------------------------------------------------------------------------------


def test_variances_are_accurate(device: Any) -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(300_000)
    outlier = noise.copy()
    outlier[0] = 1e6
    shifted = np.full(300_000, 7.25)
    for values in (noise + 1e4, outlier, np.repeat(noise[:300], 1000), noise * 1e-10, np.sort(noise)):
        x = values.astype(np.float32)
        for view in (x, x.reshape(-1, 3000), x.reshape(3000, -1)):
            want = view.astype(np.float64).var(0)
            limit = 1e-6 if device.profile.mapping == "vector" else 1e-5
            np.testing.assert_allclose(pydp.var(view, 0), want, rtol=limit)
            np.testing.assert_allclose(pydp.nanvar(view, 0), want, rtol=limit)
    assert pydp.var(shifted.astype(np.float32)) == 0 == pydp.std(shifted.astype(np.float32))
    ours, theirs = (abs(float(f(x)) - x.astype(np.float64).mean()) for f in (pydp.mean, np.mean))
    assert ours <= max(theirs, 1e-6)


@pytest.mark.sweep
def test_float64(device: Any) -> None:
    needs.dtype(device, "f8")
    x = np.random.default_rng(0).standard_normal((300, 70)) + 100
    for axis in (None, 0, 1):
        for name in ("mean", "var", "std", "nanvar"):
            np.testing.assert_allclose(getattr(pydp, name)(x, axis), getattr(np, name)(x, axis), rtol=1e-12)
        np.testing.assert_allclose(pydp.norm(x, axis=axis), np.linalg.norm(x, axis=axis if axis is not None else None))
    for dtype in ("i4", "u1", "?"):
        y = (x > 100).astype(dtype)
        assert pydp.mean(y).dtype == np.float64 and pydp.mean(y) == pytest.approx(np.mean(y), rel=1e-14)
        assert pydp.var(y, ddof=1) == pytest.approx(np.var(y, ddof=1), rel=1e-12)
    assert pydp.mean(x.astype("i4"), dtype=np.float32).dtype == np.float32
    z = x + 1j * x[::-1]
    assert pydp.mean(z) == pytest.approx(np.mean(z)) and pydp.norm(z) == pytest.approx(np.linalg.norm(z))
    assert pydp.vdot(z, x) == pytest.approx(np.vdot(z, x)) and pydp.dot(z[0], z[1]) == pytest.approx(z[0] @ z[1])


def test_same_bits_in_every_run(device: Any) -> None:
    x = pydp.field(np.random.default_rng(3).standard_normal(400_000).astype(np.float32))
    for function in (pydp.var, pydp.mean, pydp.norm, pydp.logsumexp):
        assert len({function(x).get().tobytes() for _ in range(100)}) == 1


# --- masks, products, norms -----------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(1, 3000), st.integers(0, 99), st.sampled_from([None, 0, 1]))
def test_masks(device: Any, n: int, seed: int, axis: Any) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (2, n)).astype(np.float32)
    for mask in (rng.random((2, n)) < 0.5, rng.random(n) < 0.5, rng.random((2, 1)) < 0.5):
        named: Any = {"axis": axis, "where": mask}
        _same(pydp.sum(x, **named), np.sum(x, **named))
        _same(pydp.any(x, **named), np.any(x, **named))
        _same(pydp.all(x, **named), np.all(x, **named))
        for name in ("mean", "var"):
            _close(getattr(pydp, name)(x, **named), getattr(np, name)(x.astype(np.float64), **named), np.float32)


def test_sums_and_products(device: Any) -> None:
    x = np.random.default_rng(0).integers(1, 3, (5, 12)).astype(np.int32)
    for axis in (None, 0, 1):
        for name in ("sum", "prod", "min", "max"):
            _same(getattr(pydp, name)(x, axis), getattr(np, name)(x, axis))
    _same(pydp.prod(x, 1, where=x > 1), np.prod(x, 1, where=x > 1))
    _same(pydp.sum(x > 1, where=True), np.sum(x > 1))


def test_first_values(device: Any) -> None:
    x = np.random.default_rng(0).integers(1, 4, (5, 12)).astype(np.int32)
    mask, none = x > 1, np.zeros((5, 12), bool)
    for name in ("sum", "prod", "min", "max"):
        ours, numpys = getattr(pydp, name), getattr(np, name)
        for named in ({"axis": 1}, {"axis": 1, "where": mask}, {"where": none}):
            _same(ours(x, initial=2, **named), numpys(x, initial=2, **named))
        first = pydp.full(1, 2, ours(x).dtype)
        _same(ours(pydp.field(x), 1, where=pydp.field(mask), initial=first), numpys(x, 1, where=mask, initial=2))
    _same(pydp.max(x[:0], axis=0, initial=-3), np.max(x[:0], axis=0, initial=-3))
    nan = np.where(mask, np.nan, x).astype(np.float32)
    _same(pydp.min(nan, where=~mask, initial=9), np.min(nan, where=~mask, initial=9))
    assert np.isnan(pydp.min(nan, where=mask, initial=0))
    assert "first value" in str(pydp.explain(pydp.min, x, where=mask, initial=1))
    for named, match in (({"initial": 2.5}, "2.5"), ({"initial": [1, 2]}, "one value"), ({}, "initial= is needed")):
        with pytest.raises(pydp.InvalidArgument, match=match):
            pydp.min(x, where=mask, **named)


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [None, LANES], ids=["default", "simt"])
@pytest.mark.parametrize("special", [False, True], ids=["numbers", "nan"])
def test_extremes_of_complex_numbers(device: Any, spec: Any, special: bool) -> None:
    """By real and then by imaginary parts, as NumPy. The result is the first number with NaN, bit for bit."""
    rng = np.random.default_rng(0)
    z = (rng.integers(-2, 3, (5, 90)) + 1j * rng.integers(-2, 3, (5, 90))).astype(np.complex64)
    if special:
        z[3, 50], z[3, 9], z[2], z[0, 7] = np.nan, complex(1, np.nan), np.nan, complex(np.inf, np.nan)
    for axis in (None, 0, 1):
        for name in ("max", "min", "argmax", "argmin", "nanmax", "nanmin"):
            _same(getattr(pydp, name)(z, axis, spec=spec), getattr(np, name)(z, axis))
        low, high = pydp.min_max(z, axis, spec=spec)
        want = np.min(z, axis), np.max(z, axis)
        for got, one in zip((low, high), want, strict=True):
            known = ~np.isnan(one)
            assert np.array_equal(np.isnan(got), ~known)
            np.testing.assert_array_equal(np.asarray(got)[known], np.asarray(one)[known])
    if not special:
        _same(pydp.nanargmax(z, 1, spec=spec), np.nanargmax(z, 1))
        _same(pydp.nanargmin(z, 1, spec=spec), np.nanargmin(z, 1))
        _same(pydp.max(z, where=z.real < 0, initial=-5), np.max(z, where=z.real < 0, initial=-5))
        _same(pydp.max(z, 1, where=z.real > 5, initial=3 + 1j), np.full(5, 3 + 1j, np.complex64))
        least = complex(-np.inf, -9)
        assert pydp.max(z, where=z.real > 5, initial=least) == least
        low, high = pydp.min_max(z, length=0)
        assert (low.real, low.imag, high.real, high.imag) == (np.inf, np.inf, -np.inf, -np.inf)
    _same(pydp.scan(z, "max", axis=1), np.maximum.accumulate(z, axis=1))
    _same(pydp.scan(z, "min", axis=0), np.minimum.accumulate(z, axis=0))


@pytest.mark.oclgrind
def test_variance_of_complex_numbers(device: Any) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((9, 40)) + 1j * rng.standard_normal((9, 40)) + 300 - 100j).astype(np.complex64)
    wide, mask = x.astype(np.complex128), rng.random((9, 40)) < 0.5
    for named in ({}, {"axis": 1, "ddof": 1}, {"axis": 0, "where": mask}):
        np.testing.assert_allclose(pydp.var(x, **named), np.var(wide, **named), rtol=2e-4)
    _close(pydp.std(x.T, 0), np.std(wide, 1), np.float32)
    x[2, 3], wide[2, 3] = (complex(0, np.nan),) * 2
    _close(pydp.nanstd(x, 1), np.nanstd(wide, 1), np.float32)
    assert np.isnan(pydp.var(x)) and np.isnan(pydp.var(x[:0], axis=0)).all()


@pytest.mark.parametrize("dtype", ["f4", "i1", "u8", "?"])
def test_products_of_vectors(device: Any, dtype: str) -> None:
    for n in (0, 1, 70, 5000, 100_003):
        a, b = _data(n, dtype, 1), _data(2 * n, dtype, 2)[::2]
        for name in ("dot", "inner", "vdot"):
            got, want = getattr(pydp, name)(a, b), getattr(np, name)(a, b)
            if dtype == "f4":
                _close(got, np.dot(a.astype(np.float64), b), np.float32, scale=float(np.abs(a) @ np.abs(b)))
            else:
                _same(got, want)


def test_products_of_matrices(device: Any) -> None:
    a, b = (np.random.default_rng(k).integers(-5, 5, (6, 6)).astype(np.float32) for k in (1, 2))
    for name in ("dot", "inner", "vdot"):
        _same(getattr(pydp, name)(a, b), getattr(np, name)(a, b))
        _same(getattr(pydp, name)(a.T, b[:, ::-1]), getattr(np, name)(a.T, b[:, ::-1]))
    _same(pydp.dot(a, b[0]), np.dot(a, b[0]))
    _same(pydp.inner(a, b[0]), np.inner(a, b[0]))
    for wrong in ((a[0], b[0, :3]), (a, np.zeros((2, 5, 6), np.float32)), (a, None)):
        with pytest.raises(pydp.InvalidArgument):
            pydp.dot(*wrong)


_SHAPES = [(), (3,), (2, 3), (4, 3, 3), (0, 3, 3), (2, 1, 3, 3)]
_FEW = [(3,), (2, 3, 3)]


@pytest.mark.parametrize(("kind", "shapes"), [("numpy", _SHAPES), ("field", _FEW), ("pyopencl", _FEW)])
@pytest.mark.parametrize("name", ["dot", "inner"])
def test_products_of_arrays_of_every_rank(device: Any, name: str, kind: str, shapes: Any) -> None:
    function, reference = getattr(pydp, name), getattr(np, name)

    def given(x: np.ndarray) -> Any:
        if kind == "pyopencl":
            return cl_array.to_device(device.queue, x)
        return pydp.field(x) if kind == "field" else x

    for first in shapes:
        for second in shapes:
            if len(first) == 1 == len(second):
                continue
            if name == "dot" and len(second) == 2:
                second = second[::-1]
            a = np.random.default_rng(1).integers(-5, 5, first).astype(np.int16)
            b = np.random.default_rng(2).integers(-5, 5, second).astype(np.float32)
            want = reference(a, b)
            if want.ndim > 6:
                with pytest.raises(pydp.InvalidArgument, match="6 axes"):
                    function(given(a), given(b))
                continue
            found = function(given(a), given(b))
            _same(found, want)
            out = given(np.full(want.shape, 7, want.dtype))
            assert function(given(a), given(b), out=out) is out
            _same(out, want)


def test_products_of_reshaped_arrays(device: Any) -> None:
    a, b = (np.random.default_rng(k).integers(-5, 5, (2, 6, 3, 8)).astype(np.int64) for k in (1, 2))
    a, b = a.transpose(2, 0, 3, 1)[:, :, ::2], b[:, ::-1, :, 1:7].transpose(3, 0, 1, 2)[:3]
    _same(pydp.inner(a, a[1]), np.inner(a, a[1]))
    _same(pydp.dot(a, b), np.dot(a, b))
    _same(pydp.dot(pydp.field(a), pydp.field(b)).get(), np.dot(a, b))
    out = np.full((3, 2, 4, 2), 7)
    with pytest.raises(pydp.InvalidArgument, match="the last axis of a and axis 2 of b must have equal sizes"):
        pydp.dot(a, a, out=out)
    with pytest.raises(pydp.InvalidArgument, match="out has shape"):
        pydp.inner(a, a, out=out)
    assert (out == 7).all()
    assert str(pydp.explain(pydp.inner, a, a)).startswith("inner") and "reshaped" in str(pydp.explain(pydp.inner, a, a))


def test_explanations_of_products_are_those_of_the_call(device: Any) -> None:
    a, b = np.ones((8, 5, 6), np.float32), np.ones((4, 7, 6), np.float32)
    said = pydp.explain(pydp.inner, a, b)
    assert "(8, 5, 4, 7)" in str(said.facts["result"]) and "n=28" in str(said.facts["product"])
    with pytest.raises(pydp.InvalidArgument, match="rows is"):
        pydp.explain(pydp.inner, a, b, spec={"rows": -1})
    out = np.full((8, 5, 4, 7), 7, np.float32)
    with pytest.raises(pydp.InvalidArgument, match="rows is"):
        pydp.inner(a, b, spec={"rows": -1}, out=out)
    with pytest.raises(pydp.InvalidArgument, match="None is accepted for a product with a number"):
        pydp.inner(np.float32(2), b, spec={"rows": 4})
    assert (out == 7).all()


def test_products_have_the_kind_and_the_queue_of_the_first_array(device: Any) -> None:
    a, b = np.ones((2, 3, 4), np.float32), np.ones((3, 4), np.float32)
    queue = cl.CommandQueue(device.context, device.cl)
    arrays = {
        np.ndarray: lambda x: x,
        pydp.Field: lambda x: pydp.field(x, device=device),
        cl_array.Array: lambda x: cl_array.to_device(queue, x),
    }
    for kind, made in arrays.items():
        for other in arrays.values():
            for x, y in ((a, a), (b[0], b), (b, b)):
                found = pydp.inner(made(x), other(y))
                assert isinstance(found, kind)
        found = pydp.dot(np.float32(2), made(b))
        assert isinstance(found, kind)
    for found in (pydp.inner(arrays[cl_array.Array](a), a), pydp.dot(np.float32(2), arrays[cl_array.Array](a))):
        assert found.queue == queue


def test_products_with_a_number(device: Any) -> None:
    x = np.array([-0.0, 0.0, 2, np.inf, -3], np.float32)
    for name in ("dot", "inner"):
        found = getattr(pydp, name)(np.float32(2), x)
        _same(found, 2 * x)
        assert np.array_equal(np.signbit(found), np.signbit(2 * x))
        assert isinstance(getattr(pydp, name)(np.float32(2), pydp.field(x)), pydp.Field)
        _same(getattr(pydp, name)(x, np.complex64(1j)), np.dot(x, np.complex64(1j)))
        _same(getattr(pydp, name)(3, 4), np.dot(3, 4))
        assert str(pydp.explain(getattr(pydp, name), np.float32(3), x)).startswith(name)
    out = np.full(5, 7, np.float32)
    for wrong in ((x, np.zeros((), [("a", "f4")])), (np.float32(2), x[:3])):
        with pytest.raises(pydp.InvalidArgument):
            pydp.dot(*wrong, out=out)
    assert (out == 7).all() and pydp.dot(np.float32(2), x, out=out) is out


def test_reductions_of_a_number_over_its_only_axis(device: Any) -> None:
    for name in ("sum", "prod", "min", "max", "argmin", "argmax", "any", "all", "nansum", "nanmax"):
        for axis in (0, -1, None):
            _same(getattr(pydp, name)(np.float32(3), axis=axis), getattr(np, name)(np.float32(3), axis=axis))
        with pytest.raises(pydp.InvalidArgument, match="axis=1"):
            getattr(pydp, name)(np.float32(3), axis=1)


def test_a_first_value_that_is_also_the_result(device: Any) -> None:
    x, mask = np.arange(4, dtype=np.float32), np.array([True, False, True, True])
    for name, want in (("sum", 10.0), ("max", 5.0), ("nansum", 10.0), ("nanmax", 5.0), ("prod", 0.0)):
        for made in (
            lambda v: pydp.full((), v, np.float32),
            lambda v: cl_array.to_device(device.queue, np.float32([v])),
        ):
            value = made(5)
            out = value if value.shape == () else value.reshape(())
            getattr(pydp, name)(x, where=mask, initial=value, out=out)
            assert out.get() == want
    value = pydp.full((), 5, np.float32)
    assert pydp.nansum(x, initial=value, length=0, out=value).get() == 5


def test_first_values_have_the_name_that_the_function_gives_them(device: Any) -> None:
    x = np.ones(3, np.float32)
    for name in ("sum", "prod", "min", "max"):
        with pytest.raises(pydp.InvalidArgument, match="initial='a' is not a number; one value of dtype float32"):
            getattr(pydp, name)(x, initial="a")
        with pytest.raises(pydp.InvalidArgument, match="initial='a' is not a number"):
            pydp.explain(getattr(pydp, name), x, initial="a")
        with pytest.raises(pydp.InvalidArgument, match=r"initial=\d+ is out of range; one value of dtype int64"):
            getattr(pydp, name)(np.arange(3), initial=2**70)
    assert pydp.sum(np.arange(3), initial=0.5, dtype=np.float32) == 3.5
    with pytest.raises(pydp.InvalidArgument, match="norm of an empty array has no result; at least one element"):
        pydp.norm(x[:0], -np.inf)
    with pytest.raises(pydp.InvalidArgument, match="init='a' is not a number"):
        pydp.reduce(x, init="a")
    with pytest.raises(pydp.InvalidArgument, match="pass initial="):
        pydp.nanmin(x[:0])
    with pytest.raises(pydp.InvalidArgument, match="initial= to min or max"):
        pydp.min(x, length=2)


def test_norms(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((7, 300)).astype(np.float32)
    for order in (None, 0, 1, 2, np.inf, -np.inf):
        for axis in (0, 1):
            want = np.linalg.norm(x.astype(np.float64), order, axis)
            _close(pydp.norm(x, order, axis), want, np.float32)
    _close(pydp.norm(x), np.linalg.norm(x.astype(np.float64)), np.float32)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    _close(pydp.norm(z, 1, axis=1), np.abs(z.astype(np.complex128)).sum(1), np.float32)
    for wrong in ({"ord": 3}, {"ord": np.nan, "axis": 0}, {"ord": "nuc"}, {"ord": 2, "axis": (0, 1)}, {"axis": 2}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.norm(x, **wrong)


@pytest.mark.parametrize("order", [3, -1, -2, 2.5, 0.5, np.float32(4)])
def test_norms_of_any_order(device: Any, order: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    for values in (x, x[:, ::-3], z):
        for axis, keepdims in ((0, False), (1, True)):
            want = np.linalg.norm(values, order, axis, keepdims)
            got = np.asarray(pydp.norm(values, order, axis, keepdims=keepdims))
            np.testing.assert_allclose(got, want, rtol=2e-5)
            assert got.dtype == np.float32 and got.shape == want.shape
    np.testing.assert_allclose(pydp.norm(pydp.field(x[0]), order).get(), np.linalg.norm(x[0], order), rtol=2e-5)
    for values in (np.array([0, 3], np.float32), np.zeros(0, np.float32)):
        np.testing.assert_allclose(pydp.norm(values, order), np.linalg.norm(values, order), rtol=1e-6)
    if device.profile.fp64:
        numbers = np.arange(-5, 9)
        np.testing.assert_allclose(pydp.norm(numbers, order), np.linalg.norm(numbers.astype(float), order), rtol=1e-12)


def test_an_order_that_no_float_holds(device: Any) -> None:
    with pytest.raises(pydp.InvalidArgument, match="ord is an integer beyond the range of floats"):
        pydp.norm(np.arange(5.0, dtype=np.float32), 10**400)


def test_largest_norms_of_no_elements(device: Any) -> None:
    """They are 0, as in NumPy 2.4."""
    assert pydp.norm(np.zeros(0, np.float32), np.inf) == pydp.norm(np.zeros((0, 3), np.float32), np.inf) == 0
    with pytest.raises(pydp.InvalidArgument, match="norm of an empty array"):
        pydp.norm(np.zeros(0, np.float32), -np.inf)
    assert pydp.norm(np.zeros((0, 3), np.float32), -1) == 0 == pydp.norm(np.zeros((3, 0), np.float32), -np.inf)
    for shape, order in (((3, 0), -1), ((0, 3), -np.inf)):
        with pytest.raises(pydp.InvalidArgument, match="needs at least one"):
            pydp.norm(np.zeros(shape, np.float32), order)


def test_first_values_and_masks_of_forms_that_skip_nan(device: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 300)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[3] = np.nan
    n, mask = rng.integers(-99, 99, x.shape).astype(np.int16), rng.random(x.shape) < 0.5
    mask[5] = False
    for name in ("nanmin", "nanmax"):
        function, numpy = getattr(pydp, name), getattr(np, name)
        for values in (x, n, x[:, :0]):
            for axis in (None, 0, 1):
                for first in (0, 50, -200):
                    if values.shape[1] or axis == 1:
                        _same(function(values, axis, initial=first), numpy(values, axis, initial=first))
                    if values.shape[1]:
                        named = {"initial": first, "where": mask, "keepdims": True}
                        _same(function(values, axis, **named), numpy(values, axis, **named))
        assert np.isnan(function(x[3])) and function(x[3], initial=2) == 2 == function(x[3:4, :9], initial=2)
        assert function(np.array([1, np.nan], np.float32), initial=np.nan) == 1
        assert "first value" in str(pydp.explain(function, x, axis=1, initial=2, where=mask))
    wide = x.astype(np.float64)
    for axis in (0, 1):
        want = np.nansum(wide, axis, initial=3, where=mask)
        np.testing.assert_allclose(pydp.nansum(x, axis, initial=3, where=mask), want, rtol=1e-4, atol=1e-4)
        want = np.nanprod(wide[:, :40], axis, initial=3, where=mask[:, :40])
        np.testing.assert_allclose(pydp.nanprod(x[:, :40], axis, initial=3, where=mask[:, :40]), want, rtol=1e-4)
        want = np.nanprod(wide[:, :40], axis)
        np.testing.assert_allclose(pydp.nanprod(x[:, :40], axis), want, rtol=1e-4)
    _same(pydp.nanprod(n[0, :5]), np.nanprod(n[0, :5]))


def test_corrections(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((9, 40)).astype(np.float32)
    for name in ("var", "std", "nanvar", "nanstd"):
        for correction in (0, 1, 2.5):
            want = getattr(np, name)(x.astype(np.float64), 1, correction=correction)
            np.testing.assert_allclose(getattr(pydp, name)(x, 1, correction=correction), want, rtol=2e-5)
        few = np.array([-2, 0], np.float32)
        assert np.isnan(getattr(pydp, name)(few, ddof=10)) == name.startswith("nan")


@pytest.mark.oclgrind
def test_norms_of_matrices(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 4)).astype(np.float32)
    z = (x + 1j * x[::-1]).astype(np.complex64)
    for order in ("fro", 1, -1, np.inf, -np.inf):
        for given_, axis, keepdims in ((x[0], None, False), (z, (0, 2), True), (x[:, ::2].T, (-1, 0), False)):
            want = np.linalg.norm(given_, order, axis, keepdims)
            got = np.asarray(pydp.norm(given_, order, axis, keepdims=keepdims))
            np.testing.assert_allclose(got, want, rtol=1e-5)
            assert got.dtype == np.float32 and got.shape == np.shape(want)
    out = np.zeros(3, np.float32)
    assert pydp.norm(x, np.inf, (1, 2), out=out) is out
    np.testing.assert_allclose(out, np.linalg.norm(x, np.inf, (1, 2)), rtol=1e-5)
    np.testing.assert_allclose(pydp.norm(pydp.field(x[0]), 1).get(), np.linalg.norm(x[0], 1), rtol=1e-5)
    assert "of the sums of magnitudes" in str(pydp.explain(pydp.norm, x[0], 1))
    for named, match in (
        ({"ord": 2, "axis": (0, 1)}, "singular values"),
        ({"ord": "nuc", "axis": (0, 1)}, "singular values"),
        ({"ord": 1, "axis": (1, 1)}, "two different axes"),
        ({"ord": 3, "axis": (1, 2)}, "ord is 3; None, 'fro', 1, -1"),
        ({"ord": "fro"}, "needs a matrix"),
        ({"ord": 1, "axis": (1, 2), "out": np.zeros(4, np.float32)}, r"out has shape \(4,\)"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=match):
            pydp.norm(x, **named)


def test_logarithms_of_sums_of_exponentials(device: Any) -> None:
    rng = np.random.default_rng(0)
    for scale in (1, 200):
        x = (scale * rng.standard_normal((50, 700))).astype(np.float32)
        for axis in (None, 0, 1):
            wide = x.astype(np.float64)
            want = np.logaddexp.reduce(wide, axis) if axis is not None else np.logaddexp.reduce(wide.ravel())
            np.testing.assert_allclose(pydp.logsumexp(x, axis), want, rtol=3e-6, atol=3e-6)
    inf = np.float32(np.inf)
    for values, found in (([-inf, -inf], -inf), ([inf, 1], inf), ([-inf, 2], 2), ([inf, inf], inf), ([], -inf)):
        assert pydp.logsumexp(np.array(values, np.float32)) == found
    assert np.isnan(pydp.logsumexp(np.array([1, np.nan], np.float32)))
    mask = rng.random((50, 700)) < 0.5
    mask[3], mask[:, 5] = False, False
    x[~mask & (x > 0)] = np.nan  # masked elements do not count, whatever they are
    for axis in (0, 1):
        want = np.logaddexp.reduce(x.astype(np.float64), axis, where=mask, initial=-np.inf)
        np.testing.assert_allclose(pydp.logsumexp(x, axis, where=mask), want, rtol=3e-6, atol=3e-6)
    assert pydp.logsumexp(x[0], where=np.zeros(700, bool)) == -np.inf


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "?"])
def test_masks_of_small_integers(device: Any, dtype: str) -> None:
    """A driver's compiler crashed at a choice between an int8 and a constant."""
    x = np.arange(-60, 60).astype(dtype).reshape(6, 20)
    mask = np.arange(120).reshape(6, 20) % 7 < 3
    for axis in (None, 0, 1):
        for name, named in {
            "min": {"initial": 1},
            "max": {"initial": 0},
            "sum": {},
            "prod": {"dtype": x.dtype},
        }.items():
            want = getattr(np, name)(x, axis, where=mask, **named)
            _same(getattr(pydp, name)(x, axis, where=mask, **named), want)
        _same(pydp.sum(x, axis, where=mask, dtype=x.dtype), np.sum(x, axis, where=mask, dtype=x.dtype))


@pytest.mark.parametrize("spec", [None, LANES, VECTORS], ids=["default", "lanes", "vectors"])
@pytest.mark.parametrize("dtype", ["f4", "i2", "c8", "f8"])
def test_mean_and_variance_in_one_pass(device: Any, dtype: str, spec: Any) -> None:
    needs.dtype(device, *(["f8"] if dtype in ("i2", "f8") else []))
    if spec is not None:
        needs.vector_mapping(device, spec["mapping"])
    x = (np.random.default_rng(5).standard_normal((31, 230)) * 40 + 300).astype(dtype)
    x = (x + 1j * x[::-1]).astype(dtype) if dtype == "c8" else x
    wide = x.astype(np.complex128 if dtype == "c8" else np.float64)
    mask = x.real > 290
    for axis in (None, 0, 1):
        for where, keepdims in ((None, True), (mask, False)):
            mean, variance = pydp.mean_var(x, axis, ddof=1, keepdims=keepdims, where=where, spec=spec)
            kept = {} if where is None else {"where": where}
            want = wide.mean(axis, keepdims=keepdims, **kept), wide.var(axis, ddof=1, keepdims=keepdims, **kept)
            assert mean.dtype == x.mean(axis).dtype and variance.dtype == x.var(axis).dtype
            np.testing.assert_allclose(mean, want[0], rtol=1e-5)
            np.testing.assert_allclose(variance, want[1], rtol=5e-4)
    assert all(np.isnan(one) for one in pydp.mean_var(x[0], where=np.zeros(230, bool), spec=spec))


@pytest.mark.parametrize("n", [1, 2, 17, 100_000])
def test_mean_and_variance_of_infinite_elements(device: Any, n: int) -> None:
    for at in {0, n // 2, n - 1}:
        for dtype in ("f4", "c8"):
            x = np.ones(n, dtype)
            x[at] = np.inf
            mean, variance = pydp.mean_var(x)
            assert np.isnan(mean.real) and np.isnan(variance)
    if device.profile.fp64:
        assert np.isnan(pydp.mean_var(np.array([1e308, -1e308]))).all()


def test_complex_means_of_no_elements(device: Any) -> None:
    empty = np.zeros(0, np.complex64)
    for found in (pydp.mean(empty), pydp.mean_var(empty)[0]):
        assert np.isnan(found.real) and np.isnan(found.imag)


def test_arguments_of_mean_and_variance(device: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    pair = np.zeros(3, np.float32), np.zeros(3, np.float32)
    with pytest.raises(pydp.InvalidArgument, match=r"out\[1\] has"):
        pydp.explain(pydp.mean_var, x, 1, out=(pair[0], np.zeros(4, np.float32)))
    with pytest.raises(pydp.InvalidArgument, match="a finite number is accepted"):
        pydp.mean_var(x, ddof=10**400)
    pydp.mean_var(x, 1, out=pair)
    np.testing.assert_allclose(pair[0], x.mean(1))
    np.testing.assert_allclose(pair[1], x.var(1), rtol=1e-6)
    mean, variance = pydp.mean_var(pydp.field(x[0]), length=pydp.field(np.int32(2)))
    assert mean.get() == 0.5 and variance.get() == 0.25
    with pytest.raises(pydp.InvalidArgument, match="None is accepted for complex numbers"):
        pydp.mean_var(x.astype(np.complex64), dtype=np.float32)
    with pytest.raises(pydp.InvalidArgument, match="a tuple of 2 arrays"):
        pydp.mean_var(x, out=pair[0])


def test_normalizations_of_rows(device: Any) -> None:
    """Softmax and layer norm: a reduction and an expression."""
    x = (np.random.default_rng(6).standard_normal((9, 300)) * 20).astype(np.float32)
    rows = pydp.field(x)
    scale = pydp.logsumexp(rows, 1, keepdims=True)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    got = pydp.evaluate("exp(x - s)", x=rows, s=scale).get()
    np.testing.assert_allclose(got, wide / wide.sum(1, keepdims=True), rtol=2e-4, atol=1e-30)
    mean, variance = pydp.mean_var(rows, 1, keepdims=True)
    got = pydp.evaluate("(x - m) * rsqrt(v + 1e-5f)", x=rows, m=mean, v=variance).get()
    wide = x.astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


# --- empty inputs, kinds of arrays, errors --------------------------------------------------------------------------


def test_empty(device: Any) -> None:
    x = np.zeros((0, 3), np.float32)
    for name in ("argmin", "argmax", "min_max", "nanmin", "nanmax", "min"):
        with pytest.raises(pydp.InvalidArgument):
            getattr(pydp, name)(x, 0)
    for name in ("any", "all", "sum", "prod", "nansum"):
        _same(getattr(pydp, name)(x, 0), getattr(np, name)(x, 0))
    for name in ("mean", "var", "std", "nanmean"):
        _same(getattr(pydp, name)(x, 0), np.full(3, np.nan, np.float32))
    _same(pydp.count_nonzero(x, 0), np.zeros(3, np.int64))
    assert pydp.argmax(x, 1).shape == (0,) and pydp.dot(x[:, 0], x[:, 0]) == 0 == pydp.norm(x)


def test_kinds_of_arrays(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
    field, array = pydp.field(x), cl_array.to_device(device.queue, x)
    for given_, kind in ((field, pydp.Field), (array, cl_array.Array)):
        for _ in range(4):  # later calls are recorded
            assert isinstance(pydp.argmax(given_), kind) and int(pydp.argmax(given_).get()) == x.argmax()
            low, high = pydp.min_max(given_, 0)
            assert isinstance(low, kind)
            _same((low, high), (x.min(0), x.max(0)))
            _close(pydp.var(given_, 1), x.astype(np.float64).var(1), np.float32)
            _same(pydp.sum(given_, where=x > 5), np.sum(x, where=x > 5))
    assert type(pydp.argmax(x)) is np.int64 and type(pydp.mean(x)) is np.float32 and type(pydp.any(x)) is np.bool_
    _same(pydp.argmax(field[::2, ::-3]), np.argmax(x[::2, ::-3]))
    out = np.zeros(40, np.int64)
    assert pydp.argmin(x, 1, out=out) is out and np.array_equal(out, x.argmin(1))
    pair = (np.zeros(30, np.float32), np.zeros(60, np.float32)[::2])
    pydp.min_max(x, 0, out=pair)
    _same(pair, (x.min(0), x.max(0)))
    assert pydp.argmax([3, 9, 2]) == 1


def test_output_that_overlaps_the_input(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal((30, 30)).astype(np.float32)
    field = pydp.field(x)
    pydp.mean(field, 0, out=field[3])
    _close(field[3], x.astype(np.float64).mean(0), np.float32)


def test_wrong_arguments(device: Any) -> None:
    x = np.ones((3, 4), np.float32)
    record = np.zeros(3, [("a", "f4")])
    calls: list[tuple[str, Any, dict[str, Any], str]] = [
        ("argmax", x, {"axis": 2}, "axis=2"),
        ("argmax", x, {"axis": (0, 1)}, "an integer or None"),
        ("argmax", record, {}, "argmax is not defined"),
        ("argmax", x, {"out": np.zeros((), np.int32)}, "out"),
        ("argmax", x, {"keepdims": 3}, "keepdims is 3"),
        ("argmax", x, {"spec": {"width": 3}}, "width is 3"),
        ("min_max", x, {"out": x}, "a tuple of 2 arrays"),
        ("mean", x, {"dtype": np.int32}, "dtype is int32"),
        ("mean", x, {"where": np.ones(5, bool)}, "broadcasts"),
        ("mean", x, {"where": np.ones(4)}, "where has dtype float64"),
        ("var", x, {"ddof": np.nan}, "ddof is nan"),
        ("var", x, {"axis": (0, 0)}, "twice"),
        ("sum", x, {"where": 3}, "where has dtype"),
        ("norm", x[0], {"ord": "3"}, "ord is '3'; None, inf, -inf and other real numbers"),
        ("var", x, {"ddof": 1, "correction": 2}, "ddof is 1 and correction 2"),
        ("nanmax", x, {"where": x > 0}, "initial= is needed"),
        ("any", None, {}, "x is None"),
    ]
    for name, value, named, message in calls:
        with pytest.raises(pydp.InvalidArgument, match=message):
            getattr(pydp, name)(value, **named)
        with pytest.raises(pydp.InvalidArgument):
            pydp.explain(getattr(pydp, name), value, **named)


def test_types_that_the_device_lacks(device: Any) -> None:
    if device.profile.fp64:
        pytest.skip("the device has float64")
    with pytest.raises(pydp.UnsupportedOnDevice, match="float64"):
        pydp.mean(np.arange(4))
    assert pydp.mean(np.arange(4), dtype=np.float32) == 1.5


def test_explain(device: Any) -> None:
    x = np.zeros((10, 100), np.float32)
    for name in ("argmax", "var", "sum", "max", "norm", "logsumexp", "count_nonzero", "min_max"):
        text = pydp.explain(getattr(pydp, name), x, axis=1)
        assert "reduce_" in str(text) and text.sources
    assert "(float64)" in str(pydp.explain(pydp.var, x)) or not device.profile.fp64
    assert "reduce_" in str(pydp.explain(pydp.dot, x[0], x[0])) and "matmul" in str(pydp.explain(pydp.dot, x, x.T))
    assert "copied to C order" in str(pydp.explain(pydp.argmax, pydp.field(x)[:, 1:]))


def test_one_output_on_the_device_and_one_new(device: Any) -> None:
    """With NumPy input, the call waits for the new array, though the other output is a Field."""
    x, high = np.array([3, -1, 4, 0, 5], np.int32), pydp.zeros((), np.int32)
    for _ in range(3):
        assert int(pydp.min_max(x, out=(None, high))[0]) == -1 and high.get() == 5


def test_outputs_that_share_memory(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = np.zeros((), np.int32)
    for shares in {device.profile.shares_host_memory, False}:
        monkeypatch.setattr(device, "_profile", dataclasses.replace(device.profile, shares_host_memory=shares))
        with pytest.raises(pydp.InvalidArgument, match="share memory"):
            pydp.min_max(np.array([3, -1, 5], np.int32), out=(both, both))
    field = pydp.zeros(6, np.int32)
    with pytest.raises(pydp.InvalidArgument, match="share memory"):
        pydp.min_max(pydp.field(np.ones((3, 4), np.int32)), 1, out=(field[:3], field[2:5]))


def test_no_elements_and_no_results(device: Any) -> None:
    none = np.zeros((0, 0), np.float32)
    assert pydp.nanmin(none, axis=0).shape == pydp.norm(none, np.inf, axis=0).shape == (0,)
    assert [one.shape for one in pydp.min_max(none, axis=0)] == [(0,), (0,)]
    with pytest.raises(pydp.InvalidArgument, match="argmax of an empty array"):
        pydp.argmax(none, axis=0)


def test_complex_results_of_real_numbers(device: Any) -> None:
    x = np.arange(100, dtype=np.float32)
    for got in (pydp.mean(x, dtype=np.complex64), pydp.sum(x, dtype=np.complex64, where=x < 30)):
        assert got.dtype == np.complex64
    assert pydp.mean(x, dtype=np.complex64) == 49.5 and pydp.nansum(x, dtype=np.complex64) == 4950
    assert pydp.sum(x, dtype=np.complex64, where=x < 30) == 435


@pytest.mark.parametrize("name", ["mean", "var", "argmax", "norm"])
def test_parts_are_not_joined_in_one_launch(device: Any, name: str) -> None:
    """Only kernels without hooks can do that: the results of the others were wrong."""
    x = np.arange(100_000, dtype=np.float32)
    with pytest.raises(pydp.InvalidArgument, match="joined is 256; 0 is accepted"):
        getattr(pydp, name)(x, spec={"joined": 256, "part": 1000}, device=device)


@pytest.mark.parametrize("spec", [VECTORS, LANES], ids=["vector", "simt"])
@pytest.mark.parametrize("shape", [(1000, 1), (200, 3)], ids=["rows", "columns"])
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param("float32", marks=pytest.mark.oclgrind),
        pytest.param("complex64", marks=pytest.mark.oclgrind),
        "complex128",  # the simulator reports the bytes between its accumulators, which are copied with them
    ],
)
@pytest.mark.parametrize("name", ["argmax", "nanmin", "nanmean", "var"])
def test_accumulators_in_memory_of_their_size(device: Any, name: str, dtype: str, shape: Any, spec: Any) -> None:
    """A complex128 is aligned to 16 bytes in the kernels, and so are the accumulators that contain one."""
    needs.dtype(device, dtype)
    x = np.random.default_rng(1).integers(-4, 5, (*shape, 2)).astype(np.dtype(dtype).type(0).real.dtype)
    x = x.view(dtype)[..., 0] if "complex" in dtype else x[..., 0]
    with pytest.MonkeyPatch.context() as patch:
        guarded = Guarded(patch)
        got = getattr(pydp, name)(x, axis=0, spec={**spec, "height": 64}, device=device)
        guarded.check()
    want = getattr(np, name)(x, axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["nanstd", "logsumexp", "argmax"])
def test_accumulators_that_exceed_private_memory_are_refused(device: Any, name: str) -> None:
    """A work-item on a CPU keeps the accumulators of its columns on its stack."""
    needs.vector_mapping(device)
    x = np.arange(3000, dtype=np.float32).reshape(3, 100, 10)
    with pytest.raises(pydp.InvalidArgument, match="columns is 1048576; at most"):
        getattr(pydp, name)(x, axis=1, spec={"mapping": "vector", "columns": 1 << 20}, device=device)
    got = getattr(pydp, name)(x, axis=1, spec={"mapping": "vector", "columns": 4096}, device=device)
    np.testing.assert_allclose(got, getattr(pydp, name)(x, axis=1, device=device), rtol=1e-5)
