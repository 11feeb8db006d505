"""Arrays that a vector function makes: local_field and private_field."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.front_calls import Calls
from pydp.lang.result_type import FLOAT32
from pydp.lang.values import Constant, Value, View


class Memory(Calls):
    """One array for each place in the text that makes one, however often the place is passed."""

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
                self.fail(f"the argument {keyword.arg!r} is not taken here", node)
            arguments.insert(0, self._size_or_kind(keyword.value))
        kinds = [value for value in arguments if isinstance(value, Constant)]
        if len(kinds) > 1 or not arguments:
            self.fail(f"{what} takes a dtype and its extents", node)
        dtype = self._dtype(kinds[0], node) if kinds else FLOAT32
        if dtype.kind not in "biufV":
            self.fail(f"{what} cannot be of {dtype}; bool, integers, floats and records are accepted", node)
        rest = [value for value in arguments if not isinstance(value, Constant)]
        shape = self._extents(rest, what, node)
        if min(shape, default=1) < 1:
            self.fail(f"the extents of {what} are 1 or more, not {shape}", node)
        return self.place_key("%array", node), dtype, shape

    def _size_or_kind(self, node: ast.expr) -> Value:
        """An extent, or a dtype, which may be named by a string as in NumPy."""
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
