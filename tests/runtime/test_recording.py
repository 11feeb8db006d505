"""Recordings: repeated calls give what first calls give, whatever changes between them."""

from __future__ import annotations

import gc
import signal
import sys
import weakref
from functools import partial

import needs
import numpy as np
import pyopencl as cl
import pytest
import repeated_calls
from threads import together

import pydp
from pydp.model.family import forget
from pydp.runtime import call, recording
from pydp.runtime.recording import Recording


def recordings(device):
    """The recordings of the device."""
    caches = (device.recordings._recent, device.recordings._waiting)
    return [one for cache in caches for one in cache.values() if type(one) is Recording]


counted, given, host = repeated_calls.counted, repeated_calls.given, repeated_calls.host


def double(idx, out, x, k):
    out[idx] = k * x[idx]


def calls(device):
    """Functions of an array of rank 2, and NumPy's result."""
    return {
        "scan": (lambda x: pydp.scan(x, device=device), lambda x: np.cumsum(x, -1, dtype=x.dtype)),
        "scan of columns": (lambda x: pydp.scan(x, axis=0, device=device), lambda x: np.cumsum(x, 0, dtype=x.dtype)),
        "flat exclusive scan": (
            lambda x: pydp.scan(x, "max", axis=None, exclusive=True, init=0, device=device),
            lambda x: np.maximum.accumulate(np.concatenate([[0], x.ravel()[:-1]]).astype(x.dtype)),
        ),
        "reduce": (lambda x: pydp.reduce(x, device=device), lambda x: x.sum(dtype=np.int64)),
        "reduce rows": (lambda x: pydp.reduce(x, "min", axis=1, keepdims=True), lambda x: x.min(1, keepdims=True)),
        "min_max": (lambda x: pydp.min_max(x, device=device)[1], lambda x: x.max()),
        "min_max of rows": (lambda x: pydp.min_max(x, axis=1, device=device)[0], lambda x: x.min(axis=1)),
        "sort": (lambda x: pydp.sort(x, device=device), np.sort),
        "sort descending": (lambda x: pydp.sort(x, descending=True), lambda x: np.sort(x)[..., ::-1]),
        "argsort": (lambda x: pydp.argsort(x, device=device), lambda x: np.argsort(x, kind="stable")),
        "sort_by_key": (
            lambda x: pydp.sort_by_key(x, x, device=device)[1],
            lambda x: np.take_along_axis(x, np.argsort(x, kind="stable"), -1),
        ),
        "transpose": (lambda x: pydp.transpose(x, device=device), np.transpose),
        "matmul": (lambda x: pydp.matmul(x, x.T, device=device), lambda x: x @ x.T),
        "histogram": (
            lambda x: pydp.histogram(x, 7, (0, 300), device=device)[0],
            lambda x: np.histogram(x, 7, (0, 300))[0],
        ),
        "histogram of many edges": (
            lambda x: pydp.histogram(x, np.arange(0, 400, 3), device=device)[0],
            lambda x: np.histogram(x, np.arange(0, 400, 3))[0],
        ),
    }  # fmt: skip


NAMES = list(calls(None))


@pytest.mark.parametrize("kind", ["field", "array", "numpy"])
@pytest.mark.parametrize("name", NAMES)
def test_repeated_calls(device, counted, name, kind):
    function, reference = calls(device)[name]
    rng = np.random.default_rng(0)
    for turn in range(6):
        x = rng.integers(0, 400, (37, 50)).astype(np.int32)
        with pydp.using(device):
            got = function(given(x, kind, device))
        np.testing.assert_array_equal(host(got), reference(x), err_msg=f"call {turn}")
    if kind != "numpy" or device.profile.shares_host_memory:
        assert counted or not recordings(device), name
    whole = ("scan", "reduce", "min_max", "sort", "matmul", "histogram", "histogram of many edges")
    if name in whole and kind != "numpy":
        assert len(counted) == 4, "the second call is recorded, four run from it"


def test_long_scans_take_new_descriptors(device, counted):
    x = np.random.default_rng(1).integers(-9, 9, 300_000).astype(np.int32)
    for turn in range(5):
        field = pydp.field(x + turn, device=device)
        np.testing.assert_array_equal(pydp.scan(field).get(), np.cumsum(x + turn, dtype=np.int32))
    assert len(counted) == 3


