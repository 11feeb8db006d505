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


@pytest.mark.parametrize("mapping", ["vector", "simt"])
def test_the_last_part_of_columns_ends_with_the_array(device: Any, mapping: str) -> None:
    whole = np.random.default_rng(3).integers(1, 99, (1100, 40)).astype(np.int32)
    spec = {"mapping": mapping, "part": 64, "busy": 4096}
    for n in (1000, 1001):
        got = pydp.reduce(pydp.field(whole)[:n], axis=0, dtype=np.int32, spec=spec).get()
        np.testing.assert_array_equal(got, whole[:n].sum(0, dtype=np.int32))


def test_parts_of_complex_products_are_added_to_what_was_there(device: Any) -> None:
    rng = np.random.default_rng(4)

    def some(*shape: int) -> Any:
        return (rng.integers(-3, 4, shape) + 1j * rng.integers(-3, 4, shape)).astype(np.complex64)

    a, b, c = some(9, 600), some(600, 20), some(9, 20)
    for spec in ({"mapping": "vector", "parts": 3}, {"mapping": "simt", "parts": 3}):
        out = c.copy()
        pydp.matmul(a, b, alpha=1, beta=1 + 2j, out=out, spec=spec)
        np.testing.assert_array_equal(out, a @ b + np.complex64(1 + 2j) * c)


def test_a_batch_whose_results_lie_apart_is_no_taller_matrix(device: Any) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((4, 3, 5), (5, 6)))
    base = np.zeros((4, 7, 6), np.float32)
    pydp.matmul(a, b, out=base[:, :3])
    np.testing.assert_array_equal(base[:, :3], a @ b)
    assert not base[:, 3:].any()


def test_columns_of_a_scan_are_whole_vectors(device: Any) -> None:
    with pytest.raises(pydp.InvalidArgument, match="width 12 is not a multiple of vector 8"):
        pydp.scan(np.zeros((9, 9), np.int32), axis=0, spec={"mapping": "vector", "vector": 8, "width": 12})


def test_results_go_where_a_view_begins(device: Any) -> None:
    x = np.random.default_rng(6).integers(-99, 99, (3, 700)).astype(np.int32)
    for act, want in ((lambda out: pydp.sort(x[0], out=out), np.sort(x[0])),
                      (lambda out: pydp.reduce(x, axis=0, dtype=np.int32, out=out), x.sum(0))):  # fmt: skip
        whole = pydp.zeros(900, np.int32)
        act(whole[100:800])
        got = whole.get()
        np.testing.assert_array_equal(got[100:800], want)
        assert not got[:100].any() and not got[800:].any()
