"""Brute-force check: whether barriers of given widths satisfy the dependencies that an interpreter recorded."""

from __future__ import annotations

from collections import defaultdict

import numpy as np


def widths_reached(barriers_reached, widths):
    """The width of each executed barrier: that of its iteration, or the one for all iterations."""
    executions = defaultdict(int)
    reached = []
    for barrier in barriers_reached:
        found = widths[barrier.number].per_iteration
        reached.append(found[executions[barrier.number]] if len(found) > 1 else found[0])
        executions[barrier.number] += 1
    return reached


def dependencies(log, group):
    """(first interval, last interval, lanes, other lane) of all conflicting accesses in different intervals.

    A barrier must synchronize at least one of `lanes` with the other lane. There are several lanes if one statement
    wrote the element from all of them, because they then wrote equal values.
    """
    places = defaultdict(set)
    for name, at, _, interval, local, kind, site, *_ in log:
        lane = int(np.ravel_multi_index(local, group))
        kind = f"atomic {site.op}" if kind == "atomic" else kind
        places[name, at].add((interval, lane, kind, site.uid))
    for entries in places.values():
        for first, lane, kind, _ in entries:
            for last, other, other_kind, _ in entries:
                alike = kind == other_kind != "write"  # reads, and updates of integers by one operation
                if first < last and not alike and (kind, other_kind) != ("write", "read"):
                    yield first, last, (lane,), other
        yield from _writes_to_reads(entries)


def _writes_to_reads(entries):
    for first in {entry[0] for entry in entries}:
        writes = [entry for entry in entries if entry[0] == first and entry[2] == "write"]
        one_statement = len({site for _, _, _, site in writes}) == 1
        lanes = tuple(sorted(lane for _, lane, _, _ in writes))
        for last, other, kind, _ in entries:
            if first < last and kind == "read":
                writers = [lanes] if one_statement else [(k,) for k in lanes]
                yield from [(first, last, one, other) for one in writers]


def violated(needs, reached):
    """The dependencies that the barriers between the accesses do not satisfy."""
    return [n for n in needs if not any(lane // w == n[3] // w for w in [1, *reached[n[0] : n[1]]] for lane in n[2])]
