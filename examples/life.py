"""Conway's game of life on a torus: indexes wrap around, and generations are enqueued one after the other."""

import numpy as np

import pydp


@pydp.vector
def generation(idx, after, before):
    height, width = before.extent[0], before.extent[1]
    i, j = idx
    alive = 0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            if di != 0 or dj != 0:
                alive += before[(i + di) % height, (j + dj) % width]
    after[idx] = 1 if alive == 3 or (alive == 2 and before[idx] == 1) else 0


def main(device=None, generations=20):
    start = np.random.default_rng(0).integers(0, 2, (90, 110), dtype=np.uint8)
    before = pydp.field(start, device=device)
    after = pydp.empty(start.shape, np.uint8, device=device)
    expected = start
    for _ in range(generations):
        pydp.forall(before.grid, generation, after, before)
        before, after = after, before
        turned = [np.roll(expected, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        alive = np.sum(turned, axis=0)
        expected = ((alive == 3) | ((alive == 2) & (expected == 1))).astype(np.uint8)
    return before.get(), expected


if __name__ == "__main__":
    result, expected = main()
    print("\n".join("".join(" #"[cell] for cell in row[:78]) for row in result[:30]))
    print("equal to NumPy's:", np.array_equal(result, expected))
