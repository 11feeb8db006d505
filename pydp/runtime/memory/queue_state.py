"""The state that pydp keeps per queue: its device and its reusable memory.

The state is stored on pyopencl's queue object, so it is released with the caller's last reference to the queue. A table
by address could confuse queues, because drivers reuse the address of a released queue. If a program holds many queues,
only the `MOST_HOLDING` last used ones keep their memory.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

from pydp.runtime.device.completion import complete_at_exit
from pydp.runtime.programs import program

if TYPE_CHECKING:
    import pyopencl as cl


MOST_HOLDING = 32  # pools and look-back states over all queues
_NAME = "_pydp_state"


class QueueState:
    """The state of one queue; see `state_of`. `parts` holds its `QueueMemory` objects by type."""

    __slots__ = ("_device", "_holds", "parts")

    def __init__(self) -> None:
        self.parts: dict[type, Any] = {}
        self._device: ref[Any] | None = None
        self._holds: Any = None

    @property
    def device(self) -> Any:
        """The Device of the queue, if it is known and still alive."""
        return None if self._device is None else self._device()

    def keep_device(self, device: Any, own: bool) -> None:
        """Store the device. The queue keeps it alive, unless the queue is the device's `own`."""
        self._device = ref(device)
        self._holds = None if own else device


def state_of(queue: cl.CommandQueue) -> QueueState:
    """The state of a queue; created empty on first use."""
    found: QueueState | None = getattr(queue, _NAME, None)
    if found is None:
        # One atomic step instead of a lock, because a finalizer or a signal handler may do the same in this thread.
        found = vars(queue).setdefault(_NAME, QueueState())
        complete_at_exit(queue)
    return found


class QueueMemory:
    """Memory that is kept for one queue; the base of scratch pools and look-back states.

    `lock` is reentrant, because a finalizer or a signal handler may use the memory in a thread that holds the lock. The
    state is then inconsistent: while `busy`, a nested use allocates separate memory and changes nothing here.
    """

    _holders: ClassVar[deque[ref[QueueMemory]]] = deque()  # next to drop first; append and popleft are atomic
    _listed = False

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy = False  # set and read with the lock held

    def drop(self) -> None:
        """Release the memory that no later command will use; the caller holds no lock."""
        raise NotImplementedError

    def holds(self) -> None:
        """Register this object as holding memory; memory of another queue may be released for it. The caller holds no
        lock."""
        if self._listed:
            return
        self._listed = True
        self._holders.append(ref(self))
        while len(self._holders) > MOST_HOLDING:
            try:
                other = self._holders.popleft()()
            except IndexError:  # another thread took the last one
                break
            if other is not None:
                other._listed = False
                other.drop()

    @classmethod
    def all(cls) -> list[QueueMemory]:
        """The objects that hold memory, of all queues."""
        return [other for one in list(cls._holders) if (other := one()) is not None]

    @classmethod
    def drop_all(cls, queue: cl.CommandQueue | None = None) -> bool:
        """Release the memory of all queues that no later command will use, after an allocation failed; the caller holds
        no lock. Returns whether there may have been some.

        queue: its commands are awaited, because the driver frees the memory that they use only after them."""
        found = cls.all()
        for other in found:
            other.drop()
        if found and queue is not None:
            queue.finish()
        return bool(found)


program.free_memory.append(QueueMemory.drop_all)
