"""Segments, initial values, in place, kinds of arrays, and the look-back under trouble."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from threads import together
from waiting import skip_where_refused

import pydp
from pydp.algorithms import lookback
from pydp.algorithms.lookback import STRATEGIES
from pydp.runtime.call import Call
from pydp.runtime.programs import program
from pydp.runtime.programs.template import render

VECTOR = {"mapping": "vector", "part": 24, "vector": 0}
SIMT = {"mapping": "simt", "lanes": 8, "columns": 4, "items": 3}
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT], ids=["vector", "simt"])
TOGETHER = SIMT | {"window": 4}  # lanes look back together
WAITING = pytest.mark.parametrize("mapping", [VECTOR, SIMT, TOGETHER], ids=["vector", "simt", "together"])


def integers(n, seed=0, low=-1000, high=1000, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


def segmented(x, heads, exclusive=False, init=None):
    """The segmented sum of one line by a plain loop."""
    out, before = np.empty_like(x), init
    for k, (value, head) in enumerate(zip(x, heads, strict=True)):
        if head:
            before = init
        after = value if before is None else before + value
        out[k] = (0 if before is None else before) if exclusive else after
        before = after
    return out


def changes(keys):
    return np.concatenate([[False], keys[1:] != keys[:-1]])


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_flags_and_keys(device, mapping, strategy):
    skip_where_refused(device, strategy, mapping)
    x = integers(200, 1)
    for rate in (0, 0.05, 0.7, 1):
        flags = np.random.default_rng(2).random(200) < rate
        keys = np.cumsum(flags) * 7 % 5
        for n in (40, 100, 200):
            got = pydp.scan(x[:n], segments=flags[:n], strategy=strategy, spec=mapping)
            assert np.array_equal(got, segmented(x[:n], flags[:n]))
            options = {"exclusive": True, "init": 11, "strategy": strategy, "spec": mapping}
            got = pydp.scan(x[:n], segments=keys[:n], **options)
            assert np.array_equal(got, segmented(x[:n], changes(keys[:n]), True, 11))


@MAPPINGS
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("init", [None, 11])
def test_flags_with_and_without_init(device, mapping, exclusive, init):
    x, flags = integers(100, 1), np.random.default_rng(3).random(100) < 0.1
    flags[0] = True
    got = pydp.scan(x, segments=flags, exclusive=exclusive, init=init, spec=mapping)
    assert np.array_equal(got, segmented(x, flags, exclusive, init))


@MAPPINGS
def test_segments_on_every_axis_and_backwards(device, mapping):
    x = integers((9, 30, 33), 3)
    flags = np.random.default_rng(4).random(x.shape) < 0.1
    for axis, reverse in itertools.product(range(3), (False, True)):
        lines = np.flip(x, axis) if reverse else x
        marks = np.flip(flags, axis) if reverse else flags
        rows, heads = np.moveaxis(lines, axis, -1), np.moveaxis(marks, axis, -1)
        want = np.empty_like(rows)
        for place in np.ndindex(rows.shape[:2]):
            want[place] = segmented(rows[place], heads[place])
        want = np.moveaxis(want, -1, axis)
        got = pydp.scan(x, axis=axis, reverse=reverse, segments=flags, spec=mapping)
        assert np.array_equal(got, np.flip(want, axis) if reverse else want), (axis, reverse)


@pytest.mark.oclgrind
@MAPPINGS
def test_nothing_is_read_before_the_first_key(device, mapping):
    if device.profile.loop_limit is not None:
        mapping = {**mapping, "strategy": "reduce_then_scan"}
    x = integers(120, 21)
    keys = integers(120, 22, 0, 2)
    want = segmented(x, changes(keys))
    assert np.array_equal(pydp.scan(x, segments=("keys", keys), spec=mapping), want)
    x, keys = x.reshape(6, 20), keys.reshape(6, 20)
    want = np.stack([segmented(x[:, c], changes(keys[:, c])) for c in range(20)], axis=1)
    assert np.array_equal(pydp.scan(x, axis=0, segments=("keys", keys), spec=mapping), want)


def test_kinds_of_segments(device):
    x = np.ones(10, np.int32)
    bytes_ = np.array([0, 0, 3, 0, 0, 1, 0, 0, 0, 0], np.uint8)
    assert pydp.scan(x, segments=bytes_).tolist() == [1, 2, 1, 2, 3, 1, 2, 3, 4, 5]
    assert pydp.scan(x, segments=("keys", bytes_)).tolist() == [1, 2, 1, 1, 2, 1, 1, 2, 3, 4]
    assert pydp.scan(x, segments=("flags", bytes_.astype(np.int64))).tolist() == [1, 2, 1, 2, 3, 1, 2, 3, 4, 5]
    assert pydp.scan(x, segments=bytes_.astype(np.int8)).tolist() == [1, 2, 1, 1, 2, 1, 1, 2, 3, 4]


def test_long_segments_with_a_vector_reduction(device):
    x = integers(200_000, 5)
    flags = np.zeros(x.size, bool)
    flags[[777, 50_000, 199_999]] = True
    got = pydp.scan(x, segments=flags, spec={"part": 4096})
    assert np.array_equal(got, segmented(x, flags))


@pytest.mark.oclgrind
@MAPPINGS
def test_init_from_host_and_device(device, mapping):
    x = integers(100, 6)
    want = np.cumsum(x, dtype=np.int32) + 40
    held = pydp.field(np.array([1, 40, 2], np.int32))
    field = pydp.field(x)
    assert np.array_equal(pydp.scan(x, init=40, spec=mapping), want)
    assert np.array_equal(pydp.scan(field, init=np.array(40), spec=mapping).get(), want)
    assert np.array_equal(pydp.scan(field, init=held[1], spec=mapping).get(), want)
    rows = pydp.scan(np.stack([x, x]), init=held[1], spec=mapping)
    assert np.array_equal(rows, np.stack([want, want]))
    columns = pydp.scan(np.stack([x, x]).T.copy(), axis=0, init=40, spec=mapping)
    assert np.array_equal(columns, np.stack([want, want]).T)
    ones = np.ones(60, np.complex64)
    assert pydp.scan(ones, init=2j, exclusive=True, spec=mapping)[:2].tolist() == [2j, 1 + 2j]


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("in_place", [False, True])
def test_an_init_that_results_overwrite(device, mapping, in_place):
    """Every segment and every row begins with it, also those that are scanned after its memory holds a result."""
    x = integers(150, 8)
    flags = np.arange(150) % 40 == 39
    for at in (0, 70, 149):
        field, result = pydp.field(x), pydp.field(np.full(150, 9, np.int32))
        out = field if in_place else result
        init = int(out.get()[at])
        pydp.scan(field, segments=pydp.field(flags), init=out[at], out=out, spec=mapping)
        assert np.array_equal(out.get(), segmented(x, flags, init=init)), at
        field = pydp.field(x.reshape(3, 50))
        out = field if in_place else result.reshape(3, 50)
        init = int(out.get()[at // 50, at % 50])
        pydp.scan(field, init=out[at // 50, at % 50], out=out, spec=mapping)
        assert np.array_equal(out.get(), np.cumsum(x.reshape(3, 50), axis=1, dtype=np.int32) + np.int32(init)), at


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_in_place(device, mapping, strategy):
    skip_where_refused(device, strategy, mapping)
    for reverse, exclusive in ((False, False), (True, True)):
        x = integers(150, 7)
        want = pydp.scan(x, reverse=reverse, exclusive=exclusive)
        field = pydp.field(x)
        assert (
            pydp.scan(field, reverse=reverse, exclusive=exclusive, out=field, strategy=strategy, spec=mapping) is field
        )
        assert np.array_equal(field.get(), want)
        assert pydp.scan(x, reverse=reverse, exclusive=exclusive, out=x, strategy=strategy, spec=mapping) is x
        assert np.array_equal(x, want)


@MAPPINGS
def test_results_that_overlap_their_inputs(device, mapping):
    for target, source in (
        (slice(0, 100), slice(30, 130)),
        (slice(30, 130), slice(0, 100)),
        (slice(99, None, -1), slice(0, 100)),
    ):
        for x in (integers(130, 8), pydp.field(integers(130, 8))):
            want = np.cumsum(np.asarray(x)[source], dtype=np.int32)
            pydp.scan(x[source], out=x[target], spec=mapping)
            assert np.array_equal(np.asarray(x)[target], want)
    keys = integers(100, 9, 0, 3)
    want = segmented(np.ones(100, np.int32), changes(keys))
    pydp.scan(np.ones(100, np.int32), segments=keys, out=keys, spec=mapping)
    assert np.array_equal(keys, want)


def test_fields_pyopencl_arrays_and_lists(device):
    x = integers((50, 70), 10)
    want = np.cumsum(x, axis=0, dtype=np.int32)
    field = pydp.scan(pydp.field(x), axis=0)
    assert isinstance(field, pydp.Field) and np.array_equal(field.get(), want)
    array = pydp.scan(cl.array.to_device(device.queue, x), axis=0)
    assert isinstance(array, cl.array.Array) and np.array_equal(array.get(), want)
    assert pydp.scan([1, 2, 3]).tolist() == [1, 3, 6]
    assert np.array_equal(pydp.scan(pydp.field(x)[3:9, ::-2]).get(), np.cumsum(x[3:9, ::-2], axis=1, dtype=np.int32))


def test_empty_arrays_and_single_elements(device):
    for shape in ((0,), (0, 5), (5, 0), (3, 0, 2)):
        for axis in (*range(len(shape)), None):
            got = pydp.scan(np.empty(shape, np.int32), axis=axis)
            assert got.shape == (shape if axis is not None else (0,)) and got.dtype == np.int32
    assert pydp.scan(np.array([5], np.int32), exclusive=True).tolist() == [0]
    assert pydp.scan(np.array(5, np.int32), axis=None).tolist() == [5]


FIRST = "a != 0 ? a : b"
"""Keeps the first that is not zero: operands that trade places show."""


def firsts(x):
    """The scan of an array by FIRST, and the array that it is of: nothing but zeros for two partitions."""
    x = np.where(np.arange(x.size) < 50, 0, x | 1).astype(x.dtype)
    return x, np.where(np.arange(x.size) < 50, 0, x[50]).astype(x.dtype)


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("order", ["reversed", "permuted"])
def test_groups_in_another_order(device, mapping, order):
    """Without tickets, groups wait for groups that may start later: the fallback must get them through."""
    skip_where_refused(device, "lookback", mapping)
    x = integers(150, 11)
    spec = mapping | {"order": order, "polls": 2}
    got = pydp.scan(x, "min", init=900, strategy="lookback", spec=spec)
    assert np.array_equal(got, np.minimum.accumulate(np.minimum(x, 900)))
    zeros, want = firsts(x)
    assert np.array_equal(pydp.scan(zeros, FIRST, strategy="lookback", spec=spec), want)
    flags = np.zeros(150, bool)
    flags[::40] = True
    assert np.array_equal(pydp.scan(x, segments=flags, strategy="chained", spec=spec), segmented(x, flags))


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("suppress", [1, 3])
def test_partitions_that_publish_nothing(device, mapping, suppress):
    skip_where_refused(device, "lookback", mapping)
    x = integers(150, 12)
    spec = mapping | {"suppress": suppress, "polls": 2}
    assert np.array_equal(pydp.scan(x, spec=spec, strategy="lookback"), np.cumsum(x, dtype=np.int32))
    zeros, want = firsts(x)
    assert np.array_equal(pydp.scan(zeros, FIRST, spec=spec, strategy="lookback"), want)
    assert np.array_equal(pydp.scan(x, spec=spec, strategy="chained"), np.cumsum(x, dtype=np.int32))


@pytest.fixture
def no_copies(monkeypatch):
    """Scans in place work on the array itself, in any order of the groups."""

    def refuse(*_):
        raise AssertionError("a copy was made")

    monkeypatch.setattr(Call, "copy", refuse)


TROUBLES = [
    ("lookback", {"order": "reversed"}),
    ("lookback", {"order": "permuted"}),
    ("lookback", {"suppress": 1}),
    ("lookback", {"suppress": 3}),
    ("chained", {"suppress": 3}),
]


@pytest.mark.sweep
@WAITING
@pytest.mark.parametrize("strategy, trouble", TROUBLES)
def test_in_place_when_predecessors_do_not_answer(device, no_copies, mapping, strategy, trouble):
    """They may be about to run, running, or done: with their elements intact, half or all overwritten.

    Not for the simulator: groups read elements that others overwrite, which it reports as the race that it is.
    """
    skip_where_refused(device, strategy, mapping)
    spec = mapping | trouble | {"polls": 1}
    for n in (48, 150, 2000):
        x = integers(n, 31)
        field = pydp.field(x)
        for reverse, exclusive in ((False, False), (True, True)):
            field.set(x)
            pydp.scan(field, reverse=reverse, exclusive=exclusive, init=5, out=field, strategy=strategy, spec=spec)
            want = segmented(x[::-1] if reverse else x, np.zeros(n, bool), exclusive, 5)
            assert np.array_equal(field.get(), want[::-1] if reverse else want), (n, reverse)
        flags = np.random.default_rng(32).random(n) < 0.02
        field.set(x)
        pydp.scan(field, segments=pydp.field(flags), out=field, strategy=strategy, spec=spec)
        assert np.array_equal(field.get(), segmented(x, flags)), n
    zeros, want = firsts(integers(150, 33))
    field = pydp.field(zeros)
    pydp.scan(field, FIRST, out=field, strategy=strategy, spec=spec)
    assert np.array_equal(field.get(), want)


@WAITING
@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_looks_that_never_see_what_is_published(device, monkeypatch, mapping, in_place):
    """Plain loads may read a cache that is never updated."""
    skip_where_refused(device, "lookback", mapping)
    marker = "static int recompute("
    rendered = []

    def blind(template, params):
        source = render(template, params)
        assert source.count(marker) == 1
        rendered.append(template)
        return source.replace(marker, f"#define peek(state, tag, p, kind, v) 0\n{marker}")

    monkeypatch.setattr(program, "render", blind)
    x = integers(1500, 35)
    field = pydp.field(x)
    spec = mapping | {"plain_polls": True, "polls": 41 + in_place}  # of no other test: kernels are kept
    got = pydp.scan(field, out=field if in_place else None, strategy="lookback", spec=spec)
    assert np.array_equal(got.get(), np.cumsum(x, dtype=np.int32))
    assert rendered


@pytest.mark.sweep
@pytest.mark.parametrize(
    "mapping", [{"part": 512}, SIMT | {"lanes": 32, "items": 5}, TOGETHER], ids=["vector", "simt", "together"]
)
def test_float_sums_are_the_same_bits_whatever_the_timing(device, mapping):
    """Repeats, other group orders and suppressed publishes: recomputed aggregates have the same bits."""
    skip_where_refused(device, "lookback", mapping)
    x = np.random.default_rng(13).standard_normal(6_000).astype(np.float32)
    lookback = {"strategy": "lookback", "spec": mapping}
    want = pydp.scan(x, **lookback)
    for _ in range(100):
        assert pydp.scan(x, **lookback).tobytes() == want.tobytes()
    for trouble in ({"order": "reversed", "polls": 1}, {"order": "permuted", "polls": 3}, {"suppress": 2, "polls": 1}):
        assert pydp.scan(x, strategy="lookback", spec=mapping | trouble).tobytes() == want.tobytes()
        field = pydp.field(x)
        pydp.scan(field, out=field, strategy="lookback", spec=mapping | trouble)
        assert field.get().tobytes() == want.tobytes()
    np.testing.assert_allclose(want, np.cumsum(x.astype(np.float64)), atol=2e-3)


def test_tags_run_out_without_harm(device):
    skip_where_refused(device, "lookback", VECTOR)
    x = integers(200, 14)
    spec = {**VECTOR, "strategy": "lookback"}
    pydp.scan(x, spec=spec)
    state = lookback._state(device.queue)
    state.tag = (1 << 32 if device.profile.int64_atomics else 1 << 16) - 3
    for _ in range(6):
        assert np.array_equal(pydp.scan(x, spec=spec), np.cumsum(x, dtype=np.int32))
    assert state.tag < 10


def test_many_threads_and_queues(device):
    x = integers(30_000, 15)
    want = np.cumsum(x, dtype=np.int32)

    def work(queue):
        for _ in range(10):
            np.testing.assert_array_equal(pydp.scan(x, queue=queue, spec={"part": 1000}), want)

    unordered = (
        cl.CommandQueue(device.context, device.cl, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        if device.cl.queue_properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        else None
    )
    queues = [None, None, cl.CommandQueue(device.context, device.cl), unordered]
    assert not together(partial(work, queue) for queue in queues)


def test_explain_tells_how_waits_end(device):
    skip_where_refused(device, "lookback", VECTOR)
    field = pydp.field(integers(150))
    spec = VECTOR | {"polls": 17}
    apart = str(pydp.explain(pydp.scan, field, strategy="lookback", spec=spec))
    in_place = str(pydp.explain(pydp.scan, field, out=field, strategy="lookback", spec=spec))
    assert "after 17 unsuccessful polls" in apart and "after 17 unsuccessful polls" in in_place
    assert "stores its aggregate" in in_place and "stores its aggregate" not in apart
    alone = str(pydp.explain(pydp.scan, field[:20], strategy="lookback", spec=spec))
    assert "unsuccessful polls" not in alone
    endless = str(pydp.explain(pydp.scan, field, strategy="lookback", spec=VECTOR | {"polls": 0}))
    assert "waits for earlier partitions without a limit" in endless
