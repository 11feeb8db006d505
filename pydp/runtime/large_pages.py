"""Device memory of CPU drivers on large pages.

A CPU driver takes its buffers from the C library, in pages of 4 KiB; a kernel that streams through them then waits
for address translation and reads at half the rate (measured on PoCL and Intel's runtime: a sum at 5 instead of
10 GB/s for each core). NumPy asks the system for large pages from 4 MiB on, so large buffers are made over its memory.
"""

from __future__ import annotations

import functools

import numpy as np
import pyopencl as cl

_FROM = 1 << 22  # bytes from which NumPy asks for large pages
_LINE = 64


def new_buffer(context: cl.Context, flags: int, nbytes: int) -> cl.Buffer:
    """A buffer of `nbytes` (at least 1), its content anything; raises what cl.Buffer raises."""
    if nbytes < _FROM or not _worth(context):
        return cl.Buffer(context, flags, nbytes)
    raw = np.empty(nbytes + _LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % _LINE
    return cl.Buffer(context, flags | cl.mem_flags.USE_HOST_PTR, hostbuf=raw[start : start + nbytes])


@functools.lru_cache(maxsize=32)
def _worth(context: cl.Context) -> bool:
    """Whether the context's devices are CPUs whose kernels work on the host's own bytes."""
    return all(
        device.type & cl.device_type.CPU
        and device.host_unified_memory
        and not any(part in device.platform.name.lower() for part in ("rusticl", "oclgrind"))
        for device in context.devices
    )
