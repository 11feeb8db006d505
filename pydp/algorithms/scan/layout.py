"""The layout of a scan along any axis: flat, many rows, or adjacent columns. Pure functions of shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydp.space import merge_axes


@dataclass(frozen=True)
class Layout:
    """Addresses of a scan's elements. Each tuple has one entry per array (x, y and, with segments, h).

    n: elements along the scanned axis. step: their strides. rows: number of rows; row r starts at
    ``r // inner * outer + r % inner * within``. columns: size of the axis with unit stride in all arrays, or 0 if there
    is none. This axis is then the `within` axis, and `outer` is the stride of slabs of columns. shift: added to each
    array's offset (a reversed scan starts at the far end of the axis).
    """

    n: int
    step: tuple[int, ...]
    rows: int
    inner: int
    outer: tuple[int, ...]
    within: tuple[int, ...]
    columns: int
    shift: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.n * self.rows


def layout_of(shape: Sequence[int], strides: Sequence[Sequence[int]], axis: int, reverse: bool) -> Layout | None:
    """The layout of a scan along `axis` of arrays of one shape; None if the other axes need more than two strides.

    >>> layout_of((4, 5), [(5, 1), (5, 1)], 1, False).rows
    4
    """
    n = shape[axis]
    step = tuple(s[axis] for s in strides)
    shift = tuple((n - 1) * s for s in step) if reverse and n else (0,) * len(step)
    step = tuple(-s for s in step) if reverse else step
    others = [(size, tuple(s[k] for s in strides)) for k, size in enumerate(shape) if k != axis]
    merged = merge_axes(others)
    if len(merged) > 2:
        return None
    none = (0,) * len(step)
    if len(merged) == 2 and _side_by_side(merged[0][1]):
        merged.reverse()  # rows are independent: their order does not matter
    columns = merged[-1][0] if merged and _side_by_side(merged[-1][1]) else 0
    if not merged:
        return Layout(n, step, 1, 1, none, none, 0, shift)
    if len(merged) == 1 and not columns:
        return Layout(n, step, merged[0][0], 1, merged[0][1], none, 0, shift)
    inner, within = merged[-1]
    slabs, outer = merged[0] if len(merged) == 2 else (1, none)
    return Layout(n, step, slabs * inner, inner, outer, within, columns, shift)


def _side_by_side(steps: Sequence[int]) -> bool:
    return all(step == 1 for step in steps)
