"""The verifier of the typed form: each pass must leave a function that keeps the rules of :mod:`pydp.lang.ir`.

conftest.py adds `verify` to `pydp.lang.ir.AFTER_PASS`, so it checks the result of every pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pydp.lang import ir
from pydp.lang.intrinsics import BINARY, COMPARISONS, FUNCTIONS, UNARY, result_dtype
from pydp.lang.ir.data import member_dtype
from pydp.lang.ir.types import BOOL, is_integer
from pydp.lang.ir.visit import Visitor


class InvalidForm(AssertionError):
    """A rule that a function in the typed form breaks."""


def verify(function: ir.Function | ir.ValueFunction) -> None:
    """Raise InvalidForm, with the place in the source, for the first rule that the function breaks."""
    checker = _Checker(function)
    checker.block(function.body, inside_loop=False)
    if isinstance(function, ir.ValueFunction):
        checker.expr(function.result)


class _Checker(Visitor):
    def __init__(self, function: ir.Function | ir.ValueFunction) -> None:
        self.function = function
        self.where = function.where
        self.variables = {one.name: one for one in function.variables}
        self.arrays = {one.name for one in function.privates}
        if isinstance(function, ir.ValueFunction):
            self.variables |= {one.name: one for one in function.arguments}
        else:
            self.arrays |= {one.name for one in function.arrays} | {one.name for one in function.locals}

    def need(self, holds: bool, rule: str) -> None:
        """Raise InvalidForm unless the rule holds."""
        if not holds:
            raise InvalidForm(f"{self.function.name}: {rule} ({self.where})")

    def on_other(self, node: ir.Expr | ir.Stmt) -> None:
        """A node without a rule."""

    # --- statements

    def block(self, body: Sequence[ir.Stmt], inside_loop: bool) -> None:
        """Check the statements of a block, and of the blocks inside it."""
        for one in body:
            self.where = one.where
            for expr in ir.expressions(one):
                self.expr(expr)
            self.where = one.where
            self.visit(one)
            if isinstance(one, ir.Break | ir.Continue):
                self.need(inside_loop, f"{type(one).__name__} is outside of a loop")
            for block in ir.blocks(one):
                self.block(block, inside_loop or isinstance(one, ir.For | ir.While))

    def on_assign(self, one: ir.Assign) -> None:
        self._declared(one.variable)
        wanted = member_dtype(one.variable.dtype, one.members)
        self.need(one.value.dtype == wanted, f"{one.variable.name} of {wanted} is assigned {one.value.dtype}")

    def _declared(self, variable: ir.Variable) -> None:
        known = self.variables.get(variable.name)
        self.need(known is not None, f"the variable {variable.name} is not declared")
        self.need(known == variable, f"the variable {variable.name} is declared as {known}, but used as {variable}")

    def on_store(self, one: ir.Store) -> None:
        wanted = member_dtype(one.array.dtype, one.members)
        self.need(one.value.dtype == wanted, f"{one.array.name} of {wanted} is stored {one.value.dtype}")
        self._access(one.array, one.indices)
        if isinstance(one.array, ir.GlobalArray):
            self.need(one.array.writable, f"{one.array.name} is read-only, but it is stored to")

    def on_atomic(self, one: ir.Atomic) -> None:
        self.need(one.op in ("add", "min", "max", "and", "or", "xor"), f"the atomic {one.op} is unknown")
        self.need(one.value.dtype == one.array.dtype, f"{one.array.name} is updated with {one.value.dtype}")
        self._access(one.array, one.indices)

    def _access(self, array: ir.Array, indices: Sequence[ir.Expr]) -> None:
        self.need(array.name in self.arrays, f"{array.name} is not declared")
        rank = array.rank if isinstance(array, ir.GlobalArray) else len(array.shape)
        self.need(len(indices) == rank, f"{array.name} of rank {rank} has {len(indices)} indexes")
        self.need(all(is_integer(one.dtype) for one in indices), f"an index of {array.name} is not an integer")

    def on_if(self, one: ir.If | ir.While) -> None:
        self.need(one.condition.dtype == BOOL, f"a condition is {one.condition.dtype}")

    on_while = on_if

    def on_for(self, one: ir.For) -> None:
        self._declared(one.variable)
        dtypes = {end.dtype for end in (one.start, one.stop, one.step)}
        self.need(dtypes == {one.variable.dtype}, f"the range of {one.variable.name} has {dtypes}")
        self.need(not (isinstance(one.step, ir.Const) and one.step.value == 0), "the step of a loop is 0")

    # --- expressions

    def expr(self, expr: ir.Expr) -> None:
        """Check an expression, with an explicit stack: sums may have thousands of terms."""
        pending = [expr]
        while pending:
            one = pending.pop()
            self.visit(one)
            pending += ir.children(one)

    def on_read(self, expr: ir.Read) -> None:
        self._declared(expr.variable)
        self.need(expr.dtype == expr.variable.dtype, f"{expr.variable.name} is read as {expr.dtype}")

    def on_unary(self, expr: ir.Unary) -> None:
        self.need(expr.op in UNARY, f"the operator {expr.op} is unknown")
        self.need(expr.dtype == expr.value.dtype, f"{expr.op} of {expr.value.dtype} gives {expr.dtype}")
        self.need((expr.op == "not") == (expr.dtype == BOOL), f"{expr.op} is applied to {expr.dtype}")

    def on_binary(self, expr: ir.Binary) -> None:
        self.need(expr.op in BINARY, f"the operator {expr.op} is unknown")
        found = (expr.left.dtype, expr.right.dtype)
        self.need(found == (expr.dtype, expr.dtype), f"{expr.op} of {found[0]} and {found[1]} gives {expr.dtype}")

    def on_compare(self, expr: ir.Compare) -> None:
        self.need(expr.op in COMPARISONS and expr.dtype == BOOL, f"{expr.op} gives {expr.dtype}")
        found = (expr.left.dtype, expr.right.dtype)
        self.need(found[0] == found[1], f"{found[0]} is compared with {found[1]}")

    def on_logical(self, expr: ir.Logical) -> None:
        found = {expr.dtype, expr.left.dtype, expr.right.dtype}
        self.need(found == {BOOL} and expr.op in ("and", "or"), f"{expr.op} of {found}")

    def on_select(self, expr: ir.Select) -> None:
        self.need(expr.condition.dtype == BOOL, f"a condition is {expr.condition.dtype}")
        found = {expr.dtype, expr.yes.dtype, expr.no.dtype}
        self.need(len(found) == 1, f"a choice between {expr.yes.dtype} and {expr.no.dtype} gives {expr.dtype}")

    def on_cast(self, expr: ir.Cast) -> None:
        names = expr.dtype.names or expr.value.dtype.names
        self.need(not names or expr.dtype == expr.value.dtype, "a record is converted")

    def on_math(self, expr: ir.Math) -> None:
        row = FUNCTIONS.get(expr.name)
        self.need(row is not None, f"the function {expr.name} is unknown")
        assert row is not None
        own = expr.values[0].dtype
        self.need(len(expr.values) == row.arity, f"{expr.name} has {len(expr.values)} arguments")
        self.need(not row.refusal(own), row.refusal(own))
        second = np.dtype(f"u{own.itemsize}") if row.rule == "double" else own
        wanted = [own, *[second] * (row.arity - 1)]
        self.need([one.dtype for one in expr.values] == wanted, f"the arguments of {expr.name} have different types")
        self.need(expr.dtype == result_dtype(row.rule, own), f"{expr.name} of {own} gives {expr.dtype}")

    def on_member(self, expr: ir.Member) -> None:
        self.need(expr.dtype == member_dtype(expr.record.dtype, (expr.name,)), f"{expr.name} is read as {expr.dtype}")

    def on_make_record(self, expr: ir.MakeRecord) -> None:
        names = expr.dtype.names or ()
        self.need(len(names) == len(expr.values), f"a record of {len(names)} members has {len(expr.values)} values")
        for name, value in zip(names, expr.values, strict=True):
            wanted = member_dtype(expr.dtype, (name,))
            self.need(value.dtype == wanted, f"the member {name} of {wanted} gets {value.dtype}")

    def on_load(self, expr: ir.Load) -> None:
        self.need(expr.dtype == expr.array.dtype, f"{expr.array.name} is read as {expr.dtype}")
        self._access(expr.array, expr.indices)
