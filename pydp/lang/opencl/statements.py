"""Statements of the typed form as scalar C: control flow and assignments, for kernels and for functions of values.

A lowering adds array arguments, atomics and barriers. Loops have Python's semantics: bounds are evaluated once, the
loop's counter is separate from the variable of the body, and no counter overflows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from pydp import dtypes
from pydp.errors import InvalidArgument
from pydp.lang import ir
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import Block, constant, from_memory, identifier, private_type, to_memory
from pydp.lang.opencl.scalar import Helper, ScalarC, member_text

_EXTENTS = (ir.Const, ir.ArrayExtent, ir.GridExtent)


class BodyC(ScalarC):
    """Writes statements, and elements of private arrays.

    loop_guarded: set the variable `overran` if a loop ends although neither its condition nor a break ended it; one
    driver ends long loops this way. Before each iteration, `*ended` is the number of the loop; a regular end sets it to
    0. It is in volatile global memory, because a compiler would otherwise deduce its value after the loop.
    """

    loop_guarded = False
    private = ""  # prefix of the declarations of private arrays

    def __init__(self, block: Block, helpers: set[Helper] | None = None) -> None:
        super().__init__(block, helpers)
        self._ends: list[int] = []
        self._numbers = itertools.count(1)

    # -- hooks of a lowering ------------------------------------------------------------------------------

    def on_atomic(self, statement: ir.Atomic) -> None:
        raise InvalidArgument(
            "an operator, key or comparison function has no atomic updates; it takes numbers and gives one"
        )

    def on_barrier(self, statement: ir.Barrier) -> None:
        raise InvalidArgument(
            "an operator, key or comparison function has no barriers; it is called by each lane for itself"
        )

    def global_element(self, array: ir.GlobalArray, indices: Sequence[str]) -> tuple[str, str]:
        """(condition that the element is in bounds or "", text of the element)."""
        raise InvalidArgument(
            f"{array.name} is an array; an operator, key or comparison function takes numbers and records"
        )

    def store_condition(self, inside: str) -> str:
        """The condition of a write to a global array; `inside`: the condition that the element is in bounds."""
        return inside

    def array_name(self, array: ir.Array) -> str:
        return identifier("l_" if isinstance(array, ir.LocalArray) else "q_", array.name)

    def extents(self, array: ir.LocalArray | ir.PrivateArray) -> tuple[int, ...]:
        """The extents of the field in memory: its shape, or a shape with padded rows."""
        return array.shape

    # -- arrays ---------------------------------------------------------------------------------------------

    def place(self, array: ir.Array, indices: Sequence[ir.Expr]) -> tuple[str, str]:
        """(condition, text) of an array's element; local and private arrays need no condition."""
        if isinstance(array, ir.GlobalArray):
            return self.global_element(array, [self.kept_index(index) for index in indices])
        texts = [self.expr(index) for index in indices]
        flat = "0"
        for size, text in zip(self.extents(array), texts, strict=True):
            flat = text if flat == "0" else f"({flat} * {size} + {text})"
        return "", f"{self.array_name(array)}[{flat}]"

    def kept_index(self, index: ir.Expr) -> str:
        """The text of an index for several uses."""
        text = self.expr(index)
        if isinstance(index, (ir.Const, ir.Read)) or text.isidentifier():
            return text
        return self.block.temporary(private_type(index.dtype), text)

    def load(self, expr: ir.Load, path: tuple[str, ...] = ()) -> str:
        inside, element = self.place(expr.array, expr.indices)
        dtype = member_dtype(expr.array.dtype, path)
        element = from_memory(element + member_text(path), dtype)
        if not inside:
            return element
        assert isinstance(expr.array, ir.GlobalArray)
        fill = fill_text(expr.array, path)
        name = self.block.fresh()
        self.block.line(f"{private_type(dtype)} {name} = {fill};")
        self.block.line(f"if ({inside}) {name} = {element};")
        return name

    # -- statements -----------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ir.Stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def declare(self, variables: Sequence[ir.Variable], privates: Sequence[ir.PrivateArray]) -> None:
        """Declare a function's variables and private arrays."""
        for variable in variables:
            self.block.line(f"{private_type(variable.dtype)} {self.variable(variable)};")
        for array in privates:
            size = int(np.prod(array.shape, dtype=np.int64))
            self.block.line(f"{self.private}{dtypes.c_name(array.dtype)} {self.array_name(array)}[{size}];")

    def on_assign(self, statement: ir.Assign) -> None:
        value = self.expr(statement.value)
        target = self.variable(statement.variable) + member_text(statement.members)
        self.block.line(f"{target} = {to_memory(value, statement.value.dtype) if statement.members else value};")

    def on_store(self, statement: ir.Store) -> None:
        inside, element = self.place(statement.array, statement.indices)
        value = to_memory(self.expr(statement.value), statement.value.dtype)
        if isinstance(statement.array, ir.GlobalArray):
            inside = self.store_condition(inside)
        condition = f"if ({inside}) " if inside else ""
        self.block.line(f"{condition}{element}{member_text(statement.members)} = {value};")

    def on_if(self, statement: ir.If) -> None:
        self.block.open(f"if ({self.expr(statement.condition)})")
        self.statements(statement.then)
        self.block.close()
        if statement.orelse:
            self.block.open("else")
            self.statements(statement.orelse)
            self.block.close()

    def on_while(self, statement: ir.While) -> None:
        condition, before = self._separately(statement.condition)
        if before.lines or self.loop_guarded:
            self._open_loop("", condition, "", before)
        else:
            self.block.open(f"while ({condition})")
        self.statements(statement.body)
        self._close_loop()

    def _open_loop(self, first: str, condition: str, step: str, before: Block | None = None) -> None:
        """Open a loop; the statements of `before` run before each test of the condition."""
        if before is None and not self.loop_guarded:
            self.block.open(f"for ({first}; {condition}; {step})")
            return
        self.block.open(f"for ({first}; ; {step})")
        if before is not None:
            self.block.extend(before)
        if self.loop_guarded:
            self._ends.append(next(self._numbers))
            going = self.block.temporary("int", condition)
            self.block.line(f"*ended = {going} ? {self._ends[-1]} : 0;")
            condition = going
        self.block.line(f"if (!({condition})) break;")

    def _close_loop(self) -> None:
        self.block.close()
        if self.loop_guarded:
            self.block.line(f"if (*ended == {self._ends.pop()}) overran = 1;")
            if self._ends:
                self.block.line(f"*ended = {self._ends[-1]};")

    def on_for(self, statement: ir.For) -> None:
        variable = statement.variable
        c_type = private_type(variable.dtype)
        start, counter = self.expr(statement.start), self.block.fresh("c")
        stop = self.kept_index(statement.stop)
        step = constant_step(statement)
        if step is not None:
            sign = "<" if step > 0 else ">"
            self._open_loop(f"{c_type} {counter} = {start}", f"{counter} {sign} {stop}", f"{counter} += {step}")
        else:
            first = self.block.temporary(c_type, start)
            by = self.kept_index(statement.step)
            trips = self.block.temporary(f"u{c_type}", self.helper("trips", c_type, first, stop, by))
            number = self.block.fresh("n")
            following = f"{counter} = ({c_type})((u{c_type}){counter} + (u{c_type}){by})"
            self.block.line(f"{c_type} {counter} = {first};")
            self._open_loop(f"u{c_type} {number} = 0", f"{number} < {trips}", f"{number}++, {following}")
        self.block.line(f"{self.variable(variable)} = {counter};")
        self.statements(statement.body)
        self._close_loop()

    def on_break(self, statement: ir.Break) -> None:
        if self.loop_guarded:
            self.block.line("*ended = 0;")
        self.block.line("break;")

    def on_continue(self, statement: ir.Continue) -> None:
        self.block.line("continue;")


def constant_step(loop: ir.For) -> int | None:
    """The loop's step if it is constant and the counter cannot overflow, else None."""
    if not isinstance(loop.step, ir.Const):
        return None
    step, stop = int(loop.step.value), loop.stop
    if abs(step) == 1:
        return step
    limit = np.iinfo(loop.variable.dtype)
    if isinstance(stop, ir.Const):
        return step if limit.min <= int(stop.value) + step <= limit.max else None
    # Extents are at most half the index type's maximum (the call site checks this) and not negative.
    return step if isinstance(stop, _EXTENTS) and abs(step) < limit.max // 2 else None


def fill_text(array: ir.GlobalArray, path: Sequence[str] = ()) -> str:
    """C text of the value that a load outside the array's extents gives."""
    dtype = array.dtype
    value = array.fill
    if dtype.names is not None:
        cell = np.zeros((), dtype)
        if value is not None and not (np.isscalar(value) and value == 0):
            cell[()] = value
        value = ir.member_of(cell, dtype, path)[()]
    return constant(value, member_dtype(dtype, path))
