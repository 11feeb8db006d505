"""Data movement with NumPy's names: elements at indexes, elements by a condition, copies of blocks, borders.

`gather` has take and put, `conditions` where. The functions of `blocks` and `pad` copy strided blocks. None of them has
specializations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydp.algorithms.dry_explanation import explained_by_launches
from pydp.algorithms.moves.blocks import (
    adjacent_difference,
    concatenate,
    diff,
    flip,
    moveaxis,
    roll,
    stack,
    swapaxes,
    tile_array,
)
from pydp.algorithms.moves.conditions import where
from pydp.algorithms.moves.gather import put, take
from pydp.algorithms.moves.pad import pad
from pydp.algorithms.registry import Algorithm, Passed, Shape, alike, register, vectors
from pydp.tuning.reference import Expected, host

__all__ = [
    "adjacent_difference",
    "concatenate",
    "diff",
    "flip",
    "moveaxis",
    "pad",
    "put",
    "roll",
    "stack",
    "swapaxes",
    "take",
    "tile_array",
    "where",
]


# --- explanations and references -----------------------------------------------------------------------------


def _after_put(a: np.ndarray, ind: np.ndarray, v: np.ndarray, mode: Any = "raise") -> np.ndarray:
    np.put(a, ind, v, mode)
    return a


def _differences(x: np.ndarray, axis: int = -1) -> np.ndarray:
    first = np.take(x, [0], axis) if x.shape[axis] else x
    return np.concatenate([first, np.diff(x, axis=axis)], axis)


def _reference(function: Callable[..., Any]) -> Callable[..., list[Expected]]:
    """The reference by a function of NumPy."""

    def reference(*arrays: Any, **named: Any) -> list[Expected]:
        given = [[host(each) for each in one] if isinstance(one, list) else host(one) for one in arrays]
        return [Expected(np.asarray(function(*given, **named)))]

    return reference


def _as_list(arrays: Sequence[Any], options: dict[str, Any]) -> Passed:
    return (list(arrays),), options


def _indexed(size: Shape) -> list[Shape] | None:
    """N elements and as many indexes, or N elements and another number of indexes."""
    return [size[:1], size[-1:]] if len(size) in (1, 2) else None


_CHECKED = (
    "mode 'raise': the smallest and the largest index are computed first, and the call waits for them; up to 4096 "
    "indexes in a NumPy array are checked on the host"
)
_BLOCKS = "each block is one copy of a view of the input to a view of the result"
_TRANSPOSED = "a transpose with the axes in another order; explain(pydp.transpose, ...) says how its tiles are copied"
_INDEXES = {1: "int64"}
_MOVES = "pydp.bench.bench_moves"

for _function, _numpy, _choices, _more in (
    (take, np.take, ("a kernel gathers rows of the axes behind the indexed one", _CHECKED),
     {"operands": 2, "own_dtypes": _INDEXES, "shapes": _indexed, "accepted": ("N", "N INDEXES")}),
    (put, _after_put, ("of equal indexes, the last one wins: owners of parts of the array visit the indexes in order "
                       "on CPUs, an atomic maximum finds the last position on GPUs", _CHECKED),
     {"operands": 3, "own_dtypes": _INDEXES, "shapes": vectors(3), "accepted": ("N",)}),
    (where, np.where, ("one kernel reads all arrays and converts the elements; without values, it is nonzero",),
     {"operands": 3, "own_dtypes": {0: "bool"}, "shapes": alike(3)}),
    (concatenate, np.concatenate, (_BLOCKS,), {"operands": 2, "more": True, "shapes": alike(2), "passed": _as_list}),
    (stack, np.stack, (_BLOCKS,), {"operands": 2, "more": True, "shapes": alike(2), "passed": _as_list}),
    (flip, np.flip, ("one copy of a view with negative strides",), {}),
    (roll, np.roll, (_BLOCKS, "two blocks for each axis that is rolled"), {"options": {"shift": 1}}),
    (tile_array, np.tile, (_BLOCKS, "up to 16 copies are launches of their own; more are one copy with repeated axes"),
     {"options": {"reps": 2}}),
    (pad, np.pad, (_BLOCKS, "the inside is copied first, then the borders of each axis"),
     {"options": {"pad_width": 1}}),
    (diff, np.diff, ("a kernel subtracts two views of the array, once for each order of the difference",), {}),
    (adjacent_difference, _differences, ("the first element is copied; a kernel subtracts two views of the array",),
     {}),
    (moveaxis, np.moveaxis, (_TRANSPOSED,), {"options": {"source": 0, "destination": -1}}),
    (swapaxes, np.swapaxes, (_TRANSPOSED,), {"options": {"axis1": 0, "axis2": -1}}),
):  # fmt: skip
    _fields: dict[str, Any] = {"benchmark": _MOVES, **_more}
    if _choices == (_TRANSPOSED,):
        _fields["benchmark"] = "pydp.bench.bench_transpose"
    register(
        Algorithm(
            _function, explained_by_launches(_function, *_choices), _reference(_numpy), sizes=("1048576",), **_fields
        )
    )
