"""Expressions of the typed form for the strips of a block: scalars for uniform values, vectors for others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np

from pydp.dtypes import vector_parts
from pydp.lang import ir
from pydp.lang.ir import Item, member_dtype
from pydp.lang.opencl.c_text import constant, from_memory, identifier
from pydp.lang.opencl.scalar import member_text
from pydp.lang.opencl.vector.values import StripValue, Values
from pydp.lang.opencl.vector.variance import has_step, keeps_step
from pydp.lang.opencl.vector_text import BOOL

Path = tuple[str, ...]


class StripExpressions(Values, ABC):
    """Writes pure expressions. A record is never a C struct here: each member is a value of its own, found by `path`.

    inactive_depth: the number of enclosing operands that some lanes do not evaluate (of logical operators and
    conditional expressions). The values of these lanes may be meaningless, so addresses are clamped.
    """

    inactive_depth = 0

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
        return self.variable(expr.variable, path)

    def variable(self, variable: ir.Variable, path: Path = ()) -> StripValue:
        """The C names of a variable (or of its member at `path`): one for each row if rows differ."""
        variance = self.kernel.variances.variables[variable.name]
        name = identifier("v_", "_m_".join((variable.name, *path)))
        rows = self.layout.rows if variance.varies_by_row else 1
        dtype = member_dtype(variable.dtype, path)
        step = variance.step if variance.step in (0, None) or has_step(dtype) else None
        return StripValue(tuple(f"{name}_r{row}" for row in range(rows)) if rows > 1 else (name,), step, dtype)

    def on_parameter(self, expr: ir.Parameter, path: Path) -> StripValue:
        name = self.kernel.names[expr.name, -1 if expr.item is None else expr.item]
        dtype = member_dtype(expr.dtype, path)
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
        if variance.varies_by_row:
            texts = tuple(f"({before}local_{axis} + {row})" for row in range(self.layout.rows))
        else:
            texts = (f"({before}local_{axis})",)
        return StripValue(texts, variance.step, dtype)

    def on_grid_extent(self, expr: ir.GridExtent, path: Path) -> StripValue:
        return self.single(f"grid_e{expr.axis}", expr.dtype)

    def on_array_extent(self, expr: ir.ArrayExtent, path: Path) -> StripValue:
        return self.single(f"{self.kernel.names[expr.array.name, -1]}_e{expr.axis}", expr.dtype)

    def on_unary(self, expr: ir.Unary, path: Path) -> StripValue:
        value, dtype = self.expr(expr.value), expr.dtype
        if not value.vector and (value.step == 0 or (expr.op == "neg" and has_step(dtype))):
            step = -value.step if value.step else 0
            return self.each([value], lambda text: self.scalar.unary(expr.op, text, dtype), dtype, step)
        op = "not" if dtype == BOOL else expr.op
        return self.each([self.vector(value)], lambda text: self.text.unary(op, text, dtype), dtype, None)

    def unwrapped(self, expr: ir.Binary) -> bool:
        """Whether a remainder is known to equal its left operand."""
        return False

    def on_binary(self, expr: ir.Binary, path: Path) -> StripValue:
        if expr.op == "mod" and self.unwrapped(expr):
            return self.expr(expr.left)
        left, right, dtype = self.expr(expr.left), self.expr(expr.right), expr.dtype
        step = self.kernel.variances.binary_step(expr, left.step, right.step)
        by = int(expr.right.value) if isinstance(expr.right, ir.Const) and dtype.kind in "iu" else None
        if step is not None:
            return self.each([left, right], lambda a, b: self.scalar.binary(expr.op, a, b, dtype, by), dtype, step)
        pair = [self.vector(left), self.vector(right)]
        return self.each(pair, lambda a, b: self.text.binary(expr.op, a, b, dtype, by), dtype, None)

    def on_compare(self, expr: ir.Compare, path: Path) -> StripValue:
        dtype = expr.left.dtype
        if dtype.names is not None:
            return self._compare_records(expr)
        left, right = self.expr(expr.left), self.expr(expr.right)
        if self.uniform([left, right]):
            sign = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}[expr.op]
            if dtype == np.int64 and expr.op not in ("eq", "ne"):
                order = partial(self.scalar.helper, "order", "long")
                left, right = self.each([left], order, dtype, 0), self.each([right], order, dtype, 0)
            return self.each([left, right], lambda a, b: f"({a} {sign} {b})", BOOL, 0)
        pair = [self.vector(left), self.vector(right)]
        return self.each(pair, lambda a, b: self.text.compare(expr.op, a, b, dtype), BOOL, None)

    def _compare_records(self, expr: ir.Compare) -> StripValue:
        """Records are equal if all their members are."""
        same: StripValue | None = None
        for path in scalar_paths(expr.left.dtype):
            dtype = member_dtype(expr.left.dtype, path)
            pair = [self.expr(expr.left, path), self.expr(expr.right, path)]
            if self.uniform(pair):
                equal = self.each(pair, lambda a, b: f"({a} == {b})", BOOL, 0)
            else:
                pair = [self.vector(value) for value in pair]
                equal = self.each(pair, lambda a, b, d=dtype: self.text.compare("eq", a, b, d), BOOL, None)
            same = self.mask_and(same, equal)
        assert same is not None
        if expr.op == "eq":
            return same
        return self.each([same], lambda text: f"(~{text})" if same.vector else f"(!{text})", BOOL, same.step)

    def on_logical(self, expr: ir.Logical, path: Path) -> StripValue:
        left = self.temporary(self.expr(expr.left))
        self.inactive_depth += 1
        right = self.expr(expr.right)
        self.inactive_depth -= 1
        if self.uniform([left, right]):
            sign = "&&" if expr.op == "and" else "||"
            return self.each([left, right], lambda a, b: f"({a} {sign} {b})", BOOL, 0)
        sign = "&" if expr.op == "and" else "|"
        pair = [self.vector(left), self.vector(right)]
        return self.each(pair, lambda a, b: f"({a} {sign} {b})", BOOL, None)

    def on_select(self, expr: ir.Select, path: Path) -> StripValue:
        condition = self.temporary(self.expr(expr.condition))
        self.inactive_depth += 1
        yes, no = self.expr(expr.yes, path), self.expr(expr.no, path)
        self.inactive_depth -= 1
        dtype = yes.dtype
        if not condition.vector and yes.step is not None and yes.step == no.step:
            return self.each([condition, yes, no], lambda c, a, b: f"({c} ? {a} : {b})", dtype, yes.step)
        pair = [self.vector(yes), self.vector(no)]
        if not condition.vector:
            # OpenCL's ?: does not select whole vectors by a scalar condition.
            condition = self.vector(condition)
        return self.each([condition, *pair], lambda c, a, b: self.text.blend(c, a, b, dtype), dtype, None)

    def on_cast(self, expr: ir.Cast, path: Path) -> StripValue:
        if expr.dtype.names is not None or expr.value.dtype == expr.dtype:
            return self.expr(expr.value, path)
        value = self.expr(expr.value)
        source = expr.value.dtype
        if value.step == 0 or (value.step is not None and keeps_step(expr)):
            write = partial(self.scalar.cast, source=source, target=expr.dtype)
            return self.each([value], write, expr.dtype, value.step)
        return self.each([self.vector(value)], lambda text: self.text.cast(text, source, expr.dtype), expr.dtype, None)

    def on_math(self, expr: ir.Math, path: Path) -> StripValue:
        values = [self.expr(value) for value in expr.values]
        dtype = expr.values[0].dtype
        if self.uniform(values):
            return self.each(values, lambda *texts: self.scalar.function_of(expr.name, texts, dtype), expr.dtype, 0)
        values = [self.vector(value) for value in values]
        return self.each(values, lambda *texts: self.text.function(expr.name, list(texts), dtype), expr.dtype, None)

    def on_member(self, expr: ir.Member, path: Path) -> StripValue:
        return self.expr(expr.record, (expr.name, *path))

    def on_make_record(self, expr: ir.MakeRecord, path: Path) -> StripValue:
        assert expr.dtype.names is not None
        return self.expr(expr.values[expr.dtype.names.index(path[0])], path[1:])


def scalar_paths(dtype: np.dtype[Any]) -> list[Path]:
    """The paths to all scalars inside a record; ``[()]`` for a scalar."""
    if dtype.subdtype is not None:
        inner = scalar_paths(np.dtype((dtype.base, dtype.shape[1:])))
        return [(Item(number), *rest) for number in range(dtype.shape[0]) for rest in inner]
    if dtype.names is None or dtype.fields is None:
        return [()]
    parts = vector_parts(dtype)
    names = dtype.names if parts is None else dtype.names[: parts[1]]  # a vector of 3 has a fourth component
    return [(name, *rest) for name in names for rest in scalar_paths(dtype.fields[name][0])]
