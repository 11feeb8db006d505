"""Check whether a pyopencl buffer has been released. pyopencl stores this in a private flag and has no function for it.

The handle of a released buffer points to memory that the driver has freed. A query with this handle crashes, and a
kernel with this handle accesses memory that may have another owner. pyopencl stores the flag next to the handle. pydp
finds the offset of the flag once: it releases a small buffer and searches for the one byte that changes. If the build
of pyopencl or Python is unknown, no buffer counts as released.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import pyopencl as cl
from pyopencl.tools import ImmediateAllocator, MemoryPool, PooledBuffer

from pydp.runtime.forks import raise_if_lost

_HEADER = 16  # size of the Python object header; nanobind's word follows: the offset of the C++ object, and flags
_DIRECT = 1 << 34  # flag in this word: the offset leads to the C++ object itself, not to a pointer to it
_SIZES = {cl.MemoryObject: 32, PooledBuffer: 40}  # minimum sizes of the C++ objects in bytes
_read_byte: Callable[[int], ctypes.c_uint8] = ctypes.c_uint8.from_address
_read_word: Callable[[int], ctypes.c_uint64] = ctypes.c_uint64.from_address


_flags: dict[type, int | None] = {}  # for MemoryObject and PooledBuffer: the offset of the flag in the C++ object


def is_released(buffer: Any, context: cl.Context) -> bool:
    """Whether ``buffer.release()`` has been called; False for other objects than pyopencl's memory objects.

    context: used at the first call to make small buffers, which show the offset of the flag.
    """
    kind = cl.MemoryObject if isinstance(buffer, cl.MemoryObject) else PooledBuffer
    if kind is PooledBuffer and not isinstance(buffer, kind):
        return False
    if kind not in _flags:
        raise_if_lost()
        _flags[kind] = _place_of_flag(kind, context)
    flag = _flags[kind]
    return flag is not None and not _read_byte(_object(buffer) + flag).value


def _object(buffer: Any) -> int:
    """The address of the C++ object of a nanobind object."""
    header = _read_word(id(buffer) + _HEADER).value
    distance = header & 0xFFFFFFFF
    place = id(buffer) + (distance - (1 << 32) if distance & 0x80000000 else distance)
    return place if header & _DIRECT else _read_word(place).value


def _place_of_flag(kind: type, context: cl.Context) -> int | None:
    """The offset in the C++ object of the byte that is 1 before the release and 0 after it; None if unknown."""
    known = (
        sys.implementation.name == "cpython"
        and sys.maxsize > 1 << 32
        and sys.byteorder == "little"
        and object.__basicsize__ == _HEADER  # larger in builds without the GIL or with traced references
        and type(cl.MemoryObject).__module__ == "nanobind"
    )
    if not known:
        return None
    try:
        places = {_found(probe, _SIZES[kind]) for probe in _probes(kind, context)}
    except cl.Error:  # too little memory, or a driver without sub-buffers
        return None
    return places.pop() if len(places) == 1 else None


def _probes(kind: type, context: cl.Context) -> list[Any]:
    """Small buffers of each form that pyopencl makes: a buffer and a sub-buffer, or a pooled buffer."""
    if kind is PooledBuffer:
        return [MemoryPool(ImmediateAllocator(cl.CommandQueue(context))).allocate(64)]
    whole = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
    return [whole.get_sub_region(0, 64), whole]


def _found(probe: Any, size: int) -> int | None:
    place, handle = _object(probe), probe.int_ptr
    before = ctypes.string_at(place, size)
    probe.release()
    after = ctypes.string_at(place, size)
    changed = [at for at in range(size) if before[at] != after[at]]
    holds_handle = handle.to_bytes(8, "little") in before
    if not holds_handle or len(changed) != 1 or (before[changed[0]], after[changed[0]]) != (1, 0):
        return None
    return changed[0]
