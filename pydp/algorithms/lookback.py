"""Descriptors of decoupled look-back: one buffer per queue, cleared once and released with the queue.

Each launch has a new tag, and every word of a slot contains the tag. Words of earlier launches therefore read as "not
yet published", and the buffer is not cleared between launches. The ticket counter is at the start of the buffer; the
last work-group of each launch resets it to 0. See kernels_cl/wg_lookback.mako.
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
    """Words of one published value: each word holds 32 bits of it (64-bit words) or 16 bits (32-bit words)."""
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
                    self.buffer, self.nbytes = None, 0  # also right if the allocation fails
                    self.buffer = _cleared(device, size)
                    self.nbytes, self.tag = size, 0
                self.tag += 1
                found = self.buffer, self.tag
            finally:
                self.busy = False
        self.holds()
        return found

    def drop(self) -> None:
        """Release the buffer; the driver keeps it for launches that are already enqueued."""
        with self.lock:
            if not self.busy:
                gone, self.buffer, self.nbytes, self.tag = self.buffer, None, 0, 0
                del gone  # after the state is consistent: the release may run a finalizer


def _cleared(device: Device, nbytes: int) -> Any:
    """A buffer of zeros, initialized without a command on a queue."""
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    try:
        return cl.Buffer(device.context, flags, hostbuf=np.zeros(nbytes, np.uint8))
    except (cl.Error, MemoryError) as error:
        raise OutOfResources(
            f"{device.name!r} cannot allocate {nbytes} bytes for the descriptors of look-back: {error}"
        ) from error


def descriptors(call: Call, partitions: int, itemsize: int, keeps: bool = False) -> tuple[Any, np.uint32]:
    """The buffer for the slots of `partitions` values, and the tag of one launch.

    The caller must enqueue this launch before any other use of the buffer. keeps: the launch is in place and has twice
    as many slots (see kernels_cl/wg_lookback.mako). On an out-of-order queue, launches may overlap; each launch gets
    its own buffer.
    """
    import pyopencl as cl

    device, queue = call.device, call.queue
    profile = device.profile
    word = 8 if profile.int64_atomics else 4
    nbytes = HEADER_BYTES + partitions * (4 if keeps else 2) * words_per_slot(profile, itemsize) * word
    if device.is_target:
        state = call.scratch(nbytes)
        state.cleared = True
        return state, np.uint32(1)
    if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        return _cleared(device, nbytes), np.uint32(1)
    last_tag = (1 << 32) - 1 if profile.int64_atomics else (1 << 16) - 1

    def taken(device: Device, queue: Any) -> tuple[Any, np.uint32]:
        try:
            buffer, tag = _state(queue).take(device, nbytes, last_tag)
        except OutOfResources:
            QueueMemory.drop_all()
            buffer, tag = _state(queue).take(device, nbytes, last_tag)
        return buffer, np.uint32(tag)

    return call.provided(taken)


def _state(queue: Any) -> _State:
    parts = state_of(queue).parts
    found: _State | None = parts.get(_State)
    return parts.setdefault(_State, _State()) if found is None else found
