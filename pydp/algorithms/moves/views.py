"""Views of operands: parts and broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.runtime.arrays.indexing import broadcast_strides, index_layout
from pydp.runtime.arrays.operand import Operand


def words_of(dtype: np.dtype) -> tuple[np.dtype, int]:
    """(dtype, number) of the words that elements are copied by."""
    size = dtype.itemsize
    word = min(8, size & -size)
    return np.dtype(f"u{word}"), size // word


def part_of(source: Operand, *key: Any) -> Operand:
    """The view ``source[key]`` of slices, integers and None."""
    shape, strides, offset = index_layout((source.shape, source.strides, source.offset), tuple(key))
    return source.view(shape, strides, offset)


def along(source: Operand, axis: int, key: slice) -> Operand:
    """The view with a slice of one axis."""
    return part_of(source, *(slice(None),) * axis, key)


def broadcast(source: Operand, shape: Sequence[int]) -> Operand:
    """The view of a larger shape."""
    to = tuple(shape)
    return source.view(to, broadcast_strides(source.shape, source.strides, to, source.name))