@pytest.mark.parametrize("kind", ["field", "array", "numpy"])
def test_vector_functions_write_in_place(device, counted, kind):
    for turn in range(5):
        x = np.arange(100, dtype=np.float32) + turn
        out = np.zeros(100, np.float32)
        out, x = (given(one, kind, device) for one in (out, x))
        event = pydp.forall(100, double, out, x, 3, device=device)
        assert (event is None) == (kind == "numpy")
        np.testing.assert_array_equal(host(out), 3 * host(x))
    if kind != "numpy" or device.profile.shares_host_memory:
        assert len(counted) == 3


def test_numbers_are_part_of_the_call(device):
    x = pydp.field(np.arange(10, dtype=np.float32), device=device)
    out = pydp.zeros(10, np.float32, device=device)
    for k in (1, True, 1.0, 0.0, -0.0, 2, 1, 1.5, -0.0, 0.0, True, 1) * 2:
        pydp.forall(10, double, out, x, k)
        want = k * x.get()
        np.testing.assert_array_equal(out.get(), want)
        np.testing.assert_array_equal(np.signbit(out.get()), np.signbit(want))


def test_a_changed_function_is_another_call(device):
    factor = 2

    def scaled(idx, out, x):
        out[idx] = factor * x[idx]

    x = pydp.field(np.arange(10, dtype=np.float32), device=device)
    out = pydp.zeros(10, np.float32, device=device)
    for factor in (2, 2, 2, 5, 5, 5, 2):
        pydp.forall(10, scaled, out, x)
        np.testing.assert_array_equal(out.get(), factor * np.arange(10))


def test_arrays_that_share_memory_are_another_call(device):
    def shift(idx, out, x):
        out[idx] = x[idx] + 1

    base = pydp.zeros(40, np.int32, device=device)
    apart = [pydp.zeros(20, np.int32, device=device) for _ in range(2)]
    for _ in range(4):
        pydp.forall(20, shift, *apart)
        pydp.forall(20, shift, base[:20], base[20:])
        pydp.forall(20, shift, base[20:], base[20:])
    np.testing.assert_array_equal(base.get(), [4] * 20 + [4] * 20)
    x = np.zeros(40, np.int32)
    for _ in range(4):
        pydp.forall(20, shift, x[:20], x[20:], device=device)
        pydp.forall(20, shift, x[20:], x[20:], device=device)
        y = np.zeros(40, np.int32)
        pydp.forall(20, shift, y[:20], y[20:], device=device)
    np.testing.assert_array_equal(x, [4] * 20 + [4] * 20)


def test_an_array_given_twice_is_another_call(device, counted):
    """A recording of a call with one NumPy array twice must not use the first of two arrays for both."""

    def add(idx, out, x):
        out[idx] = x[idx] + 1

    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 9, (6, 6)).astype(np.int32) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(pydp.matmul(a, a, device=device), a @ a)
        np.testing.assert_array_equal(pydp.matmul(a[:], a[:], device=device), a @ a)
    for _ in range(3):
        np.testing.assert_array_equal(pydp.matmul(a, b, device=device), a @ b)
    x, y = np.zeros(8, np.int32), np.full(8, 100, np.int32)
    for _ in range(3):
        pydp.forall(x, add, x, x, device=device)
        pydp.forall(8, add, x, x, device=device)
        pydp.forall(8, add, x[:], x[:], device=device)
    np.testing.assert_array_equal(x, np.full(8, 9))
    for _ in range(3):
        pydp.forall(8, add, x, y, device=device)
        np.testing.assert_array_equal(x, np.full(8, 101))
    if device.profile.shares_host_memory:
        assert len(counted) >= 4, "calls with an array given twice are repeated too"


def test_arrays_that_the_host_reads_are_not_repeated(device):
    """Parameters may be NumPy arrays. Recordings have the layouts of arrays, not their elements."""
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for turn in range(4):
        value = np.array(turn, np.int32)
        np.testing.assert_array_equal(pydp.scan(x, init=value, device=device), np.cumsum(x, -1) + turn)
        np.testing.assert_array_equal(pydp.reduce(x, init=value, device=device), x.sum() + turn)
        row = x[0, 0]
        np.testing.assert_array_equal(pydp.matmul(row, row, alpha=value, device=device), turn * row @ row)
        axis = np.array(turn % 3 if turn < 3 else 0)
        np.testing.assert_array_equal(pydp.sort(-x, axis=axis, device=device), np.sort(-x, axis=int(axis)))
        axes = np.array([2, 1, 0] if turn < 3 else [0, 2, 1])
        np.testing.assert_array_equal(pydp.transpose(x, axes, device=device), np.transpose(x, axes))


