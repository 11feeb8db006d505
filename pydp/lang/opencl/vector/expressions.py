"""Expressions of the typed form for the strips of a block: scalars for uniform values, vectors for others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import Block, constant, from_memory
from pydp.lang.opencl.scalar import member_text, scalar_paths
from pydp.lang.opencl.vector.ranges import Ranges
from pydp.lang.opencl.vector.values import KernelContext, Path, StripValue, Values
from pydp.lang.opencl.vector.variance import has_step, keeps_step
from pydp.lang.opencl.vector_text import BOOL


class StripExpressions(Values, ABC):
    """Writes pure expressions. A record is never a C struct here: each member is a value of its own, found by `path`.

    ranges: bounds of indexes, in the version of an interval that needs no guards; None in other code.
    inactive_depth: the number of enclosing operands that some lanes do not evaluate (of logical operators and
    conditional expressions). The values of these lanes may be meaningless, so addresses are clamped.
    """

    def __init__(self, kernel: KernelContext, block: Block) -> None:
        super().__init__(kernel, block)
        self.ranges: Ranges | None = None
        self.inactive_depth = 0

    def expr(self, expr: ir.Expr, path: Path = ()) -> StripValue:
        """The value of `expr`, or of its member at `path`."""
        value: StripValue = self.visit(expr, path)
        return value

    @abstractmethod
    def on_load(self, expr: ir.Load, path: Path) -> StripValue:
        """The value of an element, or of its member at `path`."""

    def on_const(self, expr: ir.Const, path: Path) -> StripValue:
        dtype = member_dtype(expr.dtype, path)
        value = ir.member_of(np.array(expr.value, expr.dtype), expr.dtype, path)[()] if path else expr.value
        return self.single(constant(value, dtype), dtype)

    def on_read(self, expr: ir.Read, path: Path) -> StripValue:
        return self.kernel.variable(expr.variable, path)

    def on_parameter(self, expr: ir.Parameter, path: Path) -> StripValue:
        name, dtype = self.kernel.names[expr.name, expr.item], member_dtype(expr.dtype, path)
        return self.single(from_memory(name + member_text(path), dtype), dtype)

    def on_group_index(self, expr: ir.GroupIndex, path: Path) -> StripValue:
        return self.single(f"group_{expr.axis}", expr.dtype)

    def on_local_index(self, expr: ir.LocalIndex, path: Path) -> StripValue:
        return self._index(expr.axis, "", expr.dtype)

    def on_global_index(self, expr: ir.GlobalIndex, path: Path) -> StripValue:
        return self._index(expr.axis, f"base_{expr.axis} + ", expr.dtype)

    def _index(self, axis: int, before: str, dtype: np.dtype[Any]) -> StripValue:
        """A lane's index along an axis, from the counter of the loop over blocks."""
        variance = self.kernel.variances.index(axis)
        rows = [f" + {row}" for row in range(self.layout.rows)] if variance.varies_by_row else [""]
        return StripValue(tuple(f"({before}local_{axis}{row})" for row in rows), variance.step, dtype)

    def on_grid_extent(self, expr: ir.GridExtent, path: Path) -> StripValue:
        return self.single(f"grid_e{expr.axis}", expr.dtype)

    def on_array_extent(self, expr: ir.ArrayExtent, path: Path) -> StripValue:
        return self.single(f"{self.kernel.names[expr.array.name, None]}_e{expr.axis}", expr.dtype)

    def on_unary(self, expr: ir.Unary, path: Path) -> StripValue:
        value, dtype = self.expr(expr.value), expr.dtype
        known = value.step == 0 or (expr.op == "neg" and has_step(dtype))
        step = -value.step if known and value.step is not None else None
        return self.operation([value], lambda writer, text: writer.unary(expr.op, text, dtype), dtype, step)

    def on_binary(self, expr: ir.Binary, path: Path) -> StripValue:
        if expr.op == "mod" and self.ranges is not None and self.ranges.keeps_left(expr):
            return self.expr(expr.left)
        left, right, dtype = self.expr(expr.left), self.expr(expr.right), expr.dtype
        step = self.kernel.variances.binary_step(expr, left.step, right.step)
        by = int(expr.right.value) if isinstance(expr.right, ir.Const) and dtype.kind in "iu" else None
        return self.operation([left, right], lambda writer, a, b: writer.binary(expr.op, a, b, dtype, by), dtype, step)

    def on_compare(self, expr: ir.Compare, path: Path) -> StripValue:
        dtype = expr.left.dtype
        if dtype.names is None:
            return self._compared(expr.op, self.expr(expr.left), self.expr(expr.right), dtype)
        same: StripValue | None = None  # records are equal if all their members are
        for member in scalar_paths(dtype):
            pair = self.expr(expr.left, member), self.expr(expr.right, member)
            same = self.mask_and(same, self._compared("eq", *pair, member_dtype(dtype, member)))
        assert same is not None
        if expr.op == "eq":
            return same
        return self.operation([same], lambda writer, text: writer.unary("not", text, BOOL), BOOL, same.step)

    def _compared(self, op: str, left: StripValue, right: StripValue, dtype: np.dtype[Any]) -> StripValue:
        step = 0 if self.uniform([left, right]) else None
        if step == 0 and dtype == np.int64 and op not in ("eq", "ne"):
            order = partial(self.scalar.helper, "order", "long")
            left, right = self.each([left], order, dtype, 0), self.each([right], order, dtype, 0)
        return self.operation([left, right], lambda writer, a, b: writer.compare(op, a, b, dtype), BOOL, step)

    def on_logical(self, expr: ir.Logical, path: Path) -> StripValue:
        left = self.temporary(self.expr(expr.left))
        self.inactive_depth += 1
        right = self.expr(expr.right)
        self.inactive_depth -= 1
        step = 0 if self.uniform([left, right]) else None
        return self.operation([left, right], lambda writer, a, b: writer.logical(expr.op, a, b), BOOL, step)

    def on_select(self, expr: ir.Select, path: Path) -> StripValue:
        condition = self.temporary(self.expr(expr.condition))
        self.inactive_depth += 1
        yes, no = self.expr(expr.yes, path), self.expr(expr.no, path)
        self.inactive_depth -= 1
        step, dtype = None if condition.vector or yes.step != no.step else yes.step, yes.dtype
        values = [condition, yes, no]
        return self.operation(values, lambda writer, c, a, b: writer.select(c, a, b, dtype), dtype, step)

    def on_cast(self, expr: ir.Cast, path: Path) -> StripValue:
        if expr.dtype.names is not None or expr.value.dtype == expr.dtype:
            return self.expr(expr.value, path)
        value, source, target = self.expr(expr.value), expr.value.dtype, expr.dtype
        step = value.step if value.step == 0 or keeps_step(expr) else None
        return self.operation([value], lambda writer, text: writer.cast(text, source, target), target, step)

    def on_math(self, expr: ir.Math, path: Path) -> StripValue:
        values, dtype = [self.expr(value) for value in expr.values], expr.values[0].dtype
        step = 0 if self.uniform(values) else None
        return self.operation(
            values, lambda writer, *texts: writer.function_of(expr.name, texts, dtype), expr.dtype, step
        )

    def on_member(self, expr: ir.Member, path: Path) -> StripValue:
        return self.expr(expr.record, (expr.name, *path))

    def on_make_record(self, expr: ir.MakeRecord, path: Path) -> StripValue:
        assert expr.dtype.names is not None
        return self.expr(expr.values[expr.dtype.names.index(path[0])], path[1:])
