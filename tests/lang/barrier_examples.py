"""Vector functions whose barriers have known widths, with data and expected results.

EXAMPLES[name](rng) gives the extent, the group, the function, its arguments (the result first) and the expected result.
"""

from __future__ import annotations

import numpy as np

import pydp

SIMT = {"mapping": "simt"}


@pydp.vector
def sum_of_eight(idx, out, x):
    """The example of SPEC S4: 8 elements by 4 lanes need the widths 4, 2 and none."""
    s = pydp.local_field(np.int32, 8)
    i = idx.local[0]
    s[i] = x[i]
    s[i + 4] = x[i + 4]
    pydp.group_barrier()
    for k in range(3):
        n = 4 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[0] = s[0]


@pydp.vector
def sums_of_64(idx, out, x):
    """A tree reduction for each group of 64 lanes."""
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier()
    for k in range(6):
        n = 32 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[idx.group[0]] = s[0]


@pydp.vector
def mirrored_in_32(idx, out, x):
    """Each half of a group writes ptr[tid % 32] in turn, and reads it."""
    s = pydp.local_field(np.int32, 2, 32)
    half, i = idx.local[0] // 32, idx.local[0] % 32
    s[half, i] = x[idx]
    pydp.group_barrier()
    out[idx] = s[half, 31 - i]


