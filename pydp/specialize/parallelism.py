"""What the size and time models say of a launch on a GPU, in words: the figures of SPEC S5 for its main phase.

The time model bounds a candidate's predicted time (see :mod:`pydp.specialize.costs`); here its figures are told, and
what the closed form of the size model finds for the same work-items in groups of another size.
"""

from __future__ import annotations

from pydp.specialize.costs import analysis
from pydp.specialize.counts import Counts
from pydp.specialize.rates import Rates
from pydp.specialize.size_model import closed_form
from pydp.specialize.structure import (
    Structure,
    compute_time,
    memory_time,
    warps_per_sm,
    wcpd,
    wmpd_local,
    wmpd_registers,
    wmpd_resources,
)
from pydp.specialize.time_model import gpu_time, is_memory_bound, wmpd
from pydp.specialize.units import seconds_text


def parallelism(counts: Counts, structure: Structure, rates: Rates) -> dict[str, str]:
    """Sentences by name: "parallelism" has N, WMPD, WCPD and what admits no more warps, "time model" has T_M, T_C and
    the formula that holds, "size model" the best group size for the same work-items."""
    phase = counts.main
    program = analysis(phase, structure, rates.slowdown(counts.dtype))
    held, warps = wmpd(structure, program, phase.groups), warps_per_sm(structure, program)
    admitted = {
        "registers": wmpd_registers(structure, program),
        "local memory": wmpd_local(structure, program),
        "the most warps that it holds": float(structure.max_warps_per_sm),
    }
    by = min(admitted, key=lambda name: admitted[name])
    if held < wmpd_resources(structure, program) * (1 - 1e-9):
        by = "its groups"
    bound = is_memory_bound(structure, program, phase.groups)
    formula = "(12), rounds of memory accesses" if bound else "(13), computing beside one memory access"
    seconds = gpu_time(structure, program, phase.groups)
    best = closed_form(structure, program)
    return {
        "parallelism": f"N = {warps:.3g} warps a multiprocessor, WMPD = {held:.3g} of them side by side, by {by}; "
        f"WCPD = {wcpd(structure, program):.3g}",
        "time model": f"T_M = {seconds_text(memory_time(structure, program))}, T_C = "
        f"{seconds_text(compute_time(structure, program))} a warp: formula {formula}, at least {seconds_text(seconds)}",
        "size model": f"groups of {best.best.block} work-items, {phase.lanes} run; case {best.case}, {best.reason}",
    }
