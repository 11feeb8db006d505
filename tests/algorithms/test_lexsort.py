"""lexsort against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pydp


def test_lexsort(device):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 4, (3, 5, 40)).astype(np.int32)
    for axis in (-1, 0, 1):
        got = pydp.lexsort(keys, axis)
        assert got.dtype == np.int64 and np.array_equal(got, np.lexsort(keys, axis)), axis
    mixed = (keys[0, 0], keys[1, 0].astype(np.float32), keys[2, 0] > 1)
    assert np.array_equal(pydp.lexsort(mixed), np.lexsort(mixed))
    assert np.array_equal(pydp.lexsort(keys[:, :, :0]), np.lexsort(keys[:, :, :0]))
    fields = [pydp.field(key, device=device) for key in keys]
    got = pydp.lexsort(fields, 0)
    assert isinstance(got, pydp.Field) and np.array_equal(got.get(), np.lexsort(keys, 0))


def test_explanation(device):
    a = np.arange(6, dtype=np.int32)
    assert "2 stable sort(s)" in str(pydp.explain(pydp.lexsort, (a, a)))


def test_wrong_arguments(device):
    x = np.arange(6, dtype=np.int32)
    for call, message in (
        (lambda: pydp.lexsort(()), "keys is empty"),
        (lambda: pydp.lexsort((x, x[:3])), r"keys\[1\] has shape"),
        (lambda: pydp.lexsort((x,), axis=1), "axis=1"),
        (lambda: pydp.lexsort(x), "rank 0"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()
