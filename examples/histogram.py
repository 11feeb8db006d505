"""A histogram: each group counts in local memory with atomics, then adds its counts to the result."""

import numpy as np

import pydp

BINS = 64
GROUP = 256
EACH = 16  # elements per lane


@pydp.vector
def count(idx, bins, x):
    mine = pydp.local_field(np.int32, BINS)
    lane = idx.local[0]
    if lane < BINS:
        mine[lane] = 0
    pydp.group_barrier()
    first = idx.group[0] * GROUP * EACH
    for k in range(EACH):
        at = first + k * GROUP + lane
        if at < x.extent[0]:
            pydp.atomic_add(mine, x[at], 1)
    pydp.group_barrier()
    if lane < BINS:
        pydp.atomic_add(bins, lane, mine[lane])


def main(device=None):
    x = np.random.default_rng(0).integers(0, BINS, 100_000, dtype=np.uint8)
    bins = np.zeros(BINS, np.int32)
    groups = -(-x.size // (GROUP * EACH))
    pydp.forall(groups * GROUP, count, bins, pydp.read_only(x), group=GROUP, device=device)
    return bins, np.bincount(x, minlength=BINS)


if __name__ == "__main__":
    result, expected = main()
    print("equal to np.bincount:", np.array_equal(result, expected))
