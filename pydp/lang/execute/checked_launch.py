"""The state of checked mode for a whole launch, and its error messages, which name lanes, elements and source lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.checked_memory import SITE_BITS, SITES, Finding, Region, find
from pydp.lang.execute.host import Parameters, needs_groups
from pydp.lang.execute.lane_events import VERBS, lane_index, lane_text, missing_order
from pydp.lang.ir.diagnostics import VectorError


class CheckFailed(VectorError):
    """Checked mode found an invalid access or a race in a vector function. ``where`` is the source line."""


class Race(Exception):
    """Two accesses race. Their values are found by a second run with a :class:`Witness`."""

    def __init__(self, found: Finding, to_error: Callable[[Witness], CheckFailed]) -> None:
        self.found, self.to_error = found, to_error


class Witness:
    """The values that two accesses to one unit of memory read or wrote last."""

    def __init__(self, found: Finding) -> None:
        self.unit = found[0]
        self.values: dict[int, Any] = {entry: None for _, entry in found[1:]}

    def record(self, site: int, lanes: np.ndarray, units: np.ndarray, values: np.ndarray) -> None:
        """Record an access. units: one row per lane. values: what the lanes read, write or update with."""
        for entry in self.values:
            if entry & SITES == site:
                (rows,) = np.nonzero((lanes == entry >> SITE_BITS) & (units == self.unit).any(axis=1))
                if len(rows):
                    self.values[entry] = np.copy(values[rows[-1]])

    def describe(self, kind: str, entry: int, name: str) -> str:
        """An access as text: ``writes 3 to s[4]``."""
        value = self.values[entry]
        if value is None:
            return f"{VERBS[kind]} {name}"
        if kind == "atomic":
            return f"updates {name} with {value}"
        return f"reads {value} from {name}" if kind == "read" else f"writes {value} to {name}"


class CheckedLaunch:
    """The state of a launch: the memory regions of arguments, and the numbering of groups, lanes and accesses."""

    def __init__(
        self,
        function: ir.Function,
        extent: tuple[int, ...],
        offset: tuple[int, ...],
        arrays: list[np.ndarray],
        parameters: Parameters,
    ) -> None:
        self.function, self.extent, self.offset = function, extent, offset
        self.arrays, self.parameters = arrays, parameters
        grouped = needs_groups(function) and function.group is not None
        self.group = function.group if grouped and function.group else (1,) * len(extent)
        self.lanes = max(1, math.prod(self.group))
        self.counts = tuple(-(-n // g) for n, g in zip(extent, self.group, strict=True))
        self.sites: list[tuple[str, ir.Where]] = []
        self.numbers: dict[int, int] = {}
        self.witness: Witness | None = None
        self.memory = {array.name: data for array, data in zip(function.arrays, arrays, strict=True)}
        self.regions: dict[str, Region] = {}
        written = {s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)}
        for names in _groups_sharing_memory(self.memory):
            if written & set(names):
                region = Region([self.memory[name] for name in names], between_groups=True)
                self.regions.update((name, region) for name in names)

    def site(self, access: ir.Load | ir.Store | ir.Atomic) -> int:
        """The number of an access (a statement or expression of the source)."""
        number = self.numbers.get(access.uid)
        if number is None:
            number = self.numbers[access.uid] = min(len(self.sites), (1 << SITE_BITS) - 1)
            self.sites.append((access.array.name, access.where))
        return number

    def close(self) -> None:
        """End the launch: raise Race if accesses of different groups race."""
        for region in dict.fromkeys(self.regions.values()):
            assert region.launch is not None
            found = find([region.launch], region.launch.units(), self.lanes)
            if found is not None:
                raise self.race(found, region, self.memory, {})

    def lane(self, number: int) -> str:
        """A lane as text, by its index in the group or in the grid."""
        group, local = divmod(number, self.lanes)
        return lane_text(self.lanes > 1, lane_index(group, self.counts), lane_index(local, self.group), self.offset)

    def race(
        self, found: Finding, region: Region, memory: dict[str, np.ndarray], skip: dict[str, int], within: int = 0
    ) -> Race:
        """The exception for two accesses that race. within: the width of the barrier between them; 0 if there is none.

        skip: the number of leading axes (of groups and lanes) of a field's memory, by the field's name.
        """
        name = self.sites[found[1][1] & SITES][0]
        index, _ = element_of(memory[name], region, found[0])
        element = f"{name}{index[skip.get(name, 0) :]}"
        return Race(found, lambda witness: self._to_error(found, element, within, witness))

    def _to_error(self, found: Finding, name: str, within: int, witness: Witness) -> CheckFailed:
        _, (kind, entry), (other_kind, other) = found
        sites = [self.sites[e & SITES] for e in (entry, other)]
        lanes = [e >> SITE_BITS for e in (entry, other)]
        one = f"{self.lane(lanes[0])} {witness.describe(kind, entry, name)} (line {sites[0][1].line})"
        two = f"{self.lane(lanes[1])} {witness.describe(other_kind, other, 'it')} (line {sites[1][1].line})"
        same_group = lanes[0] // self.lanes == lanes[1] // self.lanes
        why = missing_order(self.lanes > 1, same_group)
        if same_group and within:
            why = f"only a barrier of width {within} between them"
        return CheckFailed(f"race: {one} and {two}: {why}", sites[1][1])


def _groups_sharing_memory(memory: dict[str, np.ndarray]) -> list[list[str]]:
    """The names of arrays, grouped: arrays that may share memory are in one group."""
    parts: list[list[str]] = []
    for name, data in memory.items():
        joined = [part for part in parts if any(np.may_share_memory(data, memory[other]) for other in part)]
        parts = [part for part in parts if part not in joined] + [[*(n for part in joined for n in part), name]]
    return parts


def element_of(memory: np.ndarray, region: Region, unit: int) -> tuple[list[int], Any]:
    """The index and the value of the array element that contains a unit."""
    rest = region.base + unit * region.unit - memory.__array_interface__["data"][0]
    index = [0] * memory.ndim
    for axis in range(memory.ndim):
        if memory.strides[axis] < 0:
            index[axis] = memory.shape[axis] - 1
            rest -= memory.strides[axis] * (memory.shape[axis] - 1)
    for axis in sorted(range(memory.ndim), key=lambda k: -abs(memory.strides[k])):
        stride = abs(memory.strides[axis])
        if stride and memory.shape[axis] > 1:
            steps = max(0, min(rest // stride, memory.shape[axis] - 1))
            rest -= steps * stride
            index[axis] += steps if memory.strides[axis] > 0 else -steps
    return index, memory[tuple(index)]
