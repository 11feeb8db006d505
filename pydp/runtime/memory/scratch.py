"""Scratch memory: reusable buffers from one pool per queue.

    buffer = take(device, queue, nbytes)
    ... enqueue kernels that use buffer on queue ...
    give(buffer)

Commands on an in-order queue run in sequence, so a buffer can be reused as soon as its last use is enqueued. On an
out-of-order queue, it can be reused when the event passed to `give` is complete. A pool is released with its queue. A
buffer in use refers to its pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydp.errors import InvalidArgument, OutOfResources
from pydp.runtime.memory.queue_state import QueueMemory, state_of

if TYPE_CHECKING:
    import pyopencl as cl

    from pydp.runtime.device.core import DeviceCore

_SMALLEST = 1024
_MAX_IDLE_BYTES = 256 << 20  # idle bytes that a pool keeps; above it, the largest idle buffers are freed
_IDLE_SHARE = 8  # the pools of a device with its own memory may keep 1/8 of this memory together
# The same on devices that share the host's memory: 1/16 of it, and at most these bytes.
_HOST_SHARE, _MOST_OF_HOST = 16, 1 << 30
_LENT = "_pydp_lent"  # attribute of a buffer in use: its pool, size class and queue


class _Pool(QueueMemory):
    """The idle buffers of one queue, by size."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        import pyopencl

        super().__init__()
        self.in_order = not queue.properties & pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.idle: dict[int, list[tuple[cl.Buffer, cl.Event | None]]] = {}
        self.idle_bytes = 0
        self.device = queue.device
        self.share = _share_of(queue.device)

    def most_idle_bytes(self) -> int:
        """The most bytes that this pool keeps. All pools of a device have one share together."""
        others = [one for one in QueueMemory.all() if isinstance(one, _Pool) and one is not self]
        kept = sum(one.idle_bytes for one in others if one.device == self.device)
        return max(_MAX_IDLE_BYTES, self.share - kept)

    def take(self, device: DeviceCore, size: int) -> cl.Buffer:
        """A buffer of a size of :func:`size_class`."""
        buffer = None
        with self.lock:
            if not self.busy:
                try:
                    self.busy = True
                    buffer = self._from_idle(size)
                finally:
                    self.busy = False
        return self._allocate(device, size) if buffer is None else buffer

    def _from_idle(self, size: int) -> cl.Buffer | None:
        entries = self.idle.get(size, [])
        for position in range(len(entries) - 1, -1, -1):
            if self.in_order or _is_complete(entries[position][1]):
                buffer, _ = entries.pop(position)
                self.idle_bytes -= size
                return buffer
        return None

    def _allocate(self, device: DeviceCore, size: int) -> cl.Buffer:
        import pyopencl

        from pydp.runtime.memory.large_pages import new_buffer

        limit = device.profile.max_allocation
        if limit and size > limit:
            raise OutOfResources(f"{size} bytes of scratch memory exceed the limit of {device.name!r}, {limit} bytes")
        for last_try in (False, True):
            try:
                return new_buffer(device.context, pyopencl.mem_flags.READ_WRITE, size)
            except pyopencl.Error as error:
                if last_try:
                    raise OutOfResources(
                        f"{device.name!r} cannot allocate {size} bytes of scratch memory: {error}"
                    ) from error
                self.drop_all()
        raise AssertionError("unreachable")

    def give(self, buffer: cl.Buffer, size: int, event: cl.Event | None) -> None:
        """Return a buffer; see :func:`give`."""
        most = self.most_idle_bytes() if self.idle_bytes + size > _MAX_IDLE_BYTES else _MAX_IDLE_BYTES
        with self.lock:
            if self.busy:  # drop the buffer; the driver keeps it for the commands that use it
                return
            try:
                self.busy = True
                self.idle.setdefault(size, []).append((buffer, event))
                self.idle_bytes += size
                if self.idle_bytes > most:
                    # Count again: an interrupt may have kept an earlier change out.
                    self.idle_bytes = sum(size * len(entries) for size, entries in self.idle.items())
                while self.idle_bytes > most:
                    largest = max(size for size, entries in self.idle.items() if entries)
                    self.idle[largest].pop(0)
                    self.idle_bytes -= largest
            finally:
                self.busy = False
        self.holds()

    def drop(self) -> None:
        """Free the idle buffers."""
        with self.lock:
            if self.busy:
                return
            try:
                self.busy = True
                idle, self.idle, self.idle_bytes = self.idle, {}, 0
            finally:
                self.busy = False
        del idle  # after the lock, because it takes time


def _share_of(device: cl.Device) -> int:
    """The bytes that all pools of a device keep for later calls. New memory often takes longer to get than to use: on
    CPUs, the system clears its pages."""
    import pyopencl

    try:
        if device.host_unified_memory:
            return min(device.global_mem_size // _HOST_SHARE, _MOST_OF_HOST)
        return device.global_mem_size // _IDLE_SHARE
    except pyopencl.Error:  # later versions of OpenCL need not answer
        return 0


def _is_complete(event: cl.Event | None) -> bool:
    import pyopencl

    return event is None or event.command_execution_status == pyopencl.command_execution_status.COMPLETE


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of eight sizes per power of two, which limits the number of distinct sizes."""
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << max(7, (nbytes - 1).bit_length() - 4)
    return (nbytes + step - 1) // step * step


def pool_of(queue: cl.CommandQueue) -> _Pool:
    """The pool of a queue."""
    parts = state_of(queue).parts
    found: _Pool | None = parts.get(_Pool)
    return parts.setdefault(_Pool, _Pool(queue)) if found is None else found


def take(device: DeviceCore, queue: cl.CommandQueue, nbytes: int) -> cl.Buffer:
    """An uninitialized buffer of at least `nbytes` on `device` for commands on `queue`.

    Return it with :func:`give`. Raises OutOfResources if the device has too little memory, InvalidArgument for a
    negative size.
    """
    if nbytes < 0:
        raise InvalidArgument(f"the size of scratch memory is {nbytes} bytes; 0 or more are accepted")
    pool, size = pool_of(queue), size_class(int(nbytes))
    buffer = pool.take(device, size)
    setattr(buffer, _LENT, (pool, size, queue))
    return buffer


def give(buffer: cl.Buffer, event: cl.Event | None = None) -> None:
    """Return a buffer from :func:`take` to its pool after its last use is enqueued. `event` belongs to that use; it is
    needed only on out-of-order queues, where None waits for all commands enqueued so far. Other buffers are ignored."""
    lent = getattr(buffer, "__dict__", {}).pop(_LENT, None)  # atomic: only one of several threads gets it
    if lent is None:
        return
    pool, size, queue = lent
    if event is None and not pool.in_order:
        import pyopencl

        event = pyopencl.enqueue_marker(queue)
    pool.give(buffer, size, event)
