"""Storage: a device buffer and the events that order its uses, shared by all views of the buffer.

The classes `LazyStorage` and `GuardedStorage` are states of a Storage: the object changes its class. All uses of memory
read `buffer` first, or call `waits` or `last_event`. In these two states this first computes what must be computed; in
the normal state it costs nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

import pyopencl as cl

from pydp.errors import InvalidArgument
from pydp.runtime.forks import fork_safe, releases
from pydp.runtime.memory.deferred_release import keep_for_threads, later, release_pending
from pydp.runtime.memory.held_queues import has_ended
from pydp.runtime.memory.host_memory import create
from pydp.runtime.memory.released import is_released
from pydp.runtime.memory.scratch import take

# Protects the events of all storages; without it, threads that use a storage on several queues would lose events. It is
# reentrant, because a finalizer or a signal handler may use a storage in a thread that holds the lock.
_order = fork_safe(threading.RLock())
# Protects the results that are not computed yet, of all devices, and is held while one is computed.
lazy_lock = fork_safe(threading.RLock())
_MOST_OTHERS = 8  # queues; above this, completed events are removed
_MOST_EVENTS = 8  # of an Array; above this, pydp removes some
_FIRST_EVENTS = 4  # pyopencl's `add_event` waits for these if there are more than 12 events, and then removes them
_POOLED_FROM = 1 << 16  # bytes; above this, a pool lookup is cheaper than new pages


def check_alive(buffer: Any, context: cl.Context, what: str) -> None:
    """Raise InvalidArgument if a buffer has been released, or if the memory is no buffer."""
    if buffer is not None and not isinstance(buffer, cl.MemoryObjectHolder):
        raise InvalidArgument(
            f"the memory of {what} is {type(buffer).__name__}; memory in a pyopencl.Buffer is accepted"
        )
    if is_released(buffer, context):
        raise InvalidArgument(
            f"the memory of {what} has been released; an array whose memory is still allocated is needed"
        )


def memory_of(buffer: Any) -> tuple[int, int]:
    """(pointer of the memory object, byte offset): of the parent for a sub-buffer, else of the buffer itself with 0."""
    try:
        parent = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
        if parent is not None:
            return parent.int_ptr, buffer.get_info(cl.mem_info.OFFSET)
        return buffer.int_ptr, 0
    except (AttributeError, cl.Error):
        return id(buffer), 0


def allocation(device: Any, queue: cl.CommandQueue, nbytes: int) -> tuple[Any, cl.CommandQueue | None]:
    """A new buffer for a first use on `queue`, and the queue of its pool; None if it is from no pool."""
    if _POOLED_FROM <= nbytes <= device.profile.max_allocation // 8 * 7:
        release_pending()
        return take(device, queue, nbytes), queue
    return create(device.context, cl.mem_flags.READ_WRITE, nbytes), None


@dataclass(slots=True, weakref_slot=True, eq=False)
class Storage:
    """A device buffer with the last event of every queue that used it.

    Commands on one in-order queue need no wait lists. Events matter only if a second queue uses the buffer; `others` is
    None until then. `thread` recorded `event`; `others` has the threads of its events, too. `array` is a pyopencl Array
    on the memory, if there is one. All such Arrays share one list of events, which pydp reads and updates. Memory from
    a pool of scratch memory has the pool's queue as `pool_queue`, and returns to the pool if no other queue or Array
    has used it. `lazy` belongs to the states below.
    """

    buffer: Any
    device: Any
    queue: cl.CommandQueue | None = None
    event: cl.Event | None = None
    thread: int = field(default_factory=get_ident)
    array: Any = None
    others: dict[cl.CommandQueue, tuple[cl.Event, int]] | None = None
    pool_queue: cl.CommandQueue | None = None
    lazy: Any = None

    @classmethod
    def allocated(cls, device: Any, queue: cl.CommandQueue, nbytes: int) -> Storage:
        """New memory for a first use on `queue`. Larger memory returns to a pool after its last view is deleted."""
        made = cls(None, device, queue)
        made.buffer, made.pool_queue = allocation(device, queue, nbytes)
        return made

    def check_alive(self) -> None:
        """Raise InvalidArgument if the user has released the memory. That is possible only through a pyopencl Array."""
        if self.array is not None:
            check_alive(self.buffer, self.device.context, "a field")

    def last_event(self) -> cl.Event | None:
        """The event of the last command that used the memory."""
        return self.event

    def waits(self, queue: cl.CommandQueue, loose: bool = False) -> list[cl.Event]:
        """The events that a command on `queue` must wait for before it uses the memory; `loose` means an out-of-order
        queue."""
        last: list[tuple[cl.CommandQueue | None, cl.Event]] = []
        with _order:
            if self.event is not None and (loose or self.queue is not queue):
                last.append((self.queue, self.event))
            if self.others is not None:
                last += [(other, event) for other, (event, _) in self.others.items() if loose or other != queue]
        for other, _ in last:
            if other is not None:
                other.flush()  # some drivers start commands only after a flush
        found = [event for _, event in last if not _has_failed(event)]
        if self.array is not None and self.array.events:
            found += _of_other_queues(self.array.events, None if loose else queue)
        return found

    def share(self, queue: cl.CommandQueue, make: Callable[[Any, list[cl.Event]], Any]) -> Any:
        """A pyopencl Array on the memory: ``make(buffer, events)``, with the list that all Arrays on it share. queue:
        the device's."""
        with lazy_lock:
            buffer = self.buffer  # results that depend on the memory are computed first
            with _order:  # a second list, or a command that is recorded meanwhile, would be lost
                if self.array is not None:
                    return make(buffer, self.array.events)
                self.array = make(buffer, self.waits(queue, loose=True))
                return self.array

    def note(self, event: cl.Event, queue: cl.CommandQueue) -> None:
        """Record that the command of `event` on `queue` reads or writes the memory."""
        me = get_ident()
        with _order:
            if self.queue is not queue and self.queue == queue:
                queue = self.queue  # another object of the same queue
            if self.queue is queue:
                known, thread = self.event, self.thread
            else:
                known, thread = (self.others or {}).get(queue, (None, me))
            if known is not None and thread != me and not has_ended(known):
                # Another thread's command: it may be the later one, or the queue is out-of-order.
                event = cl.enqueue_marker(queue)
            while self.queue is not queue and self.queue is not None and (last := self.event) is not None:
                others = dict(self.others or ())  # a copy: `waits` of this thread may be iterating over the dict
                others[self.queue] = last, self.thread
                others.pop(queue, None)
                if len(others) > _MOST_OTHERS:
                    others = _running(others)
                if self.event is last:  # else a finalizer or a signal handler has recorded another command
                    self.others = others
                    break
            self.queue, self.event, self.thread = queue, event, me
        if self.array is not None:
            self._note_in_array(event, queue)

    def _note_in_array(self, event: cl.Event, queue: cl.CommandQueue) -> None:
        """Record a command in the events of the pyopencl Array: pyopencl's commands on other queues must wait for
        pydp's reads of the memory, too.

        Unlike pyopencl's `add_event`, this never waits. If there are many events, it removes those of commands that
        have ended or failed, and if there still are many, it replaces those of `queue` by a marker. The first four
        stay, because `add_event` in another thread may be waiting for them, and then removes the first four. (Two calls
        of `add_event`, or one of `finish`, while this runs can still remove an event of a pending command. pyopencl
        crashes if `finish` waits for longer than `keep_for_threads` keeps the events.)
        """
        events = self.array.events
        if events and events[-1] is event:  # the Array is passed several times
            return
        flushes = self.device.quirks.flush_before_wait
        if flushes:  # before other threads see the event: one may wait for it, and hold a lock that a later flush needs
            queue.flush()
        events.append(event)
        for one in list(events):
            if type(one) is cl.NannyEvent and one.get_ward() is not None and has_ended(one):
                with contextlib.suppress(cl.Error):  # the command may have failed
                    one.wait()  # releases the array on the host
        if len(events) > _MOST_EVENTS:
            _remove([one for one in events[_FIRST_EVENTS:] if has_ended(one)], events)
        if len(events) > _MOST_EVENTS:
            # The destructor of a NannyEvent whose command is pending waits while it holds the GIL.
            some = [one for one in events[_FIRST_EVENTS:] if _is_on(one, queue) and type(one) is not cl.NannyEvent]
            marker = cl.enqueue_marker(queue)  # completes after all commands that the queue has, unless one fails
            if flushes:
                queue.flush()
            events.append(marker)
            _remove(some, events)

    def __del__(self, releases: Any = releases, is_finalizing: Any = sys.is_finalizing) -> None:
        # Globals may be gone when the interpreter ends. `later` is then not needed: the driver frees the memory.
        if releases.forbidden:
            releases.kept.append(self)
        elif (
            getattr(self, "pool_queue", None) is not None  # missing if an interrupt stopped `__init__`
            and self.pool_queue is self.queue
            and self.others is None
            and self.array is None
            and not is_finalizing()
        ):
            later(self.buffer, self.event)


