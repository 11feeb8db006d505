"""Checks a launch before it runs: given barrier widths, races, and indexes of local and private fields.

One trace of a sample of the launch's lanes serves all three checks. Launches with the same values are checked once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydp.lang import ir
from pydp.lang.analysis import bounds_check, race_check
from pydp.lang.analysis.barrier_check import MAX_WORK, BarrierCheck
from pydp.lang.execute.launch_lanes import WORK, LaunchValues, trace_launch
from pydp.runtime.bounded import BoundedCache

MAX_SIMILAR_LAUNCHES = 64  # launches that are checked among those whose values have the same magnitudes
_MAX_CACHED = 512
_SIZES_AND_NUMBERS = (ir.Parameter, ir.ArrayExtent, ir.GridExtent)
_GRID_INDEXES = (ir.GlobalIndex, ir.GroupIndex)


class LaunchCheck:
    """The checks of a function's launches.

    inputs: the (position, item) of the numbers on which the result depends. has_widths: given barrier widths depend on
    the values of a launch. written: the names of the array arguments that the function writes.
    """

    def __init__(self, function: ir.Function, conditional_bounds: bool = False, fields_checked: bool = False) -> None:
        """conditional_bounds, fields_checked: see :class:`pydp.lang.analysis.static_checks.StaticFacts`."""
        self.function = function
        control, controlling = control_inputs(function.body)
        self.inputs = [(one.position, one.item) for one in control if isinstance(one, ir.Parameter)]
        self._barriers = BarrierCheck(function, control, controlling)
        self.has_widths = self._barriers.is_needed
        parts = list(_deciding_parts(bounds_check.field_indexes(function), function.body))
        by_index = conditional_bounds or any(_is_input(part, _GRID_INDEXES) for part in parts)
        bounds = by_index or any(_is_input(part, _SIZES_AND_NUMBERS) for part in parts)
        sizes = any(not isinstance(one, ir.Parameter) for one in control)
        by_launch = not fields_checked and _has_conditional_barrier(function.body)
        self._raced_fields = {one.name for one in function.locals} if by_launch else set()
        self._sizes_decide = by_index or (sizes and (bounds or self.has_widths or bool(self._raced_fields)))
        fields: list[ir.Array] = [*function.locals, *function.privates]
        self._fields = {one.name for one in fields} if bounds else set()
        stored = (one.array for one in ir.statements(function.body) if isinstance(one, ir.Store | ir.Atomic))
        self.written = {array.name for array in stored if isinstance(array, ir.GlobalArray)}
        self._by_lane = _accessed_by_lane(function)
        self._passed = BoundedCache(_MAX_CACHED)  # launches that passed, by their values
        self._checked_by_magnitude = BoundedCache(_MAX_CACHED)  # number of traced launches, by the values' magnitudes

    def check(
        self,
        extent: tuple[int, ...],
        offset: tuple[int, ...],
        shapes: tuple[tuple[int, ...], ...],
        values: Sequence[Any],
        aliases: dict[str, tuple[str, int, tuple[int, ...]]],
        widths_only: bool = False,
    ) -> None:
        """Raise VectorError if the values of a launch prove an error.

        shapes: the shapes of the function's arrays, in their order. values: all arguments. extent, offset, aliases: see
        :class:`pydp.lang.execute.launch_lanes.LaunchValues`. widths_only: check only given barrier widths.

        Launches whose sizes have the same magnitude share one check, unless an error depends on the sizes. For numbers
        of the same magnitude, only the first MAX_SIMILAR_LAUNCHES values are checked; computed widths are checked for
        all values.
        """
        inputs = [values[place] if item is None else values[place][item] for place, item in self.inputs]
        key: tuple[Any, ...] = (extent, offset, shapes, *inputs)
        if aliases or widths_only:
            key = (*key, tuple(aliases.items()), widths_only)
        if self._passed.get(key) or self._passed.find(key):
            return
        if all(size > 0 for size in extent):
            by_position = {array.position: shape for array, shape in zip(self.function.arrays, shapes, strict=True)}
            numbers = {one.position: values[one.position] for one in self.function.parameters}
            launch = LaunchValues(extent, offset, by_position, numbers, aliases)
            similar = self._magnitudes(extent, offset, shapes, inputs), tuple(aliases.items()), widths_only
            checked = self._checked_by_magnitude.find(similar, 0)
            if checked < (MAX_SIMILAR_LAUNCHES if inputs or any(offset) or self._sizes_decide else 1):
                self._check(launch, widths_only)
                self._checked_by_magnitude.put(similar, checked + 1)
            else:
                self._barriers.check_values(launch)
        self._passed.put(key, True)

    def _magnitudes(
        self, extent: tuple[int, ...], offset: tuple[int, ...], shapes: tuple[tuple[int, ...], ...], inputs: list[Any]
    ) -> tuple[Any, ...]:
        """A key of similar launches."""
        others = (None if shape == extent else tuple(map(_magnitude, shape)) for shape in shapes)
        group = self.function.group if self.has_widths and self.function.group else ()
        single_group = (min(size, lanes + 1) for size, lanes in zip(extent, group, strict=False))
        return (*map(_magnitude, (*extent, *offset, *inputs)), *others, *single_group)

    def _check(self, launch: LaunchValues, widths_only: bool) -> None:
        """Trace the launch and check its accesses."""
        function = self.function
        arrays = set() if widths_only else race_check.shared_arrays(function, self.written, launch)
        arrays -= self._by_lane - set(launch.aliases)
        fields = set() if widths_only else self._fields
        arrays |= set() if widths_only else self._raced_fields
        recorded = arrays | fields
        if self.has_widths:
            recorded |= {one.name for one in function.arrays} | {one.name for one in function.locals}
        if not recorded:
            return
        trace = trace_launch(function, launch, recorded, MAX_WORK if self.has_widths else WORK)
        self._barriers.check(trace)
        if arrays:
            race_check.check(trace, arrays)
        if fields:
            bounds_check.check(trace)


def _magnitude(value: Any) -> int:
    """The number of bits of an integer, with its sign."""
    number = int(value)
    return number.bit_length() if number >= 0 else -number.bit_length()


def control_inputs(body: list[ir.Stmt]) -> tuple[list[ir.Expr], set[str]]:
    """The numbers and extents on which conditions, loop bounds, indexes and barrier widths depend; and the names of the
    variables through which they do.

    Numbers that only contribute to stored values are not included.
    """
    control: list[ir.Expr] = []
    for statement in ir.statements(body):
        value = statement.value if isinstance(statement, ir.Assign | ir.Store | ir.Atomic) else None
        control += [expression for expression in ir.expressions(statement) if expression is not value]
        control += [] if value is None else _decisive_parts(value)
    parts = list(_deciding_parts(control, body))
    inputs = {repr(part): part for part in parts if _is_input(part, _SIZES_AND_NUMBERS)}
    return list(inputs.values()), {part.variable.name for part in parts if isinstance(part, ir.Read)}


def _has_conditional_barrier(body: list[ir.Stmt]) -> bool:
    """Whether a barrier is inside a condition, or a loop whose trip count is not constant."""
    for one in ir.statements(body):
        is_constant = isinstance(one, ir.For) and ir.constant_range(one) is not None
        if any(map(ir.barriers, ir.blocks(one))) and not is_constant:
            return True
    return False


def _accessed_by_lane(function: ir.Function) -> set[str]:
    """The array arguments of which each lane accesses only the element at its own index, so lanes cannot race."""
    statements = list(ir.statements(function.body))
    accesses = [*ir.loads(statements), *(one for one in statements if isinstance(one, ir.Store | ir.Atomic))]
    others = {one.array.name for one in accesses if not _is_lane_index(one.indices, function.grid_rank)}
    return {one.name for one in function.arrays} - others


def _is_lane_index(indices: Sequence[ir.Expr], grid_rank: int) -> bool:
    """Whether the indexes of an element are the lane's index along each axis of the grid, in order."""
    axes = [one.axis if isinstance(one, ir.GlobalIndex) else None for one in indices]
    return axes == [*range(grid_rank)]


