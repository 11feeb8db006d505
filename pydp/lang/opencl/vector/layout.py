"""The order in which one work-item runs the lanes of a group: strips are vectors, rows are unrolled, blocks are looped.

The last local axis is divided into strips of `width` lanes, which are OpenCL vectors. `rows` adjacent indexes of the
axis before it are unrolled, so values that these rows share are computed once. A strip of `rows` rows is a block; each
barrier interval is inside loops over the blocks of the group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class StripLayout:
    """group: the group's extents. width: lanes of a vector. rows: unrolled rows of a block (a divisor of the row axis).

    clipped: lanes outside the grid do not run (the function has no barrier and no local array): loops end at its edge.
    """

    group: tuple[int, ...]
    width: int
    rows: int
    clipped: bool

    @property
    def columns(self) -> int:
        """The number of lanes along the group's last axis."""
        return self.group[-1] if self.group else 1

    @property
    def row_axis(self) -> int:
        """The axis of the rows; -1 if the group has only one axis."""
        return len(self.group) - 2 if len(self.group) > 1 else -1

    @property
    def row_extent(self) -> int:
        """The number of lanes along the axis of the rows; 1 without such an axis."""
        return self.group[-2] if len(self.group) > 1 else 1

    @property
    def spans(self) -> list[int]:
        """The number of lanes of a block along each axis."""
        leading = [1] * len(self.group[:-2])
        return leading + [self.rows, self.width][-len(self.group) :] if self.group else []

    @property
    def strips(self) -> int:
        """The number of vectors that cover a row."""
        return -(-self.columns // self.width)

    @property
    def whole(self) -> bool:
        """Whether no strip has lanes beyond the group."""
        return self.columns % self.width == 0

    @property
    def blocks(self) -> int:
        """The number of blocks of a group: the trip count of the loops around an interval's statements."""
        return math.prod(self.group[:-2]) * (self.row_extent // self.rows) * self.strips

    @property
    def single(self) -> bool:
        """Whether one block is the whole group; values that live across barriers then stay in registers."""
        return self.blocks == 1


def pick_width(columns: int, widest: int) -> int:
    """Lanes of a vector: the largest width that divides `columns`, else the smallest that covers it, 4 to `widest`.

    >>> pick_width(64, 16), pick_width(24, 16), pick_width(20, 16), pick_width(3, 16)
    (16, 8, 4, 4)
    """
    for width in (16, 8, 4):
        if width <= widest and columns % width == 0:
            return width
    width = 4
    while width < columns and width < widest:
        width *= 2
    return width


def pick_rows(extent: int, most: int) -> int:
    """The largest divisor of the row axis that is at most `most`.

    >>> pick_rows(16, 12), pick_rows(7, 8), pick_rows(13, 8)
    (8, 7, 1)
    """
    return next(rows for rows in range(max(1, min(extent, most)), 0, -1) if extent % rows == 0)
