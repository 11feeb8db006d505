"""View functions on indexables (SPEC S1): tile, section, project, read_only.

An indexable is a Field, a NumPy array, a pyopencl Array, or a TileRange of one of these. The functions compose in any
order and to any depth, on the device and on the host. None of them copies data.

    definition of tiles:  tile(x, T)[t][local] is x[t * T + local]
    nested tiles:         tile(tile(x, A), B)[t] is tile(tile(x, A)[t], B): each tile is tiled again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.indexing import IndexOutOfRange
from pydp.runtime.field.field import Field
from pydp.runtime.field.tile_range import TileRange, is_writable, part, protected, tail_of, tiled
from pydp.runtime.placement import Array
from pydp.space import integers

_INDEXABLES = "a Field, NumPy array, pyopencl Array or tile range"


@dataclass(frozen=True)
class View:
    """The common form of every indexable: the data (a Field or ndarray), the extents of its tiles (outermost first),
    whether it is writable, and the value that is read beyond the end of the data."""

    base: Any
    tiles: tuple[tuple[int, ...], ...]
    writable: bool
    fill: Any


def _indexable(x: Any, what: str) -> Any:
    """Check an indexable. A pyopencl Array becomes a Field that shares its memory; the rest is returned unchanged."""
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidArgument(f"{what} takes {_INDEXABLES}; the mask of a masked array would be lost")
    if isinstance(x, (Field, np.ndarray, TileRange)):
        return x
    if isinstance(x, Array):
        return Field.wrap(x)
    raise InvalidArgument(f"{what} takes {_INDEXABLES}, not {type(x).__name__}")


def tile(x: Any, extent: Sequence[int] | int, tail: str | Sequence[str] | None = None, fill: Any = None) -> TileRange:
    """Split an array (Field, NumPy array, pyopencl Array) or a tile range into tiles.

    The result has the same rank, and its elements are tiles. If `x` is a tile range, its tiles are tiled again. extent:
    the sizes of a tile, one per axis, each at least 1. tail: the policy for a last tile that extends beyond the data,
    or a sequence with one policy per axis. "mask" (the default): reads return `fill`, writes are dropped. "pad": the
    same as "mask". "exact": InvalidArgument unless the tiles divide the data. If `tail` or `fill` is None, a tile range
    keeps its own.

    >>> import numpy as np, pydp
    >>> tiled = pydp.tile(np.arange(20).reshape(4, 5), (2, 2))
    >>> tiled.extent, tiled[1, 2].tolist()
    (Extent(2, 3), [[14], [19]])
    """
    return tiled(_indexable(x, "tile"), extent, tail, fill)


def section(x: Any, start: Sequence[int] | int, extent: Sequence[int] | int | None = None) -> Any:
    """A view of the part of `x` that begins at `start` and has size `extent` (None: up to the end).

    x: an array (Field, NumPy array, pyopencl Array) or a tile range. The rank stays the same. For a tile range, `start`
    and `extent` count tiles. Raises InvalidArgument if the section is not inside the data.

    >>> import numpy as np, pydp
    >>> pydp.section(np.arange(10), 2, 3).tolist()
    [2, 3, 4]
    """
    return part(_indexable(x, "section"), start, extent)


def project(x: Any, axis: int, index: int) -> Any:
    """A view of `x` at `index` along `axis`; the result has one axis fewer.

    x: an array (Field, NumPy array, pyopencl Array) or a tile range. A tile range can be projected only along an axis
    on which its tiles have size 1. Otherwise, project the data and tile the result. Raises InvalidArgument if `axis` or
    `index` is out of range.

    >>> import numpy as np, pydp
    >>> pydp.project(np.arange(6).reshape(2, 3), 0, 1).tolist()
    [3, 4, 5]
    """
    whole = _indexable(x, "project")
    rank = whole.rank if isinstance(whole, TileRange) else len(whole.shape)
    place, at = _one(axis, "axis"), _one(index, "index")
    if not -rank <= place < rank:
        raise InvalidArgument(f"axis {place} is out of range for data of rank {rank}")
    place %= rank
    key = (*[slice(None)] * place, at, Ellipsis)
    if not isinstance(whole, TileRange):
        size = whole.shape[place]
        if not -size <= at < size:
            raise IndexOutOfRange(f"index {at} is out of range for axis {place} of size {size}")
        return whole[key]
    if any(extent[place] != 1 for extent in whole.tiles):
        raise InvalidArgument(
            f"tiles of {whole.tiles} cannot be projected along axis {place}, where their size is not 1; "
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
        raise InvalidArgument(f"{what} is {shown(value)}; one integer is accepted")
    return numbers[0]


def read_only(x: Any) -> Any:
    """A read-only view of `x`, for the host and for vector functions.

    x: an array (Field, NumPy array, pyopencl Array) or a tile range.

    >>> import numpy as np, pydp
    >>> pydp.read_only(np.zeros(3)).flags.writeable
    False
    """
    whole = _indexable(x, "read_only")
    return whole.read_only if isinstance(whole, TileRange) else protected(whole)


def describe(x: Any) -> View:
    """Convert an indexable to a View, the form that the language layer uses. pyopencl Arrays become Fields."""
    whole = _indexable(x, "this")
    if isinstance(whole, TileRange):
        return View(whole.base, whole.tiles, whole.writable, whole.fill)
    return View(whole, (), is_writable(whole), 0)
