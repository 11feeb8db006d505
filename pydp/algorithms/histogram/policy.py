"""The policy of the histograms: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem. A histogram is counted in several
parts; their bins are then added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pydp.local_memory import banks_of, layout
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, between, field_error, one_of, power_of_two
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class HistogramSpec:
    """One specialization of histogram.

    mapping: "vector" (CPUs) or "simt" (GPUs). parts: number of parts of the input. copies: sets of bins of a work-item,
    which counts one part (CPUs). lanes: work-items of a work-group, which counts one part (GPUs). waves: virtual
    wavefronts of a work-group. counters: "sets" (`sets` sets of bins in local memory with atomics; `pad` unused entries
    between them), "own" (each lane has its own bins) or "registers" (few bins). constants: each lane keeps the edges in
    registers (few bins). barriers, subgroup: see :mod:`pydp.groups.barrier`.
    """

    mapping: str
    parts: int
    copies: int
    lanes: int
    sets: int
    pad: int
    waves: int = 1
    counters: str = "sets"
    constants: bool = False
    barriers: str = "group"
    subgroup: int | None = None


@dataclass(frozen=True)
class HistogramProblem(Problem):
    """A histogram as far as its specialization depends on it.

    dtype: the dtype of the elements. n: number of elements. bins: number of bins. values: an element is the index of
    its bin (`bincount`). uneven: the bins have different sizes. weights: the elements have weights.
    """

    family: ClassVar[str] = "histogram"
    n: int
    bins: int
    values: bool = False
    uneven: bool = False
    weights: bool = False


_MOST_COPIED = 4096  # bins; more do not fit into the cache several times
_MOST_BYTES = 1 << 26  # bytes of all sets of bins together
_TILE_LANES = 64  # two wavefronts of most GPUs
_MOST_COUNTED = 1 << 31  # elements of a set: counters have 32 bits

# Cycles of a CPU per element, by step.
_COUNT = 1.6  # to count an element that is the index of its bin
_FIND = 2.0  # to guess the bin with vectors, and correct the guess by one comparison
_TABLE = 1.0  # to read a table, and compare once more
_WIDE = 1.2  # for elements of 8 bytes: half as many fit into a vector
_ADD = 1.6  # from the store to the next load of the same bin, if adjacent elements are equal


@dataclass(frozen=True)
class Division:
    """How the input is divided: `parts` parts of at most `part` elements, which `lanes` work-items count. sets: sets of
    bins of all parts together."""

    parts: int
    part: int
    sets: int
    lanes: int


def place_of(profile: Profile, spec: HistogramSpec, bins: int, weights: bool) -> str:
    """Place of bins: "items" (each work-item counts a part), "local" memory of a work-group, "shared" by work-groups
    in global memory, because local memory is too small, or "tiles" (weights: each work-group has its own in global
    memory and adds tiles of elements in order).
    """
    if spec.mapping == "vector":
        return "items"
    if weights:
        return "tiles"
    return "shared" if local_bytes(profile, spec, bins) is None else "local"


def divide(spec: HistogramSpec, place: str, n: int, bins: int, itemsize: int, longest: int = _MOST_COUNTED) -> Division:
    """The division of `n` elements, at least 1. itemsize: of a bin. longest: maximum elements of a work-item.

    The specialized number of parts is reduced if parts have too few elements for their bins or need too much memory,
    and increased if a work-item has too many elements."""
    bins = max(1, bins)
    copies = spec.copies if place == "items" and bins <= _MOST_COPIED else 1
    most = max(1, _MOST_BYTES // (bins * copies * itemsize))
    worth = max(1, n // max(1024, bins))
    parts, lanes = min(spec.parts, worth, most), 1 if place == "items" else spec.lanes
    if place == "shared":
        parts = min(spec.parts, -(-n // lanes))
    elif place == "tiles":
        lanes = tile_lanes(spec)
        parts = min(spec.parts * (spec.lanes // lanes), worth, most)
    part = -(-n // max(parts, -(-n // (longest * (1 if place == "local" else lanes)))))
    parts = -(-n // part)
    if place == "shared":
        return Division(parts, part, max(min(parts, worth, most), -(-n // _MOST_COUNTED)), lanes)
    return Division(parts, part, parts * (copies if place == "items" else 1), lanes)


def tile_lanes(spec: HistogramSpec) -> int:
    """The work-items of a work-group that sums weights: each one compares its bin with the bins of the others."""
    return min(spec.lanes, _TILE_LANES)


def counts(profile: Profile, problem: HistogramProblem, spec: HistogramSpec) -> Counts:
    """Phases: the counts of all parts, then their sums."""
    n, bins = max(1, problem.n), max(1, problem.bins)
    item = np.dtype(problem.dtype).itemsize
    each = 8 if problem.weights else 4  # bytes of a bin
    place = place_of(profile, spec, bins, problem.weights)
    found = divide(spec, place, n, bins, each)
    size = float(n * (item + 4 * problem.weights))
    near = profile.kind == "cpu" and size < 0.75 * profile.l2_bytes * profile.compute_units
    read, cached = (0.0, size) if near else (size, 0.0)
    sums = float(found.sets * bins * each)
    balance = spread(found.parts, profile.compute_units)
    if place == "items":
        copies = found.sets // found.parts
        cycles = _COUNT if problem.values else _FIND + _TABLE * problem.uneven
        cycles *= 1.0 if item < 8 or problem.values else _WIDE
        # Equal adjacent elements wait for each other's store. More sets of bins avoid this while they fit into L1.
        cycles += _ADD / (4.0 * copies)
        cycles *= 1.0 if bins * copies * each < profile.l1_bytes / 2 else 1.5
        clear = 0.5 * bins * found.sets / n
        count = Phase(
            "count",
            groups=found.parts,
            operations=float(n),
            efficiency=efficiency(profile, problem.dtype, 1.0, cycles + clear),
            written=sums,
            balance=balance,
            read=read,
            cached=cached,
        )
    else:
        local = 4 * {"sets": spec.sets * (bins + spec.pad), "own": spec.lanes * bins}.get(spec.counters, bins)
        inside = place == "local"
        count = Phase(
            "count",
            groups=found.parts,
            lanes=found.lanes,
            operations=8.0 * n + 2.0 * found.sets * bins,
            efficiency=0.25 if inside else 0.05,  # an addition in global memory takes several times as long
            written=sums,
            balance=balance,
            barriers=2 * inside,
            local_bytes=local * inside,
            registers=24,
            access=item,
            read=read,
            cached=cached,
        )
    lanes = min(spec.lanes, bins) if spec.mapping == "simt" else 1
    return Counts(problem.dtype, (count, _fold(profile, found.sets, bins, lanes)))


def _fold(profile: Profile, rows: int, bins: int, lanes: int) -> Phase:
    """The sum of each bin over the parts: a reduction of adjacent columns, one column per lane on GPUs."""
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


_FEW = 32  # bins that a lane can keep in registers


def local_bytes(profile: Profile, spec: HistogramSpec, bins: int) -> int | None:
    """Bytes of local memory of a work-group; None if they exceed half of the device's local memory."""
    each = {"sets": spec.sets * (bins + spec.pad), "own": spec.lanes * bins, "registers": bins}[spec.counters]
    return 4 * each if 4 * each <= profile.local_bytes // 2 else None


