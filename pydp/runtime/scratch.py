"""Scratch memory: buffers that are used again, from one pool per queue.

    with scratch(device, queue, nbytes) as buffer:
        ... enqueue kernels that use buffer on queue ...

The commands of an in-order queue run one after the other, so a buffer may be handed out again as soon as its
last use is enqueued. On an out-of-order queue it waits for the event that it was given back with.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydp.errors import InvalidArgument, OutOfResources

if TYPE_CHECKING:
    import pyopencl as cl

    from pydp.runtime.device import Device

_SMALLEST = 1024
_MAX_IDLE_BYTES = 256 << 20  # beyond it the largest idle buffers are dropped
_MAX_POOLS = 16
_lock = threading.Lock()
_lent: dict[int, _Pool] = {}  # pointer of a buffer that is out -> its pool


class _Pool:
    """The idle buffers of one queue, by size."""

    def __init__(self, device: Device, queue: cl.CommandQueue) -> None:
        import pyopencl

        self.device = device
        self.queue = queue
        self.in_order = not queue.properties & pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.idle: dict[int, list[tuple[cl.Buffer, cl.Event | None]]] = {}
        self.idle_bytes = 0
        self.lent: dict[int, int] = {}  # pointer of a buffer that is out -> its size class
        self.lock = threading.Lock()

    def take(self, nbytes: int) -> cl.Buffer:
        size = _size_class(nbytes)
        with self.lock:
            buffer = self._from_idle(size)
            if buffer is None:
                buffer = self._allocate(size)
            self.lent[buffer.int_ptr] = size
            _lent[buffer.int_ptr] = self
        return buffer

    def _from_idle(self, size: int) -> cl.Buffer | None:
        import pyopencl

        entries = self.idle.get(size, [])
        for position in range(len(entries) - 1, -1, -1):
            buffer, event = entries[position]
            done = pyopencl.command_execution_status.COMPLETE
            if self.in_order or event is None or event.command_execution_status == done:
                del entries[position]
                self.idle_bytes -= size
                return buffer
        return None

    def _allocate(self, size: int) -> cl.Buffer:
        import pyopencl

        from pydp.runtime.large_pages import new_buffer

        limit = self.device.profile.max_allocation
        if limit and size > limit:
            raise OutOfResources(f"{size} bytes of scratch are more than the {limit} that {self.device.name!r} gives")
        for last_try in (False, True):
            try:
                return new_buffer(self.device.context, pyopencl.mem_flags.READ_WRITE, size)
            except pyopencl.Error as error:
                if last_try:
                    raise OutOfResources(f"{self.device.name!r} has no {size} bytes for scratch: {error}") from error
                self.drop()
        raise AssertionError("unreachable")

    def give(self, buffer: cl.Buffer, event: cl.Event | None) -> None:
        import pyopencl

        with self.lock:
            size = self.lent.pop(buffer.int_ptr, None)
            _lent.pop(buffer.int_ptr, None)
            if size is None:
                return
            if not self.in_order and event is None:
                event = pyopencl.enqueue_marker(self.queue)
            self.idle.setdefault(size, []).append((buffer, event))
            self.idle_bytes += size
            while self.idle_bytes > _MAX_IDLE_BYTES:
                largest = max(size for size, entries in self.idle.items() if entries)
                self.idle[largest].pop(0)
                self.idle_bytes -= largest

    def drop(self) -> None:
        """Free the idle buffers; the caller holds the lock."""
        self.idle.clear()
        self.idle_bytes = 0


def _size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of eight sizes per power of two, so that a pool holds few distinct ones."""
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << max(7, (nbytes - 1).bit_length() - 4)
    return (nbytes + step - 1) // step * step


def _pool(device: Device, queue: cl.CommandQueue) -> _Pool:
    key = queue.int_ptr
    pool = device.pools.get(key)
    if pool is None:
        with _lock:
            pool = device.pools.get(key)
            if pool is None:
                if len(device.pools) >= _MAX_POOLS:
                    for other in [k for k, one in device.pools.items() if not one.lent]:
                        del device.pools[other]
                pool = device.pools[key] = _Pool(device, queue)
    return pool


def take(device: Device, queue: cl.CommandQueue, nbytes: int) -> cl.Buffer:
    """A buffer of at least `nbytes` on `device` for commands of `queue`; its content is anything.

    Give it back with :func:`give`. Raises OutOfResources where the device has no room, InvalidArgument for a
    negative size.
    """
    if nbytes < 0:
        raise InvalidArgument(f"scratch of {nbytes} bytes was asked for; at least 0 are accepted")
    return _pool(device, queue).take(int(nbytes))


def give(buffer: cl.Buffer, event: cl.Event | None = None) -> None:
    """Give back a buffer of :func:`take` once its last use is enqueued; `event` is that use's (needed only on
    out-of-order queues, where None stands for all that the queue holds now). Another buffer is left alone."""
    pool = _lent.get(buffer.int_ptr)
    if pool is not None:
        pool.give(buffer, event)


@contextlib.contextmanager
def scratch(device: Device, queue: cl.CommandQueue, nbytes: int) -> Iterator[Any]:
    """A buffer of at least `nbytes` for the commands that the block enqueues on `queue`."""
    pool = _pool(device, queue)
    buffer = take(device, queue, nbytes)
    try:
        yield buffer
    finally:
        pool.give(buffer, None)
