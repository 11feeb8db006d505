"""Views inside a vector function: tiles, sections, projections, transposes, and their elements.

Each view is reduced to one index expression per axis of the underlying array.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.arithmetic import Arithmetic
from pydp.lang.frontend.values import Items, Limit, Number, Value, View, describe
from pydp.lang.ir.types import BOOL, INT32, INT64, is_integer

_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class Element:
    """One element of a view, for reading or writing."""

    view: View
    indices: tuple[ir.Expr, ...]
    bounds: tuple[ir.Bound, ...]
    guard: ir.Expr | None
    exact: bool
    where: ir.Where


class Views(Arithmetic):
    """Operations on views."""

    # --- integers of indexes

    def index_number(self, value: Value, what: str, node: ast.AST) -> Number:
        """Convert an integer to the index type, clamped if it is wider."""
        number = self.as_number(value, node)
        if not is_integer(number.expr.dtype):
            advice = "; use a // b for integer division, or int(x)" if number.expr.dtype.kind == "f" else ""
            self.fail(f"{what} must be an integer, not {number.type}{advice}", node)
        if number.expr.dtype == self.index_dtype:
            return Number(number.expr, True)
        if isinstance(number.expr, ir.Const):
            return Number(self.convert(Number(number.expr, True), self.index_dtype, node), True)
        expr = number.expr
        if self.index_dtype == INT32 and expr.dtype.itemsize == 8:
            # Clamp first: truncating an out-of-bounds 64-bit index could bring it back into range.
            top: ir.Expr = ir.Const(expr.dtype, _INT_MAX)
            expr = ir.Math(expr.dtype, "minimum", (expr, top))
            if expr.dtype == INT64:
                expr = ir.Math(expr.dtype, "maximum", (expr, ir.Const(expr.dtype, -1)))
        elif expr.dtype == np.dtype(np.uint64):
            expr = ir.Math(expr.dtype, "minimum", (expr, ir.Const(expr.dtype, 2**63 - 1)))
        return Number(ir.Cast(self.index_dtype, expr, True), True)

    def sum(self, left: ir.Expr, right: ir.Expr, node: ast.AST) -> ir.Expr:
        return self.binary("add", Number(left, True), Number(right, True), node).expr

    def product(self, left: ir.Expr, factor: int, node: ast.AST) -> ir.Expr:
        if factor == 1:
            return left
        return self.binary("mul", Number(left, True), Number(self.integer(factor), True), node).expr

    def counts(self, view: View, node: ast.AST) -> tuple[ir.Expr, ...]:
        """The view's extents in units of its index: tiles for a range of tiles, else elements."""
        if not view.levels:
            return view.extents
        pairs = zip(view.extents, view.levels[0], strict=True)
        return tuple(self._ceiling(extent, size, node) for extent, size in pairs)

    def _ceiling(self, extent: ir.Expr, size: int, node: ast.AST) -> ir.Expr:
        if size == 1:
            return extent
        if isinstance(extent, ir.Const):
            return self.integer(-(-extent.value // size))
        padded = self.sum(extent, self.integer(size - 1), node)
        return self.binary("floordiv", Number(padded, True), Number(self.integer(size), True), node).expr

    # --- the operators

    def flat_indices(self, values: Sequence[Value], node: ast.AST, what: str = "an index") -> list[Number]:
        """The integers of an index, with nested tuples flattened."""
        result: list[Number] = []
        for value in values:
            if isinstance(value, Items):
                result += self.flat_indices(value.items, node, what)
            else:
                result.append(self.index_number(value, what, node))
        return result

    def at(self, view: View, values: Sequence[Value], node: ast.AST) -> View | Element:
        """view[values]: a tile if the view is a range of tiles, else an element."""
        indices = self.flat_indices(values, node)
        if len(indices) != view.rank:
            needed = "1 index" if view.rank == 1 else f"{view.rank} indexes"
            self.fail(f"{describe(view)} needs {needed}, not {len(indices)}", node)
        self._check_constants(view, indices, node)
        if view.levels:
            return self._tile_at(view, [index.expr for index in indices], node)
        return self._element_at(view, [index.expr for index in indices], node)

    def _check_constants(self, view: View, indices: list[Number], node: ast.AST) -> None:
        counts = self.counts(view, node)
        for axis, (index, count) in enumerate(zip(indices, counts, strict=True)):
            if not isinstance(index.expr, ir.Const):
                continue
            value = index.expr.value
            if value < 0:
                base = ast.unparse(node.value) if isinstance(node, ast.Subscript) else view.array.name
                advice = f"count from the start: {base}.extent({axis}) - {-value}"
                self.fail(f"index {value} of axis {axis} is negative; {advice}", node)
            if isinstance(count, ir.Const) and value >= count.value:
                extent = f"extent {count.value}"
                self.fail(f"index {value} of axis {axis} is out of bounds for {describe(view)}, {extent}", node)

    def _tile_at(self, view: View, indices: list[ir.Expr], node: ast.AST) -> View:
        sizes, inner = view.levels[0], view.levels[1:]
        starts = [self.product(index, size, node) for index, size in zip(indices, sizes, strict=True)]
        limits = [self._moved(limit, starts, node) for limit in view.limits]
        bounds = list(view.bounds)
        for axis, (index, start, size) in enumerate(zip(indices, starts, sizes, strict=True)):
            extent = view.extents[axis]
            if view.tile and isinstance(extent, ir.Const):
                bounds.append(ir.Bound(index, -(-extent.value // size)))
                if extent.value % size:
                    limits.append(Limit(axis, start, extent))
        return replace(
            view,
            origin=self._origin(view, starts, node),
            extents=tuple(self.integer(size) for size in sizes),
            levels=inner,
            limits=tuple(limits),
            bounds=tuple(bounds),
            tile=True,
        )

    def _origin(self, view: View, starts: Sequence[ir.Expr], node: ast.AST) -> tuple[ir.Expr, ...]:
        pairs = zip(view.origin, view.axes, strict=True)
        return tuple(origin if axis < 0 else self.sum(origin, starts[axis], node) for origin, axis in pairs)

    def _moved(self, limit: Limit, starts: Sequence[ir.Expr], node: ast.AST) -> Limit:
        if limit.axis < 0:
            return limit
        return replace(limit, offset=self.sum(limit.offset, starts[limit.axis], node))

    def _element_at(self, view: View, indices: list[ir.Expr], node: ast.AST) -> Element:
        guard: Number | None = None
        for limit in view.limits:
            inside = self._inside(limit, indices, node)
            guard = inside if guard is None else self.logical("and", guard, inside)
        bounds = list(view.bounds)
        if view.tile:
            for index, extent in zip(indices, view.extents, strict=True):
                if isinstance(extent, ir.Const):
                    bounds.append(ir.Bound(index, extent.value))
        places = self._origin(view, indices, node)
        condition = guard.expr if guard is not None else None
        if isinstance(condition, ir.Const) and condition.value:
            condition = None
        exact = isinstance(view.array, ir.GlobalArray) and not view.tile
        return Element(view, places, tuple(bounds), condition, exact, self.where(node))

    def _inside(self, limit: Limit, indices: list[ir.Expr], node: ast.AST) -> Number:
        place = limit.offset if limit.axis < 0 else self.sum(limit.offset, indices[limit.axis], node)
        number = Number(place, True)
        low = self.compare("ge", number, Number(self.integer(0), True), node)
        return self.logical("and", low, self.compare("lt", number, Number(limit.size, True), node))

    def transpose(self, view: View) -> View:
        """The view with its axes in the opposite order."""
        last = view.rank - 1
        return replace(
            view,
            axes=tuple(axis if axis < 0 else last - axis for axis in view.axes),
            extents=view.extents[::-1],
            levels=tuple(sizes[::-1] for sizes in view.levels),
            limits=tuple(item if item.axis < 0 else replace(item, axis=last - item.axis) for item in view.limits),
        )

    def tile(self, view: View, sizes: tuple[int, ...], node: ast.AST) -> View:
        """Split the view into tiles; for a range of tiles, split each tile again."""
        if len(sizes) == 1 and view.rank > 1:
            sizes = sizes * view.rank
        if len(sizes) != view.rank:
            self.fail(f"a tile of {describe(view)} needs {view.rank} extents, not {len(sizes)}", node)
        if min(sizes, default=1) < 1:
            self.fail(f"the extents of a tile are {sizes}; 1 or more is accepted", node)
        return replace(view, levels=(*view.levels, sizes))

    def section(self, view: View, start: list[ir.Expr], extent: list[ir.Expr], node: ast.AST) -> View:
        """The part of the view that begins at `start` and has `extent` elements (for a range of tiles: tiles)."""
        if len(start) != view.rank or len(extent) != view.rank:
            self.fail(
                f"a section of {describe(view)} needs {view.rank} starts and {view.rank} extents, not {len(start)} and "
                f"{len(extent)}",
                node,
            )
        units = view.levels[0] if view.levels else (1,) * view.rank
        starts = [self.product(item, unit, node) for item, unit in zip(start, units, strict=True)]
        sizes = [self.product(item, unit, node) for item, unit in zip(extent, units, strict=True)]
        limits = [self._moved(limit, starts, node) for limit in view.limits]
        limits += [Limit(axis, self.integer(0), size) for axis, size in enumerate(sizes)]
        return replace(view, origin=self._origin(view, starts, node), extents=tuple(sizes), limits=tuple(limits))

    def project(self, view: View, axis: int, index: ir.Expr, node: ast.AST) -> View:
        """The view at one index of an axis; the result lacks that axis."""
        if not -view.rank <= axis < view.rank:
            self.fail(f"{describe(view)} has no axis {axis}", node)
        axis %= view.rank
        if any(sizes[axis] != 1 for sizes in view.levels):
            self.fail(f"tiles with an extent above 1 along axis {axis} cannot be projected along it", node)

        def left(old: int) -> int:
            return old - 1 if old > axis else old

        starts = [index if k == axis else self.integer(0) for k in range(view.rank)]
        limits = [self._moved(item, starts, node) if item.axis == axis else item for item in view.limits]
        return replace(
            view,
            axes=tuple(-1 if old == axis else left(old) for old in view.axes),
            origin=self._origin(view, starts, node),
            extents=view.extents[:axis] + view.extents[axis + 1 :],
            levels=tuple(sizes[:axis] + sizes[axis + 1 :] for sizes in view.levels),
            limits=tuple(replace(item, axis=-1 if item.axis == axis else left(item.axis)) for item in limits),
        )

    # --- elements

    def load(self, element: Element) -> Number:
        """Load the element; if its guard is false, the array's fill value."""
        array = element.view.array
        value: ir.Expr = ir.Load(array.dtype, array, element.indices, element.bounds, element.exact, element.where)
        if element.guard is not None:
            fill = array.fill if isinstance(array, ir.GlobalArray) else 0
            value = ir.Select(array.dtype, element.guard, value, constant_of(fill, array.dtype))
        return Number(value)

    def check_writable(self, element: Element, node: ast.AST) -> None:
        view = element.view
        if not view.writable or (isinstance(view.array, ir.GlobalArray) and not view.array.writable):
            self.fail(f"{view.array.name!r} is read-only; pass a writable array", node)

    def store(self, element: Element, value: Number, members: tuple[str, ...], node: ast.AST) -> None:
        """element = value, or a member of it."""
        self.check_writable(element, node)
        array = element.view.array
        expr = self.convert(value, ir.member_dtype(array.dtype, members), node)
        statement = ir.Store(self.where(node), array, element.indices, expr, members, element.bounds, element.exact)
        self.emit(statement if element.guard is None else ir.If(self.where(node), element.guard, [statement]))


def constant_of(value: Any, dtype: np.dtype[Any]) -> ir.Expr:
    """A value as a constant of `dtype`."""
    if dtype.names:
        record = np.zeros((), dtype)
        record[...] = value
        return ir.Const(dtype, record[()])
    if dtype == BOOL:
        return ir.Const(dtype, bool(value))
    return ir.Const(dtype, np.asarray(value).astype(dtype).item())
