"""Finds typed integers that may have the value of a weak integer, because they are a choice between the two.

A conditional, ``min`` or ``max`` of a weak integer and a typed one has the type of the typed one, and so has a variable
to which both are assigned. The value itself is converted later, by arithmetic in that type or by a store, so a wider
destination and comparisons get the whole value.
"""

from __future__ import annotations

from typing import TypeGuard

from pydp.lang import ir

EXTREMES = ("minimum", "maximum")
BY_VALUE = (*EXTREMES, "abs")  # functions of integers' values; other functions depend on the bits of the type
WHOLE_VALUE_OPERATIONS = ("floordiv", "mod", "shr")  # their results depend on all bits of both operands


class ExactChoices:
    """The 32-bit typed integers of a function that may have the value of a weak one. variables: the names of variables
    with such values."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        fixed = {one.name for one in function.arguments} if isinstance(function, ir.ValueFunction) else set()
        assigned = [
            one
            for one in ir.statements(function.body)
            if isinstance(one, ir.Assign) and not one.members and one.variable.name not in fixed and _is_short(one)
        ]
        self.variables: set[str] = set()
        before = -1
        while len(self.variables) > before:
            before = len(self.variables)
            self.variables |= {one.variable.name for one in assigned if self.holds(one.value)}

    def holds(self, expr: ir.Expr) -> bool:
        """Whether the expression, of a typed integer, may have the value of a weak one."""
        if isinstance(expr, ir.Cast):
            return is_promoted(expr) and expr.dtype.itemsize == 4
        if isinstance(expr, ir.Read):
            return expr.variable.name in self.variables
        if isinstance(expr, ir.Select):
            return _is_typed(expr) and (self.holds(expr.yes) or self.holds(expr.no))
        if isinstance(expr, ir.Math):
            return _is_typed(expr) and expr.name in EXTREMES and any(map(self.holds, expr.values))
        return False


def is_promoted(expr: ir.Expr) -> TypeGuard[ir.Cast]:
    """Whether the expression converts a weak integer to the type of a typed one."""
    return isinstance(expr, ir.Cast) and expr.promoted and expr.dtype.kind in "iu" and expr.value.dtype.kind in "iu"


def _is_typed(expr: ir.Select | ir.Math) -> bool:
    return not expr.weak and expr.dtype.kind in "iu"


def _is_short(one: ir.Assign) -> bool:
    variable = one.variable
    return not variable.weak and variable.dtype.kind in "iu" and variable.dtype.itemsize == 4
