"""What is not written in Python (``max``, ``operator.add``, ``float``, ``np.int64``) as functions of values."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.lang.front_math import TABLE


def is_known(fn: object) -> bool:
    """True for a function of another language, or a type of numbers, that the front end knows by itself."""
    return id(fn) in TABLE or (isinstance(fn, type) and issubclass(fn, np.generic))


@functools.lru_cache(maxsize=256)
def as_lambda(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """``lambda a0, a1: fn(a0, a1)`` of `count` arguments, with a source text that can be translated."""
    names = ", ".join(f"a{n}" for n in range(count))
    text = f"lambda {names}: function({names})\n"
    file = f"<a known function of {count} values>"
    linecache.cache[file] = (len(text), None, [text], file)
    made: Callable[..., Any] = eval(compile(text, file, "eval"), {"function": fn})
    return made
