"""Evaluates expressions of the intermediate form with NumPy, for all lanes of a box of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute import host_memory
from pydp.lang.execute.host_values import Affine, Mask, affine, combine_affine, is_uniform, mask_and, materialize
from pydp.lang.intrinsics import BINARY, COMPARISONS, FUNCTIONS, UNARY
from pydp.lang.numpy_math import cast

Parameters = Mapping[int, Any] | Sequence[Any]


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


class HostEvaluator:
    """The state of a chunk's lanes (variables, fields, arrays), and the evaluation of expressions in all lanes."""

    def __init__(
        self, function: ir.Function | ir.ValueFunction, chunk: Chunk, arrays: list[np.ndarray], parameters: Parameters
    ) -> None:
        self.function, self.chunk, self.shape = function, chunk, chunk.shape
        self.parameters = parameters
        self.values: dict[str, Any] = {}
        self.constants: dict[int, Any] = {}
        self.memory: dict[str, np.ndarray] = {}
        self.leading_indices: dict[str, list[Any]] = {}
        self.fill_values: dict[str, Any] = {}
        self.changing: set[str] = set()
        if isinstance(function, ir.Function):
            self._bind_arrays(function, arrays)
        for private in function.privates:
            self._allocate_field(private, len(self.shape))
        self.in_grid: Mask = self._inside_grid()

    def _bind_arrays(self, function: ir.Function, arrays: list[np.ndarray]) -> None:
        for array, data in zip(function.arrays, arrays, strict=True):
            self.memory[array.name], self.leading_indices[array.name] = data, []
            fill = np.zeros((), array.dtype)
            if array.dtype.names is None or isinstance(array.fill, np.void | tuple):
                fill[()] = array.fill
            self.fill_values[array.name] = fill[()]
        for local in function.locals:
            self._allocate_field(local, self.chunk.groups)
        written = [s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)]
        for name, data in self.memory.items():
            if any(np.may_share_memory(data, self.memory[other]) for other in written if other in self.memory):
                self.changing.add(name)

    def _allocate_field(self, array: ir.LocalArray | ir.PrivateArray, axes: int) -> None:
        self.memory[array.name] = np.zeros(self.shape[:axes] + array.shape, array.dtype)
        self.leading_indices[array.name] = [self._position(axis) for axis in range(axes)]
        self.fill_values[array.name] = np.zeros((), array.dtype)[()]
        self.changing.add(array.name)

    def _position(self, axis: int, base: int = 0, factor: int = 1, dtype: Any = np.int64) -> Any:
        steps = tuple(factor if k == axis else 0 for k in range(len(self.shape)))
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

    def elements(self, access: ir.Load | ir.Store | ir.Atomic) -> list[Any]:
        """The index values of an access. For fields, the indexes of the group or lane come first."""
        return [*self.leading_indices[access.array.name], *(self.evaluate(index) for index in access.indices)]

    def evaluate(self, expression: ir.Expr) -> Any:
        return getattr(self, _EXPRESSIONS[type(expression)])(expression)

    def const(self, expression: ir.Const) -> Any:
        value = self.constants.get(expression.uid)
        if value is None:
            value = self.constants[expression.uid] = np.asarray(expression.value).astype(expression.dtype)[()]
        return value

    def read(self, expression: ir.Read) -> Any:
        variable = expression.variable
        value = self.values.get(variable.name)
        if value is None:  # no lane has executed an assignment, so the value is never used
            value = self.values[variable.name] = np.zeros((), variable.dtype)[()]
        return value

    def parameter(self, expression: ir.Parameter) -> Any:
        value = self.parameters[expression.position]
        if expression.item is not None:
            value = value[expression.item]
        return np.asarray(value).astype(expression.dtype)[()]

    def group_index(self, expression: ir.GroupIndex) -> Any:
        return self._position(expression.axis, self.chunk.first[expression.axis], 1, expression.dtype)

    def local_index(self, expression: ir.LocalIndex) -> Any:
        return self._position(self.chunk.groups + expression.axis, 0, 1, expression.dtype)

    def global_index(self, expression: ir.GlobalIndex) -> Any:
        return self._grid_index(expression.axis, self.chunk.offset[expression.axis], expression.dtype)

    def grid_extent(self, expression: ir.GridExtent) -> Any:
        return expression.dtype.type(self.chunk.extent[expression.axis])

    def array_extent(self, expression: ir.ArrayExtent) -> Any:
        return expression.dtype.type(self.memory[expression.array.name].shape[expression.axis])

    def unary(self, expression: ir.Unary) -> Any:
        value = self.evaluate(expression.value)
        if expression.op == "neg" and isinstance(value, Affine):
            return combine_affine("mul", value, -1, expression.dtype)
        return UNARY[expression.op].numpy(materialize(value))

    def binary(self, expression: ir.Binary) -> Any:
        left, right = self.evaluate(expression.left), self.evaluate(expression.right)
        if isinstance(left, Affine) or isinstance(right, Affine):
            partner = right if isinstance(left, Affine) else left
            if expression.op in ("add", "sub", "mul") and (isinstance(partner, Affine) or is_uniform(partner)):
                value = combine_affine(expression.op, left, right, expression.dtype)
                if value is not None:
                    return value
            left, right = materialize(left), materialize(right)
        return BINARY[expression.op].numpy(left, right)

    def compare(self, expression: ir.Compare) -> Any:
        left, right = self.evaluate(expression.left), self.evaluate(expression.right)
        if isinstance(left, Affine) or isinstance(right, Affine):
            decided = _decided_by_ranges(expression.op, left, right)
            if decided is not None:
                return decided
        left, right = materialize(left), materialize(right)
        if left.dtype.names is not None:
            return (left == right) if expression.op == "eq" else (left != right)
        return COMPARISONS[expression.op].numpy(left, right)

    def logical(self, expression: ir.Logical) -> Any:
        left = self.evaluate(expression.left)
        if is_uniform(left):
            decides = bool(left) == (expression.op == "or")
            return np.bool_(left) if decides else self.evaluate(expression.right)
        right = self.evaluate(expression.right)
        return np.logical_and(left, right) if expression.op == "and" else np.logical_or(left, right)

    def select(self, expression: ir.Select) -> Any:
        condition = materialize(self.evaluate(expression.condition))
        if is_uniform(condition):
            return self.evaluate(expression.yes if condition else expression.no)
        yes, no = materialize(self.evaluate(expression.yes)), materialize(self.evaluate(expression.no))
        return np.where(condition, yes, no)

    def cast(self, expression: ir.Cast) -> Any:
        value, dtype = self.evaluate(expression.value), expression.dtype
        if isinstance(value, Affine):
            if dtype.kind in "iu":
                return affine(value.base, value.steps, value.shape, dtype)
            value = value.array()
        return value if value.dtype == dtype else cast(value, dtype)

    def math(self, expression: ir.Math) -> Any:
        value = FUNCTIONS[expression.name].numpy(*(materialize(self.evaluate(v)) for v in expression.values))
        return value if value.dtype == expression.dtype else value.astype(expression.dtype)

    def member(self, expression: ir.Member) -> Any:
        record = self.evaluate(expression.record)
        value = ir.member_of(record, expression.record.dtype, (expression.name,))
        return value if np.ndim(value) else value[()]

    def make_record(self, expression: ir.MakeRecord) -> Any:
        values = [materialize(self.evaluate(value)) for value in expression.values]
        record = np.zeros(np.broadcast_shapes(*(np.shape(value) for value in values)), expression.dtype)
        for name, value in zip(expression.dtype.names or (), values, strict=True):
            record[name] = value
        return record[()]

    def load(self, expression: ir.Load) -> Any:
        name = expression.array.name
        return host_memory.load(self.memory[name], self.elements(expression), self.fill_values[name], self.shape)


