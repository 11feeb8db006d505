"""Makes changed copies of functions in the typed form: a pass overrides the methods for the parts that it changes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from pydp.lang import ir

_Made = TypeVar("_Made", ir.Function, ir.ValueFunction)
_Change = Callable[[ir.Expr], ir.Expr]


class Rewriter:
    """Copies a function with its expressions changed; this class itself changes nothing.

    Expressions without a change are kept; statements are always copied, so a block can be copied several times.
    """

    def expr(self, expr: ir.Expr) -> ir.Expr:
        """The expression that replaces `expr`."""
        return self.inside(expr, self.expr)

    def index(self, expr: ir.Expr) -> ir.Expr:
        """The expression that replaces an index of an array, an index of a bound, or the width of a barrier."""
        return self.expr(expr)

    def typed(self, expr: ir.Expr, dtype: np.dtype[Any]) -> ir.Expr:
        """The expression that replaces an assigned or stored value or an end of a range; it must have `dtype`."""
        return self.expr(expr)

    def variable(self, variable: ir.Variable) -> ir.Variable:
        return variable

    def parameter(self, parameter: ir.Parameter) -> ir.Parameter:
        return parameter

    def function(self, function: _Made) -> _Made:
        changes: dict[str, Any] = {
            "variables": [self.variable(one) for one in function.variables],
            "body": self.block(function.body),
        }
        if isinstance(function, ir.ValueFunction):
            changes["result"] = self.typed(function.result, function.result.dtype)
        else:
            changes["parameters"] = [self.parameter(one) for one in function.parameters]
        return replace(function, **changes)

    def block(self, body: Sequence[ir.Stmt]) -> list[ir.Stmt]:
        return [new for one in body for new in self.statement(one)]

    def statement(self, one: ir.Stmt) -> list[ir.Stmt]:
        """The statements that replace a statement."""
        return [replace(one, **self._changes(one, self.expr))]

    def inside(self, expr: ir.Expr, change: _Change) -> ir.Expr:
        """The expression with `change` applied to the operands; `index` changes indexes, `expr` conditions."""
        changes = self._changes(expr, change)
        return replace(expr, **changes) if changes else expr

    def _changes(self, node: ir.Expr | ir.Stmt, change: _Change) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        kind: Any = type(node)
        for name, write in _parts(kind):
            old = getattr(node, name)
            new = write(self, node, old, change)
            if new is not old:
                changes[name] = new
        return changes

    def bound(self, bound: Any) -> Any:
        index = self.index(bound.index)
        return bound if index is bound.index else replace(bound, index=index)


def _each(values: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The values, each changed; the same tuple if none changes."""
    found = tuple(map(change, values))
    return values if all(map(operator.is_, found, values)) else found


def _assigned(rewriter: Rewriter, one: ir.Assign, value: ir.Expr, change: _Change) -> ir.Expr:
    return rewriter.typed(value, value.dtype if one.members else rewriter.variable(one.variable).dtype)


def _range_end(rewriter: Rewriter, one: ir.For, value: ir.Expr, change: _Change) -> ir.Expr:
    return rewriter.typed(value, rewriter.variable(one.variable).dtype)


_Write = Callable[[Rewriter, Any, Any, _Change], Any]
_BY_FIELD: dict[tuple[type, str], _Write] = {
    (ir.Assign, "variable"): lambda rewriter, _, variable, change: rewriter.variable(variable),
    (ir.For, "variable"): lambda rewriter, _, variable, change: rewriter.variable(variable),
    (ir.Assign, "value"): _assigned,
    (ir.Store, "value"): lambda rewriter, _, value, change: rewriter.typed(value, value.dtype),
    (ir.Atomic, "value"): lambda rewriter, _, value, change: rewriter.typed(value, value.dtype),
    (ir.For, "start"): _range_end,
    (ir.For, "stop"): _range_end,
    (ir.For, "step"): _range_end,
    (ir.Select, "condition"): lambda rewriter, _, value, change: rewriter.expr(value),
    (ir.Barrier, "width"): lambda rewriter, _, value, change: None if value is None else rewriter.index(value),
    (ir.Load, "indices"): lambda rewriter, _, values, change: _each(values, rewriter.index),
    (ir.Store, "indices"): lambda rewriter, _, values, change: _each(values, rewriter.index),
    (ir.Atomic, "indices"): lambda rewriter, _, values, change: _each(values, rewriter.index),
}
_BY_TYPE: dict[str, _Write] = {
    "Expr": lambda rewriter, _, value, change: change(value),
    "tuple[Expr, ...]": lambda rewriter, _, values, change: _each(values, change),
    "tuple[Bound, ...]": lambda rewriter, _, bounds, change: _each(bounds, rewriter.bound),
    "ItemBound | None": lambda rewriter, _, bound, change: None if bound is None else rewriter.bound(bound),
    "list[Stmt]": lambda rewriter, _, body, change: rewriter.block(body),
}


@functools.cache
def _parts(kind: Any) -> tuple[tuple[str, _Write], ...]:
    """The fields of a node type that a rewriter changes, each with the function that changes it."""
    found = ((item.name, _BY_FIELD.get((kind, item.name), _BY_TYPE.get(str(item.type)))) for item in fields(kind))
    return tuple((name, write) for name, write in found if write is not None)
