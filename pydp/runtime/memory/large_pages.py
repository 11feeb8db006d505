"""Large pages for the buffers of CPU drivers.

CPU drivers allocate buffers with the C library, in pages of 4 KiB. A kernel that streams through such a buffer waits
for address translation and reads at half the bandwidth (measured on PoCL and Intel's runtime: a sum at 5 instead of
10 GB/s per core). pydp therefore calls madvise(MADV_HUGEPAGE) on a large buffer before its first use.

The driver still allocates the memory, because only the driver knows when kernels no longer use a released buffer.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pyopencl as cl

_QUEUE = "_pydp_mapping_queue"
_FROM = 1 << 22  # bytes; for smaller buffers, the calls to the driver and the system do not pay off
_MADV_HUGEPAGE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux only


def new_buffer(context: cl.Context, flags: int, nbytes: int) -> cl.Buffer:
    """An uninitialized buffer of `nbytes` (at least 1); raises the errors of cl.Buffer."""
    made = cl.Buffer(context, flags, nbytes)
    if nbytes >= _FROM and _MADV_HUGEPAGE is not None:
        queue = _mapping_queue(context)
        if queue is not None:
            _advise(queue, made, nbytes)
    return made


def _advise(queue: cl.CommandQueue, buffer: cl.Buffer, nbytes: int) -> None:
    flags = cl.map_flags.WRITE_INVALIDATE_REGION  # the driver need not copy the content, so no page is touched
    mapped, _ = cl.enqueue_map_buffer(queue, buffer, flags, 0, (nbytes,), np.uint8, is_blocking=True)
    low = mapped.__array_interface__["data"][0]
    first, last = -(-low // mmap.PAGESIZE) * mmap.PAGESIZE, (low + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    # Only advice: if the system ignores it, the pages are small and everything still works.
    ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(max(last - first, 0)), _MADV_HUGEPAGE)
    mapped.base.release(queue)
    queue.finish()


def _mapping_queue(context: cl.Context) -> cl.CommandQueue | None:
    """A queue for mapping buffers; None unless all devices of the context are CPUs with buffers in host memory.

    It is stored on pyopencl's context object and is released with it.
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
