"""What the typed intermediate form (:mod:`pydp.lang.ir`) is about: places in the source, variables, arrays, members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Where:
    """A place in the user's source."""

    file: str
    line: int
    column: int
    text: str
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


NOWHERE = Where("<unknown>", 0, 0, "", "")


# --- what holds data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    """A private scalar or record of a lane. Names are unique within a function; `made`: the user wrote none for it;
    `weak`: it holds weak integers (see :mod:`pydp.lang.ir`)."""

    name: str
    dtype: np.dtype[Any]
    made: bool = field(default=False, compare=False)
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class GlobalArray:
    """An array argument: element address = offset + sum(stride[k] * index[k]), all of them run-time values.

    `position` counts the call's arguments (after the index) from 0. `fill` is read outside the extents.
    """

    name: str
    dtype: np.dtype[Any]
    rank: int
    writable: bool
    position: int
    fill: Any = 0


@dataclass(frozen=True)
class LocalArray:
    """A local_field: shared by the lanes of a group, not initialised."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    where: Where = NOWHERE


@dataclass(frozen=True)
class PrivateArray:
    """A private_field: one for each lane, not initialised."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    where: Where = NOWHERE


Array = GlobalArray | LocalArray | PrivateArray


# --- members of records ----------------------------------------------------------------------------------


class Item(str):
    """The number of an item of an array member, as a step of a path; an item of several axes has a step for each."""


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
    """The members at `path` of a record, or of an array of records, of `dtype`; a view where `records` is an array."""
    for name in path:
        if isinstance(name, Item):
            records = records[(..., int(name), *(slice(None),) * (len(dtype.shape) - 1))]
        else:
            records = records[name]
        dtype = member_dtype(dtype, (name,))
    return records


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """An integer modulo the width of `dtype`."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
