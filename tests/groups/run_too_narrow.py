"""Runs a template's kernel with one of its barriers one step too narrow: run_too_narrow.py ALGORITHM [BARRIER]."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import pydp
from pydp.groups import barrier_plan

SIMT = {"mapping": "simt", "barriers": "auto"}
SCAN = {**SIMT, "lanes": 8, "columns": 2, "items": 3, "window": 2, "strategy": "lookback"}
SORT = {**SIMT, "run": 16, "small": 2, "lanes": 8, "items": 2, "stretch": 4, "chains": 1}
REDUCE = {**SIMT, "lanes": 8, "items": 2, "part": 64, "longest": 2**30, "columns": 1, "busy": 1}
HISTOGRAM = {**SIMT, "parts": 1, "copies": 1, "lanes": 2, "sets": 1, "waves": 1, "pad": 0, "counters": "sets"}
TRANSPOSE = {**SIMT, "block": 2, "rows": 1, "chunk": 1}
TILE = {"tile_m": 4, "tile_n": 2, "tile_k": 2, "rows": 2, "columns": 2, "lanes_m": 2, "lanes_n": 1, "width": 1}
MATMUL = {**SIMT, "method": "staged", **TILE, "unroll": 1, "pad": 0, "parts": 1, "buffers": 1}
MERGE = {**SIMT, "lanes": 2, "items": 3}
PARTITION = {**SIMT, "strategy": "select", "digit": 3, "groups": 1, "lanes": 2, "part": 16}
X = np.random.default_rng(0).permutation(144).astype(np.int32)

CALLS = {
    "scan": lambda: pydp.scan(X[:48], spec=SCAN),
    "sort": lambda: pydp.sort(X[:16], spec=SORT),
    "reduce": lambda: pydp.reduce(X[None, :16], axis=1, dtype=np.int32, spec=REDUCE),
    "histogram": lambda: pydp.histogram(X[:16], 4, (0, 144), spec=HISTOGRAM),
    "transpose": lambda: pydp.transpose(X.reshape(12, 12), spec=TRANSPOSE),
    "matmul": lambda: pydp.matmul(X.reshape(12, 12) % 7, X.reshape(12, 12) % 5, spec=MATMUL),
    "merge": lambda: pydp.merge(np.sort(X[:20]), np.sort(X[20:40]), spec=MERGE),
    "partition": lambda: pydp.partition(X[:16].astype(np.uint8), 5, spec=PARTITION),
}


def narrowed(width: barrier_plan.Widths) -> barrier_plan.Widths:
    """Widths of two lanes become 1, so these lanes do not wait; other widths are unchanged."""
    if isinstance(width, int):
        return 1 if width == 2 else width
    return [(number, 1 if lanes == 2 else lanes) for number, lanes in width]


def main(algorithm: str, barrier: str | None = None) -> None:
    right = barrier_plan.barrier_params

    def seeded(profile: Any, lanes: int, needs: Any, *rest: Any) -> Any:
        nonlocal changed
        if barrier in needs:  # other kernels of the algorithm do not have it
            changed = changed or narrowed(needs[barrier]) != needs[barrier]
            needs = {**needs, barrier: narrowed(needs[barrier])}
        return right(profile, lanes, needs, *rest)

    changed = barrier is None
    barrier_plan.barrier_params = seeded
    CALLS[algorithm]()
    assert changed


if __name__ == "__main__":
    main(*sys.argv[1:])
