"""Values of expressions during the translation of a vector function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydp.lang import ir
from pydp.lang.ir.types import Type


@dataclass(frozen=True)
class Number:
    """A scalar or record that is computed at run time. weak: it has a weak type. A weak Const is not rounded."""

    expr: ir.Expr
    weak: bool = False

    @property
    def literal(self) -> bool:
        """Whether it is a literal number of the source."""
        return self.weak and isinstance(self.expr, ir.Const)

    @property
    def type(self) -> Type:
        """Its type, for the rules of pydp.lang.ir.types."""
        return Type(self.expr.dtype, self.weak, self.literal)


@dataclass(frozen=True)
class Items:
    """A tuple. `index`: arithmetic is elementwise (indexes and extents), + does not concatenate. `lane`: it is `idx`.
    `member`: the name of the array member, or constant array, that it holds. `constant`: it is a constant array."""

    items: tuple[Any, ...]
    index: bool = False
    lane: bool = False
    member: str = ""
    constant: bool = False


@dataclass(frozen=True)
class Constant:
    """A Python object that exists only during translation: a module, a dtype, a function."""

    value: Any


@dataclass(frozen=True)
class Limit:
    """A guard of a view: 0 <= offset + index[axis] < size. axis is -1 if a projection removed it."""

    axis: int
    offset: ir.Expr
    size: ir.Expr


@dataclass(frozen=True)
class View:
    """A view of an array: a composition of tiles, sections, projections and transposes.

    The index of array axis k is origin[k] + index[axes[k]], or origin[k] if axes[k] is -1. `levels`: the tile
    extents that are not indexed yet, outermost first, by the view's axes. `extents`: its sizes in elements.
    `tile`: the view is (part of) a tile. The last tile may be partial, so reading outside the array is not an error.
    """

    array: ir.Array
    axes: tuple[int, ...]
    origin: tuple[ir.Expr, ...]
    extents: tuple[ir.Expr, ...]
    levels: tuple[tuple[int, ...], ...] = ()
    limits: tuple[Limit, ...] = ()
    bounds: tuple[ir.Bound, ...] = ()
    tile: bool = False
    writable: bool = True

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extents)

    def shape_of(self) -> tuple[Any, ...]:
        """The properties that two views must share if one name holds both."""
        limits = tuple(limit.axis for limit in self.limits)
        sizes = tuple(bound.size for bound in self.bounds)
        fixed = tuple(extent if isinstance(extent, ir.Const) else None for extent in self.extents)
        return (self.array.name, self.axes, self.levels, limits, sizes, fixed, self.tile, self.writable)

    def mapped(self, change: Callable[[ir.Expr], ir.Expr]) -> View:
        """The view with `change` applied to each of its expressions, always in the same order."""
        return replace(
            self,
            origin=tuple(change(item) for item in self.origin),
            extents=tuple(item if isinstance(item, ir.Const) else change(item) for item in self.extents),
            limits=tuple(Limit(item.axis, change(item.offset), change(item.size)) for item in self.limits),
            bounds=tuple(ir.Bound(change(item.index), item.size) for item in self.bounds),
        )


Value = Number | Items | Constant | View


def arguments_text(least: int, most: int | None = None) -> str:
    """A number of arguments, for messages: ``1 argument``, ``2 to 32 arguments``."""
    if most is not None and most != least:
        return f"{least} {'or' if most == least + 1 else 'to'} {most} arguments"
    return f"{least} argument{'' if least == 1 else 's'}"


def describe(value: Value) -> str:
    """A short description of a value, for messages."""
    if isinstance(value, Number):
        return str(value.type)
    if isinstance(value, Items):
        kind = "a constant array" if value.constant else "an array member" if value.member else "a tuple"
        return f"{kind} {value.member!r} of {len(value.items)}" if value.member else f"{kind} of {len(value.items)}"
    if isinstance(value, View):
        array = f"the array {value.array.name!r}"
        part = "range of tiles" if value.levels else "tile" if value.tile else "view"
        whole = part == "view" and value.rank == len(value.origin)
        return f"{array} of rank {value.rank}" if whole else f"a {part} of rank {value.rank} of {array}"
    name = getattr(value.value, "__name__", None)
    return f"{type(value.value).__name__} {name}" if name else f"{value.value!r}"


def map_numbers(value: Value, change: Callable[[Number, str], Number], suffix: str = "") -> Value:
    """Apply `change` to each number in a value; its second argument is a unique suffix for each number."""
    if isinstance(value, Number):
        return change(value, suffix)
    if isinstance(value, Items):
        items = tuple(map_numbers(item, change, f"{suffix}.{n}") for n, item in enumerate(value.items))
        return replace(value, items=items)
    if isinstance(value, View):
        count = iter(range(1 << 30))
        return value.mapped(lambda expr: change(Number(expr, True), f"{suffix}.at{next(count)}").expr)
    return value


def same_shape(left: Value, right: Value) -> bool:
    """Whether one name can hold both values: they have the same structure."""
    if isinstance(left, Number) and isinstance(right, Number):
        return True
    if isinstance(left, Items) and isinstance(right, Items):
        return len(left.items) == len(right.items) and all(map(same_shape, left.items, right.items))
    if isinstance(left, View) and isinstance(right, View):
        return left.shape_of() == right.shape_of()
    if isinstance(left, Constant) and isinstance(right, Constant):
        return left.value is right.value or bool(left.value == right.value)
    return False
