"""Two forms of a translated function: weak integers in 32 bits (`narrowed`), or weak integers, indexes and extents in
64 bits (`widened`).

The narrowed form leaves out the conversions that change nothing. In the widened form, operations of typed integers with
weak ones use the weak one's whole value where all of its bits count, and choices between the two keep it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis.exact_choices import BY_VALUE, WHOLE_VALUE_OPERATIONS, ExactChoices
from pydp.lang.analysis.integer_ranges import InputRange, IntegerRanges
from pydp.lang.ir.rewrite import Rewriter
from pydp.lang.ir.types import BOOL, FLOAT64, INT32, INT64, MIRRORED, UINT64

_Made = TypeVar("_Made", ir.Function, ir.ValueFunction)


def fits_32_bits(function: ir.Function | ir.ValueFunction, input_range: InputRange) -> bool:
    """Whether the function, in the front end's form, gives the same results with its weak integers in 32 bits.

    input_range: returns the range of a parameter, extent or index."""
    return IntegerRanges(function, input_range).run() and not _Converted(function).become_wide()


class _Converted:
    """Finds out whether an int(x) of a float, or a weak integer or a choice made from one, becomes a 64-bit integer or
    a float64: in a store, or in arithmetic with one. Such a float may be any integer. Elsewhere the rule is that int(x)
    has 32 bits, because many kernels make indexes of floats. The analysis ignores the order of statements."""

    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.variables: set[str] = set()  # may hold such an integer
        before = -1
        while len(self.variables) > before:
            before = len(self.variables)
            for one in ir.statements(function.body):
                if isinstance(one, ir.Assign | ir.For) and any(map(self._holds, _sources(one))):
                    self.variables.add(one.variable.name)

    def become_wide(self) -> bool:
        result = ir.walk(self.function.result) if isinstance(self.function, ir.ValueFunction) else ()
        return any(
            isinstance(part, ir.Cast) and part.dtype in (INT64, UINT64, FLOAT64) and self._holds(part.value)
            for part in itertools.chain(ir.parts(ir.statements(self.function.body)), result)
        )

    def _holds(self, expr: ir.Expr) -> bool:
        """Whether a 32-bit integer may depend on more bits of a converted float than 32."""
        if expr.dtype.kind not in "iu" or expr.dtype.itemsize != 4:
            return False
        if isinstance(expr, ir.Read):
            return expr.variable.name in self.variables
        if isinstance(expr, ir.Cast):
            if expr.value.dtype.kind == "f":
                return expr.weak and expr.value.dtype.itemsize > 2
            return self._holds(expr.value)
        if isinstance(expr, ir.Select):
            return self._holds(expr.yes) or self._holds(expr.no)
        return isinstance(expr, ir.Unary | ir.Binary | ir.Math) and any(map(self._holds, ir.children(expr)))


def _sources(statement: ir.Assign | ir.For) -> tuple[ir.Expr, ...]:
    """The expressions that give the variable of an assignment or of a loop its value."""
    if isinstance(statement, ir.For):
        return statement.start, statement.stop, statement.step
    return () if statement.members else (statement.value,)


def narrowed(function: _Made) -> _Made:
    """The function with its weak integers as they are written, without the conversions of a type to itself."""
    return _Narrowing().function(function)


def widened(function: _Made, large: bool) -> _Made:
    """The function with weak integers, indexes and extents of 64 bits.

    large: indexes may not fit 32 bits, so int(x) of a float has 64. Else it has 64 bits only if `_Converted` finds that
    it needs them: the numbers of a launch, which decide whether the function is widened, must not change its value."""
    made = _Widening(function, large or _Converted(function).become_wide()).function(function)
    if isinstance(made, ir.Function):
        made.index_dtype = INT64
    return made


class _Narrowing(Rewriter):
    def expr(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Const) and expr.dtype == INT32 and not -(1 << 31) <= expr.value < 1 << 31:
            return replace(expr, value=int(np.int64(expr.value).astype(INT32)))  # the low bits of a weak integer
        if isinstance(expr, ir.Cast) and expr.dtype == expr.value.dtype:
            return self.expr(expr.value)
        return self.inside(expr, self.expr)


class _Widening(Rewriter):
    def __init__(self, function: ir.Function | ir.ValueFunction, whole_floats: bool) -> None:
        self.choices, self.whole_floats = ExactChoices(function), whole_floats

    def variable(self, variable: ir.Variable) -> ir.Variable:
        wide = variable.weak and variable.dtype == INT32
        return replace(variable, dtype=INT64) if wide or variable.name in self.choices.variables else variable

    def parameter(self, parameter: ir.Parameter) -> ir.Parameter:
        return replace(parameter, dtype=INT64) if parameter.weak and parameter.dtype == INT32 else parameter

    def index(self, expr: ir.Expr) -> ir.Expr:
        return self.typed(expr, INT64)

    def typed(self, expr: ir.Expr, dtype: np.dtype[Any]) -> ir.Expr:
        if isinstance(expr, ir.Const) and expr.dtype.kind in "iu" and dtype.kind in "iu":
            return replace(expr, dtype=dtype)
        made = self.whole(expr) if dtype == INT64 and self.choices.holds(expr) else self.expr(expr)
        return made if made.dtype == dtype else ir.Cast(dtype, made)

    def whole(self, expr: ir.Expr) -> ir.Expr:
        """An integer with all bits of its value: a weak one is not converted to the other operand's type."""
        if isinstance(expr, ir.Cast) and expr.promoted:
            return self.expr(expr.value)
        if not self.choices.holds(expr):
            return self.expr(expr)
        if isinstance(expr, ir.Read):
            return ir.Read(INT64, self.variable(expr.variable))
        made = self.inside(expr, lambda inner: _converted(self.whole(inner), INT64))
        return replace(made, dtype=INT64)

    def expr(self, expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Read):
            variable = self.variable(expr.variable)
            made = ir.Read(variable.dtype, variable)
            return ir.Cast(expr.dtype, made) if expr.variable.name in self.choices.variables else made
        if isinstance(expr, ir.Parameter):
            return self.parameter(expr)
        if isinstance(expr, ir.INDEXES):
            return replace(expr, dtype=INT64)
        if isinstance(expr, ir.Compare):
            return self._compare(expr)
        if isinstance(expr, ir.Cast):
            return self._cast(expr)
        if isinstance(expr, ir.Binary | ir.Unary | ir.Select | ir.Math) and expr.dtype.kind in "iu":
            return self._integer(expr)
        return self.inside(expr, lambda inner: self.typed(inner, inner.dtype))

    def _integer(self, expr: ir.Binary | ir.Unary | ir.Select | ir.Math) -> ir.Expr:
        if expr.weak:
            dtype = INT64 if expr.dtype == INT32 else expr.dtype
            return replace(self.inside(expr, lambda inner: self.typed(inner, dtype)), dtype=dtype)
        named = expr.name if isinstance(expr, ir.Math) else expr.op if isinstance(expr, ir.Binary) else ""
        whole = named in BY_VALUE or named in WHOLE_VALUE_OPERATIONS
        mixed = any(
            (isinstance(inner, ir.Cast) and inner.promoted) or self.choices.holds(inner) for inner in ir.children(expr)
        )
        if whole and mixed and expr.dtype.itemsize < 8:
            made = self.inside(expr, lambda inner: _converted(self.whole(inner), INT64))
            return ir.Cast(expr.dtype, replace(made, dtype=INT64))
        return self.inside(expr, lambda inner: self.typed(inner, expr.dtype))

    def _cast(self, expr: ir.Cast) -> ir.Expr:
        if not expr.weak or expr.dtype != INT32:
            return self.typed(expr.value, expr.dtype) if expr.dtype == expr.value.dtype else self._converted(expr)
        if expr.value.dtype.kind == "f":
            value = self.expr(expr.value)
            return ir.Cast(INT64, value if self.whole_floats else ir.Cast(INT32, value))
        return self.typed(expr.value, INT64)

    def _converted(self, expr: ir.Cast) -> ir.Expr:
        made = self.whole(expr.value) if self.choices.holds(expr.value) else self.expr(expr.value)
        return made if made.dtype == expr.dtype else replace(expr, value=made)

    def _compare(self, expr: ir.Compare) -> ir.Expr:
        if expr.left.dtype.kind not in "iu":
            return self.inside(expr, self.expr)
        left, right = self.whole(expr.left), self.whole(expr.right)
        if UINT64 in (left.dtype, right.dtype) and left.dtype != right.dtype:
            if left.dtype == UINT64:
                return _compare_unsigned(expr.op, left, right)
            return _compare_unsigned(MIRRORED[expr.op], right, left)
        if left.dtype != right.dtype or INT64 in (left.dtype, right.dtype):
            left, right = _converted(left, INT64), _converted(right, INT64)
        return replace(expr, left=left, right=right)


def _converted(expr: ir.Expr, dtype: np.dtype[Any]) -> ir.Expr:
    if isinstance(expr, ir.Const):
        return replace(expr, dtype=dtype)
    return expr if expr.dtype == dtype else ir.Cast(dtype, expr)


def _compare_unsigned(op: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """`left op right` of an unsigned and a signed 64-bit integer, by their values."""
    if isinstance(right, ir.Const) and right.value >= 0:
        return ir.Compare(BOOL, op, left, ir.Const(UINT64, right.value))
    right = _converted(right, INT64)
    same = ir.Compare(BOOL, op, left, ir.Cast(UINT64, right))
    zero = ir.Const(INT64, 0)
    if op in ("lt", "le", "eq"):
        return ir.Logical(BOOL, "and", ir.Compare(BOOL, "ge", right, zero), same)
    return ir.Logical(BOOL, "or", ir.Compare(BOOL, "lt", right, zero), same)
