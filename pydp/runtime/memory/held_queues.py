"""References that keep out-of-order queues alive until their commands are complete.

If a queue has no other reference, Intel's CPU runtime destroys it together with its last command. The destructor runs
on the thread that executes the command and waits for all commands of the queue, including this one: a deadlock. That
thread may also be waiting for another queue. A call may leave commands running (results on the device, the unmap of
NumPy memory). This module then keeps the queue while the caller holds it or commands run.

A complete event is not sufficient, because the thread that completed it may still hold the command. The queue is
therefore finished before it is released; clFinish waits for these threads too.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

import pyopencl as cl

from pydp.runtime import forks

if TYPE_CHECKING:
    from pydp.runtime.device.core import DeviceCore

_MOST_LOOKS = 8  # checks per call; more than a call adds


class _HeldQueue:
    __slots__ = ("events", "queue")

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = queue
        self.events: deque[cl.Event] = deque()

    def may_go(self) -> bool:
        """Whether the queue has no other reference and its commands are complete."""
        with contextlib.suppress(IndexError, ValueError):  # a finalizer has removed it meanwhile
            for _ in range(min(len(self.events), _MOST_LOOKS)):
                event = self.events[0]
                if has_ended(event):
                    self.events.remove(event)
                else:
                    self.events.rotate(-1)
        return not self.events and sys.getrefcount(self.queue) <= 2  # the attribute and the argument


_held: OrderedDict[int, _HeldQueue] = OrderedDict()  # keys: pointers of the queues
_lock = forks.fork_safe(threading.RLock())  # reentrant for finalizers


def hold(device: DeviceCore, queue: cl.CommandQueue, event: cl.Event) -> None:
    """Keep an out-of-order queue alive until the command of `event` is complete, if the driver needs that."""
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
    """Release queues that have no other reference and whose commands are complete."""
    released = []
    with _lock:
        for pointer in list(_held)[:_MOST_LOOKS]:
            held = _held.get(pointer)
            if held is None:  # a finalizer that ran meanwhile has released it
                continue
            if not held.may_go():
                if pointer in _held:
                    _held.move_to_end(pointer)  # the other queues are checked first
            elif _held.pop(pointer, None) is not None:
                released.append(held)
    for held in released:
        held.queue.finish()


@forks.on_loss
def _keep_all() -> None:
    forks.releases.kept.append(dict(_held))
    _held.clear()


def has_ended(event: cl.Event) -> bool:
    """Whether the command of an event is complete or has failed."""
    return bool(event.command_execution_status <= cl.command_execution_status.COMPLETE)
