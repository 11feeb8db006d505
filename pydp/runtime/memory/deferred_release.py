"""Deferred release of buffers and of the events of transfers.

The garbage collector may finalize an object while its thread holds the lock of a pool. A finalizer therefore only
appends the buffer to a queue here; the next call that takes memory returns it to the pool. The destructor of pyopencl's
transfer events waits for the transfer while it holds the GIL, which can deadlock with the thread that would start the
transfer. Such events are kept here until their transfers are complete.

pyopencl passes the handles of a list of events to the driver without holding the events. An event that another thread
removes from the list meanwhile would be destroyed in use; such events are kept here for some time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import pyopencl as cl

from pydp.runtime import forks
from pydp.runtime.memory import held_queues
from pydp.runtime.memory.scratch import give

_waiting: deque[tuple[Any, Any]] = deque()  # append, popleft and remove are thread-safe
_transfers: deque[cl.Event] = deque()
_removed: deque[tuple[float, cl.Event]] = deque()  # with the times of their removal
_IN_USE = 1.0  # seconds; more than a thread spends between reading a list of events and the driver's first use of it


def later(buffer: Any, event: Any = None) -> None:
    """Queue a buffer of `scratch.take` for return to its pool; `event` belongs to its last use."""
    _waiting.append((buffer, event))


def hold(event: cl.Event, ended: bool = False) -> cl.Event:
    """Keep the event of a transfer to or from the host until the transfer is complete. `ended`: it is already complete,
    because it was blocking.

    Returns the same event without a reference to host memory. Events of other commands are returned unchanged.
    """
    if type(event) is not cl.NannyEvent:
        return event
    if not ended:
        _transfers.append(event)
        _drop_ended()
    return cl.Event.from_int_ptr(event.int_ptr, True)


def keep_for_threads(events: Iterable[cl.Event]) -> None:
    """Keep the events of a pyopencl Array that are about to be removed from its list, if other threads may use them."""
    if threading.active_count() > 1:
        now = time.monotonic()
        _removed.extend((now, event) for event in events)
    if _removed:
        _drop_unused()


def release_pending() -> None:
    """Return queued buffers to their pools, and drop events that are no longer needed."""
    while _waiting:
        try:
            buffer, event = _waiting.popleft()
        except IndexError:  # another thread took the last one
            break
        give(buffer, event)
    if _transfers:
        _drop_ended()
    if _removed:
        _drop_unused()
    if held_queues._held:
        held_queues.release()


@forks.on_loss
def _keep_all() -> None:
    for held in (_waiting, _transfers, _removed):
        forks.releases.kept += held
        held.clear()


def _drop_ended() -> None:
    try:
        while (first := _transfers[0]).command_execution_status <= cl.command_execution_status.COMPLETE:
            _transfers.remove(first)
    except (IndexError, ValueError):  # another thread, or a finalizer in this one, has removed it
        pass


def _drop_unused() -> None:
    before = time.monotonic() - _IN_USE
    try:
        while (first := _removed[0])[0] < before:
            _removed.remove(first)
    except (IndexError, ValueError):  # see _drop_ended
        pass
