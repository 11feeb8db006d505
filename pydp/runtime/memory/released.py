"""Whether a pyopencl buffer has been released. pyopencl stores this in a private flag and has no function for it.

The handle of a released buffer points to memory that the driver has freed. A driver crashes if it is asked about the
handle, and a kernel that gets it reads and writes memory that now belongs to something else. pyopencl keeps the flag
beside the handle. pydp finds the flag's offset once: it releases a small buffer and looks for the one byte that
changes. If pyopencl or Python were built differently from the builds known here, no buffer counts as released.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import pyopencl as cl
from pyopencl.tools import ImmediateAllocator, MemoryPool, PooledBuffer

from pydp.runtime.forks import raise_if_lost

_HEADER = 16  # bytes of a Python object before those of nanobind: the distance to the C++ object, and how to take it
_DIRECT = 1 << 34  # of these eight bytes: the distance leads to the C++ object itself, not to its address
_SIZES = {cl.MemoryObject: 32, PooledBuffer: 40}  # bytes of the C++ objects, at least
_read_byte: Callable[[int], ctypes.c_uint8] = ctypes.c_uint8.from_address
_read_word: Callable[[int], ctypes.c_uint64] = ctypes.c_uint64.from_address


_flags: dict[type, int | None] = {}  # of MemoryObject and of PooledBuffer: where the flag is in the C++ object


def is_released(buffer: Any, context: cl.Context) -> bool:
    """Whether ``buffer.release()`` has been called; False for what is not one of pyopencl's memory objects.

    context: where small buffers can be made the first time, to find out how pyopencl keeps that.
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
    """The address of the C++ object behind a Python object of nanobind's."""
    header = _read_word(id(buffer) + _HEADER).value
    distance = header & 0xFFFFFFFF
    place = id(buffer) + (distance - (1 << 32) if distance & 0x80000000 else distance)
    return place if header & _DIRECT else _read_word(place).value


def _place_of_flag(kind: type, context: cl.Context) -> int | None:
    """Where in the C++ object the byte lies that is 1 until the release and then 0; None where that is not known."""
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
    except cl.Error:  # no room, or a driver without parts of buffers
        return None
    return places.pop() if len(places) == 1 else None


def _probes(kind: type, context: cl.Context) -> list[Any]:
    """Small buffers of each form that pyopencl makes: by itself, and as a part of another one."""
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
