"""A matrix product through local memory: every global access is coalesced, also for A * transpose(B).

Outside a matrix, tiles read zeros and write nothing, so the function needs no bounds checks.
"""

import numpy as np

import pydp

T = 16


@pydp.vector
def mxm_tiled(idx, C, A, B):
    sA = pydp.local_field(np.float32, T, T)
    sB = pydp.local_field(np.float32, T, T)
    acc = 0.0
    for i in range(A.extent[1]):
        sA[idx.local] = A[idx.group[0], i][idx.local]
        sB[idx.local] = B[i, idx.group[1]][idx.local]
        pydp.group_barrier()
        for k in range(T):
            acc += sA[idx.local[0], k] * sB[k, idx.local[1]]
        pydp.group_barrier()
    C[idx] = acc


def main(device=None):
    rng = np.random.default_rng(0)
    a = rng.random((100, 70), dtype=np.float32)
    b = rng.random((90, 70), dtype=np.float32)
    c = np.empty((100, 90), np.float32)
    tiles = [pydp.read_only(pydp.tile(x, (T, T))) for x in (a, b.T)]
    pydp.forall(c.shape, mxm_tiled, c, *tiles, group=(T, T), device=device)
    return c, a @ b.T


if __name__ == "__main__":
    result, expected = main()
    print("largest difference to NumPy:", np.abs(result - expected).max())
