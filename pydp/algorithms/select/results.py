"""Results whose length only the device knows, from results with space for all elements.

A Field gets a deferred shape. NumPy arrays and pyopencl Arrays need their length: the call waits for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.runtime.arrays.deferred import DeferredShape
from pydp.runtime.field.field import Field
from pydp.runtime.memory.host_memory import host_allocation


def length_of(count: Any) -> int:
    """The value of a NumPy array or a pyopencl Array of one element; waits for it."""
    return int((count if isinstance(count, np.ndarray) else count.get()).reshape(()))


def trimmed(made: Any, count: Any, *_: Any) -> Any:
    """The first `count` elements of an array, or rows of a matrix."""
    if isinstance(made, Field):
        return made.deferred(DeferredShape(count, made.shape[1:]))
    return part_of(made, length_of(count))


def part_of(made: Any, length: int) -> Any:
    """The first elements of a NumPy array or a pyopencl Array. A NumPy array does not keep much more memory than it
    needs."""
    if isinstance(made, np.ndarray) and 2 * length < made.shape[0]:
        with host_allocation():
            return made[:length].copy()
    return made[:length]


rows = trimmed


def columns(made: Any, count: Any, *_: Any) -> tuple[Any, ...]:
    """The first `count` elements of each row of a matrix."""
    if isinstance(made, Field):
        shape = DeferredShape(count)
        return tuple(made[axis].deferred(shape) for axis in range(made.shape[0]))
    length = length_of(count)
    return tuple(part_of(made[axis], length) for axis in range(made.shape[0]))


def counted(made: Any, count: Any, *_: Any) -> tuple[Any, Any]:
    """(the array, `count`); an int for NumPy arrays."""
    return made, int(count) if isinstance(count, np.ndarray) else count


def trimmed_alike(made: Any, count: Any) -> tuple[Any, ...]:
    """The first `count` elements of several arrays."""
    if isinstance(made[0], Field):
        shape = DeferredShape(count)
        return tuple(one.deferred(shape) for one in made)
    length = length_of(count)
    return tuple(part_of(one, length) for one in made)
