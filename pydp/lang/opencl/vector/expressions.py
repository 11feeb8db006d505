"""Expressions of the typed form for the strips of a block: scalars where lanes agree, vectors where they differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pydp.dtypes import vector_parts
from pydp.lang import ir
from pydp.lang.ir import Item, member_dtype
from pydp.lang.opencl.c_text import constant, from_memory, identifier
from pydp.lang.opencl.scalar import member_text, member_value
from pydp.lang.opencl.vector.values import Text, Value, Values
from pydp.lang.opencl.vector.variance import keeps_step, steps
from pydp.lang.opencl.vector_text import BOOL

Path = tuple[str, ...]


class Expressions(Values, ABC):
    """Writes pure expressions. A record is never a C struct here: each member is a value of its own, found by `path`.

    `idle` counts reasons why some lanes' values may be meaningless (they are masked, or a condition's other
    operand decides): addresses are kept inside private memory then.
    """

    idle = 0

    def expr(self, expr: ir.Expr, path: Path = ()) -> Value:
        """The value of `expr`, or of its member at `path`."""
        return _WRITERS[type(expr)](self, expr, path)

    @abstractmethod
    def load(self, expr: ir.Load, path: Path) -> Value:
        """The value of an element, or of its member at `path`."""

    def _const(self, expr: ir.Const, path: Path) -> Value:
        dtype = member_dtype(expr.dtype, path)
        value = expr.value if not path else member_value(np.array(expr.value, expr.dtype), path)[()]
        return self.single(constant(value, dtype), dtype)

    def _read(self, expr: ir.Read, path: Path) -> Value:
        return self.variable(expr.variable, path)

    def variable(self, variable: ir.Variable, path: Path = ()) -> Value:
        """The names that hold a variable (its member at `path`), by row where rows differ."""
        facet = self.kernel.variances.variables[variable.name]
        name = identifier("v_", "_m_".join((variable.name, *path)))
        rows = self.layout.rows if facet.row else 1
        dtype = member_dtype(variable.dtype, path)
        step = facet.step if facet.step in (0, None) or steps(dtype) else None
        return Value(tuple(f"{name}_r{row}" for row in range(rows)) if rows > 1 else (name,), step, dtype)

    def _parameter(self, expr: ir.Parameter, path: Path) -> Value:
        name = self.kernel.names[expr.name, -1 if expr.item is None else expr.item]
        dtype = member_dtype(expr.dtype, path)
        return self.single(from_memory(name + member_text(path), dtype), dtype)

    def _group_index(self, expr: ir.GroupIndex, path: Path) -> Value:
        return self.single(f"group_{expr.axis}", expr.dtype)

    def _local_index(self, expr: ir.LocalIndex, path: Path) -> Value:
        return self._index(expr.axis, "", expr.dtype)

    def _global_index(self, expr: ir.GlobalIndex, path: Path) -> Value:
        return self._index(expr.axis, f"base_{expr.axis} + ", expr.dtype)

    def _index(self, axis: int, before: str, dtype: np.dtype[Any]) -> Value:
        """A lane's index along an axis: of the strip's first lane, the row's, or the loop's around the block."""
        facet = self.kernel.variances.index(axis)
        if facet.row:
            texts = tuple(f"({before}local_{axis} + {row})" for row in range(self.layout.rows))
        else:
            texts = (f"({before}local_{axis})",)
        return Value(texts, facet.step, dtype)

    def _grid_extent(self, expr: ir.GridExtent, path: Path) -> Value:
        return self.single(f"grid_e{expr.axis}", expr.dtype)

    def _array_extent(self, expr: ir.ArrayExtent, path: Path) -> Value:
        return self.single(f"{self.kernel.names[expr.array.name, -1]}_e{expr.axis}", expr.dtype)

    def _unary(self, expr: ir.Unary, path: Path) -> Value:
        value, dtype = self.expr(expr.value), expr.dtype
        if not value.vector and (value.step == 0 or (expr.op == "neg" and steps(dtype))):
            step = -value.step if value.step else 0
            return self.each([value], lambda text: self._scalar_unary(expr, text), dtype, step)
        op = "not" if dtype == BOOL else expr.op
        return self.each([self.vector(value)], lambda text: self.text.unary(op, text, dtype), dtype, None)

    def _scalar_unary(self, expr: ir.Unary, text: str) -> str:
        return self.scalar.expr(ir.Unary(expr.dtype, expr.op, Text(expr.dtype, text)))

    def unwrapped(self, expr: ir.Binary) -> bool:
        """A remainder that is known to be its left operand."""
        return False

    def _binary(self, expr: ir.Binary, path: Path) -> Value:
        if expr.op == "mod" and self.unwrapped(expr):
            return self.expr(expr.left)
        left, right = self.expr(expr.left), self.expr(expr.right)
        step = self.kernel.variances.binary_step(expr, left.step, right.step)
        by = int(expr.right.value) if isinstance(expr.right, ir.Const) and expr.dtype.kind in "iu" else None
        if step is not None:
            return self.each(
                [left, right], lambda a, b: self._scalar_binary(expr, a, b, by is not None), expr.dtype, step
            )
        pair = [self.vector(left), self.vector(right)]
        return self.each(pair, lambda a, b: self.text.binary(expr.op, a, b, expr.dtype, by), expr.dtype, None)

    def _scalar_binary(self, expr: ir.Binary, left: str, right: str, constant_right: bool) -> str:
        second = Text(expr.dtype, right) if not constant_right else expr.right
        return self.scalar.expr(ir.Binary(expr.dtype, expr.op, Text(expr.dtype, left), second))

    def _compare(self, expr: ir.Compare, path: Path) -> Value:
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

    def _compare_records(self, expr: ir.Compare) -> Value:
        """Records are equal where all their members are."""
        same: Value | None = None
        for path in leaves(expr.left.dtype):
            dtype = member_dtype(expr.left.dtype, path)
            pair = [self.expr(expr.left, path), self.expr(expr.right, path)]
            if self.uniform(pair):
                equal = self.each(pair, lambda a, b: f"({a} == {b})", BOOL, 0)
            else:
                pair = [self.vector(value) for value in pair]
                equal = self.each(pair, lambda a, b, d=dtype: self.text.compare("eq", a, b, d), BOOL, None)
            same = self.both(same, equal)
        assert same is not None
        if expr.op == "eq":
            return same
        return self.each([same], lambda text: f"(~{text})" if same.vector else f"(!{text})", BOOL, same.step)

    def _logical(self, expr: ir.Logical, path: Path) -> Value:
        left = self.temporary(self.expr(expr.left))
        self.idle += 1
        right = self.expr(expr.right)
        self.idle -= 1
        if self.uniform([left, right]):
            sign = "&&" if expr.op == "and" else "||"
            return self.each([left, right], lambda a, b: f"({a} {sign} {b})", BOOL, 0)
        sign = "&" if expr.op == "and" else "|"
        pair = [self.vector(left), self.vector(right)]
        return self.each(pair, lambda a, b: f"({a} {sign} {b})", BOOL, None)

    def _select(self, expr: ir.Select, path: Path) -> Value:
        condition = self.temporary(self.expr(expr.condition))
        self.idle += 1
        yes, no = self.expr(expr.yes, path), self.expr(expr.no, path)
        self.idle -= 1
        dtype = yes.dtype
        if not condition.vector and yes.step is not None and yes.step == no.step:
            return self.each([condition, yes, no], lambda c, a, b: f"({c} ? {a} : {b})", dtype, yes.step)
        pair = [self.vector(yes), self.vector(no)]
        if not condition.vector:
            # A scalar condition picks whole vectors, which OpenCL's ?: does not do.
            condition = self.vector(condition)
        return self.each([condition, *pair], lambda c, a, b: self.text.blend(c, a, b, dtype), dtype, None)

    def _cast(self, expr: ir.Cast, path: Path) -> Value:
        if expr.dtype.names is not None or expr.value.dtype == expr.dtype:
            return self.expr(expr.value, path)
        value = self.expr(expr.value)
        if value.step == 0 or (value.step is not None and keeps_step(expr)):
            return self.each([value], lambda text: self._scalar_cast(expr, text), expr.dtype, value.step)
        source = expr.value.dtype
        return self.each([self.vector(value)], lambda text: self.text.cast(text, source, expr.dtype), expr.dtype, None)

    def _scalar_cast(self, expr: ir.Cast, text: str) -> str:
        return self.scalar.expr(ir.Cast(expr.dtype, Text(expr.value.dtype, text)))

    def _math(self, expr: ir.Math, path: Path) -> Value:
        values = [self.expr(value) for value in expr.values]
        dtype = expr.values[0].dtype
        if self.uniform(values):
            return self.each(values, lambda *texts: self._scalar_math(expr, texts), expr.dtype, 0)
        values = [self.vector(value) for value in values]
        return self.each(values, lambda *texts: self.text.function(expr.name, list(texts), dtype), expr.dtype, None)

    def _scalar_math(self, expr: ir.Math, texts: Sequence[str]) -> str:
        operands = tuple(Text(value.dtype, text) for value, text in zip(expr.values, texts, strict=True))
        return self.scalar.expr(ir.Math(expr.dtype, expr.name, operands))

    def _member(self, expr: ir.Member, path: Path) -> Value:
        return self.expr(expr.record, (expr.name, *path))

    def _make_record(self, expr: ir.MakeRecord, path: Path) -> Value:
        assert expr.dtype.names is not None
        return self.expr(expr.values[expr.dtype.names.index(path[0])], path[1:])

    def _load(self, expr: ir.Load, path: Path) -> Value:
        return self.load(expr, path)


def leaves(dtype: np.dtype[Any]) -> list[Path]:
    """The paths to all scalars inside a record; ``[()]`` for a scalar."""
    if dtype.subdtype is not None:
        inner = leaves(np.dtype((dtype.base, dtype.shape[1:])))
        return [(Item(number), *rest) for number in range(dtype.shape[0]) for rest in inner]
    if dtype.names is None or dtype.fields is None:
        return [()]
    parts = vector_parts(dtype)
    names = dtype.names if parts is None else dtype.names[: parts[1]]  # a vector of 3 has a fourth place
    return [(name, *rest) for name in names for rest in leaves(dtype.fields[name][0])]


_Writer = Callable[[Expressions, Any, Path], Value]
_WRITERS: dict[type, _Writer] = {
    ir.Const: Expressions._const,
    ir.Read: Expressions._read,
    ir.Parameter: Expressions._parameter,
    ir.GroupIndex: Expressions._group_index,
    ir.LocalIndex: Expressions._local_index,
    ir.GlobalIndex: Expressions._global_index,
    ir.GridExtent: Expressions._grid_extent,
    ir.ArrayExtent: Expressions._array_extent,
    ir.Unary: Expressions._unary,
    ir.Binary: Expressions._binary,
    ir.Compare: Expressions._compare,
    ir.Logical: Expressions._logical,
    ir.Select: Expressions._select,
    ir.Cast: Expressions._cast,
    ir.Math: Expressions._math,
    ir.Member: Expressions._member,
    ir.MakeRecord: Expressions._make_record,
    ir.Load: Expressions._load,
}
