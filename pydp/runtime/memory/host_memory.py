"""NumPy memory as OpenCL buffers: address ranges, buffers without a copy, visibility of results.

A device that shares the host's memory uses the memory of NumPy arrays in place (CL_MEM_USE_HOST_PTR). Mapping and
unmapping the buffer afterwards makes the results visible on every driver; see also `Profile.direct_host_memory`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.errors import InvalidArgument, OutOfResources
from pydp.runtime.memory.large_pages import new_buffer
from pydp.runtime.memory.queue_state import QueueMemory
from pydp.runtime.programs.program import MEMORY_CODES

_ALIGNED_FROM = 1 << 16  # bytes; new arrays of at least this size are aligned to a cache line
_LINE = 64
_BYTE = np.dtype(np.uint8)
_MALLOC_ALIGNMENT = 16 if sys.maxsize > 2**32 else 8  # alignment of NumPy's memory in bytes

# READ_WRITE also for arrays that are only read: with READ_ONLY, one driver copies the memory when it makes the buffer.
IN_PLACE = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR


def byte_range(array: np.ndarray) -> tuple[int, int]:
    """The address range [low, high) that contains the elements of an array."""
    low = high = array.__array_interface__["data"][0]
    if array.size == 0:
        return low, low
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


@functools.lru_cache(maxsize=256)
def alignment(dtype: np.dtype) -> int:
    """The alignment in bytes that kernels may assume: the element size for scalars, complex numbers and vectors."""
    size = dtype.itemsize
    if dtype.names is None or "s0" in dtype.names:
        return size & -size
    return min(size & -size, 8)


def check_aligned(buffer: Any, dtype: np.dtype) -> None:
    """Raise InvalidArgument if a buffer's host memory (CL_MEM_USE_HOST_PTR) is not aligned for elements of `dtype`:
    kernels that store vectors there would crash. Records are copied in words of up to 8 bytes."""
    if not buffer.get_info(cl.mem_info.FLAGS) & cl.mem_flags.USE_HOST_PTR:
        return
    address = buffer.get_host_array((1,), _BYTE).ctypes.data
    if address % alignment(dtype):
        raise InvalidArgument(
            f"a pyopencl Array of dtype {dtype} uses host memory at the address {address}; multiples of "
            f"{alignment(dtype)} are accepted"
        )


def check_dtype(dtype: np.dtype, name: str) -> np.dtype:
    """`dtype` in native byte order; raises InvalidArgument for a dtype that device memory cannot hold."""
    _check_held(dtype, name)  # its cache treats np.record and plain dtypes as equal, so it must not return the dtype
    return dtype if dtype.isnative else dtype.newbyteorder("=")


@functools.lru_cache(maxsize=256)
def _check_held(dtype: np.dtype, name: str) -> None:
    if dtype.hasobject or dtype.kind in "OSUMm" or (dtype.kind == "V" and dtype.names is None) or dtype.itemsize == 0:
        raise InvalidArgument(
            f"{name} has dtype {dtype}; booleans, integers, floats, complex numbers, OpenCL vectors and records "
            "are accepted"
        )
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        raise InvalidArgument(f"{name} has dtype {dtype}; floats of at most 64 bits are accepted")


def fits_in_place(array: np.ndarray) -> bool:
    """Whether kernels can use an array in place: native byte order, aligned, elements of at least one byte, strides of
    whole elements."""
    size = array.itemsize
    return (
        size > 0
        and array.dtype.isnative
        and array.__array_interface__["data"][0] % alignment(array.dtype) == 0
        and all(stride % size == 0 for stride in array.strides)
    )


def buffer_over(context: cl.Context, low: int, high: int, keep: object) -> cl.Buffer:
    """A buffer on the host memory [low, high), without a copy. It keeps the owner of the memory, `keep`, alive."""
    if high <= low:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE, 1)
    raw = (ctypes.c_char * (high - low)).from_address(low)
    raw._owner = keep  # type: ignore[attr-defined]
    return create(context, IN_PLACE, high - low, raw)


def buffer_with(context: cl.Context, array: np.ndarray) -> cl.Buffer:
    """A buffer with a copy of a C-contiguous array."""
    if array.size == 0:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE, 1)
    raw = array.reshape(-1).view(np.uint8)
    return create(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, raw.nbytes, raw)


def create(context: cl.Context, flags: int, nbytes: int, host: Any = None) -> cl.Buffer:
    """cl.Buffer with pydp's errors. The size is at least one byte, because OpenCL has no empty buffers.

    If the device has too little memory, the memory that pydp keeps for later calls is released first.
    """
    try:
        if nbytes > sys.maxsize:  # exceeds size_t of the driver
            raise MemoryError("no device has that much memory")
        for last_try in (False, True):
            try:
                if host is not None:
                    return cl.Buffer(context, flags, hostbuf=host)
                return new_buffer(context, flags, max(nbytes, 1))
            except cl.MemoryError:
                if last_try or not QueueMemory.drop_all():
                    raise
    except (cl.MemoryError, MemoryError) as error:
        raise OutOfResources(f"the device cannot allocate {nbytes} bytes: {error}") from None
    except cl.LogicError as error:
        if "SIZE" in str(error).upper():
            raise OutOfResources(f"the device does not accept a buffer of {nbytes} bytes: {error}") from None
        raise


def enqueued(command: Any, queue: cl.CommandQueue, *args: Any, **options: Any) -> Any:
    """Call one of pyopencl's `enqueue_...` functions with pydp's errors.

    Some drivers allocate a buffer at its first use. If the device has too little memory, the memory that pydp keeps for
    later calls is released, and the command is tried again.
    """
    for last_try in (False, True):
        try:
            return command(queue, *args, **options)
        except cl.Error as error:
            if getattr(error, "code", None) not in MEMORY_CODES:
                raise
            if last_try or not QueueMemory.drop_all(queue):
                raise OutOfResources(f"the device has not enough memory for the arrays of a call: {error}") from None
    raise AssertionError("the loop returns or raises")


def make_visible(queue: cl.CommandQueue, buffer: cl.Buffer, nbytes: int) -> cl.Event:
    """Wait until the device's writes to an in-place buffer are visible to the host; returns the event of the unmap.

    The map command blocks, because one driver knows the address only after it is complete. The same driver may return
    earlier if another thread uses the queue, so the command's event is waited for too. The unmap of a region that was
    mapped for reading changes nothing, so it needs no wait.
    """
    size = (max(nbytes, 1),)
    mapped, complete = enqueued(
        cl.enqueue_map_buffer, queue, buffer, cl.map_flags.READ, 0, size, _BYTE, is_blocking=True
    )
    complete.wait()
    return mapped.base.release(queue)


@contextlib.contextmanager
def host_allocation() -> Iterator[None]:
    """Context manager that turns NumPy's MemoryError into OutOfResources; its message has the size and shape."""
    try:
        yield
    except MemoryError as error:
        if isinstance(error, OutOfResources):
            raise
        raise OutOfResources(f"the host is out of memory: {error or 'the size is unknown'}") from None


def fresh(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new uninitialized C-contiguous array; larger arrays are aligned to a cache line. Raises OutOfResources if the
    host has too little memory."""
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    try:
        if nbytes == 0 or (nbytes < _ALIGNED_FROM and alignment(dtype) <= _MALLOC_ALIGNMENT):
            return np.empty(shape, dtype)
        return _aligned(shape, dtype, nbytes)
    except (MemoryError, ValueError):  # ValueError: the sizes that are not 0 exceed what NumPy counts
        why = f"which takes {nbytes} bytes" if nbytes else "because its sizes are too large for NumPy"
        raise OutOfResources(f"the host cannot allocate an array of shape {shape} and dtype {dtype}, {why}") from None


def _aligned(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> np.ndarray:
    if nbytes > sys.maxsize - _LINE:  # NumPy's limit for the size of an array
        raise MemoryError
    raw = np.empty(nbytes + _LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % _LINE
    return raw[start : start + nbytes].view(dtype).reshape(shape)
