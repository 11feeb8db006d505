"""A sum as a tree: in each step, half of the lanes add the other half's values. The groups' sums are summed again."""

import numpy as np

import pydp

GROUP = 128


@pydp.vector
def sums(idx, out, x):
    s = pydp.local_field(np.float32, GROUP)
    lane = idx.local[0]
    s[lane] = x[idx.group[0]][lane]
    pydp.group_barrier()
    for k in range(7):
        step = GROUP // 2 >> k
        if lane < step:
            s[lane] = s[lane] + s[lane + step]
        pydp.group_barrier()
    if lane == 0:
        out[idx.group[0]] = s[0]


def main(device=None):
    x = np.random.default_rng(0).integers(-1000, 1000, 50_000).astype(np.float32)
    data = pydp.field(x, device=device)
    while data.shape[0] > 1:
        groups = -(-data.shape[0] // GROUP)
        out = pydp.empty(groups, np.float32, device=device)
        pydp.forall(groups * GROUP, sums, out, pydp.tile(data, GROUP), group=GROUP)
        data = out
    return data.get(), x.sum(keepdims=True)


if __name__ == "__main__":
    result, expected = main()
    print("sum:", result[0], "NumPy's:", expected[0])
