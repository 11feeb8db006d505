"""Whole functions: the body of the kernel, arguments, results, and inlining of calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.state import Frame
from pydp.lang.frontend.statements import Statements
from pydp.lang.frontend.values import Constant, Number, Value, arguments_text, describe, map_numbers, same_shape
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.ir.types import BOOL, FLOAT32, FLOAT64, Type
from pydp.lang.source.names import python_function
from pydp.lang.source.syntax import Tree, source_of


class Translator(Statements):
    """The complete translator; see :func:`pydp.lang.compile.translate`."""

    # --- arguments

    def give_argument(self, name: str, value: Value, node: ast.AST) -> None:
        """Bind an argument; an argument that the body assigns gets its own variable."""
        frame = self.frame
        if frame.source.facts.store_counts[name]:
            self.bind(name, value, node)
            return
        frame.bindings[name] = map_numbers(value, lambda number, suffix: self._passed(name, number, suffix, node))
        assert self.assigned is not None
        self.assigned.add(frame.prefix + name)

    def _passed(self, name: str, number: Number, suffix: str, node: ast.AST) -> Number:
        if isinstance(number.expr, ir.Read) or self.is_stable(number.expr):
            return number
        return self.assign(f"{self.frame.prefix}{name}{suffix}", name + suffix, number, node)

    def give_defaults(self, names: Sequence[str], given: int) -> None:
        """Bind the defaults of arguments that the call omits."""
        defaults = self.frame.function.__defaults__ or ()
        missing = names[given:]
        for name, value in zip(missing, defaults[len(defaults) - len(missing) :], strict=True):
            tree = self.frame.source.tree
            self.give_argument(name, self.from_python(value, f"the default of {name!r}", tree), tree)

    def value_argument(self, name: str, dtype: np.dtype[Any], node: ast.AST) -> ir.Variable:
        """Bind an argument of a function of values to a variable that is set before the body runs."""
        if dtype.kind not in "biufV" or dtype.hasobject:
            self.fail(f"{name!r} has dtype {dtype}; bool, integers, floats and records are accepted", node)
        frame = self.frame
        changed = frame.source.facts.store_counts[name] > 0
        variable = self.variable(f"argument {name}", name, dtype)
        number = Number(ir.Read(dtype, variable))
        if changed:
            self.bind(name, number, node)
        else:
            frame.bindings[name] = number
            assert self.assigned is not None
            self.assigned.add(name)
        return variable

    def parameter_float(self, name: str, node: ast.AST) -> np.dtype[Any]:
        """The type of a Python float argument: float64 if an array is float64 or its use needs it, else float32."""
        key = f"parameter {name}"
        self.shared.names.setdefault(key, name)
        start = FLOAT64 if self.double_arrays else FLOAT32
        return self.note_type(key, Type(start, True), self.where(node), name).dtype

    # --- bodies and results

    def translate_function(self, body: Sequence[ast.stmt]) -> None:
        """Translate the statements of a function, after clearing its `done` flag if it has one."""
        key = f"{self.frame.prefix}%done"
        if key in self.shared.flags:
            done = self.variable(key, "done", BOOL)
            self.emit(ir.Assign(self.where(body[0]), done, ir.Const(BOOL, False)))
        self.translate_block(body)

    def function_result(self, body: Sequence[ast.stmt]) -> Value:
        """Translate the statements of a function and give its return value."""
        last = body[-1]
        if isinstance(last, ast.Return) and not any(map(self.frame.source.facts.has_return, body[:-1])):
            self.translate_function(body[:-1] or [ast.copy_location(ast.Pass(), last)])
            if self.assigned is None or last.value is None:
                self.fail("the function returns no value", last)
            return self.value(last.value)
        self.translate_function(body)
        if self.assigned is not None and self.frame.result is not None:
            self.fail("the function may end without a return; return a value on every path", last)
        if self.frame.result is None:
            self.fail("the function returns no value", last)
        return self.frame.result

    def lambda_or_function(self, tree: Tree) -> Value:
        """Translate the body of a function of values and give its result."""
        return self.value(tree.body) if isinstance(tree, ast.Lambda) else self.function_result(tree.body)

    def take_result(self, value: Value, node: ast.AST) -> None:
        """Translate a ``return value`` that is not the last statement: store the value in the result variables."""
        frame = self.frame
        if frame.result is not None and not same_shape(frame.result, value):
            self.fail(f"the function returns {describe(value)} here, but {describe(frame.result)} elsewhere", node)
        frame.result = map_numbers(
            value, lambda number, suffix: self.assign(f"{frame.prefix}%result{suffix}", "result", number, node)
        )

    # --- calls of the user's functions

    def inline(self, function: FunctionType, node: ast.Call) -> Value:
        """Inline a call: bind the arguments, translate the body, and give the result."""
        outer = self.frame
        function = python_function(function)
        if function.__code__ in outer.codes:
            self.fail(f"{function.__name__} calls itself, and recursion cannot be translated; write a loop", node)
        source = source_of(function)
        values = self._arguments(function, node)
        prefix = f"{self.place_key(function.__name__, node)}/"
        frame = Frame(source, function, prefix, (*outer.codes, function.__code__), False, arguments=frozenset(values))
        before = self.assigned
        self.assigned = set(before or ())
        self.frame = frame
        try:
            for name, value in values.items():
                self.give_argument(name, value, source.tree)
            names = [item.arg for item in (*source.tree.args.posonlyargs, *source.tree.args.args)]
            for name, value in zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False):
                if name not in values:
                    self.give_argument(name, self.from_python(value, repr(name), source.tree), source.tree)
            return self._inlined_body(source.tree)
        except VectorError as error:
            error.called_at(outer.source.where(node))
            raise
        finally:
            self.frame = outer
            self.assigned = before

    def _inlined_body(self, tree: Tree) -> Value:
        if isinstance(tree, ast.Lambda) or self.frame.source.facts.returns_value:
            return self.lambda_or_function(tree)
        self.translate_function(tree.body)
        return Constant(None)

    def _arguments(self, function: FunctionType, node: ast.Call) -> dict[str, Value]:
        """The values of the call by argument name."""
        tree = source_of(function).tree
        arguments = tree.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
            self.fail(
                f"{function.__name__} has *args, **kwargs or keyword-only arguments; inside a vector function, only "
                "functions with positional arguments can be called",
                node,
            )
        names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
        for item in node.args:
            if isinstance(item, ast.Starred):
                self.fail("starred arguments cannot be used in a vector function; pass each value: f(i[0], i[1])", item)
        nodes = dict(zip(names, node.args, strict=False))
        if len(node.args) > len(names):
            self.fail(f"{function.__name__} takes {arguments_text(len(names))}, not {len(node.args)}", node)
        for keyword in node.keywords:
            if keyword.arg not in names or keyword.arg in nodes:
                self.fail(f"{function.__name__} has no argument {keyword.arg!r}, or it is given twice", node)
            nodes[keyword.arg] = keyword.value
        needed = names[: len(names) - len(arguments.defaults)]
        missing = [name for name in needed if name not in nodes]
        if missing:
            self.fail(f"the call of {function.__name__} lacks the argument {missing[0]!r}", node)
        return dict(zip(nodes, self.each(list(nodes.values())), strict=True))
