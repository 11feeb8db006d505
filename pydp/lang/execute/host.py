"""The host lowering: runs vector functions with NumPy, all lanes of many groups at once.

It is the reference for the device lowerings. Each statement runs for all active lanes before the next statement. This
is one of the valid orders, so barriers need no code. Uniform values remain scalars, indexes remain affine as long as
possible, and loads of neighbouring elements become slices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute import host_memory
from pydp.lang.execute.host_evaluate import Chunk, HostEvaluator, Parameters
from pydp.lang.execute.host_values import Mask, is_uniform, mask_and, mask_andnot, mask_or, materialize, normalize
from pydp.lang.intrinsics import ATOMIC

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
            Lanes(function, chunk, list(arrays), parameters).run()


def run_value(function: ir.ValueFunction, *arrays: Any) -> np.ndarray:
    """The function's result for each element of its arguments. The arguments are broadcast."""
    values = np.broadcast_arrays(*(np.asarray(a, v.dtype) for a, v in zip(arrays, function.arguments, strict=True)))
    flat = [value.ravel() for value in values]
    results = np.empty(flat[0].size, function.result.dtype)
    step = max(1, min(LANES_AT_ONCE, FIELD_BYTES // max(1, _field_bytes(function.privates))))
    with np.errstate(all="ignore"):
        for first in range(0, flat[0].size, step):
            piece = [value[first : first + step] for value in flat]
            lanes = Lanes(function, Chunk((piece[0].size,), (), (), (), (), 0), [], ())
            lanes.values = {v.name: value for v, value in zip(function.arguments, piece, strict=True)}
            lanes.run()
            results[first : first + step] = materialize(lanes.evaluate(function.result))
    return results.reshape(values[0].shape)


# --- which lanes run together ----------------------------------------------------------------------------


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


class _RunningLoop:
    """The state of a running loop: a mask of the lanes that executed `continue` in this iteration."""

    def __init__(self) -> None:
        self.continued: Mask = False


class Lanes(HostEvaluator):
    """All lanes of a chunk. Runs a function's statements, each for all active lanes."""

    def __init__(
        self, function: ir.Function | ir.ValueFunction, chunk: Chunk, arrays: list[np.ndarray], parameters: Parameters
    ) -> None:
        super().__init__(function, chunk, arrays, parameters)
        self.loops: list[_RunningLoop] = []
        self.active: Mask = True

    def run(self) -> None:
        """Run the function's body. Afterwards `values` has its variables."""
        function = self.function
        if isinstance(function, ir.Function) and not (function.locals or ir.barriers(function.body)):
            self.active = normalize(self.in_grid)
        if self.active is not False:
            self.block(function.body)

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, body: list[ir.Stmt]) -> None:
        for statement in body:
            if self.active is False:
                return
            getattr(self, _STATEMENTS[type(statement)])(statement)

    def assign(self, statement: ir.Assign) -> None:
        value = self.evaluate(statement.value)
        value = self._copied_if_view(value, statement.value)
        if statement.members:
            self._assign_member(statement, value)
        else:
            self.put(statement.variable, value)

    def _copied_if_view(self, value: Any, expression: ir.Expr) -> Any:
        """The value; a copy if it may be a view of memory that a later statement writes."""
        if not isinstance(value, np.ndarray) or value.flags.owndata:
            return value
        changes = any(isinstance(part, ir.Load) and part.array.name in self.changing for part in ir.walk(expression))
        return value.copy() if changes else value

    def put(self, variable: ir.Variable, value: Any) -> None:
        """Assign ``variable = value`` in the active lanes."""
        old = self.values.get(variable.name)
        if self.active is not True and old is not None and value is not old:
            value = np.where(self.active, materialize(value), materialize(old))
        self.values[variable.name] = value

    def _assign_member(self, statement: ir.Assign, value: Any) -> None:
        name = statement.variable.name
        old = self.values.get(name)
        if old is None:
            old = np.zeros((), statement.variable.dtype)[()]
        value = materialize(value)
        masks = () if self.active is True else (np.shape(self.active),)
        shape = np.broadcast_shapes(np.shape(old), np.shape(value), *masks)
        record = np.array(np.broadcast_to(old, shape))
        target = ir.member_of(record, record.dtype, statement.members)
        np.copyto(target, value, where=self.active)
        self.values[name] = record[()]

    def store(self, statement: ir.Store) -> None:
        name = statement.array.name
        value = self.evaluate(statement.value)
        memory = ir.member_of(self.memory[name], statement.array.dtype, statement.members)
        active = self._writers(statement)
        host_memory.store(memory, self.elements(statement), value, active, self.shape)

    def atomic(self, statement: ir.Atomic) -> None:
        value = self.evaluate(statement.value)
        active = mask_and(self.active, self.in_grid)
        self.update(statement, self.elements(statement), value, active)

    def update(self, statement: ir.Atomic, elements: list[Any], value: Any, active: Mask) -> None:
        """Perform an atomic update for the active lanes, in lane order."""
        operation, memory = ATOMIC[statement.op], self.memory[statement.array.name]
        if statement.old is None:
            host_memory.atomic(operation, memory, elements, value, active, self.shape)
            return
        done, before = host_memory.fetch_update(operation, memory, elements, value, active, self.shape)
        slot = [*self.leading_indices[statement.old.name], np.int64(0)]
        host_memory.store(self.memory[statement.old.name], slot, before, done, self.shape)

    def _writers(self, statement: ir.Store) -> Mask:
        is_global = isinstance(statement.array, ir.GlobalArray)
        return mask_and(self.active, self.in_grid) if is_global else self.active

    def branch(self, statement: ir.If) -> None:
        condition = self._copied_if_view(materialize(self.evaluate(statement.condition)), statement.condition)
        if is_uniform(condition):
            self.block(statement.then if condition else statement.orelse)
            return
        outer = self.active
        yes = normalize(mask_and(outer, condition))
        no = normalize(mask_andnot(outer, condition))
        if yes is True or no is False:
            self.block(statement.then)
            return
        self.active = yes
        self.block(statement.then)
        left, self.active = self.active, no
        self.block(statement.orelse)
        if left is yes and self.active is no:
            self.active = outer
        else:
            self.active = normalize(mask_or(left, self.active))

    def loop_for(self, statement: ir.For) -> None:
        start, stop, step = (self.evaluate(e) for e in (statement.start, statement.stop, statement.step))
        if all(is_uniform(bound) for bound in (start, stop, step)):
            dtype = statement.variable.dtype
            steps = range(int(start), int(stop), int(step)) if step != 0 else range(0)
            self._iterate(statement, ((self.active, dtype.type(k)) for k in steps))
            return
        start, stop, step = (np.asarray(materialize(bound)).astype(np.int64) for bound in (start, stop, step))
        ahead = np.where(step > 0, stop - start, np.where(step < 0, start - stop, 0))
        trips = -(-ahead // np.maximum(1, np.abs(step)))
        self._iterate(statement, self._divergent_iterations(statement, start, step, trips))

    def _divergent_iterations(self, statement: ir.For, start: Any, step: Any, trips: Any) -> Iterator[tuple[Mask, Any]]:
        for trip in itertools.count():
            going = normalize(mask_and(self.active, trips > trip))
            if going is False:
                return
            yield going, (start + trip * step).astype(statement.variable.dtype)

    def _iterate(self, statement: ir.For, counters: Iterator[tuple[Mask, Any]]) -> None:
        outer, broken = self.active, False
        for going, counter in counters:
            if going is False:
                break
            loop = _RunningLoop()
            self.loops.append(loop)
            self.active = going
            self.put(statement.variable, counter)
            self.block(statement.body)
            self.loops.pop()
            left = mask_or(self.active, loop.continued)
            broken = broken or left is not going
            self.active = normalize(left) if broken else left
        self.active = outer

    def loop_while(self, statement: ir.While) -> None:
        outer = self.active
        while self.active is not False:
            condition = self._copied_if_view(materialize(self.evaluate(statement.condition)), statement.condition)
            self.active = mask_and(self.active, bool(condition) if is_uniform(condition) else condition)
            self.active = normalize(self.active)
            if self.active is False:
                break
            loop = _RunningLoop()
            self.loops.append(loop)
            self.block(statement.body)
            self.loops.pop()
            self.active = normalize(mask_or(self.active, loop.continued))
        self.active = outer

    def break_loop(self, statement: ir.Break) -> None:
        self.active = False

    def continue_loop(self, statement: ir.Continue) -> None:
        self.loops[-1].continued = mask_or(self.loops[-1].continued, self.active)
        self.active = False

    def barrier(self, statement: ir.Barrier) -> None:
        """Does nothing: all lanes complete each statement before the next one."""


_STATEMENTS = {
    ir.Assign: "assign",
    ir.Store: "store",
    ir.Atomic: "atomic",
    ir.If: "branch",
    ir.For: "loop_for",
    ir.While: "loop_while",
    ir.Break: "break_loop",
    ir.Continue: "continue_loop",
    ir.Barrier: "barrier",
}