class _Settling(Storage):
    """A Storage that becomes a normal one before its memory is used. The methods of Storage itself
    (``Storage.waits(storage, queue)``) and `buffer_of` use the memory in the present state. Another thread may make
    `self` a normal Storage at any time, which has no method `settle`: call ``_Settling.settle(self)``."""

    __slots__ = ()

    def settle(self) -> None:
        """Compute what must be computed."""
        with lazy_lock:
            if isinstance(self, _Settling):  # else another thread has done it
                self.lazy.settle(self)

    @property  # type: ignore[misc]
    def buffer(self) -> Any:  # type: ignore[override]
        """The buffer."""
        _Settling.settle(self)
        return self.buffer

    def last_event(self) -> cl.Event | None:
        """See Storage."""
        _Settling.settle(self)
        return self.last_event()

    def waits(self, queue: cl.CommandQueue, loose: bool = False) -> list[cl.Event]:
        """See Storage."""
        _Settling.settle(self)
        return self.waits(queue, loose)


class LazyStorage(_Settling):
    """The memory of a result that is computed when it is needed; it has no buffer before. lazy: the `LazyResult` that
    computes it (see :mod:`pydp.runtime.field.fusion`)."""

    __slots__ = ()

    def __init__(self, device: Any, lazy: Any) -> None:
        self.device, self.lazy, self.array = device, lazy, None  # the other attributes are set when it is computed

    def note(self, event: cl.Event, queue: cl.CommandQueue) -> None:
        """See Storage."""
        _Settling.settle(self)
        self.note(event, queue)

    def __del__(self, *_: Any) -> None:
        """Nothing to release: the storage has no memory, and its result is not needed."""


