"""What can be chosen of a histogram."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HistogramSpec:
    """The input is cut into `parts`. CPU: a work-item counts one in `copies` sets of bins.

    GPU: a group of `lanes` work-items, which run `waves` virtual wavefronts, does. counters: "sets" (`sets` sets of
    bins in local memory, `pad` entries apart, with atomics), "own" (each lane's bins in slots of its own) or
    "registers" (few bins). constants: each lane keeps the edges in registers (few bins). barriers, subgroup: see
    :mod:`pydp.groups.barrier`.
    """

    mapping: str
    parts: int
    copies: int
    lanes: int
    sets: int
    pad: int
    waves: int = 1
    counters: str = "sets"
    constants: bool = False
    barriers: str = "group"
    subgroup: int | None = None
