"""The operators on indexables (SPEC S1): tile, section, project, read_only, and one form for all of them.

An indexable is a Field, a NumPy array, a pyopencl Array, or a TileRange made of one. The operators compose in
any order and to any depth, on the device and on the host alike, and none of them copies data.

    identity of tiles:    tile(x, T)[t][local] is x[t * T + local]
    recursive tiles:      tile(tile(x, A), B)[t] is tile(tile(x, A)[t], B): each tile is tiled again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.runtime.arrays.indexing import IndexOutOfRange
from pydp.runtime.field.field import Field
from pydp.runtime.field.tile_range import TileRange, is_writable, part, protected, tail_of, tiled
from pydp.runtime.placement import Array
from pydp.space import integers

_INDEXABLES = "a Field, NumPy array, pyopencl Array or tile range"


@dataclass(frozen=True)
class View:
    """The one form of every indexable: data (a Field or ndarray), the extents of its tiles, outermost first,
    whether it may be written, and what is read where a tile reaches beyond the data."""

    base: Any
    tiles: tuple[tuple[int, ...], ...]
    writable: bool
    fill: Any


def _indexable(x: Any, what: str) -> Any:
    """A tile range as it is, a Field or ndarray for plain data; pyopencl Arrays become Fields on their memory."""
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidArgument(f"{what} takes {_INDEXABLES}; a masked array's mask would be lost")
    if isinstance(x, (Field, np.ndarray, TileRange)):
        return x
    if isinstance(x, Array):
        return Field.wrap(x)
    raise InvalidArgument(f"{what} takes {_INDEXABLES}, not {type(x).__name__}")


def tile(x: Any, extent: Sequence[int] | int, tail: str | Sequence[str] | None = None, fill: Any = None) -> TileRange:
    """Decompose an indexable into tiles (SPEC S1): an indexable of the same rank whose elements are tiles.

    x: Field, NumPy array, pyopencl Array, or a tile range (each of its tiles is tiled again). extent: the
    tile's sizes, one for each axis, 1 or more. tail: what happens where the last tile reaches beyond the data:
    "mask" (reads give `fill`, writes are dropped; the default), "pad" (the same, said for its fill), or "exact"
    (InvalidArgument unless the tiles divide the data); a sequence has one of these for each axis. Where `tail` and
    `fill` are None, a tile range keeps its own.

    >>> import numpy as np, pydp
    >>> tiled = pydp.tile(np.arange(20).reshape(4, 5), (2, 2))
    >>> tiled.extent, tiled[1, 2].tolist()
    (Extent(2, 3), [[14], [19]])
    """
    return tiled(_indexable(x, "tile"), extent, tail, fill)


def section(x: Any, start: Sequence[int] | int, extent: Sequence[int] | int | None = None) -> Any:
    """The part of an indexable from `start` on, `extent` large (None: to the end): a view of the same rank.

    Of a tile range it is a range of whole tiles; start and extent count tiles. Raises InvalidArgument where it
    reaches outside.

    >>> import numpy as np, pydp
    >>> pydp.section(np.arange(10), 2, 3).tolist()
    [2, 3, 4]
    """
    return part(_indexable(x, "section"), start, extent)


def project(x: Any, axis: int, index: int) -> Any:
    """The part of an indexable at `index` along `axis`: a view with one axis less.

    A tile range can be projected along an axis where its tiles are one element thick; else project the data and
    tile that. Raises InvalidArgument for an axis or index that is not there.

    >>> import numpy as np, pydp
    >>> pydp.project(np.arange(6).reshape(2, 3), 0, 1).tolist()
    [3, 4, 5]
    """
    whole = _indexable(x, "project")
    rank = whole.rank if isinstance(whole, TileRange) else len(whole.shape)
    place, at = _one(axis, "axis"), _one(index, "index")
    if not -rank <= place < rank:
        raise InvalidArgument(f"axis {place} is not an axis of data of rank {rank}")
    place %= rank
    key = (*[slice(None)] * place, at, Ellipsis)
    if not isinstance(whole, TileRange):
        size = whole.shape[place]
        if not -size <= at < size:
            raise IndexOutOfRange(f"index {at} is out of range for axis {place} of size {size}")
        return whole[key]
    if any(extent[place] != 1 for extent in whole.tiles):
        raise InvalidArgument(
            f"tiles of {whole.tiles} cannot be projected along axis {place}, where they are thicker than 1; "
            "project the data, then tile it"
        )
    tail = (
        whole.tail if isinstance(whole.tail, str) else tail_of(whole.tail[:place] + whole.tail[place + 1 :], rank - 1)
    )
    tiles = tuple(extent[:place] + extent[place + 1 :] for extent in whole.tiles)
    return whole.with_data(project(whole.base, place, at), tiles, tail)


def _one(value: Any, what: str) -> int:
    numbers = integers(value, what)
    if len(numbers) != 1:
        raise InvalidArgument(f"{what} is {value!r}; one integer is accepted")
    return numbers[0]


def read_only(x: Any) -> Any:
    """The same indexable as a view that refuses to be written, from the host and from vector functions.

    >>> import numpy as np, pydp
    >>> pydp.read_only(np.zeros(3)).flags.writeable
    False
    """
    whole = _indexable(x, "read_only")
    return whole.read_only if isinstance(whole, TileRange) else protected(whole)


def describe(x: Any) -> View:
    """The one form of an indexable that the language layer works with; pyopencl Arrays become Fields."""
    whole = _indexable(x, "this")
    if isinstance(whole, TileRange):
        return View(whole.base, whole.tiles, whole.writable, whole.fill)
    return View(whole, (), is_writable(whole), 0)
