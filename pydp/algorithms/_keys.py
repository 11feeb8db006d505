"""Arguments that cannot be hashed by value (functions, dicts) as keys of kept plans."""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

import numpy as np


class Keyed:
    """A value with the key that stands for it."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any, key: Any) -> None:
        self.value = value
        self.key = key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and other.key == self.key


def by_key(value: Any) -> Any:
    """`value` as something that can be a key: dicts by their items, Python functions by their content."""
    if isinstance(value, dict):
        return Keyed(value, tuple(sorted((str(name), repr(item)) for name, item in value.items())))
    if callable(value) and not isinstance(value, np.ufunc | BuiltinFunctionType | type):
        from pydp.lang.names import content_key

        return Keyed(value, content_key(value))
    try:
        hash(value)
    except TypeError:  # nothing that is accepted, but it is for those who take it to say what is
        return Keyed(value, (type(value), repr(value)))
    return value


def unkeyed(value: Any) -> Any:
    """What `by_key` was given."""
    return value.value if isinstance(value, Keyed) else value