def _decided_by_ranges(op: str, left: Any, right: Any) -> np.bool_ | None:
    """The result of a comparison if the ranges of its operands decide it for all lanes; else None."""
    if not all(isinstance(side, Affine) or (is_uniform(side) and side.dtype.kind in "iu") for side in (left, right)):
        return None
    (a, b), (c, d) = ((s.low, s.high) if isinstance(s, Affine) else (int(s), int(s)) for s in (left, right))
    if b < c:
        return np.bool_(op in ("lt", "le", "ne"))
    if a > d:
        return np.bool_(op in ("gt", "ge", "ne"))
    if b == c and op in ("le", "gt"):
        return np.bool_(op == "le")
    if a == d and op in ("ge", "lt"):
        return np.bool_(op == "ge")
    return None


_EXPRESSIONS = {
    ir.Const: "const",
    ir.Read: "read",
    ir.Parameter: "parameter",
    ir.GroupIndex: "group_index",
    ir.LocalIndex: "local_index",
    ir.GlobalIndex: "global_index",
    ir.GridExtent: "grid_extent",
    ir.ArrayExtent: "array_extent",
    ir.Unary: "unary",
    ir.Binary: "binary",
    ir.Compare: "compare",
    ir.Logical: "logical",
    ir.Select: "select",
    ir.Cast: "cast",
    ir.Math: "math",
    ir.Member: "member",
    ir.MakeRecord: "make_record",
    ir.Load: "load",
}
