"""Environment variables that calls read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any


def reader(name: str) -> Callable[[], str | None]:
    """A function that reads an environment variable; None if it is not set.

    `os.environ.get` takes 1 us for a variable that is not set, because it raises a KeyError and catches it.
    """
    stored: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
    key = name if stored is os.environ else os.environ.encodekey(name)  # type: ignore[attr-defined]
    return lambda: os.environ.get(name) if key in stored else None
