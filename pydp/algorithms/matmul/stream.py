"""Products of NumPy arrays larger than the device's largest buffer: blocks of the operands are multiplied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.pieces import fit, halves, widest_axis
from pydp.runtime.memory.host_memory import fresh, host_allocation

_Multiply = Callable[[np.ndarray, np.ndarray, np.ndarray, Any, Sequence[np.ndarray] | None], Any]


class Block(NamedTuple):
    """Blocks of a, b, c and arrays of the shape of c. first, last: of the blocks along k."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    others: tuple[np.ndarray, ...]
    first: bool
    last: bool


def multiply_in_pieces(
    run: _Multiply,
    limit: int,
    beta: Any,
    a: np.ndarray,
    b: np.ndarray,
    target: np.ndarray,
    others: Sequence[np.ndarray] = (),
) -> None:
    """Compute alpha * (a @ b) + beta * target into `target`.

    run(a, b, target, beta, others) does so for blocks that fit into `limit` bytes. Blocks along k are added one by one.
    For float16, these sums are kept as float32: partial sums may exceed the range of float16. others: arrays of the
    target's shape; the last block along k gets the parts of them that belong to its target, the blocks before get None.
    """
    blocks = list(_blocks(limit, *_matrices(a, b, target, *others)))
    if target.dtype != np.float16 or all(one.first for one in blocks):
        for one in blocks:
            run(one.a, one.b, one.c, beta if one.first else 1, one.others if one.last else None)
        return
    with host_allocation():
        sums = target.astype(np.float32) if beta != 0 else fresh(target.shape, np.dtype(np.float32))
        for one in _blocks(limit // 2, *_matrices(a, b, sums, *others)):
            left, right = _widened(one.a), _widened(one.b)
            run(left, right, one.c, beta if one.first else 1, one.others if one.last else None)
        with np.errstate(over="ignore"):
            target[...] = sums


def _widened(x: np.ndarray) -> np.ndarray:
    """`x` as float32; repeated elements (of axes with stride 0) are converted once."""
    once = x[tuple(slice(None) if step else slice(1) for step in x.strides)]
    return np.broadcast_to(once.astype(np.float32), x.shape)


def first_block(limit: int, a: np.ndarray, b: np.ndarray, target: np.ndarray, others: Sequence[np.ndarray]) -> Block:
    """The first block: parts of the arrays."""
    return next(_blocks(limit, *_matrices(a, b, target, *others)))


def _matrices(a: np.ndarray, b: np.ndarray, target: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Views of the operands, the result and arrays of its shape as matrices with the same batch axes."""
    left, right = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    axes = ((-2,) if a.ndim == 1 else ()) + ((-1,) if b.ndim == 1 else ())
    places = [np.expand_dims(one, axes) for one in (target, *others)]
    batch = places[0].shape[:-2]
    left = np.broadcast_to(left, (*batch, *left.shape[-2:]))
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    return [left, right, *places]


def _blocks(
    limit: int, a: np.ndarray, b: np.ndarray, c: np.ndarray, *others: np.ndarray, first: bool = True, last: bool = True
) -> Iterator[Block]:
    """Blocks that fit."""
    if fit(limit, a, b, c, *others):
        yield Block(a, b, c, others, first, last)
        return
    rank = c.ndim
    # Halving c also halves what is read of a or b.
    wide = next(one for one in (c, *others, a, b) if not fit(limit, one))
    axis = widest_axis([wide])
    if axis < rank - 2:
        for (left,), (right,), places in zip(halves(axis, a), halves(axis, b), halves(axis, c, *others), strict=True):
            yield from _blocks(limit, left, right, *places, first=first, last=last)
    elif wide is not b and axis == rank - 2:
        for (left,), places in zip(halves(axis, a), halves(axis, c, *others), strict=True):
            yield from _blocks(limit, left, b, *places, first=first, last=last)
    elif wide is not a and axis == rank - 1:
        for (right,), places in zip(halves(axis, b), halves(axis, c, *others), strict=True):
            yield from _blocks(limit, a, right, *places, first=first, last=last)
    else:
        pairs = zip(halves(rank - 1, a), halves(rank - 2, b), (first, False), (False, last), strict=True)
        for (left,), (right,), begins, ends in pairs:
            yield from _blocks(limit, left, right, c, *others, first=begins, last=ends)
