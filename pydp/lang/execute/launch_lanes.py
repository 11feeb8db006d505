"""A sample of the lanes of a launch, from several groups, and a trace of their accesses to arrays.

The sample has groups from the beginning and the end of every axis; all groups if the grid is small. The trace uses the
launch's extents, shapes and number arguments, so most indexes have known values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.host import needs_groups
from pydp.lang.execute.lane_events import Access, Event
from pydp.lang.execute.symbolic_run import Tracer
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue

LANES = 2048  # a NumPy operation on this many elements costs little more than on one
WORK = 3_000  # limit for the number of evaluated expressions
MAX_SIMILAR_LAUNCHES = 64  # launches that are checked among those whose numbers have the same magnitudes


@dataclass(frozen=True)
class LaunchValues:
    """The values of a launch.

    extent, offset: extent and offset of the grid. shapes: the shapes of arrays by the argument's position. numbers: the
    number arguments by position. aliases: for each array that shares memory with others, the name of the first of
    these, and the array's start and strides within the shared memory, in elements.
    """

    extent: tuple[int, ...]
    offset: tuple[int, ...]
    shapes: Mapping[int, tuple[int, ...]]
    numbers: Mapping[int, Any]
    aliases: Mapping[str, tuple[str, int, tuple[int, ...]]] = field(default_factory=dict)


class Sample:
    """A sample of the lanes of a launch, in order of their groups.

    groups, locals: the group and local indexes of the lanes, one array per axis. group: extents of a group.
    group_number: the number of each lane's group. inside: a mask of the lanes in the grid. by_group: the function
    depends on groups.
    """

    def __init__(self, function: ir.Function, extent: tuple[int, ...], offset: tuple[int, ...]) -> None:
        self.offset = offset
        self.by_group = function.group is not None and needs_groups(function)
        self.group = function.group if self.by_group and function.group else (1,) * len(extent)
        size = math.prod(self.group)
        group_counts = [-(-n // g) for n, g in zip(extent, self.group, strict=True)]
        chosen = _chosen(group_counts, max(1, LANES // size))
        places = np.meshgrid(*chosen, *(np.arange(g) for g in self.group), indexing="ij")
        flat = [place.ravel() for place in places] or [np.zeros(1, np.int64)]
        rank = len(extent)
        self.groups, self.locals = flat[:rank], flat[rank : 2 * rank]
        self.group_number = np.arange(len(flat[0])) // size
        self.inside = np.ones(len(flat[0]), bool)
        for axis, n in enumerate(extent):
            self.inside &= self.grid_index(axis) < n
        if not (function.locals or ir.barriers(function.body)):
            keep = self.inside
            self.groups = [one[keep] for one in self.groups]
            self.locals = [one[keep] for one in self.locals]
            self.group_number, self.inside = self.group_number[keep], keep[keep]

    @property
    def size(self) -> int:
        """The number of lanes in the sample."""
        return len(self.group_number)

    def grid_index(self, axis: int) -> np.ndarray:
        """The lanes' index in the grid along an axis, without the grid's offset."""
        return np.asarray(self.groups[axis] * self.group[axis] + self.locals[axis])

    def name(self, lane: int) -> str:
        """A lane as text, by its index in the group or in the grid."""
        here = [int(one[lane]) for one in self.groups]
        if not self.by_group:
            return f"lane {[start + k for start, k in zip(self.offset, here, strict=True)]}"
        return f"lane {[int(one[lane]) for one in self.locals]} of group {here}"


def _chosen(group_counts: list[int], limit: int) -> list[np.ndarray]:
    """The sampled group indexes of each axis, about `limit` combinations: all, or some from both ends."""
    chosen: dict[int, np.ndarray] = {}
    for left, axis in enumerate(sorted(range(len(group_counts)), key=lambda k: group_counts[k])):
        share = max(2, int(limit ** (1 / (len(group_counts) - left)) + 1e-9))
        count = group_counts[axis]
        last = share // 4
        first = np.arange(min(count, share - last))
        chosen[axis] = np.arange(count) if count <= share else np.concatenate([first, np.arange(count - last, count)])
        limit = max(1, limit // len(chosen[axis]))
    return [chosen[axis] for axis in range(len(group_counts))]


def trace_launch(function: ir.Function, sample: Sample, launch: LaunchValues, arrays: set[str]) -> list[Event]:
    """The accesses of a sample's lanes to `arrays`, and their barriers, in program order.

    A uniform condition of unknown outcome may have different outcomes in different groups.
    """
    tracer = _LaunchTracer(function, sample, launch, arrays)
    with np.errstate(all="ignore"):
        tracer.block(function.body)
    return tracer.events


class _LaunchTracer(Tracer):
    several_groups = True

    def __init__(self, function: ir.Function, sample: Sample, launch: LaunchValues, arrays: set[str]) -> None:
        super().__init__(function, WORK)
        self.sample, self.launch = sample, launch
        self.written = arrays
        self.size = sample.size
        self.lanes = np.arange(self.size)
        self.all_inside = bool(sample.inside.all())

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: OptionalValue = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        event = super().touch(kind, access, where, value, members)
        if access.array.name not in self.written:
            self.events.pop()
            return None
        if event is not None and not self.all_inside and isinstance(access.array, ir.GlobalArray):
            event.lanes = event.lanes[self.sample.inside[event.lanes]]
        return event

    def _exact(self, value: Any, dtype: np.dtype[Any]) -> OptionalValue:
        return SymbolicValue(np.asarray(value).astype(dtype)[()])

    def of_parameter(self, e: ir.Parameter) -> OptionalValue:
        value = self.launch.numbers[e.position]
        if e.dtype.names is not None:
            return super().of_parameter(e)
        return self._exact(value if e.item is None else value[e.item], e.dtype)

    def of_groupindex(self, e: ir.GroupIndex) -> OptionalValue:
        return SymbolicValue(self.sample.groups[e.axis].astype(e.dtype))

    def of_localindex(self, e: ir.LocalIndex) -> OptionalValue:
        return SymbolicValue(self.sample.locals[e.axis].astype(e.dtype))

    def of_globalindex(self, e: ir.GlobalIndex) -> OptionalValue:
        return SymbolicValue((self.sample.grid_index(e.axis) + self.launch.offset[e.axis]).astype(e.dtype))

    def of_gridextent(self, e: ir.GridExtent) -> OptionalValue:
        return self._exact(self.launch.extent[e.axis], e.dtype)

    def of_arrayextent(self, e: ir.ArrayExtent) -> OptionalValue:
        return self._exact(self.launch.shapes[e.array.position][e.axis], e.dtype)


def magnitude(value: Any) -> int | None:
    """The number of bits of an integer, with its sign; None for None."""
    if value is None:
        return None
    number = int(value)
    return number.bit_length() if number >= 0 else -number.bit_length()
