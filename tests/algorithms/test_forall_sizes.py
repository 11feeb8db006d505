"""The tiled matrix products at every size from 1 to 70, with square and oblong groups, exact on integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from forall_kernels import tiled

import pydp


@pydp.vector
def mxm_oblong(idx, C, A, B):
    """Groups of 8 x 32 lanes: a tile of B is as high as one of A is wide, so every lane brings four of its elements."""
    sA = pydp.local_field(np.float32, 8, 32)
    sB = pydp.local_field(np.float32, 32, 32)
    acc = 0.0
    i, j = idx.local
    for t in range(A.extent[1]):
        sA[i, j] = A[idx.group[0], t][i, j]
        for r in range(4):
            sB[i + 8 * r, j] = B[t, idx.group[1]][i + 8 * r, j]
        pydp.group_barrier()
        for k in range(32):
            acc += sA[i, k] * sB[k, j]
        pydp.group_barrier()
    C[idx] = acc


def oblong(c: Any, a: Any, b: Any) -> None:
    tiles = [pydp.read_only(pydp.tile(x, shape)) for x, shape in ((a, (8, 32)), (b, (32, 32)))]
    pydp.forall(pydp.grid(c), mxm_oblong, c, *tiles, group=(8, 32))


def _check(product: Any, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m)
    a = rng.integers(-8, 9, (m, k)).astype(np.float32)
    b = rng.integers(-8, 9, (n, k)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    product(c, a, b.T)
    np.testing.assert_array_equal(c, a @ b.T)


@pytest.mark.parametrize("product", [tiled, oblong])
def test_all_sizes(device: Any, product: Any) -> None:
    for size in range(1, 71):
        _check(product, size, 71 - size, 1 + size * 37 % 70)


def test_a_large_oblong_one(device: Any) -> None:
    _check(oblong, 1000, 500, 700)
