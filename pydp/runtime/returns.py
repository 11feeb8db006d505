"""What must not go yet: buffers on their way back to the pools, events of transfers that nobody waits for.

The garbage collector may finalize an object while its thread holds a pool's lock, so a finalizer only puts
the buffer down here; whoever takes memory next brings it back. pyopencl's event of a transfer waits for the transfer's
end when it goes, and lets no other thread run meanwhile, who might be the one to start it; so it is held until then.

Out-of-order queues are held until their commands have ended. Where nobody else holds such a queue, Intel's CPU runtime
destroys it together with its last command, on the thread that runs the command, and the destructor waits for all
commands of the queue: for itself. That thread never returns, and it may be one that waits for another queue meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pyopencl as cl

from .scratch import give


class _HeldQueue:
    """An out-of-order queue and the event of a command on it."""

    __slots__ = ("ended", "event", "queue")

    def __init__(self, queue: cl.CommandQueue, event: cl.Event) -> None:
        self.queue, self.event = queue, event
        self.ended = False  # as an earlier look found


_waiting: deque[tuple[Any, Any]] = deque()  # its append and popleft are safe between threads
_transfers: deque[cl.Event] = deque()
_queues: deque[_HeldQueue] = deque()
_LOOKS = 8  # held queues that are looked at in turn: more than a call adds, so that they become fewer
_lock = threading.Lock()  # of whoever takes ended transfers out


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


def hold_queue(queue: cl.CommandQueue, event: cl.Event) -> None:
    """Keep an out-of-order queue until the command of `event` has ended, whoever drops it before."""
    _queues.append(_HeldQueue(queue, event))
    _drop_ended()


def bring_back() -> None:
    """Give back all buffers that were left, let go of the transfers that have ended."""
    while _waiting:
        try:
            buffer, event = _waiting.popleft()
        except IndexError:  # another thread was faster
            break
        give(buffer, event)
    if _transfers or _queues:
        _drop_ended()


def _drop_ended() -> None:
    if not _lock.acquire(blocking=False):  # another thread is at it, or this one, of which a finalizer runs
        return
    try:
        while _transfers and _has_ended(_transfers[0]):
            _transfers.popleft()
        for _ in range(min(len(_queues), _LOOKS)):
            held = _queues.popleft()
            if not held.ended:  # once more: the thread of a command that has ended may still hold the queue with it
                held.ended = _has_ended(held.event)
                _queues.append(held)
    finally:
        _lock.release()


def _has_ended(event: cl.Event) -> bool:
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)
