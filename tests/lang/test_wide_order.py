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


def picked(idx, out, tiles, a):
    """64-bit indexes: positions from narrower integers, also out of bounds."""
    i = idx[0] - 2**40
    out[i] = tiles[a[i]][0]
    tiles[a[i] + 100][0] = i


@pytest.mark.oclgrind
def test_places_from_widened_integers(device):
    values, out = np.arange(30, dtype=np.int32) + 100, np.zeros(37, np.int32)
    a = np.arange(-5, 32, dtype=np.int32)
    pydp.forall(
        pydp.space.Grid(37, offset=2**40), picked, out, pydp.tile(values, 1, fill=9), a, spec={"mapping": "simt"}
    )
    np.testing.assert_array_equal(out, [values[k] if 0 <= k < 30 else 9 for k in a])
    np.testing.assert_array_equal(values, np.arange(100, 130))


def signs(idx, out, a):
    """Widened integers that are converted to floats, directly and in a variable, and compared with zero."""
    (i,) = idx
    y = I64(a[i])
    out[0, i] = np.float32(I64(a[i])) < np.float32(0)
    out[1, i] = np.float32(y) > np.float32(0)
    out[2, i] = np.float32(y) <= np.float32(0)


@pytest.mark.oclgrind
def test_signs_of_floats_from_widened_integers(device):
    a = np.arange(-7, 30, dtype=np.int32)
    want = np.array([a < 0, a > 0, a <= 0], I64)
    loops_are_cut = device.profile.loop_limit is not None
    for mapping in ("simt",) if loops_are_cut else ("simt", "vector"):
        got = np.full((3, 37), -1, I64)
        pydp.forall(37, signs, got, a, spec={"mapping": mapping})
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("condition", ["(float)(long)b < 0", "(long)b < 0.0f", "convert_float((long)b) < 0"])
def test_signs_of_floats_in_operator_texts(device, condition):
    a = np.array([1, -3, 0, 5, -(2**31)], np.int32)
    for first, second in zip(a, a[::-1], strict=True):
        got = pydp.reduce(np.array([first, second]), f"{condition} ? -1 : 1")
        assert got == (-1 if second < 0 else 1)
