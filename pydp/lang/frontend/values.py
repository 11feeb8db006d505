"""What an expression of a vector function stands for while it is translated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydp.lang import ir
from pydp.lang.ir.types import Type


@dataclass(frozen=True)
class Number:
    """A scalar or record of run time. A plain Const keeps the user's value unrounded."""

    expr: ir.Expr
    plain: bool = False

    @property
    def literal(self) -> bool:
        """Whether it stands in the user's text as a number."""
        return self.plain and isinstance(self.expr, ir.Const)

    @property
    def type(self) -> Type:
        """Its type, as the rules of result_type take it."""
        return Type(self.expr.dtype, self.plain, self.literal)


@dataclass(frozen=True)
class Items:
    """A tuple. `index`: arithmetic is by element (indexes and extents), not concatenation; `lane`: it is `idx`;
    `member`: the items of that member of a record, which is an array; `constant`: of an array from around the function
    that has this name."""

    items: tuple[Any, ...]
    index: bool = False
    lane: bool = False
    member: str = ""
    constant: bool = False


@dataclass(frozen=True)
class Constant:
    """A Python object that is used at translation only: a module, a dtype, a function."""

    value: Any


@dataclass(frozen=True)
class Limit:
    """A guard of a view: 0 <= offset + index[axis] < size; axis -1 where the view has no such axis any more."""

    axis: int
    offset: ir.Expr
    size: ir.Expr


@dataclass(frozen=True)
class View:
    """An array seen through tiles, sections, projections and transposes.

    Array axis k is at origin[k] + index[axes[k]], or at origin[k] alone where axes[k] is -1. `levels` are the tile
    extents still to be indexed, outermost first, by the view's axes; `extents` its sizes in elements.
    `tile`: the view is (part of) a tile, whose last one may be partial: reading outside is not an error.
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
        """All that two views must share to be held by one name."""
        limits = tuple(limit.axis for limit in self.limits)
        sizes = tuple(bound.size for bound in self.bounds)
        fixed = tuple(extent if isinstance(extent, ir.Const) else None for extent in self.extents)
        return (self.array.name, self.axes, self.levels, limits, sizes, fixed, self.tile, self.writable)

    def mapped(self, change: Callable[[ir.Expr], ir.Expr]) -> View:
        """The view with each of its expressions changed, always in the same order."""
        return replace(
            self,
            origin=tuple(change(item) for item in self.origin),
            extents=tuple(item if isinstance(item, ir.Const) else change(item) for item in self.extents),
            limits=tuple(Limit(item.axis, change(item.offset), change(item.size)) for item in self.limits),
            bounds=tuple(ir.Bound(change(item.index), item.size) for item in self.bounds),
        )


Value = Number | Items | Constant | View


def arguments_text(least: int, most: int | None = None) -> str:
    """How many arguments something takes, for messages: ``1 argument``, ``2 to 32 arguments``."""
    if most is not None and most != least:
        return f"{least} {'or' if most == least + 1 else 'to'} {most} arguments"
    return f"{least} argument{'' if least == 1 else 's'}"


def describe(value: Value) -> str:
    """A value in a few words, for messages."""
    if isinstance(value, Number):
        return str(value.type)
    if isinstance(value, Items):
        kind = "a constant array" if value.constant else "an array member" if value.member else "a tuple"
        return f"{kind} {value.member!r} of {len(value.items)}" if value.member else f"{kind} of {len(value.items)}"
    if isinstance(value, View):
        what = "range of tiles" if value.levels else "tile" if value.tile else "array"
        return f"a {what} of rank {value.rank} of {value.array.name!r}".replace("a array", "an array")
    name = getattr(value.value, "__name__", None)
    return f"{type(value.value).__name__} {name}" if name else f"{value.value!r}"


def map_leaves(value: Value, change: Callable[[Number, str], Number], suffix: str = "") -> Value:
    """A value with each number in it changed; `change` also gets a suffix that tells the numbers apart."""
    if isinstance(value, Number):
        return change(value, suffix)
    if isinstance(value, Items):
        items = tuple(map_leaves(item, change, f"{suffix}.{n}") for n, item in enumerate(value.items))
        return replace(value, items=items)
    if isinstance(value, View):
        count = iter(range(1 << 30))
        return value.mapped(lambda expr: change(Number(expr, True), f"{suffix}.at{next(count)}").expr)
    return value


def same_shape(left: Value, right: Value) -> bool:
    """True where one name can hold both: the same structure, the numbers aside."""
    if isinstance(left, Number) and isinstance(right, Number):
        return True
    if isinstance(left, Items) and isinstance(right, Items):
        return len(left.items) == len(right.items) and all(map(same_shape, left.items, right.items))
    if isinstance(left, View) and isinstance(right, View):
        return left.shape_of() == right.shape_of()
    if isinstance(left, Constant) and isinstance(right, Constant):
        return left.value is right.value or bool(left.value == right.value)
    return False
