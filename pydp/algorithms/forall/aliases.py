"""Arrays of a forall that overlap, and the checks of a launch with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.forall.arguments import Arguments
from pydp.algorithms.forall.plan import Translation
from pydp.runtime.field.field import Field


def check_launch(
    made: Translation, extent: tuple[int, ...], offset: tuple[int, ...], given: Arguments, widths_only: bool
) -> None:
    """Raise VectorError if the arguments and the grid of this launch prove an error; see :class:`LaunchCheck`."""
    values, positions = given.values, given.arrays
    aliases = _aliases(made, values) if len(positions) > 1 and _may_alias(made, values) else {}
    shapes = tuple([values[position].shape for position in positions])
    made.launch_check.check(extent, offset, shapes, values, aliases, widths_only)


def _may_alias(made: Translation, values: list[Any]) -> bool:
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
    return id(value._storage.buffer if isinstance(value, Field) else value.base_data)


def _aliases(made: Translation, values: list[Any]) -> dict[str, tuple[str, int, tuple[int, ...]]]:
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
        key = _memory(value), value.dtype, start % size
        steps = tuple(stride // size for stride in strides)
        spans.setdefault(key, []).append((name, start // size, low // size, high // size, steps))
    aliases = {}
    for arrays in spans.values():
        overlapping = [
            one for one in arrays if any(one is not two and one[2] <= two[3] and two[2] <= one[3] for two in arrays)
        ]
        lowest = min((one[1] for one in overlapping), default=0)
        for name, start, _low, _high, steps in overlapping:
            aliases[name] = (overlapping[0][0], start - lowest, steps)
    return aliases


def _start(value: Any) -> int:
    """The byte offset of the first element (for NumPy: its address)."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    return int(value.offset * value.dtype.itemsize if isinstance(value, Field) else value.offset)


def _byte_strides(value: Any) -> tuple[int, ...]:
    return tuple(n * value.dtype.itemsize for n in value.strides) if isinstance(value, Field) else tuple(value.strides)
