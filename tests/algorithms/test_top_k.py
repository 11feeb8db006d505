"""pydp.top_k, argpartition and partition at positions against NumPy."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp

FILTER = {"strategy": "filter", "block": 16, "parts": 3}
SORT = {"strategy": "sort"}
STRATEGIES = pytest.mark.parametrize("strategy", [FILTER, SORT, {}], ids=["filter", "sort", "default"])


def best(x: np.ndarray, k: int, axis: int = -1, largest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    if largest:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order


def check(found, wanted) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def needs_loops(device, strategy) -> None:
    if strategy == FILTER:
        needs.endless_loops(device)


@pytest.mark.oclgrind
@STRATEGIES
def test_every_size(device, strategy):
    needs_loops(device, strategy)
    rng = np.random.default_rng(0)
    for n in (1, 15, 16, 17, 300):
        x = rng.integers(0, 50, n).astype(np.int32)
        for k, largest in ((0, True), (1, False), (n // 2, True), (n // 2, False), (n, True)):
            check(pydp.top_k(x, k, largest=largest, spec=strategy), best(x, k, -1, largest))


@STRATEGIES
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
def test_dtypes_nan_and_orders(device, strategy, dtype):
    needs_loops(device, strategy)
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(50000) * 100).astype(dtype)
    if dtype == "float32":
        x[::1000] = np.nan
        x[5:9] = [np.inf, -np.inf, -0.0, 0.0]
    for k in (1, 40, 60, 1000):
        for largest in (True, False):
            check(pydp.top_k(x, k, largest=largest, spec=strategy), best(x, k, -1, largest))
    for ordered in (np.sort(x), np.sort(x)[::-1]):
        for k, largest in ((70, True), (70, False), (400, True)):
            check(pydp.top_k(ordered, k, largest=largest, spec=strategy), best(ordered, k, -1, largest))
    few = np.full(20000, 7, dtype)  # equal elements: those of the lowest indexes
    few[[3, 19999]] = 9
    check(pydp.top_k(few, 5, spec=strategy), best(few, 5))


@STRATEGIES
def test_more_nan_than_elements_that_are_wanted(device, strategy):
    needs_loops(device, strategy)
    x = np.random.default_rng(2).standard_normal(20000).astype(np.float32)
    x[100:19990] = np.nan
    for largest in (True, False):
        check(pydp.top_k(x, 120, largest=largest, spec=strategy), best(x, 120, -1, largest))


@STRATEGIES
def test_axes_strides_and_kinds(device, strategy):
    needs_loops(device, strategy)
    x = np.random.default_rng(3).integers(0, 1000, (7, 600, 3)).astype(np.int32)
    for axis in (0, 1, 2, -1):
        check(pydp.top_k(x, 3, axis, spec=strategy), best(x, 3, axis))
    check(pydp.top_k(x[::-1, ::2], 9, 1, spec=strategy), best(x[::-1, ::2], 9, 1))
    check(pydp.top_k(x, 9, None, spec=strategy), best(x.reshape(-1), 9))
    field = pydp.field(x, device=device)
    for _ in range(3):
        values, indexes = pydp.top_k(field, 20, 1, spec=strategy)
        assert isinstance(values, pydp.Field) and isinstance(indexes, pydp.Field)
        check((values.get(), indexes.get()), best(x, 20, 1))
    check([one.get() for one in pydp.top_k(field.array, 20, 1, spec=strategy)], best(x, 20, 1))


def test_a_partition_at_positions(device):
    x = np.random.default_rng(4).integers(0, 99, (9, 500)).astype(np.int32)
    for kth, axis in ((3, -1), (-2, 0), ([4, 7], 1), (4000, None)):
        found = pydp.partition(x, kth, axis=axis)
        where = pydp.argpartition(x, kth, axis)
        source, along = (x.reshape(-1), 0) if axis is None else (x, axis)
        assert np.array_equal(np.take_along_axis(source, where, along), found)
        for k in np.atleast_1d(kth):
            wanted = np.partition(source, k, along)
            assert np.array_equal(np.take(found, k, along), np.take(wanted, k, along))
            before, after = np.split(np.moveaxis(found, along, 0), [k])
            assert (before <= after[0]).all() and (after >= after[0]).all()
    assert "sorted" in str(pydp.explain(pydp.partition, x, 3))
    assert "sorted" in str(pydp.explain(pydp.argpartition, x, 3))


def test_wrong_arguments(device):
    x = np.arange(6, dtype=np.int32)
    for call, message in (
        (lambda: pydp.top_k(x, 7), "k is 7; 0 to 6"),
        (lambda: pydp.top_k(x, -1), "k is -1"),
        (lambda: pydp.top_k(x, 1.5), "k is 1.5"),
        (lambda: pydp.top_k(x, 1, axis=1), "axis=1"),
        (lambda: pydp.top_k(x, 1, largest="yes"), "largest is 'yes'"),
        (lambda: pydp.top_k(x, 1, spec={"block": 5}), "block is 5"),
        (lambda: pydp.partition(x, 6), "kth is 6"),
        (lambda: pydp.partition(x, [1.5]), "kth is"),
        (lambda: pydp.partition(x, 2, mask=x > 2), "mask, second, count and length"),
        (lambda: pydp.argpartition(x, [0, -7]), "kth is -7"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()


def test_a_driver_that_ends_loops_refuses_the_filter(device):
    needs.ended_loops(device)
    with pytest.raises(pydp.InvalidArgument, match="ends loops"):
        pydp.top_k(np.arange(99, dtype=np.int32), 3, spec=FILTER)


@pytest.mark.oclgrind
def test_results_do_not_write_outside(device, monkeypatch):
    from selections import Guarded

    guarded = Guarded(monkeypatch)
    x = np.random.default_rng(5).integers(0, 9, 300).astype(np.int32)
    check(pydp.top_k(x, 17), best(x, 17))
    guarded.check()
