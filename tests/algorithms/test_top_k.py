"""pydp.top_k, argpartition and partition at positions against NumPy."""

from __future__ import annotations

import itertools

import needs
import numpy as np
import pytest

import pydp
from pydp.algorithms.top_k.policy import TopKProblem, TopKSpec, capacity_of
from pydp.tuning.reference import difference, expected

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


@pytest.mark.sweep
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


@pytest.mark.parametrize("dtype", ["float16", "int32", "float64"])
@pytest.mark.parametrize("block", [16, 128])
def test_the_buffer_of_the_filter(device, dtype, block):
    """Each element of ascending data goes to the buffer; blocks of several vectors have elements in some of them."""
    spec = {"strategy": "filter", "block": block, "parts": 3}
    needs_loops(device, FILTER)
    needs.dtype(device, dtype)
    rng = np.random.default_rng(0)
    for k in (1, 11, 42, 300):
        for x in (np.sort(rng.standard_normal(20000)), rng.standard_normal(20000)):
            given = x.astype(dtype)
            for largest in (True, False):
                check(pydp.top_k(given, k, largest=largest, spec=spec), best(given, k, -1, largest))


@pytest.mark.host
def test_a_block_fits_into_the_buffer_of_the_filter():
    for k, block, n in itertools.product((1, 11, 42, 100, 5000), (16, 32, 64, 128), (4096, 1 << 17, 1 << 24)):
        spec, problem = TopKSpec("filter", block=block), TopKProblem("float32", n, k, 1)
        kept = k + k // 2 + block  # elements that the kernel does not drop, in kernels_cl/top_k_vector.mako
        assert capacity_of(spec, problem, 1) >= kept + block


@STRATEGIES
def test_more_nan_than_elements_that_are_wanted(device, strategy):
    needs_loops(device, strategy)
    x = np.random.default_rng(2).standard_normal(20000).astype(np.float32)
    x[100:19990] = np.nan
    for largest in (True, False):
        check(pydp.top_k(x, 120, largest=largest, spec=strategy), best(x, 120, -1, largest))


def test_large_elements_where_the_sample_is_taken(device):
    """The first threshold lets k elements through because the elements of the sample are distinct."""
    needs.endless_loops(device)
    if device.profile.mapping == "simt":
        with pytest.raises(pydp.InvalidArgument, match="'filter' has no mapping 'simt'"):
            pydp.top_k(np.zeros(99, np.float32), 9, spec={"strategy": "filter", "mapping": "simt"})
        pytest.skip("the filter runs in the mapping vector only; others are refused")
    n, runs, random = 1 << 16, 256, 1  # runs of 16 adjacent elements, as top_k_candidates draws them
    x = np.random.default_rng(7).standard_normal(n).astype(np.float32)
    for run in range(8):
        random = (random * 1664525 + 1013904223) % (1 << 32)
        x[run * (n // runs) + (random >> 8) % (n // runs - 15)] = 1000 + run
    check(pydp.top_k(x, 40, spec={"strategy": "filter", "parts": 1}), best(x, 40))


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


# --- radix select ------------------------------------------------------------------------------------------------

VECTOR = {"strategy": "select", "mapping": "vector", "part": 96, "digit": 6}
SIMT = {"strategy": "select", "mapping": "simt", "lanes": 16, "part": 48, "digit": 6}
TOP = {"strategy": "select"}
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT], ids=["vector", "simt"])
NUMBERS = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


def check_parts(x: np.ndarray, kth: int, spec, axis: int = -1) -> None:
    """Compare both functions with NumPy: the smaller, the equal and the larger elements keep their orders."""
    source = np.moveaxis(x, axis, -1)
    at = np.sort(source, -1)[..., kth, None]
    equal = (source == at) | ((source != source) & (at != at))
    smaller = (source < at) | ((at != at) & (source == source))
    order = np.argsort(np.where(equal, 1, np.where(smaller, 0, 2)), -1, kind="stable")
    wanted = np.moveaxis(np.take_along_axis(source, order, -1), -1, axis)
    found = pydp.partition(x, kth, axis=axis, spec=spec)
    assert found.dtype == x.dtype and found.tobytes() == np.ascontiguousarray(wanted).tobytes()
    found = pydp.argpartition(x, kth, axis, spec=spec)
    assert found.dtype == np.int64 and np.array_equal(found, np.moveaxis(order, -1, axis))


