"""The values of the free names of a vector function.

The meaning of a function depends on its source and on the values of its free names (closure and module). Both are part
of :func:`content_key`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.source.syntax import source_of

_FIXED_MODULES = frozenset({"numpy", "math", "pydp", "builtins", "operator"})
_MAX_ELEMENTS = 64  # elements; larger arrays are refused as constants, so their content is not part of the key
_MAX_DEPTH = 3  # levels of nested objects that are inspected
_OPAQUE = ("pydp.runtime.", "pyopencl.")  # fields, devices, queues: a vector function cannot read their state
_CONSTANT_TYPES = (int, float, str, np.generic, np.ndarray)


class Missing:
    """The type of the value of an undefined name."""


MISSING = Missing()


class IdentityKey:
    """An object as part of a key, compared by identity. After the object is deleted, its key equals no other key, even
    if a new object has the same address. The key holds a weak reference, or a strong one if the object's type does not
    support weak references."""

    __slots__ = ("_number", "_referent")

    def __init__(self, value: object) -> None:
        self._number = id(value)
        try:
            self._referent: Callable[[], object] = ref(value)
        except TypeError:
            self._referent = lambda: value

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdentityKey) or other._number != self._number:
            return False
        value = self._referent()
        return value is not None and value is other._referent()


def python_function(fn: object) -> FunctionType:
    """The Python function of a vector function, function or lambda. Raises VectorError for other objects."""
    inner = getattr(fn, "function", fn)
    if isinstance(inner, FunctionType):
        return inner
    raise VectorError(f"{fn!r} is not a Python function; a function, a lambda or a @pydp.vector function is accepted")


def look_up(function: FunctionType, name: str) -> Any:
    """The current value of a free name of `function`: closure, module, then builtins; MISSING if undefined."""
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        try:
            return function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:
            return MISSING
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, MISSING)


def content_key(fn: object) -> Hashable:
    """A hashable key of a vector function's content: its code, defaults and the values of its free names.

    Functions with equal keys have equal translations. A rebound constant or a changed helper function changes the key.
    """
    return _function_key(python_function(fn), ())


def _function_key(function: FunctionType, callers: tuple[CodeType, ...]) -> Hashable:
    code = function.__code__
    if code in callers:
        return ("recursion", callers.index(code))
    inside = (*callers, code)
    values = tuple(_chain_key(function, chain, inside) for chain in source_of(function).facts.free_chains)
    return (code, code.co_filename, _value_key(function.__defaults__, inside), values)


def _chain_key(function: FunctionType, chain: tuple[str, ...], callers: tuple[CodeType, ...]) -> Hashable:
    value = look_up(function, chain[0])
    if isinstance(value, ModuleType) and value.__name__ in _FIXED_MODULES:
        return value.__name__
    for name in chain[1:]:
        if ends_chain(value):
            break
        value = getattr(value, name, MISSING)
    return _value_key(value, callers)


def ends_chain(value: Any) -> bool:
    """Whether the value is part of a key as a whole, so its attributes are not followed."""
    return isinstance(value, int | float | np.dtype | np.generic | np.ndarray)


def array_key(array: np.ndarray[Any, Any] | np.void) -> Hashable:
    """The key of a constant array or record."""
    return (array.shape, array.dtype, array.tobytes() if array.size <= _MAX_ELEMENTS else IdentityKey(array))


def attributes_key(value: Any, depth: int = 0) -> Hashable:
    """The (name, key) pairs of the attributes of a user object or class that vector functions can use. All such
    attributes are included, because a function may read them through another name of the object (an argument of a
    helper function, a default)."""
    if depth >= _MAX_DEPTH or isinstance(value, ModuleType | FunctionType | np.dtype | np.generic):
        return ()
    if f"{type(value).__module__}.".startswith(_OPAQUE):
        return ()
    names = set(getattr(value, "__dict__", ()))
    for kind in (value if isinstance(value, type) else type(value)).__mro__:
        names.update(name for name, item in vars(kind).items() if isinstance(item, _CONSTANT_TYPES))
        slots = getattr(kind, "__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    items = [(name, getattr(value, name, MISSING)) for name in sorted(names) if not name.startswith("__")]
    found = [(name, _attribute_key(item, depth)) for name, item in items]
    return tuple(pair for pair in found if pair[1] != ())


def _attribute_key(item: Any, depth: int) -> Hashable:
    """The key of one attribute; () if vector functions cannot use it."""
    if isinstance(item, _CONSTANT_TYPES):
        return _value_key(item, ())
    if isinstance(item, np.dtype):
        return item
    if isinstance(item, type | FunctionType):
        return IdentityKey(item)  # not followed: they may refer to any number of objects
    if isinstance(item, tuple):
        return tuple(_attribute_key(one, depth + 1) for one in item) if depth < _MAX_DEPTH else IdentityKey(item)
    return attributes_key(item, depth + 1)


def _value_key(value: Any, callers: tuple[CodeType, ...]) -> Hashable:
    """The key of one value. Values have equal keys only if they have the same translation."""
    kind = type(value)
    if kind in (int, bool, str, type(None), Missing):
        return (kind, value)
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return (kind, float.hex(value) if isinstance(value, float) else int(value))
    if isinstance(value, tuple):
        return (kind, tuple(_value_key(item, callers) for item in value))
    if isinstance(value, np.dtype):
        return value
    if isinstance(value, type):
        return (IdentityKey(value), attributes_key(value))
    if isinstance(value, np.generic):
        return (value.dtype, value.tobytes())
    if isinstance(value, np.ndarray):
        return array_key(value)
    inner: Callable[..., Any] = getattr(value, "function", value)
    if isinstance(inner, FunctionType):
        module = getattr(inner, "__module__", "") or ""
        return (module, inner.__name__) if module.split(".")[0] in _FIXED_MODULES else _function_key(inner, callers)
    return (IdentityKey(kind), IdentityKey(value), attributes_key(value))
