"""OpenCL vector types (``pyopencl.cltypes.float4``): members by name, and elementwise arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.dtypes import vector_parts
from pydp.lang import ir
from pydp.lang.frontend.values import Number, Value
from pydp.lang.frontend.view_lowering import Views
from pydp.lang.intrinsics import SYMBOLS


def member_name(dtype: np.dtype[Any], name: str) -> str | None:
    """The member called `name`; vectors also accept ``x`` to ``w``. None if there is no such member."""
    if dtype.names is None:
        return None
    parts = components(dtype)
    if parts:
        known = dict(zip("xyzw", parts, strict=False)) if len(parts) <= 4 else {}
        name = known.get(name, name)
        return name if name in parts else None
    return name if name in dtype.names else None


def components(dtype: np.dtype[Any]) -> list[str]:
    """The component names of a vector type; [] for other types."""
    parts = vector_parts(dtype) if dtype.names else None
    return [f"s{n}" for n in range(parts[1])] if parts is not None else []


class Vectors(Views):
    """Elementwise arithmetic of vector types; a number is combined with every component."""

    def operate(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        if isinstance(left, Number) and isinstance(right, Number) and (_is_vector(left) or _is_vector(right)):
            return self._by_member(op, left, right, node)
        return super().operate(op, left, right, node)

    def unary(self, op: str, number: Number, node: ast.AST) -> Number:
        if not _is_vector(number):
            return super().unary(op, number, node)
        held = self.temporary(number, "vector", node)
        return self.vector(number.expr.dtype, lambda name: self.unary(op, self.part(held, name), node), node)

    def part(self, number: Number, name: str) -> Number:
        """A component of a vector; a scalar is returned unchanged."""
        if not _is_vector(number):
            return number
        assert number.expr.dtype.fields is not None
        return Number(ir.Member(number.expr.dtype.fields[name][0], number.expr, name))

    def _by_member(self, op: str, left: Number, right: Number, node: ast.AST) -> Number:
        dtype = left.expr.dtype if _is_vector(left) else right.expr.dtype
        if _is_vector(left) and _is_vector(right) and left.expr.dtype != right.expr.dtype:
            self.fail(f"{SYMBOLS[op]} needs two vectors of the same type", node)
        first, second = self.temporary(left, "left", node), self.temporary(right, "right", node)

        def combined(name: str) -> Number:
            return self.binary(op, self.part(first, name), self.part(second, name), node)

        return self.vector(dtype, combined, node)

    def vector(self, dtype: np.dtype[Any], part: Callable[[str], Number], node: ast.AST) -> Number:
        """A vector of `dtype`; `part` gives each component by name."""
        parts = {name: part(name) for name in components(dtype)}
        start = Number(ir.Const(dtype, np.zeros((), dtype)[()]))
        held = self.assign(self.place_key("%vector", node), "vector", start, node)
        assert isinstance(held.expr, ir.Read) and dtype.fields is not None
        for name, number in parts.items():
            value = self.convert(number, dtype.fields[name][0], node)
            self.emit(ir.Assign(self.where(node), held.expr.variable, value, (name,)))
        return held


def _is_vector(number: Number) -> bool:
    return bool(number.expr.dtype.names) and bool(components(number.expr.dtype))
