"""Inclusive prefix sums within each group of 256: a lane adds the values 1, 2, 4, ... places to its left."""

import numpy as np

import pydp

GROUP = 256


@pydp.vector
def prefix_sums(idx, out, x):
    s = pydp.local_field(np.int32, 2, GROUP)
    lane = idx.local[0]
    s[0, lane] = x[idx.group[0]][lane]
    pydp.group_barrier()
    for k in range(8):
        step = 1 << k
        before, now = k % 2, (k + 1) % 2  # two buffers: one barrier per iteration is enough
        s[now, lane] = s[before, lane] + (s[before, lane - step] if lane >= step else 0)
        pydp.group_barrier()
    out[idx.group[0]][lane] = s[0, lane]


def main(device=None):
    x = np.random.default_rng(0).integers(-50, 50, 1000, dtype=np.int32)
    out = np.empty_like(x)
    pydp.forall(1024, prefix_sums, pydp.tile(out, GROUP), pydp.tile(x, GROUP), group=GROUP, device=device)
    return out, np.concatenate([np.cumsum(x[k : k + GROUP]) for k in range(0, x.size, GROUP)])


if __name__ == "__main__":
    result, expected = main()
    print("equal to np.cumsum of each part:", np.array_equal(result, expected))
