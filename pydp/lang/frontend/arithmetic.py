"""Operators of the language: accepted operands, result types and constant folding."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.state import Base, fits
from pydp.lang.frontend.values import Constant, Items, Number, Value, describe
from pydp.lang.intrinsics import BINARY, BITWISE, COMPARISONS, SHIFTS, SYMBOLS, UNARY
from pydp.lang.ir.types import BOOL, FLOAT32, INT64, NoCommonType, Type, as_real, common, is_integer, quotient

_FOLDED = ("add", "sub", "mul")
_PYTHON = {row.name: row.python for table in (BINARY, COMPARISONS) for row in table.values()}


def known(number: Number) -> Any:
    """The Python value of a literal or constant bool, else None."""
    if isinstance(number.expr, ir.Const) and (number.weak or number.expr.dtype == BOOL):
        return number.expr.value
    return None


class Arithmetic(Base):
    """Operators on numbers and on indexes."""

    def operate(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        """left op right for any two values."""
        if isinstance(left, Items) or isinstance(right, Items):
            return self._on_items(op, left, right, node)
        return self.binary(op, self.as_number(left, node), self.as_number(right, node), node)

    def as_number(self, value: Value, node: ast.AST) -> Number:
        if isinstance(value, Number):
            return value
        if isinstance(value, Items) and value.index and len(value.items) == 1:
            return self.as_number(value.items[0], node)
        advice = "; index it" if not isinstance(value, Constant) else ""
        if isinstance(value, Items) and not value.index:
            advice += ", or make a record: pydp.record(dtype, ...)"
        self.fail(f"a number is needed here, not {describe(value)}{advice}", node)

    def _on_items(self, op: str, left: Value, right: Value, node: ast.AST) -> Value:
        """Elementwise if one operand is an index or extent; + concatenates plain tuples, as in Python."""
        sizes = {len(item.items) for item in (left, right) if isinstance(item, Items)}
        if not any(isinstance(item, Items) and item.index for item in (left, right)):
            if op == "add" and isinstance(left, Items) and isinstance(right, Items):
                return Items(left.items + right.items)
            self.fail(f"{SYMBOLS[op]} needs numbers, not {describe(left)} and {describe(right)}", node)
        if len(sizes) > 1:
            self.fail(f"indexes of different ranks cannot be combined: {describe(left)} and {describe(right)}", node)
        size = sizes.pop()
        lefts = left.items if isinstance(left, Items) else (left,) * size
        rights = right.items if isinstance(right, Items) else (right,) * size
        return Items(tuple(self.operate(op, *pair, node) for pair in zip(lefts, rights, strict=True)), True)

    # --- binary operators

    def binary(self, op: str, left: Number, right: Number, node: ast.AST) -> Number:
        """left op right, by the rules of pydp.lang.ir.types."""
        values = known(left), known(right)
        if values[0] is not None and values[1] is not None:
            return self._fold(op, values[0], values[1], node)
        if left.expr.dtype.names or right.expr.dtype.names:
            self.fail(f"{SYMBOLS[op]} needs numbers, not records; use a member of the record", node)
        if op == "pow":
            return self._power(left, right, node)
        if op == "truediv":
            kind = self._typed(quotient, left, right, node)
        elif op in BITWISE and left.expr.dtype == right.expr.dtype == BOOL:
            kind = Type(BOOL)
        else:
            kind = self._typed(common, self.counted(left), self.counted(right), node)
        if op in (*BITWISE, *SHIFTS) and kind.dtype.kind == "f":
            self.fail(f"{SYMBOLS[op]} needs integers, not {left.type} and {right.type}", node)
        return self._combined(op, left, right, kind, node)

    def _combined(self, op: str, left: Number, right: Number, kind: Type, node: ast.AST) -> Number:
        first, second = self.to_common(left, kind, node), self.to_common(right, kind, node)
        if isinstance(first, ir.Const) and isinstance(second, ir.Const) and op in _FOLDED and not kind.weak:
            with np.errstate(all="ignore"):
                folded = BINARY[op].numpy(np.asarray(first.value, kind.dtype), np.asarray(second.value, kind.dtype))
            return Number(ir.Const(kind.dtype, folded.item()), kind.weak)
        if kind.dtype.kind != "f":
            if op == "add" and _is_zero(first):
                return self.to_own_type(Number(second, kind.weak))
            if op in ("add", "sub", "shl", "shr") and _is_zero(second):
                return self.to_own_type(Number(first, kind.weak))
        return Number(ir.Binary(kind.dtype, op, first, second, kind.weak), kind.weak)

    def counted(self, number: Number) -> Number:
        """Convert a boolean to a weak integer; leave other numbers unchanged."""
        if number.expr.dtype != BOOL:
            return number
        if isinstance(number.expr, ir.Const):
            return Number(self.integer(int(number.expr.value)), True)
        return Number(ir.Cast(self.index_dtype, number.expr, True), True)

    def _typed(self, rule: Callable[[Type, Type], Type], left: Number, right: Number, node: ast.AST) -> Type:
        try:
            return rule(left.type, right.type)
        except NoCommonType as error:
            self.fail(str(error), node)

    def common_type(self, left: Number, right: Number, node: ast.AST) -> Type:
        """The common type of two values (of a choice or a comparison)."""
        if left.expr.dtype == right.expr.dtype == BOOL:
            return Type(BOOL)
        return self._typed(common, left, right, node)

    def _fold(self, op: str, left: Any, right: Any, node: ast.AST) -> Number:
        if op == "pow" and isinstance(right, int) and abs(right) > 4096:
            self.fail(f"the exponent of {left} ** {right} is too large; -4096 to 4096 is accepted in constants", node)
        try:
            result = _PYTHON[op](left, right)
        except (ArithmeticError, ValueError, TypeError) as error:
            self.fail(f"{left!r} {SYMBOLS[op]} {right!r} cannot be computed: {error}", node)
        if isinstance(result, complex):
            self.fail(f"{left!r} ** {right!r} is complex, and complex numbers are not supported", node)
        return self.literal(result, node)

    def _power(self, left: Number, right: Number, node: ast.AST) -> Number:
        left, right = self.counted(left), self.counted(right)
        if known(right) == 2 and isinstance(known(right), int):
            base = self.temporary(left, "base", node)
            return self.binary("mul", base, base, node)
        kind = self._typed(common, left, right, node)
        if kind.dtype.kind != "f" and known(right) is not None and known(right) < 0:
            self.fail(
                "the exponent of an integer is negative, so the result is not an integer; use float(x) ** n", node
            )
        return self._combined("pow", left, right, kind, node)

    # --- comparisons, signs, choices

    def compare(self, op: str, left: Value, right: Value, node: ast.AST) -> Number:
        """left op right as a bool."""
        if isinstance(left, Items) and isinstance(right, Items) and op in ("eq", "ne"):
            return self._compare_items(op, left, right, node)
        if isinstance(left, Constant) and isinstance(right, Constant) and op in ("eq", "ne"):
            return Number(ir.Const(BOOL, bool(_PYTHON[op](left.value, right.value))))
        return self._compare_numbers(op, self.as_number(left, node), self.as_number(right, node), node)

    def _compare_items(self, op: str, left: Items, right: Items, node: ast.AST) -> Number:
        if len(left.items) != len(right.items):
            return Number(ir.Const(BOOL, op == "ne"))
        result: Number = Number(ir.Const(BOOL, op == "eq"))
        for pair in zip(left.items, right.items, strict=True):
            result = self.logical("and" if op == "eq" else "or", result, self.compare(op, *pair, node))
        return result

    def _compare_numbers(self, op: str, left: Number, right: Number, node: ast.AST) -> Number:
        values = known(left), known(right)
        if values[0] is not None and values[1] is not None:
            return Number(ir.Const(BOOL, bool(_PYTHON[op](*values))))
        if (left.expr.dtype.names or right.expr.dtype.names) and op not in ("eq", "ne"):
            self.fail("records support == and != only; compare their members", node)
        if not left.expr.dtype == right.expr.dtype == BOOL or op not in ("eq", "ne"):
            left, right = self.counted(left), self.counted(right)
        kind = self.common_type(left, right, node)
        for number, other in ((left, right), (right, left)):
            value = known(number)
            held = INT64 if other.weak else kind.dtype
            if isinstance(value, int) and is_integer(other.expr.dtype) and not _in_range(value, held):
                if may_exceed(other) and _in_range(value, INT64):
                    left, right = (Number(self.convert(one, INT64, node)) for one in (left, right))
                    return Number(ir.Compare(BOOL, op, left.expr, right.expr))
                pair = (value, 0) if number is left else (0, value)
                return Number(ir.Const(BOOL, bool(_PYTHON[op](*pair))))
        return Number(ir.Compare(BOOL, op, self.to_common(left, kind, node), self.to_common(right, kind, node)))

    def logical(self, op: str, left: Number, right: Number) -> Number:
        """left and right, or left or right, of two bools without side effects."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one.expr, ir.Const):
                return other if bool(one.expr.value) == (op == "and") else one
        return Number(ir.Logical(BOOL, op, left.expr, right.expr))

    def negate(self, condition: ir.Expr) -> ir.Expr:
        if isinstance(condition, ir.Const):
            return ir.Const(BOOL, not condition.value)
        return ir.Unary(BOOL, "not", condition)

    def unary(self, op: str, number: Number, node: ast.AST) -> Number:
        """Apply a unary operator: neg, pos or invert."""
        if number.expr.dtype.names:
            self.fail("unary operators need a number, not a record; use a member of the record", node)
        if op == "invert":
            if number.expr.dtype == BOOL:
                return Number(self.negate(number.expr))
            if number.expr.dtype.kind == "f":
                self.fail(f"~ needs an integer, not {number.type}", node)
        number = self.counted(number)
        value = known(number)
        if value is not None:
            return self.literal(UNARY[op].python(value), node)
        if op == "pos":
            return number
        if op == "neg" and isinstance(number.expr, ir.Const):
            with np.errstate(all="ignore"):
                folded = np.negative(np.asarray(number.expr.value, number.expr.dtype))
            return Number(ir.Const(number.expr.dtype, folded.item()))
        return Number(ir.Unary(number.expr.dtype, op, number.expr, number.weak), number.weak)

    def choose(self, condition: ir.Expr, yes: Number, no: Number, node: ast.AST) -> Number:
        """A choice between two numbers."""
        kind = self.common_type(yes, no, node)
        if isinstance(condition, ir.Const):
            return yes if condition.value else no
        first, second = self.to_common(yes, kind, node), self.to_common(no, kind, node)
        return Number(ir.Select(kind.dtype, condition, first, second, weak=kind.weak), kind.weak)

    # --- explicit conversions

    def to_own_type(self, number: Number) -> Number:
        """Convert a number to its own type if it may hold the value of a weak integer that exceeds it."""
        return Number(ir.Cast(number.expr.dtype, number.expr)) if may_exceed(number) else number

    def real(self, number: Number, node: ast.AST) -> Number:
        """The number converted to a floating-point type."""
        if number.expr.dtype.names:
            self.fail("a number is needed here, not a record", node)
        kind = as_real(number.type)
        if number.literal or number.expr.dtype.kind != "f":
            return Number(self.convert(number, kind.dtype, node), kind.weak)
        return number

    def weak_float(self, number: Number, node: ast.AST) -> Number:
        """float(x): Python integers and bools become weak floats; float32 and float64 keep their type."""
        if number.weak or number.expr.dtype == BOOL:
            own = number.expr.dtype
            return Number(self.convert(number, own if own.kind == "f" else FLOAT32, node), True)
        kind = as_real(number.type)
        dtype = FLOAT32 if kind.dtype.itemsize < 4 else kind.dtype
        return Number(self.convert(number, dtype, node))

    def weak_integer(self, number: Number, node: ast.AST) -> Number:
        """int(x): round toward zero, to the index type; 64 bits for uint32 and 64-bit integers."""
        dtype, own = self.index_dtype, number.expr.dtype
        if is_integer(own) and not np.can_cast(own, dtype):
            dtype = np.dtype(np.int64)
        value = known(number)
        if value is not None:
            try:
                return self.literal(int(value), node)
            except (ValueError, OverflowError) as error:
                self.fail(f"int({value!r}) cannot be computed: {error}", node)
        return Number(self.convert(number, dtype, node, True), True)


def _is_zero(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Const) and expr.value == 0


def may_exceed(number: Number) -> bool:
    """Whether a 32-bit typed integer may hold the value of a weak one that exceeds its type (see exact_choices)."""
    choice = isinstance(number.expr, ir.Read | ir.Select | ir.Math)
    return choice and not number.weak and number.expr.dtype.kind in "iu" and number.expr.dtype.itemsize == 4


def _in_range(value: int, dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "iu" or fits(value, dtype)
