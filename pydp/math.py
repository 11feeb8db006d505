"""Functions of numbers for vector functions; they also run in Python, on numbers and NumPy arrays.

Vector functions may also call functions of NumPy and Python (``np.sqrt``, ``math.exp``, ``max``). This module adds
OpenCL's integer, common and relational functions that NumPy lacks or defines differently.

>>> pydp.math.popcount(np.uint8(255)), pydp.math.clz(np.int32(1)), pydp.math.rotate(np.uint8(129), 1)
(np.uint8(8), np.int32(31), np.uint8(3))
>>> def bits(idx, out, x):
...     out[idx] = pydp.math.popcount(x[idx])
>>> x, out = np.arange(8, dtype=np.int32), np.empty(8, np.int32)
>>> pydp.forall(8, bits, out, x); out
array([0, 1, 1, 2, 1, 2, 2, 3], dtype=int32)

"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.lang.intrinsics import FOR_PYTHON, FUNCTIONS


def clamp(x: Any, low: Any, high: Any) -> Any:
    """x, at least `low` and at most `high`; NaN if one of them is NaN.

    >>> clamp(7, 0, 5)
    np.int64(5)
    """
    return np.minimum(np.maximum(x, low), high)


def mix(x: Any, y: Any, a: Any) -> Any:
    """x + (y - x) * a: x for a = 0, y for a = 1."""
    return x + (y - x) * a


def step(edge: Any, x: Any) -> Any:
    """0.0 if x < edge, else 1.0."""
    return np.where(x < edge, 0.0, 1.0)


def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """0 up to edge0, 1 from edge1 on, and a smooth curve between them (Hermite interpolation)."""
    t = np.minimum(np.maximum((x - edge0) / (edge1 - edge0), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


def degrees(x: Any) -> Any:
    """An angle in radians as degrees."""
    return np.degrees(x)


def radians(x: Any) -> Any:
    """An angle in degrees as radians."""
    return np.radians(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1 with the sign of x; NaN for NaN."""
    return np.sign(x)


def mul24(x: Any, y: Any) -> Any:
    """x * y. Unlike OpenCL's mul24, it uses all bits of x and y."""
    return x * y


def mad24(x: Any, y: Any, z: Any) -> Any:
    """x * y + z. Unlike OpenCL's mad24, it uses all bits of x and y."""
    return x * y + z


def select(a: Any, b: Any, c: Any) -> Any:
    """b where c is true, else a (OpenCL's order of arguments)."""
    return np.where(c, b, a)


def isequal(x: Any, y: Any) -> Any:
    """Whether x == y."""
    return x == y


def isnotequal(x: Any, y: Any) -> Any:
    """Whether x != y; true for NaN."""
    return x != y


def isgreater(x: Any, y: Any) -> Any:
    """Whether x > y."""
    return x > y


def isgreaterequal(x: Any, y: Any) -> Any:
    """Whether x >= y."""
    return x >= y


def isless(x: Any, y: Any) -> Any:
    """Whether x < y."""
    return x < y


def islessequal(x: Any, y: Any) -> Any:
    """Whether x <= y."""
    return x <= y


def islessgreater(x: Any, y: Any) -> Any:
    """Whether x < y or x > y; false for NaN."""
    return np.logical_or(x < y, x > y)


def isordered(x: Any, y: Any) -> Any:
    """Whether neither x nor y is NaN."""
    return np.logical_and(x == x, y == y)


def isunordered(x: Any, y: Any) -> Any:
    """Whether x or y is NaN."""
    return np.logical_or(x != x, y != y)


__all__ = sorted([
    *FUNCTIONS,
    *"clamp mix step smoothstep degrees radians sign select mul24 mad24".split(),
    *"isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isordered isunordered".split(),
])  # fmt: skip
globals().update(FOR_PYTHON)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module 'pydp.math' has no attribute {name!r}; it has {', '.join(__all__)}")
