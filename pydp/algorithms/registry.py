"""The registry of algorithms, used by the commands, the tuner, the benchmarks and the tests.

An algorithm declares itself at the end of its folder's ``__init__``:

    register(Algorithm(scan, _explain, _reference, sizes=("65536", "2048x2048"), dtype="int32"))

No other registration is needed: `discovery` imports every folder.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from pydp.model.explanation import Explanation, Given, explained_by
from pydp.tuning.reference import Expected, checked_by

__all__ = ["Algorithm", "Shape", "alike", "register", "registered", "values_of", "vectors"]

Shape = tuple[int, ...]
Passed = tuple[tuple[Any, ...], dict[str, Any]]


def alike(count: int) -> Callable[[Shape], list[Shape] | None]:
    """The shapes of `count` operands of the same shape, of any rank."""
    return lambda size: [size] * count


def vectors(count: int) -> Callable[[Shape], list[Shape] | None]:
    """The shapes of `count` operands of rank 1 and equal length; other sizes are not accepted."""
    return lambda size: [size] * count if len(size) == 1 else None


_one_array = alike(1)


def _in_order(arrays: Sequence[Any], options: dict[str, Any]) -> Passed:
    return tuple(arrays), options


@dataclass(frozen=True)
class Algorithm:
    """A public function and the data needed to explain, tune, benchmark and check it.

    function: takes arrays, then keywords, including device=. explain: describes a call. reference: returns NumPy's
    result of a call, or None if NumPy has no such function (see :mod:`pydp.tuning.reference`).

    sizes: default sizes for tuning, such as "65536" or "2048x2048". shapes: returns the operands' shapes for a size, or
    None or no shapes if the size is not accepted. accepted: names of the accepted sizes, for messages. operands: the
    number of arrays that the function takes. dtype: default dtype of the operands in `pydp tune`. dtypes: the accepted
    dtype kinds (of NumPy's "biufc"). numbers: the values to tune with: "small" (their sums are exact), "spread" (over
    the range of the dtype), "counts" (small and non-negative), "sorted" (small, non-negative and sorted), "factors"
    (their products are neither zero nor infinite) or "shared" (many elements of one operand are in the others).
    options: additional keywords.

    benchmark: the name of a module with a function ``run(device, quick)`` that returns rows. If several functions share
    a module, its function is ``run(device, quick, only)``: only names the function to measure, or is "" for all.

    For `pydp run` and `pydp explain`: own_dtypes: the dtypes of operands, by position, that do not have the dtype of
    the option ``--dtype``. own_values: functions that make the values of operands, by position, from the shapes of all
    operands; for operands such as offsets, which cannot be zeros or random numbers. more: more operands are accepted.
    passed: returns the positional and keyword arguments of a call from the operands and the options. label: the name in
    commands, if it is not the name of the function.
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
    own_dtypes: Mapping[int, str] = field(default_factory=dict)
    own_values: Mapping[int, Callable[[Sequence[Shape]], np.ndarray]] = field(default_factory=dict)
    more: bool = False
    passed: Callable[[Sequence[Any], dict[str, Any]], Passed] = _in_order
    label: str = ""

    @property
    def name(self) -> str:
        """The name in commands."""
        return self.label or self.function.__name__

    def positional(self, options: Mapping[str, Any]) -> list[int]:
        """The positions of the operands that a call with these options needs: those that are not given by name."""
        if self.passed is not _in_order:
            return list(range(self.operands))
        names = list(inspect.signature(self.function).parameters)[: self.operands]
        return [at for at, name in enumerate(names) if name not in options]

    @property
    def tunable(self) -> bool:
        """Whether the function has specializations."""
        return "spec" in inspect.signature(self.function).parameters


registered: dict[str, Algorithm] = {}
"""By name: the algorithms whose folders are imported. `discovery.algorithms` imports all."""


def register(algorithm: Algorithm) -> None:
    """Register an algorithm; a second algorithm of the same name replaces the first."""
    registered[algorithm.name] = algorithm
    explained_by(algorithm.function, algorithm.explain)
    checked_by(algorithm.function, algorithm.reference)


def values_of(
    algorithm: Algorithm, shapes: Sequence[Shape], dtype: np.dtype, rng: np.random.Generator | None = None
) -> list[np.ndarray]:
    """NumPy arrays of these shapes for a call, with the values that the algorithm declares. Without `rng`, they are
    equal in every process."""
    rng = np.random.default_rng(1) if rng is None else rng
    kinds = [np.dtype(algorithm.own_dtypes.get(at, dtype)) for at in range(len(shapes))]
    found = [_random(rng, shape, kind, algorithm.numbers) for shape, kind in zip(shapes, kinds, strict=True)]
    if algorithm.numbers == "counts":
        found = [np.abs(one) if one.dtype.kind == "i" else one for one in found]
    if algorithm.numbers == "sorted":
        found = [np.sort(np.abs(one) if one.dtype.kind in "if" else one, axis=-1) for one in found]
    return [algorithm.own_values[at](shapes) if at in algorithm.own_values else one for at, one in enumerate(found)]


def _random(rng: np.random.Generator, shape: Shape, dtype: np.dtype, numbers: str) -> np.ndarray:
    """Random numbers of a dtype, of the kind `numbers` (see `Algorithm`)."""
    if numbers == "factors":
        return _factors(rng, shape, dtype)
    if numbers == "shared":
        pool = _random(np.random.default_rng(2), (2 * prod(shape) + 1,), dtype, "spread")
        return rng.choice(pool, shape)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return (_random(rng, shape, part, numbers) + 1j * _random(rng, shape, part, numbers)).astype(dtype)
    if numbers == "spread" and dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if numbers == "spread" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    least = -4 if dtype.kind in "if" else 0
    return rng.integers(least, 2 if dtype.kind == "b" else 5, shape).astype(dtype)


def _factors(rng: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Random numbers whose products are neither zero nor infinite: odd integers, or numbers of magnitude 1."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) | dtype.type(1)
    units = {"b": [True], "f": [1, -1], "c": [1, -1, 1j, -1j]}[dtype.kind]
    return rng.choice(np.array(units, dtype), shape)
