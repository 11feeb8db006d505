"""Text on the size and time models for a launch on a GPU (SPEC S5), and numbers with units.

The time model is a lower bound of a candidate's predicted time (see :mod:`pydp.model.costs`). The text has its values
for the main phase, and the best group size for the same work-items by the closed form of the size model.
"""

from __future__ import annotations

from pydp.model.costs import analysis
from pydp.model.counts import Counts
from pydp.model.rates import Rates
from pydp.model.size_model import closed_form
from pydp.model.structure import (
    Structure,
    compute_time,
    memory_time,
    warps_per_sm,
    wcpd,
    wmpd_local,
    wmpd_registers,
    wmpd_resources,
)
from pydp.model.time_model import gpu_time, is_memory_bound, wmpd


def seconds_text(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> seconds_text(0.00123)
    '1.23 ms'
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def parallelism(counts: Counts, structure: Structure, rates: Rates) -> dict[str, str]:
    """Sentences by name.

    "parallelism": N, WMPD, WCPD and the resource that limits the warps. "time model": T_M, T_C and the formula that
    applies. "size model": the best group size for the same work-items.
    """
    phase = counts.main
    program = analysis(phase, structure, rates.slowdown(counts.dtype))
    held, warps = wmpd(structure, program, phase.groups), warps_per_sm(structure, program)
    admitted = {
        "registers": wmpd_registers(structure, program),
        "local memory": wmpd_local(structure, program),
        "the limit of warps": float(structure.max_warps_per_sm),
    }
    by = min(admitted, key=lambda name: admitted[name])
    if held < wmpd_resources(structure, program) * (1 - 1e-9):
        by = "the number of groups"
    bound = is_memory_bound(structure, program, phase.groups)
    formula = "(12), rounds of memory accesses" if bound else "(13), computation overlaps one memory access"
    seconds = gpu_time(structure, program, phase.groups)
    best = closed_form(structure, program)
    times = (
        f"T_M = {seconds_text(memory_time(structure, program))}, T_C = {seconds_text(compute_time(structure, program))}"
    )
    return {
        "parallelism": f"N = {warps:.3g} warps per multiprocessor; WMPD = {held:.3g} warps wait for memory at the same "
        f"time, limited by {by}; WCPD = {wcpd(structure, program):.3g} warps compute during one memory access",
        "time model": f"{times} per warp: formula {formula}, at least {seconds_text(seconds)}",
        "size model": f"groups of {best.best.block} work-items are best, {phase.lanes} are used; {best.reason} (case "
        f"{best.case} of SPEC S5)",
    }
