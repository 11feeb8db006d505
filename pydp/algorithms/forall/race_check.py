"""Race check of a forall before it runs, done once for each kind of call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.forall.arguments import Arguments
from pydp.algorithms.forall.plan import Translation
from pydp.lang import ir
from pydp.lang.analysis import race_check
from pydp.lang.execute.launch_lanes import MAX_SIMILAR_LAUNCHES, LaunchValues, magnitude
from pydp.runtime.field.field import Field
from pydp.space import Grid


def check_races(made: Translation, extent: tuple[int, ...], space: Grid, given: Arguments) -> None:
    """Raise VectorError if lanes of this launch certainly race on an array.

    Results are cached by the grid, the shapes of the arrays, the integers that control which lanes do what, and the
    placement of arguments in shared memory. Launches whose sizes have the same magnitude share one check; for integers
    of the same magnitude, only the first MAX_SIMILAR_LAUNCHES values are checked.
    """
    values, positions = given.values, given.arrays
    places = _places(made, values) if len(positions) > 1 and _may_meet(made, values) else {}
    offset, shapes = tuple(space.offset), tuple([values[position].shape for position in positions])
    control_inputs = [values[place] if item is None else values[place][item] for place, item in made.control_inputs]
    key: Any = (extent, offset, shapes, *control_inputs, tuple(places.items()))
    if made.passed.get(key) or made.passed.find(key):
        return
    others = (None if shape == extent else tuple(map(magnitude, shape)) for shape in shapes)
    alike = (*map(magnitude, extent), *others, *map(magnitude, (*offset, *control_inputs)), tuple(places.items()))
    looked_at = made.alike.find(alike, 0)
    if looked_at < (MAX_SIMILAR_LAUNCHES if control_inputs or any(offset) else 1):
        race_check.check(made.function, _launch(made, space, values, positions, places))
        made.alike.put(alike, looked_at + 1)
    made.passed.put(key, True)


def check_places(made: Translation, space: Grid, given: Arguments, numbers: Callable[[ir.Expr], int | None]) -> None:
    """Raise VectorError if the arguments and extents of this launch prove an index outside a local or private field."""
    extent, offset = tuple(space.extent), tuple(space.offset)
    made.places.check(numbers, extent, offset, lambda: _launch(made, space, given.values, given.arrays, {}))


def _launch(
    made: Translation, space: Grid, values: list[Any], arrays: list[int], places: dict[str, Any]
) -> LaunchValues:
    shapes = {position: tuple(values[position].shape) for position in arrays}
    numbers = {one.position: values[one.position] for one in made.function.parameters}
    return LaunchValues(tuple(space.extent), tuple(space.offset), shapes, numbers, places)


def _may_meet(made: Translation, values: list[Any]) -> bool:
    """Whether a written array may share elements with another array."""
    found = [_memory(values[position]) for position, _ in made.arrays]
    if len(set(found)) == len(found):
        return False
    return any(
        found.count(memory) > 1 for memory, (_, name) in zip(found, made.arrays, strict=True) if name in made.written
    )


def _memory(value: Any) -> int:
    """A key of the memory of an array: equal for arrays that may share elements."""
    if isinstance(value, np.ndarray):
        return id(value if value.base is None else value.base)
    return id(value._storage) if isinstance(value, Field) else id(value.base_data)


def _places(made: Translation, values: list[Any]) -> dict[str, tuple[str, int, tuple[int, ...]]]:
    """(name of the first array, start, strides) for each array that overlaps others of its type, by name.

    Starts and strides are in elements; starts count from the lowest start of the overlapping arrays.
    """
    spans: dict[Any, list[tuple[str, int, int, int, tuple[int, ...]]]] = {}
    for position, name in made.arrays:
        value = values[position]
        size = value.dtype.itemsize
        start, strides = _start(value), _byte_strides(value)
        if 0 in value.shape or any(stride % size for stride in strides):
            continue
        reaches = [stride * (n - 1) for stride, n in zip(strides, value.shape, strict=True)]
        low, high = start + sum(min(0, r) for r in reaches), start + sum(max(0, r) for r in reaches)
        apart = _memory(value), value.dtype, start % size
        steps = tuple(stride // size for stride in strides)
        spans.setdefault(apart, []).append((name, start // size, low // size, high // size, steps))
    places = {}
    for arrays in spans.values():
        touching = [
            one for one in arrays if any(one is not two and one[2] <= two[3] and two[2] <= one[3] for two in arrays)
        ]
        lowest = min((one[1] for one in touching), default=0)
        for name, start, _low, _high, steps in touching:
            places[name] = (touching[0][0], start - lowest, steps)
    return places


def _start(value: Any) -> int:
    """The byte offset of the first element (for NumPy: its address)."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    return int(value.offset * value.dtype.itemsize if isinstance(value, Field) else value.offset)


def _byte_strides(value: Any) -> tuple[int, ...]:
    return tuple(n * value.dtype.itemsize for n in value.strides) if isinstance(value, Field) else tuple(value.strides)
