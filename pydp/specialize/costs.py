"""Seconds of a candidate from its counts and the device's rates (SPEC S5, the third of five modules, for all families).

A phase takes as long as the slowest of what runs side by side: arithmetic, the units' caches, memory; plus what does
not overlap: launches, handing out groups, barriers, waiting for signals. On GPUs the time model of the structure and
analysis parameters (formulas 3 to 14) bounds it from below too: it knows how many warps hide a memory access.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydp.specialize.counts import Counts, Phase
from pydp.specialize.rates import Rates
from pydp.specialize.structure import Analysis, Structure, wmpd_resources
from pydp.specialize.time_model import gpu_time

LIMITERS = ("memory", "compute", "latency", "launch")
_OVERLAP_LOSS = 0.15  # of what the slowest part hides still shows: buffers between the parts are finite


@dataclass(frozen=True)
class Cost:
    """Predicted seconds of one call, the part of each limiter in them, and the limiter with the largest part."""

    seconds: float
    parts: dict[str, float]

    @property
    def limiter(self) -> str:
        """ "memory", "compute", "latency" (waiting: barriers, signals, too few warps) or "launch"."""
        return max(LIMITERS, key=lambda name: self.parts[name])


def cost(counts: Counts, rates: Rates, structure: Structure | None = None) -> Cost:
    """The predicted time of a call; with `structure` (of a GPU) by the formulas of SPEC S5 too."""
    parts = dict.fromkeys(LIMITERS, 0.0)
    peak = rates.operations(counts.dtype)
    for phase in counts.phases:
        _add(parts, phase, peak, rates, structure)
    return Cost(sum(parts.values()), parts)


def _add(parts: dict[str, float], phase: Phase, peak: float, rates: Rates, structure: Structure | None) -> None:
    """Adds a phase's seconds to the parts; every candidate of every first choice comes by here, so it is kept plain."""
    share = phase.balance / rates.units
    rate = peak * phase.efficiency / (rates.lane_slowdown if phase.lanes > 1 else 1.0)
    compute = phase.operations / rate * share
    if structure is not None:  # the last warp of a group may have idle lanes
        compute *= -(-phase.lanes // structure.warp_size) * structure.warp_size / phase.lanes
    cached = phase.cached / rates.unit_cache * share
    # The busiest unit moves its share alone, all of them together share the memory.
    alone = phase.bytes * share / rates.unit_memory
    memory = max(phase.read / rates.memory_read + phase.written / rates.memory_write, alone)
    compute = max(compute, cached)
    slowest = max(compute, memory) + _OVERLAP_LOSS * min(compute, memory)
    parts["compute" if compute >= memory else "memory"] += slowest
    if structure is not None:
        bound = gpu_time(structure, analysis(phase, structure), phase.groups)
        parts["latency"] += max(0.0, bound - slowest)
    parts["latency"] += phase.barriers * phase.work_items * rates.barrier * share + phase.signals * rates.signal
    parts["launch"] += phase.launches * rates.launch + phase.groups * rates.group * share


def analysis(phase: Phase, structure: Structure) -> Analysis:
    """The analysis parameters (SPEC S5) of a phase: instructions of one work-item, from totals."""
    items = phase.work_items
    return Analysis(
        registers_per_thread=phase.registers,
        local_per_thread=phase.local_bytes / phase.lanes,
        threads=items,
        mem_insts=phase.bytes / (phase.access * items),
        comp_insts=phase.operations / (2.0 * phase.efficiency * items),
    )


def occupancy(phase: Phase, structure: Structure) -> float:
    """The part of a multiprocessor's warps that its registers and local memory admit, 0 to 1, in whole groups."""
    warps = -(-phase.lanes // structure.warp_size)
    most = wmpd_resources(structure, analysis(phase, structure))
    groups = min(structure.max_active_blocks_per_sm, int(most) // warps)
    return groups * warps / structure.max_warps_per_sm
