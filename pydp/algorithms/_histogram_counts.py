"""What one specialization of a histogram does, for the cost model: counting in parts, then folding the bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pydp.algorithms._histogram_spec import HistogramSpec
from pydp.specialize.counts import Counts, Phase, efficiency, spread

if TYPE_CHECKING:
    from pydp.runtime.profile import Profile
    from pydp.specialize.family import Problem

_FIND = 10.0  # cycles that an element's bin takes: a guess, and the thresholds beside it
_ADD = 4.0  # cycles of adding to a bin again, from one store to the next load, where neighbours are equal


def counts(profile: Profile, problem: Problem, spec: HistogramSpec) -> Counts:
    """problem.sizes: (elements, bins)."""
    n, bins = max(1, problem.sizes[0]), max(1, problem.sizes[1])
    item = np.dtype(problem.dtype).itemsize
    copies = spec.copies if spec.mapping == "vector" and bins <= 4096 else 1
    room = max(1, (1 << 26) // (bins * copies * 4))
    parts = max(1, min(spec.parts, n // max(1024, bins), room))
    size = float(n * item)
    near = profile.kind == "cpu" and size < 0.75 * profile.l2_bytes * profile.compute_units
    read, cached = (0.0, size) if near else (size, 0.0)
    sums = float(parts * copies * bins * 4)
    balance = spread(parts, profile.compute_units)
    if spec.mapping == "simt" and 4 * bins <= profile.local_bytes // 2:  # else work-items that meet nobody count
        local = 4 * {"sets": spec.sets * (bins + spec.pad), "own": spec.lanes * bins}.get(spec.counters, bins)
        count = Phase(
            "count",
            groups=parts,
            lanes=spec.lanes,
            operations=8.0 * n + 2.0 * parts * bins,
            efficiency=0.25,
            written=sums,
            balance=balance,
            barriers=2,
            local_bytes=local,
            registers=24,
            access=item,
            read=read,
            cached=cached,
        )
    else:
        # Equal neighbours wait for one another's store; more sets of bins let them pass, until they leave the cache.
        cycles = _FIND + _ADD / (4.0 * copies)
        cycles *= 1.0 if bins * copies * 4 < profile.l1_bytes / 2 else 1.5
        clear = 0.5 * bins * copies * parts / n
        count = Phase(
            "count",
            groups=parts,
            operations=float(n),
            efficiency=efficiency(profile, problem.dtype, 1.0, cycles + clear),
            written=sums,
            balance=balance,
            read=read,
            cached=cached,
        )
    lanes = min(spec.lanes, bins) if spec.mapping == "simt" else 1
    return Counts(problem.dtype, (count, _fold(profile, parts * copies, bins, lanes)))


def _fold(profile: Profile, rows: int, bins: int, lanes: int) -> Phase:
    """The sums of every bin over the parts: columns side by side, one for each lane of a GPU."""
    groups = max(1, -(-bins // (4096 if lanes == 1 else lanes)))
    cycles = rows * bins * 0.5
    return Phase(
        "fold",
        groups=groups,
        lanes=lanes,
        operations=float(rows * bins),
        efficiency=efficiency(profile, "int64", float(rows * bins), cycles),
        read=float(rows * bins * 4),
        written=float(bins * 8),
        balance=spread(groups, profile.compute_units),
    )
