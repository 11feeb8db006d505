"""Calls in the language: known functions, casts, views, records, local memory, and other vector functions."""

from __future__ import annotations

import ast
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.lang import ir
from pydp.lang.frontend.arithmetic import known, may_exceed
from pydp.lang.frontend.expressions import Expressions
from pydp.lang.frontend.known_functions import fold
from pydp.lang.frontend.values import Constant, Items, Number, Value, View, arguments_text, describe
from pydp.lang.frontend.vectors import components, member_name
from pydp.lang.frontend.view_lowering import Element
from pydp.lang.intrinsics import BY_ID, FUNCTIONS, Function, result_dtype
from pydp.lang.ir.types import BOOL, INT64


class Calls(Expressions):
    """All calls except calls of user functions."""

    @abstractmethod
    def inline(self, function: FunctionType, node: ast.Call) -> Value: ...

    @abstractmethod
    def assembled(self, dtype: np.dtype[Any], values: Mapping[str, Value], node: ast.AST) -> Number: ...

    def _on_Call(self, node: ast.Call) -> Value | Element:
        if isinstance(node.func, ast.Attribute):
            method = self._method(node.func, node)
            if method is not None:
                return method
        target = self.value(node.func)
        if isinstance(target, View | Items):
            self._no_keywords(node)
            return self.subscript(target, self.each(node.args), node)
        if isinstance(target, Number):
            self.fail(f"{ast.unparse(node.func)} is a number and cannot be called", node)
        return self._known(target.value, node)

    def _no_keywords(self, node: ast.Call) -> None:
        if node.keywords:
            self.fail(f"the keyword argument {node.keywords[0].arg!r} is not accepted here", node)

    def _method(self, func: ast.Attribute, node: ast.Call) -> Value | None:
        """Methods of values: x.tile(...), x.astype(...). None if `func` is not such a method."""
        if func.attr not in ("tile", "astype"):
            return None
        base = self.value(func.value)
        if isinstance(base, View) and func.attr == "tile":
            self._no_keywords(node)
            return self.tile(base, self._extents(self.each(node.args), "a tile", node), node)
        if isinstance(base, Number) and func.attr == "astype":
            return self._cast(self._dtype(self._only(node, 1)[0], node), base, node)
        return None

    def _known(self, target: Any, node: ast.Call) -> Value:
        inner = getattr(target, "function", target)
        home = (getattr(target, "__module__", None) or "").split(".")[0]
        name = getattr(target, "__name__", "")
        special = getattr(self, f"_pydp_{name}", None) if home == "pydp" and not hasattr(target, "function") else None
        if special is not None:
            result: Value = special(node)
            return result
        if isinstance(target, np.dtype) and target.names:
            return self._record(target, node)
        if isinstance(target, type | np.dtype) and _is_scalar_type(target):
            return self._cast(np.dtype(target), self._one(node), node)
        if id(target) in BY_ID:
            return self._function(*BY_ID[id(target)], node)
        if isinstance(inner, FunctionType):
            if home in ("pydp", "numpy", "math") and inner.__module__ != "pydp.math":
                self.fail(f"{home}.{name} is not supported in a vector function", node)
            return self.inline(inner, node)
        if target is print:
            self.fail("print is not supported in a vector function; store values in an array", node)
        name = getattr(target, "__name__", None) or describe(Constant(target))
        makes = name in ("zeros", "ones", "empty", "full", "array", "arange", "zeros_like", "list")
        advice = (
            "use pydp.private_field for an array of one lane" if makes else "write it as a Python function or a loop"
        )
        self.fail(f"{name} is not supported in a vector function; {advice}", node)

    # --- arguments

    def _only(self, node: ast.Call, *counts: int) -> list[Value]:
        self._no_keywords(node)
        if len(node.args) not in counts:
            wanted = arguments_text(min(counts), max(counts))
            self.fail(f"{ast.unparse(node.func)} takes {wanted}, not {len(node.args)}", node)
        return self.each(node.args)

    def _numbers(self, node: ast.Call, *counts: int) -> list[Number]:
        return [self.as_number(value, node) for value in self._only(node, *counts)]

    def _one(self, node: ast.Call) -> Number:
        return self._numbers(node, 1)[0]

    def _dtype(self, value: Value, node: ast.AST) -> np.dtype[Any]:
        if isinstance(value, Constant):
            try:
                return np.dtype(value.value).newbyteorder("=")
            except TypeError:
                pass
        self.fail(f"{describe(value)} is not a dtype; a NumPy dtype or scalar type is accepted here", node)

    def _extents(self, values: Sequence[Value], what: str, node: ast.AST) -> tuple[int, ...]:
        sizes = []
        for number in self.flat_indices(values, node, f"an extent of {what}"):
            if not isinstance(number.expr, ir.Const):
                self.fail(f"the extents of {what} must be constants: literals or names from an enclosing scope", node)
            sizes.append(int(number.expr.value))
        return tuple(sizes)

    # --- functions of numbers

    def _function(self, kind: str, name: str, node: ast.Call) -> Value:
        if kind == "function":
            counts = (1, 2) if name == "log" else (FUNCTIONS[name].arity,)
            return self.function(name, self._numbers(node, *counts), node)
        if kind == "operator":
            left, right = self._only(node, 2)
            return self.operate(name, left, right, node)
        if kind == "comparison":
            left, right = self._only(node, 2)
            return self.compare(name, left, right, node)
        if kind == "minimax":
            return self._minimax(name, node)
        if kind == "to_integer":
            number = self._one(node)
            whole = number if number.expr.dtype.kind != "f" else self.function(name, [number], node)
            return self.weak_integer(whole, node)
        if kind == "logical":
            return self._logical(name, node)
        return self._rest(kind, name, self._only(node, 1, 2, 3), node)

    def _rest(self, kind: str, name: str, values: list[Value], node: ast.Call) -> Value:
        if name == "len":
            if isinstance(values[0], View):
                return Number(self.counts(values[0], node)[0], True)
            if isinstance(values[0], Items):
                return self.literal(len(values[0].items), node)
        if name == "where" and len(values) == 3:
            return self.chosen(self.truth(values[0], node), values[1], values[2], node)
        numbers = [self.as_number(value, node) for value in values]
        wanted, method = _OF_NUMBERS.get(name if kind == "special" else kind, (1, None))
        if method is None or len(numbers) != wanted:
            self.fail(f"{ast.unparse(node.func)} takes {arguments_text(wanted)} here, not {len(numbers)}", node)
        return method(self, name, node, *numbers)

    def function(self, name: str, numbers: list[Number], node: ast.AST) -> Number:
        """A function of the table of intrinsics; its rule says what becomes of the arguments' types."""
        if name == "log" and len(numbers) == 2:
            first, second = (self.function("log", [number], node) for number in numbers)
            return self.binary("truediv", first, second, node)
        row = FUNCTIONS[name]
        values = tuple(known(number) for number in numbers)
        if None not in values:
            try:
                folded = fold(name, values)
            except InvalidArgument as error:
                self.fail(str(error), node)
            if folded is not None:
                return self.literal(folded, node)
        if row.rule not in ("real", "test"):
            return self._integer_function(row, numbers, node)
        reals = [self.real(number, node) for number in numbers]
        kind = reals[0].type
        for other in reals[1:]:
            kind = self.common_type(Number(ir.Const(kind.dtype, 0.0), kind.weak), other, node)
        exprs = tuple(self.convert(number, kind.dtype, node) for number in reals)
        if row.rule == "test":
            return Number(ir.Math(BOOL, name, exprs))
        return Number(ir.Math(kind.dtype, name, exprs), kind.weak)

    def _integer_function(self, row: Function, numbers: list[Number], node: ast.AST) -> Number:
        """A function of integers: weak ones take the type of the typed ones, or become int64."""
        numbers = [self.counted(number) for number in numbers]
        deciding = numbers[:1] if row.rule == "double" else numbers
        typed = [number for number in deciding if not number.weak]
        dtype = typed[0].expr.dtype if typed else INT64
        for other in typed[1:]:
            dtype = self.common_type(Number(ir.Const(dtype, 0)), other, node).dtype
        for number in numbers:
            refusal = row.refusal(number.expr.dtype if number.expr.dtype.kind == "f" else dtype)
            if refusal:
                self.fail(refusal, node)
        dtypes = [dtype] * row.arity if row.rule != "double" else [dtype, np.dtype(f"u{dtype.itemsize}")]
        pairs = zip(numbers, dtypes, strict=True)
        exprs = tuple(self.convert(number, one, node) for number, one in pairs)
        result = Number(ir.Math(result_dtype(row.rule, dtype), row.name, exprs))
        return result if typed else self.weak_integer(result, node)

    def _minimax(self, name: str, node: ast.Call) -> Number:
        values = self._only(node, *range(1, 33))
        if len(values) == 1 and isinstance(values[0], Items):
            values = list(values[0].items)
        if not values:
            self.fail(f"{ast.unparse(node.func)} of an empty tuple has no value", node)
        result = self.as_number(values[0], node)
        for value in values[1:]:
            result = self.minimax(name, result, self.as_number(value, node), node)
        return result

    def minimax(self, name: str, left: Number, right: Number, node: ast.AST) -> Number:
        """The minimum or maximum of two numbers; propagates NaN, like numpy.minimum."""
        pair = known(left), known(right)
        if pair[0] is not None and pair[1] is not None:
            wrong = [value for value in pair if value != value]  # NaN, which Python's min may drop
            return self.literal(wrong[0] if wrong else min(pair) if name == "minimum" else max(pair), node)
        if left.expr.dtype.names or right.expr.dtype.names:
            self.fail("records have no order, so they have no minimum or maximum; use their members", node)
        kind = self.common_type(self.counted(left), self.counted(right), node)
        if left.expr.dtype == right.expr.dtype == BOOL:
            return Number(ir.Logical(BOOL, "and" if name == "minimum" else "or", left.expr, right.expr))
        exprs = (self.to_common(left, kind, node), self.to_common(right, kind, node))
        return Number(ir.Math(kind.dtype, name, exprs, kind.weak), kind.weak)

    def _logical(self, name: str, node: ast.Call) -> Number:
        left, right = (self.truth(number, node) for number in self._numbers(node, 2))
        if name == "xor":
            return self.binary("xor", Number(left), Number(right), node)
        return self.logical(name, Number(left), Number(right))

    def _round(self, name: str, node: ast.AST, number: Number) -> Number:
        rounded = number if number.expr.dtype.kind != "f" else self.function(name, [number], node)
        return self.weak_integer(rounded, node) if _is_builtin(node, "round") else rounded

    def _absolute(self, name: str, node: ast.AST, number: Number) -> Number:
        number = self.counted(number)
        value = known(number)
        if value is not None:
            return self.literal(abs(value), node)
        if number.expr.dtype.names:
            self.fail("a record has no absolute value; use a member of it", node)
        if number.expr.dtype.kind == "u" and not may_exceed(number):
            return number
        return Number(ir.Math(number.expr.dtype, "abs", (number.expr,), number.weak), number.weak)

    def scaled(self, number: Number, factor: float, node: ast.AST) -> Number:
        """A floating-point number times a literal."""
        return self.binary("mul", self.real(number, node), self.literal(factor, node), node)

    def _divmod(self, name: str, node: ast.AST, *numbers: Number) -> Items:
        left, right = (self.temporary(item, f"div{n}", node) for n, item in enumerate(numbers))
        return Items((self.binary("floordiv", left, right, node), self.binary("mod", left, right, node)))

    def _sign(self, name: str, node: ast.AST, number: Number) -> Number:
        number = self.temporary(self.counted(number), "sign", node)
        zero, one, minus = (self.literal(value, node) for value in (0, 1, -1))
        positive = self.compare("gt", number, zero, node).expr
        if number.expr.dtype.kind == "u":
            return self.choose(positive, Number(ir.Const(number.expr.dtype, 1)), number, node)
        negative = self.compare("lt", number, zero, node).expr
        up, down = (Number(self.convert(item, number.expr.dtype, node), number.weak) for item in (one, minus))
        return self.choose(positive, up, self.choose(negative, down, number, node), node)

    # --- casts and records

    def _cast(self, dtype: np.dtype[Any], number: Number, node: ast.AST) -> Number:
        if dtype.names or dtype.kind not in "biuf" or dtype.itemsize > 8:
            self.fail(f"a cast to {dtype} is not supported; bool, integers and floats of up to 64 bits are", node)
        return self.to_own_type(Number(self.convert(number, dtype, node)))

    def _record(self, dtype: np.dtype[Any], node: ast.Call, skip: int = 0) -> Number:
        """dtype(x=..., ...): every member by position or by name."""
        assert dtype.names is not None and dtype.fields is not None
        parts = components(dtype)
        names = tuple(parts) if parts else dtype.names
        nodes = dict(zip(names, node.args[skip:], strict=False))
        if len(node.args) - skip > len(names):
            self.fail(f"the record has {len(names)} members, but {len(node.args) - skip} values are given", node)
        for keyword in node.keywords:
            name = member_name(dtype, keyword.arg or "")
            if name not in names or name in nodes:
                self.fail(f"{keyword.arg!r} is not a member or is given twice; members are {', '.join(names)}", node)
            nodes[name] = keyword.value
        missing = [name for name in names if name not in nodes]
        if missing:
            self.fail(f"the record's member {missing[0]!r} is missing", node)
        values = dict(zip(nodes, self.each(list(nodes.values())), strict=True))
        if parts:
            return self.vector(dtype, lambda name: self.as_number(values[name], nodes[name]), node)
        if any(dtype.fields[name][0].subdtype is not None for name in names):
            return self.assembled(dtype, values, node)
        exprs = []
        for name in names:
            number = self.as_number(values[name], nodes[name])
            exprs.append(self.convert(number, dtype.fields[name][0], nodes[name]))
        return Number(ir.MakeRecord(dtype, tuple(exprs)))

    def _pydp_record(self, node: ast.Call) -> Value:
        if not node.args:
            self.fail("pydp.record takes a dtype and the values of its members", node)
        dtype = self._dtype(self.value(node.args[0]), node)
        if not dtype.names:
            self.fail(f"{dtype} is not a record dtype; a dtype with fields is accepted", node)
        return self._record(dtype, node, 1)

    # --- pydp's own functions

    def _pydp_where(self, node: ast.Call) -> Value:
        condition, yes, no = self._only(node, 3)
        return self.chosen(self.truth(condition, node), yes, no, node)

    def _pydp_index(self, node: ast.Call) -> Value:
        self._no_keywords(node)
        numbers = self.flat_indices(self.each(node.args), node)
        return Items(tuple(numbers), True)

    _pydp_extent = _pydp_index

    def _array(self, value: Value, node: ast.Call) -> View:
        if not isinstance(value, View):
            self.fail(f"the first argument of {ast.unparse(node.func)} is {describe(value)}, not an array", node)
        return value

    def _pydp_tile(self, node: ast.Call) -> Value:
        self._no_keywords(node)
        base, *sizes = self.each(node.args)
        return self.tile(self._array(base, node), self._extents(sizes, "a tile", node), node)

    def _pydp_read_only(self, node: ast.Call) -> Value:
        view = self._array(self._only(node, 1)[0], node)
        return View(**{**vars(view), "writable": False})

    def _pydp_section(self, node: ast.Call) -> Value:
        base, start, extent = self._only(node, 3)
        view = self._array(base, node)
        places = [[number.expr for number in self.flat_indices([item], node)] for item in (start, extent)]
        return self.section(view, places[0], places[1], node)

    def _pydp_project(self, node: ast.Call) -> Value:
        base, axis, index = self._only(node, 3)
        view = self._array(base, node)
        place = self.index_number(axis, "the axis", node)
        if not isinstance(place.expr, ir.Const):
            self.fail("the axis of a projection must be a constant", node)
        return self.project(view, place.expr.value, self.index_number(index, "an index", node).expr, node)


