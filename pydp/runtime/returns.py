"""Buffers on their way back to the pools, left there by finalizers.

The garbage collector may finalize an object while its thread holds a pool's lock, so a finalizer only puts
the buffer down here; whoever takes memory next brings it back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .scratch import give

if TYPE_CHECKING:
    from .device import Device

_waiting: deque[tuple[Device, Any, Any]] = deque()  # its append and popleft are safe between threads


def later(device: Device, buffer: Any, event: Any = None) -> None:
    """Leave a buffer of `scratch.take` to be given back; `event` is that of its last use."""
    _waiting.append((device, buffer, event))


def bring_back() -> None:
    """Give back all buffers that were left."""
    while _waiting:
        try:
            device, buffer, event = _waiting.popleft()
        except IndexError:  # another thread was faster
            return
        give(buffer, event)
