"""A transpose through a local tile: rows are read and rows are written; the tile is transposed in local memory."""

import numpy as np

import pydp

T = 16


@pydp.vector
def transpose(idx, out, x):
    tile = pydp.local_field(np.float32, T, T)
    row, column = idx.local
    tile[row, column] = x[idx.group[0], idx.group[1]][row, column]
    pydp.group_barrier()
    out[idx.group[1], idx.group[0]][row, column] = tile[column, row]


def main(device=None):
    x = np.random.default_rng(0).random((150, 85), dtype=np.float32)
    out = np.empty((85, 150), np.float32)
    tiles = pydp.tile(out, (T, T)), pydp.read_only(pydp.tile(x, (T, T)))
    pydp.forall((160, 96), transpose, *tiles, group=(T, T), device=device)
    return out, x.T


if __name__ == "__main__":
    result, expected = main()
    print("equal to NumPy's transpose:", np.array_equal(result, expected))
