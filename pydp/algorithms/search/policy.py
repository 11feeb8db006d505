"""The policy of binary searches: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, between, field_error, power_of_two, variants
from pydp.runtime.device.profile import Profile

GROUP = 256  # work-items of a work-group of mapping "simt"
_STEPS = 64  # maximum steps of one search


@dataclass(frozen=True)
class SearchSpec:
    """One specialization of searchsorted and isin.

    mapping: "vector" (one work-item per work-group, searches in vectors: CPUs) or "simt" (a work-item for each value:
    GPUs). chains: interleaved searches of a work-item. part: most values of a work-item.
    """

    mapping: str
    chains: int = 32
    part: int = 2048


@dataclass(frozen=True)
class SearchProblem(Problem):
    """log_n, log_values: logarithms of the numbers of elements and of values, rounded up. item: bytes of an element.
    numbers: vectors can compare the elements. iterations: of the loops in one comparison, if the device limits them."""

    family: ClassVar[str] = "search"
    log_n: int
    log_values: int
    item: int
    numbers: bool = True
    iterations: int = 0


def part_size(spec: SearchSpec, count: int, units: int) -> int:
    """Values of a work-item: as specialized, or fewer to give all cores work."""
    share = -(-count // (4 * units))
    return max(spec.chains, min(spec.part, share) // spec.chains * spec.chains)


def _default(profile: Profile, problem: SearchProblem) -> SearchSpec:
    if profile.mapping == "simt":
        return SearchSpec("simt", 1, 1)
    chains = 32 if problem.numbers else 4
    spec = SearchSpec("vector", chains, 2048 if profile.loop_limit is None else 8 * chains)
    while profile.loop_limit is not None and spec.part > 1 and _iterations(problem, spec) > profile.loop_limit:
        spec = SearchSpec("vector", min(chains, spec.part // 2), spec.part // 2)
    return spec


def _iterations(problem: SearchProblem, spec: SearchSpec) -> int:
    """The most loop iterations of a work-item."""
    return spec.part // spec.chains * (_STEPS * (1 + spec.chains * problem.iterations) + 2 * spec.chains)


def _space(profile: Profile, problem: SearchProblem) -> list[SearchSpec]:
    base = _default(profile, problem)
    if base.mapping == "simt":
        return [base, *variants(base, chains=(2, 4), part=(4,))]
    found = (
        variants(base, chains=(16, 32, 64), part=(512, 2048)) if problem.numbers else variants(base, chains=(1, 4, 8))
    )
    return [one for one in dict.fromkeys([base, *found]) if _check(profile, problem, one) is None]


_ACCEPTED = {"chains": power_of_two(64), "part": between(1, 1 << 20)}


def _check(profile: Profile, problem: SearchProblem, spec: SearchSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if spec.part % spec.chains:
        return f"part is {spec.part} and chains {spec.chains}; a multiple of chains is accepted"
    if profile.loop_limit is not None and _iterations(problem, spec) > profile.loop_limit:
        return (
            f"part {spec.part} with chains {spec.chains} takes {_iterations(problem, spec)} loop iterations, "
            f"{problem.iterations} of them in each comparison; this driver ends loops after {profile.loop_limit}"
        )
    return None


def _counts(profile: Profile, problem: SearchProblem, spec: SearchSpec) -> Counts:
    """One phase: the steps in the first-level cache are cheap, the others wait for memory."""
    n, values = 1 << problem.log_n, 1 << problem.log_values
    simt = spec.mapping == "simt"
    near = (profile.l2_bytes if not simt else 1 << 22) // max(1, problem.item)
    far = max(0, problem.log_n - max(0, near.bit_length() - 1))
    part = part_size(spec, values, profile.compute_units) if not simt else 1
    groups = max(1, -(-values // (GROUP if simt else part)))
    cycles = 2.0 + (2.0 if spec.chains >= 16 else 16.0 / spec.chains)
    phase = Phase(
        "search", groups=groups, lanes=GROUP if simt else 1, operations=float(values * (problem.log_n + 1)),
        efficiency=0.1 if simt else efficiency(profile, problem.dtype, 1.0, cycles),
        read=float(values * (problem.item + far * profile.cache_line)) + min(n, values) * float(problem.item),
        written=8.0 * values, cached=float(values * problem.log_n * problem.item),
        balance=spread(groups, profile.compute_units), registers=24,
    )  # fmt: skip
    return Counts(problem.dtype, (phase,))


def group_size(profile: Profile) -> int:
    """Work-items of a work-group of mapping "simt"."""
    return min(GROUP, 1 << max(profile.max_group_size.bit_length() - 1, 0))


FAMILY = Family("search", SearchSpec, _default, _space, _check, _counts)
