"""A sample of the lanes of a launch, from several groups, and a trace of their accesses to arrays.

The sample has groups from the beginning and the end of every axis; all groups if the grid is small. The trace uses the
launch's extents, shapes and number arguments, so most indexes have known values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.host import needs_groups
from pydp.lang.execute.lane_events import Access, Event, lane_text
from pydp.lang.execute.symbolic_run import Tracer
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue

LANES = 2048  # a NumPy operation on this many elements costs little more than on one
FIRST_LANES = 1 << 16  # limit for the groups of a sample that has one lane of each
WORK = 3_000  # limit for the number of evaluated expressions


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

    def memory_of(self, array: str) -> str:
        """The name of the first array that shares memory with `array`."""
        return self.aliases[array][0] if array in self.aliases else array


class Sample:
    """A sample of the lanes of a launch, in order of their groups.

    groups, locals: the group and local indexes of the lanes, one array per axis. group: extents of a group.
    group_number: the number of each lane's group. inside: a mask of the lanes in the grid. by_group: the function
    depends on groups.
    """

    def __init__(
        self, function: ir.Function, extent: tuple[int, ...], offset: tuple[int, ...], first_lanes: bool = False
    ) -> None:
        """first_lanes: only the first lane of each group, but of up to FIRST_LANES groups."""
        self.offset = offset
        self.by_group = function.group is not None and needs_groups(function)
        self.group = function.group if self.by_group and function.group else (1,) * len(extent)
        lanes = (1,) * len(extent) if first_lanes else self.group
        size = math.prod(lanes)
        group_counts = [-(-n // g) for n, g in zip(extent, self.group, strict=True)]
        chosen = _chosen(group_counts, FIRST_LANES if first_lanes else max(1, LANES // size))
        places = np.meshgrid(*chosen, *(np.arange(g) for g in lanes), indexing="ij")
        flat = [place.ravel() for place in places] or [np.zeros(1, np.int64)]
        rank = len(extent)
        self.groups, self.locals = flat[:rank], flat[rank : 2 * rank]
        self.group_number = np.arange(len(flat[0])) // size
        self.inside = np.ones(len(flat[0]), bool)
        for axis, n in enumerate(extent):
            self.inside &= self.grid_index(axis) < n
        if not (function.locals or ir.barriers(function.body)):
            self.keep(self.inside)

    def keep(self, lanes: np.ndarray) -> None:
        """Remove the lanes outside of a mask from the sample."""
        self.groups = [one[lanes] for one in self.groups]
        self.locals = [one[lanes] for one in self.locals]
        self.group_number, self.inside = self.group_number[lanes], self.inside[lanes]

    @property
    def size(self) -> int:
        """The number of lanes in the sample."""
        return len(self.group_number)

    def grid_index(self, axis: int) -> np.ndarray:
        """The lanes' index in the grid along an axis, without the grid's offset."""
        return np.asarray(self.groups[axis] * self.group[axis] + self.locals[axis])

    def name(self, lane: int) -> str:
        """A lane as text, by its index in the group or in the grid."""
        group, local = ([int(one[lane]) for one in indexes] for indexes in (self.groups, self.locals))
        return lane_text(self.by_group, group, local, self.offset)


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


@dataclass(frozen=True)
class LaunchTrace:
    """The accesses and barriers of a sample of a launch's lanes, in program order. is_cut: iterations were skipped,
    because they are too much work."""

    function: ir.Function
    launch: LaunchValues
    sample: Sample
    events: list[Event]
    is_cut: bool


def trace_launch(
    function: ir.Function, launch: LaunchValues, arrays: Collection[str], work: int = WORK, first_lanes: bool = False
) -> LaunchTrace:
    """Trace a sample of a launch's lanes. Only accesses to `arrays` are recorded.

    work: limit for the number of evaluated expressions. first_lanes: only the first lane of each group is traced, for
    up to FIRST_LANES groups.
    A uniform condition of unknown outcome may have different outcomes in different groups.
    """
    sample = Sample(function, launch.extent, launch.offset, first_lanes)
    tracer = _LaunchTracer(function, sample, launch, arrays, work)
    with np.errstate(all="ignore"):
        tracer.block(function.body)
    return LaunchTrace(function, launch, sample, tracer.events, tracer.is_cut)


class _LaunchTracer(Tracer):
    several_groups = True

    def __init__(
        self, function: ir.Function, sample: Sample, launch: LaunchValues, arrays: Collection[str], work: int
    ) -> None:
        super().__init__(function, work)
        self.sample, self.launch, self.recorded = sample, launch, arrays
        memory = {launch.memory_of(name) for name in self.written}
        self.written = {one.name for one in function.arrays if launch.memory_of(one.name) in memory}
        self.size = sample.size
        self.lanes = np.arange(self.size)
        self.all_inside = bool(sample.inside.all())

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: OptionalValue = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        if access.array.name not in self.recorded:
            for index in access.indices:
                if not isinstance(index, ir.Read | ir.Const):
                    self.evaluate(index)  # it may read other arrays
            return None
        event = super().touch(kind, access, where, value, members)
        if event is not None and not self.all_inside and (kind == "atomic" or isinstance(access.array, ir.GlobalArray)):
            event.lanes = event.lanes[self.sample.inside[event.lanes]]  # it has no effect in other lanes
        return event

    def _exact(self, value: Any, dtype: np.dtype[Any]) -> OptionalValue:
        return SymbolicValue(np.asarray(value).astype(dtype)[()])

    def of_parameter(self, e: ir.Parameter) -> OptionalValue:
        value = self.launch.numbers[e.position]
        if e.dtype.names is not None:
            return super().of_parameter(e)
        return self._exact(value if e.item is None else value[e.item], e.dtype)

    def _index(self, e: ir.Expr, values: Callable[[], np.ndarray]) -> SymbolicValue:
        """The value of an index in all lanes, computed once for each expression."""
        found: SymbolicValue | None = self._constants.get(e.uid)
        if found is None:
            found = self._constants[e.uid] = SymbolicValue(values().astype(e.dtype))
        return found

    def of_groupindex(self, e: ir.GroupIndex) -> OptionalValue:
        return self._index(e, lambda: self.sample.groups[e.axis])

    def of_localindex(self, e: ir.LocalIndex) -> OptionalValue:
        return self._index(e, lambda: self.sample.locals[e.axis])

    def of_globalindex(self, e: ir.GlobalIndex) -> OptionalValue:
        return self._index(e, lambda: self.sample.grid_index(e.axis) + self.launch.offset[e.axis])

    def of_gridextent(self, e: ir.GridExtent) -> OptionalValue:
        return self._exact(self.launch.extent[e.axis], e.dtype)

    def of_arrayextent(self, e: ir.ArrayExtent) -> OptionalValue:
        return self._exact(self.launch.shapes[e.array.position][e.axis], e.dtype)
