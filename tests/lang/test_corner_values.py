"""Corner cases of values, in every lowering: negative exponents, NaN in atomics and constants, products that wrap."""

from __future__ import annotations

from typing import Any

import needs
import numpy as np
import pytest

import pydp
from pydp.runtime.drivers.devices import Device

WAYS = ("simt", "vector", "host")


def _run(device: Device, way: str, n: int, fn: Any, *args: Any) -> None:
    needs.vector_mapping(device, way)
    options: dict[str, Any] = {"device": "host"} if way == "host" else {"device": device, "spec": {"mapping": way}}
    pydp.forall(n, fn, *args, **options)


def power(idx, out, base, exponent):
    out[idx] = base[idx] ** exponent[idx]


@pytest.mark.parametrize("way", WAYS)
def test_exponents_below_0_count_as_0(device: Device, way: str) -> None:
    exponent = np.arange(-20, 21, dtype=np.int32)
    base = np.full(41, 3, np.int32)
    out = np.zeros(41, np.int32)
    _run(device, way, 41, power, out, base, exponent)
    with np.errstate(over="ignore"):
        expected = base ** np.maximum(exponent, 0)
    np.testing.assert_array_equal(out, expected)


def extremes(idx, least, most, x):
    pydp.atomic_min(least, 0, x[idx])
    pydp.atomic_max(most, 0, x[idx])


@pytest.mark.parametrize("way", WAYS)
def test_nan_stays_among_atomic_extremes(device: Device, way: str) -> None:
    x = np.random.default_rng(1).standard_normal(300).astype(np.float32)
    for at in (0, 150, 299, None):
        values = x.copy()
        if at is not None:
            values[at] = np.nan
        least, most = values[:1].copy(), values[:1].copy()
        _run(device, way, 300, extremes, least, most, values)
        np.testing.assert_array_equal([least[0], most[0]], [np.min(values), np.max(values)])


NAN = float("nan")


def constants(idx, out):
    if idx[0] == 0:
        out[idx] = min(1.0, NAN)
    elif idx[0] == 1:
        out[idx] = np.maximum(1.0, NAN)
    elif idx[0] == 2:
        out[idx] = max(NAN, 2, 3.0)
    elif idx[0] == 3:
        out[idx] = np.clip(5.0, NAN, 7.0)
    else:
        out[idx] = pydp.fma(0.1, 10.0, -1.0)


@pytest.mark.parametrize("way", WAYS)
def test_constants_give_what_values_give(device: Device, way: str) -> None:
    out = np.zeros(5, np.float32)
    _run(device, way, 5, constants, out)
    np.testing.assert_array_equal(out, np.array([NAN, NAN, NAN, NAN, 2.0**-54], np.float32))


def mixed(idx, out, seed):
    state = (np.uint64(idx[0]) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) - np.uint64(idx[0])
    out[idx, 0], out[idx, 1] = state, np.int64(idx[0]) * np.int64(-0x7FFFFFFFFFFFFFFF)


@pytest.mark.parametrize("way", WAYS)
def test_products_of_indexes_and_large_numbers_wrap(device: Device, way: str) -> None:
    out = np.zeros((37, 2), np.uint64)
    _run(device, way, 37, mixed, out, 12345)
    lanes = np.arange(37, dtype=np.uint64)
    state = (lanes + np.uint64(12345)) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) - lanes
    np.testing.assert_array_equal(out, np.stack([state, lanes * np.uint64(0x8000000000000001)], axis=1))
