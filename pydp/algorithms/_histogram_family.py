"""Specializations of the histograms and their policy: pure functions of the device's profile and the problem."""

from __future__ import annotations

from dataclasses import replace

from pydp.algorithms._histogram_counts import counts
from pydp.algorithms._histogram_spec import HistogramSpec
from pydp.groups.barrier import why_not
from pydp.lds import banks_of, layout
from pydp.runtime.profile import Profile
from pydp.specialize.family import Family, Problem

_FEW = 32  # bins that a lane can keep in registers
_COUNTERS = ("sets", "own", "registers")


def local_bytes(profile: Profile, spec: HistogramSpec, bins: int) -> int | None:
    """Local memory of a group; None where it is too much."""
    each = {"sets": spec.sets * (bins + spec.pad), "own": spec.lanes * bins, "registers": bins}[spec.counters]
    return 4 * each if 4 * each <= profile.local_bytes // 2 else None


def _default(profile: Profile, problem: Problem) -> HistogramSpec:
    """problem.sizes: (elements, bins)."""
    n, bins = problem.sizes
    if profile.mapping == "vector":
        parts = 4 * profile.compute_units
        if profile.loop_limit is not None:  # a part's elements and the folding of its bins stay below the limit
            parts = max(parts, -(-n // (profile.loop_limit // 4)))
        return HistogramSpec("vector", parts, 4 if profile.loop_limit is None else 1, 1, 1, 0)
    lanes = 1 << min(256, profile.max_group_size).bit_length() - 1
    sets = max(1, min(8, lanes, profile.local_bytes // 4 // max(4 * (bins + 1), 1)))
    sets = 1 << sets.bit_length() - 1
    spec = _apart(profile, bins, HistogramSpec("simt", 8 * profile.compute_units, 1, lanes, sets, 0, waves=4))
    while spec.sets > 1 and local_bytes(profile, spec, bins) is None:
        spec = _apart(profile, bins, replace(spec, sets=spec.sets // 2))
    return spec


def _apart(profile: Profile, bins: int, spec: HistogramSpec) -> HistogramSpec:
    """With the entries between the sets that put one bin of the sets that lanes ask together into different banks."""
    banks, stretch = banks_of(profile.banks, profile.bank_bytes), max(1, spec.lanes // spec.sets)
    if spec.sets == 1 or spec.lanes % spec.sets:
        return replace(spec, pad=0)
    together = min(banks.lanes, spec.lanes)
    return replace(spec, pad=layout(banks, (spec.sets, bins), 4, [lambda lane: (lane // stretch, 0)], together).pad)


def _space(profile: Profile, problem: Problem) -> list[HistogramSpec]:
    base, bins = _default(profile, problem), problem.sizes[1]
    if base.mapping == "vector":
        sizes = [base.parts, 2 * base.parts, 4 * base.parts]
        found = [HistogramSpec("vector", parts, copies, 1, 1, 0) for parts in sizes for copies in (1, 2, 4, 8)]
    else:
        found = [
            replace(base, parts=parts, lanes=lanes, sets=sets, waves=waves, counters=counters, constants=constants)
            for parts in (base.parts, 2 * base.parts)
            for lanes in (64, 256)
            for waves in (1, 4)
            for counters, sets in (("sets", 1), ("sets", 4), ("sets", 8), ("own", 1), ("registers", 1))
            for constants in ((False, True) if bins <= _FEW else (False,))
        ]
        found = [_apart(profile, bins, spec) for spec in found]
    return found


def _check(profile: Profile, problem: Problem, spec: HistogramSpec) -> str | None:
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    if not 1 <= spec.parts <= 2**24 or not 0 <= spec.pad <= 1024:
        return f"parts is {spec.parts} and pad {spec.pad}; 1 to 2**24, and 0 to 1024, are accepted"
    for name in ("copies", "lanes", "sets"):
        value = getattr(spec, name)
        if value < 1 or value & (value - 1):
            return f"{name} is {value}; powers of two are accepted"
    if spec.copies > 8 or spec.lanes > profile.max_group_size or spec.sets > spec.lanes:
        return f"copies is at most 8, lanes at most {profile.max_group_size}, sets at most lanes; not so in {spec}"
    if not 1 <= spec.waves <= 64:
        return f"waves is {spec.waves}; 1 to 64 are accepted"
    if spec.counters not in _COUNTERS:
        return f"counters is {spec.counters!r}; {', '.join(map(repr, _COUNTERS))} are accepted"
    if (spec.counters == "registers" or spec.constants) and problem.sizes[1] > _FEW:
        return f"registers hold counters and edges of at most {_FEW} bins, not of {problem.sizes[1]}"
    # One set that is too large is no fault: work-items that meet nobody count then, in memory.
    several = spec.mapping == "simt" and (spec.counters == "own" or spec.sets > 1)
    if several and local_bytes(profile, spec, problem.sizes[1]) is None:
        of = f"{spec.lanes} lanes" if spec.counters == "own" else f"{spec.sets} sets"
        return f"{problem.sizes[1]} bins for {of} take more than half of {profile.local_bytes} bytes of local memory"
    return None


FAMILY = Family("histogram", HistogramSpec, _default, _space, _check, counts)
