"""Decompose a reduction over any axes into passes of two kernels. Pure functions of shapes and strides.

The reduced axes are folded one after the other, innermost first. For an associative operator, this equals the fold in C
order. If another axis has the unit stride, the pass folds columns; otherwise it folds rows. If a pass has too few rows
to keep the device busy, each row is cut into parts. One more pass, or the last work-item to end, folds the parts'
results. On CPUs, a work-item folds several short rows, and with a commutative operator, a few adjacent columns of a
contiguous array are folded as more columns of fewer rows first: whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydp.algorithms.reduce.policy import ReduceSpec, parts_of
from pydp.space import merge_axes

_FEW_COLUMNS = 64  # fewer contiguous columns than this are folded as _MANY_COLUMNS or a little less
_MANY_COLUMNS = 512
_LEAST_ROWS = 16  # rows of _MANY_COLUMNS columns; with fewer, the results are too large a part of the elements

Dim = tuple[int, int]
"""(size, stride in elements) of an axis."""


@dataclass(frozen=True)
class Pass:
    """One launch. outer: the axes of the rows. columns: the axis of adjacent columns (None for the rows kernel).

    each: rows of a work-item, if there is one part. ragged: columns of one more row at the end (columns kernel).
    joins: the last work-item to end folds the results of the parts (rows kernel).
    """

    kernel: str
    n: int
    step: int
    parts: int
    part: int
    outer: tuple[Dim, ...]
    columns: Dim | None
    last: bool
    each: int = 1
    ragged: int = 0
    joins: bool = False

    @property
    def rows(self) -> int:
        """Number of rows; adjacent columns count as one row."""
        return math.prod(size for size, _ in self.outer)

    @property
    def results(self) -> int:
        """Number of elements that the pass writes."""
        return (1 if self.joins else self.parts) * self.rows * (self.columns[0] if self.columns else 1)


def collapse(dims: Sequence[Dim]) -> list[Dim]:
    """`merge_axes` for one array."""
    return [(size, step) for size, (step,) in merge_axes((size, (step,)) for size, step in dims)]


def _contiguous(sizes: Sequence[int]) -> list[Dim]:
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return list(zip(sizes, steps, strict=True))


def passes(kept: Sequence[Dim], reduced: Sequence[Dim], spec: ReduceSpec, commutes: bool) -> Iterator[Pass]:
    """The launches that fold `reduced` (at least one element, outermost axis first) for every element of `kept`."""
    kept, reduced = list(kept), collapse(reduced) or [(1, 1)]
    while reduced:
        (n, step), others = reduced[-1], reduced[:-1]
        rows = [*others, *kept]
        yield from _axis(n, step, collapse(rows), spec, commutes, last=not others)
        placed = _contiguous([size for size, _ in rows])
        reduced = collapse(placed[: len(others)])
        kept = placed[len(others) :]


def by_columns(kept: Sequence[Dim], reduced: Sequence[Dim], mapping: str) -> bool:
    """Whether the first launch uses the columns kernel, which has other good specializations."""
    inner = collapse(reduced) or [(1, 1)]
    return _shape(*inner[-1], collapse([*inner[:-1], *kept]), mapping).columns is not None


def _axis(n: int, step: int, rows: list[Dim], spec: ReduceSpec, commutes: bool, last: bool) -> Iterator[Pass]:
    """The passes over one axis: one pass, or two if another launch folds the results of the parts."""
    first = _shape(n, step, rows, spec.mapping)
    count = first.columns[0] if first.columns else 1
    several = _MANY_COLUMNS // count
    narrow = first.columns == (count, 1) and step == count < _FEW_COLUMNS and n >= _LEAST_ROWS * several
    if narrow and commutes and spec.mapping == "vector":
        yield from _wider(first, several, spec, last)
        return
    cut = _cut(first, spec)
    joins = spec.mapping == "vector" and cut.columns is None and cut.parts > 1 and cut.parts * cut.rows <= spec.joined
    done = joins or cut.parts == 1
    yield replace(cut, last=last and done, joins=joins)
    if not done:
        total = first.rows * count
        yield from _axis(cut.parts, total, collapse([(total, 1)]), spec, commutes, last)


def _cut(whole: Pass, spec: ReduceSpec) -> Pass:
    """The pass with its parts, and the rows of a work-item."""
    count = whole.columns[0] if whole.columns else 0
    part = math.ceil(whole.n / parts_of(spec, whole.n, whole.rows, count))
    parts = math.ceil(whole.n / part)
    if parts > 1 or spec.mapping != "vector":
        return replace(whole, parts=parts, part=part)
    block = min(max(1, count), spec.columns)
    items = whole.rows * math.ceil(max(1, count) / block)
    return replace(whole, each=max(1, min(spec.part // (whole.n * block), items // spec.busy)))


def _wider(first: Pass, several: int, spec: ReduceSpec, last: bool) -> Iterator[Pass]:
    """Fold `several` adjacent rows of columns as one row, and then these. The operator commutes."""
    assert first.columns is not None
    count = first.columns[0]
    wide, total = several * count, first.rows * several * count
    n, rest = divmod(first.n, several)
    cut = _cut(replace(first, n=n, step=wide, columns=(wide, 1), ragged=rest * count), spec)
    yield cut
    left = passes([(first.rows, wide), (count, 1)], [(cut.parts, total), (several, count)], spec, commutes=True)
    for one in left:
        yield replace(one, last=last and one.last)


def _shape(n: int, step: int, rows: list[Dim], mapping: str) -> Pass:
    """Select the kernel that folds an axis, and the axis of its columns."""
    side = rows[-1] if rows else None
    if side is None or (abs(step) < abs(side[1]) and (mapping == "vector" or n >= 64)):
        return Pass("reduce_rows", n, step, 1, n, tuple(rows), None, False)
    return Pass("reduce_columns", n, step, 1, n, tuple(rows[:-1]), side, False)
