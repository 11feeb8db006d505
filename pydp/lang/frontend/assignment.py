"""Targets of assignments: elements of arrays, variables, members of both, items of array members."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.barriers_atomics import Effects
from pydp.lang.frontend.records import SELECT_LIMIT
from pydp.lang.frontend.values import Items, Number, Value, View, describe, map_numbers
from pydp.lang.frontend.vectors import member_name
from pydp.lang.frontend.view_lowering import Element
from pydp.lang.ir.types import BOOL


@dataclass(frozen=True)
class Target:
    """An element or a variable, and the path to a part of it: names of members, constant or computed item indexes."""

    base: Element | ir.Variable
    path: tuple[str | Number, ...] = ()

    @property
    def record(self) -> np.dtype[Any]:
        """The dtype of the whole element or variable."""
        return self.base.dtype if isinstance(self.base, ir.Variable) else self.base.view.array.dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the part; a subarray dtype for an array member."""
        return ir.member_dtype(self.record, [ir.Item(0) if isinstance(part, Number) else part for part in self.path])

    @property
    def name(self) -> str:
        """The name of the member, for messages."""
        names = [part for part in self.path if isinstance(part, str) and not isinstance(part, ir.Item)]
        return names[-1] if names else "the element"


class Targets(Effects):
    """Find, read and write the left side of an assignment."""

    def target(self, node: ast.expr) -> Target:
        """The target of an assignment to a subscript or a member."""
        found = self._found(node)
        if isinstance(found, Element):
            return Target(found)
        if isinstance(found, Target) and found.path:
            return found
        if isinstance(found, View):
            self.fail(f"{describe(found)} cannot be assigned as a whole; assign its elements", node)
        if isinstance(node, ast.Subscript) and not isinstance(found, Target):
            advice = "make a new tuple, or pass an array as an argument"
            self.fail(f"the items of a tuple cannot be assigned; {advice}", node)
        what = describe(found) if not isinstance(found, Target) else "a record"
        self.fail(f"{what} cannot be assigned to", node)

    def _found(self, node: ast.expr) -> Value | Element | Target:
        """The value of an expression; a target if it is an assignable record or a part of one."""
        if isinstance(node, ast.Name):
            return self._named(node)
        if isinstance(node, ast.Attribute):
            base = self._found(node.value)
            if isinstance(base, Target | Element):
                return self._to_member(base, node.attr, node)
            return self.attribute(base, node)
        if not isinstance(node, ast.Subscript):
            return self.place(node)
        base = self._found(node.value)
        key = self.key(node.slice)
        if key is not None:
            if isinstance(base, Target | Element):
                return self._to_member(base, key, node)
            return self.keyed(base, key, node)
        indices = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(base, Target | Element):
            return self._to_items(base if isinstance(base, Target) else Target(base), indices, node)
        values = [base]
        for index in indices:
            values = self.with_next(values, index)
        return self.subscript(values[0], values[1:], node)

    def _named(self, node: ast.Name) -> Value | Element | Target:
        found = self.place(node)
        if not isinstance(found, Number) or not isinstance(found.expr, ir.Read) or not found.expr.dtype.names:
            return found
        if node.id in self.frame.arguments and self.frame.prefix:
            self.fail(f"{node.id!r} is a record of the caller; copy it, change the copy and return it", node)
        return Target(found.expr.variable)

    def _to_member(self, base: Element | Target, attribute: str, node: ast.AST) -> Target:
        target = base if isinstance(base, Target) else Target(base)
        dtype = target.dtype
        name = member_name(dtype, attribute)
        if name is None:
            known = f"the record has {', '.join(dtype.names)}" if dtype.names else f"{dtype} is not a record"
            self.fail(f"there is no member {attribute!r} to assign; {known}", node)
        return replace(target, path=(*target.path, name))

    def _to_items(self, target: Target, nodes: list[ast.expr], node: ast.AST) -> Target:
        """An item of an array member, or a part of it if there are fewer indexes than axes."""
        for index in nodes:
            target, value = self._after(target, index)
            for number in self.flat_indices([value], node):
                if target.dtype.subdtype is None:
                    self.fail(f"{target.name!r} has no axis for index {ast.unparse(index)}; it is not an array", node)
                target = replace(target, path=(*target.path, self._step(target, number, node)))
        return target

    def _step(self, target: Target, number: Number, node: ast.AST) -> str | Number:
        size = target.dtype.shape[0]
        if isinstance(number.expr, ir.Const):
            return ir.Item(self.place_in(f"an array member {target.name!r} of {size}", size, number.expr.value, node))
        if size > SELECT_LIMIT:
            self.fail(
                f"an array member {target.name!r} of {size} items cannot be indexed by a variable; 1 to {SELECT_LIMIT} "
                "items are accepted. Pass longer tables as arrays",
                node,
            )
        return self.temporary(number, f"item{len(target.path)}", node)

    def _after(self, target: Target, node: ast.expr) -> tuple[Target, Value]:
        """A target, and the value of an expression; the target's indexes are read before effects of the expression."""
        mark = len(self.block)
        value = self.value(node)
        if isinstance(target.base, Element):
            held = self.read_before(mark, [Number(index, True) for index in target.base.indices], node)
            indices = tuple(index.expr for index in held if isinstance(index, Number))
            target = replace(target, base=replace(target.base, indices=indices))
        return target, value

    # --- reading and writing

    def give_target(self, node: ast.expr, value: Value) -> None:
        """``node = value``; the value is read before effects of evaluating the target."""
        mark = len(self.block)
        target = self.target(node)
        self.write_target(target, self.read_before(mark, [value], node)[0], node)

    def read_target(self, target: Target, node: ast.AST) -> Value:
        """The value of a target before the assignment."""
        base = target.base
        value: Value = self.load(base) if isinstance(base, Element) else Number(ir.Read(base.dtype, base))
        for part in target.path:
            if isinstance(part, Number):
                assert isinstance(value, Items)
                value = self.item(value, part, node)
            elif isinstance(part, ir.Item):
                assert isinstance(value, Items)
                value = value.items[int(part)]
            else:
                assert isinstance(value, Number)
                value = self.member(value, part)
        return value

    def write_target(self, target: Target, value: Value, node: ast.AST) -> None:
        """Emit ``target = value``: array members item by item; a computed index becomes one If per item."""
        if target.dtype.subdtype is not None or any(isinstance(part, Number) for part in target.path):
            held = map_numbers(value, lambda number, suffix: self._held(number, suffix, node))
            self._write_parts(target, 0, held, node)
        else:
            self._write(target, self.as_number(value, node), node)

    def assembled(self, dtype: np.dtype[Any], values: Mapping[str, Value], node: ast.AST) -> Number:
        """A record with array members, assigned member by member."""
        start = Number(ir.Const(dtype, np.zeros((), dtype)[()]))
        made = self.assign(self.place_key("%record", node), "record", start, node)
        assert isinstance(made.expr, ir.Read)
        for name, value in values.items():
            self.write_target(Target(made.expr.variable, (name,)), value, node)
        return made

    def _held(self, number: Number, suffix: str, node: ast.AST) -> Number:
        return number if self.is_stable(number.expr) else self.temporary(number, f"given{suffix}", node)

    def _write_parts(self, target: Target, start: int, value: Value, node: ast.AST) -> None:
        for place in range(start, len(target.path)):
            number = target.path[place]
            if isinstance(number, Number):
                before, after = target.path[:place], target.path[place + 1 :]
                array = replace(target, path=before)
                size = array.dtype.shape[0]
                bound = ir.ItemBound(number.expr, size, f"member {array.name!r}", "write", self.where(node))
                for k in range(size):
                    with self.nested() as inner:
                        self._write_parts(replace(target, path=(*before, ir.Item(k), *after)), place, value, node)
                    chosen = ir.Compare(BOOL, "eq", number.expr, ir.Const(number.expr.dtype, k))
                    self.emit(ir.If(self.where(node), chosen, inner, item=None if k else bound))
                return
        dtype = target.dtype
        if dtype.subdtype is None:
            self._write(target, self.as_number(value, node), node)
            return
        count = dtype.shape[0]
        if isinstance(value, Items) and len(value.items) != count:
            self.fail(f"member {target.name!r} has {count} items and cannot be assigned {describe(value)}", node)
        for k in range(count):
            part = value.items[k] if isinstance(value, Items) else value
            self._write_parts(replace(target, path=(*target.path, ir.Item(k))), len(target.path), part, node)

    def _write(self, target: Target, number: Number, node: ast.AST) -> None:
        members = tuple(part for part in target.path if isinstance(part, str))
        if isinstance(target.base, Element):
            self.store(target.base, number, members, node)
            return
        expr = self.convert(number, target.dtype, node)
        self.emit(ir.Assign(self.where(node), target.base, expr, members))
