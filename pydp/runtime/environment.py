"""Environment variables that calls read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any


def reader(name: str) -> Callable[[], str | None]:
    """A function that reads an environment variable; None if it is not set.

    `os.environ.get` takes 1 us for a variable that is not set, because it raises a KeyError and catches it.
    """
    stored: Mapping[Any, Any] | None = getattr(os.environ, "_data", None)
    encode: Callable[[str], Any] | None = getattr(os.environ, "encodekey", None)
    if stored is None or encode is None:  # not CPython
        return lambda: os.environ.get(name)
    key, variables = encode(name), stored
    return lambda: os.environ.get(name) if key in variables else None
