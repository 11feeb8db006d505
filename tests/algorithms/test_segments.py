"""scan_by_key, repeat, run_length_decode, segmented_reduce, segmented_sort against NumPy."""

from __future__ import annotations

import threading
from itertools import pairwise

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp

VECTOR = {"mapping": "vector", "part": 40}
SIMT = {"mapping": "simt"}
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT, {}], ids=["vector", "simt", "default"])


def offsets_of(segments: int, n: int, seed: int = 0) -> np.ndarray:
    cuts = np.sort(np.random.default_rng(seed).integers(0, n + 1, max(segments - 1, 0)))
    return np.concatenate([[0], cuts, [n]])[: segments + 1]


# --- repeat ----------------------------------------------------------------------------------------------------


@pytest.mark.oclgrind
@MAPPINGS
def test_repeat_every_size(device, mapping):
    needs.vector_mapping(device, mapping.get("mapping", ""))
    for n in (0, 1, 2, 39, 41, 300):
        x = np.arange(n, dtype=np.int32)
        for high in (1, 2, 90):
            counts = np.random.default_rng(n).integers(0, high, n)
            got = pydp.repeat(x, counts, spec=mapping)
            assert got.dtype == np.int32 and np.array_equal(got, np.repeat(x, counts)), (n, high)
        for each in (0, 1, 3, 77):
            assert np.array_equal(pydp.repeat(x, each, spec=mapping), np.repeat(x, each)), (n, each)


@MAPPINGS
def test_repeat_along_axes_and_of_other_dtypes(device, mapping):
    needs.vector_mapping(device, mapping.get("mapping", ""))
    x = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    for axis, counts in ((0, [2, 0, 1]), (1, [1, 0, 3, 2]), (-1, [0, 0, 1, 2, 0]), (None, 2), (1, 3), (2, [4])):
        for source in (x, x[:, ::-1], x.transpose(0, 1, 2)[..., ::1]):
            want = np.repeat(source, counts, axis)
            assert np.array_equal(pydp.repeat(source, counts, axis, spec=mapping), want), axis
    records = np.zeros(50, [("a", "u1"), ("b", "<u2"), ("c", "u1")])
    records["b"] = np.arange(50)
    counts = np.arange(50) % 3
    got = pydp.repeat(records["b"], counts.astype(np.uint8), spec=mapping)
    assert np.array_equal(got, np.repeat(records["b"], counts))
    assert np.array_equal(pydp.repeat(records, counts, spec=mapping), np.repeat(records, counts))


def test_repeat_of_fields_with_a_given_length(device):
    x, counts = np.arange(50, dtype=np.float32), np.arange(50, dtype=np.int32) % 4
    want = np.repeat(x, counts)
    field, repeats = pydp.field(x, device=device), pydp.field(counts, device=device)
    for _ in range(3):
        got = pydp.repeat(field, repeats)
        assert isinstance(got, pydp.Field) and np.array_equal(got.get(), want)
    assert np.array_equal(pydp.repeat(field, repeats, total_repeat_length=20).get(), want[:20])
    longer = pydp.repeat(field, repeats, total_repeat_length=len(want) + 7).get()
    assert np.array_equal(longer[: len(want)], want) and (longer[len(want) :] == x[-1]).all()
    assert np.array_equal(pydp.repeat(x, 2, total_repeat_length=103)[100:], [49, 49, 49])
    assert np.array_equal(pydp.repeat(x, 2, total_repeat_length=7), np.repeat(x, 2)[:7])
    assert (pydp.repeat(x, 0, total_repeat_length=7) == x[-1]).all()
    values, lengths = pydp.run_length_encode(want)
    assert np.array_equal(pydp.run_length_decode(values, lengths), want)
    array = pydp.run_length_decode(pyopencl.array.to_device(device.queue, values), pydp.field(lengths, device=device))
    assert isinstance(array, pyopencl.array.Array) and np.array_equal(array.get(), want)
    assert np.array_equal(pydp.repeat(7, 3), [7, 7, 7])