def small_parts(device, mapping):
    return {**mapping, "part": 0} if device.profile.loop_limit is not None and mapping is VECTOR else mapping


@pytest.mark.oclgrind
@MAPPINGS
def test_positions_of_rows(device, mapping):
    rng = np.random.default_rng(4)
    spec = small_parts(device, mapping)
    sizes = (1, 97) if device.profile.is_simulator else (1, 2, 15, 16, 17, 47, 48, 49, 95, 96, 97, 193, 700)
    for n in sizes:
        x = rng.integers(-9, 9, (2, n)).astype(np.int32)
        for kth in {0, n // 2}:
            check_parts(x, kth, spec)
            values, indexes = pydp.top_k(x, n // 2 + 1, largest=kth == 0, spec={**TOP, "mapping": mapping["mapping"]})
            check((values, indexes), best(x, n // 2 + 1, -1, kth == 0))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", NUMBERS)
def test_positions_of_all_numbers(device, dtype):
    mapping = (VECTOR, SIMT)[NUMBERS.index(dtype) % 2]
    needs.dtype(device, np.dtype(dtype))
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((2, 1500)) * 60).astype(dtype)
    if x.dtype.kind == "f":
        x[:, 5:10] = [np.inf, -np.inf, -0.0, 0.0, np.finfo(dtype).smallest_subnormal]
        x[:, ::9] = np.nan
    for kth in (0, 700, 1400, 1499):
        check_parts(x, kth, small_parts(device, mapping))
    if x.dtype.kind == "f":  # half of the elements are zeros, of both signs
        x[:, ::2] = rng.choice(np.array([0.0, -0.0], dtype), (2, 750))
        check_parts(x, 600, small_parts(device, mapping))
    check(pydp.top_k(x, 50, spec={**TOP, "mapping": mapping["mapping"]}), best(x, 50))


@MAPPINGS
def test_few_and_many_candidates(device, mapping):
    """The later passes read the stored candidates, or all elements if most of them are candidates."""
    rng = np.random.default_rng(6)
    spread = rng.integers(-(1 << 31), 1 << 31, 20000).astype(np.int32)
    close = rng.integers(0, 1 << 20, 20000).astype(np.int32)
    both = np.where(rng.random(20000) < 0.2, close, spread)
    for x in (spread, close, both, np.full(20000, 7, np.int32)):
        rows = np.stack([x, x[::-1], spread])
        for kth in (0, 9000, 19999):
            check_parts(rows, kth, {**mapping, "part": 0, "lanes": 64, "digit": 8})


@MAPPINGS
def test_axes_and_kinds_at_a_position(device, mapping):
    x = np.random.default_rng(7).integers(0, 999, (5, 400, 3)).astype(np.int32)
    spec = small_parts(device, mapping)
    for axis, kth in ((0, 2), (1, 333), (2, -1)):
        check_parts(x, kth, spec, axis)
    check_parts(x[::-1, ::2], 100, spec, 1)
    flat = pydp.partition(x, 3000, axis=None, spec=spec)
    assert flat.shape == (6000,) and flat[3000] == np.partition(x, 3000, None)[3000]
    field = pydp.field(x, device=device)
    for kth in (100, 7, 100):  # recorded calls take the position of each call
        found = pydp.partition(field, kth, axis=1, spec=spec)
        assert isinstance(found, pydp.Field)
        assert np.array_equal(found.get(), pydp.partition(x, kth, axis=1, spec=spec))
    assert np.array_equal(pydp.argpartition(field.array, 7, 1, spec=spec).get(), pydp.argpartition(x, 7, 1, spec=spec))


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("order", ["reversed", "permuted"])
def test_parts_of_rows_that_are_published_late(device, mapping, order):
    needs.endless_loops(device)
    x = np.random.default_rng(8).integers(0, 30, (2, 250)).astype(np.int32)
    for suppress in (1, 2):
        check_parts(x, 120, {**mapping, "order": order, "suppress": suppress})


def test_a_long_array_is_selected_by_default(device):
    x = np.random.default_rng(9).standard_normal(70000).astype(np.float32)
    check_parts(x, 40000, None)
    assert "digit" in str(pydp.explain(pydp.partition, x, 3))
    assert "digit" in str(pydp.explain(pydp.top_k, x, 9, spec=TOP))
    assert "sorted" in str(pydp.explain(pydp.argpartition, x, [3, 4]))


@MAPPINGS
def test_parts_are_not_written_outside(device, mapping, monkeypatch):
    from selections import Guarded

    if not device.profile.shares_host_memory:
        pytest.skip("kernels do not write NumPy memory in place")
    x = np.random.default_rng(10).integers(0, 40, (3, 700)).astype(np.int32)
    guarded = Guarded(monkeypatch)
    check_parts(x, 350, small_parts(device, mapping))
    check(pydp.top_k(x, 20, spec={**TOP, "mapping": mapping["mapping"]}), best(x, 20))
    guarded.check()


def test_wrong_arguments(device):
    x = np.arange(6, dtype=np.int32)
    for call, message in (
        (lambda: pydp.top_k(x, 7), "k is 7; integers from 0 to 6"),
        (lambda: pydp.top_k(x, -1), "k is -1"),
        (lambda: pydp.top_k(x, 1.5), "k is 1.5"),
        (lambda: pydp.top_k(x, 1, axis=1), "axis=1"),
        (lambda: pydp.top_k(x, 1, largest="yes"), "largest is 'yes'"),
        (lambda: pydp.top_k(x, 1, spec={"block": 5}), "block is 5"),
        (lambda: pydp.top_k(x, 1, spec={"strategy": "filter", "mapping": "simt"}), "'filter' has no mapping 'simt'"),
        (lambda: pydp.top_k(x.astype("c8"), 1, spec={"strategy": "select"}), "'select' is for bool"),
        (lambda: pydp.partition(x, 1, spec={"digit": 13}), "digit is 13; 1 to 12"),
        (lambda: pydp.partition(x, 1, spec={"strategy": "select", "mapping": "simt", "lanes": 3}), "lanes is 3"),
        (lambda: pydp.partition(x, 1, spec={**SIMT, "part": 1025}), "part is 1025; up to 64"),
        (lambda: pydp.partition(x, [1, 2], spec={"strategy": "select"}), "takes one position, not 2"),
        (lambda: pydp.argpartition(x.astype("c8"), 1, spec={"strategy": "select"}), "'select' is for bool"),
        (lambda: pydp.partition(x, 6), "kth is 6"),
        (lambda: pydp.partition(x, [1.5]), "kth is"),
        (lambda: pydp.partition(x, pydp.field(np.array([1]))), "the second argument is a Field.*array of integers"),
        (lambda: pydp.explain(pydp.partition, x, pydp.field(np.array([1]))), "the second argument is a Field"),
        (lambda: pydp.partition(x, 2, mask=x > 2), "mask, second, count and length"),
        (lambda: pydp.argpartition(x, [0, -7]), "kth is -7"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()


def test_empty_arrays_have_any_position(device):
    for shape, axis in (((0,), -1), ((2, 0), 1), ((0, 3), -1), ((0, 3), None)):
        x = np.zeros(shape, np.int32)
        for kth in (0, 5, [0, 2]):
            for name in ("partition", "argpartition"):
                got, want = getattr(pydp, name)(x, kth, axis=axis), getattr(np, name)(x, kth, axis=axis)
                assert got.shape == want.shape and got.dtype == want.dtype


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


@pytest.mark.host
def test_the_reference_of_argpartition_accepts_every_right_result():
    x = np.random.default_rng(0).integers(0, 9, (7, 9)).astype(np.float32)
    x.flat[3] = np.nan
    for axis in (0, 1, None):
        for kth in (0, 2, -1):
            want = expected(pydp.argpartition, (x, kth), {"axis": axis})
            order = np.argsort(x, axis=axis, kind="stable")
            for right in (order, np.argpartition(x, kth, axis=axis)):
                assert difference([right.astype(np.int64)], want) is None, (axis, kth)
            for wrong in (np.zeros_like(order), np.flip(order, 0 if axis is None else axis)):
                assert difference([wrong.astype(np.int64)], want), (axis, kth)
