"""Indexes modulo a negative number are not positive: nothing is read or written outside of the array."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp


def picked(idx, out, x):
    out[idx] = x[idx[0] % -3]


def scattered(idx, out, x):
    out[idx[0] % -40] = x[idx]


@pytest.mark.parametrize("mapping", ["simt", "vector"])
def test_elements_before_the_first_are_none(device, mapping):
    needs.vector_mapping(device, mapping)
    n = 40
    whole, place = pydp.field(np.arange(1, n + 21, dtype=np.int32)), np.arange(n)
    out = pydp.zeros(n, np.int32)
    pydp.forall((n,), picked, out, whole[20:], spec={"mapping": mapping})
    np.testing.assert_array_equal(out.get(), np.where(place % -3 == 0, 21, 0))
    pydp.forall((n,), scattered, whole[20:], out, spec={"mapping": mapping})
    want = np.arange(1, n + 21)
    want[20] = 21
    np.testing.assert_array_equal(whole.get(), want)
