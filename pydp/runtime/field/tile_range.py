"""Tile ranges (SPEC S1): indexables whose elements are tiles of a Field or a NumPy array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.data import FieldData
from pydp.runtime.arrays.indexing import IndexOutOfRange
from pydp.runtime.field.transfer import fetch
from pydp.runtime.placement import Array, check_writable
from pydp.space import Extent, Grid, Index, integers, tile_count, tile_extent, tile_grid

_TAILS = ("mask", "pad", "exact")
Tail = str | tuple[str, ...]


@dataclass(frozen=True)
class TileType:
    """The type of a tile: its full extent and the type of its elements (a dtype or a nested TileType)."""

    extent: Extent
    element_type: Any

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.extent.rank


def is_writable(base: Any) -> bool:
    """Whether a Field or ndarray is writable."""
    return bool(base.flags.writeable) if isinstance(base, np.ndarray) else base.writable


class TileRange:
    """A range of tiles over an array or over another tile range; `pydp.tile` creates it.

    `extent` is the number of tiles per axis. ``range[t]`` is tile number t: a view of the data (a Field or ndarray),
    clipped at the end of the data, or a TileRange if the tiles are tiled again. `base` is the data. `tiles` holds the
    extents of the tiles, outermost first. `tail` (one policy, or one per axis if they differ) and `fill` define the
    values that vector functions read beyond the end of the data.
    """

    __slots__ = ("_writable", "base", "extent", "fill", "tail", "tiles")

    __array_ufunc__ = None
    extent: Extent

    def __init__(
        self,
        base: Any,
        tiles: tuple[tuple[int, ...], ...],
        tail: Tail = "mask",
        fill: Any = 0,
        writable: bool = True,
    ) -> None:
        self.base = base
        self.tiles = tiles
        self.tail = tail
        self.fill = fill
        self._writable = writable and is_writable(base)
        self.extent = tile_count(base.shape, tiles[0])

    @property
    def rank(self) -> int:
        """The number of axes, equal to that of the data."""
        return len(self.base.shape)

    @property
    def grid(self) -> Grid:
        """The grid of the tile numbers."""
        return Grid(self.extent)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the data."""
        return self.base.dtype

    @property
    def element_type(self) -> TileType:
        """The type of a tile."""
        kind: Any = self.base.dtype
        for extent in reversed(self.tiles):
            kind = TileType(Extent(extent), kind)
        return kind

    @property
    def writable(self) -> bool:
        """Whether elements can be written through this range."""
        return self._writable

    @property
    def device(self) -> Any:
        """The device that holds the data; None for NumPy data."""
        return self.base.device if isinstance(self.base, FieldData) else None

    @property
    def T(self) -> TileRange:
        """The transposed view: the axes of the tile numbers and of each tile are reversed."""
        tail = self.tail if isinstance(self.tail, str) else self.tail[::-1]
        return self.with_data(self.base.T, tuple(extent[::-1] for extent in self.tiles), tail)

    @property
    def read_only(self) -> TileRange:
        """A read-only view of the same tiles."""
        return TileRange(self.base, self.tiles, self.tail, self.fill, writable=False)

    def tile(self, *extent: Any, **options: Any) -> TileRange:
        """`pydp.tile` of this range: each tile is tiled again."""
        return tiled(self, extent[0] if len(extent) == 1 else extent, **options)

    def grid_of(self, *t: Any) -> Grid:
        """The indexes of the data that tile number t covers: offset ``t * T``, clipped at the end of the data."""
        return tile_grid(self.base.shape, self._number(t[0] if len(t) == 1 else t), self.tiles[0])

    def with_data(self, base: Any, tiles: tuple[tuple[int, ...], ...], tail: Tail) -> TileRange:
        """A range over `base` with the fill value and the access of this one."""
        return TileRange(base, tiles, tail, self.fill, self._writable)

    def _number(self, key: Any) -> Index:
        t = integers(key, "the number of a tile")
        if len(t) != self.rank:
            raise InvalidArgument(f"{tuple(t)} is not a tile number; {self.rank} integers are needed")
        if not all(-count <= at < count for at, count in zip(t, self.extent, strict=True)):
            raise IndexOutOfRange(f"there is no tile {tuple(t)}; the number of tiles is {tuple(self.extent)}")
        return Index(at + count if at < 0 else at for at, count in zip(t, self.extent, strict=True))

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(item, slice) or item is Ellipsis for item in items):
            return self._slice(items)
        found = _cut(self.base, self._number(key), (1,) * self.rank, self.tiles[0])
        if not self._writable:
            found = protected(found)
        if len(self.tiles) == 1:
            return found
        return TileRange(found, self.tiles[1:], self.tail, self.fill, self._writable)

    def _slice(self, items: tuple[Any, ...]) -> TileRange:
        if Ellipsis in items:
            at = items.index(Ellipsis)
            items = (*items[:at], *[slice(None)] * (self.rank - len(items) + 1), *items[at + 1 :])
        items = (*items, *[slice(None)] * (self.rank - len(items)))
        if len(items) != self.rank or not all(isinstance(item, slice) and item.step in (None, 1) for item in items):
            raise InvalidArgument(
                f"{items} does not select tiles; {self.rank} integers (one tile) or {self.rank} slices without a step "
                "(a range of tiles) are accepted"
            )
        bounds = [item.indices(count)[:2] for item, count in zip(items, self.extent, strict=True)]
        return part(self, [low for low, _ in bounds], [max(high - low, 0) for low, high in bounds])

    def __call__(self, *t: Any) -> Any:
        """``tiled(i, k)`` is ``tiled[i, k]``, as in vector functions."""
        return self[t[0] if len(t) == 1 else t]

    def __setitem__(self, key: Any, value: Any) -> None:
        found = self[key]
        if isinstance(found, TileRange):
            found = found.base
        check_writable(found, "the tile")
        if isinstance(found, np.ndarray) and isinstance(value, (FieldData, Array)):
            value = fetch(value) if isinstance(value, FieldData) else value.get()
        found[...] = value

    def __len__(self) -> int:
        if not self.extent:
            raise TypeError("a tile range of rank 0 has no length")
        return self.extent[0]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a tile range is not iterable; write `for t in tiled.grid: tiled[t]`")

    def __repr__(self) -> str:
        mark = "" if self._writable else ", read-only"
        tail = "" if self.tail == "mask" else f", tail={self.tail!r}"
        tiles = " of ".join(str(tuple(extent)) for extent in self.tiles)
        data = f"{self.base.dtype} {tuple(self.base.shape)}"
        return f"<TileRange {tuple(self.extent)} tiles {tiles}{tail}{mark} of {data}>"


