"""Runs a template's kernel with one of its barriers one step too narrow: run_too_narrow.py ALGORITHM [BARRIER]."""

from __future__ import annotations

import sys

import numpy as np

import pydp
from pydp.groups import meetings

SCAN = {"mapping": "simt", "lanes": 8, "columns": 2, "items": 3, "strategy": "lookback"}
SORT = {"mapping": "simt", "run": 16, "small": 2, "lanes": 8, "items": 2, "stretch": 4, "chains": 1}
REDUCE = {"mapping": "simt", "lanes": 8, "items": 2, "part": 64, "longest": 2**30, "columns": 1, "busy": 1}


def narrowed(width: meetings.Widths) -> meetings.Widths:
    """Where two lanes need to meet, none do; all other widths as they are."""
    if isinstance(width, int):
        return 1 if width == 2 else width
    return [(number, 1 if lanes == 2 else lanes) for number, lanes in width]


def main(algorithm: str, barrier: str | None = None) -> None:
    right = meetings.meetings

    def seeded(profile, lanes, needs, *rest):  # type: ignore[no-untyped-def]
        if barrier is not None:
            assert narrowed(needs[barrier]) != needs[barrier]
            needs = {**needs, barrier: narrowed(needs[barrier])}
        return right(profile, lanes, needs, *rest)

    meetings.meetings = seeded
    x = np.random.default_rng(0).permutation(48).astype(np.int32)
    if algorithm == "scan":
        pydp.scan(x, spec={**SCAN, "barriers": "auto"})
    elif algorithm == "sort":
        pydp.sort(x[:16], spec=SORT)
    else:
        pydp.reduce(x[None, :16], axis=1, dtype=np.int32, spec={**REDUCE, "barriers": "auto"})


if __name__ == "__main__":
    main(*sys.argv[1:])
