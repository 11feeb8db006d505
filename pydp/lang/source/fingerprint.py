"""The fingerprint of a vector function: a number that identifies its content and is the key of its cached kernels.

The content key (:func:`pydp.lang.source.names.content_key`) is computed once per function object. Later calls only
check that the free names of the function still refer to the same objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from pydp.lang.source import names
from pydp.lang.source.syntax import source_of
from pydp.runtime.bounded import BoundedCache

_CACHED = "_pydp_fingerprint"
_numbers = BoundedCache(1024)  # by content; after an eviction, the same content gets a new number
_counter = itertools.count()  # a number is never reused

# (function that reads the current value, object that holds the name, name, expected value)
_Guard = tuple[Callable[[Any, Any], Any], Any, Any, Any]


def fingerprint(fn: Any) -> int:
    """The number of the content of `fn`: equal for equal content, different after a free name changes its value."""
    function = getattr(fn, "function", fn)
    cached = getattr(function, "__dict__", {}).get(_CACHED)
    if cached is not None and cached[0] is function:  # functools.wraps copies the attributes of another function
        for read, holder, name, expected in cached[1]:
            if read(holder, name) is not expected:
                break
        else:
            return int(cached[2])
    return _update(names.python_function(fn))


def _update(function: FunctionType) -> int:
    key = names.content_key(function)
    number: int = _numbers.make(key, next, _counter)
    guards: list[_Guard] = []
    _add_guards(function, guards, set())
    function.__dict__[_CACHED] = (function, guards, number)
    return number


def _add_guards(function: FunctionType, guards: list[_Guard], seen: set[FunctionType]) -> None:
    """Add guards for all free names of `function` and of the functions that it calls."""
    if function in seen:
        return
    seen.add(function)
    guards.append((_attribute, function, "__code__", function.__code__))
    guards.append((_attribute, function, "__defaults__", function.__defaults__))
    _add_content_guards(function.__defaults__, guards, seen)
    for chain in source_of(function).facts.free_chains:
        value = names.look_up(function, chain[0])
        guards.append((names.look_up, function, chain[0], value))
        if isinstance(value, ModuleType) and value.__name__ in names._FIXED_MODULES:
            continue
        for name in chain[1:]:
            if names.ends_chain(value):
                break
            holder, value = value, getattr(value, name, names.MISSING)
            guards.append((_attribute, holder, name, value))
        _add_content_guards(value, guards, seen)


def _add_content_guards(value: Any, guards: list[_Guard], seen: set[FunctionType]) -> None:
    """Add guards for functions, and for the content of arrays, records and user objects, which may change in place."""
    inner = value if isinstance(value, type) else getattr(value, "function", value)
    if isinstance(value, tuple):
        for item in value:
            _add_content_guards(item, guards, seen)
    elif isinstance(value, np.ndarray | np.void):
        key = names.array_key(value)
        guards.append((_content, value, key, key))
    elif isinstance(inner, FunctionType):
        if inner is not value:
            guards.append((_attribute, value, "function", inner))
        if (inner.__module__ or "").split(".")[0] not in names._FIXED_MODULES:
            _add_guards(inner, guards, seen)
    elif not isinstance(inner, int | float | str):
        key = names.attributes_key(value)
        if key:
            guards.append((_attributes, value, key, key))


def _content(array: Any, key: Any) -> Any:
    return key if names.array_key(array) == key else None


def _attributes(holder: Any, key: Any) -> Any:
    return key if names.attributes_key(holder) == key else None


def _attribute(holder: Any, name: str) -> Any:
    return getattr(holder, name, names.MISSING)
