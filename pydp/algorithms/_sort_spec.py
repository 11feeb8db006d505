"""What can be chosen of a sort."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SortSpec:
    """First stage: runs of `run` elements (CPU: a work-item sorts one, pieces of `small` by insertion; GPU: `lanes`
    with `items` elements each do, and run is their product). Then passes in which a work-item makes `stretch`
    results, in `chains` that take turns. barriers, subgroup: how lanes meet (see :mod:`pydp.groups.barrier`; GPU)."""

    mapping: str
    run: int
    small: int
    lanes: int
    items: int
    stretch: int
    chains: int
    barriers: str = "auto"
    subgroup: int | None = None
