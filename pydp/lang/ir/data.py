"""Parts of the intermediate form (:mod:`pydp.lang.ir`): source locations, variables, arrays, record members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Where:
    """A location in the user's source."""

    file: str
    line: int
    column: int
    text: str
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


NOWHERE = Where("<unknown>", 0, 0, "", "")


# --- variables and arrays --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    """A scalar or record variable of a lane. Names are unique within a function. synthetic: the variable has no name in
    the user's source. weak: it holds weak integers (see :mod:`pydp.lang.ir`)."""

    name: str
    dtype: np.dtype[Any]
    synthetic: bool = field(default=False, compare=False)
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class GlobalArray:
    """An array argument. The address of an element is offset + sum(stride[k] * index[k]); offset and strides are
    run-time values.

    position: the argument's number in the call, from 0, without the index. fill: the value of loads out of bounds.
    """

    name: str
    dtype: np.dtype[Any]
    rank: int
    writable: bool
    position: int
    fill: Any = 0


@dataclass(frozen=True)
class LocalArray:
    """A local_field: shared by the lanes of a group, uninitialized."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    where: Where = NOWHERE


@dataclass(frozen=True)
class PrivateArray:
    """A private_field: one per lane, uninitialized."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    where: Where = NOWHERE


Array = GlobalArray | LocalArray | PrivateArray


# --- members of records ----------------------------------------------------------------------------------


class Item(str):
    """The index of an item of an array member, as an element of a path. An array of several axes has one per axis."""


def member_dtype(dtype: np.dtype[Any], path: Iterable[str]) -> np.dtype[Any]:
    """The dtype of the member at `path` of a record."""
    for name in path:
        if isinstance(name, Item):
            assert dtype.subdtype is not None
            dtype = np.dtype((dtype.base, dtype.shape[1:]))
        else:
            assert dtype.fields is not None
            dtype = dtype.fields[name][0]
    return dtype


def member_of(records: Any, dtype: np.dtype[Any], path: Iterable[str]) -> Any:
    """The member at `path` of a record, or of each record of an array, of `dtype`. A view if `records` is an array."""
    for name in path:
        if isinstance(name, Item):
            records = records[(..., int(name), *(slice(None),) * (len(dtype.shape) - 1))]
        else:
            records = records[name]
        dtype = member_dtype(dtype, (name,))
    return records


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """The integer wrapped to the range of `dtype`."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
