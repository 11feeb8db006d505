"""Expressions of the language: from syntax tree to values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.records import SELECT_LIMIT, Records
from pydp.lang.frontend.values import Constant, Items, Number, Value, View, describe, map_numbers
from pydp.lang.frontend.view_lowering import Element
from pydp.lang.ir.types import BOOL
from pydp.lang.source.names import MISSING, look_up
from pydp.space import Extent, Index

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
_REFUSED: dict[type[ast.expr], tuple[str, str]] = {
    ast.JoinedStr: ("a formatted string", "compute numbers here and print them outside"),
    ast.List: ("a list", "use a tuple, or pydp.private_field for an array of one lane"),
    ast.Dict: ("a dict", "use a record, pydp.record(dtype, member=value), or several variables"),
    ast.Set: ("a set", "use a tuple or comparisons"),
    ast.ListComp: ("a list comprehension", "write a for loop over range"),
    ast.SetComp: ("a set comprehension", "write a for loop over range"),
    ast.DictComp: ("a dict comprehension", "write a for loop over range"),
    ast.GeneratorExp: ("a generator expression", "write a for loop over range"),
    ast.Lambda: ("a lambda", "define the function outside and call it by its name"),
    ast.NamedExpr: ("an assignment inside an expression", "write the assignment as a statement before"),
    ast.Await: ("await", "remove it; lanes never wait for a coroutine"),
    ast.Yield: ("yield", "store results in an array"),
    ast.YieldFrom: ("yield from", "store results in an array"),
    ast.Starred: ("a starred expression", "write the items out"),
    ast.Slice: ("a slice", "use pydp.section(x, start, extent), or index one element"),
}


MOST_NESTED = 64


class Expressions(Records):
    """Values of syntax tree nodes."""

    def value(self, node: ast.expr) -> Value:
        """The value of an expression; array elements are loaded."""
        found = self.place(node)
        if isinstance(found, Element):
            return self.load(found)
        return self.in_parts(found, "part", node) if isinstance(found, Number) else found

    def place(self, node: ast.expr) -> Value | Element:
        """The value of an expression; array elements are not loaded yet."""
        method: Callable[[Any], Value | Element] | None = getattr(self, f"_on_{type(node).__name__}", None)
        if method is not None:
            if self.nesting >= MOST_NESTED:
                self.fail(
                    f"this expression is nested more than {MOST_NESTED} levels deep; assign parts of it to names", node
                )
            self.nesting, self.latest = self.nesting + 1, node
            found = method(node)
            self.nesting -= 1
            return found
        what, advice = _REFUSED.get(type(node), (f"{type(node).__name__} syntax", "remove it"))
        self.fail(f"{what} cannot be used in a vector function; {advice}", node)

    def number(self, node: ast.expr) -> Number:
        return self.as_number(self.value(node), node)

    def each(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """The values of several expressions; each is read before the side effects of the next."""
        values: list[Value] = []
        for node in nodes:
            values = self.with_next(values, node)
        return values

    def with_next(self, values: list[Value], node: ast.expr) -> list[Value]:
        """`values` and the value of `node`; `values` are read before the side effects of `node`."""
        mark = len(self.block)
        value = self.value(node)
        return [*self.read_before(mark, values, node), value]

    def read_before(self, mark: int, values: list[Value], node: ast.AST) -> list[Value]:
        """The values before the statements from `mark` on; held in variables if those statements have side effects."""
        tail = self.block[mark:]
        if any(map(_has_effect, ir.statements(tail))):
            del self.block[mark:]
            values = [self._copy_reads(item, f"read{k}", node) for k, item in enumerate(values)]
            self.block.extend(tail)
        return values

    def _copy_reads(self, value: Value, tag: str, node: ast.AST) -> Value:
        """The value, with each number that reads an array copied to a variable."""

        def held(number: Number, suffix: str) -> Number:
            reads = any(isinstance(item, ir.Load) for item in ir.walk(number.expr))
            return self.temporary(number, tag + suffix, node) if reads else number

        return map_numbers(value, held)

    # --- names and constants

    def _on_Name(self, node: ast.Name) -> Value:
        frame = self.frame
        name = node.id
        if name in frame.bindings and (self.assigned is None or frame.prefix + name in self.assigned):
            return frame.bindings[name]
        if name in frame.source.facts.local_names:
            self.fail(f"{name!r} may be unassigned here; assign it on every path to this line", node)
        found = look_up(frame.function, name)
        if found is MISSING:
            self.fail(f"the name {name!r} is not defined", node)
        return self.from_python(found, repr(name), node)

    def from_python(self, found: Any, what: str, node: ast.AST) -> Value:
        """Convert a Python object from an enclosing scope to a value."""
        if isinstance(found, bool | int | float) and not isinstance(found, np.generic):
            kind = next(kind for kind in (bool, int, float) if isinstance(found, kind))
            return self.literal(kind(found), node)
        if isinstance(found, np.generic):
            if found.dtype.kind not in "biufV" or found.dtype.hasobject:
                self.fail(f"{what} is a {found.dtype} number; bool, integers, floats and records are accepted", node)
            return Number(ir.Const(found.dtype.newbyteorder("="), found if found.dtype.names else found.item()))
        if isinstance(found, tuple):
            items = tuple(self.from_python(item, what, node) for item in found)
            return Items(items, isinstance(found, Extent | Index))
        if isinstance(found, list | dict | set):
            self.fail(f"{what} is a {type(found).__name__}; use a tuple in a vector function", node)
        if isinstance(found, np.ndarray) or (hasattr(found, "__array__") and not isinstance(found, type)):
            return self._table(found, what, node)
        if isinstance(found, str | bytes):
            self.fail(f"{what} is a string; numbers, tuples, dtypes and functions are accepted", node)
        if found is None:
            self.fail("None cannot be used in a vector function; use a number", node)
        return Constant(found)

    def _table(self, found: Any, what: str, node: ast.AST) -> Value:
        """A small NumPy array from an enclosing scope, as constants that are read like an array member."""
        usable = type(found) is np.ndarray and not found.dtype.hasobject
        if not usable or not 1 <= found.size <= SELECT_LIMIT:
            self.fail(
                f"{what} is an array from an enclosing scope; pass it to the function as an argument. Only NumPy "
                f"arrays of 1 to {SELECT_LIMIT} elements are accepted as constants",
                node,
            )
        if not found.ndim:
            return self.from_python(found[()], what, node)
        items = tuple(self.from_python(item, what, node) for item in found.copy())
        return Items(items, True, member=what.strip("'"), constant=True)

    def _on_Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, complex):
            self.fail("complex numbers cannot be used in a vector function; use two floats", node)
        if node.value is Ellipsis:
            self.fail("... cannot be used in a vector function; index every axis", node)
        return self.from_python(node.value, repr(node.value), node)

    def _on_Tuple(self, node: ast.Tuple) -> Value:
        return Items(tuple(self.each(node.elts)))

    # --- operators

    def _on_BinOp(self, node: ast.BinOp) -> Value:
        """Binary operators; a chain is translated in a loop, because a long sum is as deep as it has terms."""
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        result = self.value(chain[-1].left)
        for part in reversed(chain):
            op = BINARY.get(type(part.op))
            if op is None:
                self.fail("@ cannot be used in a vector function; write a loop, or call pydp.matmul outside", part)
            left, right = self.with_next([result], part.right)
            result = self.operate(op, left, right, part)
            if isinstance(result, Number):
                result = self.in_parts(result, "part", part)
        return result

    def _on_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Number(self.negate(self.condition(node.operand)))
        value = self.value(node.operand)
        op = _UNARY[type(node.op)]
        if isinstance(value, Items) and value.index and not value.lane:
            return Items(tuple(self.unary(op, self.as_number(item, node), node) for item in value.items), True)
        return self.unary(op, self.as_number(value, node.operand), node)

    def _on_BoolOp(self, node: ast.BoolOp) -> Value:
        return self._joined(node, tested=False)

    def _joined(self, node: ast.BoolOp, tested: bool) -> Number:
        """a and b ..., a or b ...; operands are booleans, or any numbers if the whole is a condition (`tested`)."""
        op = "and" if isinstance(node.op, ast.And) else "or"
        return self._chain(op, [partial(self._joint, item, op, tested) for item in node.values], node)

    def _joint(self, node: ast.expr, op: str, tested: bool) -> ir.Expr:
        value = self._joined(node, tested) if isinstance(node, ast.BoolOp) else self.value(node)
        if not tested and isinstance(value, Number) and value.expr.dtype != BOOL:
            word = "y if x else x" if op == "and" else "x if x else y"
            self.fail(f"{op} needs boolean operands here; for numbers write {word}, or compare them", node)
        return self.truth(value, node)

    def condition(self, node: ast.expr) -> ir.Expr:
        """An expression as a condition."""
        return self.truth(self._joined(node, tested=True) if isinstance(node, ast.BoolOp) else self.value(node), node)

    def _chain(self, op: str, parts: Sequence[Callable[[], ir.Expr]], node: ast.AST) -> Number:
        """part op part ..., with short-circuit evaluation."""
        result = Number(parts[0]())
        for k, part in enumerate(parts[1:]):
            if isinstance(result.expr, ir.Const) and bool(result.expr.value) == (op == "or"):
                return result
            with self.nested() as inner:
                right = part()
            if not inner:
                result = self.in_parts(self.logical(op, result, Number(right)), f"part{k}", node)
                continue
            key = self.place_key(f"%{op}{k}", node)
            held = self.assign(key, "so_far", result, node)
            assert isinstance(held.expr, ir.Read)
            inner.append(ir.Assign(self.where(node), held.expr.variable, right))
            condition = held.expr if op == "and" else self.negate(held.expr)
            self.emit(ir.If(self.where(node), condition, inner))
            result = held
        return result

    def _on_Compare(self, node: ast.Compare) -> Value:
        for op in node.ops:
            if type(op) not in _COMPARE:
                text = {ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"}[type(op)]
                self.fail(f"{text!r} cannot be used in a vector function; compare numbers with == and or", node)
        names = [_COMPARE[type(op)] for op in node.ops]
        if len(names) == 1:
            left, right = self.each([node.left, node.comparators[0]])
            return self.compare(names[0], left, right, node)
        last = self.value(node.left)
        parts: list[Callable[[], ir.Expr]] = []

        def compared(op: str, right_node: ast.expr, final: bool) -> ir.Expr:
            nonlocal last
            left, right = self.with_next([last], right_node)
            if not final and isinstance(right, Number):
                right = self.temporary(right, "middle", right_node)
            last = right
            return self.compare(op, left, right, node).expr

        for name, right_node in zip(names, node.comparators, strict=True):
            final = right_node is node.comparators[-1]
            parts.append(partial(compared, name, right_node, final))
        return self._chain("and", parts, node)

    def _on_IfExp(self, node: ast.IfExp) -> Value:
        condition = self.condition(node.test)
        if isinstance(condition, ir.Const):
            return self.value(node.body if condition.value else node.orelse)
        with self.nested() as yes_block:
            yes = self.value(node.body)
        with self.nested() as no_block:
            no = self.value(node.orelse)
        if not yes_block and not no_block:
            return self.chosen(condition, yes, no, node)
        return self._choose_late(condition, (yes, yes_block), (no, no_block), node)

    def chosen(self, condition: ir.Expr, yes: Value, no: Value, node: ast.AST) -> Value:
        """One of two values of the same structure."""
        if isinstance(yes, Items) and isinstance(no, Items) and len(yes.items) == len(no.items):
            pairs = zip(yes.items, no.items, strict=True)
            return Items(tuple(self.chosen(condition, *pair, node) for pair in pairs), yes.index or no.index)
        if isinstance(yes, View) or isinstance(no, View):
            self.fail("an expression cannot choose between arrays; choose between elements", node)
        return self.choose(condition, self.as_number(yes, node), self.as_number(no, node), node)

    def _choose_late(
        self, condition: ir.Expr, yes: tuple[Value, list[ir.Stmt]], no: tuple[Value, list[ir.Stmt]], node: ast.IfExp
    ) -> Value:
        """The choice if evaluating one of the values emits statements."""
        key = self.place_key("%choice", node)
        first, second = self.as_number(yes[0], node.body), self.as_number(no[0], node.orelse)
        kind = self.common_type(first, second, node)
        for number in (first, second):
            self.note_type(key, number.type, self.where(node), "choice")
        blocks = []
        for number, block in ((first, yes[1]), (second, no[1])):
            self.block, outer = block, self.block
            held = self.assign(key, "choice", number, node)
            self.block = outer
            blocks.append(block)
        self.emit(ir.If(self.where(node), condition, blocks[0], blocks[1]))
        return Number(held.expr, kind.weak)

    # --- subscripts and attributes

    def _on_Subscript(self, node: ast.Subscript) -> Value | Element:
        nodes = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        key = self.key(node.slice)
        if key is not None:
            return self.keyed(self.value(node.value), key, node)
        base, *values = self.each([node.value, *nodes])
        return self.subscript(base, values, node)

    def subscript(self, base: Value, values: list[Value], node: ast.AST) -> Value | Element:
        """base[values], or base(values)."""
        if isinstance(base, View):
            return self.at(base, values, node)
        if isinstance(base, Items) and base.member:
            return self.items_at(base, self.flat_indices(values, node), node)
        if isinstance(base, Items):
            if len(values) != 1:
                self.fail(f"a tuple needs 1 index, not {len(values)}", node)
            return self.item(base, self.index_number(values[0], "the index of a tuple", node), node)
        advice = "; write r.x or r['x'] for a member" if isinstance(base, Number) and base.expr.dtype.names else ""
        self.fail(f"{describe(base)} cannot be indexed{advice}", node)

    def _on_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node)

    def attribute(self, base: Value, node: ast.Attribute) -> Value:
        """base.name."""
        if isinstance(base, Number):
            return self.of_number(base, node.attr, node)
        if isinstance(base, View):
            return self._of_view(base, node)
        if isinstance(base, Items):
            return self._of_items(base, node)
        found = getattr(base.value, node.attr, MISSING)
        if found is MISSING:
            kind = "module" if isinstance(base.value, ModuleType) else describe(base)
            self.fail(f"{kind} {getattr(base.value, '__name__', '')} has no {node.attr!r}", node)
        return self.from_python(found, repr(node.attr), node)

    def _of_view(self, base: View, node: ast.Attribute) -> Value:
        attribute = node.attr
        if attribute in ("extent", "shape"):
            return Items(tuple(Number(item, True) for item in self.counts(base, node)), True)
        if attribute in ("rank", "ndim"):
            return self.literal(base.rank, node)
        if attribute == "T":
            return self.transpose(base)
        if attribute == "dtype" or (attribute == "element_type" and not base.levels):
            return Constant(base.array.dtype)
        if attribute in (base.array.dtype.names or ()):
            self.fail(
                f"{describe(base)} has no members; index an element first: {base.array.name}[i].{attribute}", node
            )
        self.fail(f"{describe(base)} has no {attribute!r}; extent, shape, rank, dtype and T can be read", node)

    def _of_items(self, base: Items, node: ast.Attribute) -> Value:
        attribute = node.attr
        if attribute == "rank":
            return self.literal(len(base.items), node)
        if base.member and attribute in ("shape", "extent", "ndim", "dtype"):
            return self._of_array(base, attribute, node)
        if not base.lane:
            self.fail(f"a tuple has no {attribute!r}; only the index argument has group, local and group_extent", node)
        if attribute == "global_index":
            return Items(base.items, True)
        if attribute == "grid_extent":
            return self._indexes(ir.GridExtent)
        if attribute not in ("group", "local", "group_extent", "group_count"):
            known = "group, local, global_index, group_extent, group_count and grid_extent"
            self.fail(f"the index has no {attribute!r}; it has {known}", node)
        group = self.need_group(f"idx.{attribute}", node)
        if attribute == "group":
            return self._indexes(ir.GroupIndex)
        if attribute == "local":
            return self._indexes(ir.LocalIndex)
        if attribute == "group_extent":
            return Items(tuple(Number(self.integer(size), True) for size in group), True)
        extents = (ir.GridExtent(self.index_dtype, axis) for axis in range(self.grid_rank))
        pairs = zip(extents, group, strict=True)
        return Items(tuple(Number(self._ceiling(extent, size, node), True) for extent, size in pairs), True)

    def _of_array(self, base: Items, attribute: str, node: ast.AST) -> Value:
        """shape, extent, ndim or dtype of an array member or a constant array."""
        shape: list[Value] = []
        item: Value = base
        while isinstance(item, Items):
            shape.append(self.literal(len(item.items), node))
            item = item.items[0]
        if attribute == "dtype":
            return Constant(item.expr.dtype) if isinstance(item, Number) else item
        return self.literal(len(shape), node) if attribute == "ndim" else Items(tuple(shape), True)

    def _indexes(self, kind: Callable[[np.dtype[Any], int], ir.Expr]) -> Items:
        return Items(tuple(Number(kind(self.index_dtype, axis), True) for axis in range(self.grid_rank)), True)

    def need_group(self, what: str, node: ast.AST) -> tuple[int, ...]:
        """The group's extents; VectorError if the call gave no group."""
        if self.values_only:
            self.fail(
                f"{what} is only available in functions run by forall; this is an operator, key or comparison function",
                node,
            )
        if self.group is None:
            self.fail(f"{what} needs a group; pass one to forall, for example group={(16,) * self.grid_rank}", node)
        self.uses_group = True
        return self.group


def _has_effect(statement: ir.Stmt) -> bool:
    return isinstance(statement, ir.Store | ir.Atomic | ir.Barrier)
