"""The intermediate form as text, for `explain`: one line for each statement, with the line number of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydp.lang import ir
from pydp.lang.intrinsics import SYMBOLS, UNARY


def ir_text(function: ir.Function | ir.ValueFunction) -> str:
    """The function as indented text."""
    if isinstance(function, ir.ValueFunction):
        arguments = ", ".join(f"{one.name}: {one.dtype}" for one in function.arguments)
        lines = [f"function {function.name}({arguments}) -> {function.result.dtype}"]
        _declare(function.variables, [], function.privates, lines)
        _block(function.body, 1, lines)
        lines.append(f"    result {expr_text(function.result)}")
        return "\n".join(lines)
    lines = [f"function {function.name}, grid of rank {function.grid_rank}, group {function.group}"]
    for array in function.arrays:
        access = "" if array.writable else " read only"
        lines.append(f"    argument {array.position} {array.name}: field<{array.rank}, {array.dtype}>{access}")
    for parameter in function.parameters:
        item = "" if parameter.item is None else f"[{parameter.item}]"
        lines.append(f"    argument {parameter.position} {parameter.name}{item}: {parameter.dtype}")
    _declare(function.variables, function.locals, function.privates, lines)
    _block(function.body, 1, lines)
    return "\n".join(lines)


def _declare(
    variables: Sequence[ir.Variable],
    shared: Sequence[ir.LocalArray],
    privates: Sequence[ir.PrivateArray],
    lines: list[str],
) -> None:
    lines += [f"    variable {one.name}: {one.dtype}" for one in variables]
    lines += [f"    local {one.name}: {one.dtype}{list(one.shape)}" for one in shared]
    lines += [f"    private {one.name}: {one.dtype}{list(one.shape)}" for one in privates]


def _block(body: Sequence[ir.Stmt], depth: int, lines: list[str]) -> None:
    for statement in body:
        _statement(statement, depth, lines)


def _statement(statement: ir.Stmt, depth: int, lines: list[str]) -> None:
    indent = "    " * depth
    line = f"  # {statement.where.line}" if statement.where.line else ""
    lines.append(f"{indent}{_head(statement)}{line}")
    if isinstance(statement, ir.If):
        _block(statement.then, depth + 1, lines)
        if statement.orelse:
            lines.append(f"{indent}else")
            _block(statement.orelse, depth + 1, lines)
    elif isinstance(statement, (ir.For, ir.While)):
        _block(statement.body, depth + 1, lines)


def _path(members: Sequence[str]) -> str:
    return "".join(f"[{name}]" if isinstance(name, ir.Item) else f".{name}" for name in members)


def _head(statement: ir.Stmt) -> str:
    """The first line of a statement's text."""
    if isinstance(statement, ir.Assign):
        return f"{statement.variable.name}{_path(statement.members)} = {expr_text(statement.value)}"
    if isinstance(statement, ir.Store):
        element = _element(statement.array, statement.indices) + _path(statement.members)
        return f"{element} = {expr_text(statement.value)}"
    if isinstance(statement, ir.Atomic):
        given = "" if statement.old is None else f"{statement.old.name}[0] = "
        element = _element(statement.array, statement.indices)
        return f"{given}atomic {statement.op} {element}, {expr_text(statement.value)}"
    if isinstance(statement, ir.If):
        return f"if {expr_text(statement.condition)}"
    if isinstance(statement, ir.While):
        return f"while {expr_text(statement.condition)}"
    if isinstance(statement, ir.For):
        bounds = ", ".join(expr_text(one) for one in (statement.start, statement.stop, statement.step))
        return f"for {statement.variable.name} in range({bounds})"
    if isinstance(statement, ir.Barrier):
        return "barrier" if statement.width is None else f"barrier of width {expr_text(statement.width)}"
    return "break" if isinstance(statement, ir.Break) else "continue"


def _element(array: ir.Array, indices: Sequence[ir.Expr]) -> str:
    return f"{array.name}[{', '.join(expr_text(index) for index in indices)}]"


def expr_text(expr: ir.Expr) -> str:
    """An expression as text, with parentheses around every operation."""
    write = _WRITERS.get(type(expr))
    return repr(expr) if write is None else write(expr)


def _pair(expr: Any) -> str:
    return f"({expr_text(expr.left)} {SYMBOLS.get(expr.op, expr.op)} {expr_text(expr.right)})"


def _logical(expr: ir.Logical) -> str:
    return f"({expr_text(expr.left)} {expr.op} {expr_text(expr.right)})"


def _select(expr: ir.Select) -> str:
    return f"({expr_text(expr.yes)} if {expr_text(expr.condition)} else {expr_text(expr.no)})"


def _call(name: str, values: Sequence[ir.Expr]) -> str:
    return f"{name}({', '.join(expr_text(value) for value in values)})"


_WRITERS: dict[type, Callable[[Any], str]] = {
    ir.Const: lambda e: f"{e.value}:{e.dtype}" if e.dtype.kind == "f" else f"{e.value}",
    ir.Read: lambda e: str(e.variable.name),
    ir.Parameter: lambda e: e.name if e.item is None else f"{e.name}[{e.item}]",
    ir.GroupIndex: lambda e: f"group[{e.axis}]",
    ir.LocalIndex: lambda e: f"local[{e.axis}]",
    ir.GlobalIndex: lambda e: f"global[{e.axis}]",
    ir.GridExtent: lambda e: f"grid.extent[{e.axis}]",
    ir.ArrayExtent: lambda e: f"{e.array.name}.extent[{e.axis}]",
    ir.Unary: lambda e: f"({UNARY[e.op].symbol}{expr_text(e.value)})",
    ir.Binary: _pair,
    ir.Compare: _pair,
    ir.Logical: _logical,
    ir.Select: _select,
    ir.Cast: lambda e: f"{e.dtype}({expr_text(e.value)})",
    ir.Math: lambda e: _call(e.name, e.values),
    ir.Member: lambda e: expr_text(e.record) + _path((e.name,)),
    ir.MakeRecord: lambda e: _call("record", e.values),
    ir.Load: lambda e: _element(e.array, e.indices),
}