@pydp.vector
def turned_in_four(idx, out, x, order):
    """Four runs of four lanes; the lane that is read depends on data."""
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier(4)
    out[idx] = s[i // 4 * 4 + order[idx] % 4]


@pydp.vector
def turned_in(idx, out, x, order, width):
    """The same as `four`, with the width as an argument."""
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier(width)
    out[idx] = s[i // width * width + order[idx] % width]


@pydp.vector
def turned_by_turns(idx, out, x, order, turns):
    """A width computed in each iteration of a loop with unknown trip count; indexes depend on data."""
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    value = x[idx]
    for k in range(turns):
        width = 64 >> k
        s[i] = value
        pydp.group_barrier(width)
        value = s[i // width * width + (order[idx] + k) % width]
        pydp.group_barrier(width)
    out[idx] = value


@pydp.vector
def two_released(idx, out, x, n):
    """The example of SPEC S4: only the n lanes for which the condition holds reach the barrier."""
    s = pydp.local_field(np.int32, 4)
    i = idx.local[0]
    s[i] = 0
    if i < n:
        s[i] = x[i]
        pydp.group_barrier(n)
        out[i] = s[n - 1 - i]


@pydp.vector
def every_other(idx, out, x, order):
    """The lanes that reach the barrier are not a run; the elements that they read depend on data."""
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = 0
    if i % 2 == 0:
        s[i] = x[idx]
        pydp.group_barrier(8)
        out[idx] = s[order[idx] % 8 * 2]


@pydp.vector
def three_of_sixteen(idx, out, x, n):
    """A width that does not divide the group; lanes 6, 7 and 8 belong to two runs of eight."""
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = 0
    if 6 <= i < 6 + n:
        s[i] = x[idx]
        pydp.group_barrier(n)
        out[idx] = s[14 - i]


@pydp.vector
def pairs_and_rows(idx, out, x):
    """Exchanges at several distances; both axes of a group."""
    s = pydp.local_field(np.int32, 128)
    i = idx.local[0] * 64 + idx.local[1]
    value = x[idx]
    for turn in range(2):
        for k in range(7):
            s[i] = value
            pydp.group_barrier()
            value = value * 3 + s[i ^ (1 << k)] + turn
            pydp.group_barrier()
    out[idx] = value


@pydp.vector
def neighbouring_rows(idx, out, x):
    """Rows of 16 lanes exchange with the neighbouring row: runs of 32 lanes, wider than a row."""
    s = pydp.local_field(np.int32, 16, 16)
    value = x[idx]
    for k in range(3):
        s[idx.local] = value
        pydp.group_barrier()
        value = value * 3 + s[idx.local[0] ^ 1, 15 - idx.local[1]] + k
        pydp.group_barrier()
    out[idx] = value


@pydp.vector
def as_many_as_are_small(idx, out, x, order, limit):
    """The x < y of SPEC S4: the lanes that satisfy it are counted first, and the count is the barrier's width."""
    s = pydp.local_field(np.int32, 16)
    found = pydp.local_field(np.int32, 1)
    i = idx.local[0]
    s[i] = -1
    if i == 0:
        found[0] = 0
    pydp.group_barrier()
    pydp.atomic_add(found, 0, 1 if x[idx] < limit else 0)
    pydp.group_barrier()
    n = found[0]
    if x[idx] < limit:
        s[i] = x[idx]
        pydp.group_barrier(n)
        out[idx] = s[order[idx] % 16] + n


@pydp.vector
def updated_in_order(idx, out, x):
    """The result of updates depends on their order if they have different operations or return the previous value."""
    s = pydp.local_field(np.int32, 2)
    if idx.local[0] < 2:
        s[idx.local[0]] = 0
    pydp.group_barrier()
    pydp.atomic_add(s, 0, x[idx])
    pydp.atomic_add(s, 1, 1)
    pydp.group_barrier()
    pydp.atomic_max(s, 0, 100)
    seen = pydp.atomic_add(s, 1, 1)
    pydp.group_barrier()
    out[idx] = s[0] * 2 + (1 if seen >= 64 else 0)


@pydp.vector
def halves_exchanged(idx, out, t, x):
    """In a grid of 8 columns, one of the two lanes that write an element is outside the grid."""
    own = (idx.local[1] + 8 * idx.local[0]) % 16
    t[own] = x[own]
    pydp.group_barrier()
    out[idx] = t[(own + 8) % 16]
    pydp.group_barrier()
    t[own] = 0


def _sums(rng):
    x = rng.integers(-999, 999, 250).astype(np.int32)
    want = np.pad(x, (0, 6)).reshape(4, 64).sum(1, dtype=np.int32)
    return (256,), (64,), sums_of_64, [np.zeros(4, np.int32), x], want


def _eight(rng):
    x = rng.integers(-999, 999, 8).astype(np.int32)
    return (4,), (4,), sum_of_eight, [np.zeros(1, np.int32), x], x.sum(keepdims=True)


def _mirrored(rng):
    x = rng.integers(-999, 999, 192).astype(np.int32)
    want = x.reshape(-1, 32)[:, ::-1].ravel()
    return (192,), (64,), mirrored_in_32, [np.zeros_like(x), x], want


def _turned(rng, width, of):
    x, order = (rng.integers(0, 999, 3 * of).astype(np.int32) for _ in range(2))
    run = np.arange(3 * of) // width * width
    return x, order, x[run + order % width]


def _four(rng):
    x, order, want = _turned(rng, 4, 16)
    return (48,), (16,), turned_in_four, [np.zeros_like(x), x, order], want


def _argument(width):
    def made(rng):
        x, order, want = _turned(rng, width, 64)
        return (192,), (64,), turned_in, [np.zeros_like(x), x, order, width], want

    return made


def _by_turns(rng):
    x, order = (rng.integers(0, 999, 128).astype(np.int32) for _ in range(2))
    want, lane = x, np.arange(128)
    for k in range(6):
        width = 64 >> k
        want = want[lane // width * width + (order + k) % width]
    return (128,), (64,), turned_by_turns, [np.zeros_like(x), x, order, 6], want


def _released(rng):
    x = rng.integers(1, 999, 4).astype(np.int32)
    return (4,), (4,), two_released, [np.zeros(4, np.int32), x, 2], np.array([x[1], x[0], 0, 0])


def _other(rng):
    x, order = (rng.integers(1, 999, 48).astype(np.int32) for _ in range(2))
    lane = np.arange(48)
    want = np.where(lane % 2 == 0, x[lane // 16 * 16 + order % 8 * 2], 0)
    return (48,), (16,), every_other, [np.zeros_like(x), x, order], want


def _three(rng):
    x = rng.integers(1, 999, 16).astype(np.int32)
    want = np.zeros_like(x)
    want[6:9] = x[8:5:-1]
    return (16,), (16,), three_of_sixteen, [np.zeros_like(x), x, 3], want


def _pairs(rng):
    x = rng.integers(-9, 9, (4, 128)).astype(np.int32)
    want, lane = x.reshape(2, 2, 2, 64).swapaxes(1, 2).reshape(-1, 128), np.arange(128)
    with np.errstate(over="ignore"):
        for turn in range(2):
            for k in range(7):
                want = want * np.int32(3) + want[:, lane ^ (1 << k)] + np.int32(turn)
    want = want.reshape(2, 2, 2, 64).swapaxes(1, 2).reshape(4, 128)
    return (4, 128), (2, 64), pairs_and_rows, [np.zeros_like(x), x], want


def _neighbours(rng):
    x = rng.integers(-9, 9, (20, 40)).astype(np.int32)
    padded = np.pad(x, ((0, 12), (0, 8)))
    want = padded.reshape(2, 16, 3, 16).swapaxes(1, 2)
    for k in range(3):
        want = want * np.int32(3) + want[:, :, np.arange(16) ^ 1, ::-1] + np.int32(k)
    want = want.swapaxes(1, 2).reshape(padded.shape)[:20, :40]
    return (20, 40), (16, 16), neighbouring_rows, [np.zeros_like(x), x], want


def _small(rng):
    x, order = (rng.integers(0, 99, 48).astype(np.int32) for _ in range(2))
    want = np.zeros_like(x)
    for group in range(0, 48, 16):
        come = x[group : group + 16] < 40
        slots = np.where(come, x[group : group + 16], -1)
        want[group : group + 16] = np.where(come, slots[order[group : group + 16] % 16] + come.sum(), 0)
    return (48,), (16,), as_many_as_are_small, [np.zeros_like(x), x, order, 40], want


def _updated(rng):
    x = rng.integers(0, 5, 256).astype(np.int32)
    x[:64] = 1
    want = np.maximum(x.reshape(4, 64).sum(1, dtype=np.int32), 100).repeat(64) * 2 + 1
    return (256,), (64,), updated_in_order, [np.zeros_like(x), x], want


def _halves(rng):
    x = rng.integers(1, 99, 16).astype(np.int32)
    out, t = np.zeros((2, 8), np.int32), np.zeros_like(x)
    return (2, 8), (2, 16), halves_exchanged, [out, t, x], x.reshape(2, 8)[::-1]


EXAMPLES = {
    "eight": _eight,
    "sums": _sums,
    "mirrored": _mirrored,
    "four": _four,
    "argument 1": _argument(1),
    "argument 8": _argument(8),
    "argument 64": _argument(64),
    "by turns": _by_turns,
    "released": _released,
    "every other": _other,
    "three": _three,
    "pairs": _pairs,
    "rows of 16": _neighbours,
    "counted": _small,
    "updated": _updated,
    "halves": _halves,
}
