"""Finds all algorithms: imports every folder of this package, and :mod:`pydp.random`, which declare them."""

from __future__ import annotations

import importlib
import pkgutil

from pydp.algorithms import registry


def algorithms() -> dict[str, registry.Algorithm]:
    """All algorithms by name, in alphabetical order."""
    package = importlib.import_module("pydp.algorithms")
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}")
    importlib.import_module("pydp.random")
    return dict(sorted(registry.registered.items()))
