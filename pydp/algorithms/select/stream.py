"""Selections from NumPy arrays that are larger, or have larger results, than the device's largest buffer.

The elements are taken in C order in pieces that fit; NumPy joins the results of the pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.arguments import check_same_shape
from pydp.algorithms.pieces import after_events, buffer_limit, contiguous, needed
from pydp.algorithms.select.request import INDEXES, check_count
from pydp.errors import InvalidArgument
from pydp.runtime.memory.host_memory import host_allocation
from pydp.runtime.placement import Array, check_writable

_INDEX = 8  # bytes of one index, an int64


def too_large(which: str, x: Any, mask: Any, where: dict[str, Any]) -> bool:
    """Whether a call must work on pieces."""
    result = x.size * _INDEX * max(1, x.ndim) if which in INDEXES and isinstance(x, np.ndarray) else 0
    return needed(where, x, mask, result=result)


def select_in_pieces(
    run: Callable[[str, np.ndarray, Any], np.ndarray | tuple[Any, ...]],
    which: str,
    x: np.ndarray,
    mask: np.ndarray | None,
    count: Any,
    where: dict[str, Any],
) -> Any:
    """The result of the public function `which`. run(which, x, mask): the result for a piece, of the functions select,
    compress, partition (of two or three parts) and flatnonzero."""
    if count is not None:
        check_count(count)
        check_writable(count, "count")
        read = [x, *([] if mask is None else [mask])]
        if isinstance(count, np.ndarray) and any(np.may_share_memory(count, one) for one in read):
            raise InvalidArgument("count shares memory with an array that the call reads; a separate array is needed")
    if which not in ("compress", *INDEXES) and mask is not None:
        check_same_shape("mask", mask, "x", x)
    if which in ("nonzero", "argwhere") and not x.ndim:
        raise InvalidArgument(f"{which} is given an array of rank 0; arrays of rank 1 and more are accepted")
    limit = buffer_limit(where)
    after_events(where)
    shape, flat = x.shape, contiguous(x).reshape(-1)
    mask_shape = () if mask is None else mask.shape
    flags = None if mask is None else contiguous(mask).reshape(-1)
    if which == "compress" and flags is not None:
        if len(mask_shape) != 1 or flags.size > flat.size:
            raise InvalidArgument(
                f"mask has shape {mask_shape}; rank 1 and at most as many elements as x, {flat.size}, are accepted"
            )
        flat = flat[: flags.size]
    each = max(1, limit // max(flat.itemsize, _INDEX))
    lists: list[list[np.ndarray]] = [[], [], []]  # of the parts of a partition
    kept, sizes = lists[0], 0
    for start in range(0, max(flat.size, 1), each):
        part = flat[start : start + each]
        found = run(_OF_PIECES.get(which, which), part, None if flags is None else flags[start : start + each])
        if isinstance(found, tuple):
            sizes = len(found) - 1
            for pieces, piece in zip(lists, np.split(found[0], np.cumsum(found[1:])), strict=False):
                pieces.append(piece)
        else:
            kept.append(found + start if which in INDEXES else found)
    totals = [sum(map(len, pieces)) for pieces in lists]
    if count is not None:
        _store(count, totals[0])
    with host_allocation():
        joined = np.concatenate([piece for pieces in lists for piece in pieces])
        if which == "partition":
            return joined, *totals[:sizes]
        if which in ("nonzero", "argwhere"):
            axes = tuple(one.astype(np.int64) for one in np.unravel_index(joined, shape))
            return axes if which == "nonzero" else np.stack(axes, axis=1)
    return joined


_OF_PIECES = {"nonzero": "flatnonzero", "argwhere": "flatnonzero"}


def _store(count: Any, total: int) -> None:
    if isinstance(count, Array):
        count.fill(total)
    else:
        count[...] = total
