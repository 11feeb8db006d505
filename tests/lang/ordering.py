"""By brute force: whether barriers of given widths keep the dependencies that an interpreter saw."""

from __future__ import annotations

from collections import defaultdict

import numpy as np


def widths_met(meetings, widths):
    """The width of each barrier as it was reached: the next turn's, or the one of all turns."""
    turns = defaultdict(int)
    met = []
    for barrier in meetings:
        found = widths[barrier.number].per_iteration
        met.append(found[turns[barrier.number]] if len(found) > 1 else found[0])
        turns[barrier.number] += 1
    return met


def dependencies(log, group):
    """(first interval, last interval, lanes, other lane) of all conflicting accesses in different intervals.

    One of `lanes` must have met the other lane: several where they wrote by one statement, as they then wrote the same.
    """
    places = defaultdict(set)
    for name, at, _, interval, local, kind, site, *_ in log:
        lane = int(np.ravel_multi_index(local, group))
        kind = f"atomic {site.op}" if kind == "atomic" else kind
        places[name, at].add((interval, lane, kind, id(site)))
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
        together = len({site for _, _, _, site in writes}) == 1
        lanes = tuple(sorted(lane for _, lane, _, _ in writes))
        for last, other, kind, _ in entries:
            if first < last and kind == "read":
                yield from [(first, last, lanes, other)] if together else [(first, last, (k,), other) for k in lanes]


def broken(needs, met):
    """The dependencies that the barriers between do not keep."""
    return [n for n in needs if not any(lane // w == n[3] // w for w in [1, *met[n[0] : n[1]]] for lane in n[2])]
