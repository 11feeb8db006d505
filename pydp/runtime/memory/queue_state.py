"""What pydp keeps for a queue: its device and the memory that is used again on it.

All of it hangs on pyopencl's queue object, so that it goes with the caller's last reference to the queue, and no other
queue can be taken for it (drivers give the address of a queue that is gone to the next one). Programs that make queues
faster than they drop them keep the memory of the `MOST_HOLDING` that were used last.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

if TYPE_CHECKING:
    import pyopencl as cl


MOST_HOLDING = 32  # pools and look-back states, of all queues
_NAME = "_pydp_state"


class QueueState:
    """What is known of one queue: see `state_of`. `parts` are its `QueueMemory`, by type."""

    __slots__ = ("_device", "_holds", "parts")

    def __init__(self) -> None:
        self.parts: dict[type, Any] = {}
        self._device: ref[Any] | None = None
        self._holds: Any = None

    @property
    def device(self) -> Any:
        """The Device that the queue's commands run on, where it is known and still there."""
        return None if self._device is None else self._device()

    def keep_device(self, device: Any, own: bool) -> None:
        """Remember the device; it lives as long as the queue, unless the queue is the device's `own`."""
        self._device = ref(device)
        self._holds = None if own else device


def state_of(queue: cl.CommandQueue) -> QueueState:
    """The state of a queue, empty at first."""
    found: QueueState | None = getattr(queue, _NAME, None)
    if found is None:
        # One atomic step instead of a lock: a finalizer or a signal handler may ask for it in the same thread.
        found = vars(queue).setdefault(_NAME, QueueState())
    return found


class QueueMemory:
    """Memory that is kept for one queue: the base of a pool's and of the look-back's.

    `lock` is reentrant, since a finalizer or a signal handler may use the memory in a thread that holds the lock. The
    state is not consistent then: while `busy`, a nested use takes memory of its own and changes nothing here.
    """

    _holders: ClassVar[deque[ref[QueueMemory]]] = deque()  # next to drop first; its append and popleft are atomic
    _listed = False

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy = False  # set and read with the lock held

    def drop(self) -> None:
        """Let go of what no command is to use any more; the caller holds no lock."""
        raise NotImplementedError

    def holds(self) -> None:
        """Say that there is memory now, for which another queue's may have to go; the caller holds no lock."""
        if self._listed:
            return
        self._listed = True
        self._holders.append(ref(self))
        while len(self._holders) > MOST_HOLDING:
            try:
                other = self._holders.popleft()()
            except IndexError:  # another thread was faster
                break
            if other is not None:
                other._listed = False
                other.drop()
