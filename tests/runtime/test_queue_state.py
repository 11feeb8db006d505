"""State kept for the caller's queues and contexts is released with them, and is not used for another queue."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.algorithms import lookback
from pydp.runtime.drivers import devices
from pydp.runtime.drivers.devices import from_queue, known_devices
from pydp.runtime.memory import deferred_release as returns
from pydp.runtime.memory import queue_state, scratch
from pydp.runtime.memory.queue_state import state_of


@pytest.fixture
def no_collection(device: Any) -> Iterator[None]:
    """Objects that such a test releases have no references left; no cycle collection releases them."""
    if device.profile.is_simulator:
        pytest.skip("the lane of the simulator keeps every buffer")
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def queue_of_own_context(device: Any) -> cl.CommandQueue:
    """A queue of a new context, which it keeps: not every driver's queues do by themselves."""
    context = cl.Context([device.cl])
    queue = cl.CommandQueue(context, device.cl)
    assert queue.context == context  # pyopencl keeps what it was asked for
    return queue


def contexts() -> int:
    return sum(type(one) is cl.Context for one in gc.get_objects())


def _doubled(idx: Any, a: Any) -> None:
    a[idx] = a[idx] * 2


def _everything(device: Any, context: cl.Context, queue: cl.CommandQueue) -> None:
    """Calls of all algorithms in a context of the caller's, with NumPy arrays, pyopencl's and Fields."""
    x = np.arange(100, dtype=np.int32)
    assert pydp.scan(x, queue=queue)[-1] == x.sum()
    array = cl.array.to_device(queue, x)
    assert int(pydp.reduce(array).get()) == x.sum()
    assert np.array_equal(pydp.sort(array).get(), x)
    assert np.array_equal(pydp.histogram(array, 5)[0].get(), np.histogram(x, 5)[0])
    pydp.forall(100, _doubled, array)
    assert np.array_equal(array.get(), 2 * x)
    square = cl.array.to_device(queue, np.ones((12, 12), np.float32))
    assert (pydp.matmul(square, pydp.transpose(square)).get() == 12).all()
    field = pydp.field(x, device=from_queue(queue))
    assert field.device.context == context
    assert np.array_equal((field + 1).get(), x + 1)
    scratch.give(scratch.take(from_queue(queue), queue, 1 << 22))  # on large pages, where a queue maps it
    queue.finish()


def test_contexts_that_the_caller_has_dropped_are_released(device: Any, no_collection: None) -> None:
    before, gone = contexts(), []
    for _ in range(6):
        context = cl.Context([device.cl])
        queue = cl.CommandQueue(context, device.cl)
        _everything(device, context, queue)
        gone.append(weakref.ref(from_queue(queue)))
        del context, queue
        returns.release_pending()
    assert sum(one() is not None for one in gone) <= devices._MOST_DROPPED
    assert contexts() - before <= 2 * devices._MOST_DROPPED
    assert len(known_devices()) <= len(devices.all_devices()) + devices._MOST_DROPPED


def test_many_contexts_one_after_the_other(device: Any, no_collection: None) -> None:
    before, x = contexts(), np.arange(10, dtype=np.int32)
    for number in range(10):
        queue = queue_of_own_context(device)
        array = cl.array.to_device(queue, x)
        assert np.array_equal((pydp.field(array, device=from_queue(queue)) + number).get(), x + number)
        del queue, array
        assert contexts() - before <= 3 * devices._MOST_DROPPED


def test_a_context_in_use_keeps_its_kernels(device: Any, no_collection: None) -> None:
    context = cl.Context([device.cl])
    queue = cl.CommandQueue(context, device.cl)
    first = from_queue(queue)
    x = np.arange(10, dtype=np.int32)
    assert pydp.scan(x, queue=queue)[-1] == x.sum()
    kept = first.programs.count_alive()
    for _ in range(2 * devices._MOST_DROPPED + 1):  # others come and go
        from_queue(queue_of_own_context(device))
    assert kept and from_queue(queue) is first and first.programs.count_alive() == kept
    # A queue for each call: the context's device is that of the call before.
    for _ in range(3):
        queue = cl.CommandQueue(context, device.cl)
        assert from_queue(queue) is first
        assert pydp.scan(x, queue=queue)[-1] == x.sum()
    assert first.programs.count_alive() == kept


