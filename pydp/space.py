"""Shapes and indexes of N-dimensional data, and the arithmetic of tiles (SPEC S1). This module does not use OpenCL.

An `Extent` holds N sizes, an `Index` N integers, and a `Grid` an extent that starts at an offset. Ranks 0 to 6 are
supported. `Extent` and `Index` are tuples with elementwise arithmetic:

    >>> extent(4, 6) // 2
    Extent(2, 3)
    >>> index(5, 9) // 4, index(5, 9) % 4
    (Index(1, 2), Index(1, 1))

Tiles follow from one identity: ``global = t * T + local`` with ``0 <= local < T``.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np

from pydp.errors import InvalidArgument, shown

MAX_RANK = 6

_Self = TypeVar("_Self", bound="_Axes")


def integers(values: Any, what: str) -> tuple[int, ...]:
    """Convert one integer or a sequence of integers to a tuple of Python ints; `what` is its name in errors."""
    try:
        return (_integer(values),)
    except TypeError:
        pass
    try:
        axes = tuple(_integer(value) for value in values)
    except TypeError:
        raise InvalidArgument(f"{what} takes integers, not {shown(values)}") from None
    if len(axes) > MAX_RANK:
        raise InvalidArgument(f"{what} has {len(axes)} axes; ranks 0 to {MAX_RANK} are accepted")
    return axes


def _integer(value: Any) -> int:
    if value is True or value is False:
        raise TypeError
    return operator.index(value)


def _gather(values: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """The axes from the arguments of a constructor: `f(2, 3)`, `f((2, 3))` or `f()` (rank 0)."""
    return integers(values[0] if len(values) == 1 else values, what)


def _both_sides(op: Callable[[int, int], int]) -> tuple[Any, Any]:
    """The methods of `_Axes` for an operator, with the axes on the left and on the right."""
    return (lambda self, other: self._pair(other, op)), (lambda self, other: self._pair(other, op, swapped=True))


class _Axes(tuple[int, ...]):
    """A tuple of integers with elementwise arithmetic; the base of Extent and Index."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy scalars then leave the arithmetic to this class

    def __new__(cls: type[_Self], values: Iterable[int] | int = ()) -> _Self:
        return tuple.__new__(cls, integers(values, cls.__name__))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self)

    def _pair(self, other: object, op: Callable[[int, int], int], swapped: bool = False) -> Any:
        if isinstance(other, (int, tuple, list)) or hasattr(other, "__index__"):
            axes = integers(int(other) if isinstance(other, bool) else other, type(self).__name__)
        else:
            return NotImplemented
        if not isinstance(other, (tuple, list)):
            axes *= len(self)
        elif len(axes) != len(self):
            raise InvalidArgument(f"{self!r} and {shown(other)} differ in rank; arithmetic needs equal ranks")
        pairs = zip(axes, self, strict=True) if swapped else zip(self, axes, strict=True)
        try:
            values = tuple(op(left, right) for left, right in pairs)
        except ZeroDivisionError:
            raise InvalidArgument(f"{self!r} and {shown(other)}: division by zero along an axis") from None
        # An extent cannot be negative, so arithmetic with an Index gives an Index.
        kind: type[_Axes] = Index if isinstance(other, Index) else type(self)
        return kind(values)

    __add__, __radd__ = _both_sides(operator.add)
    __sub__, __rsub__ = _both_sides(operator.sub)
    __mul__, __rmul__ = _both_sides(operator.mul)
    __floordiv__, __rfloordiv__ = _both_sides(operator.floordiv)
    __mod__, __rmod__ = _both_sides(operator.mod)

    def __neg__(self) -> Index:
        return Index([-axis for axis in self])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self))})"


class Extent(_Axes):
    """N sizes, none of them negative; `size` is their product (1 for rank 0).

    ``extent(axis)`` returns the size along an axis, as in ``field.extent(1)``.
    """

    __slots__ = ()

    def __new__(cls, values: Iterable[int] | int = ()) -> Extent:
        self = super().__new__(cls, values)
        if any(size < 0 for size in self):
            raise InvalidArgument(f"extent {tuple(self)} has a negative size; sizes of 0 or more are accepted")
        return self

    @property
    def size(self) -> int:
        """The number of points."""
        return prod(self)

    def __call__(self, axis: int) -> int:
        return self[axis]


class Index(_Axes):
    """N integers that give a position; they may be negative."""

    __slots__ = ()


