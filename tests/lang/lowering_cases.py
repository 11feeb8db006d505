"""Vector functions for the tests of all lowerings, with arguments and expected results.

A case is (name, function, argument types, group, launches). A launch returns (extent, arrays, parameters, expected
arrays); an expected array is None if any content is correct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import device_run
import needs
import numpy as np

import pydp.lang.vector as pv
from pydp.lang.compile import FieldType, NumberType
from pydp.lang.execute import host
from pydp.lang.opencl import vector as vector_lowering

F32, F64, I32, U8 = (np.dtype(name) for name in ("float32", "float64", "int32", "uint8"))


class Case(NamedTuple):
    """launches: a list of (extent, arrays, parameters, expected)."""

    name: str
    function: Any
    types: list[Any]
    group: tuple[int, ...] | None
    launches: list[Any]


def mxm_naive(idx, C, A, B):
    c = 0.0
    for k in range(A.extent[1]):
        c += A[idx[0], k] * B[k, idx[1]]
    C[idx] = c


def mxm_tiled(idx, C, A, B):
    sA = pv.local_field(np.float32, 16, 16)
    sB = pv.local_field(np.float32, 16, 16)
    acc = 0.0
    for i in range(A.extent[1]):
        sA[idx.local] = A(idx.group[0], i)[idx.local]
        sB[idx.local] = B(i, idx.group[1])[idx.local]
        pv.group_barrier()
        for k in range(16):
            acc += sA[idx.local[0], k] * sB[k, idx.local[1]]
        pv.group_barrier()
    C[idx.global_index] = acc


def mxm_blocked(idx, C, A, B):
    """Each lane computes 2 x 2 elements of a tile of 8 x 16."""
    sA = pv.local_field(np.float32, 8, 4)
    sB = pv.local_field(np.float32, 4, 16)
    acc = pv.private_field(np.float32, 2, 2)
    i, j = idx.local[0], idx.local[1]
    for a in range(2):
        for b in range(2):
            acc[a, b] = 0
    for t in range(A.extent[1]):
        if j < 4:
            for a in range(2):
                sA[i + 4 * a, j] = A(idx.group[0], t)[i + 4 * a, j]
        for b in range(2):
            sB[i, 2 * j + b] = B(t, idx.group[1])[i, 2 * j + b]
        pv.group_barrier()
        for k in range(4):
            for a in range(2):
                for b in range(2):
                    acc[a, b] = acc[a, b] + sA[i + 4 * a, k] * sB[k, 2 * j + b]
        pv.group_barrier()
    for a in range(2):
        for b in range(2):
            C(idx.group[0], idx.group[1])[i + 4 * a, 2 * j + b] = acc[a, b]


def mandelbrot(idx, counts, most):
    x0 = idx[1] * 0.05 - 2.0
    y0 = idx[0] * 0.1 - 1.2
    x, y, n = 0.0, 0.0, 0
    while n < most and x * x + y * y < 4.0:
        x, y = x * x - y * y + x0, 2.0 * x * y + y0
        n += 1
    counts[idx] = n


def jumps(idx, out, data):
    """Nested breaks and continues in different iterations per lane; the counter is used after the loop."""
    total = 0
    last = -1
    for k in range(data[idx] % 13):
        last = k
        if k == 5:
            continue
        for m in range(10):
            if m > k:
                break
            if (m + k + idx[0]) % 3 == 0:
                continue
            total += m * 10 + k
        if total > 150:
            break
        total += 1
    out[idx] = total * 100 + last


def plain_jumps(i, value):
    total, last = 0, -1
    for k in range(value % 13):
        last = k
        if k == 5:
            continue
        for m in range(10):
            if m > k:
                break
            if (m + k + i) % 3 == 0:
                continue
            total += m * 10 + k
        if total > 150:
            break
        total += 1
    return total * 100 + last


def tree_sum(idx, out, data):
    """A reduction in a group: a while loop with barriers, and a divergent condition in it."""
    s = pv.local_field(np.int32, 32)
    i = idx.local[0]
    s[i] = data[idx.global_index]
    pv.group_barrier()
    width = 16
    while width > 0:
        if i < width:
            s[i] = s[i] + s[i + width]
        pv.group_barrier()
        width = width // 2
    if i == 0:
        out[idx.group[0]] = s[0]


def histogram(idx, counts, data):
    bins = pv.local_field(np.int32, 16)
    i = idx.local[0]
    if i < 16:
        bins[i] = 0
    pv.group_barrier()
    pv.atomic_add(bins, data[idx.global_index] % 16, 1)
    pv.group_barrier()
    if i < 16:
        pv.atomic_add(counts, i, bins[i])


def life(idx, new, old):
    rows, columns = old.extent[0], old.extent[1]
    n = 0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            if di != 0 or dj != 0:
                n += old[(idx[0] + di) % rows, (idx[1] + dj) % columns]
    alive = old[idx] == 1
    new[idx] = np.uint8(1) if n == 3 or (alive and n == 2) else np.uint8(0)


def stencil(idx, out, a):
    i, j = idx
    out[idx] = 0.2 * (a[i, j] + a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def last_of_loop(idx, out, data):
    """An index computed in one loop and used in another loop with the same counter and different bounds."""
    j = 0
    total = 0
    for k in range(data.extent[0] + 5):
        j = k
    i = j + 3
    for k in range(2):
        total += data[i + k] + data[idx[0] - i] + k
    out[idx] = total + data[idx]


def prefix(idx, out, data):
    """The inclusive scan of each group: a for loop with a constant trip count and barriers, and two buffers."""
    s = pv.local_field(np.int32, 2, 24)
    i = idx.local[0]
    s[0, i] = data[idx.global_index]
    side = 0
    step = 1
    for _ in range(5):
        pv.group_barrier()
        value = s[side, i]
        if i >= step:
            value += s[side, i - step]
        s[1 - side, i] = value
        side = 1 - side
        step = step * 2
    out[idx.global_index] = s[side, i]


def _products(function, group, tiles):
    rng = np.random.default_rng(7)
    types = [FieldType(F32, 2, (tile,) if tile else (), k == 0) for k, tile in enumerate(tiles)]
    launches = []
    for n, m, k in ((16, 16, 16), (1, 1, 1), (35, 50, 21), (48, 32, 40), (17, 65, 3)):
        a, b = (rng.random(shape, dtype=np.float32) - np.float32(0.5) for shape in ((n, k), (k, m)))
        want = np.zeros((n, m), np.float32)
        for step in range(k):
            want += a[:, step : step + 1] * b[step : step + 1]
        extent = (n, m) if function is not mxm_blocked else (-(-n // 8) * 4, -(-m // 16) * 8)
        launches.append((extent, [np.full((n, m), np.nan, np.float32), a, b], {}, [want, a, b]))
    return Case(function.__name__, function, types, group, launches)


def _mandelbrot():
    launches = []
    for shape in ((3, 5), (25, 61)):
        y0, x0 = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
        x0, y0 = x0 * np.float32(0.05) - np.float32(2), y0 * np.float32(0.1) - np.float32(1.2)
        x, y, n = np.zeros_like(x0), np.zeros_like(x0), np.zeros(shape, np.int32)
        for _ in range(50):
            on = x * x + y * y < 4
            n += on
            x, y = np.where(on, x * x - y * y + x0, x), np.where(on, np.float32(2) * x * y + y0, y)
        launches.append((shape, [np.zeros(shape, np.int32)], {1: 50}, [n]))
    return Case("mandelbrot", mandelbrot, [FieldType(I32, 2), NumberType(I32, True)], None, launches)


def _by_group(function, group, size, expected, partial=True):
    """Cases with one integer input and one integer output, for complete and `partial` groups."""
    rng = np.random.default_rng(3)
    launches = []
    for n in (size, 3 * size, *([2 * size + 5] if partial else [])):
        data = rng.integers(0, 100, n).astype(np.int32)
        want = expected(data)
        launches.append(((n,), [np.zeros(len(want), np.int32), data], {}, [want, data]))
    return Case(function.__name__, function, [FieldType(I32, 1), FieldType(I32, 1, (), False)], group, launches)


def _sums(data):
    return np.array([data[k : k + 32].sum() for k in range(0, len(data), 32)], np.int32)


def _prefixes(data):
    return np.concatenate([np.cumsum(data[k : k + 24]) for k in range(0, len(data), 24)]).astype(np.int32)


def _jumps(data):
    return np.array([plain_jumps(i, int(value)) for i, value in enumerate(data)], np.int32)


def _life():
    rng = np.random.default_rng(4)
    launches = []
    for shape in ((1, 1), (9, 40), (3, 300)):
        old = rng.integers(0, 2, shape).astype(np.uint8)
        around = sum(np.roll(old, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1)) - old
        want = ((around == 3) | ((old == 1) & (around == 2))).astype(np.uint8)
        launches.append((shape, [np.zeros(shape, np.uint8), old], {}, [want, old]))
    return Case("life", life, [FieldType(U8, 2), FieldType(U8, 2, (), False)], None, launches)


def _stencil():
    rng = np.random.default_rng(5)
    launches = []
    for shape in ((1, 1), (20, 70), (9, 600)):
        a = rng.random(shape, dtype=np.float32)
        p = np.pad(a, 1)
        want = np.float32(0.2) * (p[1:-1, 1:-1] + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
        launches.append((shape, [np.zeros(shape, np.float32), a], {}, [want, a]))
    return Case("stencil", stencil, [FieldType(F32, 2), FieldType(F32, 2, (), False)], None, launches)


def cases() -> list[Case]:
    """All cases, with new arrays."""
    return [
        _products(mxm_naive, None, [None, None, None]),
        _products(mxm_tiled, (16, 16), [None, (16, 16), (16, 16)]),
        _products(mxm_blocked, (4, 8), [(8, 16), (8, 4), (4, 16)]),
        _mandelbrot(),
        _by_group(jumps, None, 40, _jumps),
        _by_group(last_of_loop, None, 40, lambda data: data + 1),
        _by_group(tree_sum, (32,), 32, _sums),
        _by_group(histogram, (24,), 24, lambda data: np.bincount(data % 16, minlength=16).astype(np.int32), False),
        _by_group(prefix, (24,), 24, _prefixes),
        _life(),
        _stencil(),
    ]


# --- shared by the tests of the vector lowering -----------------------------------------------------------


def lowering_for(device):
    """The lowering for the device. Skips on devices that end loops early."""
    needs.vector_mapping(device)
    return lambda made, **options: vector_lowering.LOWERING.lower(made, device.profile, **options)


def unit(made):
    return frozenset((a.name, a.rank - 1) for a in made.arrays if a.rank)


def device_and_host(device, lowered, made, arrays, extent, offset=None, parameters=(), equal=True):
    ours, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    device_run.run(device, lowered, ours, parameters, extent, offset)
    host.run(made, extent, offset, theirs, parameters)
    for one, other in zip(ours, theirs, strict=True):
        if equal:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=4e-6, atol=1e-30)
    return ours
