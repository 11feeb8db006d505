"""pydp.run_length_encode, reduce_by_key and unique against NumPy: lengths, strategies, types, operators, results."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selections import (
    DTYPES,
    LOOKING,
    MAPPINGS,
    SIMT,
    STRATEGIES,
    VECTOR,
    Guarded,
    heads_of,
    in_runs,
    integers,
    lengths,
    mapping_of,
    skip_where_refused,
)

import pydp
from pydp.algorithms import pieces, runs
from pydp.algorithms.runs import request
from pydp.runtime.arrays.deferred import DeferredShape


def encoded(x):
    heads = heads_of(x)
    return x[heads], np.diff(heads, append=len(x)), heads


def reduced(keys, values, combine):
    """The key and the left fold of the values of each run."""
    results, heads = [], heads_of(keys)
    for first, last in zip(heads, [*heads[1:], len(keys)][: len(heads)], strict=True):
        found = values[first]
        for value in values[first + 1 : last]:
            found = combine(found, value)
        results.append(found)
    return keys[heads_of(keys)], np.array(results, values.dtype)


def same(got, want):
    assert len(got) == len(want)
    for one, right in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_unique_stores_its_count(device, dtype):
    for x in (integers(700, 3, 0, 90), np.sort(integers(700, 4)), np.zeros(0, np.int32)):
        for asked in ({}, {"return_counts": True}, {"return_index": True, "return_inverse": True}):
            count = pydp.full(1, -5, dtype)
            got, want = pydp.unique(x, count=count, **asked), np.unique(x, **asked)
            for one, other in zip(got if asked else [got], want if asked else [want], strict=True):
                assert np.array_equal(one, other)
            assert count.item() == len(np.unique(x))
    with pytest.raises(pydp.InvalidArgument, match="count has shape"):
        pydp.unique(np.arange(5), count=pydp.zeros(2, dtype))


@pytest.mark.oclgrind
@LOOKING
@STRATEGIES
def test_every_length_around_the_partition(device, mapping, strategy):
    skip_where_refused(device, strategy, mapping)
    spec = {**mapping, "strategy": strategy}
    for x in (in_runs(500, 1), np.zeros(500, np.int32), np.arange(500, dtype=np.int32)):
        for n in lengths(device):
            same(pydp.run_length_encode(x[:n], starts=True, spec=spec), encoded(x[:n]))


@pytest.mark.oclgrind
@MAPPINGS
@STRATEGIES
@pytest.mark.parametrize(
    ("op", "dtype"), [("+", np.int32), ("+", np.float32), ("max", np.int32), ("a > b ? a : b", np.int32)]
)
def test_sums_of_every_length_around_the_partition(device, mapping, strategy, op, dtype):
    """A named operator has a vector form; an expression has none. Integer sums wrap; the floats are whole numbers."""
    skip_where_refused(device, strategy, mapping)
    spec, values = {**mapping, "strategy": strategy}, integers(500, 2, -99, 99).astype(dtype)
    if (op, dtype) == ("+", np.int32):
        values *= 20_000_000
    for keys in (in_runs(500, 3), np.zeros(500, np.int32), np.arange(500, dtype=np.int32)):
        for n in lengths(device):
            with np.errstate(over="ignore"):
                want = reduced(keys[:n], values[:n], np.add if op == "+" else max)
            same(pydp.reduce_by_key(keys[:n], values[:n], op, spec=spec), want)


@pytest.mark.oclgrind
@LOOKING
@pytest.mark.parametrize("order", ["ticket", "reversed", "permuted"])
@pytest.mark.parametrize("suppress", [0, 1, 2])
def test_partitions_that_run_late_or_publish_nothing(device, mapping, order, suppress):
    needs.endless_loops(device)
    spec = {**mapping, "order": order, "suppress": suppress, "polls": 3}
    keys, values = in_runs(700, 4), integers(700, 5)
    same(pydp.run_length_encode(keys, spec=spec), encoded(keys)[:2])
    for op, combine in (("+", lambda a, b: a + b), ("b", lambda a, b: b), ("a", lambda a, b: a)):
        if op == "+" or mapping is VECTOR:
            same(pydp.reduce_by_key(keys, values, op, spec=spec), reduced(keys, values, combine))


@MAPPINGS
@STRATEGIES
def test_operators_that_do_not_commute(device, mapping, strategy):
    """Affine maps, composed from left to right, modulo 2**32."""
    skip_where_refused(device, strategy, mapping)
    x = np.zeros(397, cltypes.uint2)
    x["s0"], x["s1"] = integers(397, 1, 1, 9, np.uint32), integers(397, 2, 0, 99, np.uint32)
    keys, mask = in_runs(397, 6), (1 << 32) - 1
    heads = heads_of(keys)
    want = []
    for first, last in zip(heads, [*heads[1:], len(keys)], strict=True):
        m, c = 1, 0
        for value in x[first:last]:
            m, c = m * int(value["s0"]) & mask, (c * int(value["s0"]) + int(value["s1"])) & mask
        want.append((m, c))
    op = "(uint2)(a.x * b.x, a.y * b.x + b.y)"
    _, got = pydp.reduce_by_key(keys, x, op, spec={**mapping, "strategy": strategy})
    assert [(int(one["s0"]), int(one["s1"])) for one in got] == want


@MAPPINGS
def test_operators_see_real_elements_only(device, mapping):
    """An operator that a zero, the usual padding, would spoil for good."""
    values, keys = integers(400, 7, 1, 1000), in_runs(400, 8)
    for n in (1, 23, 24, 25, 95, 96, 97, 400):
        got = pydp.reduce_by_key(keys[:n], values[:n], "(a <= 0 || b <= 0) ? -1 : max(a, b)", spec=mapping)
        same(got, reduced(keys[:n], values[:n], max))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_scalar_types(device, dtype):
    dtype = np.dtype(dtype)
    needs.dtype(device, dtype)
    x = in_runs(3000, 9, dtype)
    ones = integers(3000, 10, 0, 2, dtype)
    if dtype == np.float16:
        x[:], ones[40:] = np.repeat(x[:375], 8), ones[40:] / 8
    keys = in_runs(3000, 11)
    value = np.dtype(np.int64) if dtype.kind == "b" else dtype
    mapping = mapping_of(dtype)
    same(pydp.run_length_encode(x, spec=mapping), encoded(x)[:2])
    got = pydp.reduce_by_key(keys, ones, spec=mapping)
    same(got, (keys[heads_of(keys)], np.add.reduceat(ones.astype(value), heads_of(keys))))
    assert got[1].dtype == value
    if dtype.kind != "c":
        same(pydp.reduce_by_key(keys, ones, "max", spec=mapping)[1:], [np.maximum.reduceat(ones, heads_of(keys))])


def test_other_dtypes_of_sums(device):
    keys, values = in_runs(3000, 12), integers(3000, 13, -99, 99, np.int8)
    wanted = np.float32
    got = pydp.reduce_by_key(keys, values, dtype=wanted)
    assert got[1].dtype == wanted
    same(got, (keys[heads_of(keys)], np.add.reduceat(values.astype(wanted), heads_of(keys))))


def test_special_values(device):
    x = np.array([np.nan, np.nan, 0.0, -0.0, np.inf, np.inf, 1, np.nan], np.float32)
    got = pydp.run_length_encode(x)
    same(got, encoded(x)[:2])
    assert not np.signbit(got[0][2])
    for equal_nan in (True, False):
        got = pydp.unique(x, return_counts=True, equal_nan=equal_nan)
        same(got, np.unique(x, return_counts=True, equal_nan=equal_nan))
    z = np.array([1 + 2j, complex(np.nan, 1), complex(1, np.nan), 1 + 2j, complex(np.nan, np.nan)], np.complex64)
    for equal_nan in (True, False):
        got, want = pydp.unique(z, True, equal_nan=equal_nan)[0], np.unique(z, equal_nan=equal_nan)
        assert got.shape == want.shape and np.array_equal(got, want, equal_nan=True)


def test_records_and_vectors(device):
    keys = np.zeros(400, [("a", np.int32), ("b", np.float32)])
    keys["a"], keys["b"] = in_runs(400, 14), in_runs(400, 15)
    values = integers(400, 16)
    same(pydp.run_length_encode(keys), encoded(keys)[:2])
    same(pydp.reduce_by_key(keys, values)[1:], [np.add.reduceat(values, heads_of(keys))])
    same(pydp.unique(keys, return_counts=True), np.unique(keys, return_counts=True))


UNIQUE = [
    {},
    {"return_counts": True},
    {"return_index": True},
    {"return_inverse": True},
    {"return_index": True, "return_inverse": True, "return_counts": True},
]


@pytest.mark.parametrize("options", UNIQUE, ids=lambda one: " ".join(one) or "values")
def test_unique(device, options):
    for shape in ((0,), (1,), (97,), (3, 50), (5, 2, 40)):
        for high in (1, 2, 30):
            x = integers(int(np.prod(shape)), 17, 0, high).reshape(shape)
            got, want = pydp.unique(x, **options), np.unique(x, **options)
            if not options:
                got, want = (got,), (want,)
            same(got, [one.reshape(x.shape) if len(options) != 1 and at == 2 else one for at, one in enumerate(want)])


@pytest.mark.parametrize("options", UNIQUE, ids=lambda one: " ".join(one) or "values")
def test_unique_slices(device, options):
    for shape in ((7,), (40, 3), (3, 40), (6, 5, 4), (0, 4), (4, 0), (30, 1)):
        x = integers(int(np.prod(shape)), 17, 0, 2).reshape(shape)
        for axis in range(len(shape)):
            want = np.unique(x, **options, axis=axis)
            want = want if isinstance(want, tuple) else (want,)
            for source in (x, pydp.field(x)):
                got = pydp.unique(source, **options, axis=axis)
                got = got if isinstance(got, tuple) else (got,)
                same([one.get() if isinstance(one, pydp.Field) else one for one in got], want)


def test_unique_slices_of_special_values(device):
    x = integers(120, 17, 0, 2, "float32").reshape(40, 3)
    x[3, 1], x[7, 1], x[5], x[6] = np.nan, np.nan, 0.0, -0.0
    for axis in (0, -1):
        same([pydp.unique(x[:, 1], axis=axis)], [np.unique(x[:, 1], axis=axis)])
    for one in (x[::-2], x.T, (x + 1j * x[::-1]).astype(np.complex64)):
        for axis in (0, -1):
            same(pydp.unique(one, True, False, True, axis), np.unique(one, True, False, True, axis))
    count = pydp.zeros((), np.int32)
    assert len(pydp.unique(pydp.field(x), axis=0, count=count)) == int(count.get()) == len(np.unique(x, axis=0))
    assert "lexsort sorts 40 slices along axis 0" in str(pydp.explain(pydp.unique, x, axis=0))


def test_unique_of_sorted_elements(device):
    """Long arrays, which are not sorted again if they are in order; with one exception near the end they are."""
    x = np.sort(integers(70_000, 17, 0, 9000))
    other = x.copy()
    other[-2] = 0
    for one in (x, other, x[::-1].copy(), x[::-1]):
        want = np.unique(one, return_counts=True)
        field = pydp.field(one)
        for _ in range(3):
            same([found.get() for found in pydp.unique(field, return_counts=True)], want)
        same(pydp.unique(one, return_counts=True), want)
    part = pydp.field(x)[3:]
    same([pydp.unique(part).get()], [np.unique(x[3:])])
    same(pydp.unique(other, True, True), np.unique(other, True, True))
    told = pydp.explain(pydp.unique, x)  # the kernel that runs has the sorted source
    if "in order already" in str(told):
        assert any("unsorted" in text for text in told.sources.values())
    assert "unique of (9,)" in str(pydp.explain(pydp.unique, x, length=9))
    assert "unique of (3,)" in str(pydp.explain(pydp.unique, [3, 1, 2]))
    with pytest.raises(pydp.InvalidArgument, match="length is -10"):
        pydp.explain(pydp.unique, x, length=-10)


@pytest.mark.sweep
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_call(device, data):
    n, seed = data.draw(st.integers(0, 5000)), data.draw(st.integers(0, 99))
    step = data.draw(st.sampled_from([1, 1, 2, -1]))
    keys = (in_runs if data.draw(st.booleans()) else integers)(n, seed)[::step]
    dtype, mapping = data.draw(st.sampled_from([("int32", None), ("float32", VECTOR), ("int64", SIMT)]))
    values = integers(n, seed + 1, -9, 9, dtype)[::step]
    same(pydp.run_length_encode(keys, starts=True, spec=mapping), encoded(keys))
    want = np.add.reduceat(values, heads_of(keys)) if len(keys) else values
    same(pydp.reduce_by_key(keys, values, spec=mapping), (keys[heads_of(keys)], want))


# --- results -----------------------------------------------------------------------------------------------------


def test_nothing_is_written_outside_of_results(device, monkeypatch):
    if not device.profile.shares_host_memory:
        pytest.skip("kernels do not write NumPy memory in place")
    keys, values = in_runs(3001, 18), integers(3001, 19)
    runs = len(heads_of(keys))
    for mapping in (VECTOR, SIMT, {"mapping": "vector", "nontemporal": device.profile.loop_limit is None}):
        guarded = Guarded(monkeypatch)
        same(pydp.run_length_encode(keys, starts=True, spec=mapping), encoded(keys))
        assert max(guarded.written(at) for at in range(3)) <= 8 * runs
        pydp.reduce_by_key(keys, values, spec=mapping)
        pydp.reduce_by_key(keys, values, "a < b ? a : b", spec=mapping)
        guarded.check()


def test_fields_know_their_length_when_asked(device):
    keys, values = in_runs(5000, 20), integers(5000, 21)
    k, v = pydp.field(keys), pydp.field(values)
    for _ in range(3):
        count = pydp.zeros(1, np.int64)
        found, sums = pydp.reduce_by_key(k, v, count=count)
        assert isinstance(found._shape, DeferredShape) and found._shape is sums._shape
        assert len(sums) == len(found) == int(count.get()[0]) == len(heads_of(keys))
        same((found.get(), sums.get()), (keys[heads_of(keys)], np.add.reduceat(values, heads_of(keys))))
    lengths = pydp.run_length_encode(k)[1]
    assert np.array_equal(lengths.get(), encoded(keys)[1])
    got = pydp.unique(k, return_inverse=True)
    same([one.get() for one in got], np.unique(keys, return_inverse=True))


@pytest.mark.huge
def test_more_than_2_to_the_31_elements(device):
    x = np.zeros((1 << 31) + 3, np.uint8)
    x[::1_000_003] = 1
    x[-2:] = 2
    values, counts = np.unique(x, return_counts=True)
    found = pydp.unique(x, return_counts=True)
    assert np.array_equal(found[0], values) and np.array_equal(found[1], counts)
    heads = np.flatnonzero(np.diff(x)) + 1
    starts = np.concatenate([[0], heads])
    found = pydp.run_length_encode(x)
    assert np.array_equal(found[0], x[starts])
    assert np.array_equal(found[1], np.diff(np.append(starts, x.size)))


def test_the_same_bits_every_time(device):
    keys, values = in_runs(100_000, 22), np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    k, v = pydp.field(keys), pydp.field(values)
    first = pydp.reduce_by_key(k, v)[1].get()
    np.testing.assert_allclose(first, np.add.reduceat(values.astype(float), heads_of(keys)), atol=1e-4)
    assert all(pydp.reduce_by_key(k, v)[1].get().tobytes() == first.tobytes() for _ in range(100))
    if device.profile.loop_limit is None:  # an aggregate that another work-group computes has the same bits
        for order in ("reversed", "permuted"):
            spec = {"part": 2048, "order": order, "suppress": 2, "polls": 3}
            plain = pydp.reduce_by_key(k, v, spec={"part": 2048})[1].get()
            assert pydp.reduce_by_key(k, v, spec=spec)[1].get().tobytes() == plain.tobytes()


BAD = {
    "another shape": (lambda x: pydp.reduce_by_key(x, x[:3]), r"values has shape \(3,\); the shape of keys, \(5,\)"),
    "an operator": (lambda x: pydp.reduce_by_key(x, x, "nonsense"), "not the name of an operator"),
    "starts": (lambda x: pydp.run_length_encode(x, starts=2), "starts is 2"),
    "an axis": (lambda x: pydp.unique(x, axis=1), "axis=1 is out of range"),
    "an axis and a length": (lambda x: pydp.unique(x.reshape(5, 1), axis=0, length=3), "length needs axis=None"),
    "a count in x": (
        lambda x: pydp.unique((z := pydp.field(x[:1])).reshape(1, 1), axis=0, count=z),
        "count shares memory with x",
    ),
    "a count in elements": (lambda x: pydp.unique(z := pydp.field(x[:1]), count=z), "count shares memory with x"),
    "a count and an axis": (lambda x: pydp.unique(x.reshape(5, 1), axis=0, count=3), "count is 3"),
    "equal_nan": (lambda x: pydp.unique(x, equal_nan=3), "equal_nan is 3"),
    "a count": (lambda x: pydp.run_length_encode(x, count=3), "count is 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments(device, name):
    call, message = BAD[name]
    with pytest.raises(pydp.InvalidArgument, match=message):
        call(np.array([3, -1, 4, 0, 5]))


def test_explanations(device):
    x = pydp.field(in_runs(100_000))
    for found in (
        pydp.explain(pydp.run_length_encode, x, starts=True),
        pydp.explain(pydp.reduce_by_key, x, x),
        pydp.explain(pydp.unique, x, return_inverse=True),
    ):
        assert found.sources and "partition(s)" in str(found)
    told = str(pydp.explain(pydp.reduce_by_key, x, x, "b + a"))
    vectors = device.profile.mapping == "vector" and not device.profile.is_simulator
    assert ("'b + a' (computed as +): differences" in told) == vectors
    assert "op 'max': sums that restart" in str(pydp.explain(pydp.reduce_by_key, x, x, "max"))
    told = str(pydp.explain(pydp.unique, x))
    assert ("in order already" in told) == (device.profile.mapping == "vector" and device.profile.loop_limit is None)


@pytest.mark.parametrize("presorted", [False, True])
def test_runs_that_are_counted_first(device, monkeypatch, presorted):
    """The largest buffer has space for one result a run, but not for one result an element."""
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 1 << 16)
    spaces = []
    plain = request.launched

    def launched(asked, where):
        spaces.append(asked.space)
        return plain(asked, where)

    monkeypatch.setattr(runs, "launched", launched)
    x = np.random.default_rng(0).integers(0, 9, 60_001).astype(np.uint8)
    x = np.sort(x) if presorted else x
    np.testing.assert_array_equal(pydp.unique(x), np.unique(x))
    assert spaces == [None]  # the values alone fit
    for options in ({"return_counts": True}, dict.fromkeys(("return_counts", "return_index", "return_inverse"), True)):
        spaces.clear()
        same(pydp.unique(x, **options), np.unique(x, **options))
        assert spaces == [None, 9, *([9, None] if "return_index" in options else [])]  # the inverse has all elements
    spaces.clear()
    starts = np.flatnonzero(np.diff(x, prepend=255))
    lengths = np.diff(starts, append=x.size)
    same(pydp.run_length_encode(x), (x[starts], lengths))
    count, k = np.zeros((), np.int64), starts.size // 2
    first = (x[starts[:k]], lengths[:k], starts[:k])
    same(pydp.run_length_encode(x, starts=True, length=int(starts[k]), count=count), first)
    assert count == k
    weights = np.arange(x.size, dtype=np.uint8)
    for added, dtype in ((weights, np.int64), (weights.tolist(), np.uint64)):
        same(pydp.reduce_by_key(x, added, dtype=dtype), (x[starts], np.add.reduceat(weights.astype(dtype), starts)))
    assert spaces == [None, starts.size, None, k, *[None, starts.size] * 2]
    assert "a first pass counts the runs" in str(pydp.explain(pydp.run_length_encode, x))
    assert "a first pass" not in str(pydp.explain(pydp.unique, x))
