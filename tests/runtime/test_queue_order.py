"""The events that a command waits for if several queues use one memory, and results in memory that is still read."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from threads import together

import pydp
from pydp.errors import InvalidArgument
from pydp.runtime.drivers.devices import Device
from pydp.runtime.memory import deferred_release as returns
from pydp.runtime.memory import held_queues
from pydp.runtime.memory import storage as storage_module
from pydp.runtime.memory.storage import Storage


@pytest.fixture
def queues(device: Device) -> list[cl.CommandQueue]:
    return [cl.CommandQueue(device.context, device.cl) for _ in range(3)]


def _open(device: Device) -> cl.UserEvent:
    """An event that has not ended; the caller ends it."""
    return cl.UserEvent(device.context)


def _end(*gates: cl.UserEvent) -> None:
    for one in gates:
        if one.command_execution_status > cl.command_execution_status.COMPLETE:
            one.set_status(cl.command_execution_status.COMPLETE)


def _given_time(queue: cl.CommandQueue) -> None:
    """Give commands that wrongly do not wait the time to run."""
    queue.flush()
    time.sleep(0.1)


def test_every_queue_that_used_the_memory_is_waited_for(device: Device, queues: list[cl.CommandQueue]) -> None:
    first, second, third = queues
    memory = Storage(None, device)
    read, again, written = _open(device), _open(device), _open(device)
    try:
        memory.note(read, first)
        assert memory.waits(first) == []
        memory.note(written, second)
        assert memory.waits(third) == [written, read]
        assert memory.waits(first) == [written]
        assert memory.waits(second) == [read]
        memory.note(again, first)
        assert memory.waits(first) == [written]
        assert memory.waits(first, loose=True) == [again, written]
        assert memory.waits(second) == [again]
    finally:
        for event in (read, again, written):
            event.set_status(cl.command_execution_status.COMPLETE)


def test_the_events_of_pyopencl_arrays_are_waited_for(device: Device, queues: list[cl.CommandQueue]) -> None:
    mine, other = queues[:2]
    array = cla.zeros(mine, 8, np.float32)
    mine.finish()
    pending = _open(device)
    try:
        by_mine, by_other = (cl.enqueue_marker(queue, wait_for=[pending]) for queue in (mine, other))
        array.events[:] = [by_mine, by_other, pending]
        memory = Storage(array.data, device, array=array)
        assert memory.waits(other) == [by_mine, pending]
        assert memory.waits(mine) == [by_other, pending]
        assert memory.waits(mine, loose=True) == [by_mine, by_other, pending]
    finally:
        pending.set_status(cl.command_execution_status.COMPLETE)


@pytest.mark.parametrize("kind", ["array", "field"])
def test_what_another_queue_does_with_a_pyopencl_array_is_waited_for(
    device: Device, queues: list[cl.CommandQueue], kind: str
) -> None:
    """pyopencl's own calls take a queue, and add the events of their commands to the array."""
    mine, other = queues[:2]
    field = pydp.field(np.ones(1000, np.int32), device=device)
    array = field.array if kind == "field" else cla.to_device(mine, np.ones(1000, np.int32))
    given = field if kind == "field" else array
    assert pydp.reduce(given).get() == 1000
    sevens = cla.to_device(other, np.full(1000, 7, np.int32))
    for queue in (mine, other, device.queue):
        queue.finish()
    gate = _open(device)
    try:
        array.add_event(cl.enqueue_copy(other, array.base_data, sevens.base_data, wait_for=[gate]))
        total = pydp.reduce(given)
        _given_time(total.device.queue if kind == "field" else mine)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert total.get() == 7000


def test_the_pyopencl_array_of_a_field_has_the_last_event_of_its_memory(
    device: Device, queues: list[cl.CommandQueue]
) -> None:
    """Commands of pyopencl on another queue wait for it."""
    other = queues[1]
    field = pydp.field(np.ones(1000, np.int32), device=device)
    result = pydp.field(np.zeros(1000, np.int32), device=device)
    for queue in (other, device.queue):
        queue.finish()
    gate = _open(device)
    try:
        pydp.scan(field, out=result, wait_for=gate)
        array = result.array.with_queue(other)
        array.fill(3)
        _given_time(other)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(result.get(), 3)


