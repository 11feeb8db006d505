"""How one work-item walks the lanes of a group: strips of lanes as vectors, rows of strips unrolled, blocks in loops.

The last local axis is cut into strips of `width` lanes, which are OpenCL vectors. `rows` neighbours along
the axis before it are written out side by side, so that what they share is done once. A strip of `rows`
rows is a block; loops over the blocks of a group stand around each barrier interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """group: its extents; width: lanes of a vector; rows: unrolled rows of a block (a divisor of the row axis).

    clipped: lanes outside the grid do not run (no barrier, no local array), so that the loops stop at its edge.
    """

    group: tuple[int, ...]
    width: int
    rows: int
    clipped: bool

    @property
    def columns(self) -> int:
        """The lanes along the group's last axis."""
        return self.group[-1] if self.group else 1

    @property
    def row_axis(self) -> int:
        """The axis of the rows; -1 where the group has only one axis."""
        return len(self.group) - 2 if len(self.group) > 1 else -1

    @property
    def row_extent(self) -> int:
        """The lanes along the axis of the rows; 1 where there is none."""
        return self.group[-2] if len(self.group) > 1 else 1

    @property
    def strips(self) -> int:
        """The vectors that cover a row."""
        return -(-self.columns // self.width)

    @property
    def whole(self) -> bool:
        """No strip has lanes beyond the group."""
        return self.columns % self.width == 0

    @property
    def blocks(self) -> int:
        """The blocks of a group: turns of the loops around a strip's statements."""
        return math.prod(self.group[:-2]) * (self.row_extent // self.rows) * self.strips

    @property
    def single(self) -> bool:
        """One block is the whole group: what lives across barriers can stay in registers."""
        return self.blocks == 1


def pick_width(columns: int, widest: int) -> int:
    """Lanes of a vector: the widest that fits whole, else the narrowest that covers, from 4 up to `widest`.

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
    """The largest divisor of the row axis that is not above `most`.

    >>> pick_rows(16, 12), pick_rows(7, 8), pick_rows(13, 8)
    (8, 7, 1)
    """
    return next(rows for rows in range(max(1, min(extent, most)), 0, -1) if extent % rows == 0)
