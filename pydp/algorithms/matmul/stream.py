"""Products of NumPy arrays larger than the device's largest buffer: blocks of the operands are multiplied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pydp.algorithms.pieces import fit, halves, widest_axis
from pydp.runtime.memory.host_memory import fresh, host_allocation

_Multiply = Callable[[np.ndarray, np.ndarray, np.ndarray, Any], Any]


def multiply_in_pieces(run: _Multiply, limit: int, beta: Any, a: np.ndarray, b: np.ndarray, target: np.ndarray) -> None:
    """Compute alpha * (a @ b) + beta * target into `target`.

    run(a, b, target, beta) does so for blocks that fit into `limit` bytes. Blocks along k are added one by one. For
    float16, these sums are kept as float32: partial sums may exceed the range of float16.
    """
    blocks = list(_blocks(limit, *_matrices(a, b, target)))
    if target.dtype != np.float16 or all(first for *_, first in blocks):
        for left, right, place, first in blocks:
            run(left, right, place, beta if first else 1)
        return
    with host_allocation():
        sums = target.astype(np.float32) if beta != 0 else fresh(target.shape, np.dtype(np.float32))
        for left, right, place, first in _blocks(limit // 2, *_matrices(a, b, sums)):
            run(_widened(left), right, place, beta if first else 1)
        with np.errstate(over="ignore"):
            target[...] = sums


def _widened(x: np.ndarray) -> np.ndarray:
    """`x` as float32; repeated elements (of axes with stride 0) are converted once."""
    once = x[tuple(slice(None) if step else slice(1) for step in x.strides)]
    return np.broadcast_to(once.astype(np.float32), x.shape)


def first_block(limit: int, a: np.ndarray, b: np.ndarray, target: np.ndarray) -> Sequence[np.ndarray]:
    """The first block: the operands and the part of the target."""
    return next(_blocks(limit, *_matrices(a, b, target)))[:3]


def _matrices(a: np.ndarray, b: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Views of the operands and the result as matrices with the same batch axes."""
    left, right = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    place = np.expand_dims(target, ((-2,) if a.ndim == 1 else ()) + ((-1,) if b.ndim == 1 else ()))
    batch = place.shape[:-2]
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    return left, right, place


def _blocks(
    limit: int, a: np.ndarray, b: np.ndarray, c: np.ndarray, first: bool = True
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]:
    """Blocks of a, b and c that fit, and whether a block is the first along k."""
    if fit(limit, a, b, c):
        yield a, b, c, first
        return
    rank = c.ndim
    wide = next(one for one in (c, a, b) if not fit(limit, one))  # halving c also halves what is read of a or b
    axis = widest_axis([wide])
    if axis < rank - 2:
        parts = zip(halves(axis, a), halves(axis, b), halves(axis, c), strict=True)
        for (left,), (right,), (place,) in parts:
            yield from _blocks(limit, left, right, place, first)
    elif wide is not b and axis == rank - 2:
        for (left,), (place,) in zip(halves(axis, a), halves(axis, c), strict=True):
            yield from _blocks(limit, left, b, place, first)
    elif wide is not a and axis == rank - 1:
        for (right,), (place,) in zip(halves(axis, b), halves(axis, c), strict=True):
            yield from _blocks(limit, a, right, place, first)
    else:
        for (left,), (right,) in zip(halves(rank - 1, a), halves(rank - 2, b), strict=True):
            yield from _blocks(limit, left, right, c, first)
            first = False
