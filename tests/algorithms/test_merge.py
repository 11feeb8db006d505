"""pydp.merge and merge_by_key against NumPy: sizes, stability, dtypes, NaN, strides, wrong arguments."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp

VECTOR = {"mapping": "vector", "stretch": 24, "chains": 3}
SIMT = {"mapping": "simt", "lanes": 8, "items": 3}
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT, {}], ids=["vector", "simt", "default"])


def ordered(n: int, seed: int, dtype: str = "int32", high: int = 60) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, high, n).astype(dtype))


@pytest.mark.oclgrind
@MAPPINGS
def test_every_size(device, mapping):
    for left in (0, 1, 2, 23, 24, 25, 100):
        for right in (0, 1, 23, 24, 49, 75):
            a, b = ordered(left, left), ordered(right, right + 1)
            assert np.array_equal(pydp.merge(a, b, spec=mapping), np.sort(np.concatenate([a, b]))), (left, right)


@pytest.mark.oclgrind
@MAPPINGS
def test_values_move_with_keys_and_the_merge_is_stable(device, mapping):
    for left, right in ((0, 0), (0, 70), (70, 0), (47, 300), (500, 33)):
        a, b = ordered(left, 1, high=9), ordered(right, 2, high=9)
        keys = np.concatenate([a, b])
        keys_found, values = pydp.merge_by_key(
            a, np.arange(left), b, np.arange(left, left + right), spec=mapping
        )  # fmt: skip
        order = np.argsort(keys, kind="stable")
        assert np.array_equal(keys_found, keys[order]) and np.array_equal(values, order)


@MAPPINGS
def test_floats_with_nan(device, mapping):
    a, b = (np.random.default_rng(seed).standard_normal(5000).astype(np.float32) for seed in (0, 1))
    a[:9], b[:70] = np.nan, np.nan
    a[9:12], b[70:73] = [-0.0, np.inf, -np.inf], [0.0, np.inf, -np.inf]
    a, b = np.sort(a), np.sort(b)
    want = np.sort(np.concatenate([a, b]), kind="stable")
    np.testing.assert_array_equal(pydp.merge(a, b, spec=mapping), want)
    runs = (np.arange(5000), np.arange(5000, 9000))  # one array before the other
    assert np.array_equal(pydp.merge(runs[1], runs[0], spec=mapping), np.arange(9000))


def test_other_dtypes_strides_and_kinds(device):
    a, b = ordered(999, 1, "int16"), ordered(1500, 2, "int32")
    got = pydp.merge(a[::3], b[::-2][::-1])
    assert got.dtype == np.int32 and np.array_equal(got, np.sort(np.concatenate([a[::3], b[1::2]])))
    field = pydp.merge(pydp.field(b, device=device), pydp.field(b, device=device))
    assert isinstance(field, pydp.Field) and np.array_equal(field.get(), np.repeat(b, 2))
    keys, values = pydp.merge_by_key(b, np.zeros(1500, "u1"), a.astype("i4"), np.ones(999, "u1"))
    assert values.dtype == np.uint8 and values.sum() == 999 and np.array_equal(keys, np.sort(np.concatenate([b, a])))
    guarded = np.full((2499, 3), -7, np.int32)
    assert pydp.merge(a, b, out=guarded[:, 1]).base is guarded
    assert np.array_equal(guarded[:, 1], np.sort(np.concatenate([a, b]))) and (guarded[:, ::2] == -7).all()
    assert "merge path" in str(pydp.explain(pydp.merge, a, b))


def test_records_and_complex_numbers(device):
    needs.endless_loops(device)
    pairs = np.zeros(300, [("key", np.int32), ("value", np.float32)])
    pairs["key"], pairs["value"] = ordered(300, 1), np.arange(300) % 2
    pairs = np.sort(pairs)
    assert np.array_equal(pydp.merge(pairs, pairs), np.repeat(pairs, 2))
    z = np.sort(ordered(200, 3).astype("c8") + 1j * ordered(200, 4).astype("f4"))
    assert np.array_equal(pydp.merge(z, z[:50]), np.sort(np.concatenate([z, z[:50]])))


def test_wrong_arguments(device):
    x = np.arange(9, dtype=np.int32)
    field = pydp.field(x)
    for call, message in (
        (lambda: pydp.merge(x.reshape(3, 3), x), "a has shape"),
        (lambda: pydp.merge(x, np.zeros(3, [("a", "i4")])), "cannot be compared"),
        (lambda: pydp.merge_by_key(x, x[:3], x, x), "values_a has shape"),
        (lambda: pydp.merge(x, x, out=np.zeros(9, np.int32)), "out has shape"),
        (lambda: pydp.merge(field[:3], field[3:6], out=field[2:8]), "shares memory"),
        (lambda: pydp.merge(x, x, spec={"chains": 0}), "chains is 0"),
        (lambda: pydp.merge(x, x, spec={"mapping": "simt", "lanes": 4096, "items": 17}), "."),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()
