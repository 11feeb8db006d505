"""pydp.searchsorted against NumPy: sizes, sides, sorters, dtypes, NaN, strides, wrong arguments."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl.array
import pytest

import pydp

VECTOR = {"mapping": "vector", "chains": 16, "part": 32}
SIMT = {"mapping": "simt", "chains": 2, "part": 4}
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT, {}], ids=["vector", "simt", "default"])


def table(n: int, dtype: str = "int32", seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, 2 * n + 1, n).astype(dtype))


@MAPPINGS
@pytest.mark.parametrize("side", ["left", pytest.param("right", marks=pytest.mark.oclgrind)])
def test_every_size(device, mapping, side):
    for n in (0, 1, 2, 3, 8, 9, 100):
        a = table(n)
        for count in (0, 1, 33):
            v = np.random.default_rng(count).integers(-2, 2 * n + 4, count).astype(np.int32)
            got = pydp.searchsorted(a, v, side, spec=mapping)
            assert got.dtype == np.int64 and np.array_equal(got, np.searchsorted(a, v, side)), (n, count)


@MAPPINGS
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool", "float64", "complex64"])
def test_dtypes_and_nan(device, mapping, dtype):
    needs.dtype(device, dtype)
    rng = np.random.default_rng(1)
    a, v = (np.round(rng.standard_normal(n) * 20).astype(dtype) for n in (5000, 777))
    if np.dtype(dtype).kind in "fc":
        a[::9], v[::5] = np.nan, np.nan
        a[:2], v[1:4] = [np.inf, -np.inf], [np.inf, -np.inf, -0.0]
    if dtype == "complex64":
        a, v = a + 1j * np.float32(2), v + 1j * (np.arange(777, dtype=np.float32) % 4)
        mapping = {**mapping, "chains": 4} if mapping == VECTOR else mapping
    a = np.sort(a)
    for side in ("left", "right"):
        assert np.array_equal(pydp.searchsorted(a, v, side, spec=mapping), np.searchsorted(a, v, side))


def test_sorter_strides_and_mixed_dtypes(device):
    rng = np.random.default_rng(2)
    a = rng.integers(0, 1000, 999).astype(np.int32)
    order = np.argsort(a, kind="stable")
    v = rng.integers(-5, 1005, (12, 40)).astype(np.int16)
    right = np.searchsorted(a, v, "right", order)
    assert np.array_equal(pydp.searchsorted(a, v, "right", order), right)
    assert np.array_equal(pydp.searchsorted(a, v, "right", sorter=np.repeat(order, 2).astype(np.uint16)[::2]), right)
    clipped = pydp.searchsorted(np.arange(5, dtype=np.int32), np.int32([3]), sorter=np.array([-9, 1, 2, 3, 99]))
    assert clipped[0] == 3
    a = np.sort(a)
    for values in (v.T, v[::2, ::-3], v[:, 3], np.broadcast_to(v[0], (3, 40)), np.broadcast_to(v[3, 3], 99), v[:0]):
        assert np.array_equal(pydp.searchsorted(a, values), np.searchsorted(a, values))
    assert np.array_equal(pydp.searchsorted(a[::3], v), np.searchsorted(a[::3], v))
    assert np.array_equal(pydp.searchsorted(-a[::-1], -v[3]), np.searchsorted(-a[::-1], -v[3]))


def test_numbers_kinds_and_out(device):
    a = table(5000)
    found = pydp.searchsorted(a, 77)
    assert type(found) is np.int64 and found == np.searchsorted(a, 77)
    field = pydp.field(a, device=device)
    assert pydp.searchsorted(field, 77).shape == ()
    got = pydp.searchsorted(field, a[::7])
    assert isinstance(got, pydp.Field) and np.array_equal(got.get(), np.searchsorted(a, a[::7]))
    values = pyopencl.array.to_device(device.queue, a[::5].copy())
    got = pydp.searchsorted(pyopencl.array.to_device(device.queue, a), values)
    assert isinstance(got, pyopencl.array.Array) and np.array_equal(got.get(), np.searchsorted(a, a[::5]))
    guarded = np.full((20, 64), -7)
    result = pydp.searchsorted(a, a[:60:3], out=guarded[:, 5])
    assert result.base is guarded and np.array_equal(guarded[:, 5], np.searchsorted(a, a[:60:3]))
    guarded[:, 5] = -7
    assert (guarded == -7).all()
    for _ in range(3):  # the third call repeats a recording
        assert np.array_equal(pydp.searchsorted(field, field).get(), np.searchsorted(a, a))
    assert "interleaved" in str(pydp.explain(pydp.searchsorted, a, a, spec=VECTOR))


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((np.ones((2, 2)), np.ones(2)), {}, "shape"),
        ((np.ones(2, "i4"), np.ones(2, "i4"), "middle"), {}, "'left' and 'right'"),
        ((np.ones(2, "i4"), np.ones(2, "i4")), {"sorter": np.ones(3, int)}, "sorter has shape"),
        ((np.ones(2, "i4"), np.ones(2, "i4")), {"sorter": np.ones(2, "f4")}, "sorter has dtype"),
        ((np.ones(2, "i4"), np.ones(2, [("x", "i4")])), {}, "cannot be compared"),
        ((np.ones(2, "i4"), np.ones(2, "i4")), {"out": np.ones(2, "i4")}, "out has dtype"),
        ((np.ones(2, "i4"), np.ones(2, "i4")), {"spec": {"chains": 3}}, "chains is 3"),
        ((np.ones(2, "i4"), np.ones(2, "i4")), {"spec": {"mapping": "vector", "chains": 16, "part": 8}}, "part is 8"),
    ],
)
def test_wrong_arguments(device, arguments, named, message):
    with pytest.raises(pydp.InvalidArgument, match=message):
        pydp.searchsorted(*arguments, **named)


def test_out_that_shares_memory_is_refused(device):
    memory = pydp.zeros(30, np.int64)
    with pytest.raises(pydp.InvalidArgument, match="shares memory"):
        pydp.searchsorted(memory[:10], memory[10:20], out=memory[15:25])
