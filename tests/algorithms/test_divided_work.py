"""Work that is cut where its sizes divide one another, and that is left over where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp

VECTOR = {"mapping": "vector", "part": 256}
SIMT = {"mapping": "simt", "lanes": 64, "columns": 8, "items": 4}


@pytest.mark.parametrize("spec", [VECTOR, SIMT], ids=["vector", "simt"])
def test_rows_of_several_whole_partitions(device: Any, spec: dict[str, Any]) -> None:
    x = np.random.default_rng(1).integers(-99, 99, (3, 1024)).astype(np.int32)
    np.testing.assert_array_equal(pydp.scan(x, axis=1, spec=spec), np.cumsum(x, axis=1, dtype=np.int32))


def test_a_first_value_and_several_passes(device: Any) -> None:
    x = np.random.default_rng(2).integers(-99, 99, 10_000).astype(np.int32)
    for mapping in ("vector", "simt"):
        spec = {"mapping": mapping, "part": 64, "busy": 64}
        assert pydp.reduce(x, init=7, dtype=np.int32, spec=spec) == x.sum(dtype=np.int32) + 7
        assert pydp.reduce(x[None], "a - 0 + b", axis=1, init=7, dtype=np.int32, spec=spec)[0] == x.sum() + 7


def test_products_of_depths_that_the_unrolled_loop_does_not_divide(device: Any) -> None:
    spec = {"mapping": "vector", "method": "packed", "rows": 2, "columns": 16, "tile_m": 24, "tile_n": 32, "tile_k": 32}
    for k in range(1, 9):
        a, b = (np.random.default_rng(k).integers(-9, 9, shape).astype(np.float32) for shape in ((5, k), (k, 20)))
        np.testing.assert_array_equal(pydp.matmul(a, b, spec={**spec, "unroll": 4}), a @ b)
