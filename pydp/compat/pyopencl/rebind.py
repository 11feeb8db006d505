"""Functions of pyopencl that use the classes of this package instead of pyopencl's own."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["original_module", "overrides", "public_names", "rebind"]


def original_module(name: str) -> Any:
    """pyopencl's own module. After ``install()``, its name stands for a module of this package, which has the attribute
    `original`."""
    found = importlib.import_module(f"pyopencl.{name}")
    return getattr(found, "original", found)


def public_names(own: Sequence[str], original: types.ModuleType) -> list[str]:
    """This package's own names, and the names that a star import of pyopencl's module gives."""
    names = getattr(original, "__all__", None) or [name for name in vars(original) if not name.startswith("_")]
    return [*own, *(name for name in names if name not in own)]


def overrides(value: object, base: type, *methods: str) -> bool:
    """Whether the class of `value` has other `methods` than pyopencl's class `base`.

    Kernels of this package do not call them, so pyopencl's own code must run.
    """
    return any(getattr(type(value), name) is not getattr(base, name) for name in methods)


def rebind(function: Callable[..., Any], module: types.ModuleType, **names: Any) -> types.FunctionType:
    """`function` of `module`, in which `names` have other values."""
    inner = inspect.unwrap(function)
    assert isinstance(inner, types.FunctionType)
    own = types.FunctionType(inner.__code__, {**vars(module), **names}, inner.__name__, inner.__defaults__)
    own.__kwdefaults__ = inner.__kwdefaults__
    own.__doc__ = f"As ``{module.__name__}.{inner.__qualname__}``, with {', '.join(names)} of this package."
    return own
