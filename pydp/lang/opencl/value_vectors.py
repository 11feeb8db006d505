"""A vector function of plain numbers as a C function of OpenCL vectors: each lane has its own values.

Compilers vectorize loops that call a C function of numbers, but not if it calls functions such as tanh. This form calls
them with vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.ir.visit import Visitor
from pydp.lang.opencl import helpers
from pydp.lang.opencl.c_text import Block, constant, identifier
from pydp.lang.opencl.scalar import Helper
from pydp.lang.opencl.value_function import HELPER_CALL
from pydp.lang.opencl.vector_text import StripText
from pydp.runtime.programs import program


class _NoVectors(Exception):
    """The function has a part that this module does not write."""


def lower_vectors(function: ir.ValueFunction, width: int) -> tuple[str, str] | None:
    """(name, text) of the function on vectors of `width` lanes.

    None for loops, records, bool or float16 values in arguments or the result, and functions that are called for each
    lane. Both branches of a condition are computed for all lanes.
    """
    numbers = [*(one.dtype for one in function.arguments), function.result.dtype]
    if function.privates or any(dtype.kind not in "iuf" or dtype == np.float16 for dtype in numbers):
        return None
    writer = _VectorsC(width)
    arguments = {variable.name for variable in function.arguments}
    try:
        for variable in function.variables:
            if variable.name not in arguments:
                writer.declare(variable)
        writer.statements(function.body)
        value = writer.visit(function.result)
    except _NoVectors:
        return None
    if writer.text.maps:
        return None
    params: dict[str, object] = {
        "functions": helpers.text(writer.helpers),
        "result": writer.text.type(function.result.dtype),
        "arguments": [f"{writer.text.type(one.dtype)} {writer.variable(one)}" for one in function.arguments],
        "body": str(writer.block),
        "value": value,
    }
    digest = hashlib.sha1(repr(sorted(params.items())).encode()).hexdigest()[:10]
    name = f"{identifier('f_', function.name if function.name.isidentifier() else 'lambda')}_{digest}"
    text = program.render("value_function.mako", {**params, "name": name})
    return name, HELPER_CALL.sub(f"{name}_lane_", text)


class _VectorsC(Visitor):
    """Writes statements and expressions of numbers. Under a condition, a variable is selected by the mask."""

    def __init__(self, width: int) -> None:
        self.block = Block(1)
        self.helpers: set[Helper] = set()
        self.text = StripText(width, self.helpers)
        self.mask = ""  # of the lanes that run the statement; empty for all

    def variable(self, variable: ir.Variable) -> str:
        """The C name of a variable."""
        return identifier("v_", variable.name)

    def declare(self, variable: ir.Variable) -> None:
        """Declare a variable. Lanes that do not assign it need a value, too."""
        self._check(variable.dtype)
        zero = self.text.splat("0", variable.dtype)
        self.block.line(f"{self.text.type(variable.dtype)} {self.variable(variable)} = {zero};")

    def _check(self, dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "biuf" or dtype == np.float16:
            raise _NoVectors

    def statements(self, body: Sequence[ir.Stmt]) -> None:
        """Write statements."""
        for statement in body:
            self.visit(statement)

    def on_other(self, node: Any) -> str:
        raise _NoVectors

    def on_assign(self, statement: ir.Assign) -> None:
        if statement.members:
            raise _NoVectors
        name, value, dtype = self.variable(statement.variable), self.visit(statement.value), statement.value.dtype
        if self.mask:
            value = self.text.select(self.mask, value, name, dtype)
        self.block.line(f"{name} = {value};")

    def on_if(self, statement: ir.If) -> None:
        outer = self.mask
        asked = self.block.temporary(self.text.mask, self.visit(statement.condition))
        for condition, body in ((asked, statement.then), (f"(~{asked})", statement.orelse)):
            self.mask = self.text.logical("and", outer, condition) if outer else condition
            self.statements(body)
        self.mask = outer

    def on_const(self, expr: ir.Const) -> str:
        self._check(expr.dtype)
        return self.text.splat(constant(expr.value, expr.dtype), expr.dtype)

    def on_read(self, expr: ir.Read) -> str:
        self._check(expr.dtype)
        return self.variable(expr.variable)

    def on_unary(self, expr: ir.Unary) -> str:
        return self.text.unary(expr.op, self.visit(expr.value), expr.dtype)

    def on_binary(self, expr: ir.Binary) -> str:
        self._check(expr.dtype)
        by = int(expr.right.value) if isinstance(expr.right, ir.Const) and expr.dtype.kind in "iu" else None
        return self.text.binary(expr.op, self.visit(expr.left), self.visit(expr.right), expr.dtype, by)

    def on_compare(self, expr: ir.Compare) -> str:
        return self.text.compare(expr.op, self.visit(expr.left), self.visit(expr.right), expr.left.dtype)

    def on_logical(self, expr: ir.Logical) -> str:
        return self.text.logical(expr.op, self.visit(expr.left), self.visit(expr.right))

    def on_select(self, expr: ir.Select) -> str:
        return self.text.select(self.visit(expr.condition), self.visit(expr.yes), self.visit(expr.no), expr.dtype)

    def on_cast(self, expr: ir.Cast) -> str:
        self._check(expr.dtype)
        self._check(expr.value.dtype)
        return self.text.cast(self.visit(expr.value), expr.value.dtype, expr.dtype)

    def on_math(self, expr: ir.Math) -> str:
        values = [self.visit(value) for value in expr.values]
        self._check(expr.dtype)
        return self.text.function_of(expr.name, values, expr.values[0].dtype)
