"""cumsum and cumprod against NumPy."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp

DTYPES = "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"
CALLS = pytest.mark.parametrize("name", ["cumsum", "cumprod"])


@pytest.mark.oclgrind
@CALLS
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(device, name, dtype):
    """Results are exact: products of -1, 1 and 1j, and sums of small integers."""
    ours, theirs = getattr(pydp, name), getattr(np, name)
    values = [0, 1] if dtype == "?" or dtype[0] == "u" else [-1, 1, 1, 1j] if dtype[0] == "c" else [-1, 1, 1]
    x = np.random.default_rng(1).choice(np.array(values, dtype), (5, 7))
    if needs.has(device, x.dtype):
        got, want = ours(x, device=device), theirs(x)
        assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want)
    else:
        with pytest.raises(pydp.UnsupportedOnDevice):
            ours(x, device=device)


@pytest.mark.oclgrind
@CALLS
def test_every_axis(device, name):
    ours, theirs = getattr(pydp, name), getattr(np, name)
    x = np.random.default_rng(1).integers(1, 3, (3, 5, 7)).astype(np.int16)
    for axis in (None, 0, 1, -1):
        assert np.array_equal(ours(x, axis, device=device), theirs(x, axis)), axis
    got = ours(pydp.field(x, device=device).transpose(2, 0, 1), 1)
    assert isinstance(got, pydp.Field) and np.array_equal(got.get(), theirs(x.transpose(2, 0, 1), 1))


@CALLS
def test_dtype_out_and_ranks(device, name):
    ours, theirs = getattr(pydp, name), getattr(np, name)
    x = np.arange(1, 9, dtype=np.int8).reshape(2, 4)
    for dtype in ("i1", "u2", "i8", "f4"):
        got, want = ours(x, 1, dtype, device=device), theirs(x, 1, dtype)
        assert got.dtype == want.dtype and np.array_equal(got, want), dtype
    out = np.zeros(8, np.int64)
    assert ours(x, None, None, out, device=device) is out and np.array_equal(out, theirs(x))
    wide = np.arange(1, 7)
    assert ours(wide, out=wide, device=device) is wide and np.array_equal(wide, theirs(np.arange(1, 7)))
    for axis in (None, 0, -1):
        assert np.array_equal(ours(np.int32(5), axis, device=device), theirs(np.int32(5), axis)), axis
    assert ours(np.zeros(0, np.int32), device=device).shape == (0,)
    assert ours(np.zeros((0, 3), np.int32), 1, device=device).shape == (0, 3)
    assert np.array_equal(ours([3, 1, 2], device=device), theirs([3, 1, 2]))


@pytest.mark.parametrize("spec", [{}, {"part": 512}, {"mapping": "simt"}, {"strategy": "reduce_then_scan"}])
def test_products_of_many_parts_are_exact(device, spec):
    """Products of odd integers modulo 2**64 are not zero."""
    x = np.random.default_rng(2).integers(-(2**31), 2**31, 100_003, np.int64).astype(np.int32) | np.int32(1)
    assert np.array_equal(pydp.cumprod(x, device=device, spec=spec), np.cumprod(x))


@CALLS
def test_results_take_the_dtype_of_out(device, name):
    ours, theirs = getattr(pydp, name), getattr(np, name)
    x = np.arange(1, 9, dtype=np.int8)
    want = theirs(x.copy(), out=x.copy())
    assert ours(x, out=x, device=device) is x and np.array_equal(x, want)
    wide, want = np.zeros(5, np.float32), np.zeros(5, np.float32)
    ours(np.arange(1, 6, dtype=np.int16), out=wide, device=device)
    assert np.array_equal(wide, theirs(np.arange(1, 6, dtype=np.int16), out=want))


@CALLS
def test_a_length_on_the_device(device, name):
    x, count = pydp.field(np.array([3, -1, 4, -1, 5], np.int32)), pydp.zeros((), np.int64)
    kept = pydp.select(x, "x > 0", count=count)
    got = getattr(pydp, name)(kept, length=count)
    assert got.get().tolist() == getattr(np, name)([3, 4, 5]).tolist()


def test_byte_order(device):
    x = np.arange(5, dtype=">i2")
    got = pydp.cumsum(x, device=device)
    assert got.dtype == np.int64 and got.dtype.isnative and np.array_equal(got, np.cumsum(x))


@CALLS
def test_explanation(device, name):
    text = str(pydp.explain(getattr(pydp, name), np.arange(100, dtype=np.int32), device=device))
    assert f"{name} is a scan" in text and "int64" in text


@CALLS
def test_wrong_arguments(device, name):
    call = getattr(pydp, name)
    record = np.zeros(3, [("a", "i4")])
    for args, message in (
        ((record,), f"{name} is not defined on elements of dtype"),
        ((np.arange(3), 1), "axis=1"),
        ((np.arange(3), 0, "M8[s]"), "dtype is datetime64"),
        ((np.arange(3), 0, "nonsense"), "not a dtype"),
        ((np.arange(3), 0, None, np.zeros(4, np.int64)), "out has shape"),
        ((np.ones(3, np.float32), 0, None, np.zeros(3, np.int32)), "out has dtype int32; float32 is needed"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call(*args, device=device)
