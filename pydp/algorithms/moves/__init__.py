"""Data movement with NumPy's names: elements at indexes, elements by a condition, copies of blocks, borders.

`gather` has take and put, `conditions` where. The functions of `blocks` and `pad` copy strided blocks. None of them has
specializations.
"""

from __future__ import annotations

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
from pydp.algorithms.moves.gather import explain_take, put, take
from pydp.algorithms.moves.pad import pad
from pydp.model.explanation import explained_by

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

explained_by(take, explain_take)
