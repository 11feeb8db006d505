"""The order of narrow integers that are widened to int64, and of constants: one driver's compiler takes it wrongly."""

from __future__ import annotations

import numpy as np
import pytest

import pydp

I64 = np.int64


def compared(idx, out, a):
    """Variables of 64 bits that take a narrower number, against constants that are written or come of variables."""
    (i,) = idx
    y = a[0]
    y = i % 6
    n = a[0]
    n = 3
    out[0, i] = y < 9
    out[1, i] = y >= n
    out[2, i] = n > I64(i - 5)
    out[3, i] = I64(i - 5) >= 0
    out[4, i] = I64(i - 5) < -1
    out[5, i] = y - 3 <= a[i] - a[i]
    out[6, i] = max(I64(i - 9), n)
    out[7, i] = abs(I64(i - 9))


def counted(idx, out, a):
    """The same where a loop's turns are counted."""
    (i,) = idx
    y = a[0]
    y = i % 6
    for k in range(y, 9, 1 + y % 3):
        out[0, i] += k


@pytest.mark.oclgrind
def test_widened_integers_and_constants(device):
    a = np.arange(-7, 30)
    i = np.arange(37)
    y = i % 6
    want = [y < 9, y >= 3, i - 5 < 3, i >= 5, i - 5 < -1, y <= 3, np.maximum(i - 9, 3), abs(i - 9)]
    loops_are_cut = device.profile.loop_limit is not None  # the vector mapping is refused there
    for mapping in ("simt",) if loops_are_cut else ("simt", "vector"):
        got = np.zeros((8, 37), I64)
        pydp.forall(37, compared, got, a, spec={"mapping": mapping})
        np.testing.assert_array_equal(got, np.array(want).astype(I64))


@pytest.mark.oclgrind
def test_turns_from_a_widened_integer(device):
    got = np.zeros((1, 37), I64)
    pydp.forall(37, counted, got, np.arange(37), spec={"mapping": "simt"})
    np.testing.assert_array_equal(got[0], [sum(range(i % 6, 9, 1 + i % 6 % 3)) for i in range(37)])