@pytest.mark.parametrize("kind", ["field", "numpy"])
def test_results_whose_shape_depends_on_elements_are_not_repeated(device, kind):
    def given(x):
        return pydp.field(x, device=device) if kind == "field" else x

    def host(x):
        return x.get() if kind == "field" else x

    for dtype in (np.int64, np.uint8):
        x = np.arange(200, dtype=dtype)
        for least in (0, 250, 300):
            for one in (x, x, x, x // 4, x + 55):
                got = host(pydp.bincount(given(one), minlength=least, device=device))
                np.testing.assert_array_equal(got, np.bincount(one, minlength=least))
        for one in (x, x, x, x // 4):
            counts, edges = pydp.histogram(given(one), 7, device=device)
            want = np.histogram(one, 7)
            np.testing.assert_array_equal(host(counts), want[0])
            np.testing.assert_array_equal(edges, want[1])


def test_edges_and_weights_are_part_of_a_recorded_histogram(device, counted):
    rng = np.random.default_rng(7)
    for turn in range(5):
        x, w = rng.random(900, dtype=np.float32), rng.integers(0, 9, 900).astype(np.float32)
        field, weights = (pydp.field(one, device=device) for one in (x, w))
        for edges in ([0, 0.5, 1], [0, 0.25, 1], np.linspace(0, 1, 40), np.linspace(0, 1, 40) ** 2):
            np.testing.assert_array_equal(pydp.histogram(field, edges)[0].get(), np.histogram(x, edges)[0])
        for limits in ((0, 1), (0, 0.5)):
            got = pydp.histogram(field, 9, limits, weights=weights)[0].get()
            np.testing.assert_array_equal(got, np.histogram(x, 9, limits, weights=w)[0], err_msg=str(turn))
    if device.profile.loop_limit is None:
        assert len(counted) == 3 * 6


def test_devices_given_by_name(device, counted):
    """A call with device="..." is recorded for this device, not for the default device."""
    other = needs.another_device(device)
    x, out = np.arange(300, dtype=np.int32), np.zeros(300, np.int32)
    for _ in range(4):
        np.testing.assert_array_equal(pydp.scan(x, device=other.name), np.cumsum(x))
        np.testing.assert_array_equal(pydp.scan(x, device=device), np.cumsum(x))
        pydp.forall(300, double, out, x, 5, device="host")
        np.testing.assert_array_equal(out, 5 * x)
    assert other.last_launch is not None


@pytest.mark.parametrize("kind", ["numpy", "field"])
def test_an_interrupt_at_any_line_waits_for_the_launches(device, kind):
    """Ctrl-C between a launch and the wait for it must not free NumPy memory that the kernel still writes."""

    def slow(idx, out, x, rounds):
        value = x[idx]
        for _ in range(rounds):
            value = value * np.float32(0.5) + np.float32(1)
        out[idx] = value

    x, rounds = np.ones(4096, np.float32), min(20_000, device.profile.loop_limit or 20_000)
    given = [np.zeros(4096, np.float32), x]
    given = [pydp.field(one, device=device) for one in given] if kind == "field" else given
    pydp.forall(4096, slow, *given, rounds, device=device)
    want = given[0].copy()  # before the calls are recorded: a new program may evict recordings
    device.recordings.clear()
    for _ in range(3):
        pydp.forall(4096, slow, *given, rounds, device=device)
    if not recordings(device):
        pytest.skip("NumPy's memory is not used in place on this device")
    objects = recordings(device)[0].launches[-1]._idle[-1]
    enqueue, events = objects.enqueue, []

    def noted(*args):
        events.append(enqueue(*args))
        return events[-1]

    objects.enqueue = noted
    code = Recording.run.__code__
    reached = 0
    for stop in sorted({line for *_, line in code.co_lines() if line and line > code.co_firstlineno}):

        def interrupt(frame, event, argument, stop=stop):
            if event == "line" and (frame.f_code, frame.f_lineno) == (code, stop):
                raise KeyboardInterrupt
            return interrupt

        events.clear()
        given[0][...] = 0
        earlier = given[0].event if kind == "field" else None
        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            pydp.forall(4096, slow, *given, rounds, device=device)
        except KeyboardInterrupt:
            if events and kind == "numpy":
                reached += 1
                np.testing.assert_array_equal(given[0], want)
            elif events:
                reached += 1
                assert given[0].event != earlier, "the field has the event of the call before"
        finally:
            sys.settrace(before)
    assert reached


def test_overlapping_numpy_arrays_take_the_long_way(device):
    """Written arrays that overlap have the layouts of a recorded call, and need one buffer."""

    def copy(idx, out, x):
        out[idx] = x[idx]

    for _ in range(4):
        pydp.forall(8, copy, np.zeros(8, np.int32), np.ones(8, np.int32), device=device)
    x = np.arange(16, dtype=np.int32)
    with pytest.raises(pydp.InvalidArgument, match="race: lane"):
        pydp.forall(8, copy, x[1:9], x[:8], device=device)


def test_misaligned_and_read_only_arrays(device):
    for _ in range(4):
        np.testing.assert_array_equal(pydp.scan(np.ones(9, np.int32), device=device), np.arange(1, 10))
    odd = np.zeros(9 * 4 + 1, np.uint8)[1:].view(np.int32)
    odd[:] = 2
    np.testing.assert_array_equal(pydp.scan(odd, device=device), np.arange(2, 20, 2))
    fixed = np.full(9, 3, np.int32)
    fixed.flags.writeable = False
    for _ in range(4):
        np.testing.assert_array_equal(pydp.scan(fixed, device=device), np.arange(3, 30, 3))
    out = np.zeros(9, np.float32)
    for _ in range(4):
        pydp.forall(9, double, out, np.ones(9, np.float32), 2, device=device)
    out.flags.writeable = False
    with pytest.raises(pydp.InvalidArgument, match="read-only"):
        pydp.forall(9, double, out, np.ones(9, np.float32), 2, device=device)


@pytest.mark.parametrize("step", [-1, 2, -3])
def test_strided_numpy_arrays(device, step):
    base = np.arange(60, dtype=np.int64)
    for turn in range(5):
        x = (base + turn)[::step]
        np.testing.assert_array_equal(pydp.scan(x, device=device), np.cumsum(x))


def test_other_queues_are_waited_for(device):
    """A field that another queue uses is not read before that queue has written it."""
    other = cl.CommandQueue(device.context, device.cl)
    x = pydp.field(np.arange(1000, dtype=np.int32), device=device)
    for turn in range(6):
        pydp.forall(1000, double, x, x, 1, queue=other)
        np.testing.assert_array_equal(pydp.reduce(x).get(), np.arange(1000).sum(), err_msg=str(turn))


def test_nothing_of_the_caller_is_kept(device):
    def made():
        x = pydp.field(np.arange(1 << 18, dtype=np.int32), device=device)
        for _ in range(4):
            y = pydp.scan(x)
        return weakref.ref(x._storage), weakref.ref(y._storage)

    references = made()
    gc.collect()
    assert [one() for one in references] == [None, None]


def test_tuned_choices_replace_recordings(device, counted):
    x = pydp.field(np.arange(500, dtype=np.int32), device=device)
    for _ in range(4):
        pydp.scan(x)
    assert recordings(device)
    forget()
    assert not recordings(device)
    ran = len(counted)
    pydp.scan(x)
    assert len(counted) == ran


def test_checked_mode_checks_repeated_calls(device):
    def beyond(idx, out, x):
        out[idx] = x[idx[0] + 1]

    out, x = (pydp.zeros(8, np.int32, device=device) for _ in range(2))
    for _ in range(4):
        pydp.forall(8, beyond, out, x)
    with pydp.checked(), pytest.raises(pydp.PydpError, match="reads"):
        pydp.forall(8, beyond, out, x)


def test_calls_that_cannot_be_repeated_are_not(device, counted):
    """Events to wait for, and values that are copied to the device."""
    x = pydp.field(np.arange(50, dtype=np.int32), device=device)
    out = pydp.zeros(50, np.int32, device=device)
    event = cl.enqueue_marker(device.queue)
    for _ in range(4):
        pydp.scan(x, wait_for=event)
        pydp.scan(x, out=out, wait_for=[event])
        pydp.reduce(x, init=np.int32(3))
    assert not counted
    np.testing.assert_array_equal(out.get(), np.cumsum(np.arange(50)))


def test_a_call_within_a_recorded_call(device, counted):
    """A signal handler that makes another call does not get into the recording."""
    x = pydp.field(np.arange(400, dtype=np.int32), device=device)
    y = pydp.field(np.ones(300, np.int32), device=device)
    inner = []

    def within(number, frame):
        inner.append(pydp.reduce(y))

    before = signal.signal(signal.SIGUSR1, within)
    begin, begun = recording.Recorder.argument, []

    def interrupted(self, *args, **named):
        if not begun:
            begun.append(True)
            signal.raise_signal(signal.SIGUSR1)
        return begin(self, *args, **named)

    recording.Recorder.argument = interrupted
    try:
        for _ in range(4):
            got = pydp.scan(x)
    finally:
        recording.Recorder.argument = begin
        signal.signal(signal.SIGUSR1, before)
    assert begun and len(inner) == 1
    np.testing.assert_array_equal(got.get(), np.cumsum(np.arange(400)))
    assert inner[0].get() == 300


def test_a_call_before_a_recorded_call_begins(device, monkeypatch):
    """A signal handler with the same arrays may run before the recorded call has taken its recorder."""

    def one(idx, out, x):
        out[idx] = x[idx] + 1

    def two(idx, out, x):
        out[idx] = x[idx] + 2

    x, out, begun = np.zeros(8, np.int32), np.zeros(8, np.int32), []

    def interrupted():
        if not begun and recording._current.recorder is not None:
            begun.append(True)
            pydp.forall(8, two, out, x, device=device)
        return recording.claim()

    monkeypatch.setattr(call, "claim", interrupted)
    device.recordings.clear()
    for _ in range(4):
        pydp.forall(8, one, out, x, device=device)
        np.testing.assert_array_equal(out, np.ones(8))
    assert begun
    assert recordings(device) or not device.profile.shares_host_memory


def test_threads_share_recordings(device):
    wrong = []

    def work(seed):
        x = np.full(200, seed, np.int32)
        field = pydp.field(x, device=device)
        for _ in range(30):
            if not np.array_equal(pydp.scan(field).get(), np.cumsum(x)):
                wrong.append(seed)
            if pydp.reduce(x, device=device) != 200 * seed:
                wrong.append(-seed)

    assert not together(partial(work, seed) for seed in range(1, 5))
    assert not wrong


@pytest.mark.parametrize("kind", ["field", "numpy"])
def test_a_repeated_call_may_be_interrupted(device, kind):
    """By the same call, as a finalizer makes it, and by an exception after the launch (Ctrl-C)."""
    x = np.arange(3000, dtype=np.int32)
    given = pydp.field(x, device=device) if kind == "field" else x
    device.recordings.clear()
    for _ in range(3):
        pydp.scan(given, device=device)
    found = recordings(device)
    if not found:
        pytest.skip("NumPy's memory is not used in place on this device")
    launch = found[-1].launches[-1]
    objects = launch._idle[-1]
    enqueue, nested = objects.enqueue, []

    def within(*args):
        objects.enqueue = enqueue
        nested.append(pydp.scan(given, device=device))
        return enqueue(*args)

    objects.enqueue = within
    results = [pydp.scan(given, device=device), *nested]
    assert len(results) == 2

    def stopped(*args):
        enqueue(*args)
        raise KeyboardInterrupt

    objects.enqueue = stopped
    with pytest.raises(KeyboardInterrupt):
        pydp.scan(given, device=device)
    objects.enqueue = enqueue
    for one in [*results, pydp.scan(given, device=device)]:
        np.testing.assert_array_equal(one.get() if kind == "field" else one, np.cumsum(x))


def test_devices_by_name_are_looked_up(device, counted):
    """A name selects the device of the call, also beside the default device, and may select the host."""
    x = np.arange(6, dtype=np.int32)
    for name in [device.driver, device.kind, "host"] * 4:
        if name == "host":
            out = np.zeros(6, np.float32)
            pydp.forall(6, double, out, x.astype(np.float32), 2, device=name)
            np.testing.assert_array_equal(out, 2 * x)
        else:
            np.testing.assert_array_equal(pydp.scan(x, device=name), np.cumsum(x))
    assert not counted