def test_repeat_with_wrong_arguments(device):
    x = np.arange(6)
    for call, message in (
        (lambda: pydp.repeat(x, [1, -1, 0, 0, 0, 0]), "negative value -1"),
        (lambda: pydp.repeat(x, [1, 2]), "repeats has shape"),
        (lambda: pydp.repeat(x, 1.5), "repeats has dtype"),
        (lambda: pydp.repeat(x, 1, axis=1), "axis=1"),
        (lambda: pydp.repeat(x, 1, total_repeat_length=-1), "total_repeat_length"),
        (lambda: pydp.run_length_decode(x, x[:3]), "counts"),
        (lambda: pydp.repeat(x, 2, spec={"part": 0}), "part is 0"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()


# --- scan_by_key -----------------------------------------------------------------------------------------------


def scanned(keys, values, exclusive=False, reverse=False):
    if reverse:
        return scanned(keys[::-1], values[::-1], exclusive)[::-1]
    found = np.zeros_like(values)
    for i in range(len(values)):
        same = i > 0 and keys[i] == keys[i - 1]
        found[i] = (found[i - 1] if same else 0) + (values[i] if not exclusive else values[i - 1] if same else 0)
    return found


@pytest.mark.oclgrind
def test_scan_by_key(device):
    rng = np.random.default_rng(0)
    values = rng.integers(-9, 9, 300).astype(np.int32)
    for keys in (rng.integers(0, 2, 300), np.float32([0.0, -0.0, np.nan, 2])[rng.integers(0, 4, 300)]):
        for exclusive, reverse in ((False, False), (True, False), (False, True)):
            got = pydp.scan_by_key(keys, values, exclusive=exclusive, reverse=reverse)
            assert np.array_equal(got, scanned(keys, values, exclusive, reverse)), (exclusive, reverse)


def test_scan_by_key_along_axes(device):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2, (6, 40)).astype(np.float32)
    values = rng.integers(0, 9, (6, 40)).astype(np.int32)
    got = pydp.scan_by_key(keys.T, values.T, axis=0)
    assert np.array_equal(got, np.stack([scanned(*one) for one in zip(keys, values, strict=True)]).T)
    got = pydp.scan_by_key(pydp.field(keys, device=device), pydp.field(values, device=device), "max", axis=None)
    flat = pydp.scan(values.reshape(-1), "max", segments=("flags", np.append(True, np.diff(keys.reshape(-1)) != 0)))
    assert np.array_equal(got.get(), flat)
    for call, message in (
        (lambda: pydp.scan_by_key(keys, values[:3]), "values has shape"),
        (lambda: pydp.scan_by_key(keys, values, "nonsense"), "op 'nonsense'"),
        (lambda: pydp.scan_by_key(keys, values, axis=5), "axis=5"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()


# --- segmented_reduce ------------------------------------------------------------------------------------------


@pytest.mark.oclgrind
@MAPPINGS
def test_segmented_sums(device, mapping):
    needs.vector_mapping(device, mapping.get("mapping", ""))
    for n in (0, 1, 39, 40, 41, 500):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
        sums = np.append(0, np.cumsum(x, dtype=np.int64))
        for segments in (0, 1, 2, 7, 200):
            offsets = offsets_of(segments, n, segments)
            got = pydp.segmented_reduce(x, offsets, spec=mapping)
            assert got.dtype == np.int64 and np.array_equal(got, np.diff(sums[offsets])), (n, segments)


@MAPPINGS
def test_segmented_reductions_by_other_operators(device, mapping):
    needs.vector_mapping(device, mapping.get("mapping", ""))
    x = np.random.default_rng(3).standard_normal(6000).astype(np.float32)
    x[77] = np.nan
    offsets = np.sort(np.append(offsets_of(30, 5000), [300, 310, 320])) + 500  # elements outside of all segments
    parts = [x[low:high] for low, high in pairwise(offsets)]
    got = pydp.segmented_reduce(x, offsets.astype(np.int32), "max", init=-1, spec=mapping)
    np.testing.assert_array_equal(got, [np.max(part, initial=-1) for part in parts])
    got = pydp.segmented_reduce(x[::-1], offsets, "max", init=9, spec=mapping)
    assert (got == 9).all()
    # not commutative: the first element that is not zero
    y = np.random.default_rng(4).integers(0, 40, 6000).astype(np.int32) // 39
    y *= np.arange(6000, dtype=np.int32)
    got = pydp.segmented_reduce(y, offsets, "a != 0 ? a : b", init=0, spec=mapping)
    firsts = [next((v for v in y[low:high] if v), 0) for low, high in pairwise(offsets)]
    assert np.array_equal(got, firsts)
    sums = pydp.segmented_reduce(x, offsets, spec=mapping)
    np.testing.assert_allclose(sums, [part.astype("f8").sum() for part in parts], rtol=1e-4, atol=1e-3)
    assert np.array_equal(sums, pydp.segmented_reduce(x, offsets, spec=mapping))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2"])
@MAPPINGS
def test_empty_segments_of_small_integers(device, mapping, dtype):
    """A driver computed a choice between an int8 and a constant wrong."""
    needs.vector_mapping(device, mapping.get("mapping", ""))
    x, limits = np.arange(40, 75).astype(dtype), np.iinfo(dtype)
    offsets = np.array([0, 0, 3, 3, 3, 34, 34, 35, 35])
    parts = [x[low:high] for low, high in pairwise(offsets)]
    for op, identity in (("min", limits.max), ("max", limits.min)):
        got = pydp.segmented_reduce(x, offsets, op, spec=mapping)
        assert got.tolist() == [getattr(np, op)(part, initial=identity) for part in parts]
    for op, init, function in (("a * b", 1, np.prod), ("a + b", 7, np.sum)):
        got = pydp.segmented_reduce(x, offsets, op, init=init, dtype=dtype, spec=mapping)
        assert np.array_equal(got, [function(part, initial=init, dtype=dtype) for part in parts])


def test_segmented_reduce_kinds_and_out(device):
    x, offsets = np.arange(5000, dtype=np.int32), offsets_of(9, 5000, 5)
    want = np.diff(np.append(0, np.cumsum(x))[offsets])
    for _ in range(3):
        got = pydp.segmented_reduce(pydp.field(x, device=device), pydp.field(offsets, device=device))
        assert isinstance(got, pydp.Field) and np.array_equal(got.get(), want)
    guarded = np.full((9, 3), -7)
    assert pydp.segmented_reduce(x, offsets, out=guarded[:, 1]).base is guarded
    assert np.array_equal(guarded[:, 1], want) and (guarded[:, ::2] == -7).all()
    wrong = pydp.field(np.array([-5, 7000, 20, 9000]), device=device)
    assert len(pydp.segmented_reduce(pydp.field(x, device=device), wrong).get()) == 3  # clipped, not read
    for call, message in (
        (lambda: pydp.segmented_reduce(x, offsets[::-1]), rf"offsets\[1\] is {offsets[-2]}; ascending"),
        (lambda: pydp.segmented_reduce(x, offsets + 1), r"offsets\[9\] is 5001; ascending"),
        (lambda: pydp.segmented_reduce(x, offsets[:0]), "offsets has shape"),
        (lambda: pydp.segmented_reduce(x, offsets * 1.0), "offsets has dtype"),
        (lambda: pydp.segmented_reduce(x, offsets, "a != 0 ? a : b"), "no known identity"),
        (lambda: pydp.segmented_reduce(x.reshape(5, -1), offsets), "x has shape"),
        (lambda: pydp.segmented_reduce(x, offsets, init=1.5), "init=1.5"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()


def test_a_driver_that_ends_loops_refuses_loops_over_segments(device):
    needs.ended_loops(device)
    with pytest.raises(pydp.InvalidArgument, match="ends loops"):
        pydp.segmented_reduce(np.arange(9), np.array([0, 9]), spec=VECTOR)


# --- segmented_sort --------------------------------------------------------------------------------------------


def test_segmented_sorts(device):
    for n, segments in ((0, 0), (0, 3), (1, 1), (500, 1), (500, 7), (500, 8), (500, 900), (6000, 64), (6000, 65)):
        x = np.random.default_rng(n).integers(0, 50, n).astype(np.int32)
        offsets = offsets_of(segments, n, segments)
        numbers = np.repeat(np.arange(segments), np.diff(offsets))
        order = np.lexsort((x, numbers))
        assert np.array_equal(pydp.segmented_sort(x, offsets), x[order]), (n, segments)
        assert np.array_equal(pydp.segmented_argsort(x, offsets), order), (n, segments)
    field, starts = pydp.field(x, device=device), pydp.field(offsets.astype(np.int32), device=device)
    got = pydp.segmented_argsort(field, starts, descending=True)
    assert isinstance(got, pydp.Field) and np.array_equal(got.get(), np.lexsort((-x, numbers)))
    for function, last in ((pydp.segmented_sort, x), (pydp.segmented_argsort, np.arange(n))):
        explained = pydp.explain(function, field, starts)
        assert explained.title.startswith(f"{function.__name__} of 6000 int32 in 65 segments")
        by_segments = pydp.explain(pydp.sort_by_key, numbers.astype(np.int32), last, bits=(0, 7), device=device)
        assert {f"{name}, second sort" for name in by_segments.sources} <= set(explained.sources)
        assert explained.facts["second sort"] == by_segments.facts["specialization"]
        assert "second sort: bits 0 to 6 of the keys are compared" in str(explained)
    for call, message in (
        (lambda: pydp.segmented_sort(x, offsets[1:]), "0 and 6000"),
        (lambda: pydp.segmented_sort(x, offsets, spec={"strategy": "nonsense"}), "nonsense"),
        (lambda: pydp.segmented_sort(x[None], offsets), "x has shape"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            call()


def test_repeats_that_are_refused(device):
    x = np.arange(1, 4)
    field, most = pydp.field(x), 2**63 - 1
    for call in (
        lambda: pydp.repeat(field, pydp.field(np.array([-1])), total_repeat_length=4000),
        lambda: pydp.repeat(field, pydp.field(np.array([-1, -2, 0]))),
        lambda: pydp.repeat(x, np.array([most, most, 7])),
        lambda: pydp.repeat(x, np.array([1, most, most]), total_repeat_length=7),
        lambda: pydp.repeat(x, most),
        lambda: pydp.run_length_decode(x, np.array([1, 2**62, 2**62])),
    ):
        with pytest.raises(pydp.InvalidArgument, match="repeats"):
            call()


OFFSETS = np.array([0, 3, 6])
CALLS = {
    "segmented_argsort": (
        lambda a, b, **how: pydp.segmented_argsort(a, np.array([0, 3, 6]), **how),
        [1, 0, 2, 3, 5, 4],
    ),
    "union1d": (lambda a, b, **how: pydp.union1d(a, b, **how), [1, 2, 3, 4, 5, 7, 9]),
    "lexsort": (lambda a, b, **how: pydp.lexsort((a,), **how), [3, 5, 1, 0, 4, 2]),
    "top_k": (lambda a, b, **how: pydp.top_k(a, 2, **how)[0], [9, 7]),
    "repeat": (lambda a, b, **how: pydp.repeat(pydp.field(np.array([4, 6])), a[:1], **how), [4] * 5 + [6] * 5),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_wait_for_events(device, name):
    """The arguments are filled on another queue after an event, which the host sets during the second call."""
    if device.profile.loop_limit is not None:
        pytest.skip("the driver waits for events of the host where commands are enqueued")
    call, want = CALLS[name]
    late, queue = (cl.CommandQueue(device.context, device.cl) for _ in range(2))
    done = cl.command_execution_status.COMPLETE
    for delay in (0.0, 0.05):  # kernels are built in the first call
        a, b = (pyopencl.array.zeros(late, 6, dtype) for dtype in (np.int32, np.float32))
        late.finish()
        start = cl.UserEvent(device.context)
        timer = threading.Timer(delay, start.set_status, [done])
        x, y = np.array([5, 3, 9, 1, 7, 2], np.int32), np.array([4, 4, 2, 2, 4, 4], np.float32)
        filled = [
            cl.enqueue_copy(late, to.base_data, values, is_blocking=False, wait_for=[start])
            for to, values in ((a, x), (b, y))
        ]
        late.flush()
        timer.start()
        got = call(a, b, queue=queue, wait_for=filled)
        assert np.array_equal(got.get(), want)
        late.finish()
        timer.join()


def _put(values, **how):
    target = np.zeros(2, np.int32)
    pydp.put(target, [0, 1], values, **how)
    return target


X = np.arange(3, dtype=np.int32)
KEYS = np.array([0.5, 0, 0], np.float32)
LATE = {  # the call, an argument on the host before and after the events, and the result
    "isin": (lambda a, **how: pydp.isin(np.arange(4), a, **how), [9, 9], [3, 1], [False, True, False, True]),
    "put values": (_put, [9.5, 9.5], [1.5, 2.5], [1, 2]),
    "take": (lambda a, **how: pydp.take(X, a, **how), [9, 9], [2, 1], [2, 1]),
    "one count": (lambda a, **how: pydp.repeat(X, a, **how), [7], [2], [0, 0, 1, 1, 2, 2]),
    "counts": (lambda a, **how: pydp.repeat(X, a, **how), [-1, 0, 0], [1, 0, 2], [0, 2, 2]),
    "offsets": (lambda a, **how: pydp.segmented_reduce(X, a, **how), [9, 0, 3], [0, 1, 3], [0, 3]),
    "sorted segments": (lambda a, **how: pydp.segmented_sort(X[::-1], a, **how), [9, 0, 3], [0, 1, 3], [2, 0, 1]),
    "compress": (lambda a, **how: pydp.compress(a, X, **how), [0, 0, 0, 1], [1, 0, 1, 0], [0, 2]),
    "setdiff1d": (lambda a, **how: pydp.setdiff1d(a, X, **how), [1, 1], [7, 2], [7]),
    "union1d": (lambda a, **how: pydp.union1d(a, X, **how), [1, 1], [7, 2], [0, 1, 2, 7]),
    "lexsort": (lambda a, **how: pydp.lexsort((a,), **how), [1, 2], [7, 2], [1, 0]),
    "slices": (lambda a, **how: pydp.compress(a, X.reshape(3, 1), 0, **how)[:, 0], [0, 0, 0, 1], [1, 0, 1, 0], [0, 2]),
    "init of a scan": (lambda a, **how: pydp.scan(X, init=a, **how), 3, 4, [4, 5, 7]),
    "init of runs": (lambda a, **how: pydp.scan_by_key(KEYS, X, init=a, **how), 3, 4, [4, 5, 7]),
    "init of a reduction": (lambda a, **how: pydp.reduce(X, init=a, **how), 3, 4, 7),
    "init of segments": (lambda a, **how: pydp.segmented_reduce(X, [0, 1, 3], init=a, **how), 3, 4, [4, 7]),
    "initial": (lambda a, **how: pydp.max(X, initial=a, **how), 3, 4, 4),
    "pad_width": (lambda a, **how: pydp.pad(X, a, **how), 0, 1, [0, 0, 1, 2, 0]),
    "constant_values": (lambda a, **how: pydp.pad(X, 1, constant_values=a, **how), 3, 4, [4, 0, 1, 2, 4]),
    "shift": (lambda a, **how: pydp.roll(X, a, **how), 2, 1, [2, 0, 1]),
    "alpha": (lambda a, **how: pydp.matmul(X, X, alpha=a, **how), 2, 3, 15),
    "init that does not fit before": (lambda a, **how: _minima(init=a, **how), 300, 1, [0, 1, 1]),
    "shift in a tuple": (lambda a, **how: pydp.roll(X, (a,), (0,), **how), 2, 1, [2, 0, 1]),
    "width in a tuple": (lambda a, **how: pydp.pad(X, (0, a), **how), 2, 1, [0, 1, 2, 0]),
    "edges": (lambda a, **how: pydp.histogram(X, a, **how)[0], [0, 1, 3], [0, 2, 3], [2, 1]),
    "bytes in another order": (lambda a, **how: pydp.scan(a, **how), lambda: np.array([9, 9], ">i4"), [1, 2], [1, 3]),
    "array.array": (lambda a, **how: pydp.dot(_ones(how), memoryview(a), **how), lambda: np.zeros(2, "f4"), [1, 2], 3),
    "not aligned": (
        lambda a, **how: pydp.sort(a, **how),
        lambda: np.zeros(17, np.uint8)[1:].view("i8"),
        [2, 1],
        [1, 2],
    ),
    "beside a Field": (lambda a, **how: pydp.dot(_ones(how), a, **how), lambda: np.zeros(2, np.float32), [1, 2], 3),
    "mask beside a Field": (lambda a, **how: pydp.select(_ones(how), mask=a, **how), [True] * 2, [False, True], [1]),
    "twice": (lambda a, **how: _bumped(a, **how), lambda: np.zeros(4, ">i4"), [1, 2, 3, 4], [2, 3, 4, 5]),
    "out": (
        lambda a, **how: pydp.matmul(X, X[:, None], beta=1, out=a, **how),
        lambda: np.array([9], np.int32),
        [1],
        [6],
    ),
    "distinct slices": (lambda a, **how: pydp.unique(a.reshape(2, 1), axis=0, **how)[:, 0], [1, 1], [7, 2], [2, 7]),
}


def _minima(**named):
    return pydp.scan_by_key(np.array([0.5, 1, 1], np.float32), np.arange(3, dtype=np.int8), "min", **named)


def _bumped(a, **how):
    def bump(i, x, y):
        y[i] = x[i] + 1

    pydp.forall(4, bump, a, a, **how)
    return a


def _ones(how):
    return pydp.field(np.ones(2, np.float32), device=how["device"])


def test_events_of_several_contexts(device):
    events = [cl.UserEvent(cl.Context([device.cl])) for _ in range(2)]
    for event in events:
        event.set_status(cl.command_execution_status.COMPLETE)
    assert np.array_equal(pydp.segmented_reduce(X, np.array([0, 1, 3]), device=device, wait_for=events), [0, 3])
    assert np.array_equal(pydp.roll(X, np.array(1), device=device, wait_for=events), [2, 0, 1])


def test_a_list_that_contains_itself_is_refused_beside_events(device):
    given = [0]
    given.append(given)
    event = cl.UserEvent(device.context)
    event.set_status(cl.command_execution_status.COMPLETE)
    with pytest.raises(pydp.errors.InvalidArgument):
        pydp.roll(X, given, device=device, wait_for=event)


@pytest.mark.parametrize("name", LATE)
def test_arguments_on_the_host_are_read_after_events(device, name):
    call, before, after, want = LATE[name]
    a, event = before() if callable(before) else np.array(before), cl.UserEvent(device.context)
    warm = a.copy()
    warm[...] = after
    call(warm, device=device)  # so that the call below reads its arguments long before the timer ends

    def write() -> None:
        a[...] = after
        event.set_status(cl.command_execution_status.COMPLETE)

    timer = threading.Timer(0.05, write)
    timer.start()
    try:
        assert np.array_equal(call(a, device=device, wait_for=[event]), want)
    finally:
        timer.join()


def test_offsets_are_checked_in_repeated_calls(device):
    values = np.arange(50, dtype=np.int32)
    for last in (50, 49, 48, 50):
        got = pydp.segmented_reduce(values, np.array([0, last]), device=device)
        assert np.array_equal(got, [values[:last].sum()])
    for wrong in ([-1, 50], [0, 51], [30, 20], [0, 100_000_000]):
        with pytest.raises(pydp.InvalidArgument, match="ascending integers from 0 to 50"):
            pydp.segmented_reduce(values, np.array(wrong), device=device)
        with pytest.raises(pydp.InvalidArgument, match="ascending integers from 0 to 50"):
            pydp.segmented_reduce(values, np.array(wrong), device=device, out=np.zeros(1, np.int64))
