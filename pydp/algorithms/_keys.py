"""Arguments that cannot be hashed by value (functions, dicts) as keys of kept plans."""

from __future__ import annotations

from collections.abc import Hashable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from pydp.specialize.choices import Key, Keyed


def by_key(value: Any) -> Any:
    """`value` for a kept plan: as it is where it can be a key, else with a key that stands for it: dicts by their
    items, Python functions by their content."""
    if isinstance(value, dict):
        return Keyed(value, Key(tuple(sorted((str(name), repr(item)) for name, item in value.items()))))
    if callable(value) and not isinstance(value, np.ufunc | BuiltinFunctionType | type):
        from pydp.lang.fingerprint import fingerprint  # the language is only read in where it is used

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
