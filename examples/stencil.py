"""Heat flow: each element becomes the mean of its four neighbours. A group shares its elements and their halo."""

import numpy as np

import pydp

T = 16
H = T + 2


@pydp.vector
def step(idx, out, x):
    halo = pydp.local_field(np.float32, H, H)
    first_row, first_column = idx.group[0] * T - 1, idx.group[1] * T - 1
    place = idx.local[0] * T + idx.local[1]
    for k in range(place, H * H, T * T):
        row, column = first_row + k // H, first_column + k % H
        inside = row >= 0 and row < x.extent[0] and column >= 0 and column < x.extent[1]
        halo[k // H, k % H] = x[row, column] if inside else 0.0
    pydp.group_barrier()
    i, j = idx.local[0] + 1, idx.local[1] + 1
    out[idx] = 0.25 * ((halo[i - 1, j] + halo[i + 1, j]) + (halo[i, j - 1] + halo[i, j + 1]))


def main(device=None, steps=10):
    x = pydp.field(np.random.default_rng(0).random((100, 130), dtype=np.float32), device=device)
    y = pydp.zeros(x.shape, np.float32, device=device)
    expected = x.get()
    for _ in range(steps):
        pydp.forall(x.grid, step, y, pydp.read_only(x), group=(T, T))
        x, y = y, x
        edge = np.pad(expected, 1)
        expected = np.float32(0.25) * ((edge[:-2, 1:-1] + edge[2:, 1:-1]) + (edge[1:-1, :-2] + edge[1:-1, 2:]))
    return x.get(), expected


if __name__ == "__main__":
    result, expected = main()
    print("largest difference to NumPy:", np.abs(result - expected).max())
