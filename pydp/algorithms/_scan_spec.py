"""What can be chosen of a scan."""

from __future__ import annotations

from dataclasses import dataclass

ORDERS = ("ticket", "reversed", "permuted")
STRATEGIES = ("lookback", "chained", "reduce_then_scan")


@dataclass(frozen=True)
class ScanSpec:
    """One specialization of scan.

    mapping: "vector" (one work-item per group: CPUs) or "simt" (lanes and local memory: GPUs). strategy: "lookback",
    "chained" (each partition waits for its predecessor's prefix) or "reduce_then_scan". part: the most elements of
    a partition (vector). vector: elements of a vector, 0 for one at a time. nontemporal: results go past the cache.
    lanes, columns, items, pad: the group, a row of its scan, a lane's elements, unused elements of local memory (simt).
    barriers, subgroup: how lanes meet (see :mod:`pydp.groups.barrier`; simt).
    width: columns of a work-item along strided axes. polls: fruitless looks at a predecessor before its aggregate is
    recomputed (0: never, the group waits for ever). plain_polls: look with volatile loads instead of atomics. order and
    suppress are for tests: groups numbered without a ticket, and one partition in `suppress` publishing nothing (0: all
    do).
    """

    mapping: str
    strategy: str
    part: int = 65536
    vector: int = 0
    nontemporal: bool = False
    lanes: int = 256
    columns: int = 16
    items: int = 15
    pad: int = 0
    width: int = 16
    polls: int = 20000
    plain_polls: bool = False
    order: str = "ticket"
    suppress: int = 0
    barriers: str = "auto"
    subgroup: int | None = None
