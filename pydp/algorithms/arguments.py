"""Validation of common arguments (axes, integers, booleans, shapes), and cache keys for unhashable arguments."""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, is_on_device, shown
from pydp.model.family import Key, Keyed


def integer(value: Any) -> int:
    """A Python or NumPy integer as a Python int; TypeError for anything else, including True and False."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{shown(value)} is not an integer")
    return int(value.__index__())


def switch(value: Any, name: str) -> bool:
    """The value of the boolean parameter `name`: a Python or NumPy bool, or 0 or 1. Else raises InvalidArgument."""
    if isinstance(value, (bool, np.bool_, int, np.integer)) and value in (0, 1):
        return bool(value)
    raise InvalidArgument(f"{name} is {shown(value)}; True or False is accepted")


def check_same_shape(name: str, array: Any, other: str, wanted: Any) -> None:
    """Raise InvalidArgument unless the array `name` has the shape of the array `other`."""
    if tuple(array.shape) != tuple(wanted.shape):
        raise InvalidArgument(
            f"{name} has shape {tuple(array.shape)}; the shape of {other}, {tuple(wanted.shape)}, is needed"
        )


def refuse_shared(call: Any, written: Any, *inputs: Any, name: str = "out") -> None:
    """Raise InvalidArgument if an output shares memory with an input; None stands for no input."""
    for one in inputs:
        if one is not None and call.overlaps(one, written):
            raise InvalidArgument(f"{name} shares memory with {one.name}; a separate array is needed")


def scalar_of(result: Any, out: Any = None) -> Any:
    """A call's result as NumPy returns it: an array of rank 0 becomes a NumPy scalar, unless `out` was given."""
    return result[()] if out is None and isinstance(result, np.ndarray) and not result.ndim else result


def axis_of(axis: Any, rank: int, accepted: str = "an integer or None") -> int:
    """Normalize `axis` to 0 ... rank - 1. `accepted` lists the caller's accepted values, for the message.

    Raises InvalidArgument for values that are not integers and for axes out of range.

    >>> axis_of(-1, 3)
    2
    """
    try:
        number = integer(axis)
    except TypeError:
        raise InvalidArgument(f"axis={shown(axis)} is not an axis; {accepted} is accepted") from None
    if rank == 0:
        raise InvalidArgument(f"axis={number} is invalid for an array of rank 0; None is accepted")
    if not -rank <= number < rank:
        raise InvalidArgument(
            f"axis={number} is out of range for an array of rank {rank}; {-rank} to {rank - 1} are accepted"
        )
    return number % rank


def is_only_axis(axis: Any) -> bool:
    """Whether `axis` is 0 or -1, which many functions of NumPy accept for an array of rank 0."""
    try:
        return integer(axis) in (0, -1)
    except TypeError:
        return False


def by_key(value: Any) -> Any:
    """`value` if it is hashable, else a Keyed with a cache key: dicts by their items, Python functions by content."""
    if isinstance(value, dict):
        return Keyed(value, Key(tuple(sorted((str(name), repr(item)) for name, item in value.items()))))
    if callable(value) and not isinstance(value, np.ufunc | BuiltinFunctionType | type):
        from pydp.lang.source.fingerprint import fingerprint

        return Keyed(value, Key(fingerprint(value)))
    try:
        hash(value)
    except TypeError:  # the algorithm raises the error for this value: it knows the accepted ones
        return Keyed(value, Key((type(value), id(value) if is_on_device(value) else repr(value))))
    return value
