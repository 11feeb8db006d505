"""Seconds of a candidate from its counts and the device's rates (SPEC S5, the third of five modules, for all families).

A phase takes as long as the slowest of what runs side by side: arithmetic, the units' caches, memory; plus what does
not overlap: launches, handing out groups, barriers, waiting for signals. On GPUs the time model of the structure and
analysis parameters (formulas 3 to 14) bounds it from below too: it knows how many warps hide a memory access.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydp.specialize.counts import Counts, Phase
from pydp.specialize.rates import Rates
from pydp.specialize.structure import Analysis, Structure
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
    """The predicted time of a call; with `structure` (of a GPU) by the formulas of SPEC S5 too.

    Every candidate of every first choice comes by here, so it is kept plain.
    """
    peak = rates.operations(counts.dtype)
    memory = compute = latency = launch = 0.0
    for phase in counts.phases:
        (_, groups, lanes, operations, efficiency, read, written, cached, balance, launches, barriers, signals, *_) = (
            phase
        )
        share = balance / rates.units
        calculating = operations / (peak * efficiency) * share
        if lanes > 1:
            calculating *= rates.lane_slowdown
        if structure is not None:  # the last warp of a group may have idle lanes
            calculating *= -(-lanes // structure.warp_size) * structure.warp_size / lanes
        calculating = max(calculating, cached / rates.unit_cache * share)
        # The busiest unit moves its share alone, all of them together share the memory.
        alone = (read + written) * share / rates.unit_memory
        moving = max(read / rates.memory_read + written / rates.memory_write, alone)
        if calculating >= moving:
            slowest = calculating + _OVERLAP_LOSS * moving
            compute += slowest
        else:
            slowest = moving + _OVERLAP_LOSS * calculating
            memory += slowest
        if structure is not None:
            latency += max(0.0, gpu_time(structure, analysis(phase, structure), groups) - slowest)
        latency += barriers * groups * lanes * rates.barrier * share + signals * rates.signal
        launch += launches * rates.launch + groups * rates.group * share
    parts = {"memory": memory, "compute": compute, "latency": latency, "launch": launch}
    return Cost(memory + compute + latency + launch, parts)


def analysis(phase: Phase, structure: Structure) -> Analysis:
    """The analysis parameters (SPEC S5) of a phase: instructions of one work-item, from totals. Groups take whole
    warps: idle lanes of the last one count among the threads."""
    items, warp = phase.work_items, structure.warp_size
    lanes = -(-phase.lanes // warp) * warp
    return Analysis(
        registers_per_thread=phase.registers,
        local_per_thread=phase.local_bytes / lanes,
        threads=phase.groups * lanes,
        mem_insts=phase.bytes / (phase.access * items),
        comp_insts=phase.operations / (2.0 * phase.efficiency * items),
    )
