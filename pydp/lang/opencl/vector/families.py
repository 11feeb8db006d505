"""Families: accesses to an array argument at adjacent offsets of a strided index (``a[4 * lane + c]``, c from 0 to 3).

Each access alone uses every fourth element. Together they move whole vectors, which are deinterleaved or interleaved.
All loads of a family load the same vectors, which the compiler merges. Consecutive stores of a family become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydp.lang import ir
from pydp.lang.ir.data import wrap
from pydp.lang.opencl.vector.variance import Variances

_MAX_STEP = 8


class Sibling(NamedTuple):
    """The number of an access in its family of `size` accesses, and the axis along which they are adjacent."""

    number: int
    size: int
    axis: int


Key = tuple[str, int, int, tuple[ir.Expr | None, ...]]


class Families:
    """Finds the families among the accesses of a function. `unit_strides`: (array, axis) pairs of stride 1."""

    def __init__(self, variances: Variances, unit_strides: frozenset[tuple[str, int]]) -> None:
        self._variances, self._units = variances, unit_strides

    def loads(self, body: list[ir.Stmt]) -> dict[int, Sibling]:
        """The loads of `body` whose whole family is in the same list of statements, by uid."""
        found: dict[int, Sibling] = {}
        members: dict[Key, dict[int, list[ir.Load]]] = {}
        for statement in body:
            for load in _loads(statement):
                key, offset = self._split(load.array, load.indices)
                if key is not None:
                    members.setdefault(key, {}).setdefault(offset, []).append(load)
        for (_, axis, count, _), loads in members.items():
            first = min(loads)
            for start in range(first, max(loads) + 1, count):
                if all(offset in loads for offset in range(start, start + count)):
                    for number in range(count):
                        found |= {load.uid: Sibling(number, count, axis) for load in loads[start + number]}
        for statement in body:
            for block in ir.blocks(statement):
                found |= self.loads(block)
        return found

    def stores(self, body: Sequence[ir.Stmt]) -> list[ir.Store]:
        """The family of stores at the start of `body`, in the order of their elements; empty if there is none.

        Their values contain no load from an array argument, so all values can be computed before the first store.
        """
        first = body[0]
        if not isinstance(first, ir.Store):
            return []
        key, _ = self._split(first.array, first.indices)
        if key is None or len(body) < key[2]:
            return []
        stores = [one for one in body[: key[2]] if isinstance(one, ir.Store) and not (one.members or any(_loads(one)))]
        if len(stores) < key[2]:
            return []
        places = [self._split(store.array, store.indices) for store in stores]
        offsets = sorted(offset for _, offset in places)
        if any(other != key for other, _ in places) or offsets != list(range(offsets[0], offsets[0] + key[2])):
            return []
        return sorted(stores, key=lambda store: self._split(store.array, store.indices)[1])

    def _split(self, array: ir.Array, indices: Sequence[ir.Expr]) -> tuple[Key | None, int]:
        """(the key of an access's family or None, the offset of the access in it)."""
        steps = [self._variances.of(index).step for index in indices]
        moving = [axis for axis, step in enumerate(steps) if step != 0]
        if not isinstance(array, ir.GlobalArray) or array.dtype.names is not None or len(moving) != 1:
            return None, 0
        axis, step = moving[0], steps[moving[0]]
        if step is None or not 2 <= step <= _MAX_STEP or (array.name, axis) not in self._units:
            return None, 0
        rest, offset = without_offset(indices[axis])
        return (array.name, axis, step, (*indices[:axis], rest, *indices[axis + 1 :])), offset


def without_offset(expr: ir.Expr) -> tuple[ir.Expr | None, int]:
    """An integer expression split into (the part that varies, the constant added to it); both wrap in its type."""
    if isinstance(expr, ir.Const) and expr.dtype.kind in "iu":
        return None, int(expr.value)
    if not (isinstance(expr, ir.Binary) and expr.op in ("add", "sub")):
        return expr, 0
    (left, first), (right, second) = without_offset(expr.left), without_offset(expr.right)
    offset = wrap(first + second if expr.op == "add" else first - second, expr.dtype)
    if right is None:
        return left, offset
    if left is None and expr.op == "add":
        return right, offset
    return ir.Binary(expr.dtype, expr.op, left or ir.Const(expr.dtype, 0), right), offset


def with_offset(expr: ir.Expr, by: int) -> ir.Expr:
    """The expression plus a constant."""
    return ir.Binary(expr.dtype, "add", expr, ir.Const(expr.dtype, by))


def _loads(statement: ir.Stmt) -> Iterator[ir.Load]:
    """Loads from array arguments in the statement's own expressions."""
    return (load for load in ir.loads([statement]) if isinstance(load.array, ir.GlobalArray))