def _is_input(part: ir.Expr, kinds: tuple[type[ir.Expr], ...]) -> bool:
    return isinstance(part, kinds) and part.dtype.kind in "iub"


def _deciding_parts(expressions: Iterable[ir.Expr], body: list[ir.Stmt]) -> Iterator[ir.Expr]:
    """The parts of expressions, and of all expressions that decide the variables that they read."""
    pending = list(expressions)
    deciding = _deciding_expressions(body) if pending else {}
    while pending:
        for part in ir.walk(pending.pop()):
            yield part
            if isinstance(part, ir.Read):
                pending += deciding.pop(part.variable.name, [])


def _deciding_expressions(body: list[ir.Stmt]) -> dict[str, list[ir.Expr]]:
    """For each variable, the expressions that decide its value: assigned values, and the conditions around them."""
    given: dict[str, list[ir.Expr]] = defaultdict(list)
    for statement in ir.statements(body):
        inner: list[ir.Stmt] = []
        conditions: list[ir.Expr] = []
        if isinstance(statement, ir.Assign):
            given[statement.variable.name].append(statement.value)
        elif isinstance(statement, ir.If):
            inner, conditions = [*statement.then, *statement.orelse], [statement.condition]
        elif isinstance(statement, ir.For | ir.While):
            ends = (one for one in ir.statements(statement.body) if isinstance(one, ir.If) and any(ir.jumps([one])))
            inner, conditions = [statement], [one.condition for one in ends]
            if isinstance(statement, ir.For):
                given[statement.variable.name] += (statement.start, statement.stop, statement.step)
            else:
                conditions.append(statement.condition)
        for one in ir.statements(inner):
            if isinstance(one, ir.Assign | ir.For):
                given[one.variable.name] += conditions
    return given


def _decisive_parts(value: ir.Expr) -> list[ir.Expr]:
    """The subexpressions that decide which elements an expression reads."""
    found: list[ir.Expr] = []
    for part in ir.walk(value):
        if isinstance(part, ir.Load):
            found += part.indices
        elif isinstance(part, ir.Select):
            found.append(part.condition)
        elif isinstance(part, ir.Logical):
            found.append(part.left)
    return found
