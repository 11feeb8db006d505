"""The host lowering: runs vector functions with NumPy, all lanes of many groups at once.

It is the reference for the device lowerings. Each statement runs for all active lanes before the next statement. This
is one of the valid orders, so barriers need no code. Uniform values remain scalars, indexes remain affine as long as
possible, and loads of neighbouring elements become slices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute import host_memory, host_values
from pydp.lang.execute.host_values import affine, materialize
from pydp.lang.execute.lanes import Counter, Lanes
from pydp.lang.execute.masks import Mask, mask_and, normalize
from pydp.lang.intrinsics import ATOMIC

Parameters = Mapping[int, Any] | Sequence[Any]

LANES_AT_ONCE = 1 << 17  # temporaries of this many 4-byte values fit into a core's second-level cache
FIELD_BYTES = 64 << 20  # limit for the local and private fields of all lanes that run together


def run(
    function: ir.Function,
    grid_extent: Sequence[int],
    grid_offset: Sequence[int] | None,
    arrays: Sequence[np.ndarray],
    parameters: Parameters = (),
) -> None:
    """Run a vector function over a grid. Arrays are written in place.

    arrays: one strided NumPy array for each of `function.arrays`, with its dtype and rank.
    parameters: the values of the number arguments, by the argument's position; a tuple for a tuple of numbers.
    """
    extent = tuple(int(n) for n in grid_extent)
    offset = tuple(int(n) for n in grid_offset) if grid_offset is not None else (0,) * len(extent)
    with np.errstate(all="ignore"):
        for chunk in chunks(function, extent, offset):
            HostLanes(function, chunk, list(arrays), parameters).run()


def run_value(function: ir.ValueFunction, *arrays: Any) -> np.ndarray:
    """The function's result for each element of its arguments. The arguments are broadcast."""
    values = np.broadcast_arrays(*(np.asarray(a, v.dtype) for a, v in zip(arrays, function.arguments, strict=True)))
    flat = [value.ravel() for value in values]
    results = np.empty(flat[0].size, function.result.dtype)
    step = max(1, min(LANES_AT_ONCE, FIELD_BYTES // max(1, _field_bytes(function.privates))))
    with np.errstate(all="ignore"):
        for first in range(0, flat[0].size, step):
            piece = [value[first : first + step] for value in flat]
            lanes = HostLanes(function, Chunk((piece[0].size,), (), (), (), (), 0), [], ())
            lanes.values = {v.name: value for v, value in zip(function.arguments, piece, strict=True)}
            lanes.run()
            results[first : first + step] = materialize(lanes.evaluate(function.result))
    return results.reshape(values[0].shape)


# --- which lanes run together ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """A box of groups whose lanes run together.

    shape: the extents of the axes of lanes: first the axes of groups, then the axes within a group. If the function
    does not depend on groups, each lane is a group of its own, and there are only axes of groups.
    first: the first group along each axis. group: extents of a group. extent, offset: extent and offset of the grid.
    groups: the number of axes of groups.
    """

    shape: tuple[int, ...]
    first: tuple[int, ...]
    group: tuple[int, ...]
    extent: tuple[int, ...]
    offset: tuple[int, ...]
    groups: int


def needs_groups(function: ir.Function) -> bool:
    """Whether the function depends on groups: it has local fields, barriers, or group or local indexes."""
    if function.locals or ir.barriers(function.body):
        return True
    return any(
        isinstance(part, ir.GroupIndex | ir.LocalIndex)
        for statement in ir.statements(function.body)
        for expression in ir.expressions(statement)
        for part in ir.walk(expression)
    )


def _field_bytes(arrays: Sequence[ir.LocalArray | ir.PrivateArray]) -> int:
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)


def chunks(function: ir.Function, extent: tuple[int, ...], offset: tuple[int, ...]) -> Iterator[Chunk]:
    """The launch's groups, divided into boxes of bounded size. A box has only complete groups or only partial ones."""
    if any(n <= 0 for n in extent):
        return
    grouped = needs_groups(function)
    group = function.group if grouped and function.group is not None else (1,) * len(extent)
    lanes = max(1, math.prod(group))
    fields = _field_bytes(function.locals) + lanes * _field_bytes(function.privates)
    groups_left = max(1, min(LANES_AT_ONCE // lanes, FIELD_BYTES // max(1, fields)))
    runs = []
    for axis in reversed(range(len(extent))):
        whole, count = extent[axis] // group[axis], -(-extent[axis] // group[axis])
        step = max(1, min(groups_left, whole))
        pieces = [(first, min(step, whole - first)) for first in range(0, whole, step)]
        runs.append(pieces + ([(whole, 1)] if count > whole else []))
        groups_left = max(1, groups_left // step)
    for picked in itertools.product(*reversed(runs)):
        boxes = tuple(n for _, n in picked)
        inner = group if grouped else ()
        shape = boxes + inner if boxes else (1,)
        yield Chunk(shape, tuple(first for first, _ in picked), group, extent, offset, len(boxes))


class HostLanes(Lanes):
    """All lanes of a chunk, with their fields and the arrays of the launch. Values are NumPy's."""

    operations = host_values

    def __init__(
        self, function: ir.Function | ir.ValueFunction, chunk: Chunk, arrays: list[np.ndarray], parameters: Parameters
    ) -> None:
        super().__init__()
        self.function, self.chunk, self.shape = function, chunk, chunk.shape
        self.parameters = parameters
        self.memory: dict[str, np.ndarray] = {}
        self.leading_indices: dict[str, list[Any]] = {}
        self.fill_values: dict[str, Any] = {}
        self.changing: set[str] = set()
        if isinstance(function, ir.Function):
            self._bind_arrays(function, arrays)
        for private in function.privates:
            self._allocate_field(private, len(self.shape))
        self.in_grid: Mask = self._inside_grid()

    def run(self) -> None:
        """Run the function's body. Afterwards `values` has its variables."""
        function = self.function
        if isinstance(function, ir.Function) and not (function.locals or ir.barriers(function.body)):
            self.active = normalize(self.in_grid)
        self.block(function.body)

    def _bind_arrays(self, function: ir.Function, arrays: list[np.ndarray]) -> None:
        for array, data in zip(function.arrays, arrays, strict=True):
            self.memory[array.name], self.leading_indices[array.name] = data, []
            fill = np.zeros((), array.dtype)
            if array.dtype.names is None or isinstance(array.fill, np.void | tuple):
                fill[()] = array.fill
            self.fill_values[array.name] = fill
        for local in function.locals:
            self._allocate_field(local, self.chunk.groups)
        written = [s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)]
        for name, data in self.memory.items():
            if any(np.may_share_memory(data, self.memory[other]) for other in written if other in self.memory):
                self.changing.add(name)

    def _allocate_field(self, array: ir.LocalArray | ir.PrivateArray, axes: int) -> None:
        self.memory[array.name] = np.zeros(self.shape[:axes] + array.shape, array.dtype)
        self.leading_indices[array.name] = [self._position(axis) for axis in range(axes)]
        self.fill_values[array.name] = np.zeros((), array.dtype)
        self.changing.add(array.name)

    def _position(self, axis: int, base: int = 0, dtype: Any = np.int64) -> Any:
        steps = tuple(int(k == axis) for k in range(len(self.shape)))
        return affine(base, steps, self.shape, np.dtype(dtype))

    def _inside_grid(self) -> Mask:
        mask: Mask = True
        chunk = self.chunk
        for axis in range(chunk.groups):
            last = (chunk.first[axis] + self.shape[axis]) * chunk.group[axis]
            if last > chunk.extent[axis]:
                place = self._grid_index(axis, 0, np.dtype(np.int64))
                mask = mask_and(mask, np.asarray(materialize(place) < chunk.extent[axis]))
        return mask

    def _grid_index(self, axis: int, offset: int, dtype: np.dtype[Any]) -> Any:
        """The lanes' index in the grid along an axis."""
        chunk = self.chunk
        size = chunk.group[axis]
        steps = [0] * len(self.shape)
        steps[axis] = size
        if len(self.shape) > chunk.groups and chunk.groups:
            steps[chunk.groups + axis] = 1
        return affine(offset + chunk.first[axis] * size, tuple(steps), self.shape, dtype)

    # --- conditions and loops: everything is known ---------------------------------------------------------

    def mask_of(self, condition: Any) -> Mask:
        if np.ndim(condition) == 0:
            return bool(condition)
        return condition if condition.flags.owndata else condition.copy()

    def counter_of(self, start: Any, stop: Any, step: Any) -> Counter:
        return Counter(materialize(start), materialize(stop), materialize(step))

    def evaluate_under(self, condition: Any, expression: ir.Expr, wanted: bool) -> Any:
        return self.evaluate(expression)  # in all lanes, which is faster than to compute a mask

    # --- indexes, extents and arguments -------------------------------------------------------------------

    def of_read(self, e: ir.Read) -> Any:
        variable = e.variable
        value = self.values.get(variable.name)
        if value is None:  # no lane has executed an assignment, so the value is never used
            value = self.values[variable.name] = np.zeros((), variable.dtype)[()]
        return value

    def of_parameter(self, e: ir.Parameter) -> Any:
        value = self.parameters[e.position]
        if e.item is not None:
            value = value[e.item]
        return np.asarray(value).astype(e.dtype)[()]

    def of_groupindex(self, e: ir.GroupIndex) -> Any:
        return self._position(e.axis, self.chunk.first[e.axis], e.dtype)

    def of_localindex(self, e: ir.LocalIndex) -> Any:
        return self._position(self.chunk.groups + e.axis, 0, e.dtype)

    def of_globalindex(self, e: ir.GlobalIndex) -> Any:
        return self._grid_index(e.axis, self.chunk.offset[e.axis], e.dtype)

    def of_gridextent(self, e: ir.GridExtent) -> Any:
        return e.dtype.type(self.chunk.extent[e.axis])

    def of_arrayextent(self, e: ir.ArrayExtent) -> Any:
        return e.dtype.type(self.memory[e.array.name].shape[e.axis])

    # --- memory -------------------------------------------------------------------------------------------

    def elements(self, access: ir.Load | ir.Store | ir.Atomic) -> list[Any]:
        """The index values of an access. For fields, the indexes of the group or lane come first."""
        return [*self.leading_indices[access.array.name], *(self.evaluate(index) for index in access.indices)]

    def check_access(
        self, kind: str, access: Any, memory: np.ndarray, elements: list[Any], active: Mask, value: Any = None
    ) -> None:
        """Hook: called before the active lanes access elements of `memory`. Checked mode checks the access."""

    def load(self, expression: ir.Load, members: tuple[str, ...]) -> Any:
        array, elements = expression.array, self.elements(expression)
        memory, fill = self.memory[array.name], self.fill_values[array.name]
        if members:
            memory, fill = (ir.member_of(records, array.dtype, members) for records in (memory, fill))
        self.check_access("read", expression, memory, elements, self.active)
        return host_memory.load(memory, elements, fill[()], self.shape)

    def run_assign(self, statement: ir.Assign) -> None:
        value = self.evaluate(statement.value)
        value = self._copied_if_view(value, statement.value)
        if statement.members:
            self._assign_member(statement, materialize(value))
        else:
            self.put(statement.variable, value)

    def _copied_if_view(self, value: Any, expression: ir.Expr) -> Any:
        """The value; a copy if it may be a view of memory that a later statement writes."""
        if not isinstance(value, np.ndarray) or value.flags.owndata:
            return value
        changes = any(isinstance(part, ir.Load) and part.array.name in self.changing for part in ir.walk(expression))
        return value.copy() if changes else value

    def _assign_member(self, statement: ir.Assign, value: Any) -> None:
        name = statement.variable.name
        old = self.values.get(name, np.zeros((), statement.variable.dtype))
        shape = np.broadcast_shapes(np.shape(old), np.shape(value), np.shape(self.active))
        record = np.array(np.broadcast_to(old, shape))
        np.copyto(ir.member_of(record, record.dtype, statement.members), value, where=self.active)
        self.values[name] = record[()]

    def run_store(self, statement: ir.Store) -> None:
        array = statement.array
        value, elements = materialize(self.evaluate(statement.value)), self.elements(statement)
        memory = ir.member_of(self.memory[array.name], array.dtype, statement.members)
        active = mask_and(self.active, self.in_grid) if isinstance(array, ir.GlobalArray) else self.active
        self.check_access("write", statement, memory, elements, active, value)
        host_memory.store(memory, elements, value, active, self.shape)

    def run_atomic(self, statement: ir.Atomic) -> None:
        """Perform an atomic update for the active lanes, in lane order."""
        value, elements = self.evaluate(statement.value), self.elements(statement)
        active = mask_and(self.active, self.in_grid)
        operation, memory = ATOMIC[statement.op], self.memory[statement.array.name]
        self.check_access("atomic", statement, memory, elements, active, value)
        if statement.old is None:
            host_memory.atomic(operation, memory, elements, value, active, self.shape)
            return
        done, before = host_memory.fetch_update(operation, memory, elements, value, active, self.shape)
        slot = [*self.leading_indices[statement.old.name], np.int64(0)]
        host_memory.store(self.memory[statement.old.name], slot, before, done, self.shape)

    def run_barrier(self, statement: ir.Barrier) -> None:
        """Does nothing: all lanes complete each statement before the next one."""