@pytest.mark.parametrize("kind", ["array", "field"])
def test_pyopencl_waits_for_what_pydp_reads(device: Device, queues: list[cl.CommandQueue], kind: str) -> None:
    """If it writes on another queue, also after several reads."""
    mine, other = queues[:2]
    field = pydp.field(np.ones(1000, np.int32), device=device)
    array = field.array if kind == "field" else cla.to_device(mine, np.ones(1000, np.int32))
    given = field if kind == "field" else array
    sums = [pydp.scan(given) for _ in range(3)]
    for queue in (mine, other, device.queue):
        queue.finish()
    gate = _open(device)
    try:
        sums += [pydp.scan(given, wait_for=gate), pydp.scan(given)]
        array.with_queue(other).fill(7, queue=other)
        _given_time(other)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    for one in sums:
        np.testing.assert_array_equal(one.get(), np.arange(1, 1001))
    assert array.get()[0] == 7
    assert len(array.events) < 13  # more would make pyopencl wait


def test_writers_wait_for_readers_on_a_queue_without_an_order(device: Device) -> None:
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    possible = device.cl.queue_properties & mode  # where there is none, the order of every queue does it
    queue = cl.CommandQueue(device.context, device.cl, properties=possible)
    ones, fives = (cla.to_device(queue, np.full(1000, value, np.int32)) for value in (1, 5))
    sums = cla.zeros(queue, 1000, np.int32)
    pydp.transpose(fives, out=sums)
    pydp.scan(ones, out=sums)
    queue.finish()
    gate = _open(device)
    try:
        pydp.scan(ones, out=sums, wait_for=gate)
        pydp.transpose(fives, out=ones)
        _given_time(queue)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    assert sums.get()[-1] == 1000 and ones.get()[-1] == 5


def test_copies_out_are_reads_that_writers_wait_for(device: Device, queues: list[cl.CommandQueue]) -> None:
    field = pydp.field(np.arange(1 << 12, dtype=np.int32), device=device)
    device.queue.finish()
    gate = _open(device)
    held = np.empty(1 << 12, np.int32)
    try:
        field._storage.note(gate, queues[0])
        reading = field.copy_out(held, blocking=False)
        assert reading is not None and reading in field._storage.waits(queues[1])
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    reading.wait()
    assert (held == np.arange(1 << 12)).all()


@pytest.mark.parametrize("shift", [0, 3, 64])
def test_results_that_overlap_what_is_read(device: Device, shift: int) -> None:
    """`out` in the memory of the input: the input is read as it was."""
    values = np.random.default_rng(shift).integers(-1000, 1000, (40, 5000))
    rows = pydp.field(values, device=device)
    sums = rows[0, shift : shift + 40]
    assert (pydp.reduce(rows, axis=1, out=sums).get() == values.sum(1)).all()
    pairs = pydp.field(values.reshape(-1, 2), device=device)
    halves = pairs.reshape(-1)[shift : shift + 100_000]
    assert (pydp.reduce(pairs[::-1], axis=1, out=halves).get() == values.reshape(-1, 2)[::-1].sum(1)).all()
    line = pydp.field(values.ravel(), device=device)
    taken = line[100:] if shift == 0 else line[:-shift]
    expected = np.sort(taken.get())
    result = line[shift : shift + len(expected)]
    pydp.sort(taken, out=result)
    assert (result.get() == expected).all()


