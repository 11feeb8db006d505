"""Loops whose rounds divide integers: one driver's compiler ended the process on their sums."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp
from pydp.errors import UnsupportedOnDevice


def divisors(idx, out, n, m):
    total = 0
    for i in range(1, n):
        for _ in range(m // i):
            total += 1
    out[idx] = total


def quotients(idx, out, n, m):
    total = 0
    for _ in range(1, n):
        for _ in range(3):
            for i in range(1, n):
                total += m // i
    out[idx] = total


def quotients_of_counters(idx, out, n, m):
    total = 0
    for i in range(1, n):
        for k in range(1, n):
            total += i // max(1, k)
        total += 1
    for _ in range(m):
        total -= 2
    out[idx] = total


def remainders(idx, out, n, m):
    total = 0
    while m > 0:
        for i in range(1, n):
            total += m % i
        m -= 1
    out[idx] = total


@pytest.mark.parametrize("fn", [divisors, quotients, quotients_of_counters, remainders])
@pytest.mark.parametrize("mapping", ["vector", "simt"])
def test_loops_that_divide(fn, mapping, device) -> None:
    if mapping == "vector" and device.profile.loop_limit is not None:
        with pytest.raises(UnsupportedOnDevice, match="mapping 'simt' is accepted"):
            pydp.forall(37, fn, np.zeros(37, np.int32), 5, 11, spec={"mapping": mapping})
    needs.vector_mapping(device, mapping)
    out, want = np.zeros(37, np.int32), np.zeros(37, np.int32)
    pydp.forall(37, fn, out, 5, 11, spec={"mapping": mapping})
    pydp.forall(37, fn, want, 5, 11, device="host")
    plain = np.zeros(1, np.int32)
    fn(0, plain, 5, 11)
    np.testing.assert_array_equal(out, want)
    assert set(out.tolist()) == set(plain.tolist())


def ends_by_quotients(idx, out, m):
    total = 1
    k = idx[0] % 7
    while k > max(1, m // max(1, k) - 4):
        i = m
        while i > max(1, m // i - 4):
            total -= 3
            i -= 1
        k -= 1
    out[idx[0]] = total


def ends_by_remainders(idx, out, m):
    total = 1
    k = idx[0] % 7
    while k > max(0, k % 5 - 3):
        i = 9
        while i > max(1, m % i):
            total += 2
            i //= 2
        k -= 1
    for _ in range(idx[0] % 6 + 1):
        total += m % (k + 3)
    out[idx[0]] = total


@pytest.mark.parametrize("fn", [ends_by_quotients, ends_by_remainders])
@pytest.mark.parametrize("spec", [None, {"mapping": "simt"}], ids=["default", "simt"])
def test_loops_inside_loops_that_go_on_as_quotients_have_it(fn, spec, device) -> None:
    """The same compiler ended the process where it made vectors of work-items."""
    out, want = np.zeros(37, np.int32), np.zeros(37, np.int32)
    for lane in range(37):
        fn((lane,), want, 11)
    pydp.forall(37, fn, out, 11, spec=spec)
    np.testing.assert_array_equal(out, want)
