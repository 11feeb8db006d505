"""One common device copy for NumPy arrays that share elements with a written array.

It is needed if kernels cannot use the arrays in place. Separate copies would lose values that are written through
another array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.runtime.memory import host_memory
from pydp.runtime.memory.host_memory import byte_range, check_dtype

_MOST_WORK: Any = 10_000  # limit of the search for a shared element; above it, arrays count as sharing


def groups(arrays: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """Groups of two or more arrays that share elements, with at least one of `written` in each. An array that is given
    twice shares elements with itself."""
    found: list[list[np.ndarray]] = []
    for array in arrays:
        near = [group for group in found if any(_shares(array, other) for other in group)]
        found = [group for group in found if not any(group is one for one in near)]
        found.append([*(other for group in near for other in group), array])
    kept = {id(array) for array in written}
    return [group for group in found if len(group) > 1 and any(id(array) in kept for array in group)]


def _shares(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


class AliasedCopy:
    """A copy of the memory of several arrays, in native byte order. `elements` gives the view of each array.

    Raises InvalidArgument if the arrays do not overlap in whole elements, or differ in dtype with a foreign byte order.
    """

    __slots__ = ("_low", "_places", "memory")

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        first = next((array for array in arrays if array.flags.writeable), arrays[0])
        self._places: np.ndarray | None = None
        if all(_place(array) == _place(first) for array in arrays):
            self.memory, self._places = dense(first, check_dtype(first.dtype, "an array"), filled=True)
            return
        ranges = [byte_range(array) for array in arrays]
        self._low = min(low for low, _ in ranges)
        foreign = next((array.dtype for array in arrays if not array.dtype.isnative), None)
        for array in arrays:
            steps = (_address(array) - self._low, *array.strides)
            if any(step % array.itemsize for step in steps) or (foreign is not None and array.dtype != foreign):
                raise InvalidArgument(
                    f"an array of dtype {array.dtype} and strides {array.strides} shares elements with a written "
                    "array, but cannot be copied together with it; pass copies, or arrays that overlap in whole "
                    "elements"
                )
        count = max(high for _, high in ranges) - self._low
        raw = np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(self._low))
        if foreign is None:
            self.memory = host_memory.fresh((count,), np.dtype(np.uint8))
            self.memory[...] = raw
        else:
            with host_memory.host_allocation():
                self.memory = raw.view(foreign).astype(foreign.newbyteorder("="))

    def elements(self, array: np.ndarray) -> np.ndarray:
        """The view of `memory` that holds the elements of one of the arrays."""
        if self._places is not None:
            return self._places
        dtype = check_dtype(array.dtype, "an array")
        return np.ndarray(array.shape, dtype, self.memory.view(np.uint8), _address(array) - self._low, array.strides)

    def start(self, array: np.ndarray) -> int:
        """The offset of an array in `memory`, in elements of its dtype."""
        return 0 if self._places is not None else (_address(array) - self._low) // array.itemsize


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _place(array: np.ndarray) -> tuple[object, ...]:
    return _address(array), array.shape, array.strides, array.dtype


def dense(array: np.ndarray, dtype: np.dtype, filled: bool) -> tuple[np.ndarray, np.ndarray]:
    """(C-contiguous memory, the view of it with the array's shape), in native byte order. The order of the strides is
    kept, so an axis of stride 1 keeps it, as kernels may assume.
    """
    if array.flags.c_contiguous and array.dtype.isnative:
        return array, array
    once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    memory = host_memory.fresh(tuple(once.shape[axis] for axis in order), dtype)
    elements = memory.transpose([order.index(axis) for axis in range(array.ndim)])
    if filled:
        elements[...] = once
    return memory, elements
