"""The policy of partitions at positions: specializations, their limits and candidates.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from pydp.algorithms import lookback
from pydp.model.family import Family, Problem, between, field_error, one_of, variants
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class PartitionSpec:
    """One specialization of partition at a position, and of argpartition.

    strategy: "select" (the digits of the k-th smallest element are found one by one, then one pass stores the three
    parts) or "sort" (all elements are sorted).
    mapping: "vector" (one work-item per work-group: CPUs) or "simt" (lanes and local memory: GPUs). digit: bits of a
    digit. groups: work-groups of a compute unit that count digits. lanes: work-items of such a work-group (simt).
    part: most elements of a partition of the last pass; 0: as in select.
    barriers, subgroup: synchronization of the lanes (see :mod:`pydp.groups.barrier`; simt). order, suppress: as in
    :class:`pydp.algorithms.scan.policy.ScanSpec`, of the last pass. (All of strategy "select".)
    """

    strategy: str
    mapping: str = "vector"
    digit: int = 11
    groups: int = 4
    lanes: int = 256
    part: int = 0
    barriers: str = "auto"
    subgroup: int | None = None
    order: str = "ticket"
    suppress: int = 0


@dataclass(frozen=True)
class PartitionProblem(Problem):
    """n: elements of a row. rows: number of rows. positions: number of different positions. numbers: the elements are
    numbers whose bits order them. indexes: of elements are the result."""

    family: ClassVar[str] = "partition"
    n: int
    rows: int
    positions: int = 1
    numbers: bool = True
    indexes: bool = False


_MOST_ITEMS = 64  # elements of a lane in the last pass
_MOST = (1 << 31) - 1  # elements of a row: 32-bit counters
_LEAST = 1 << 14  # elements of a work-group that counts: it clears and adds up thousands of bins
_WORTH = 1 << 16  # shorter rows are sorted as fast


def digits_of(bits: int, digit: int) -> list[tuple[int, int, int]]:
    """(shift of the digit, shift of the digits above it, bits) of each pass, from the top.

    >>> digits_of(32, 11)
    [(21, 32, 11), (10, 21, 11), (0, 10, 10)]
    """
    passes = -(-bits // digit)
    each = -(-bits // passes)
    ends = [max(0, bits - number * each) for number in range(passes + 1)]
    return [(low, high, high - low) for high, low in pairwise(ends)]


def groups_of(profile: Profile, spec: PartitionSpec, n: int, rows: int, items: int) -> int:
    """Work-groups that count the digits of a row."""
    tile = items * (spec.lanes if spec.mapping == "simt" else 1)
    found = max(1, min(-(-spec.groups * profile.compute_units // rows), -(-n // _LEAST)))
    if profile.loop_limit is not None:
        found = max(found, -(-n * items // (tile * (profile.loop_limit // 4))))
    return found


def default(profile: Profile, problem: PartitionProblem) -> PartitionSpec:
    """The default specialization, without measurements."""
    simt = profile.mapping == "simt"
    lanes = min(256, 1 << max(profile.max_group_size, 1).bit_length() - 1)
    spec = PartitionSpec("select", profile.mapping, lanes=lanes, barriers="auto" if simt else "group")
    fits = problem.n >= _WORTH and _check(profile, problem, spec) is None
    return spec if fits else PartitionSpec("sort", profile.mapping)


def _space(profile: Profile, problem: PartitionProblem) -> list[PartitionSpec]:
    base = default(profile, problem)
    found = variants(base, strategy=("select",), digit=(8, 11), groups=(1, 4, 8))
    return list(dict.fromkeys([base, *found, PartitionSpec("sort", profile.mapping)]))


_ACCEPTED = {
    "strategy": one_of("select", "sort"),
    "digit": between(1, 12),
    "groups": between(1, 1 << 10),
    "lanes": one_of(*(1 << power for power in range(1, 11))),
    "part": between(0, 1 << 20),
    **{name: lookback.ACCEPTED[name] for name in ("order", "suppress")},
}


def _check(profile: Profile, problem: PartitionProblem, spec: PartitionSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error or spec.strategy == "sort":
        return error
    if not problem.numbers:
        return "strategy 'select' is for bool, integers and floats of up to 64 bits; 'sort' is accepted"
    if problem.positions != 1:
        return f"strategy 'select' takes one position, not {problem.positions}; 'sort' is accepted"
    if problem.n > _MOST:
        return f"strategy 'select' takes rows of up to 2**31 - 1 elements, not {problem.n}; 'sort' is accepted"
    if spec.mapping == "simt":
        if spec.lanes > profile.max_group_size:
            return f"lanes is {spec.lanes}; at most {profile.max_group_size} are accepted"
        if spec.part > _MOST_ITEMS * spec.lanes:
            return f"part is {spec.part}; up to {_MOST_ITEMS} elements for each of {spec.lanes} lanes are accepted"
        if (need := (4 << spec.digit) + 16) > profile.local_bytes:
            return f"the spec needs {need} bytes of local memory; the device has {profile.local_bytes}"
    return None


FAMILY = Family("partition", PartitionSpec, default, _space, _check)
