"""Device memory of CPU drivers on large pages.

A CPU driver takes its buffers from the C library, in pages of 4 KiB; a kernel that streams through them then waits
for address translation and reads at half the rate (measured on PoCL and Intel's runtime: a sum at 5 instead of
10 GB/s for each core). So the system is told, before a large buffer is first touched, to back it with large pages.

The memory stays the driver's own: a buffer may be dropped while kernels still work on it, which only the driver
can sort out.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pyopencl as cl

_QUEUE = "_pydp_mapping_queue"
_FROM = 1 << 22  # bytes from which the two calls to the driver and the system pay
_MADV_HUGEPAGE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux only


def new_buffer(context: cl.Context, flags: int, nbytes: int) -> cl.Buffer:
    """A buffer of `nbytes` (at least 1), its content anything; raises what cl.Buffer raises."""
    made = cl.Buffer(context, flags, nbytes)
    if nbytes >= _FROM and _MADV_HUGEPAGE is not None:
        queue = _mapping_queue(context)
        if queue is not None:
            _advise(queue, made, nbytes)
    return made


def _advise(queue: cl.CommandQueue, buffer: cl.Buffer, nbytes: int) -> None:
    flags = cl.map_flags.WRITE_INVALIDATE_REGION  # the content is not wanted: no page is touched
    mapped, _ = cl.enqueue_map_buffer(queue, buffer, flags, 0, (nbytes,), np.uint8, is_blocking=True)
    low = mapped.__array_interface__["data"][0]
    first, last = -(-low // mmap.PAGESIZE) * mmap.PAGESIZE, (low + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    # Advice: where the system does not take it, the pages are small ones, and everything works.
    ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(max(last - first, 0)), _MADV_HUGEPAGE)
    mapped.base.release(queue)
    queue.finish()


def _mapping_queue(context: cl.Context) -> cl.CommandQueue | None:
    """A queue to map buffers with, None unless the context's devices are CPUs whose buffers are the host's bytes.

    It is kept on pyopencl's context object, and goes with it.
    """
    known: list[cl.CommandQueue | None] | None = getattr(context, _QUEUE, None)
    if known is None:
        known = [_made(context)]
        setattr(context, _QUEUE, known)
    return known[0]


def _made(context: cl.Context) -> cl.CommandQueue | None:
    worth = all(
        device.type & cl.device_type.CPU
        and device.host_unified_memory
        and not any(part in device.platform.name.lower() for part in ("rusticl", "oclgrind"))
        for device in context.devices
    )
    return cl.CommandQueue(context, context.devices[0]) if worth else None
