"""isin, union1d, intersect1d, setdiff1d and setxor1d against NumPy."""

from __future__ import annotations

import numpy as np
import pyopencl.array
import pytest

import pydp

SETS = ("union1d", "intersect1d", "setdiff1d", "setxor1d")


def pair(dtype: str, left: int = 300, right: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(left)
    a, b = rng.integers(0, 60, left).astype(dtype), rng.integers(30, 90, right).astype(dtype)
    if np.dtype(dtype).kind == "f":
        a[::50], b[::60] = np.nan, np.nan
        a[7:8], b[9:10] = -0.0, 0.0
    return a, b


@pytest.mark.parametrize("dtype", [pytest.param("int32", marks=pytest.mark.oclgrind), "float32"])
@pytest.mark.parametrize("name", [*SETS, "isin"])
def test_sets(device, name, dtype):
    ours, theirs = getattr(pydp, name), getattr(np, name)
    for left, right in ((300, 200), (0, 5), (5, 0), (0, 0), (1, 1)):
        got, want = ours(*pair(dtype, left, right)), theirs(*pair(dtype, left, right))
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("name", SETS)
def test_kinds_shapes_and_mixed_dtypes(device, name):
    ours, theirs = getattr(pydp, name), getattr(np, name)
    a, b = pair("int16", 600, 500)[0].reshape(20, 30), pair("int32", 600, 500)[1]
    want = theirs(a[:, ::-2], b[::3])
    got = ours(a[:, ::-2], b[::3])
    assert np.array_equal(got, want) and got.dtype == want.dtype
    got = ours(pydp.field(a, device=device)[:, ::-2], pydp.field(b, device=device)[::3])
    assert isinstance(got, pydp.Field) and np.array_equal(got.get(), want)
    got = ours(pyopencl.array.to_device(device.queue, np.ascontiguousarray(a[:, ::-2])), b[::3])
    assert isinstance(got, pyopencl.array.Array) and np.array_equal(got.get(), want)


def test_options(device):
    a, b = pair("float32")
    for got, want in zip(
        pydp.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    distinct = np.random.default_rng(0).permutation(500).astype(np.int32)
    others = pair("int32")[1]
    assert np.array_equal(pydp.setdiff1d(distinct, others, True), np.setdiff1d(distinct, others, True))
    square = a[:64].reshape(8, 8).T
    assert np.array_equal(pydp.isin(square, b, invert=True), np.isin(square, b, invert=True))
    for number in (b[1], np.array(b[1])):
        assert pydp.isin(number, b)
    for invert in (False, True):  # of a number, NumPy returns an array of rank 0
        found, want = pydp.isin(3, [3], invert=invert), np.isin(3, [3], invert=invert)
        assert type(found) is type(want) is np.ndarray and (found.shape, found.dtype) == ((), want.dtype)
        assert found == want


@pytest.mark.parametrize("name", SETS)
def test_the_length_goes_to_a_device_scalar(device, name):
    a, b = pair("int32")
    count = pydp.zeros((), np.int32, device=device)
    getattr(pydp, name)(pydp.field(a, device=device), b, count=count)
    assert int(count.get()) == len(getattr(np, name)(a, b))


def test_explanations(device):
    a, b = pair("int32")
    for name in SETS:
        assert "sorted" in str(pydp.explain(getattr(pydp, name), a, b))
    assert "sorted first" in str(pydp.explain(pydp.isin, a, b))


def test_wrong_arguments(device):
    x, records = np.arange(6, dtype=np.int32), np.zeros(3, [("a", "i4")])
    for call, message in (
        (lambda: pydp.union1d(x, records), "cannot be compared"),
        (lambda: pydp.isin(x, records), "cannot be compared"),
        (lambda: pydp.isin(x, x, kind="hash"), "kind is 'hash'"),
        (lambda: pydp.isin(x, x, invert="no"), "invert is 'no'"),
        (lambda: pydp.setdiff1d(x, x, 7), "assume_unique is 7"),
        (lambda: pydp.setxor1d(x, x, spec={"block": 3}), "block is 3"),
        (lambda: pydp.union1d(x, x, count=3), "count is 3"),
        (lambda: pydp.union1d(x, z := pydp.field(x[:1]), count=z), "count shares memory with ar2"),
        (lambda: pydp.explain(pydp.setdiff1d, x, x, count=3), "count is 3"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()
