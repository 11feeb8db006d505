"""Members of records: by attribute or by name, and items of members that are arrays.

An array member is read as a tuple of its items (of tuples, where it has several axes), so that it can be indexed,
taken apart, looped over and passed on; arithmetic on it goes item by item, as in NumPy.
"""

from __future__ import annotations

import ast

from pydp.lang import ir
from pydp.lang.front_vectors import Vectors, member_name
from pydp.lang.names import look_up, own_names
from pydp.lang.values import Constant, Items, Number, Value


class Records(Vectors):
    """Reading members; assigning them is in :mod:`pydp.lang.front_targets`."""

    def key(self, node: ast.expr) -> str | None:
        """The name in ``r["name"]``: a string, or a name outside the function that stands for one."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name) and node.id not in own_names(self.frame.source.tree):
            found = look_up(self.frame.function, node.id)
            return found if isinstance(found, str) else None
        return None

    def of_number(self, base: Number, name: str, node: ast.AST) -> Value:
        """A member of a record; ``dtype`` of any number."""
        dtype = base.expr.dtype
        if isinstance(node, ast.Attribute) and name == "dtype":
            return Constant(dtype)
        if not dtype.names:
            self.fail(f"a number has no member {name!r}; only records have members", node)
        known = member_name(dtype, name)
        if known is None:
            self.fail(f"the record has no member {name!r}; it has {', '.join(dtype.names)}", node)
        return self.member(base, known)

    def member(self, base: Number, name: str) -> Value:
        """A member of a record: a number, a record, or a tuple of them where it is an array."""
        return self._parts(_step(base.expr, name), name)

    def _parts(self, expr: ir.Expr, name: str) -> Value:
        if expr.dtype.subdtype is None:
            return Number(expr)
        count = expr.dtype.shape[0]
        return Items(tuple(self._parts(_step(expr, ir.Item(k)), name) for k in range(count)), True, member=name)


def _step(record: ir.Expr, name: str) -> ir.Expr:
    """A member of a record value (an item of an array); of a choice, the choice of the members."""
    dtype = ir.member_dtype(record.dtype, (name,))
    if isinstance(record, ir.Select):
        return ir.Select(dtype, record.condition, _step(record.yes, name), _step(record.no, name))
    if isinstance(record, ir.MakeRecord):
        assert record.dtype.names is not None
        return record.values[record.dtype.names.index(name)]
    return ir.Member(dtype, record, name)
