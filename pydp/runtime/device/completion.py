"""The end of the interpreter: CPUs first complete the commands that are enqueued.

PoCL and rusticl compile a kernel when it first runs, in threads of their own. If the process ends meanwhile, it frees
the memory of the compiler under these threads, and crashes.
"""

from __future__ import annotations

import atexit
import contextlib
import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from pydp.runtime import forks

if TYPE_CHECKING:
    import pyopencl as cl

_LONGEST = 60.0  # seconds
_LONGEST_PAUSE = 3.0  # seconds without computation; commands then wait for an event that nobody completes
_NAME = "_pydp_watched"


class _Watched:
    """Lives as long as pyopencl's queue object, which cannot be referenced weakly; pointer: to the queue."""

    __slots__ = ("__weakref__", "pointer")

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer


_watched: WeakSet[_Watched] = WeakSet()


def complete_at_exit(queue: cl.CommandQueue) -> None:
    """Complete the commands of a queue when the interpreter ends, if the program still refers to the queue."""
    if _NAME not in vars(queue):
        _watched.add(vars(queue).setdefault(_NAME, _Watched(queue.int_ptr)))


@atexit.register
def _complete() -> None:
    """Wait until the queues are empty, and no longer than `_LONGEST`; Ctrl-C ends it."""
    if forks.is_lost():
        return
    import pyopencl as cl

    markers = []
    for one in list(_watched):
        with contextlib.suppress(cl.Error):
            queue = cl.CommandQueue.from_int_ptr(one.pointer)
            if queue.device.type & cl.device_type.CPU:
                markers.append(cl.enqueue_marker(queue))
                queue.flush()
    began = last = time.monotonic()
    used = time.process_time()
    pause = 1e-4
    while any(one.command_execution_status > cl.command_execution_status.COMPLETE for one in markers):
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
        now = time.monotonic()
        if time.process_time() - used > 0.02:  # more than these queries take in `_LONGEST_PAUSE`
            used, last = time.process_time(), now
        if now - began > _LONGEST or now - last > _LONGEST_PAUSE:
            return
