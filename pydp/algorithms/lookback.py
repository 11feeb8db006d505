"""Decoupled look-back: the fields and limits of specializations, and the descriptors.

The descriptors are in one buffer per queue, which is cleared once and released with the queue. Each launch has a new
tag, and every word of a slot contains the tag. Words of earlier launches therefore read as "not yet published", and the
buffer is not cleared between launches. The ticket counter is at the start of the buffer; the last work-group of each
launch resets it to 0. See kernels_cl/wg_lookback.mako.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.errors import OutOfResources
from pydp.model.family import between, one_of
from pydp.runtime.memory.queue_state import QueueMemory, state_of

if TYPE_CHECKING:
    from pydp.runtime.call import Call
    from pydp.runtime.device.profile import Profile
    from pydp.runtime.drivers.devices import Device

HEADER_BYTES = 64
_SMALLEST = 1 << 16

# --- policy: the fields of ScanSpec that the specializations of select and sort have, too ---------------------------

STRATEGIES = ("lookback", "chained", "reduce_then_scan")
WINDOW = 32  # lanes that look back together on GPUs: the lanes of the narrowest subgroups with a barrier of their own
ACCEPTED = {
    "strategy": one_of(*STRATEGIES),
    "order": one_of("ticket", "reversed", "permuted"),
    "polls": between(0, (1 << 31) - 1),
    "suppress": between(0, (1 << 31) - 1),
    "window": one_of(1, 2, 4, 8, 16, 32, 64),
}


def default_fields(profile: Profile, one_pass: bool = True) -> dict[str, Any]:
    """Default values of fields. one_pass: the call can use look-back."""
    safe = one_pass and profile.group_progress and profile.loop_limit is None
    polls = 256 if profile.loop_limit is not None else 20000 if profile.group_progress else 1000
    if profile.is_simulator:  # it reports a race if a work-group recomputes elements that the owner may overwrite
        polls = 1 << 20
    gpu = profile.kind == "gpu"
    barriers = "auto" if gpu else "group"  # on CPUs subgroup barriers keep more state in memory
    strategy = "lookback" if safe else "reduce_then_scan"
    return {"strategy": strategy, "polls": polls, "plain_polls": gpu, "barriers": barriers}


def spec_error(profile: Profile, spec: Any) -> str | None:
    """One sentence why the strategy of a spec cannot run, or None."""
    if profile.loop_limit is not None and spec.strategy != "reduce_then_scan":
        return (
            f"strategy {spec.strategy!r} waits in loops, and this driver ends loops after {profile.loop_limit} "
            "iterations; 'reduce_then_scan' is accepted"
        )
    if (spec.order != "ticket" or spec.suppress) and not spec.polls:
        return f"polls is 0 with order {spec.order!r} and suppress {spec.suppress}; at least 1 is required here"
    elements = spec.part if spec.mapping == "vector" else spec.lanes * spec.items
    if spec.strategy == "reduce_then_scan" and elements == 1:
        return "'reduce_then_scan' cannot use partitions of 1 element; at least 2 elements are accepted"
    return None


def why_two_passes(profile: Profile) -> str:
    """Why a call uses the strategy "reduce_then_scan"."""
    if profile.loop_limit is not None:
        return f"this driver ends loops after {profile.loop_limit} iterations; waiting in a loop is not possible"
    return "requested, or this driver has no forward progress between work-groups"


def looking(spec: Any) -> int:
    """Lanes that look back together: at most `window`, and a divisor of the work-group."""
    return math.gcd(spec.window, spec.lanes)


def waiting(profile: Profile, spec: Any) -> int:
    """Lanes that wait at the barriers of the window. The others skip them, unless the driver allows no barrier under
    such a condition; 1 if one lane looks back, without a barrier."""
    window = looking(spec)
    return spec.lanes if window > 1 and not profile.barriers_under_conditions else window


def chain_signals(spec: Any, parts: int) -> float:
    """Signals in a row until the last of `parts` partitions has its prefix (simt).

    A lane that looks back alone needs a third of a signal's time for each partition, a window of lanes a thirtieth, as
    measured on an H200.
    """
    alone = spec.strategy == "chained" or looking(spec) == 1
    return parts / 3 if alone else parts / 30


def window_bytes(itemsize: int, window: int) -> int:
    """Bytes of local memory of a window of lanes that look back together, for values of `itemsize` bytes."""
    reach = 4 if itemsize <= 8 else 1
    return 2 * window * (reach * itemsize + 1) + 2 * itemsize


def slot_parameters(profile: Profile, spec: Any, nbytes: int) -> dict[str, object]:
    """Parameters of templates that look back, for slots of `nbytes`."""
    words = {"wide_words": profile.int64_atomics, "words": words_per_slot(profile, nbytes)}
    return words | {name: getattr(spec, name) for name in ("order", "polls", "suppress", "plain_polls")}


# --- descriptors -----------------------------------------------------------------------------------------------


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
