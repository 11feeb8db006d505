"""Arguments that all algorithms share: axes, integers and switches, and keys for arguments that have no hash."""

from __future__ import annotations

from collections.abc import Hashable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.model.family import Key, Keyed


def integer(value: Any) -> int:
    """An integer, Python's or NumPy's, as a Python int; TypeError for anything else, True and False with it."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{value!r} is no integer")
    return int(value.__index__())


def switch(value: Any, name: str) -> bool:
    """True or False, also as NumPy's or as 1 or 0; InvalidArgument for anything else given as `name`."""
    if isinstance(value, (bool, np.bool_, int, np.integer)) and value in (0, 1):
        return bool(value)
    raise InvalidArgument(f"{name} is {value!r}; True or False is accepted")


def axis_of(axis: Any, rank: int, accepted: str = "an integer or None") -> int:
    """The number of an axis of an array of `rank` axes; `accepted` tells what the caller takes besides.

    Raises InvalidArgument for what is no integer and for an axis that is not there.

    >>> axis_of(-1, 3)
    2
    """
    try:
        number = integer(axis)
    except TypeError:
        raise InvalidArgument(f"axis={axis!r} is not an axis; {accepted} is accepted") from None
    if rank == 0:
        raise InvalidArgument(f"axis={number} is not an axis of an array of rank 0, which has none; None is accepted")
    if not -rank <= number < rank:
        raise InvalidArgument(
            f"axis={number} is not an axis of an array of rank {rank}; {-rank} to {rank - 1} are accepted"
        )
    return number % rank


def by_key(value: Any) -> Any:
    """`value` for a kept plan: as it is where it can be a key, else with a key that stands for it: dicts by their
    items, Python functions by their content."""
    if isinstance(value, dict):
        return Keyed(value, Key(tuple(sorted((str(name), repr(item)) for name, item in value.items()))))
    if callable(value) and not isinstance(value, np.ufunc | BuiltinFunctionType | type):
        from pydp.lang.source.fingerprint import fingerprint

        return Keyed(value, Key(fingerprint(value)))
    try:
        hash(value)
    except TypeError:  # nothing that is accepted, but it is for those who take it to say what is
        return Keyed(value, Key((type(value), repr(value))))
    return value


def unkeyed(value: Any) -> Any:
    """What `by_key` was given."""
    return value.value if isinstance(value, Keyed) else value


def key_alone(value: Any) -> Hashable:
    """What `by_key` gives, as a part of a key that does not keep the value."""
    found = by_key(value)
    return found.key if isinstance(found, Keyed) else found  # type: ignore[no-any-return]
