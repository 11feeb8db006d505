"""The policy of merges: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, between, field_error, variants
from pydp.runtime.device.profile import Profile

_LOOP_BOUND_STRETCH = 1024  # its loops, with the searches, stay below 65,535 iterations


@dataclass(frozen=True)
class MergeSpec:
    """One specialization of merge and merge_by_key.

    mapping: "vector" (one work-item per work-group: CPUs) or "simt" (lanes and local memory: GPUs).
    stretch: most results of a work-item. chains: parts of a stretch that are merged at the same time. (vector.)
    lanes: work-items of a work-group. items: results of a lane. barriers, subgroup: synchronization of the lanes (see
    :mod:`pydp.groups.barrier`). (simt.)
    """

    mapping: str
    stretch: int = 65536
    chains: int = 4
    lanes: int = 128
    items: int = 11
    barriers: str = "auto"
    subgroup: int | None = None


@dataclass(frozen=True)
class MergeProblem(Problem):
    """log_n: logarithm of the number of results, rounded up. key: bytes of a key. item: bytes of a key and a value.
    iterations: of the loops in one comparison, if the device limits them."""

    family: ClassVar[str] = "merge"
    log_n: int
    key: int
    item: int
    iterations: int = 0


def stretch_of(spec: MergeSpec, n: int, units: int) -> int:
    """Results of a work-item or a work-group: as specialized, or fewer to give all cores work."""
    if spec.mapping == "simt":
        return spec.lanes * spec.items
    return max(1, min(spec.stretch, max(512, -(-n // (4 * units)))))


def _local_bytes(problem: MergeProblem, spec: MergeSpec) -> int:
    return spec.lanes * spec.items * (problem.key + 2) + 64


def _iterations(problem: MergeProblem, spec: MergeSpec) -> int:
    """The most loop iterations of a work-item with mapping "vector", each with one comparison."""
    return (2 * spec.stretch + 64 * spec.chains) * (1 + problem.iterations)


def _default(profile: Profile, problem: MergeProblem) -> MergeSpec:
    vector = MergeSpec("vector", barriers="auto" if profile.kind == "gpu" else "group")
    if profile.loop_limit is not None:
        vector = dataclasses.replace(vector, stretch=_LOOP_BOUND_STRETCH)
        while vector.stretch > 1 and _iterations(problem, vector) > profile.loop_limit:
            chains = max(1, min(vector.chains, vector.stretch // 64))
            vector = dataclasses.replace(vector, stretch=vector.stretch // 2, chains=chains)
    if profile.mapping != "simt":
        return vector
    lanes = min(128, 1 << max(profile.max_group_size.bit_length() - 1, 1))
    for items in (11, 7, 5, 3, 1):
        spec = dataclasses.replace(vector, mapping="simt", lanes=lanes, items=items)
        if _local_bytes(problem, spec) <= min(profile.local_bytes, 24 << 10):
            return spec
    return vector  # elements too large for local memory


def _space(profile: Profile, problem: MergeProblem) -> list[MergeSpec]:
    base = _default(profile, problem)
    if base.mapping == "simt":
        found = variants(base, lanes=(64, 128, 256), items=(5, 7, 11, 15))
    elif profile.loop_limit is not None:
        found = variants(base, chains=(1, 2, 4))
    else:
        found = variants(base, stretch=(4096, 16384, 65536), chains=(1, 2, 4, 8))
    return list(dict.fromkeys([base, *found]))


_ACCEPTED = {
    "stretch": between(1, 1 << 24),
    "chains": between(1, 16),
    "lanes": between(2, 1 << 12),
    "items": between(1, 64),
}


def _check(profile: Profile, problem: MergeProblem, spec: MergeSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if spec.mapping == "vector":
        if profile.loop_limit is not None and _iterations(problem, spec) > profile.loop_limit:
            return (
                f"stretch {spec.stretch} with chains {spec.chains} takes {_iterations(problem, spec)} loop iterations, "
                f"{problem.iterations} of them in each comparison; this driver ends loops after {profile.loop_limit}"
            )
        return None
    if spec.lanes > profile.max_group_size:
        return f"lanes {spec.lanes} is more than {profile.max_group_size}, the largest work-group"
    if spec.lanes * spec.items > 1 << 16:  # positions in a tile have 16 bits
        return f"lanes * items is {spec.lanes * spec.items}; up to 65536 are accepted"
    need = _local_bytes(problem, spec)
    if need > profile.local_bytes:
        return f"the spec needs {need} bytes of local memory; the device has {profile.local_bytes}"
    return None


def _counts(profile: Profile, problem: MergeProblem, spec: MergeSpec) -> Counts:
    """One phase: each key and value is read and written once."""
    n, simt = 1 << problem.log_n, spec.mapping == "simt"
    stretch = stretch_of(spec, n, profile.compute_units)
    groups = max(1, -(-n // stretch))
    size = float(n * problem.item)
    cycles = max(3.0, 9.0 / min(spec.chains, 4)) + 600.0 * spec.chains / stretch
    phase = Phase(
        "merge", groups=groups, lanes=spec.lanes if simt else 1, operations=float(n),
        efficiency=0.05 if simt else efficiency(profile, problem.dtype, 1.0, cycles), read=size, written=size,
        cached=2 * size if simt else 0.0, balance=spread(groups, profile.compute_units), barriers=3.0 if simt else 0.0,
        local_bytes=_local_bytes(problem, spec) if simt else 0, registers=32,
    )  # fmt: skip
    return Counts(problem.dtype, (phase,))


FAMILY = Family("merge", MergeSpec, _default, _space, _check, _counts)
