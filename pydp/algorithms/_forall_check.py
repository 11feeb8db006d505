"""What can be told of a forall's races before it runs, looked at once for each kind of call."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms._forall_arguments import Arguments
from pydp.algorithms._forall_plan import Translation
from pydp.lang import launch_races
from pydp.lang.launch_lanes import Launch
from pydp.runtime.field import Field
from pydp.space import Grid

_MOST_KEPT = 512


def check_races(made: Translation, extent: tuple[int, ...], space: Grid, given: Arguments) -> None:
    """Raise VectorError where lanes of this launch surely race on an array.

    Kept are grids that passed, and which arguments were one object; sizes of about the same magnitude pass together.
    """
    values, positions = given.values, given.arrays
    key: Any = extent
    if len(positions) > 1 and len({id(values[position]) for position in positions}) != len(positions):
        key = (key, *(_first(values, position) for position in positions))
    if key in made.passed:
        return
    same = _same_memory(made, values)
    alike = (tuple(n.bit_length() for n in extent), tuple(same.items()))
    if alike not in made.passed:
        shapes = {position: tuple(values[position].shape) for position in positions}
        numbers = {one.position: values[one.position] for one in made.function.parameters}
        launch = Launch(extent, tuple(space.offset), shapes, numbers, same)
        launch_races.check(made.function, launch)
    if len(made.passed) >= _MOST_KEPT:
        made.passed.clear()
    made.passed.update((key, alike))


def _first(values: list[Any], position: int) -> int:
    """The first argument that is the very same object."""
    return next(place for place, value in enumerate(values) if value is values[position])


def _same_memory(made: Translation, values: list[Any]) -> dict[str, str]:
    """Names of arrays whose elements are those of an earlier one, and that one's name."""
    seen: dict[Any, str] = {}
    same = {}
    for position, name in made.arrays:
        first = seen.setdefault(_elements(values[position]), name)
        if first != name:
            same[name] = first
    return same


def _elements(value: Any) -> Any:
    """Equal for arrays of the very same elements."""
    layout = (tuple(value.shape), tuple(value.strides), value.dtype)
    if isinstance(value, np.ndarray):
        return (value.__array_interface__["data"][0], *layout)
    if isinstance(value, Field):
        return (id(value._storage), value.offset, *layout)
    return (id(value.base_data), value.offset, *layout)