def _default(profile: Profile, problem: HistogramProblem) -> HistogramSpec:
    bins = problem.bins
    if profile.mapping == "vector":
        parts = 4 * profile.compute_units
        if profile.loop_limit is not None:  # the loops over a part's elements and over its bins stay below the limit
            parts = max(parts, -(-problem.n // (profile.loop_limit // 4)))
        return HistogramSpec("vector", parts, 4 if profile.loop_limit is None else 1, 1, 1, 0)
    lanes = 1 << min(256, profile.max_group_size).bit_length() - 1
    sets = max(1, min(8, lanes, profile.local_bytes // 4 // max(4 * (bins + 1), 1)))
    sets = 1 << sets.bit_length() - 1
    spec = _with_padding(profile, bins, HistogramSpec("simt", 8 * profile.compute_units, 1, lanes, sets, 0, waves=4))
    while spec.sets > 1 and local_bytes(profile, spec, bins) is None:
        spec = _with_padding(profile, bins, replace(spec, sets=spec.sets // 2))
    return spec


def _with_padding(profile: Profile, bins: int, spec: HistogramSpec) -> HistogramSpec:
    """The spec with the padding between sets that avoids bank conflicts when lanes update the same bin."""
    banks, stretch = banks_of(profile.banks, profile.bank_bytes), max(1, spec.lanes // spec.sets)
    if spec.sets == 1 or spec.lanes % spec.sets:
        return replace(spec, pad=0)
    together = min(banks.lanes, spec.lanes)
    return replace(spec, pad=layout(banks, (spec.sets, bins), 4, [lambda lane: (lane // stretch, 0)], together).pad)


def _space(profile: Profile, problem: HistogramProblem) -> list[HistogramSpec]:
    base, bins = _default(profile, problem), problem.bins
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
        found = [_with_padding(profile, bins, spec) for spec in found]
    return found


_ACCEPTED = {
    "parts": between(1, 1 << 24),
    "pad": between(0, 1024),
    "copies": power_of_two(8),
    "lanes": power_of_two(1 << 20),
    "sets": power_of_two(1 << 20),
    "waves": between(1, 64),
    "counters": one_of("sets", "own", "registers"),
}


def _check(profile: Profile, problem: HistogramProblem, spec: HistogramSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if spec.lanes > profile.max_group_size or spec.sets > spec.lanes:
        most = profile.max_group_size
        return f"lanes is {spec.lanes} and sets {spec.sets}; at most {most} lanes and at most as many sets are accepted"
    if (spec.counters == "registers" or spec.constants) and problem.bins > _FEW:
        return (
            f"counters is {spec.counters!r} and constants {spec.constants} with {problem.bins} bins; 'registers' and "
            f"True are accepted for at most {_FEW} bins"
        )
    # If a single set does not fit into local memory, work-groups count in global memory.
    several = spec.mapping == "simt" and (spec.counters == "own" or spec.sets > 1)
    if several and local_bytes(profile, spec, problem.bins) is None:
        of = f"{spec.lanes} lanes" if spec.counters == "own" else f"{spec.sets} sets"
        return f"{problem.bins} bins for {of} exceed half of the {profile.local_bytes} bytes of local memory"
    return None


FAMILY = Family("histogram", HistogramSpec, _default, _space, _check, counts)