def test_a_field_keeps_its_context(device: Any, no_collection: None) -> None:
    x = np.arange(10, dtype=np.int32)
    field = pydp.field(x, device=from_queue(queue_of_own_context(device)))
    for _ in range(2 * devices._MOST_DROPPED + 1):
        from_queue(queue_of_own_context(device))
    assert np.array_equal((field * 2).get(), x * 2)
    assert from_queue(field.device.queue) is field.device


def test_memory_of_a_queue_goes_with_it(device: Any, no_collection: None) -> None:
    pools, states = [], []
    for _ in range(5):
        queue = cl.CommandQueue(device.context, device.cl)
        scratch.give(scratch.take(device, queue, 5000))
        assert scratch.pool_of(queue).idle_bytes >= 5000
        pydp.scan(pydp.field(np.arange(300_000, dtype=np.int32)), queue=queue)
        queue.finish()
        pools.append(weakref.ref(scratch.pool_of(queue)))
        states.append(weakref.ref(lookback._state(queue)))
        assert state_of(queue).parts.keys() == {type(pools[-1]()), type(states[-1]())}
        del queue
        pydp.field(np.arange(4)).get()
        returns.release_pending()
    assert all(one() is None for one in [*pools[:-1], *states[:-1]])


def test_queues_of_the_same_address_share_nothing(device: Any, no_collection: None) -> None:
    """Drivers give the address of a queue that is gone to the next one."""
    seen: dict[int, int] = {}
    again = 0
    for number in range(30):
        queue = queue_of_own_context(device) if number % 2 else cl.CommandQueue(device.context, device.cl)
        again += queue.int_ptr in seen
        seen[queue.int_ptr] = number
        assert not state_of(queue).parts and state_of(queue).device is None
        assert from_queue(queue).context == queue.context
        scratch.give(scratch.take(from_queue(queue), queue, 100))
        assert lookback._state(queue).tag == 0
        del queue
    if not again:
        pytest.skip("no address was used twice")


def test_buffers_that_are_never_given_back_are_not_remembered(device: Any, no_collection: None) -> None:
    queue = cl.CommandQueue(device.context, device.cl)
    for _ in range(5):
        scratch.take(device, queue, 100)  # dropped at once
    pool = scratch.pool_of(queue)
    assert pool.idle_bytes == 0
    other = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 1024)  # at the address of one of them, maybe
    scratch.give(other)
    assert pool.idle_bytes == 0
    mine = scratch.take(device, queue, 100)
    scratch.give(mine)
    scratch.give(mine)
    assert pool.idle_bytes == 1024 and [len(one) for one in pool.idle.values()] == [1]


def test_of_many_queues_only_some_keep_memory(
    device: Any, no_collection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_state, "MOST_HOLDING", 4)
    queues = [cl.CommandQueue(device.context, device.cl) for _ in range(12)]
    for turn in range(3):
        for number, queue in enumerate(queues):
            x = np.arange(200_000 + number, dtype=np.int32)
            assert pydp.scan(pydp.field(x), dtype=np.int64, queue=queue).get()[-1] == x.sum(dtype=np.int64)
            buffer = scratch.take(device, queue, 3000 * (turn + 1))
            scratch.give(buffer)
        holding = [queue for queue in queues if scratch.pool_of(queue).idle_bytes]
        holding += [queue for queue in queues if lookback._state(queue).nbytes]
        assert len(holding) <= 4
        assert scratch.pool_of(queues[-1]).idle_bytes