def test_operands_of_different_sizes_of_one_buffer(device: Device) -> None:
    """Bytes that overlap are found for elements of any two sizes."""
    n = 100_000
    queue = device.queue
    for bytes_at in (0, 2 * n, 7 * n):
        raw = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 8 * n)
        wide = cla.Array(queue, (n,), np.int64, data=raw)
        narrow = cla.Array(queue, (n,), np.int8, data=raw, offset=bytes_at)
        values = np.random.default_rng(1).integers(-100, 100, n)
        narrow.set(values.astype(np.int8), queue=queue)
        pydp.scan(narrow, dtype=np.int64, out=wide)
        assert (wide.get() == np.cumsum(values)).all()
        wide.set(values, queue=queue)
        pydp.scan(wide, dtype=np.int8, out=narrow)
        assert (narrow.get() == np.cumsum(values).astype(np.int8)).all()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, gate: pydp.reduce(x, init=2, wait_for=gate),
        lambda x, gate: pydp.histogram(x, [0, 10, 500], wait_for=gate),
        lambda x, gate: pydp.scan(x, length=3, wait_for=gate),
        lambda x, gate: pydp.segmented_reduce(x, [0, 9, 1000], init=2, wait_for=gate),
        lambda x, gate: pydp.sum(x, where=[True] * 1000, wait_for=gate),
        lambda x, gate: pydp.searchsorted(x, 3, wait_for=gate),
        lambda x, gate: pydp.take(x, [0], wait_for=gate),
        lambda x, gate: pydp.put(x, [1], 3, wait_for=gate),
        lambda x, gate: pydp.dot(x, [1] * 1000, wait_for=gate),
        lambda x, gate: pydp.partition(x, [3, 4], wait_for=gate),
        lambda x, gate: pydp.scan(x, wait_for=gate).copy_in(np.zeros(1000, np.int32), blocking=False),
        lambda x, gate: pydp.scan(x, wait_for=gate)[::-1].copy_in(np.zeros(1000, np.int32), blocking=False),
        lambda x, gate: pydp.scan(x, wait_for=gate).copy_out(np.zeros(1000, np.int32), blocking=False),
    ],
    ids="init edges length segments where searched indexes put factors positions copy_in copy_in_view copy_out".split(),
)
def test_calls_with_values_from_the_host_wait_for_nothing(device: Device, call: Any) -> None:
    """pyopencl's event of a transfer waits for its end where it is dropped, and keeps all threads from running."""
    x = pydp.field(np.arange(1000, dtype=np.int32), device=device)
    call(x, None)
    device.queue.finish()
    gate = _open(device)
    opener = threading.Timer(60.0, gate.set_status, [cl.command_execution_status.COMPLETE])
    opener.start()
    call(x, gate)
    still_closed = gate.command_execution_status != cl.command_execution_status.COMPLETE
    opener.cancel()
    opener.join()
    if still_closed:
        gate.set_status(cl.command_execution_status.COMPLETE)
    device.queue.finish()
    assert still_closed


def test_transfers_that_have_ended_hold_no_memory_of_the_host(device: Device) -> None:
    field = pydp.field(np.arange(9.0, dtype=np.float32))
    values = field.get()
    kept = [weakref.ref(values)]
    del values
    for move in (field.copy_in, field.copy_out):
        values = np.zeros(9, np.float32)
        move(values)
        kept.append(weakref.ref(values))
        del values
    assert all(one() is None for one in kept)
    field.event.wait()


def test_threads_with_queues_of_their_own_share_what_they_read(device: Device) -> None:
    x = pydp.field(np.arange(1000, dtype=np.float32))

    def calls(number: int) -> None:
        for factor in range(number, number + 40):
            queue = cl.CommandQueue(device.context, device.cl) if factor % 3 else None
            out = pydp.zeros(1000, np.float32)
            pydp.forall(1000, _times, x, out, factor, queue=queue)
            if queue is not None:
                queue.finish()
            np.testing.assert_array_equal(out.get(), np.arange(1000) * factor)

    assert not together(partial(calls, number) for number in range(6))


def _times(idx, x, out, factor):
    out[idx] = x[idx] * factor


def test_queues_that_have_ended_are_forgotten(device: Device) -> None:
    memory = Storage(None, device)
    running = _open(device)
    held = cl.CommandQueue(device.context, device.cl)
    memory.note(running, held)
    for _ in range(40):
        queue = cl.CommandQueue(device.context, device.cl)
        event = cl.enqueue_marker(queue)
        memory.note(event, queue)
        event.wait()
    assert memory.others is not None and len(memory.others) < 12 and memory.others[held][0] is running
    running.set_status(cl.command_execution_status.COMPLETE)


class _Interrupting(cl.CommandQueue):
    """A queue whose first hash, or first comparison, runs a finalizer of the user."""

    finalizer: Any = None

    def _finalize(self) -> None:
        finalizer, self.finalizer = self.finalizer, None
        if finalizer is not None:
            finalizer()

    def __hash__(self) -> int:
        self._finalize()
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self._finalize()
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other


