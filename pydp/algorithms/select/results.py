"""Results whose length only the device knows, from results with space for all elements.

A Field gets a deferred shape. NumPy arrays and pyopencl Arrays need their length: the call waits for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.lengths import part_of, trimmed, value_of
from pydp.runtime.arrays.deferred import DeferredShape
from pydp.runtime.field.field import Field

rows = trimmed


def columns(made: Any, count: Any, *_: Any) -> tuple[Any, ...]:
    """The first `count` elements of each row of a matrix."""
    if isinstance(made, Field):
        shape = DeferredShape(count, made.shape[1])
        return tuple(made[axis].deferred(shape) for axis in range(made.shape[0]))
    length = value_of(count)
    return tuple(part_of(made[axis], length) for axis in range(made.shape[0]))


def counted(made: Any, count: Any, *_: Any) -> tuple[Any, Any]:
    """(the array, `count`); an int for NumPy arrays."""
    return made, int(count) if isinstance(count, np.ndarray) else count


def counted_twice(made: Any, first: Any, second: Any, *_: Any) -> tuple[Any, Any, Any]:
    """(the array, both counts); ints for NumPy arrays."""
    return made, *(int(one) if isinstance(one, np.ndarray) else one for one in (first, second))


def trimmed_alike(made: Any, count: Any) -> tuple[Any, ...]:
    """The first `count` elements of several arrays."""
    if isinstance(made[0], Field):
        shape = DeferredShape(count, made[0].shape[0])
        return tuple(one.deferred(shape) for one in made)
    length = value_of(count)
    return tuple(part_of(one, length) for one in made)
