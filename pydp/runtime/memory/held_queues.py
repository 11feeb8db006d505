"""Out-of-order queues that must outlive their commands, also where the caller drops them.

Intel's CPU runtime destroys such a queue together with its last command where nobody else holds it. The destructor runs
on the thread that runs the command, and waits for all commands of the queue: for itself. That thread never returns, and
it may be one that waits for another queue meanwhile. A call may leave commands behind (results on the device, the
unmapping of NumPy's memory), so it leaves the queue here too, as long as the caller holds it or commands are running.

An event that has ended is not enough: the thread that ended it may not have dropped the command yet. Therefore the
queue is finished once more before it is released, which waits for those threads and not only for events.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

import pyopencl as cl

from pydp.runtime import forks

if TYPE_CHECKING:
    from pydp.runtime.device.core import DeviceCore

_MOST_LOOKS = 8  # per call; more than a call adds


class _HeldQueue:
    __slots__ = ("events", "queue")

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue
        self.events: deque[cl.Event] = deque()

    def may_go(self) -> bool:
        """Whether nobody else holds the queue and its commands have ended."""
        for _ in range(min(len(self.events), _MOST_LOOKS)):
            event = self.events.popleft()
            if not _has_ended(event):
                self.events.append(event)
        return not self.events and sys.getrefcount(self.queue) <= 2  # the attribute and the argument


_held: dict[int, _HeldQueue] = {}  # by the queue's pointer
_lock = forks.fork_safe(threading.RLock())  # a finalizer may run while its thread holds it


def hold(device: DeviceCore, queue: cl.CommandQueue, event: cl.Event) -> None:
    """Keep an out-of-order queue until the command of `event` has ended, where the device's driver needs that."""
    if not device.quirks.hold_out_of_order_queues:
        return
    pointer = queue.int_ptr
    with _lock:
        held = _held.get(pointer)
        if held is None:
            held = _held[pointer] = _HeldQueue(queue)
        held.events.append(event)
    release()


def release() -> None:
    """Release queues that nobody else holds and whose commands have ended."""
    released = []
    with _lock:
        for pointer in list(_held)[:_MOST_LOOKS]:
            held = _held.pop(pointer, None)
            if held is None:  # a finalizer that ran meanwhile has released it
                continue
            if held.may_go():
                released.append(held)
            else:
                _held[pointer] = held  # the last one to be looked at again
    for held in released:
        held.queue.finish()


@forks.on_loss
def _keep_all() -> None:
    forks.releases.kept.append(dict(_held))
    _held.clear()


def _has_ended(event: cl.Event) -> bool:
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)
