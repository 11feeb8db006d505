"""Predict a candidate's time from its counts and the device's rates (SPEC S5, the third of five modules).

Arithmetic, the units' caches and memory overlap: a phase takes as long as the slowest of them. Launches, group starts,
barriers and waiting for signals do not overlap and are added. On GPUs, other groups work while some wait for signals:
only the waiting that takes longer than the work is added. There, the time model (formulas 3 to 14) is also a lower
bound: it knows how many warps hide a memory access.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydp.model.counts import Counts, Phase
from pydp.model.rates import Rates
from pydp.model.structure import Analysis, Structure
from pydp.model.time_model import gpu_time

LIMITERS = ("memory", "compute", "latency", "launch")
_OVERLAP_LOSS = 0.15  # share of the hidden time that still counts: buffers between the parts are finite


class Cost(NamedTuple):
    """Predicted seconds of one call, in total and by limiter."""

    seconds: float
    memory: float
    compute: float
    latency: float
    launch: float

    @property
    def parts(self) -> dict[str, float]:
        """Seconds by limiter."""
        return dict(zip(LIMITERS, self[1:], strict=True))

    @property
    def limiter(self) -> str:
        """The largest part: "memory", "compute", "latency" (waiting: barriers, signals, too few warps) or "launch"."""
        parts = self.parts
        return max(LIMITERS, key=lambda name: parts[name])


def costs(candidates: Sequence[Counts], rates: Rates, structure: Structure | None = None) -> list[Cost]:
    """The predicted times of some calls. With `structure` (of a GPU), the formulas of SPEC S5 also apply.

    Shared phases are computed once: a first choice has one millisecond in all.
    """
    known: dict[tuple[int, float], tuple[float, float, float, float]] = {}
    found = []
    for counts in candidates:
        peak = rates.operations(counts.dtype)
        memory = compute = latency = launch = 0.0
        for phase in counts.phases:
            key = (id(phase), peak)
            parts = known.get(key)
            if parts is None:
                parts = known[key] = _parts(phase, peak, rates, structure)
            memory += parts[0]
            compute += parts[1]
            latency += parts[2]
            launch += parts[3]
        found.append(Cost(memory + compute + latency + launch, memory, compute, latency, launch))
    return found


def _parts(phase: Phase, peak: float, rates: Rates, structure: Structure | None) -> tuple[float, float, float, float]:
    """Seconds of a phase by limiter, in the order of `LIMITERS`."""
    _, groups, lanes, operations, efficiency, read, written, cached, balance, launches, barriers, signals, *_ = phase
    share = balance / rates.units
    calculating = operations / (peak * efficiency) * share
    if lanes > 1:
        calculating *= rates.lane_slowdown
    if structure is not None:  # the last warp of a group may have idle lanes
        calculating *= -(-lanes // structure.warp_size) * structure.warp_size / lanes
    calculating = max(calculating, cached / rates.unit_cache * share)
    # The busiest unit moves its share alone; all units together share the memory.
    alone = (read + written) * share / rates.unit_memory
    moving = max(read / rates.memory_read + written / rates.memory_write, alone)
    slowest = max(calculating, moving) + _OVERLAP_LOSS * min(calculating, moving)
    latency, waiting = barriers * groups * lanes * rates.barrier * share, signals * rates.signal
    if structure is None:
        latency += waiting
    else:  # other groups of a unit work while some wait
        latency += max(0.0, waiting - slowest)
        latency += max(0.0, gpu_time(structure, analysis(phase, structure, rates.float32 / peak), groups) - slowest)
    launch = launches * rates.launch + groups * rates.group * share
    return (0.0, slowest, latency, launch) if calculating >= moving else (slowest, 0.0, latency, launch)


def analysis(phase: Phase, structure: Structure, slowdown: float) -> Analysis:
    """The analysis parameters (SPEC S5) of a phase: instructions of one work-item, from totals.

    Groups take whole warps, so the threads include idle lanes of the last warp. slowdown: see `Rates.slowdown`. An
    instruction on the type counts as so many float32 instructions, because Comp_Cycle is the time of one of those.
    """
    items, warp = phase.work_items, structure.warp_size
    lanes = -(-phase.lanes // warp) * warp
    return Analysis(
        registers_per_thread=phase.registers,
        local_per_thread=phase.local_bytes / lanes,
        threads=phase.groups * lanes,
        mem_insts=phase.bytes / (phase.access * items),
        comp_insts=phase.operations * slowdown / (2.0 * phase.efficiency * items),
    )
