"""Scratch buffers are used again, never by two at once, and running out is a typed error."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pytest

from pydp.errors import InvalidArgument, OutOfResources
from pydp.runtime.drivers.devices import Device
from pydp.runtime.memory import host_memory
from pydp.runtime.memory import scratch as module
from pydp.runtime.memory.scratch import give, take
from pydp.runtime.programs.program import kernel


@contextlib.contextmanager
def scratch(device: Device, queue: cl.CommandQueue, nbytes: int) -> Iterator[cl.Buffer]:
    buffer = take(device, queue, nbytes)
    yield buffer
    give(buffer)


@pytest.fixture
def queue(device: Device) -> cl.CommandQueue:
    return cl.CommandQueue(device.context, device.cl)


def test_a_buffer_is_used_again_on_its_queue_only(device: Device, queue: cl.CommandQueue) -> None:
    with scratch(device, queue, 5000) as first:
        assert first.size >= 5000
        with scratch(device, queue, 5000) as second:
            assert second.int_ptr != first.int_ptr
    with scratch(device, queue, 4990) as again:
        assert again.int_ptr in (first.int_ptr, second.int_ptr)
    other = cl.CommandQueue(device.context, device.cl)
    with scratch(device, other, 5000) as elsewhere:
        assert elsewhere.int_ptr not in (first.int_ptr, second.int_ptr)


def test_take_and_give(device: Device, queue: cl.CommandQueue) -> None:
    buffer = take(device, queue, 0)
    assert buffer.size >= 1
    give(buffer, None)
    give(buffer, None)  # a second time changes nothing
    first, second = take(device, queue, 0), take(device, queue, 0)
    assert first.int_ptr == buffer.int_ptr != second.int_ptr
    give(first)
    give(second)
    give(cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64))  # not from the pool: left alone


def test_an_out_of_order_queue_keeps_a_buffer_until_its_event(device: Device) -> None:
    needs.out_of_order_queues(device)
    properties = cl.command_queue_properties
    queue = cl.CommandQueue(device.context, device.cl, properties=properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    pending = cl.UserEvent(device.context)
    buffer = take(device, queue, 100)
    give(buffer, pending)
    other = take(device, queue, 100)
    assert other.int_ptr != buffer.int_ptr
    pending.set_status(cl.command_execution_status.COMPLETE)
    assert take(device, queue, 100).int_ptr == buffer.int_ptr


def test_an_out_of_order_queue_keeps_a_buffer_that_comes_without_an_event(device: Device) -> None:
    needs.out_of_order_queues(device)
    if device.driver == "rusticl":
        pytest.skip("the driver waits for events of the host where commands are enqueued")
    properties = cl.command_queue_properties
    queue = cl.CommandQueue(device.context, device.cl, properties=properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    pending = cl.UserEvent(device.context)
    buffer = take(device, queue, 100)
    cl.enqueue_fill_buffer(queue, buffer, np.zeros(1, np.uint8), 0, 100, wait_for=[pending])
    give(buffer)
    other = take(device, queue, 100)
    pending.set_status(cl.command_execution_status.COMPLETE)
    assert other.int_ptr != buffer.int_ptr
    queue.finish()


def test_size_classes_waste_little() -> None:
    generator = random.Random(1)
    for nbytes in [0, 1, 1024, 1025, 4096, 1 << 20, (1 << 20) + 1, *(generator.randrange(1 << 34) for _ in range(500))]:
        size = module.size_class(nbytes)
        assert nbytes <= size <= max(1024, nbytes + nbytes / 7 + 128)
        assert module.size_class(size) == size


def test_idle_memory_is_bounded_and_can_be_dropped(
    device: Device, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_IDLE_BYTES", 1 << 20)
    module.pool_of(queue).share = 0
    buffers = [take(device, queue, 300_000) for _ in range(6)]
    for buffer in buffers:
        give(buffer)
    pool = module.pool_of(queue)
    assert 0 < pool.idle_bytes <= 1 << 20
    assert pool.idle_bytes == sum(size * len(entries) for size, entries in pool.idle.items())
    pool.drop()
    assert pool.idle_bytes == 0 and not pool.idle


def test_interrupts_do_not_spoil_the_count_of_idle_memory(
    device: Device, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_IDLE_BYTES", 1 << 20)
    pool = module.pool_of(queue)
    pool.share = 0

    class Entries(list[object]):
        def pop(self, position: Any = -1) -> Any:
            super().pop(position)
            raise KeyboardInterrupt  # as after a call in C

    large = take(device, queue, 1 << 20)
    pool.idle[large.size] = Entries()  # type: ignore[assignment]
    give(take(device, queue, 300_000))
    with pytest.raises(KeyboardInterrupt):
        give(large)
    for buffer in [take(device, queue, 300_000) for _ in range(8)]:
        give(buffer)
    assert pool.idle_bytes == sum(size * len(entries) for size, entries in pool.idle.items()) > 0


def test_what_is_not_accepted(device: Device, queue: cl.CommandQueue) -> None:
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        take(device, queue, -1)
    with pytest.raises(OutOfResources, match="bytes of scratch"):
        take(device, queue, 1 << 60)


def test_a_pool_may_be_used_by_what_interrupts_it(
    device: Device, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a finalizer or a signal handler does, which runs in the thread that holds the pool's lock."""
    pool = module.pool_of(queue)
    kept = [take(device, queue, 5000) for _ in range(2)]
    for one in kept:
        give(one)
    nested: list[cl.Buffer] = []

    class Entries(list[object]):
        def __len__(self) -> int:
            self.interrupt()
            return super().__len__()

        def append(self, entry: object) -> None:
            self.interrupt()
            super().append(entry)

        def interrupt(self) -> None:
            if len(nested) < 2:
                nested.append(kept[0])
                nested[-1] = take(device, queue, 5000)
                give(take(device, queue, 5000))
                pool.drop()

    (size,) = pool.idle
    pool.idle[size] = Entries(pool.idle[size])  # type: ignore[assignment]
    mine = take(device, queue, 5000)
    assert len(nested) == 1 and mine.int_ptr in [one.int_ptr for one in kept]
    assert nested[0].int_ptr not in [one.int_ptr for one in kept]
    assert pool.idle_bytes == size
    give(mine)
    assert len(nested) == 2 and pool.idle_bytes == 2 * size and len(pool.idle[size]) == 2
    for one in nested:
        give(one)
    assert pool.idle_bytes == 4 * size and len(pool.idle[size]) == 4


