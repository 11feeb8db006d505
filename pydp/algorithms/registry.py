"""The registry: what the commands, the tuner, the benchmark and the tests know about each algorithm.

An algorithm declares itself at the end of its folder's ``__init__``:

    register(Algorithm(scan, _explain, _reference, sizes=("65536", "2048x2048"), dtype="int32"))

Nothing else needs to be told about it: `algorithms` imports every folder of this package.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydp.model.explanation import Explanation, Given, explained_by
from pydp.tuning.reference import Expected, checked_by

__all__ = ["Algorithm", "Shape", "algorithms", "register"]

Shape = tuple[int, ...]


def _one_array(size: Shape) -> list[Shape] | None:
    return [size]


@dataclass(frozen=True)
class Algorithm:
    """A public function and everything that is needed to explain, tune, benchmark and check it.

    function: takes arrays, then keywords, among them device=. explain: describes a call. reference: NumPy's result of a
    call, or None if NumPy has no such function (see :mod:`pydp.tuning.reference`).

    sizes: texts such as "65536" or "2048x2048", tuned by default. shapes: the operands' shapes for a size, None for a
    size that is not accepted; `accepted` names those that are. operands: how many arrays the function takes. dtype: the
    operands' type in `pydp tune`. dtypes: the accepted kinds (of NumPy's "biufc"). numbers: the values to tune with,
    "small" (their sums are exact), "spread" over the type's range, or "counts" (small and not negative). options: more
    keywords.

    benchmark: the name of a module with a function ``run(device, quick)`` that returns rows; "" if there is none.
    """

    function: Callable[..., Any]
    explain: Callable[[Given], Explanation]
    reference: Callable[..., list[Expected] | None]
    sizes: tuple[str, ...]
    shapes: Callable[[Shape], list[Shape] | None] = _one_array
    accepted: tuple[str, ...] = ("axes",)
    operands: int = 1
    dtype: str = "float32"
    dtypes: str = "biufc"
    numbers: str = "small"
    options: Mapping[str, Any] = field(default_factory=dict)
    benchmark: str = ""

    @property
    def name(self) -> str:
        """The function's name, which commands take."""
        return self.function.__name__


_registered: dict[str, Algorithm] = {}


def register(algorithm: Algorithm) -> None:
    """Declare an algorithm; a second one of the same name replaces the first."""
    _registered[algorithm.name] = algorithm
    explained_by(algorithm.function, algorithm.explain)
    checked_by(algorithm.function, algorithm.reference)


def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name, in alphabetical order."""
    package = importlib.import_module("pydp.algorithms")
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_registered.items()))
