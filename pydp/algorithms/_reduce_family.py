"""Specializations of the reduction kernels and their policy: pure functions of the device's profile and the problem."""

from __future__ import annotations

from dataclasses import replace

from pydp.algorithms._reduce_counts import counts, item_bytes, local_bytes
from pydp.algorithms._reduce_spec import ReduceSpec
from pydp.groups.barrier import why_not
from pydp.runtime.profile import Profile
from pydp.specialize.family import Family, Problem


def _default(profile: Profile, problem: Problem) -> ReduceSpec:
    size, lanes = item_bytes(problem), 1 << min(256, profile.max_group_size).bit_length() - 1
    while lanes and 2 * lanes * size > profile.local_bytes:
        lanes //= 2
    if profile.mapping == "vector" or not lanes:  # without lanes: elements too large for local memory
        # The widest OpenCL vector (16) times 4 hides the latency of the operator; a work-item's columns stay in L1.
        # Where loops are cut short by the driver, a work-item's share of elements stays well below that number.
        longest = 2**40 if profile.loop_limit is None else 64
        columns = max(16384 // size if profile.loop_limit is None else min(2048 // size, 512), 16)
        return ReduceSpec(
            "vector",
            16,
            4,
            1,
            1,
            columns,
            16384 if profile.loop_limit is None else 32,
            longest,
            4 * profile.compute_units,
        )
    base = ReduceSpec("simt", 0, 1, lanes, 4, 1, 8 * lanes, 2**30, 8 * profile.compute_units)
    # Side by side lanes read side by side elements, a wavefront ahead of the other, where the order leaves it open.
    return replace(base, items=1, waves=8) if "commutes" in problem.flags else base


def _lane_space(base: ReduceSpec, commutes: bool) -> list[ReduceSpec]:
    """Groups of lanes: of wavefronts in turn where the operator commutes, else of runs in one or two buffers."""
    shapes = [(items, waves, 2) for items in (1, 2, 4) for waves in (1, 4, 8)]
    if not commutes:
        shapes = [(items, 1, buffers) for items in (1, 2, 4, 8, 16) for buffers in (1, 2)]
    return [
        replace(base, lanes=lanes, part=8 * lanes, items=items, waves=waves, buffers=buffers)
        for lanes in (64, 128, 256, 512)
        for items, waves, buffers in shapes
    ]


def _space(profile: Profile, problem: Problem) -> list[ReduceSpec]:
    base = _default(profile, problem)
    if base.mapping == "simt":
        return _lane_space(base, "commutes" in problem.flags)
    return [
        ReduceSpec("vector", width, unroll, 1, 1, base.columns, base.part, base.longest, base.busy)
        for width in (4, 8, 16)
        for unroll in (1, 2, 4, 8)
    ]


def _check(profile: Profile, problem: Problem, spec: ReduceSpec) -> str | None:
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    if spec.width not in (0, 2, 4, 8, 16):
        return f"width is {spec.width}; 0, 2, 4, 8 and 16 are accepted"
    if spec.lanes < 1 or spec.lanes & (spec.lanes - 1) or spec.lanes > profile.max_group_size:
        return f"lanes is {spec.lanes}; powers of two up to {profile.max_group_size} are accepted"
    if min(spec.unroll, spec.items, spec.columns, spec.busy) < 1 or min(spec.part, spec.longest) < 2:
        return "unroll, items, columns and busy must be at least 1, part and longest at least 2"
    large = max(spec.columns, spec.busy) > 2**24 or max(spec.part, spec.longest) > 2**48
    if large or spec.unroll > 32 or spec.items > 64:
        return "unroll is at most 32, items 64, columns and busy 2**24, part and longest 2**48"
    if not 1 <= spec.waves <= 64 or spec.buffers not in (1, 2):
        return f"waves is {spec.waves} and buffers {spec.buffers}; 1 to 64, and 1 or 2, are accepted"
    needed = local_bytes(problem, spec) if spec.mapping == "simt" else 0
    if needed > profile.local_bytes:
        return f"the results of {spec.lanes} lanes take {needed} bytes of local memory, {profile.local_bytes} are there"
    return None


FAMILY = Family("reduce", ReduceSpec, _default, _space, _check, counts)
