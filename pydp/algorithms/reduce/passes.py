"""Decompose a reduction over any axes into passes of two kernels. Pure functions of shapes and strides.

The reduced axes are folded one after the other, innermost first. For an associative operator, this equals the fold in C
order. If another axis has the unit stride, the pass folds columns; otherwise it folds rows. If a pass has too few rows
to keep the device busy, each row is cut into parts, and one more pass folds the parts' results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydp.algorithms.reduce.policy import ReduceSpec
from pydp.space import merge_axes

_LEAST_OF_A_LANE = 64  # minimum elements of a column per lane: shorter parts cost more than they gain

Dim = tuple[int, int]
"""(size, stride in elements) of an axis."""


@dataclass(frozen=True)
class Pass:
    """One launch. outer: the axes of the rows. columns: the axis of adjacent columns (None for the rows kernel)."""

    kernel: str
    n: int
    step: int
    parts: int
    part: int
    outer: tuple[Dim, ...]
    columns: Dim | None
    last: bool

    @property
    def rows(self) -> int:
        """Number of rows; adjacent columns count as one row."""
        return math.prod(size for size, _ in self.outer)

    @property
    def results(self) -> int:
        """Number of elements that the pass writes."""
        return self.parts * self.rows * (self.columns[0] if self.columns else 1)


def collapse(dims: Sequence[Dim]) -> list[Dim]:
    """`merge_axes` for one array."""
    return [(size, step) for size, (step,) in merge_axes((size, (step,)) for size, step in dims)]


def _contiguous(sizes: Sequence[int]) -> list[Dim]:
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return list(zip(sizes, steps, strict=True))


def passes(kept: Sequence[Dim], reduced: Sequence[Dim], spec: ReduceSpec) -> Iterator[Pass]:
    """The launches that fold `reduced` (at least one element, outermost axis first) for every element of `kept`."""
    kept, reduced = list(kept), collapse(reduced) or [(1, 1)]
    while reduced:
        (n, step), others = reduced[-1], reduced[:-1]
        rows = [*others, *kept]
        yield from _axis(n, step, collapse(rows), spec, last=not others)
        placed = _contiguous([size for size, _ in rows])
        reduced = collapse(placed[: len(others)])
        kept = placed[len(others) :]


def by_columns(kept: Sequence[Dim], reduced: Sequence[Dim]) -> bool:
    """Whether the first launch uses the columns kernel, which has other good specializations."""
    inner = collapse(reduced) or [(1, 1)]
    return _shape(*inner[-1], collapse([*inner[:-1], *kept])).columns is not None


def _axis(n: int, step: int, rows: list[Dim], spec: ReduceSpec, last: bool) -> Iterator[Pass]:
    """The passes over one axis: one pass, or one over the parts and one over their results."""
    first = _shape(n, step, rows)
    items, least = first.rows * (math.ceil(first.columns[0] / spec.columns) if first.columns else 1), spec.part
    if first.columns and spec.lanes > 1:  # each lane folds its part of one column alone
        items, least = math.ceil(items / spec.lanes), max(_LEAST_OF_A_LANE, spec.part // spec.lanes)
    parts = min(math.ceil(spec.busy / max(items, 1)), n // least)
    parts = max(parts, math.ceil(n / spec.longest), 1)
    part = math.ceil(n / parts)
    parts = math.ceil(n / part)
    yield Pass(first.kernel, n, step, parts, part, first.outer, first.columns, last and parts == 1)
    if parts > 1:
        count = math.prod(size for size, _ in rows)
        yield from _axis(parts, count, collapse([(count, 1)]), spec, last)


def _shape(n: int, step: int, rows: list[Dim]) -> Pass:
    """Select the kernel that folds an axis, and the axis of its columns."""
    side = rows[-1] if rows else None
    if side is None or (abs(step) < abs(side[1]) and n >= 64):
        return Pass("reduce_rows", n, step, 1, n, tuple(rows), None, False)
    return Pass("reduce_columns", n, step, 1, n, tuple(rows[:-1]), side, False)
