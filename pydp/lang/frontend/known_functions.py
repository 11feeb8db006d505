"""Known functions as values: their constants, and functions without Python source as operators of scan and sort."""

from __future__ import annotations

import functools
import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.lang.intrinsics import BY_ID, FOR_PYTHON, FUNCTIONS


def fold(name: str, values: tuple[Any, ...]) -> float | bool | None:
    """The function of constant numbers; None if it has no finite value."""
    row = FUNCTIONS[name]
    found = (getattr(math, spelling, None) for spelling in row.spellings.split())
    function: Callable[..., Any] = next((one for one in found if one is not None), FOR_PYTHON[name])
    try:
        result = function(*values)
    except (ValueError, OverflowError, TypeError):
        return None
    if row.rule == "test":
        return bool(result)
    if row.rule == "real":
        return float(result) if math.isfinite(result) else None
    return int(result)


def is_known(fn: object) -> bool:
    """Whether `fn` is a function in the table or a NumPy scalar type."""
    return id(fn) in BY_ID or (isinstance(fn, type) and issubclass(fn, np.generic))


@functools.lru_cache(maxsize=256)
def as_lambda(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """``lambda a0, a1: fn(a0, a1)`` with `count` arguments and translatable source."""
    names = ", ".join(f"a{n}" for n in range(count))
    text = f"lambda {names}: function({names})\n"
    file = f"<a known function of {count} values>"
    linecache.cache[file] = (len(text), None, [text], file)
    made: Callable[..., Any] = eval(compile(text, file, "eval"), {"function": fn})
    return made
