"""pydp.select, compress, nonzero, partition against NumPy: lengths, strategies, types, conditions, results."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl.array
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
    integers,
    lengths,
    mapping_of,
    skip_where_refused,
)

import pydp
from pydp.algorithms import pieces
from pydp.algorithms.operators.predicate import predicate_of
from pydp.runtime.arrays.deferred import DeferredShape
from pydp.runtime.programs.program import Kernel


@pytest.mark.oclgrind
@LOOKING
@STRATEGIES
def test_every_length_around_the_partition(device, mapping, strategy):
    skip_where_refused(device, strategy, mapping)
    x, spec = integers(500), {**mapping, "strategy": strategy}
    for n in lengths(device):
        kept = x[:n] > 0
        assert np.array_equal(pydp.select(x[:n], "x > 0", spec=spec), x[:n][kept]), n
        assert np.array_equal(pydp.select(x[:n], mask=kept, spec=spec), x[:n][kept]), n
        assert np.array_equal(pydp.flatnonzero(x[:n], spec=spec), np.flatnonzero(x[:n])), n


@pytest.mark.oclgrind
@MAPPINGS
def test_partition_by_two_conditions(device, mapping):
    """Elements that meet both conditions belong to the first part."""
    x = integers(500, 3)
    cases = [("x > 1", "x < 0 || x == 3", x > 1, x < 0)]
    cases += [("x > 1", lambda v: v < 1, x > 1, x < 1)] if mapping is VECTOR else []
    for first, second, one, two in cases:
        for n in (0, 97) if device.profile.is_simulator else (0, 97, 500):
            a, b, y = one[:n], two[:n], x[:n]
            want = np.concatenate([y[a], y[b], y[~a & ~b]])
            got, *counts = pydp.partition(y, first, second=second, spec=mapping)
            assert np.array_equal(got, want) and counts == [a.sum(), b.sum()]
    field, count = pydp.field(x), pydp.zeros(1, np.int32)
    for _ in range(3):
        got, first, second = pydp.partition(field, "x > 1", second="x < 0 || x == 3", count=count, spec=mapping)
        assert isinstance(first, pydp.Field) and isinstance(second, pydp.Field)
        assert np.array_equal(got.get(), np.concatenate([x[x > 1], x[x < 0], x[(x == 0) | (x == 1)]]))
        assert (int(first.get()), int(second.get()), int(count.get()[0])) == (
            (x > 1).sum(),
            (x < 0).sum(),
            (x > 1).sum(),
        )
    part = pydp.field(x.astype(np.int32))
    before = part.get()
    with pytest.raises(pydp.InvalidArgument, match="count shares memory"):
        pydp.partition(part, "x > 1", second="x < 0", count=part[3:4], spec=mapping)
    with pytest.raises(pydp.InvalidArgument, match="one int32 or int64"):
        pydp.partition(part, "x > 1", second="x < 0", count=part[3:5], spec=mapping)
    assert np.array_equal(part.get(), before)


@pytest.mark.oclgrind
@MAPPINGS
def test_partition_keeps_both_orders(device, mapping):
    x = integers(500, 1)
    for n in lengths(device):
        kept = x[:n] > 0
        got, count = pydp.partition(x[:n], "x > 0", spec=mapping)
        assert count == np.count_nonzero(kept) and type(count) is int
        assert np.array_equal(got, np.concatenate([x[:n][kept], x[:n][~kept]])), n


@pytest.mark.parametrize("n", [2047, 2048, 2049, 8191, 8192, 8193, 70001])
def test_the_default_specialization(device, n):
    for density in (0, 1, 50, 99, 100):
        x = np.random.default_rng(n).integers(0, 100, n).astype(np.float32) - density
        kept = x < 0
        assert np.array_equal(pydp.select(x, "x < 0"), x[kept])
        got, count = pydp.partition(x, "x < 0")
        assert count == kept.sum() and np.array_equal(got, np.concatenate([x[kept], x[~kept]]))


@pytest.mark.oclgrind
@LOOKING
@pytest.mark.parametrize("order", ["ticket", "reversed", "permuted"])
@pytest.mark.parametrize("suppress", [0, 1, 2])
def test_partitions_that_run_late_or_publish_nothing(device, mapping, order, suppress):
    needs.endless_loops(device)
    x, spec = integers(700, 2), {**mapping, "order": order, "suppress": suppress, "polls": 3}
    assert np.array_equal(pydp.select(x, "x > 0", spec=spec), x[x > 0])
    assert np.array_equal(pydp.flatnonzero(x, spec=spec), np.flatnonzero(x))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_scalar_types(device, dtype):
    dtype = np.dtype(dtype)
    x = integers(3000, 3, 0, 2 if dtype.kind == "b" else 3, dtype)
    mask = integers(3000, 4, 0, 2, np.uint8)
    spec = mapping_of(dtype)
    assert np.array_equal(pydp.select(x, mask=mask, spec=spec), x[mask != 0])
    assert np.array_equal(pydp.compress(mask != 0, x[::-1], spec=spec), x[::-1][mask != 0])
    if not needs.has(device, dtype):
        with pytest.raises(pydp.UnsupportedOnDevice):
            pydp.flatnonzero(x)
        with pytest.raises(pydp.UnsupportedOnDevice):
            pydp.select(mask, mask=x)
    needs.dtype(device, dtype)
    assert np.array_equal(pydp.select(mask, mask=x, spec=spec), mask[x != 0])
    condition = "x.x > 1" if dtype.kind == "c" else "x >= 1" if dtype.kind == "b" else "x > 1"
    kept = x.real >= 1 if dtype.kind == "b" else x.real > 1
    assert np.array_equal(pydp.select(x, condition, spec=spec), x[kept])
    assert np.array_equal(pydp.flatnonzero(x, spec=spec), np.flatnonzero(x))
    got, count = pydp.partition(x, condition, spec=spec)
    assert count == kept.sum() and np.array_equal(got, np.concatenate([x[kept], x[~kept]]))


RECORDS = [
    [("r", "u1"), ("g", "u1"), ("b", "u1")],
    [("count", "<i4"), ("mark", "<u2"), ("last", "u1")],
    [("a", "<i4"), ("b", "<i4"), ("c", "<f4"), ("d", "<i4"), ("e", "<i4")],
    [(f"v{k}", "<i4") for k in range(21)],
]


@MAPPINGS
@pytest.mark.parametrize("dtype", [np.dtype(one) for one in RECORDS], ids=lambda one: f"{one.itemsize} bytes")
def test_records_by_mask(device, mapping, dtype):
    x = np.zeros(301, dtype)
    for k, name in enumerate(dtype.names):
        x[name] = integers(301, k, 0, 100)
    mask = integers(301, 9, 0, 2, bool)
    try:
        got = pydp.select(x, mask=mask, spec=mapping)
    except pydp.UnsupportedOnDevice as error:
        pytest.skip(str(error))
    assert np.array_equal(got, x[mask])


@MAPPINGS
def test_vectors_and_members(device, mapping):
    x = np.zeros(301, cltypes.float4)
    for k, name in enumerate(("s0", "s1", "s2", "s3")):
        x[name] = integers(301, k)
    got = pydp.select(x, "x.x + x.w > 0 && x.y != 0", spec=mapping)
    assert np.array_equal(got, x[(x["s0"] + x["s3"] > 0) & (x["s1"] != 0)])
    pairs = np.zeros(301, [("key", np.int32), ("value", np.float32)])
    pairs["key"], pairs["value"] = integers(301, 5), integers(301, 6)
    assert np.array_equal(pydp.select(pairs, "x.key % 2 == 0", spec=mapping), pairs[pairs["key"] % 2 == 0])
    assert np.array_equal(pydp.select(pairs, lambda r: r.value > 1, spec=mapping), pairs[pairs["value"] > 1])


def test_python_functions_and_special_values(device):
    x = np.array([1, np.nan, -np.inf, np.inf, -0.0, 0.0, -3], np.float32)
    low = np.float32(-1)
    assert np.array_equal(pydp.select(x, lambda v: v > low), x[x > low])
    for text, kept in {
        "x > 0": x > 0, "x == x": x == x, "isnan(x)": np.isnan(x), "x": x != 0, "!x": x == 0, "!(x < 2)": ~(x < 2),
        "fabs(x) > 1.5f": np.abs(x) > 1.5,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(pydp.select(x, text), x[kept], err_msg=text)
    assert np.array_equal(pydp.flatnonzero(x), np.flatnonzero(x))


@pytest.mark.sweep
@MAPPINGS
def test_any_strides(device, mapping):
    x = integers(6000, 7, dtype=np.int16)
    square = x[:4900].reshape(70, 70)
    for view in (
        x[::-1],
        x[::3],
        x[5:-7:2][::-1],
        square.T,
        square[::2, 1:-1],
        square[:, ::-3],
        np.broadcast_to(x[:9], (5, 9)),
    ):
        kept = view > 0
        assert np.array_equal(pydp.select(view, "x > 0", spec=mapping), view[kept])
        assert np.array_equal(pydp.select(view, mask=kept, spec=mapping), view[kept])
        assert np.array_equal(pydp.flatnonzero(view, spec=mapping), np.flatnonzero(view))
    mask = (x > 0)[::-2]
    assert np.array_equal(pydp.select(x[1::2], mask=mask, spec=mapping), x[1::2][mask])


@pytest.mark.oclgrind
@MAPPINGS
def test_nonzero_and_argwhere(device, mapping):
    for shape in ((7,), (5, 9), (3, 4, 5), (2, 1, 3, 2), (0, 3), (4, 0)):
        x = integers(int(np.prod(shape)), 8, 0, 2).reshape(shape)
        got = pydp.nonzero(x, spec=mapping)
        assert isinstance(got, tuple) and len(got) == len(shape)
        for one, want in zip(got, np.nonzero(x), strict=True):
            assert np.array_equal(one, want)
        rows = pydp.argwhere(x, spec=mapping)
        assert rows.shape == np.argwhere(x).shape and np.array_equal(rows, np.argwhere(x))


def test_compress_with_masks_that_are_longer(device):
    """Elements of a mask beyond x are accepted if they are zero."""
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    for mask in ([True, False, True, False, False, True, False, False], np.array([0, 1, 1, 0, 0, 1, 0], np.int32)):
        assert np.array_equal(pydp.compress(mask, x), np.compress(mask, x))
        assert np.array_equal(pydp.compress(mask, pydp.field(x)).get(), np.compress(mask, x))
        assert pydp.explain(pydp.compress, mask, x).sources
    with pytest.raises(IndexError):
        np.compress(np.arange(7) == 6, x)
    with pytest.raises(pydp.InvalidArgument, match="at most as many elements as x, 6"):
        pydp.compress(np.arange(7) == 6, x)


def test_compress_as_numpy(device):
    x = integers(40).reshape(5, 8)
    for mask in (np.ones(40, bool), integers(17, 1, 0, 2, bool), np.zeros(0, bool)):
        assert np.array_equal(pydp.compress(mask, x), np.compress(mask, x))


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5), (0, 4), (4, 0)])
def test_compress_along_an_axis(device, shape):
    x = integers(int(np.prod(shape))).reshape(shape)
    for axis in range(-len(shape), len(shape)):
        n = shape[axis]
        for mask in (np.ones(n, bool), integers(n, 1, 0, 3), integers(max(n - 2, 0), 2, 0, 2, bool)):
            want = np.compress(mask, x, axis)
            for got in (pydp.compress(mask, x, axis), pydp.compress(pydp.field(mask), pydp.field(x), axis).get()):
                assert got.shape == want.shape and np.array_equal(got, want), axis
    count, mask = pydp.zeros((), np.int32), [1] * shape[0]
    assert len(pydp.compress(mask, pydp.field(x), 0, count=count)) == int(count.get()) == shape[0]
    view = x.T[::-1]
    mask = [1] * max(view.shape[0] - 1, 0)
    assert np.array_equal(pydp.compress([*mask, 0, 0], view, 0), np.compress(mask, view, 0))
    assert "compress of" in str(pydp.explain(pydp.compress, mask, view, 0))


def test_compress_checks_before_it_counts(device):
    count = pydp.full((), 7, np.int64)
    with pytest.raises(pydp.InvalidArgument, match="x: dtype"):
        pydp.compress([1, 0, 1], np.zeros((3, 2), "M8[s]"), 0, count=count)
    assert int(count.get()) == 7


SCALARS = {"int32": None, "uint16": VECTOR, "float32": None, "int64": SIMT}
"""The types of any call, and the specialization of each: few different kernels are built."""


@pytest.mark.sweep
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_call(device, data):
    dtype = np.dtype(data.draw(st.sampled_from(list(SCALARS))))
    n = data.draw(st.integers(0, 5000))
    step = data.draw(st.sampled_from([1, 1, 2, -1, -3]))
    x = integers(n, data.draw(st.integers(0, 99)), 0, data.draw(st.sampled_from([1, 2, 9])), dtype)
    if dtype.kind == "f" and n:
        x[:: data.draw(st.integers(1, 9))] = data.draw(st.sampled_from([np.nan, np.inf, -0.0, 1e-45]))
    x = x[::step]
    mapping = SCALARS[dtype.name]
    kept = x > 1
    assert np.array_equal(pydp.select(x, "x > 1", spec=mapping), x[kept])
    assert np.array_equal(pydp.select(x, mask=~kept, spec=mapping), x[~kept], equal_nan=dtype.kind == "f")
    assert np.array_equal(pydp.flatnonzero(x, spec=mapping), np.flatnonzero(x))
    got, count = pydp.partition(x, "x > 1", spec=mapping)
    assert count == kept.sum()
    assert np.array_equal(got, np.concatenate([x[kept], x[~kept]]), equal_nan=dtype.kind == "f")


# --- results -----------------------------------------------------------------------------------------------------


def test_nothing_is_written_outside_of_results(device, monkeypatch):
    if not device.profile.shares_host_memory:
        pytest.skip("kernels do not write NumPy memory in place")
    x = integers(3001, 11)
    count = int((x > 0).sum())
    for mapping in (VECTOR, SIMT, {"mapping": "vector", "nontemporal": device.profile.loop_limit is None}):
        guarded = Guarded(monkeypatch)
        assert np.array_equal(pydp.select(x, "x > 0", spec=mapping), x[x > 0])
        guarded.check()
        assert guarded.written(0) <= 4 * count
        guarded = Guarded(monkeypatch)
        pydp.partition(x, "x > 0", spec=mapping)
        pydp.flatnonzero(x, spec=mapping)
        pydp.argwhere(x, spec=mapping)
        guarded.check()


def test_fields_know_their_length_when_asked(device):
    x = integers(5000, 12)
    field = pydp.field(x)
    for _ in range(3):  # the third call is recorded
        got = pydp.select(field, "x > 0")
        assert type(got) is pydp.Field and isinstance(got._shape, DeferredShape)
        assert len(got) == (x > 0).sum() and got.shape == (len(got),) and got._shape == got.shape
        assert np.array_equal(got.get(), x[x > 0])
    total = pydp.reduce(pydp.select(field, "x > 0"))  # an argument of another call
    assert int(total.get()) == x[x > 0].sum()
    again = pydp.select(pydp.select(field, "x > 0"), "x > 2")
    assert np.array_equal(again.get(), x[x > 2])
    assert np.array_equal((pydp.select(field, "x > 0") + 1).get(), x[x > 0] + 1)
    assert np.array_equal(pydp.select(field, "x > 0")[1:3].get(), x[x > 0][1:3])
    assert pydp.select(field, "x > 100").get().shape == (0,)


def test_fields_of_the_other_functions(device):
    x = integers(600, 13).reshape(20, 30)
    field = pydp.field(x)
    for got, want in zip(pydp.nonzero(field), np.nonzero(x), strict=True):
        assert isinstance(got, pydp.Field) and np.array_equal(got.get(), want)
    assert np.array_equal(pydp.argwhere(field).get(), np.argwhere(x))
    values, count = pydp.partition(field, "x > 0")
    assert isinstance(count, pydp.Field) and count.shape == () and int(count) == (x > 0).sum()
    assert np.array_equal(values.get()[: int(count)], x[x > 0])
    mask = pydp.field(x > 0)
    assert np.array_equal(pydp.select(field, mask=mask).get(), x[x > 0])


def test_pyopencl_arrays(device):
    x = integers(600, 14)
    array = pyopencl.array.to_device(device.queue, x)
    got = pydp.select(array, "x > 0")
    assert isinstance(got, pyopencl.array.Array) and np.array_equal(got.get(), x[x > 0])
    assert pydp.select(array, "x > 100").size == 0
    assert [one.get().tolist() for one in pydp.nonzero(array)] == [np.flatnonzero(x).tolist()]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_count_goes_to_a_device_scalar(device, dtype):
    x = integers(5000, 15)
    counts = pydp.zeros(5, dtype)
    for _ in range(3):
        counts[...] = -1
        pydp.select(pydp.field(x), "x > 0", count=counts[2:3])
        assert counts.get().tolist() == [-1, -1, (x > 0).sum(), -1, -1]
    count = pydp.zeros((), dtype)
    pydp.flatnonzero(x, count=count)
    assert int(count) == np.count_nonzero(x)
    got = pydp.select(pydp.field(x), "x > 0", count=count)
    count[...] = 7  # the result does not depend on it
    assert len(got) == (x > 0).sum()


def test_arrays_beyond_the_largest_buffer(device, monkeypatch):
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 1 << 12)
    x = integers(60 * 50, 16).reshape(60, 50)
    kept = x > 0
    for view in (x, x.T, x[::-1, ::2]):
        assert np.array_equal(pydp.select(view, "x > 0"), view[view > 0])
        assert np.array_equal(pydp.flatnonzero(view), np.flatnonzero(view))
    assert np.array_equal(pydp.select(x, mask=kept), x[kept])
    assert np.array_equal(pydp.compress(kept.reshape(-1)[:2777], x), np.compress(kept.reshape(-1)[:2777], x))
    count = pydp.zeros((), np.int64)
    got, total = pydp.partition(x, "x > 0", count=count)
    assert total == int(count) == kept.sum() and np.array_equal(got, np.concatenate([x[kept], x[~kept]]))
    got, *totals = pydp.partition(x, "x > 0", second="x < -1", count=count)
    assert totals == [kept.sum(), (x < -1).sum()] and int(count) == totals[0]
    assert np.array_equal(got, np.concatenate([x[kept], x[x < -1], x[(x == 0) | (x == -1)]]))
    for one, want in zip(pydp.nonzero(x), np.nonzero(x), strict=True):
        assert np.array_equal(one, want)
    assert np.array_equal(pydp.argwhere(x), np.argwhere(x))
    with pytest.raises(pydp.InvalidArgument, match="is given no condition"):
        pydp.select(x)


@pytest.mark.huge
def test_more_than_2_to_the_31_elements(device):
    x = np.zeros((1 << 31) + 3, np.uint8)
    x[::1_000_003] = 1
    x[-2:] = 2
    assert np.array_equal(pydp.select(x, "x > 0"), x[x > 0])
    assert np.array_equal(pydp.flatnonzero(x), np.flatnonzero(x))


def test_the_same_bits_every_time(device):
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    field = pydp.field(x)
    first = pydp.select(field, "x > 0").get().tobytes()
    assert first == x[x > 0].tobytes()
    assert all(pydp.select(field, "x > 0").get().tobytes() == first for _ in range(100))


BAD = {
    "no condition": (lambda x: pydp.select(x), "is given no condition"),
    "two conditions": (lambda x: pydp.select(x, "x > 0", mask=x > 0), "both a predicate and mask"),
    "an unknown name": (lambda x: pydp.select(x, "y > 0"), "column 1: the name 'y' is unknown"),
    "half an expression": (lambda x: pydp.select(x, "x >"), "ends where a value is expected"),
    "no x": (lambda x: pydp.select(x, "1 > 0"), "uses none of x"),
    "a number": (lambda x: pydp.select(x, 5), "predicate 5 is not a condition"),
    "a mask of records": (lambda x: pydp.select(x, mask=np.zeros(5, [("a", "i4")])), "bool and numbers are accepted"),
    "a short mask": (lambda x: pydp.select(x, mask=x[:3] > 0), r"mask has shape \(3,\); the shape of x, \(5,\)"),
    "a long mask": (lambda x: pydp.compress(np.ones(9, bool), x), "at most as many elements as x, 5"),
    "an axis": (lambda x: pydp.compress(x > 0, x, 1), "axis=1 is out of range"),
    "a count in x": (
        lambda x: pydp.compress([1, 1], (z := pydp.field(x[:4])).reshape(2, 2), 0, count=z[1:2]),
        "count shares memory with x",
    ),
    "an axis and a length": (lambda x: pydp.compress(x > 0, x, 0, length=2), "length needs axis=None"),
    "a mask longer than the axis": (
        lambda x: pydp.compress(x * 0 + 1, x.reshape(1, -1), 0),
        "elements as axis 0 of x, 1",
    ),
    "rank 0": (lambda x: pydp.nonzero(np.array(3)), "rank 0"),
    "mask and second": (lambda x: pydp.partition(x, mask=x > 0, second="x > 0"), "given both mask and second"),
    "long conditions": (
        lambda x: pydp.partition(x, "x >" + " " * 3000 + "0", second="x" + " " * 1500 + "< 0"),
        "predicate has 3004 characters and second has 1504; at most 4077 together",
    ),
    "another second": (lambda x: pydp.partition(x, "x > 0", second=3), "predicate 3 is not a condition"),
    "a position and second": (lambda x: pydp.partition(x, 2, second="x > 0"), "cannot be combined with the position 2"),
    "a position": (lambda x: pydp.partition(x, len(x)), "kth is"),
    "a count of floats": (lambda x: pydp.select(x, "x > 0", count=pydp.zeros(1)), "dtype float32; one int32 or int64"),
    "two counts": (lambda x: pydp.select(x, "x > 0", count=pydp.zeros(2, np.int32)), r"shape \(2,\)"),
    "a count that is a number": (lambda x: pydp.select(x, "x > 0", count=3), "count is 3"),
    "lookback of partition": (
        lambda x: pydp.partition(x, "x > 0", spec={"strategy": "lookback"}),
        "'reduce_then_scan' is accepted",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments(device, name):
    call, message = BAD[name]
    with pytest.raises(pydp.InvalidArgument, match=message):
        call(np.array([3, -1, 4, 0, 5]))


def test_a_count_in_the_memory_of_x(device):
    x = pydp.field(integers(100))
    with pytest.raises(pydp.InvalidArgument, match="count shares memory"):
        pydp.select(x, "x > 0", count=x[5:6])


def test_explanations(device):
    x = pydp.field(integers(100_000))
    text = str(pydp.explain(pydp.select, x, "x > 0"))
    assert "partition(s)" in text and "only the device knows" in text
    assert "two passes" in str(pydp.explain(pydp.partition, x, "x > 0"))
    for function in (pydp.flatnonzero, pydp.nonzero, pydp.argwhere):
        assert pydp.explain(function, x).sources
    assert pydp.explain(pydp.compress, x.get() > 0, x.get()).sources


def test_a_count_on_the_device_with_numpy_arrays(device):
    """The call waits and returns whole NumPy arrays, though one output is a Field."""
    x = np.array([3, -1, 4, 0, 5], np.int32)
    for dtype in (np.int32, np.int64):
        count = pydp.zeros((), dtype)
        for _ in range(3):  # the second call is recorded
            assert pydp.select(x, "x > 0", count=count).tolist() == [3, 4, 5] and count.get() == 3
            assert pydp.flatnonzero(x, count=count).tolist() == [0, 1, 2, 4] and count.get() == 4
            made, total = pydp.partition(x, "x > 0", count=count)
            assert made.tolist() == [3, 4, 5, -1, 0] and total == count.get() == 3
            values, lengths = pydp.run_length_encode(x, count=count)
            assert values.tolist() == x.tolist() and lengths.tolist() == [1] * 5 and count.get() == 5


def test_errors_come_before_copies_are_enqueued(device, monkeypatch):
    field = pydp.field(np.arange(4000, dtype=np.int32).reshape(40, 100))
    view, mask = field[:, :50], pydp.field(np.ones(2000, np.int32))  # the view must be copied
    count = pydp.zeros((), np.int64)
    assert np.array_equal(pydp.compress(mask[:70], view).get(), view.get().reshape(-1)[:70])
    assert pydp.compress([], np.arange(5, dtype=np.int32)).shape == (0,)
    monkeypatch.setattr(Kernel, "enqueue", lambda *_, **__: pytest.fail("a kernel was enqueued"))
    for call, text in (
        (lambda: pydp.compress(mask, view, count=mask[3:4]), "count shares memory"),
        (lambda: pydp.select(view, "x > 5", count=count.read_only), "count is read-only"),
        (lambda: pydp.select(view, "x > 5", spec={"part": 0}), "part"),
        (lambda: pydp.run_length_encode(view, spec={"part": 0}), "part"),
        (lambda: pydp.unique(field, spec={"part": 0}), "part"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=text):
            call()


def test_errors_of_selections_in_pieces(device, monkeypatch):
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 1 << 12)
    x = np.arange(3000, dtype=np.int32)
    mask, count = x % 3 == 0, np.zeros((), np.int64)
    count.flags.writeable = False
    with pytest.raises(pydp.InvalidArgument, match="mask has shape \\(20, 100\\); rank 1"):
        pydp.compress(mask[:2000].reshape(20, 100), x)
    with pytest.raises(pydp.InvalidArgument, match="count is read-only"):
        pydp.select(x, "x > 0", count=count)
    with pytest.raises(pydp.InvalidArgument, match="count shares memory"):
        pydp.select(x[::-1], "x > 0", count=x[2990:2991])
    assert np.array_equal(x, np.arange(3000))


def test_kept_elements_are_moved_by_vectors(device):
    """Intel's CPU runtime needs shuffles for it; other compilers define macros of the processor's instructions."""
    shuffles = "-DFAST_SHUFFLES" in device.profile.build_options
    assert shuffles == (device.driver == "intel" and device.profile.kind == "cpu")
    if shuffles:
        (source,) = pydp.explain(pydp.select, np.arange(9, dtype=np.int32), "x > 3").sources.values()
        assert "#elif defined(FAST_SHUFFLES)" in source


SIGNED, UNSIGNED, FLOATS = "i1 i2 i4 i8", "u1 u2 u4 u8", "f4 f8"
BY_VECTORS = [
    ("x > 3", f"{SIGNED} {UNSIGNED} {FLOATS}", lambda x: x > 3),
    ("x != 0", f"? {SIGNED} {UNSIGNED} {FLOATS}", lambda x: x != 0),
    ("x", f"? {SIGNED} {UNSIGNED} {FLOATS}", lambda x: x != 0),
    ("!(x < 4) || x == 2", f"{SIGNED} {UNSIGNED} {FLOATS}", lambda x: ~(x < 4) | (x == 2)),
    ("x > -2 && x < 50 && x != 7", f"{SIGNED} {FLOATS}", lambda x: (x > -2) & (x < 50) & (x != 7)),
    ("x >= 0.5", FLOATS, lambda x: x >= 0.5),
    ("x > 0x1p3", FLOATS, lambda x: x > 8),
    ("x < -1", "u4 u8", lambda x: x < np.iinfo(x.dtype).max),  # as in C, -1 becomes the largest element
    ("(x & 5) == 4", "i4 i8 u4 u8", lambda x: (x & 5) == 4),
    ("x * 3 - x > 20", f"i4 i8 u4 u8 {FLOATS}", lambda x: x * 3 - x > 20),
    ("-x < 5", f"i4 i8 {FLOATS}", lambda x: -x < 5),
    ("x - 2147483647 > 0", "i4", lambda x: x - np.int32(2147483647) > 0),
    ("x > 300", f"i2 i4 i8 u2 u4 u8 {FLOATS}", lambda x: x > 300),
    ("x > 7 / -2", "i4 f4", lambda x: x > -3),
    ("x < max(2, 3)", "i4 f4", lambda x: x < 3),
    ("x > ~3", "i4", lambda x: x > -4),
    ("x > 9223372036854775807", "i8 f4 f8", lambda x: x > x.dtype.type(2**63 - 1)),
]
BY_ELEMENTS = [
    ("x > 0.1", "f4", lambda x: x.astype(np.float64) > 0.1),
    ("x > 1e40", "f4", lambda x: x.astype(np.float64) > 1e40),
    ("x > 0.5", "i4 u1", lambda x: x > 0.5),
    ("x / 3 > 2", FLOATS, lambda x: x / 3 > 2),
    ("x % 3 == 1", "i1 i4 u8", lambda x: np.fmod(x, 3) == 1),
    ("(x > 3) == 1", "i4 f4", lambda x: x > 3),
    ("x > 300", "i1 u1", lambda x: np.zeros(len(x), bool)),
    ("x < -1", "u1 u2", lambda x: np.zeros(len(x), bool)),  # promoted to int
    ("x > 3 ? 1 : 0", "i4 f4", lambda x: x > 3),
    ("x << 1 > 4", "i4", lambda x: x << 1 > 4),
    ("x + 200 > 250", "u1 i2", lambda x: x.astype(np.int32) + 200 > 250),
    (" && ".join(["x > 3"] * 40), "i4", lambda x: x > 3),
]


@pytest.mark.parametrize("test", [np.isfinite, np.isinf, np.isnan, np.signbit, np.logical_not])
def test_tests_of_numpy_are_predicates(device, test):
    floats = np.array([1, np.nan, -np.inf, 2, -0.0, 0, np.inf, -3], np.float32)
    for x in (floats, np.array([0, 1, -1, 2], np.int32), np.array([0, 7], np.uint8), np.array([True, False])):
        kept = x < 0 if test is np.signbit and x.dtype.kind != "f" else test(x)
        assert pydp.select(x, test).tobytes() == x[kept].tobytes()
        assert pydp.partition(x, test)[1] == kept.sum()
    with pytest.raises(pydp.InvalidArgument, match="is given complex64; it accepts booleans, integers and floats"):
        pydp.select(np.zeros(3, np.complex64), test)
    with pytest.raises(pydp.InvalidArgument, match=r"'sin'> is not a condition.*np\.isfinite"):
        pydp.select(floats, np.sin)


@pytest.mark.sweep
@pytest.mark.parametrize(("text", "dtypes", "reference"), BY_VECTORS + BY_ELEMENTS)
def test_predicates_keep_what_numpy_keeps(device, text, dtypes, reference):
    """Intel's CPU runtime, and PoCL with AVX-512, evaluate the predicates of BY_VECTORS for 16 elements of contiguous
    input at once. All other predicates are evaluated for one element at a time."""
    for dtype in map(np.dtype, dtypes.split()):
        doubles = "." in text or "1e" in text  # literals
        if not needs.has(device, dtype) or (doubles and not needs.has(device, np.dtype(np.float64))):
            continue
        rng = np.random.default_rng(0)
        x = rng.integers(-100, 100, 4099).astype(dtype)
        ends = [0, 1]
        if dtype.kind in "iu":
            ends = [np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1]
        elif dtype.kind == "f":
            ends = [np.nan, np.inf, -np.inf, -0.0, 0.5]
        x[rng.integers(0, 4099, 400)] = rng.choice(np.array(ends, dtype), 400)
        with np.errstate(all="ignore"):
            kept = reference(x)
        for n in (4099, 1, 15, 16, 17):
            for array in (x[:n], np.repeat(x, 2)[::2][:n]):
                assert pydp.select(array, text).tobytes() == x[:n][kept[:n]].tobytes(), dtype
        assert np.array_equal(pydp.flatnonzero(x), np.flatnonzero(x)), dtype
        if dtype == dtypes.split()[-1]:  # other kernels, with the same text of the condition
            parts, count = pydp.partition(x, text)
            assert parts.tobytes() == np.concatenate([x[kept], x[~kept]]).tobytes() and count == kept.sum()
            assert pydp.select(x, text, length=2049).tobytes() == x[:2049][kept[:2049]].tobytes()


@pytest.mark.host
def test_which_predicates_have_a_form_on_vectors():
    for text, dtypes, _ in BY_VECTORS:
        assert all(predicate_of(text, dtype).vector for dtype in dtypes.split()), text
    for text, dtypes, _ in BY_ELEMENTS:
        assert not any(predicate_of(text, dtype).vector for dtype in dtypes.split()), text
    assert not predicate_of(lambda x: x > 3, "i4").vector


def test_explanations_say_how_conditions_are_evaluated(device):
    for text, how in (("x > 0.5f", "16 elements at once"), ("x > 0.5f ? 1 : 0", "one element at a time")):
        told = str(pydp.explain(pydp.select, np.zeros(9, np.float32), text))
        assert (how in told) == (device.profile.mapping == "vector"), text
