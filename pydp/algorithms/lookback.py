"""The memory of decoupled look-back: one buffer per queue, which goes with it, cleared once and told apart by tags.

A launch gets a tag that no earlier launch on the queue had; a slot's words carry it, so that what earlier launches
left behind reads as "not yet published". The ticket counter at the buffer's start is set back to 0 by the last group
of each launch. See kernels_cl/wg_lookback.mako.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.errors import OutOfResources
from pydp.runtime.memory.queue_state import QueueMemory, state_of

if TYPE_CHECKING:
    from pydp.runtime.call import Call
    from pydp.runtime.device.profile import Profile
    from pydp.runtime.drivers.devices import Device

HEADER_BYTES = 64
_SMALLEST = 1 << 16


def words_per_slot(profile: Profile, itemsize: int) -> int:
    """The words that one published value takes: 32 bits of it in a 64-bit word, or 16 in a 32-bit one."""
    piece = 4 if profile.int64_atomics else 2
    return -(-itemsize // piece)


class _State(QueueMemory):
    """One queue's buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer: Any = None
        self.nbytes = 0
        self.tag = 0

    def take(self, device: Device, nbytes: int, last_tag: int) -> tuple[Any, int]:
        with self.lock:
            if self.busy:
                return _cleared(device, nbytes), 1
            try:
                self.busy = True
                if nbytes > self.nbytes or self.tag >= last_tag:
                    size = max(nbytes, self.nbytes, _SMALLEST)
                    self.buffer = None
                    self.buffer = _cleared(device, size)
                    self.nbytes, self.tag = size, 0
                self.tag += 1
                found = self.buffer, self.tag
            finally:
                self.busy = False
        self.holds()
        return found

    def drop(self) -> None:
        """Begin anew with the next launch; the driver keeps the buffer for those that were enqueued."""
        with self.lock:
            if not self.busy:
                gone, self.buffer, self.nbytes, self.tag = self.buffer, None, 0, 0
                del gone  # only now, since its release may run a finalizer


def _cleared(device: Device, nbytes: int) -> Any:
    """A buffer of zeros, which no command on a queue has to write first."""
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    try:
        return cl.Buffer(device.context, flags, hostbuf=np.zeros(nbytes, np.uint8))
    except cl.Error as error:
        raise OutOfResources(f"{device.name!r} has no {nbytes} bytes for a scan's descriptors: {error}") from error


def descriptors(call: Call, partitions: int, itemsize: int, keeps: bool = False) -> tuple[Any, np.uint32]:
    """A buffer for the slots of `partitions` values and the tag of one launch, which must be the next use of both.

    keeps: the launch works in place and has twice as many slots (see kernels_cl/wg_lookback.mako).

    On an out-of-order queue, whose launches could meet in one buffer, each launch gets a buffer of its own.
    """
    import pyopencl as cl

    device, queue = call.device, call.queue
    profile = device.profile
    word = 8 if profile.int64_atomics else 4
    nbytes = HEADER_BYTES + partitions * (4 if keeps else 2) * words_per_slot(profile, itemsize) * word
    if device.is_target:
        return call.scratch(nbytes), np.uint32(1)
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        return _cleared(device, nbytes), np.uint32(1)
    last_tag = (1 << 32) - 1 if profile.int64_atomics else (1 << 16) - 1
    buffer, tag = _state(queue).take(device, nbytes, last_tag)
    return buffer, np.uint32(tag)


def _state(queue: Any) -> _State:
    parts = state_of(queue).parts
    found: _State | None = parts.get(_State)
    return parts.setdefault(_State, _State()) if found is None else found
