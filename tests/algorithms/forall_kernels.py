"""Vector functions that several test files run."""

from __future__ import annotations

import numpy as np

import pydp

BODY = np.dtype([("x", np.float32), ("y", np.float32), ("n", np.int32)])


@pydp.vector
def mxm_naive(idx, C, A, B):
    c = 0.0
    for k in range(A.extent(1)):
        c += A(idx[0], k) * B(k, idx[1])
    C[idx] = c


@pydp.vector
def mxm_tiled(idx, C, A, B):
    sA = pydp.local_field(np.float32, 16, 16)
    sB = pydp.local_field(np.float32, 16, 16)
    acc = 0.0
    for i in range(A.extent(1)):
        sA[idx.local] = A(idx.group[0], i)[idx.local]
        sB[idx.local] = B(i, idx.group[1])[idx.local]
        pydp.group_barrier()
        for k in range(16):
            acc += sA(idx.local[0], k) * sB(k, idx.local[1])
        pydp.group_barrier()
    C[idx] = acc


def naive(c, a, b, **options):
    return pydp.forall(pydp.grid(c), mxm_naive, c, pydp.read_only(a), pydp.read_only(b), **options)


def tiled(c, a, b, **options):
    tiles = [pydp.read_only(pydp.tile(x, (16, 16))) for x in (a, b)]
    return pydp.forall(pydp.grid(c), mxm_tiled, c, *tiles, group=(16, 16), **options)


@pydp.vector
def copy(idx, out, a):
    out[idx] = a[idx]


@pydp.vector
def copy_tiles(idx, out, tiles):
    """`out` is as large as all tiles whole: what lies outside the data reads as the fill."""
    out[idx] = tiles[idx.group][idx.local]


@pydp.vector
def stencil(idx, out, a):
    i, j = idx
    out[idx] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) - a[i, j]


@pydp.vector
def reverse_in_group(idx, out, a):
    slots = pydp.local_field(np.int32, 8)
    slots[idx.local] = a[idx]
    pydp.group_barrier()
    out[idx] = slots[7 - idx.local[0]]


@pydp.vector
def move(body, dt):
    return pydp.record(BODY, x=body.x + dt * body.y, y=body.y, n=body.n + 1)


@pydp.vector
def move_all(idx, bodies, dt):
    b = move(bodies[idx], dt)
    if b.n % 2 == 0:
        b.y = -b.y
    bodies[idx] = b


@pydp.vector
def escape(idx, out, corner, step, limit):
    """Mandelbrot: loops that end at another time for each lane."""
    x0, y0 = corner[0] + step * idx[1], corner[1] + step * idx[0]
    x, y, n = 0.0, 0.0, 0
    while x * x + y * y < 4 and n < limit:
        x, y = x * x - y * y + x0, 2 * x * y + y0
        n += 1
    out[idx] = n
