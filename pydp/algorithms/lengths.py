"""The argument ``length=``: how many leading elements of an array count, a number that may only be on the device.

    x = whole(x, length)
    call = Call.begin({"x": x, "length": length_of(length)}, ...)
    limited = limit(call, call.input("x").size)  # a buffer of one int64, from 0 to the size

A kernel reads the number there. The host does not wait for it, so a value on the device cannot raise an error: a
negative length counts as 0; a length larger than the array counts as the array's size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import integer
from pydp.dtypes import c_name
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.data import Array, FieldData
from pydp.runtime.arrays.deferred import DeferredShape
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.field.field import Field
from pydp.runtime.memory.host_memory import host_allocation
from pydp.runtime.placement import Converted

LENGTH = np.dtype(np.int64)


def length_of(length: Any) -> Any:
    """The argument as an array of one integer; None stays None. Raises InvalidArgument for anything else."""
    if length is None:
        return None
    if not isinstance(length, (FieldData, Array)):  # these have __index__, which would wait for the value
        try:
            return np.asarray(integer(length), LENGTH).view(Converted)
        except (TypeError, OverflowError):
            pass
    dtype, shape = getattr(length, "dtype", None), getattr(length, "shape", None)
    if dtype is None or shape is None:
        raise InvalidArgument(
            f"length is {shown(length)}; an integer, or a Field or pyopencl Array of one integer, is accepted"
        )
    if np.dtype(dtype).kind not in "iu" or tuple(shape) not in ((), (1,)):
        raise InvalidArgument(
            f"length has shape {tuple(shape)} and dtype {dtype}; one integer of shape () or (1,) is accepted"
        )
    return length


def whole(x: Any, length: Any) -> Any:
    """The array; with a length, a result whose length only the device knows is taken with all its memory, so that the
    call does not wait for the length."""
    return x.whole if length is not None and isinstance(x, FieldData) else x


def check_limit(length: Any, size: int, what: str = "the number of elements") -> None:
    """Raise InvalidArgument for a length on the host that is negative or exceeds the number of elements."""
    if isinstance(length, np.ndarray) and not 0 <= int(length.reshape(())) <= size:
        raise InvalidArgument(f"length is {int(length.reshape(()))}; 0 to {size}, {what}, is accepted")


def limit(call: Call, size: int, own: Operand | None = None) -> Operand:
    """Enqueue the length, limited to 0 ... size, as one int64: the input "length" of the call. own: where it is
    stored; None: scratch memory."""
    given = call.input("length")
    found = call.temporary((), LENGTH, "length") if own is None else own
    function = (
        f"static long evaluate(const {c_name(given.dtype)} x, const long most) "
        "{ return x < 0 ? 0 : (ulong) x > (ulong) most ? most : (long) x; }"
    )
    elementwise.apply(call, "call", [given.view((), ()), np.int64(size)], found, function=function)
    return found


def on_host(length: Any, size: int) -> int:
    """The length as a Python integer, limited to 0 ... size; waits for a number on the device."""
    found = length_of(length)
    check_limit(found, size)
    value = int(np.asarray(found.get() if hasattr(found, "get") else found).reshape(()))
    return min(max(value, 0), size)


# --- results -------------------------------------------------------------------------------------------------


def value_of(count: Any) -> int:
    """The value of a NumPy array or a pyopencl Array of one element; waits for it."""
    return int((count if isinstance(count, np.ndarray) else count.get()).reshape(()))


def trimmed(made: Any, count: Any, *_: Any) -> Any:
    """The first `count` elements of an array, or rows of a matrix."""
    if isinstance(made, Field):
        return made.deferred(DeferredShape(count, made.shape[0], made.shape[1:]))
    return part_of(made, value_of(count))


def part_of(made: Any, length: int) -> Any:
    """The first elements of a NumPy array or a pyopencl Array. A NumPy array does not keep much more memory than it
    needs."""
    if isinstance(made, np.ndarray) and 2 * length < made.shape[0]:
        with host_allocation():
            return made[:length].copy()
    return made[:length]
