"""Calls with effects: local and private fields, barriers, atomic operations."""

from __future__ import annotations

import ast
from functools import partialmethod
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.calls import Calls
from pydp.lang.frontend.values import Constant, Number, Value, View, describe
from pydp.lang.frontend.view_lowering import Element
from pydp.lang.ir.types import FLOAT32


class Memory(Calls):
    """Local and private fields: one array for each call in the source, even inside a loop."""

    def _pydp_local_field(self, node: ast.Call) -> Value:
        self.need_group("local_field", node)
        key, dtype, shape = self._new_array("a local_field", node)
        if key not in self.locals:
            name = self.unique(key, self.naming or "shared")
            self.locals[key] = ir.LocalArray(name, dtype, shape, self.where(node))
        return self.whole(self.locals[key], shape)

    def _pydp_private_field(self, node: ast.Call) -> Value:
        key, dtype, shape = self._new_array("a private_field", node)
        if key not in self.privates:
            name = self.unique(key, self.naming or "own")
            self.privates[key] = ir.PrivateArray(name, dtype, shape, self.where(node))
        return self.whole(self.privates[key], shape)

    def _new_array(self, what: str, node: ast.Call) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
        """The dtype and extents of local_field(dtype, *extents) or local_field(extents, dtype)."""
        arguments = [self._size_or_kind(argument) for argument in node.args]
        for keyword in node.keywords:
            if keyword.arg != "dtype":
                self.fail(f"{what} has no keyword argument {keyword.arg!r}; dtype is accepted", node)
            arguments.insert(0, self._size_or_kind(keyword.value))
        kinds = [value for value in arguments if isinstance(value, Constant)]
        if len(kinds) > 1 or not arguments:
            self.fail(f"{what} takes one dtype and its extents", node)
        dtype = self._dtype(kinds[0], node) if kinds else FLOAT32
        if dtype.kind not in "biufV":
            self.fail(f"{what} cannot have dtype {dtype}; bool, integers, floats and records are accepted", node)
        rest = [value for value in arguments if not isinstance(value, Constant)]
        shape = self._extents(rest, what, node)
        if min(shape, default=1) < 1:
            self.fail(f"the extents of {what} are {shape}; 1 or more is accepted", node)
        return self.place_key("%array", node), dtype, shape

    def _size_or_kind(self, node: ast.expr) -> Value:
        """An extent or a dtype; a string names a dtype, as in NumPy."""
        name = self.key(node)
        if name is None:
            return self.value(node)
        try:
            return Constant(np.dtype(name))
        except TypeError:
            self.fail(f"{name!r} is not the name of a dtype; np.float32, 'float32' or 'f4' are accepted", node)

    def whole(self, array: ir.Array, shape: tuple[int, ...]) -> View:
        zero = self.integer(0)
        sizes = tuple(self.integer(size) for size in shape)
        return View(array, tuple(range(len(shape))), (zero,) * len(shape), sizes)


class Effects(Memory):
    """Barriers (their value is None) and atomics (their value is the old value of the element)."""

    def _pydp_group_barrier(self, node: ast.Call) -> Value:
        self.need_group("group_barrier", node)
        arguments = [*node.args, *(item.value for item in node.keywords if item.arg == "width")]
        if len(arguments) > 1 or len(arguments) < len(node.args) + len(node.keywords):
            self.fail("group_barrier takes one argument, the width", node)
        width: ir.Expr | None = None
        if arguments and not (isinstance(arguments[0], ast.Constant) and arguments[0].value is None):
            width = self.index_number(self.value(arguments[0]), "the width of a barrier", node).expr
        self.emit(ir.Barrier(self.where(node), width, self.barriers))
        self.barriers += 1
        return Constant(None)

    def _atomic(self, op: str, node: ast.Call) -> Value:
        if node.keywords or len(node.args) not in (2, 3):
            self.fail(f"{ast.unparse(node.func)} takes an array, an index and a value", node)
        if len(node.args) == 3:
            base, index, value = self.each(node.args)
            if not isinstance(base, View):
                self.fail(f"the first argument of {ast.unparse(node.func)} is {describe(base)}, not an array", node)
            element: Value | Element = self.at(base, [index], node)
        else:
            value = self.value(node.args[1])
            element = self.place(node.args[0])
        if not isinstance(element, Element):
            self.fail(f"{ast.unparse(node.func)} needs an element of an array, not {describe(element)}", node)
        return self._emit_atomic(op, element, self.as_number(value, node), node)

    def _emit_atomic(self, op: str, element: Element, number: Number, node: ast.Call) -> Value:
        array = element.view.array
        self.check_writable(element, node)
        allowed = "iu" if op in ("and", "or", "xor") else "iuf"
        if isinstance(array, ir.PrivateArray) or array.dtype.kind not in allowed:
            what = "a private_field" if isinstance(array, ir.PrivateArray) else f"an array of {array.dtype}"
            self.fail(f"{ast.unparse(node.func)} cannot change {what}", node)
        if number.expr.dtype.kind == "f" and array.dtype.kind != "f":
            self.fail(
                f"{ast.unparse(node.func)} cannot combine an array of {array.dtype} with {number.type}, because the "
                "fraction would be lost; write int(x), or use an array of floats",
                node,
            )
        if op == "sub":
            op, number = "add", self.unary("neg", Number(self.convert(number, array.dtype, node)), node)
        expr = self.convert(number, array.dtype, node)
        where, old = self.where(node), None if node is self.discarded else self._old_value(array.dtype, node)
        statement = ir.Atomic(where, op, array, element.indices, expr, element.bounds, element.exact, old)
        self.emit(statement if element.guard is None else ir.If(where, element.guard, [statement]))
        if old is None:
            return Constant(None)
        found = ir.Load(old.dtype, old, (self.integer(0),), where=where)
        return self.temporary(Number(found), "found", node)

    def _old_value(self, dtype: np.dtype[Any], node: ast.Call) -> ir.PrivateArray:
        """The private array for the old value of an atomic; 0 if the update is dropped."""
        key = self.place_key("%old", node)
        if key not in self.privates:
            self.privates[key] = ir.PrivateArray(self.unique(key, "old"), dtype, (1,), self.where(node))
        old = self.privates[key]
        self.emit(ir.Store(self.where(node), old, (self.integer(0),), ir.Const(dtype, 0)))
        return old

    _pydp_atomic_add = partialmethod(_atomic, "add")
    _pydp_atomic_sub = partialmethod(_atomic, "sub")
    _pydp_atomic_min = partialmethod(_atomic, "min")
    _pydp_atomic_max = partialmethod(_atomic, "max")
    _pydp_atomic_and = partialmethod(_atomic, "and")
    _pydp_atomic_or = partialmethod(_atomic, "or")
    _pydp_atomic_xor = partialmethod(_atomic, "xor")