def test_the_events_of_what_interrupts_a_note_are_kept(device: Device, queues: list[cl.CommandQueue]) -> None:
    """A finalizer or a signal handler may use the memory in the thread that holds the lock."""
    first, second, third = queues
    interrupting = _Interrupting(device.context, device.cl)
    memory = Storage(None, device)
    events = [_open(device) for _ in range(5)]
    try:
        memory.note(events[0], interrupting)
        interrupting.finalizer = lambda: memory.note(events[1], second)
        memory.note(events[2], third)
        assert interrupting.finalizer is None
        assert set(memory.waits(first)) == set(events[:3])
        interrupting.finalizer = lambda: memory.note(events[3], first)
        found = memory.waits(second)
        assert interrupting.finalizer is None and events[0] in found and events[2] in found
        assert set(memory.waits(second)) == {events[0], events[2], events[3]}
    finally:
        for event in events:
            event.set_status(cl.command_execution_status.COMPLETE)


def _loose(device: Device) -> cl.CommandQueue:
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if not device.cl.queue_properties & mode:
        pytest.skip("the driver has in-order queues only")
    return cl.CommandQueue(device.context, device.cl, properties=mode)


def test_queues_may_be_dropped_while_their_commands_are_pending(device: Device) -> None:
    """In a process of its own, which hangs where the driver destroys the queue on the thread of its last command."""
    _loose(device)
    script = Path(__file__).with_name("run_dropped_queue.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["field", "numpy"])
def test_an_out_of_order_queue_is_held_while_its_commands_run(
    device: Device, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """On drivers that need it. Those of NumPy's arrays too, whose unmapping the call does not wait for."""
    _loose(device)
    if not device.quirks.hold_out_of_order_queues:
        monkeypatch.setattr(device, "quirks", replace(device.quirks, hold_out_of_order_queues=True))
    finished = []

    class Queue(cl.CommandQueue):
        def finish(self) -> None:
            finished.append(self.int_ptr)
            super().finish()

    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = Queue(device.context, device.cl, properties=mode)
    pointer = queue.int_ptr

    def held() -> int:
        for _ in range(20):
            returns.release_pending()
        one = held_queues._held.get(pointer)
        return len(one.events) if one is not None else -1

    gate = _open(device)
    with monkeypatch.context() as patch:
        if kind == "field":
            pydp.scan(pydp.field(np.ones(9, np.int32), device=device), queue=queue, wait_for=gate)
            commands = 1
        else:
            patch.setattr(held_queues, "has_ended", lambda event: False)
            pydp.scan(np.ones(9, np.int32), queue=queue)
            mapped = device.profile.shares_host_memory and not device.profile.direct_host_memory
            commands = 2 if mapped else 1
        assert held() == commands
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    finished.clear()
    assert held() == 0, "the caller holds it still"
    del queue
    assert held() == -1
    assert finished == [pointer]


def test_a_finalizer_may_release_held_queues_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = []

    class Held:
        queue = SimpleNamespace(finish=lambda: finished.append(True))
        interrupted = False

        def may_go(self) -> bool:
            if not self.interrupted:
                self.interrupted = True
                held_queues.release()
            return True

    monkeypatch.setattr(held_queues, "_held", {1: Held(), 2: Held()})
    held_queues.release()
    assert not held_queues._held and len(finished) == 2


def test_memory_of_a_deleted_field_is_not_written_by_another_queue(device):
    """The queue of the deleted field still has commands that read the memory."""

    def slow(idx, out, x, rounds):
        value = x[idx]
        for _ in range(rounds):
            value = value * np.float32(0.5) + x[idx]
        out[idx] = value

    n, rounds = 1 << 16, min(20_000, device.profile.loop_limit or 20_000)
    other = cl.CommandQueue(device.context, device.cl)
    x, out = pydp.full(n, -1, np.float32, device=device), pydp.zeros(n, np.float32, device=device)
    for _ in range(4):  # the later calls run from recordings
        y = pydp.full(n, 4, np.float32, device=device)
        pydp.forall(n, slow, out, y, rounds, device=device)
        del y
        pydp.scan(x, queue=other)
        np.testing.assert_array_equal(out.get(), 8)


def test_events_of_another_context_are_waited_for(device: Device) -> None:
    """Commands cannot wait for them: PoCL hangs, and Intel's runtime refuses the command."""
    context = cl.Context([device.cl])
    other = cl.CommandQueue(context)
    x = pydp.field(np.arange(1000, dtype=np.int32), device=device)
    keys = pydp.field(np.arange(1000, dtype=np.int32) // 10, device=device)
    own = pydp.scan(x).event
    calls: list[Callable[[cl.Event], Any]] = [
        lambda event: pydp.scan(x, wait_for=event),
        lambda event: pydp.unique(keys, return_counts=True, wait_for=[event, own])[1],
        lambda event: pydp.lexsort([x, keys], wait_for=event),
        lambda event: pydp.take(x, keys, wait_for=[event]),
    ]
    for call in calls:
        want = call(own).get()
        for _ in range(3):  # repeated calls are recorded
            event = cla.zeros(other, 1000, np.int32).events[-1]
            np.testing.assert_array_equal(call(event).get(), want)
            assert event.command_execution_status == cl.command_execution_status.COMPLETE


def test_events_that_failed_are_refused(device: Device) -> None:
    """Commands that wait for them never run."""
    x = pydp.field(np.ones(10, np.int32), device=device)
    for context in (device.context, cl.Context([device.cl])):
        event = cl.UserEvent(context)
        event.set_status(-5)
        with pytest.raises(InvalidArgument, match="an event of a command that failed with status -5"):
            pydp.scan(x, wait_for=event)


def test_user_events_by_pointer(device: Device) -> None:
    event = cl.UserEvent(device.context)
    event.set_status(cl.command_execution_status.COMPLETE)
    other = cl.Event.from_int_ptr(event.int_ptr)
    assert pydp.reduce(pydp.field(np.ones(10, np.int32), device=device), wait_for=[other]).get() == 10


@pytest.mark.parametrize("kind", ["array", "field"])
def test_reads_are_flushed_for_pyopencl(device: Device, kind: str) -> None:
    """On rusticl, pyopencl's command on another queue waits for ever otherwise."""
    other = cl.CommandQueue(device.context, device.cl)
    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    given = array
    if kind == "field":
        given = pydp.field(np.ones(1000, np.int32), device=device)
        array = given.array
    sums = pydp.scan(given)
    array = array.with_queue(other)
    array.fill(3, queue=other)
    assert array.get(queue=other)[0] == 3 and sums.get()[-1] == 1000


def test_threads_that_read_a_pyopencl_array(device: Device) -> None:
    """pyopencl and pydp change the Array's list of events."""
    field = pydp.field(np.ones(1000, np.int32), device=device)
    array = field.array
    queues = [None, *(cl.CommandQueue(device.context, device.cl) for _ in range(3))]

    def work(queue: Any) -> None:
        for _ in range(400):
            sums = pydp.scan(field, queue=queue)
        assert sums.get()[-1] == 1000

    for _ in range(3):
        assert not together(partial(work, queue) for queue in queues)
    assert array.get()[-1] == 1


def test_an_older_event_that_is_noted_later_replaces_no_newer_one(device: Device) -> None:
    """Two threads read a Field on one queue; pyopencl then writes on another one."""
    mine, other = (cl.CommandQueue(device.context, device.cl) for _ in range(2))
    field = pydp.field(np.ones(1000, np.int32), device=device)
    array, storage = field.array, field._storage
    older = cl.enqueue_marker(mine)
    gate = _open(device)
    try:
        sums = pydp.scan(field, queue=mine, wait_for=gate)
        storage.note(older, mine)
        array.with_queue(other).fill(3, queue=other)
        _given_time(other)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert sums.get()[-1] == 1000 and array.get()[-1] == 3


@pytest.mark.parametrize("reads", [9, 13, 30])
@pytest.mark.parametrize("kind", ["array", "field"])
def test_many_reads_of_a_pyopencl_array_do_not_wait(device: Device, kind: str, reads: int) -> None:
    """pyopencl waits if an Array has more than 12 events, here for ever. After 9 and 13 reads, a marker is
    the last event. The first four reads, whose events stay, end before the others."""
    other = cl.CommandQueue(device.context, device.cl)
    field = pydp.field(np.ones(1000, np.int32), device=device)
    array = field.array if kind == "field" else cla.to_device(device.queue, np.ones(1000, np.int32))
    device.queue.finish()
    del array.events[:]
    gate, second = _open(device), _open(device)
    try:
        given = field if kind == "field" else array
        sums = [pydp.scan(given, wait_for=gate if k < 4 else second) for k in range(reads)]
        events = array.events  # a failed assertion about the array would show its values, and wait
        assert len(events) < 12
        array.with_queue(other).fill(3, queue=other)
        gate.set_status(cl.command_execution_status.COMPLETE)
        _given_time(other)
    finally:
        _end(gate, second)
    assert all(one.get()[-1] == 1000 for one in sums) and array.get()[-1] == 3


def _storage_of(array: cla.Array, device: Device) -> Storage:
    return Storage(array.base_data, device, array=array)


def _ended(queue: cl.CommandQueue, count: int) -> list[cl.Event]:
    events = [cl.enqueue_marker(queue) for _ in range(count)]
    queue.finish()
    _wait_until_ended(events)
    return events


def _wait_until_ended(events: list[cl.Event]) -> None:
    """On rusticl, the status of an event changes a moment after its queue is finished."""
    while not all(map(held_queues.has_ended, events)):
        time.sleep(0.001)


@pytest.mark.parametrize("others", [3, 20])
def test_only_ended_events_and_those_of_the_queue_are_removed(
    device: Device, queues: list[cl.CommandQueue], monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """pyopencl's add_event in another thread may be waiting for the first four, and then removes the first four."""
    mine, other, third = queues
    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    device.queue.finish()
    monkeypatch.setattr(cl, "wait_for_events", lambda events: pytest.fail("the host waits"))
    gate = _open(device)
    try:
        ended = _ended(third, 6)
        first = [*ended[:2], *(cl.enqueue_marker(mine, wait_for=[gate]) for _ in range(2))]
        pending = [cl.enqueue_marker(other, wait_for=[gate]) for _ in range(others)]
        events = array.events  # a failed assertion about the array would show its values, and wait
        events[:] = [*first, *pending, *ended[2:]]
        storage = _storage_of(array, device)
        for _ in range(9):
            storage.note(cl.enqueue_marker(mine, wait_for=[gate]), mine)
            assert events[: 4 + others] == [*first, *pending] and events[-1].command_queue == mine
            assert len(events) <= max(8, 5 + others) and not any(one in events for one in ended[2:])
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)


def test_events_that_pyopencl_waits_for_in_another_thread(device: Device, queues: list[cl.CommandQueue]) -> None:
    """add_event of another thread waits while pydp records reads, and then removes the first four."""
    mine, other, _ = queues
    field = pydp.field(np.ones(1000, np.int32), device=device)
    array = field.array
    device.queue.finish()
    first, second = _open(device), _open(device)
    try:
        array.events[:] = [cl.enqueue_marker(mine, wait_for=[first]) for _ in range(12)]
        waiting = threading.Thread(target=array.add_event, args=(cl.enqueue_marker(mine),))
        waiting.start()
        while len(array.events) < 13:
            time.sleep(0.001)
        sums = [pydp.scan(field, queue=mine, wait_for=second) for _ in range(6)]
        first.set_status(cl.command_execution_status.COMPLETE)
        waiting.join()
        array.with_queue(other).fill(3, queue=other)
        _given_time(other)
    finally:
        _end(first, second)
    assert all(one.get()[-1] == 1000 for one in sums) and array.get()[-1] == 3


def test_uploads_that_failed_raise_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Intel's runtime, the event of a failed command may say that it is complete, and its wait raises."""

    class Failed:
        command_execution_status = cl.command_execution_status.COMPLETE
        command_queue = None

        def get_ward(self) -> Any:
            return self

        def wait(self) -> None:
            waited.append(self)
            raise cl.Error("the upload failed")

    waited: list[Failed] = []
    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    device.queue.finish()
    array.events[:] = [Failed() for _ in range(6)]
    monkeypatch.setattr(cl, "NannyEvent", Failed)
    for _ in range(20):
        assert pydp.reduce(array).get() == 1000
    assert waited and len(array.events) <= 8


def test_pending_uploads_are_not_waited_for(device: Device) -> None:
    """The event of an upload waits when it is deleted, and the thread that would end this wait cannot run."""
    array = cla.zeros(device.queue, 1000, np.int32)
    device.queue.finish()
    gate = _open(device)
    try:
        array.events[:] = [cl.enqueue_marker(device.queue, wait_for=[gate]) for _ in range(4)]
        array.set(np.ones(1000, np.int32), async_=True)
        sums = [pydp.scan(array) for _ in range(20)]
        assert gate.command_execution_status > cl.command_execution_status.COMPLETE
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert all(one.get()[-1] == 1000 for one in sums)


def test_events_that_ended_or_failed_are_not_waited_for(device: Device, queues: list[cl.CommandQueue]) -> None:
    """Drivers skip a command that waits for one that failed."""
    mine, other, _ = queues
    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    failed, gate = _open(device), _open(device)
    failed.set_status(-5)
    (ended,) = _ended(other, 1)
    try:
        pending = cl.enqueue_marker(other, wait_for=[gate])
        array.events[:] = [failed, ended, pending]
        found = _storage_of(array, device).waits(mine)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert found == [pending]


@pytest.mark.parametrize("before", [0, 5])
def test_the_events_of_uploads_hold_no_memory_of_the_host(device: Device, before: int) -> None:
    class Tracked(np.ndarray[Any, Any]):
        pass

    values = np.ones(1000, np.int32).view(Tracked)
    alive = weakref.ref(values)
    array = cla.to_device(device.queue, values)
    del values
    array.events[:0] = _ended(device.queue, before)
    _wait_until_ended(array.events)
    for _ in range(2):
        assert pydp.reduce(array).get() == 1000
    assert alive() is None


def test_the_marker_of_many_reads_is_in_time_and_flushed(
    device: Device, queues: list[cl.CommandQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On rusticl, pyopencl's commands on another queue wait for ever otherwise."""
    monkeypatch.setattr(device, "quirks", replace(device.quirks, flush_before_wait=True))
    calls = []

    class Queue(cl.CommandQueue):
        def flush(self) -> None:
            calls.append("flush")
            super().flush()

    def marker(queue: cl.CommandQueue, **given: Any) -> cl.Event:
        calls.append("marker")
        return enqueue_marker(queue, **given)

    def remove(some: list[cl.Event], *others: Any) -> None:
        assert "marker" in calls or not some  # another thread that copies the list finds the events or the marker
        removed(some, *others)

    enqueue_marker, removed = cl.enqueue_marker, storage_module._remove
    monkeypatch.setattr(storage_module.cl, "enqueue_marker", marker)
    monkeypatch.setattr(storage_module, "_remove", remove)
    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    device.queue.finish()
    del array.events[:]
    storage, mine, gate = _storage_of(array, device), Queue(device.context, device.cl), _open(device)
    try:
        events = array.events
        while "marker" not in calls:
            assert len(events) < 12
            storage.note(enqueue_marker(mine, wait_for=[gate]), mine)
        assert calls[-1] == "flush"
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)


def test_events_that_another_thread_removes_hide_no_others(device: Device, queues: list[cl.CommandQueue]) -> None:
    mine, other, _ = queues

    class Ended:
        """An event that another thread removes while it is looked at."""

        @property
        def command_execution_status(self) -> int:
            array.events.remove(self)
            return cl.command_execution_status.COMPLETE

    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    gate = _open(device)
    try:
        pending = cl.enqueue_marker(other, wait_for=[gate])
        array.events[:] = [Ended(), pending, Ended(), pending]
        found = _storage_of(array, device).waits(mine)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert found == [pending, pending]


def test_events_in_use_by_another_thread_are_kept(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyopencl passes the handles of an Array's events to the driver without holding the events."""
    array = cla.to_device(device.queue, np.ones(1000, np.int32))
    device.queue.finish()
    removed = _ended(device.queue, 20)
    finish = threading.Event()
    reading = threading.Thread(target=finish.wait)
    reading.start()
    try:
        array.events[:] = removed
        pydp.reduce(array).get()
        kept = [event for _, event in returns._removed]
        assert not any(event in array.events for event in removed[4:])
        assert all(any(event is one for one in kept) for event in removed[4:])
        monkeypatch.setattr(returns, "_IN_USE", -1.0)
        returns.release_pending()
        assert not returns._removed
    finally:
        finish.set()
        reading.join()
    monkeypatch.undo()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    array.events[:] = _ended(device.queue, 20)
    pydp.reduce(array).get()
    assert not returns._removed


@pytest.mark.parametrize("work", ["array", "command"])
def test_threads_that_use_a_field_while_its_array_is_made(
    device: Device, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """All Arrays on the memory share one list of events, and the list has every command."""
    field = pydp.field(np.ones(1000, np.int32), device=device)
    view, recorded = field[10:], cl.enqueue_marker(device.queue)
    other = threading.Thread(
        target=lambda: view.array if work == "array" else field._storage.note(recorded, device.queue)
    )

    def interrupted(self: Any, *given: Any) -> Any:
        if self is field:
            other.start()
            other.join(0.5)  # without a lock, it ends
        return new_array(self, *given)

    new_array = type(field)._new_array
    monkeypatch.setattr(type(field), "_new_array", interrupted)
    array = field.array
    other.join()
    assert view.array.events is array.events is field._storage.array.events
    assert work == "array" or any(event is recorded for event in array.events)


@pytest.mark.parametrize("second", ["in order", "out of order", "after another queue", "another object"])
def test_commands_of_two_threads_on_one_queue_are_both_waited_for(device: Device, second: str) -> None:
    """The thread whose command is the later one may record it first; on an out-of-order queue, both may be pending."""
    mine = _loose(device) if second == "out of order" else cl.CommandQueue(device.context, device.cl)
    other, third = (cl.CommandQueue(device.context, device.cl) for _ in range(2))
    ones = pydp.field(np.ones(1000, np.int32), device=device)
    fives = pydp.field(np.full(1000, 5, np.int32), device=device)
    device.queue.finish()
    older = cl.enqueue_marker(mine)
    gate = _open(device)
    try:
        sums = pydp.scan(ones, queue=mine, wait_for=gate)
        if second == "after another queue":
            ones._storage.note(cl.enqueue_marker(third), third)
        queue = cl.CommandQueue.from_int_ptr(mine.int_ptr) if second == "another object" else mine
        assert not together([lambda: ones._storage.note(older, queue)])
        pydp.transpose(fives, out=ones, queue=other)
        _given_time(other)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    mine.finish()
    assert sums.get()[-1] == 1000 and ones.get()[-1] == 5


@pytest.mark.parametrize("kind", ["out of order", "array"])
def test_the_event_of_a_queue_that_is_not_the_last_one(device: Device, kind: str) -> None:
    """A command of another queue was recorded after it, without a wait for it."""
    mine = _loose(device) if kind == "out of order" else device.queue
    third, other = (cl.CommandQueue(device.context, device.cl) for _ in range(2))
    ones = pydp.field(np.ones(1000, np.int32), device=device)
    fives = pydp.field(np.full(1000, 5, np.int32), device=device)
    device.queue.finish()
    gate = _open(device)
    try:
        sums = pydp.scan(ones, queue=mine, wait_for=gate)
        ones._storage.note(cl.enqueue_marker(third), third)
        if kind == "array":
            ones.array.with_queue(other).fill(5, queue=other)
            _given_time(other)
        else:
            pydp.transpose(fives, out=ones, queue=mine)
            _given_time(mine)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    mine.finish()
    assert sums.get()[-1] == 1000
    other.finish()
    assert ones.get()[-1] == 5


def test_one_thread_enqueues_no_markers(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for commands of several threads, and for long lists of pyopencl Arrays."""
    queues = [None, *(cl.CommandQueue(device.context, device.cl) for _ in range(2))]
    field = pydp.field(np.ones(1000, np.int32), device=device)
    gate = _open(device)
    try:
        field = pydp.scan(field, wait_for=gate)
        monkeypatch.setattr(storage_module.cl, "enqueue_marker", lambda *given, **named: pytest.fail("a marker"))
        for queue in 3 * queues:
            field = pydp.transpose(pydp.scan(field, queue=queue) - 1, queue=queue) + 1
            pydp.scan(field)
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert field.get().size == 1000


def test_commands_that_failed_are_not_waited_for(device: Device, queues: list[cl.CommandQueue]) -> None:
    first, second, third = queues
    memory = Storage(None, device)
    failed, pending = _open(device), _open(device)
    failed.set_status(-5)
    try:
        memory.note(failed, first)
        assert memory.waits(second) == []
        memory.note(pending, second)
        assert memory.waits(third) == [pending]
    finally:
        pending.set_status(cl.command_execution_status.COMPLETE)


def test_an_array_that_is_passed_several_times_has_one_event(device: Device) -> None:
    array = cla.to_device(device.queue, np.ones(10, np.int32))
    device.queue.finish()
    del array.events[:]
    assert pydp.concatenate([array] * 20).get().sum() == 200
    assert len(array.events) == 1
