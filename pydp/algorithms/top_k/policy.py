"""The policy of top_k: specializations, their limits and candidates.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydp.model.family import Family, Problem, between, field_error, one_of, variants
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class TopKSpec:
    """One specialization of top_k.

    strategy: "filter" (a work-item drops the elements of its part that are worse than the k-th best so far, then the
    rest is sorted: CPUs), "select" (the k-th best element is found digit by digit, then the k best are selected and
    sorted: GPUs) or "sort" (all elements are sorted).
    parts: parts of a row for each compute unit. block: elements that are compared with the threshold at once. (filter.)
    mapping: "vector" or "simt" (select; the filter has only "vector"). barriers, subgroup: synchronization of the lanes
    (see :mod:`pydp.groups.barrier`; select by lanes).
    """

    strategy: str
    parts: int = 1
    block: int = 128
    mapping: str = "vector"
    barriers: str = "auto"
    subgroup: int | None = None


@dataclass(frozen=True)
class TopKProblem(Problem):
    """n: elements of a row. k: elements that are wanted. rows: number of rows. numbers: the elements are numbers and
    compared by value, so their bits order them."""

    family: ClassVar[str] = "top_k"
    n: int
    k: int
    rows: int
    numbers: bool = True


_LEAST = 8  # a part has at least so many times k elements
_SAMPLE = 1024  # elements: their 100th best one is near the tenth part of all; the next candidates raise it soon
_LONG = 1 << 16  # shorter rows are sorted as fast as selected
_WORTH = 512  # with fewer than so many times k elements, sorting all of them is faster


def parts_of(spec: TopKSpec, problem: TopKProblem, units: int) -> int:
    """The parts of a row: enough for all compute units, and not too small."""
    wanted = -(-spec.parts * units // max(1, problem.rows))
    return max(1, min(wanted, problem.n // max(4096, _LEAST * problem.k)))


def sample_of(problem: TopKProblem, parts: int) -> int:
    """Elements of a part that give the first threshold; 0 where so few that the first ones are as good."""
    share = problem.n // parts
    found = min(max(_SAMPLE, 8 * problem.k), share // 16) // 16 * 16
    return found if found >= 4 * problem.k else 0


def capacity_of(spec: TopKSpec, problem: TopKProblem, parts: int) -> int:
    """Elements of the buffer of a part: the sample; later k + k / 2 + a block of elements, which are not dropped yet,
    and those of one more block."""
    kept = problem.k + problem.k // 2 + spec.block
    return -(-max(kept + spec.block, sample_of(problem, parts)) // 16) * 16


def _default(profile: Profile, problem: TopKProblem) -> TopKSpec:
    filters, selects = TopKSpec("filter"), TopKSpec("select", mapping=profile.mapping)
    few = profile.mapping == "vector" and problem.n >= _WORTH * problem.k
    if few and _check(profile, problem, filters) is None:
        return filters
    many = problem.n >= _LONG and problem.n >= 4 * problem.k
    return selects if many and _check(profile, problem, selects) is None else TopKSpec("sort")


def _space(profile: Profile, problem: TopKProblem) -> list[TopKSpec]:
    base = _default(profile, problem)
    found = variants(base, strategy=("filter",), parts=(1, 2, 4), block=(32, 64, 128))
    return list(dict.fromkeys([base, *found, TopKSpec("select", mapping=profile.mapping), TopKSpec("sort")]))


_ACCEPTED = {
    "strategy": one_of("filter", "select", "sort"),
    "mapping": one_of("vector", "simt"),
    "parts": between(1, 1 << 10),
    "block": one_of(16, 32, 64, 128),
}


def _check(profile: Profile, problem: TopKProblem, spec: TopKSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if spec.strategy == "select":
        if not problem.numbers:
            return (
                "strategy 'select' is for bool, integers and floats of up to 64 bits without key and less; "
                "'sort' is accepted"
            )
        if problem.n >= 1 << 31:
            return f"strategy 'select' takes rows of up to 2**31 - 1 elements, not {problem.n}; 'sort' is accepted"
    if spec.strategy == "filter":
        if spec.mapping != "vector":
            return f"strategy 'filter' has no mapping {spec.mapping!r}; 'vector' is accepted"
        if not problem.numbers:
            return "strategy 'filter' is for bool, integers and floats without key and less; 'sort' is accepted"
        if profile.loop_limit is not None:
            return f"this driver ends loops after {profile.loop_limit} iterations; 'sort' is accepted"
        if problem.k > 1 << 20:
            return f"strategy 'filter' takes k up to 2**20, not {problem.k}; 'sort' is accepted"
    return None


FAMILY = Family("top_k", TopKSpec, _default, _space, _check)
