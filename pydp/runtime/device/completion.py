"""The end of the interpreter: pydp waits for the commands that CPUs have not completed.

PoCL and rusticl compile a kernel when it first runs, in threads of their own. If the process ends meanwhile, it frees
the memory of the compiler under these threads, and crashes.
"""

from __future__ import annotations

import atexit
import contextlib
import time
from typing import TYPE_CHECKING
from weakref import ref

from pydp.runtime import forks

if TYPE_CHECKING:
    import pyopencl as cl

_LONGEST = 60.0  # seconds
_LONGEST_PAUSE = 3.0  # seconds without computation; commands then wait for an event that nobody completes
_IDLE = 0.02  # seconds of processor time that idle threads of a driver take at most in this pause
_NAME = "_pydp_watched"


class _Watched:
    """Lives as long as pyopencl's queue object, which cannot be referenced weakly. queue: another such object."""

    __slots__ = ("__weakref__", "queue")

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue = type(queue).from_int_ptr(queue.int_ptr)


_watched: set[ref[_Watched]] = set()


def complete_at_exit(queue: cl.CommandQueue) -> None:
    """Wait for the commands of a queue when the interpreter ends, if the program still refers to the queue."""
    if _NAME not in vars(queue):
        _watched.add(ref(vars(queue).setdefault(_NAME, _Watched(queue)), _watched.discard))


def _time_of_others() -> float:
    """The processor time of all threads but this one, in seconds."""
    return time.process_time() - time.thread_time()


@atexit.register
def _complete() -> None:
    """Wait until the queues are empty, and no longer than `_LONGEST`. Ctrl-C ends it."""
    queues = [found.queue for one in list(_watched) if (found := one()) is not None]
    if not queues or forks.is_lost():
        return
    import pyopencl as cl

    with contextlib.suppress(KeyboardInterrupt, cl.Error):
        markers = [cl.enqueue_marker(one) for one in queues if one.device.type & cl.device_type.CPU]
        for one in queues:
            one.flush()
        began = last = time.monotonic()
        used = _time_of_others()
        pause = 1e-4
        while any(one.command_execution_status > cl.command_execution_status.COMPLETE for one in markers):
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
            now = time.monotonic()
            if _time_of_others() - used > _IDLE:
                used, last = _time_of_others(), now
            if now - began > _LONGEST or now - last > _LONGEST_PAUSE:
                return