@dataclass(init=False, repr=False, unsafe_hash=True, slots=True)
class Grid:
    """A rectangular range of indexes: it has size `extent` and starts at `offset`.

    >>> Grid((2, 3), (10, 0)).stop
    Index(12, 3)
    """

    extent: Extent
    offset: Index

    def __init__(self, extent: Sequence[int] | int, offset: Sequence[int] | int | None = None) -> None:
        sizes = extent if type(extent) is Extent else Extent(extent)
        start = Index((0,) * len(sizes)) if offset is None else Index(offset)
        if len(start) != len(sizes):
            raise InvalidArgument(f"a grid's extent {tuple(sizes)} and offset {tuple(start)} differ in rank")
        object.__setattr__(self, "extent", sizes)
        object.__setattr__(self, "offset", start)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Grid is immutable; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return Grid, (tuple(self.extent), tuple(self.offset))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extent)

    @property
    def size(self) -> int:
        """The number of points."""
        return self.extent.size

    @property
    def stop(self) -> Index:
        """The first index past the end of the grid along every axis."""
        return self.offset + self.extent

    def __contains__(self, place: object) -> bool:
        axes = integers(place, "an index")
        if len(axes) != self.rank:
            raise InvalidArgument(f"index {axes} has {len(axes)} axes; the grid has {self.rank}")
        return all(low <= axis < high for low, axis, high in zip(self.offset, axes, self.stop, strict=True))

    def __iter__(self) -> Iterator[Index]:
        """All indexes; the last axis varies fastest."""
        ranges = [range(low, high) for low, high in zip(self.offset, self.stop, strict=True)]
        return (Index(axes) for axes in itertools.product(*ranges))

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return self.size > 0

    def tiles(self, tile: Sequence[int] | int) -> Grid:
        """The grid of tile numbers: as many tiles as cover this grid, numbered from 0."""
        return Grid(tile_count(self.extent, tile))

    def __repr__(self) -> str:
        start = "" if not any(self.offset) else f", offset={tuple(self.offset)}"
        return f"Grid({tuple(self.extent)}{start})"


def extent(*sizes: Any) -> Extent:
    """Make an `Extent`, the sizes of some axes: ``extent(4, 6)``, ``extent((4, 6))``, or from an object with the
    attribute `extent`, such as a Field. Raises InvalidArgument for negative sizes and for more than 6 axes.

    >>> pydp.extent(4, 6).size
    24
    """
    if len(sizes) == 1 and isinstance(getattr(sizes[0], "extent", None), Extent):
        return sizes[0].extent  # type: ignore[no-any-return]
    return Extent(_gather(sizes, "extent"))


def index(*places: Any) -> Index:
    """Make an `Index`, a position of integers, which may be negative: ``index(1, 2)`` or ``index((1, 2))``. Arithmetic
    on it is elementwise. Raises InvalidArgument for other values and for more than 6 axes.

    >>> pydp.index(1, 2) + 1
    Index(2, 3)
    """
    return Index(_gather(places, "index"))


def grid(*sizes: Any, offset: Sequence[int] | int | None = None) -> Grid:
    """Make a `Grid`: ``grid(4, 6)``, ``grid((4, 6), offset=(1, 1))``, ``grid((4, 6), (1, 1))``, or from an
    array (Field, NumPy array, pyopencl Array) or a tile range.

    Raises InvalidArgument for ranks above 6, negative sizes, and an offset of another rank.
    """
    if len(sizes) == 1:
        only = sizes[0] if isinstance(sizes[0], Grid) else getattr(sizes[0], "grid", None)
        if isinstance(only, Grid):
            return only if offset is None else Grid(only.extent, offset)
        shape = getattr(sizes[0], "shape", None)
        if isinstance(shape, tuple) and not isinstance(sizes[0], np.generic):  # a NumPy integer is a size
            return Grid(shape, offset)
    if len(sizes) == 2 and offset is None and all(isinstance(part, (tuple, list)) for part in sizes):
        return Grid(*sizes)
    return Grid(_gather(sizes, "grid"), offset)


# --- tiles -------------------------------------------------------------------------------------------------


def tile_extent(tile: Sequence[int] | int, rank: int) -> Extent:
    """Check a tile's extent: `rank` axes, each size at least 1."""
    sizes = Extent(tile)
    if len(sizes) != rank:
        raise InvalidArgument(f"a tile of extent {tuple(sizes)} has {len(sizes)} axes; the data has {rank}")
    if any(size < 1 for size in sizes):
        raise InvalidArgument(f"tile {tuple(sizes)} has a size below 1; sizes of 1 or more are accepted")
    return sizes


def tile_count(sizes: Sequence[int] | int, tile: Sequence[int] | int) -> Extent:
    """The number of tiles along every axis: ``(extent + T - 1) // T``."""
    whole = sizes if type(sizes) is Extent else Extent(sizes)
    part = tile_extent(tile, len(whole))
    return tuple.__new__(Extent, ((size + t - 1) // t for size, t in zip(whole, part, strict=True)))


def tile_grid(sizes: Sequence[int] | int, t: Sequence[int] | int, tile: Sequence[int] | int) -> Grid:
    """The part of an extent that tile number `t` covers: offset ``t * T``, clipped at the end of the extent.

    Raises InvalidArgument for a tile that does not exist.
    """
    whole, number = Extent(sizes), Index(t)
    count = tile_count(whole, tile)
    if number not in Grid(count):
        raise InvalidArgument(f"there is no tile {tuple(number)}; the number of tiles is {tuple(count)}")
    start = number * tile_extent(tile, len(number))
    sizes_here = [min(size, end - low) for size, end, low in zip(Extent(tile), whole, start, strict=True)]
    return Grid(sizes_here, start)


Axis = tuple[int, tuple[int, ...]]
"""The size of an axis, and the step of each array along it, in elements."""


def merge_axes(axes: Iterable[Axis]) -> list[Axis]:
    """The same elements in the same order, with as few axes as the steps allow.

    Axes of one element are dropped. An axis is merged into the one before it if all arrays step through the two as
    through one.

    >>> merge_axes([(3, (20, 40)), (4, (5, 10)), (1, (7, 7)), (5, (1, 2))])
    [(60, (1, 2))]
    """
    merged: list[Axis] = []
    for size, steps in axes:
        if size == 1:
            continue
        if merged and all(outer == size * step for outer, step in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    return merged
