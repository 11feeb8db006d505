"""NumPy arrays larger than the device's largest buffer: algorithms work on pieces that fit.

A piece is a view. It fits if the memory from its first to its last element, which becomes one buffer, is within the
limit. Halving the axis that spans the most memory makes any array fit in the end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, OutOfResources
from pydp.model.explanation import Explanation, Given
from pydp.runtime import placement
from pydp.runtime.arrays.operand import c_strides
from pydp.runtime.drivers import devices
from pydp.runtime.memory.host_memory import byte_range, check_dtype, fresh, host_allocation

ALWAYS_FITS = 1 << 27  # CL_DEVICE_MAX_MEM_ALLOC_SIZE is at least 128 MiB on full-profile devices


def limit_of(device: Any) -> int:
    """The maximum bytes of a piece: the buffer size that the device guarantees."""
    return int(device.profile.max_allocation)


def device_of(where: dict[str, Any]) -> Any:
    """The device of a call with the arguments device and queue in `where`."""
    placement.check_queue(where["queue"])
    if where["queue"] is not None and where["device"] is None:
        return devices.from_queue(where["queue"])
    return devices.device(where["device"])


def buffer_limit(where: dict[str, Any]) -> int:
    """The maximum bytes of a piece in a call."""
    return limit_of(device_of(where))


def memory_range(x: np.ndarray) -> int:
    """The bytes from an array's first element to its last one, inclusive."""
    low, high = byte_range(x)
    return high - low


def needed(where: dict[str, Any], *arrays: Any, result: int = 0) -> bool:
    """Whether the call must work on pieces: an array, or a result of `result` bytes, exceeds the device's limit.

    where: the arguments device and queue. None stands for no array. False if an argument is not :func:`on_host`.
    """
    given = [one for one in arrays if one is not None]
    if not on_host(*given):
        return False
    if max([result, *(one.nbytes for one in given)]) < ALWAYS_FITS:
        return False
    return max([result, *(memory_range(one) for one in given)]) > buffer_limit(where)


def on_host(*arrays: Any) -> bool:
    """Whether all arguments are NumPy arrays that can be cut. A call rejects masked arrays and arrays of objects."""
    return all(
        type(one) is np.ndarray or (isinstance(one, np.ndarray) and not isinstance(one, np.ma.MaskedArray))
        for one in arrays
    ) and not any(one.dtype.hasobject for one in arrays)


def after_events(where: dict[str, Any]) -> dict[str, Any]:
    """Wait for the events in `where` and return it without them. Cutting may copy elements on the host, therefore the
    host waits before the first piece."""
    placement.wait_for_all(placement.check_events(where["wait_for"]))
    return {**where, "wait_for": None}


def fit(limit: int, *arrays: np.ndarray) -> bool:
    """Whether each array fits into a buffer of `limit` bytes."""
    return all(memory_range(one) <= limit for one in arrays)


def widest_axis(arrays: Sequence[np.ndarray], axes: Sequence[int] | None = None) -> int:
    """The axis (among `axes`) that spans the most memory of the array with the largest memory range.

    The arrays have one shape; at least one of the axes has more than one element.
    """
    largest = max(arrays, key=memory_range)
    among = [k for k in (range(largest.ndim) if axes is None else axes) if largest.shape[k] > 1]
    return max(among, key=lambda k: abs(largest.strides[k]) * (largest.shape[k] - 1))


def halves(axis: int, *arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Both halves of arrays of one shape along an axis."""
    middle = arrays[0].shape[axis] // 2
    before = (slice(None),) * axis
    return [tuple(one[(*before, part)] for one in arrays) for part in (slice(middle), slice(middle, None))]


def pieces(limit: int, *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Pieces of arrays of one shape, such that each piece of each array fits."""
    if fit(limit, *arrays):
        yield arrays
        return
    for half in halves(widest_axis(arrays), *arrays):
        yield from pieces(limit, *half)


def unallocated(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A C-contiguous array without memory, for its shape and strides: its elements must not be accessed. Raises
    OutOfResources if no address space can hold such an array."""
    shape = tuple(shape)
    nbytes = math.prod(max(size, 1) for size in shape) * dtype.itemsize  # NumPy's limit counts empty axes as 1
    if nbytes > sys.maxsize:
        raise OutOfResources(f"no host can hold an array of shape {shape} and dtype {dtype}")
    strides = [step * dtype.itemsize for step in c_strides(shape)]
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)


def explaining_pieces(
    explain: Callable[[Given], Explanation],
    *names: str,
    result: Callable[[Given], np.ndarray] | None = None,
    others: Callable[[Given], Sequence[np.ndarray]] | None = None,
    first: Callable[[Given, int, np.ndarray], dict[str, Any]] | None = None,
) -> Callable[[Given], Explanation]:
    """`explain`, except that it describes the first piece if an array or the result exceeds the device's limit.

    names: the parameters for the arrays that are cut; None stands for no array. result: an array with the layout of the
    result; without `first`, it is broadcast to the shape of the others. others: further arrays that must fit.
    first(given, limit, result): the arguments of the first piece that differ.
    """

    def describe(given: Given) -> Explanation:
        arrays = {name: value for name in names if (value := getattr(given, name)) is not None}
        if not on_host(*arrays.values()):
            return explain(given)
        made = [] if result is None else [result(given)]
        more = [] if others is None else others(given)
        if not needed(given.where, *arrays.values(), *more, result=max(map(memory_range, made), default=0)):
            return explain(given)
        limit = buffer_limit(given.where)
        if first is not None:
            found = first(given, limit, *made)
        else:
            found = dict(zip(arrays, _first_piece(limit, *map(np.asarray, arrays.values()), *made), strict=False))
        text = explain(given.but(**found))
        shapes = ", ".join(f"{name} of shape {found[name].shape}" for name in arrays)
        text.choices.insert(0, f"buffers of the device have at most {limit} bytes: this describes a piece, {shapes}")
        return text

    return describe


def _first_piece(limit: int, *arrays: np.ndarray) -> Sequence[np.ndarray]:
    return next(pieces(limit, *arrays))


def target_of(out: Any, shape: tuple[int, ...], dtype: np.dtype, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(target, result): the pieces are written to `target`, which becomes `result`.

    Both are `out`, or a new array without out. If `out` shares memory with an input, `target` is a new array: a piece
    would otherwise overwrite elements that later pieces read. :func:`delivered` copies it to `out`.
    """
    check_dtype(dtype, "the result")
    if out is None:
        made = fresh(shape, dtype)
        return made, made
    if not isinstance(out, np.ndarray):
        raise InvalidArgument(
            f"out is a {type(out).__name__}, but the arrays exceed the device's largest buffer; a NumPy array is needed"
        )
    placement.check_out(out, shape, dtype, "out")
    shared = any(np.may_share_memory(out, one) for one in inputs)
    return (fresh(shape, dtype) if shared else np.asarray(out)), out


def delivered(target: np.ndarray, result: np.ndarray) -> np.ndarray:
    """The result of :func:`target_of`, after its pieces are written."""
    if not np.may_share_memory(target, result):
        result[...] = target
    return result


def contiguous(x: np.ndarray) -> np.ndarray:
    """`x` or a contiguous copy; raises OutOfResources if the host has too little memory."""
    with host_allocation():
        return np.ascontiguousarray(x)
