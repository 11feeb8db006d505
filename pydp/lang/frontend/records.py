"""Members of records, by attribute or by name, and items of array members.

An array member is a tuple of its items, nested if it has several axes. It can be indexed, unpacked, looped over and
passed on. Arithmetic on it is elementwise, as in NumPy.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from dataclasses import replace

from pydp.lang import ir
from pydp.lang.frontend.values import Constant, Items, Number, Value, View, describe, map_numbers
from pydp.lang.frontend.vectors import Vectors, member_name
from pydp.lang.frontend.view_lowering import constant_of
from pydp.lang.ir.types import BOOL
from pydp.lang.source.names import look_up

SELECT_LIMIT = 64


class Records(Vectors):
    """Read members; :mod:`pydp.lang.frontend.assignment` assigns them."""

    @abstractmethod
    def chosen(self, condition: ir.Expr, yes: Value, no: Value, node: ast.AST) -> Value: ...

    def key(self, node: ast.expr) -> str | None:
        """The name in ``r["name"]``: a string, or a name from an enclosing scope whose value is a string."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name) and node.id not in self.frame.source.facts.local_names:
            found = look_up(self.frame.function, node.id)
            return found if isinstance(found, str) else None
        return None

    def of_number(self, base: Number, name: str, node: ast.AST) -> Value:
        """A member of a record, or the ``dtype`` of any number."""
        dtype = base.expr.dtype
        if isinstance(node, ast.Attribute) and name == "dtype":
            return Constant(dtype)
        if not dtype.names:
            self.fail(f"a number has no member {name!r}; only records have members", node)
        known = member_name(dtype, name)
        if known is None:
            self.fail(f"the record has no member {name!r}; it has {', '.join(dtype.names)}", node)
        return self.member(base, known)

    def keyed(self, base: Value, key: str, node: ast.AST) -> Value:
        """base["name"]: a member of a record."""
        if isinstance(base, Number):
            return self.of_number(base, key, node)
        if isinstance(base, View) and key in (base.array.dtype.names or ()):
            self.fail(f"{describe(base)} has no members; index an element first: {base.array.name}[i][{key!r}]", node)
        self.fail(f"{describe(base)} has no member {key!r}; only records have members", node)

    def member(self, base: Number, name: str) -> Value:
        """A member of a record: a number, a record, or a tuple of them for an array member."""
        return self._parts(_step(base.expr, name), name)

    def _parts(self, expr: ir.Expr, name: str) -> Value:
        if expr.dtype.subdtype is None:
            return Number(expr)
        count = expr.dtype.shape[0]
        return Items(tuple(self._parts(_step(expr, ir.Item(k)), name) for k in range(count)), True, member=name)

    # --- items

    def items_at(self, base: Value, indices: list[Number], node: ast.AST) -> Value:
        """An item of an array member, or a tuple of items if there are fewer indexes than axes."""
        for number, index in enumerate(indices):
            if not isinstance(base, Items):
                self.fail(f"the array member has {number} axes, but {len(indices)} indexes are given", node)
            base = self.item(base, index, node)
        return base

    def item(self, base: Items, index: Number, node: ast.AST) -> Value:
        """One item of a tuple; for an array member, 0 if the index is out of bounds."""
        size = len(base.items)
        if isinstance(index.expr, ir.Const):
            return base.items[self.place_in(describe(base), size, index.expr.value, node)]
        if not base.items or size > SELECT_LIMIT:
            advice = f"1 to {SELECT_LIMIT} items are accepted. Pass longer tables as arrays"
            self.fail(f"{describe(base)} cannot be indexed by a variable; {advice}", node)
        index = self.temporary(index, "item", node)
        picked = self._picked(base.items, 0, index, node)
        what = "constant array" if base.constant else "member"
        name = f"{what} {base.member!r}" if base.member else "a tuple"
        bound = ir.ItemBound(index.expr, size, name, "read", self.where(node))
        if not base.member:
            if size == 1:  # checked mode needs a Select to check the index
                only = ir.Compare(BOOL, "eq", index.expr, self.integer(0))
                picked = self.chosen(only, picked, picked, node)
            return _with_bound(picked, bound)
        low = self.compare("ge", index, Number(self.integer(0), True), node)
        inside = self.logical("and", low, self.compare("lt", index, Number(self.integer(size), True), node))
        zero = map_numbers(base.items[0], lambda number, _: Number(constant_of(0, number.expr.dtype)))
        return _with_bound(self.chosen(inside.expr, picked, zero, node), bound)

    def place_in(self, what: str, size: int, place: int, node: ast.AST) -> int:
        """A constant index into `size` items; negative indexes count from the end."""
        if not -size <= place < size:
            self.fail(f"index {place} is out of bounds for {what}", node)
        return place % size

    def _picked(self, items: tuple[Value, ...], first: int, index: Number, node: ast.AST) -> Value:
        """items[index - first], by binary search."""
        if len(items) == 1:
            return items[0]
        half = len(items) // 2
        low = self._picked(items[:half], first, index, node)
        high = self._picked(items[half:], first + half, index, node)
        condition = ir.Compare(BOOL, "lt", index.expr, self.integer(first + half))
        return self.chosen(condition, low, high, node)


def _with_bound(value: Value, bound: ir.ItemBound) -> Value:
    """The choice of an item, annotated with the bound that checked mode verifies."""

    def annotated(number: Number, _: str) -> Number:
        found = number.expr
        return replace(number, expr=replace(found, item=bound)) if isinstance(found, ir.Select) else number

    return map_numbers(value, annotated)


def _step(record: ir.Expr, name: str) -> ir.Expr:
    """A member of a record value, or an item of an array; for a choice, the choice of the members."""
    dtype = ir.member_dtype(record.dtype, (name,))
    if isinstance(record, ir.Select):
        return replace(record, dtype=dtype, yes=_step(record.yes, name), no=_step(record.no, name))
    if isinstance(record, ir.MakeRecord):
        assert record.dtype.names is not None
        return record.values[record.dtype.names.index(name)]
    return ir.Member(dtype, record, name)
