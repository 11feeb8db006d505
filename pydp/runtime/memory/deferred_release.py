"""Deferred release: buffers that return to their pools later, and events of transfers that have not ended.

The garbage collector may finalize an object while its thread holds a pool's lock. A finalizer therefore only appends
the buffer to a queue here; the next call that takes memory returns it to the pool. When pyopencl's event of a transfer
is deleted, it waits for the transfer with Python's lock held, so that the thread that would start the transfer may
never run. Such an event is kept here until its transfer has ended.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pyopencl as cl

from pydp.runtime import forks
from pydp.runtime.memory import held_queues
from pydp.runtime.memory.scratch import give

_waiting: deque[tuple[Any, Any]] = deque()  # its append and popleft are safe between threads
_transfers: deque[cl.Event] = deque()
_lock = forks.fork_safe(threading.Lock())  # of whoever takes ended transfers out


def later(buffer: Any, event: Any = None) -> None:
    """Leave a buffer of `scratch.take` to be given back; `event` is that of its last use."""
    _waiting.append((buffer, event))


def hold(event: cl.Event, ended: bool = False) -> cl.Event:
    """Keep the event of a transfer from or to the host until that has ended; `ended`: it has, for it was blocking.

    The same event is returned as one that keeps none of the host's memory alive; other commands' events as they are.
    """
    if type(event) is not cl.NannyEvent:
        return event
    if not ended:
        _transfers.append(event)
        _drop_ended()
    return cl.Event.from_int_ptr(event.int_ptr, True)


def release_pending() -> None:
    """Give back all buffers that were left, let go of the transfers that have ended."""
    while _waiting:
        try:
            buffer, event = _waiting.popleft()
        except IndexError:  # another thread was faster
            break
        give(buffer, event)
    if _transfers:
        _drop_ended()
    if held_queues._held:
        held_queues.release()


@forks.on_loss
def _keep_all() -> None:
    for held in (_waiting, _transfers):
        forks.releases.kept += held
        held.clear()


def _drop_ended() -> None:
    if not _lock.acquire(blocking=False):  # another thread is at it, or this one, of which a finalizer runs
        return
    try:
        while _transfers and _transfers[0].command_execution_status <= cl.command_execution_status.COMPLETE:
            _transfers.popleft()
    finally:
        _lock.release()