def test_threads_never_share_a_buffer(device: Device, queue: cl.CommandQueue) -> None:
    out: set[int] = set()

    def work(seed: int) -> bool:
        generator, right = random.Random(seed), True
        for _ in range(200):
            with scratch(device, queue, generator.choice([100, 2000, 2001, 50000])) as buffer:
                right &= buffer.int_ptr not in out
                out.add(buffer.int_ptr)
                time.sleep(0)
                out.discard(buffer.int_ptr)
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    idle = [buffer.int_ptr for entries in module.pool_of(queue).idle.values() for buffer, _ in entries]
    assert idle and len(set(idle)) == len(idle)


def test_devices_with_memory_of_their_own_keep_more() -> None:
    own: Any = SimpleNamespace(host_unified_memory=False, global_mem_size=80 << 30)
    shared: Any = SimpleNamespace(host_unified_memory=True, global_mem_size=80 << 30)
    assert module._share_of(own) == 10 << 30
    assert module._share_of(shared) == 1 << 30
    shared.global_mem_size = 8 << 30
    assert module._share_of(shared) == 1 << 29


def test_idle_memory_is_freed_for_other_buffers(
    device: Device, queue: cl.CommandQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(take(device, queue, 5000))
    pool, plain, tries = module.pool_of(queue), host_memory.new_buffer, []

    def full(context: cl.Context, flags: int, nbytes: int) -> cl.Buffer:
        tries.append(pool.idle_bytes)
        if pool.idle_bytes:
            raise cl.MemoryError("full")
        return plain(context, flags, nbytes)

    monkeypatch.setattr(host_memory, "new_buffer", full)
    assert host_memory.create(device.context, cl.mem_flags.READ_WRITE, 100).size == 100
    assert len(tries) == 2 and tries[0] and not tries[1]


def test_idle_memory_is_freed_for_a_launch(device: Device, queue: cl.CommandQueue) -> None:
    """Some drivers allocate a buffer at its first use."""
    params: dict[str, object] = {"type": "float", "width": 1, "chains": 1, "group": 1, "fused": True, "hints": False}
    made = kernel(device, "bench_limits.mako", "limit_peak", params)
    args = [cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4), np.int32(0), np.float32(0)]
    give(take(device, queue, 5000))
    pool, one, tries = module.pool_of(queue), made._idle[-1], []
    plain = one.enqueue

    class LacksMemory(Exception):
        code = -4

    def enqueue(*given: Any) -> Any:
        tries.append(pool.idle_bytes)
        if pool.idle_bytes:
            raise LacksMemory
        return plain(*given)

    one.enqueue = enqueue
    try:
        made.enqueue(queue, (1,), (1,), args).wait()
    finally:
        one.enqueue = plain
    assert len(tries) == 2 and tries[0] and not tries[1]
