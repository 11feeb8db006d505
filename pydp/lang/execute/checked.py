"""Checked mode: vector functions run on the host, and every memory access is checked.

    with pydp.checked():
        pydp.forall(grid, fn, *args, group=(16, 16))

The environment variable PYDP_CHECK=1 has the same effect. An error names the line of the user's Python. Reported are:
indexes outside fields, tiles, local and private fields, array members and tuples; reads of uninitialized elements of
local and private fields; and races, between lanes of a group without a barrier between the accesses, and between groups
on arrays. Lanes that write the same value to one element in one statement do not race.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.checked_launch import CheckedLaunch, CheckFailed, Race, Witness, element_of
from pydp.lang.execute.checked_memory import SITE_BITS, Region, Shadow, find
from pydp.lang.execute.host import Chunk, HostLanes, Parameters, chunks
from pydp.lang.execute.host_values import is_uniform, materialize
from pydp.lang.execute.lane_events import VERBS, width_error
from pydp.lang.execute.lanes import Lanes
from pydp.lang.execute.masks import Mask, mask_and
from pydp.runtime.environment import reader

__all__ = ["CheckFailed", "checked", "is_checked", "run"]

_state = threading.local()
_variable = reader("PYDP_CHECK")


@contextmanager
def checked() -> Iterator[None]:
    """Run every forall inside the block on the host, which is slow, and check it.

    This applies to the current thread; the environment variable PYDP_CHECK=1 applies to the whole process. It finds
    races, with both lanes and their values; indexes out of bounds; and reads of uninitialized memory. At the first such
    mistake it raises :class:`pydp.CheckFailed`, a :class:`pydp.VectorError`; arrays may then be partly written.

    >>> def late(idx, a, i):
    ...     a[i[idx]] = 1
    >>> try:
    ...     with pydp.checked():
    ...         pydp.forall(2, late, np.zeros(2), np.array([0, 9]))
    ... except pydp.CheckFailed as error:
    ...     print(error.message)
    lane [1] writes a at index 9 of axis 0; indexes 0 to 1 are valid
    """
    before = getattr(_state, "on", False)
    _state.on = True
    try:
        yield
    finally:
        _state.on = before


def is_checked() -> bool:
    """Whether forall currently runs in checked mode in this thread."""
    return getattr(_state, "on", False) or (_variable() or "0") != "0"


def run(
    function: ir.Function,
    grid_extent: Sequence[int],
    grid_offset: Sequence[int] | None,
    arrays: Sequence[np.ndarray],
    parameters: Parameters = (),
) -> None:
    """As :func:`pydp.lang.execute.host.run`, with every access checked. After CheckFailed, arrays may be partly
    written."""
    extent = tuple(int(n) for n in grid_extent)
    offset = tuple(int(n) for n in grid_offset) if grid_offset is not None else (0,) * len(extent)
    inputs = (function, extent, offset, list(arrays), parameters)
    launch = CheckedLaunch(*inputs)
    before = [(data, data.copy()) for name, data in launch.memory.items() if name in launch.regions]
    try:
        _run(launch)
    except Race as race:
        for data, copy in before:
            data[...] = copy
        again = CheckedLaunch(*inputs)
        again.witness = Witness(race.found)
        with suppress(Race, CheckFailed):
            _run(again)  # records the values that the two accesses read or wrote
        raise race.to_error(again.witness) from None


def _run(launch: CheckedLaunch) -> None:
    with np.errstate(all="ignore"):
        for chunk in chunks(launch.function, launch.extent, launch.offset):
            lanes = CheckedLanes(launch, chunk)
            lanes.run()
            lanes.close()
    launch.close()


class CheckedLanes(HostLanes):
    """The lanes of a chunk; each access is checked before it is performed."""

    def __init__(self, launch: CheckedLaunch, chunk: Chunk) -> None:
        super().__init__(launch.function, chunk, launch.arrays, launch.parameters)
        self.launch = launch
        self.regions = dict(launch.regions)
        self.fields: dict[str, int] = {}  # the number of leading axes (of groups and lanes) of their memory
        fields: list[ir.LocalArray | ir.PrivateArray] = [*launch.function.locals, *launch.function.privates]
        for array in fields:
            self.regions[array.name] = Region([self.memory[array.name]], between_groups=False)
            self.fields[array.name] = self.memory[array.name].ndim - len(array.shape)
        self.lane_numbers = self._number_lanes()

    def _number_lanes(self) -> np.ndarray:
        """The number of each lane of the chunk: group number * lanes per group + lane number in the group."""
        place, first = np.indices(self.shape), self.chunk.first
        place[: len(first)] += np.reshape(np.array(first, np.int64), (-1, *(1 for _ in self.shape)))
        extents = (*self.launch.counts, *self.shape[len(first) :])
        return np.ravel_multi_index(tuple(place), extents).ravel()

    # --- accesses -----------------------------------------------------------------------------------------

    def check_access(
        self, kind: str, access: Any, memory: np.ndarray, elements: list[Any], active: Mask, value: Any = None
    ) -> None:
        """Check an access of the active lanes, and record it for later race checks."""
        lanes = np.flatnonzero(np.broadcast_to(active, self.shape))
        if not len(lanes):
            return
        for bound in access.bounds:
            index = self._at_lanes(self.evaluate(bound.index), lanes)
            self._check_index(kind, access, index, bound.size, lanes, "a tile's axis")
        at = [self._at_lanes(index, lanes) for index in elements]
        exists = self._check_extents(kind, access, memory, at, lanes)
        region = self.regions.get(access.array.name)
        if region is None:
            return
        lanes, at = lanes[exists], [index[exists] for index in at]
        units = region.units_of(memory, at, len(lanes))
        if access.array.name in self.fields:
            self._check_written(kind, access, region, units, lanes, at)
        if isinstance(access.array, ir.PrivateArray) or not len(lanes):
            return
        numbers, held = self.lane_numbers[lanes], memory[tuple(at)] if at else memory[()]
        shown = held if value is None else self._at_lanes(value, lanes)
        if self.launch.witness is not None:
            shown = np.broadcast_to(shown, lanes.shape)
            self.launch.witness.record(self.launch.site(access), numbers, units, shown)
        self._record(kind, access, region, units, numbers, (shown, held) if kind == "write" else None)

    def _at_lanes(self, value: Any, lanes: np.ndarray) -> np.ndarray:
        value = materialize(value)
        if is_uniform(value):
            return np.full(len(lanes), value)
        return np.broadcast_to(value, self.shape).ravel()[lanes]

    def _check_extents(
        self, kind: str, access: Any, memory: np.ndarray, at: list[np.ndarray], lanes: np.ndarray
    ) -> np.ndarray:
        """A mask of the lanes whose element exists. Raises CheckFailed if an index must be in bounds and is not."""
        name = access.array.name
        before = self.fields.get(name, 0)
        exists = np.ones(len(lanes), bool)
        real = np.broadcast_to(self.in_grid, self.shape).ravel()[lanes]
        for axis, (index, extent) in enumerate(zip(at, memory.shape, strict=True)):
            if axis >= before and (name in self.fields or access.strict_bounds):
                blamed = np.ones(len(lanes), bool) if name in self.fields else real
                self._check_index(kind, access, index[blamed], extent, lanes[blamed], f"axis {axis - before}")
            exists &= (index >= 0) & (index < extent)
        return exists

    def _check_index(
        self, kind: str, access: Any, index: np.ndarray, extent: int, lanes: np.ndarray, what: str
    ) -> None:
        outside = (index < 0) | (index >= extent)
        if outside.any():
            at = int(np.argmax(outside))
            name = access.name if isinstance(access, ir.ItemBound) else access.array.name
            lane = self.launch.lane(int(self.lane_numbers[lanes[at]]))
            message = (
                f"{lane} {VERBS[kind]} {name} at index {int(index[at])} of {what}; indexes 0 to {extent - 1} are valid"
            )
            raise CheckFailed(message, access.where)

    def _check_item(self, bound: ir.ItemBound | None) -> None:
        """The item indexes of active lanes must be valid. The index of lanes outside the grid is 0 and not checked."""
        if bound is None:
            return
        lanes = np.flatnonzero(np.broadcast_to(mask_and(self.active, self.in_grid), self.shape))
        if len(lanes):
            index = self._at_lanes(self.evaluate(bound.index), lanes)
            self._check_index(bound.kind, bound, index, bound.size, lanes, f"its {bound.size} items")

    def _check_written(
        self, kind: str, access: Any, region: Region, units: np.ndarray, lanes: np.ndarray, at: list[np.ndarray]
    ) -> None:
        """An element of a local or private field must be written before it is read."""
        if kind == "write":
            region.written[units] = True
            return
        missing = ~region.written[units].all(axis=1)
        if missing.any():
            first = int(np.argmax(missing))
            index = [int(k[first]) for k in at[self.fields[access.array.name] :]]
            lane = self.launch.lane(int(self.lane_numbers[lanes[first]]))
            message = f"{lane} {VERBS[kind]} {access.array.name}{index} before any lane has written it"
            raise CheckFailed(message, access.where)

    def _record(self, kind: str, access: Any, region: Region, units: np.ndarray, lanes: np.ndarray, given: Any) -> None:
        site = self.launch.site(access)
        shadows = [region.current] if region.launch is None else [region.launch]
        if region.launch is not None and self.launch.lanes > 1:
            shadows.append(region.current)
        if given is not None:
            self._record_writes(access, region, units, lanes, given, shadows, site)
            return
        entries = np.repeat((lanes << SITE_BITS) | site, units.shape[1])
        for shadow in shadows:
            shadow.add(kind, units.ravel(), entries, entries)

    def _record_writes(
        self,
        access: Any,
        region: Region,
        units: np.ndarray,
        lanes: np.ndarray,
        given: tuple[Any, Any],
        shadows: list[Shadow],
        site: int,
    ) -> None:
        """Record the writes of one statement. If several lanes write one element, their values must be equal. The first
        lane is then recorded as "write" and the last one as "echo". A lane that writes the value that the same
        statement has already written is also recorded as "echo"."""
        value, held = (np.ascontiguousarray(np.broadcast_to(v, lanes.shape)) for v in given)
        raw, old = (v.view(np.uint8).reshape(len(lanes), -1) for v in (value, held))
        _, first, place = np.unique(units[:, 0], return_index=True, return_inverse=True)
        differs = (raw != raw[first][place]).any(axis=1)
        if differs.any():
            at = int(np.argmax(differs))
            raise self._differing_values(access, region, units, lanes, value, (int(first[place[at]]), at))
        again = (raw == old).all(axis=1)[first]
        last = np.full(len(first), -1)
        np.maximum.at(last, place, lanes)
        units, lanes = units[first], lanes[first]
        width = units.shape[1]
        for shadow in shadows:
            known = again & shadow.same_writer(units[:, 0], site)
            for kind, chosen in (("write", ~known), ("echo", known | (last != lanes))):
                low = np.repeat((lanes[chosen] << SITE_BITS) | site, width)
                high = np.repeat((last[chosen] << SITE_BITS) | site, width)
                shadow.add(kind, units[chosen].ravel(), low, low if kind == "write" else high)

    def _differing_values(
        self, access: Any, region: Region, units: np.ndarray, lanes: np.ndarray, value: Any, pair: tuple[int, int]
    ) -> CheckFailed:
        index, _ = element_of(self.memory[access.array.name], region, int(units[pair[0], 0]))
        name = f"{access.array.name}{index[self.fields.get(access.array.name, 0) :]}"
        one, other = (f"{self.launch.lane(int(lanes[k]))} writes {value[k]}" for k in pair)
        return CheckFailed(f"race: {one} to {name} and {other} to it, in one statement", access.where)

    # --- synchronization ----------------------------------------------------------------------------------

    def run_barrier(self, statement: ir.Barrier) -> None:
        width = self.launch.lanes
        if statement.width is not None:
            shown = np.broadcast_to(materialize(self.evaluate(statement.width)), self.shape)
            for given in np.unique(shown[np.broadcast_to(self.active, self.shape)]):
                wrong = "" if statement.from_condition else width_error([int(given)], width)
                if wrong:
                    raise CheckFailed(wrong, statement.where)
            width = min(width, max(1, int(np.max(shown))))
        mask = np.broadcast_to(self.active, self.shape).ravel()
        groups = None if mask.all() else np.unique(self.lane_numbers[mask] // self.launch.lanes)
        self._synchronize(width, groups)

    def close(self) -> None:
        """End the chunk's groups: the end synchronizes like a barrier of the whole group."""
        self._synchronize(self.launch.lanes, None)

    def _synchronize(self, width: int, groups: np.ndarray | None) -> None:
        lanes = self.launch.lanes
        for region in dict.fromkeys(self.regions.values()):
            units = region.current.units(groups, lanes)
            if len(units):
                self._search(region, units)
            narrower = [shadow for older, shadow in sorted(region.behind_barriers.items()) if older < width]
            into = None if width >= lanes else region.behind_barriers.setdefault(width, Shadow(region.size))
            for shadow in narrower:
                shadow.move(shadow.units(groups, lanes), into)
            region.current.move(units, into)

    def _search(self, region: Region, units: np.ndarray) -> None:
        memory = {**self.launch.memory, **self.memory}
        older = ((width, [region.current, shadow]) for width, shadow in region.behind_barriers.items())
        for run, shadows in [(1, [region.current]), *older]:
            found = find(shadows, units, run)
            if found is not None:
                raise self.launch.race(found, region, memory, self.fields, within=run if run > 1 else 0)

    # --- conditions ---------------------------------------------------------------------------------------

    evaluate_under = Lanes.evaluate_under  # lanes that do not evaluate an operand do not access its elements

    def run_if(self, statement: ir.If) -> None:
        self._check_item(statement.item)
        super().run_if(statement)

    def of_select(self, e: ir.Select) -> Any:
        self._check_item(e.item)
        return super().of_select(e)
