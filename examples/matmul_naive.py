"""A matrix product with one lane for each element of the result, as in the formula."""

import numpy as np

import pydp


@pydp.vector
def mxm_naive(idx, C, A, B):
    c = 0.0
    for k in range(A.extent[1]):
        c += A[idx[0], k] * B[k, idx[1]]
    C[idx] = c


def main(device=None):
    rng = np.random.default_rng(0)
    a = rng.random((123, 45), dtype=np.float32)
    b = rng.random((45, 67), dtype=np.float32)
    c = np.empty((123, 67), np.float32)
    pydp.forall(c.shape, mxm_naive, c, pydp.read_only(a), pydp.read_only(b), device=device)
    return c, a @ b


if __name__ == "__main__":
    result, expected = main()
    print("largest difference to NumPy:", np.abs(result - expected).max())
