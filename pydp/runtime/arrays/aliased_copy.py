"""NumPy arrays that share elements with one that a kernel writes, where kernels cannot work on those themselves.

A copy for each array would lose what is written through another one; one copy serves all of them here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.runtime.memory import host_memory
from pydp.runtime.memory.host_memory import byte_range, check_dtype

_MOST_WORK: Any = 10_000  # steps of the search for a common element; arrays that take more are taken to have one


def groups(arrays: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """The arrays that share elements with others (an array given twice does), one of them in `written`."""
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
    """One copy of the memory of several arrays, in native byte order, with the elements of each to be found in it.

    Raises InvalidArgument for arrays that share elements, but not as whole elements of one type or byte order.
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
                    f"an array of {array.dtype} with strides {array.strides} shares elements with others that are "
                    "written, and cannot be copied together with them; give copies, or arrays of whole elements"
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
        """Where the elements of one of the arrays are in `memory`."""
        if self._places is not None:
            return self._places
        dtype = check_dtype(array.dtype, "an array")
        return np.ndarray(array.shape, dtype, self.memory.view(np.uint8), _address(array) - self._low, array.strides)

    def start(self, array: np.ndarray) -> int:
        """How many elements of its own type lie in `memory` before an array's first one."""
        return 0 if self._places is not None else (_address(array) - self._low) // array.itemsize


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _place(array: np.ndarray) -> tuple[object, ...]:
    return _address(array), array.shape, array.strides, array.dtype


def dense(array: np.ndarray, dtype: np.dtype, filled: bool) -> tuple[np.ndarray, np.ndarray]:
    """(C-contiguous memory, the array's elements in it), in native byte order and in the order of the array's own
    strides: the axis that was the densest stays so, and what a kernel was told of strides of 1 stays true.
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