def tiled(x: Any, extent: Sequence[int] | int, tail: str | Sequence[str] | None = None, fill: Any = None) -> TileRange:
    """`pydp.tile` of a Field, an ndarray or a tile range."""
    inner = isinstance(x, TileRange)
    base = x.base if inner else x
    if len(base.shape) > 6:
        raise InvalidArgument(f"the data has rank {len(base.shape)}; tile takes ranks 0 to 6")
    tiles = ((*x.tiles,) if inner else ()) + (tuple(tile_extent(extent, len(base.shape))),)
    ends = tail_of(tail if tail is not None else x.tail if inner else "mask", len(base.shape))
    _check_exact(tuple(base.shape), tiles, ends)
    given = fill if fill is not None else x.fill if inner else 0
    return TileRange(base, tiles, ends, _fill(given, base.dtype), x.writable if inner else True)


def tail_of(given: Any, rank: int) -> Tail:
    """Check a tail policy: one word if all axes have the same one, else a tuple with one word per axis."""
    if isinstance(given, str) and given in _TAILS:
        return given
    words = tuple(given) if isinstance(given, (tuple, list)) else ()
    if not words or len(words) != rank or not all(word in _TAILS for word in words):
        raise InvalidArgument(
            f"tail is {shown(given)}; {', '.join(map(repr, _TAILS))}, or one for each axis, are accepted"
        )
    return words if len(set(words)) > 1 else words[0]


def _check_exact(shape: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], tail: Tail) -> None:
    words = (tail,) * len(shape) if isinstance(tail, str) else tail
    for whole, part in zip((shape, *tiles), tiles, strict=False):
        for axis, word in enumerate(words):
            if word == "exact" and whole[axis] % part[axis]:
                raise InvalidArgument(
                    f"tail='exact' needs tiles that divide the data; {part} does not divide {tuple(whole)} "
                    f"along axis {axis}"
                )


def _fill(fill: Any, dtype: np.dtype) -> Any:
    """Convert the fill value to a Python value of the dtype (0 means zero bytes for a record)."""
    if dtype.names is not None and isinstance(fill, int) and fill == 0:
        return 0
    try:
        if dtype.names is not None:
            return np.array(fill, dtype)[()]
        given = np.asarray(fill)
        if given.shape or given.dtype.kind not in "biufc" or (given.dtype.kind == "c" and dtype.kind != "c"):
            raise TypeError("it is no number of this kind")
        with np.errstate(all="ignore"):
            value = given.astype(dtype)
        if dtype.kind in "biu" and value != given:
            raise ValueError("it does not fit")
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"fill is {shown(fill)}; one value of dtype {dtype} is accepted") from None
    return value.item()


def part(x: Any, start: Sequence[int] | int, extent: Sequence[int] | int | None) -> Any:
    """`pydp.section` of a Field, an ndarray or a tile range."""
    whole = x.extent if isinstance(x, TileRange) else Extent(x.shape)
    low = Index(start)
    if len(low) != len(whole):
        raise InvalidArgument(f"start {tuple(low)} has {len(low)} axes; the data has {len(whole)}")
    if extent is None and all(0 <= at <= size for at, size in zip(low, whole, strict=True)):
        extent = [size - at for at, size in zip(low, whole, strict=True)]
    sizes = Extent(() if extent is None else extent)
    if len(sizes) != len(whole) or not all(
        at >= 0 and at + size <= end for at, size, end in zip(low, sizes, whole, strict=True)
    ):
        raise InvalidArgument(f"a section of {tuple(sizes)} from {tuple(low)} is not inside the extent {tuple(whole)}")
    if not isinstance(x, TileRange):
        return _cut(x, low, sizes, (1,) * len(low))
    return x.with_data(_cut(x.base, low, sizes, x.tiles[0]), x.tiles, x.tail)


def _cut(data: Any, low: Sequence[int], sizes: Sequence[int], unit: Sequence[int]) -> Any:
    """The view data[low * unit : (low + sizes) * unit]; because of the ellipsis, NumPy returns an array at rank 0."""
    steps = zip(low, sizes, unit, strict=True)
    key = (*(slice(at * t, (at + size) * t) for at, size, t in steps), Ellipsis)
    return data[key]


def protected(data: Any) -> Any:
    """A read-only view of a Field or ndarray."""
    if isinstance(data, np.ndarray):
        view = data.view()
        view.flags.writeable = False
        return view
    return data.read_only