def _is_builtin(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _is_scalar_type(target: Any) -> bool:
    if isinstance(target, np.dtype):
        return True
    return inspect.isclass(target) and issubclass(target, np.generic) and target not in (np.generic, np.void)


_OF_NUMBERS: dict[str, tuple[int, Callable[..., Value]]] = {
    "round": (1, Calls._round),
    "absolute": (1, Calls._absolute),
    "divmod": (2, Calls._divmod),
    "sign": (1, Calls._sign),
    "unary": (1, lambda self, name, node, x: self.unary(name, x, node)),
    "not": (1, lambda self, name, node, x: Number(self.negate(self.truth(x, node)))),
    "int": (1, lambda self, name, node, x: self.weak_integer(x, node)),
    "float": (1, lambda self, name, node, x: self.weak_float(x, node)),
    "bool": (1, lambda self, name, node, x: Number(self.truth(x, node))),
    "pow": (2, lambda self, name, node, x, y: self.binary("pow", x, y, node)),
    "fpow": (2, lambda self, name, node, x, y: self.binary("pow", self.real(x, node), y, node)),
    "square": (1, lambda self, name, node, x: self.binary("pow", x, self.literal(2, node), node)),
    "reciprocal": (
        1,
        lambda self, name, node, x: self.binary("truediv", self.literal(1.0, node), self.real(x, node), node),
    ),
    "degrees": (1, lambda self, name, node, x: self.scaled(x, 180.0 / math.pi, node)),
    "radians": (1, lambda self, name, node, x: self.scaled(x, math.pi / 180.0, node)),
    "clip": (
        3,
        lambda self, name, node, x, low, high: self.minimax(
            "minimum", self.minimax("maximum", x, low, node), high, node
        ),
    ),
}
"""Functions of numbers without a row of their own in the intrinsics: the number of arguments, and the translation."""
