"""What can be chosen of a reduction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReduceSpec:
    """One specialization. rows kernel: `width` (0: in order) and `unroll` on CPUs; on GPUs `lanes`, `items` neighbours
    for each, `waves` virtual wavefronts that share the lanes' registers (operators that commute), `buffers` 1 or 2
    (others: with 2, wavefronts take turns in two of them, with a barrier less for each);
    columns kernel: `columns` for each work-item; a row's parts hold `part` elements or more, `longest` or
    fewer; rows are cut until there are `busy` work-items; `barriers` (see :mod:`pydp.groups.barrier`): how the lanes of
    the GPUs' rows kernel meet, by default as a whole group, for narrower barriers were not faster where measured."""

    mapping: str
    width: int
    unroll: int
    lanes: int
    items: int
    columns: int
    part: int
    longest: int
    busy: int
    barriers: str = "group"
    subgroup: int | None = None
    waves: int = 1
    buffers: int = 2
