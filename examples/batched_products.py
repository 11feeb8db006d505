"""Many products of small matrices at once. The first of the three grid axes counts the matrices."""

import numpy as np

import pydp


@pydp.vector
def products(idx, C, A, B):
    n, i, j = idx
    total = 0.0
    for k in range(A.extent[2]):
        total = pydp.fma(A[n, i, k], B[n, k, j], total)
    C[idx] = total


def main(device=None):
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (500, 5, 7)).astype(np.float32)
    b = rng.integers(-9, 9, (500, 7, 4)).astype(np.float32)
    c = np.empty((500, 5, 4), np.float32)
    pydp.forall(c.shape, products, c, pydp.read_only(a), pydp.read_only(b), device=device)
    return c, a @ b


if __name__ == "__main__":
    result, expected = main()
    print("equal to NumPy's products:", np.array_equal(result, expected))
