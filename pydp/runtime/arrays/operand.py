"""Operand: an array argument of a kernel as buffer, offset, shape and strides, counted in elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pydp.space import merge_axes


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a C-contiguous array."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def is_c_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether an array is C-contiguous. Strides of axes of size 1 and of empty arrays do not matter, as in NumPy."""
    if 0 in shape:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def span(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> tuple[int, int]:
    """The range [low, high) of buffer elements that contains all elements of an array."""
    low = high = offset
    for size, stride in zip(shape, strides, strict=True):
        if size == 0:
            return offset, offset
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + 1


class Strided:
    """The properties of a strided array that follow from shape, strides and offset, counted in elements."""

    __slots__ = ()

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: np.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the array is C-contiguous."""
        return is_c_contiguous(self.shape, self.strides)

    @property
    def span(self) -> tuple[int, int]:
        """The range [low, high) of buffer elements that contains all elements."""
        return span(self.shape, self.strides, self.offset)


class Operand(Strided):
    """An array argument of a kernel: element k[0], k[1] ... is at ``offset + sum(strides * k)``.

    `offset` and `strides` count elements; strides may be negative or 0. `owner` owns the memory: a Storage for device
    data, a NumPy array for host data.
    """

    __slots__ = ("buffer", "dtype", "name", "offset", "owner", "result", "shape", "strides")

    def __init__(
        self,
        name: str,
        buffer: Any,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        owner: Any = None,
        result: Any = None,
    ) -> None:
        self.name = name
        self.buffer = buffer
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.owner = owner
        self.result = result

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None) -> Operand:
        """A view of the same memory with another shape, other strides and another offset."""
        where = self.offset if offset is None else offset
        return Operand(self.name, self.buffer, where, shape, strides, self.dtype, self.owner, self.result)

    @property
    def flat_step(self) -> int | None:
        """The stride between the elements in C order, 1 for a single element; None if they have no single stride."""
        merged = merge_axes((size, (step,)) for size, step in zip(self.shape, self.strides, strict=True))
        return None if len(merged) > 1 else merged[0][1][0] if merged else 1

    @property
    def flat(self) -> Operand:
        """The elements in C order as an operand of one axis, with stride 1 if they must be copied (see `Call.flat`)."""
        step = self.flat_step
        return self.view((self.size,), (1 if step is None else step,))

    def __repr__(self) -> str:
        return (
            f"Operand({self.name!r}, shape={self.shape}, strides={self.strides}, offset={self.offset}, "
            f"dtype={self.dtype})"
        )
