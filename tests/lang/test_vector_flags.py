"""Strips of lanes: conditions and bounds keep the value that they had, and flat places keep their steps."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp

X = np.arange(-5, 12, dtype=np.int32)


def branch_sets_its_flag(idx, out, x):
    flag = x[idx] > 0
    n = 0
    if flag:
        flag = x[idx] > 5
        n = n + 1
    else:
        n = n + 100
    if flag and x[idx] < 8:
        n = n + 1000
    out[idx] = n


def flags_in_turn(idx, out, x):
    b = x[idx] > 0
    a = b
    n = 0
    if b:
        a = False
        b = x[idx] > 3
        n += 10
        if b:
            b = False
            n += 100
        else:
            n += 1000
    out[idx] = n + (5 if a else 7)


def loop_sets_its_bounds(idx, out, x):
    first, stop, step = x[idx] % 3, x[idx], 1 + x[idx] % 2
    n = 0
    for k in range(first, stop, step):
        first, stop, step = 0, stop - 3, 7
        n = n * 3 + k
    out[idx] = n % 1009 + stop


def shared_loop_sets_its_bounds(idx, out, x):
    stop = x.extent[0] // 4
    n = 0
    for k in range(stop):
        stop = stop - 1
        n += k + x[k]
    out[idx] = n + stop


def plain(function):
    """The result of the plain Python function, lane by lane."""

    class Array:
        extent = X.shape

        def __getitem__(self, at):
            return int(X[at])

    result = {}

    class Out:
        def __setitem__(self, at, value):
            result[at] = value

    class Index(int):
        def __getitem__(self, axis):
            return int(self)

    for lane in range(len(X)):
        function(Index(lane), Out(), Array())
    return np.array([result[lane] for lane in range(len(X))], np.int32)


@pytest.mark.parametrize(
    "function", [branch_sets_its_flag, flags_in_turn, loop_sets_its_bounds, shared_loop_sets_its_bounds]
)
@pytest.mark.parametrize("mapping", ["vector", "simt"])
def test_conditions_and_bounds_are_read_once(device, function, mapping):
    needs.vector_mapping(device, mapping)
    out, hosted = np.zeros(len(X), np.int32), np.zeros(len(X), np.int32)
    pydp.forall(len(X), function, out, X, device=device, spec={"mapping": mapping})
    pydp.forall(len(X), function, hosted, X, device="host")
    expected = plain(function)
    np.testing.assert_array_equal(hosted, expected)
    np.testing.assert_array_equal(out, expected)


def flat_places(idx, out, x, n):
    li, lj = idx.local
    me = li * 16 + lj
    s = pydp.local_field(np.int32, 16, 16)
    t = pydp.local_field(np.int32, 256)
    for r in range(2):
        e = me + 128 * r
        s[e // 16, e % 16] = x[e >> 4, e & 15]
        t[e] = x[e // 32, e % 32] + x[(e - 64) >> 3, (e - 64) & 63] + (e - 512) // 16 * 3 + (e - 512) % 64
    pydp.group_barrier()
    acc = 0
    for j in range(lj, 256, 16):
        acc += t[j] + j // 16 + j % 48
    f, g = np.int64(me) * 2 - 4096, np.uint32(me) * 4
    acc += np.int32(f // 32 + f % 96) + np.int32(g // 64 + g % 128)
    acc += (
        (me + n) // 16 + (me + n) % 16 + (me * 3) // 48 + (me * 3) % 48 + (-me) // 16 + (-me) % 16 + me // 8 + me % 24
    )
    h = lj
    if n > 2:
        h = h + 32
    acc += h // 16 * 5 + h % 32
    if x[li, lj] > 4:
        h = h + 16
    acc += h // 16 * 5 + h % 32
    out[idx] = acc + s[15 - li, lj] + s[lj, li]


@pytest.mark.parametrize("shape", [(8, 16), (20, 33)])
def test_quotients_and_remainders_of_flat_places(device, shape):
    x = np.arange(3000, dtype=np.int32).reshape(50, 60) % 97
    out, hosted = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    pydp.forall(shape, flat_places, out, x, 3, group=(8, 16), device=device)
    pydp.forall(shape, flat_places, hosted, x, 3, group=(8, 16), device="host")
    np.testing.assert_array_equal(out, hosted)
