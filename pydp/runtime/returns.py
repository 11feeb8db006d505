"""Buffers on their way back to the pools, left there by finalizers.

The garbage collector may finalize an object while its thread holds a pool's lock, so a finalizer only puts
the buffer down here; whoever takes memory next brings it back.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from .scratch import give

_waiting: deque[tuple[Any, Any]] = deque()  # its append and popleft are safe between threads


def later(buffer: Any, event: Any = None) -> None:
    """Leave a buffer of `scratch.take` to be given back; `event` is that of its last use."""
    _waiting.append((buffer, event))


def bring_back() -> None:
    """Give back all buffers that were left."""
    while _waiting:
        try:
            buffer, event = _waiting.popleft()
        except IndexError:  # another thread was faster
            return
        give(buffer, event)
