"""Some lanes of a launch, from several groups, and what they do with the arrays that the function writes.

Which lanes: groups from the beginning and from the end of every axis, all of them where the grid is small. What is
known of the launch (extents, shapes, numbers given to the call) is used as it is, so that an index is a number.
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
from pydp.lang.execute.symbolic_values import Known, Value

LANES = 2048  # so many cost a NumPy operation little more than one does
WORK = 3_000  # expressions evaluated for them
MOST_ALIKE = 64  # launches that are looked at of those whose numbers are all of about one size


@dataclass(frozen=True)
class Launch:
    """What a call gives beside the function.

    extent, offset: of the grid. shapes: of the arrays, by the argument's position; numbers: number arguments,
    likewise. places: for arrays that share memory with others, the name of the first of them, and where in it the
    array starts and how it steps along its axes, in elements.
    """

    extent: tuple[int, ...]
    offset: tuple[int, ...]
    shapes: Mapping[int, tuple[int, ...]]
    numbers: Mapping[int, Any]
    places: Mapping[str, tuple[str, int, tuple[int, ...]]] = field(default_factory=dict)


class Sample:
    """Lanes of a launch, in order of their groups.

    groups, locals: the lanes' group and local indexes, an array for each axis. group: extents of a group.
    number: a number for each lane's group. inside: which lanes are in the grid. by_group: groups have a meaning.
    """

    def __init__(self, function: ir.Function, extent: tuple[int, ...], offset: tuple[int, ...]) -> None:
        self.offset = offset
        self.by_group = function.group is not None and needs_groups(function)
        self.group = function.group if self.by_group and function.group else (1,) * len(extent)
        size = math.prod(self.group)
        counts = [-(-n // g) for n, g in zip(extent, self.group, strict=True)]
        chosen = _chosen(counts, max(1, LANES // size))
        places = np.meshgrid(*chosen, *(np.arange(g) for g in self.group), indexing="ij")
        flat = [place.ravel() for place in places] or [np.zeros(1, np.int64)]
        rank = len(extent)
        self.groups, self.locals = flat[:rank], flat[rank : 2 * rank]
        self.number = np.arange(len(flat[0])) // size
        self.inside = np.ones(len(flat[0]), bool)
        for axis, n in enumerate(extent):
            self.inside &= self.place(axis) < n
        if not (function.locals or ir.barriers(function.body)):
            keep = self.inside
            self.groups = [one[keep] for one in self.groups]
            self.locals = [one[keep] for one in self.locals]
            self.number, self.inside = self.number[keep], keep[keep]

    @property
    def size(self) -> int:
        """The number of lanes that are looked at."""
        return len(self.number)

    def place(self, axis: int) -> np.ndarray:
        """The lanes' index in the grid, its offset left out."""
        return np.asarray(self.groups[axis] * self.group[axis] + self.locals[axis])

    def name(self, lane: int) -> str:
        """A lane as the user knows it."""
        here = [int(one[lane]) for one in self.groups]
        if not self.by_group:
            return f"lane {[start + k for start, k in zip(self.offset, here, strict=True)]}"
        return f"lane {[int(one[lane]) for one in self.locals]} of group {here}"


def _chosen(counts: list[int], most: int) -> list[np.ndarray]:
    """Numbers from each axis, `most` combinations or few more: all, or those of the beginning and some of the end."""
    chosen: dict[int, np.ndarray] = {}
    for left, axis in enumerate(sorted(range(len(counts)), key=lambda k: counts[k])):
        share = max(2, int(most ** (1 / (len(counts) - left)) + 1e-9))
        count = counts[axis]
        last = share // 4
        first = np.arange(min(count, share - last))
        chosen[axis] = np.arange(count) if count <= share else np.concatenate([first, np.arange(count - last, count)])
        most = max(1, most // len(chosen[axis]))
    return [chosen[axis] for axis in range(len(counts))]


def trace(function: ir.Function, sample: Sample, launch: Launch, watched: set[str]) -> list[Event]:
    """What the lanes of a sample do with the watched arrays, and their barriers, in program order.

    A condition of unknown outcome is taken to be shared by the lanes of a group only.
    """
    tracer = _LaunchTracer(function, sample, launch, watched)
    with np.errstate(all="ignore"):
        tracer.block(function.body)
    return tracer.events


class _LaunchTracer(Tracer):
    several_groups = True

    def __init__(self, function: ir.Function, sample: Sample, launch: Launch, watched: set[str]) -> None:
        super().__init__(function, WORK)
        self.sample, self.launch = sample, launch
        self.written = watched
        self.size = sample.size
        self.active = self.everyone = np.ones(self.size, bool)
        self.lanes = np.arange(self.size)
        self.all_inside = bool(sample.inside.all())

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: Value = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        event = super().touch(kind, access, where, value, members)
        if access.array.name not in self.written:
            self.events.pop()
            return None
        if event is not None and not self.all_inside and isinstance(access.array, ir.GlobalArray):
            event.lanes = event.lanes[self.sample.inside[event.lanes]]
        return event

    def _exact(self, value: Any, dtype: np.dtype[Any]) -> Value:
        return Known(np.asarray(value).astype(dtype)[()])

    def of_parameter(self, e: ir.Parameter) -> Value:
        value = self.launch.numbers[e.position]
        if e.dtype.names is not None:
            return super().of_parameter(e)
        return self._exact(value if e.item is None else value[e.item], e.dtype)

    def of_groupindex(self, e: ir.GroupIndex) -> Value:
        return Known(self.sample.groups[e.axis].astype(e.dtype))

    def of_localindex(self, e: ir.LocalIndex) -> Value:
        return Known(self.sample.locals[e.axis].astype(e.dtype))

    def of_globalindex(self, e: ir.GlobalIndex) -> Value:
        return Known((self.sample.place(e.axis) + self.launch.offset[e.axis]).astype(e.dtype))

    def of_gridextent(self, e: ir.GridExtent) -> Value:
        return self._exact(self.launch.extent[e.axis], e.dtype)

    def of_arrayextent(self, e: ir.ArrayExtent) -> Value:
        return self._exact(self.launch.shapes[e.array.position][e.axis], e.dtype)


def magnitude(value: Any) -> int | None:
    """The same for integers of one sign and about one size; None for what is no number."""
    if value is None:
        return None
    number = int(value)
    return number.bit_length() if number >= 0 else -number.bit_length()
