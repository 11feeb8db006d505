"""Expressions of the typed form as scalar C, with the semantics of :mod:`pydp.lang.ir`.

Operations that are undefined in C get defined results: signed arithmetic uses the unsigned type and therefore wraps,
shift counts are tested, division rounds down, division by zero gives 0, and float-to-integer conversion is tested (NaN
and out-of-range values give NumPy's result on x86-64: the smallest int32 or int64). Products and sums are rounded
separately: the templates disable contraction.

`expr` returns text that is safe next to any operator. Expressions that need statements (guarded loads, records,
conditionally evaluated operands) write them to the block first, as named temporaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.errors import InvalidArgument
from pydp.lang import ir
from pydp.lang.intrinsics import BINARY, BITWISE, COMPARISONS, FUNCTIONS
from pydp.lang.ir import Item
from pydp.lang.ir.visit import Visitor
from pydp.lang.opencl.c_text import Block, constant, from_memory, identifier, private_type, to_memory, unsigned_type

Helper = tuple[str, str]


class ScalarC(Visitor):
    """Writes expressions as C. A lowering overrides the leaves: indexes, extents, parameters, loads.

    indexes: expressions may be memory indexes. Integers that may have lost bits are then hidden from one driver's
    compiler (see :meth:`kept`).
    """

    indexes = False

    def __init__(self, block: Block, helpers: set[Helper] | None = None) -> None:
        self.block = block
        self.helpers: set[Helper] = set() if helpers is None else helpers

    # -- hooks of a lowering ------------------------------------------------------------------------------

    def on_other(self, expr: ir.Expr) -> str:
        """The text of a GroupIndex, LocalIndex, GlobalIndex, GridExtent, ArrayExtent or Parameter."""
        raise InvalidArgument(
            f"{type(expr).__name__} is not known in an operator, key or comparison function; expressions of the "
            "function's own parameters are accepted"
        )

    def load(self, expr: ir.Load, path: tuple[str, ...] = ()) -> str:
        """The text of an element of an array, or of its member at `path`."""
        raise InvalidArgument(
            f"{expr.array.name} is an array; an operator, key or comparison function takes numbers and records"
        )

    def variable(self, variable: ir.Variable) -> str:
        return identifier("v_", variable.name)

    # -- expressions ----------------------------------------------------------------------------------------

    def expr(self, expr: ir.Expr) -> str:
        """The C text of `expr`; statements that it needs are written to the block first."""
        text: str = self.visit(expr)
        return text

    def helper(self, kind: str, c_type: str, *arguments: str) -> str:
        """A call of a function of lane_functions.mako; the kernel will contain the function."""
        self.helpers.add((kind, c_type))
        return f"lane_{kind}_{c_type}({', '.join(arguments)})"

    def kept(self, text: str, dtype: np.dtype[Any]) -> str:
        """An integer that may have lost bits, hidden from the compiler: one driver's loop vectorizer assumes wrongly
        that elements at ``counter * 7 % 64`` are consecutive in memory."""
        return self.helper("kept", dtypes.c_name(dtype), text) if self.indexes and dtype.kind in "iu" else text

    def on_const(self, expr: ir.Const) -> str:
        text = constant(expr.value, expr.dtype)
        if expr.dtype.names is None or dtypes.vector_parts(expr.dtype) is not None:
            return text
        return self.block.temporary(
            dtypes.c_name(expr.dtype), text
        )  # one driver crashes on literals with array members

    def on_read(self, expr: ir.Read) -> str:
        return self.variable(expr.variable)

    def on_load(self, expr: ir.Load) -> str:
        return self.load(expr)

    def on_unary(self, expr: ir.Unary) -> str:
        return self.unary(expr.op, self.expr(expr.value), expr.dtype)

    def unary(self, op: str, value: str, dtype: np.dtype[Any]) -> str:
        """The text of Unary(op) for an operand's text."""
        if op == "not" or dtype == np.bool_:
            return f"(!{value})"
        if dtype.kind == "f":
            return f"(-{value})"
        if op == "invert":  # one driver loses complements
            text = self.helper("complement", private_type(dtype) if dtype.itemsize >= 4 else "int", value)
        else:
            text = f"(0u - ({unsigned_type(dtype)}){value})"
        text = f"(({dtypes.c_name(dtype)}){text})"
        return self.kept(text, dtype) if dtype.itemsize < 4 else text

    def on_binary(self, expr: ir.Binary) -> str:
        by = int(expr.right.value) if isinstance(expr.right, ir.Const) and expr.dtype.kind in "iu" else None
        return self.binary(expr.op, self.expr(expr.left), self.expr(expr.right), expr.dtype, by)

    def binary(self, op: str, left: str, right: str, dtype: np.dtype[Any], by: int | None = None) -> str:
        """The text of Binary(op) for two operand texts; `by` is the right operand if it is a constant integer."""
        if by is None or op not in ("shl", "shr", "floordiv", "mod"):
            return self.combine(op, left, right, dtype)
        short = self._by_constant(op, left, by, dtype)
        if short is not None:
            return self.kept(short, dtype) if op != "shl" else short
        # For divisors that are no powers of two, compilers use no mask, or select one of two masked values (-64).
        return self.helper(op, private_type(dtype), left, right)

    def combine(self, op: str, left: str, right: str, dtype: np.dtype[Any]) -> str:
        """The text of Binary(op) for two operand texts that are not constants."""
        c_type, sign = private_type(dtype), BINARY[op].c
        if op in BITWISE:
            text = f"({left} {sign} {right})"
            text = text if dtype.itemsize >= 4 else f"(({c_type}){text})"
            return self.kept(text, dtype) if op == "and" else text
        if op == "pow" and dtype.kind == "f":
            return f"pow({left}, {right})"
        if sign:
            if dtype.kind == "f" or (dtype.kind == "u" and dtype.itemsize >= 4):
                return f"({left} {sign} {right})"
            wide = unsigned_type(dtype)
            text = f"(({c_type})(({wide}){left} {sign} ({wide}){right}))"
            return self.kept(text, dtype) if dtype.itemsize < 4 else text
        text = self.helper(op, c_type, left, right)
        return self.kept(text, dtype) if op in ("mod", "floordiv", "shr") else text

    def _by_constant(self, op: str, left: str, right: int, dtype: np.dtype[Any]) -> str | None:
        """Shifts by a constant, and division and remainder by a power of two (division rounds down, like a shift)."""
        c_type, bits = dtypes.c_name(dtype), 8 * dtype.itemsize
        if op in ("shl", "shr"):
            if not 0 <= right < bits:
                return None
            if op == "shr":
                return f"(({c_type})({left} >> {right}))"
            return f"(({c_type})(({unsigned_type(dtype)}){left} << {right}))"
        if right <= 0 or right & (right - 1):
            return None
        if op == "mod":
            return f"(({c_type})({left} & {constant(right - 1, dtype)}))"
        return f"(({c_type})({left} >> {right.bit_length() - 1}))"

    def on_compare(self, expr: ir.Compare) -> str:
        left, right, dtype = self.expr(expr.left), self.expr(expr.right), expr.left.dtype
        if dtype == np.int64 and expr.op not in ("eq", "ne"):
            left, right = self.helper("order", "long", left), self.helper("order", "long", right)
        if dtype.names is None:
            return self.compare(expr.op, left, right, dtype)
        first = self.block.temporary(dtypes.c_name(dtype), left)
        second = self.block.temporary(dtypes.c_name(dtype), right)
        same = " && ".join(f"{first}{member} == {second}{member}" for member in map(member_text, scalar_paths(dtype)))
        return f"({same})" if expr.op == "eq" else f"(!({same}))"

    def compare(self, op: str, left: str, right: str, dtype: np.dtype[Any]) -> str:
        """The text of Compare(op) for two scalars."""
        return f"({left} {COMPARISONS[op].c} {right})"

    def on_logical(self, expr: ir.Logical) -> str:
        left = self.expr(expr.left)
        right, extra = self._separately(expr.right)
        if not extra.lines:
            return self.logical(expr.op, left, right)
        name = self.block.fresh()
        self.block.line(f"int {name} = {left};")
        self.block.open(f"if ({name if expr.op == 'and' else '!' + name})")
        self.block.extend(extra)
        self.block.line(f"{name} = {right};")
        self.block.close()
        return name

    def logical(self, op: str, left: str, right: str) -> str:
        """The text of Logical(op) for two operand texts."""
        return f"({left} {'&&' if op == 'and' else '||'} {right})"

    def on_select(self, expr: ir.Select) -> str:
        condition = self.expr(expr.condition)
        yes, before_yes = self._separately(expr.yes)
        no, before_no = self._separately(expr.no)
        # Records always use the long form: `?:` on structs crashes one driver.
        if not before_yes.lines and not before_no.lines and expr.dtype.names is None:
            return self.select(condition, yes, no, expr.dtype)
        name = self.block.fresh()
        self.block.line(f"{private_type(expr.dtype)} {name};")
        self.block.open(f"if ({condition})")
        self.block.extend(before_yes)
        self.block.line(f"{name} = {yes};")
        self.block.close()
        self.block.open("else")
        self.block.extend(before_no)
        self.block.line(f"{name} = {no};")
        self.block.close()
        return name

    def select(self, condition: str, yes: str, no: str, dtype: np.dtype[Any]) -> str:
        """The text of Select for operand texts."""
        return f"({condition} ? {yes} : {no})"

    def _separately(self, expr: ir.Expr) -> tuple[str, Block]:
        """The text of `expr` and, in a separate block, the statements that it needs."""
        outer, self.block = self.block, self.block.inner()
        try:
            return self.expr(expr), self.block
        finally:
            self.block = outer

    def on_cast(self, expr: ir.Cast) -> str:
        return self.cast(self.expr(expr.value), expr.value.dtype, expr.dtype)

    def cast(self, value: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
        """The text of a conversion of an operand's text."""
        if source == target:
            return value
        if target == np.bool_:
            return f"({value} != 0)"
        c_type = dtypes.c_name(target)
        widens = source.itemsize < 4 and (target.kind == "f" or target.itemsize > source.itemsize)
        if source.kind in "iu" and (widens or (source == np.int64 and target.kind == "f")):
            value = self.helper("wide", dtypes.c_name(source), value)
        if source.kind == "f" and target.kind in "iu":
            return self.helper(f"{dtypes.c_name(source)}_to", c_type, value)
        text = f"(({c_type}){value})"
        return self.kept(text, target) if target.itemsize < min(4, source.itemsize) else text

    def on_math(self, expr: ir.Math) -> str:
        values = [self.expr(value) for value in expr.values]
        return self.function_of(expr.name, values, expr.values[0].dtype)

    def function_of(self, name: str, values: Sequence[str], dtype: np.dtype[Any]) -> str:
        """The text of Math(name) for operand texts of type `dtype`."""
        row = FUNCTIONS.get(name)
        form = row.c_form(dtype) if row is not None else None
        if row is None or form is None:
            raise InvalidArgument(row.refusal(dtype) if row is not None else f"{name} is not a function of the table")
        kind, _, function = form.rpartition(" ")
        if form in ("", "0", "1"):
            return form or values[0]
        if kind == "lane":
            return self.helper(function, private_type(dtype), *values)
        text = f"{function}({', '.join(typed_operand(one, dtype) for one in values)})"
        return f"({text} != 0)" if row.rule == "test" else text

    def updated(self, op: str, old: str, value: str, dtype: np.dtype[Any]) -> str:
        """The text of the new value of an atomic update."""
        if op in ("min", "max"):
            return self.function_of(op + "imum", [old, value], dtype)
        return self.combine(op, old, value, dtype)

    # -- records ---------------------------------------------------------------------------------------------

    def on_member(self, expr: ir.Member) -> str:
        path: list[str] = []
        root: ir.Expr = expr
        while isinstance(root, ir.Member):
            path.insert(0, root.name)
            root = root.record
        if isinstance(root, ir.Load):
            return self.load(root, tuple(path))
        return from_memory(self.expr(root) + member_text(path), expr.dtype)

    def on_make_record(self, expr: ir.MakeRecord) -> str:
        dtype = expr.dtype
        assert dtype.names is not None and dtype.fields is not None
        values = [self.expr(value) for value in expr.values]
        name = self.block.fresh("r")
        full = sum(dtype.fields[member][0].itemsize for member in dtype.names) == dtype.itemsize
        self.block.line(f"{dtypes.c_name(dtype)} {name}{'' if full else ' = {0}'};")
        for member, value in zip(dtype.names, values, strict=True):
            self.block.line(f"{name}{member_text([member])} = {to_memory(value, dtype.fields[member][0])};")
        return name


def typed_operand(text: str, dtype: np.dtype[Any]) -> str:
    """An operand of an overloaded function, with a cast for narrow integers, which C arithmetic promotes to int."""
    return text if dtype.itemsize >= 4 or dtype.kind == "f" else f"({private_type(dtype)})({text})"


def member_text(path: Iterable[str]) -> str:
    """``.a.b`` for the members at `path`, ``.a[1]`` for items of an array member."""
    return "".join(f"[{name}]" if isinstance(name, Item) else "." + dtypes.c_member(name) for name in path)


def scalar_paths(dtype: np.dtype[Any]) -> list[tuple[str, ...]]:
    """The paths to all scalars inside a record; ``[()]`` for a scalar."""
    if dtype.subdtype is not None:
        inner = scalar_paths(np.dtype((dtype.base, dtype.shape[1:])))
        return [(Item(number), *rest) for number in range(dtype.shape[0]) for rest in inner]
    if dtype.names is None or dtype.fields is None:
        return [()]
    parts = dtypes.vector_parts(dtype)
    names = dtype.names if parts is None else dtype.names[: parts[1]]  # a vector of 3 has a fourth component
    return [(name, *rest) for name in names for rest in scalar_paths(dtype.fields[name][0])]
