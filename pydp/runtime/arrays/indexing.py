"""NumPy's basic indexing, applied to shapes and strides."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, shown
from pydp.space import MAX_RANK

Layout = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides, offset; strides and offset in elements
ARRAY_ADVICE = (
    "Use pydp.select(x, mask=mask) for a mask, pydp.take(x, indexes) for indexes, or index the result of .get()"
)


class IndexOutOfRange(InvalidArgument, IndexError):
    """An index is out of range."""


def _expand(key: Any, rank: int) -> list[Any]:
    """Expand a key to one item per axis (and None per new axis), with the ellipsis replaced by full slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    for item in items:
        plain = item is None or item is Ellipsis or isinstance(item, slice) or hasattr(item, "__index__")
        array = isinstance(item, np.ndarray) and item.ndim > 0
        if isinstance(item, (bool, np.bool_)) or array or not plain:
            shape = getattr(item, "shape", ())
            what = f"an index of shape {shape} and dtype {item.dtype}" if shape else f"index {item!r}"
            raise InvalidArgument(
                f"{what} is not accepted; integers, slices, Ellipsis and None are accepted. {ARRAY_ADVICE}"
            )
    used = sum(item is not None and item is not Ellipsis for item in items)
    dots = [at for at, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise InvalidArgument("an index has at most one ellipsis ('...')")
    if used > rank:
        raise IndexOutOfRange(f"too many indexes: {used} for data of rank {rank}")
    missing = [slice(None)] * (rank - used)
    if dots:
        return items[: dots[0]] + missing + items[dots[0] + 1 :]
    return items + missing


def index_layout(layout: Layout, key: Any) -> Layout:
    """The layout of the view ``data[key]`` for a basic index: integers, slices of any step, None, ellipsis.

    Raises InvalidArgument for other keys, IndexOutOfRange (also an IndexError) for integers out of range.
    """
    shape, strides, offset = layout
    new_shape: list[int] = []
    new_strides: list[int] = []
    axis = 0
    for item in _expand(key, len(shape)):
        if item is None:
            new_shape.append(1)
            new_strides.append(0)
            continue
        size, stride = shape[axis], strides[axis]
        if isinstance(item, slice):
            try:
                start, stop, step = item.indices(size)
            except (TypeError, ValueError) as error:
                raise InvalidArgument(f"{shown(item)} is not a slice of integers: {error}") from None
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            new_shape.append(count)
            new_strides.append(stride * step)
        else:
            at = operator.index(item)
            if not -size <= at < size:
                raise IndexOutOfRange(f"index {at} is out of range for axis {axis} of size {size}")
            offset += (at + size if at < 0 else at) * stride
        axis += 1
    if len(new_shape) > MAX_RANK:
        raise InvalidArgument(f"index {shown(key)} gives {len(new_shape)} axes; ranks 0 to {MAX_RANK} are accepted")
    return tuple(new_shape), tuple(new_strides), offset


def broadcast_strides(shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...], what: str) -> Any:
    """The strides that broadcast data of `shape` to the shape `to`: 0 along repeated axes."""
    new = len(to) - len(shape)
    fits = new >= 0 and all(size in (1, wanted) for size, wanted in zip(shape, to[new:], strict=True))
    if not fits:
        raise InvalidArgument(f"{what} of shape {shape} does not fit the shape {to}; it must broadcast to it")
    kept = (0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    return (0,) * new + tuple(kept)