class GuardedStorage(_Settling):
    """Memory that results which are not computed yet depend on; they are computed before the memory is used otherwise.
    lazy: the `Guards`."""

    __slots__ = ()

    def __del__(self, plain: Any = Storage, *_: Any) -> None:  # see Storage
        self.__class__ = plain  # a result that needs this memory would keep it alive
        plain.__del__(self)


buffer_of = vars(Storage)["buffer"].__get__
"""The buffer of a Storage in any state but LazyStorage."""
set_buffer = vars(Storage)["buffer"].__set__


def _running(events: dict[cl.CommandQueue, tuple[cl.Event, int]]) -> dict[cl.CommandQueue, tuple[cl.Event, int]]:
    """The events that are not complete; without this, a program that makes a queue per call would keep all events."""
    return {queue: (event, thread) for queue, (event, thread) in events.items() if not has_ended(event)}


def is_in_order(queue: cl.CommandQueue) -> bool:
    """Whether the commands of a queue run one after another."""
    return not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE


def _has_failed(event: cl.Event) -> bool:
    """Whether the command of `event` failed, as far as the driver says so. Drivers skip or refuse a command that waits
    for such an event."""
    return bool(event.command_execution_status < cl.command_execution_status.COMPLETE)


def _is_on(event: cl.Event, queue: cl.CommandQueue) -> bool:
    try:
        return bool(event.command_queue == queue)
    except cl.Error:  # Intel's runtime raises one if the program has released the queue
        return False


def _remove(some: list[cl.Event], events: list[cl.Event]) -> None:
    """Remove some of the events, unless they are now among the first ones."""
    keep_for_threads(some)
    for one in some:
        if one not in events[:_FIRST_EVENTS]:
            with contextlib.suppress(ValueError):  # another thread has removed it
                events.remove(one)


def _of_other_queues(events: list[cl.Event], queue: cl.CommandQueue | None) -> list[cl.Event]:
    """The events of pending commands on queues other than `queue`, after flushing these queues. User events, which
    have no queue, are included."""
    found = []
    for event in list(events):  # a copy: other threads remove events
        if has_ended(event):  # or has failed, see `_has_failed`
            continue
        try:
            other = event.command_queue
        except cl.Error:
            other = None
        if other is None or other != queue:
            if other is not None:
                other.flush()
            found.append(event)
    return found
