"""The policy of select and of runs: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from pydp.algorithms import lookback
from pydp.algorithms.scan.policy import power_below
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, between, field_error, power_of_two, variants
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class SelectSpec:
    """One specialization of select, partition, nonzero, unique, run_length_encode and reduce_by_key.

    mapping: "vector" (one work-item per work-group: CPUs) or "simt" (lanes and local memory: GPUs).
    strategy: "lookback", "chained" (each partition waits for its predecessor's prefix) or "reduce_then_scan".
    part: maximum elements of a partition. block: elements whose condition is evaluated at once. nontemporal: results
    bypass the cache. (All vector.)
    lanes: work-items of a work-group. columns: lanes of a row in the work-group's scan. items: elements of a lane.
    (All simt.) barriers, subgroup: synchronization of the lanes (see :mod:`pydp.groups.barrier`; simt).
    window (simt), polls, plain_polls, order, suppress: as in :class:`pydp.algorithms.scan.policy.ScanSpec`.
    """

    mapping: str
    strategy: str
    part: int = 32768
    block: int = 128
    nontemporal: bool = False
    lanes: int = 256
    columns: int = 16
    items: int = 15
    window: int = 1
    polls: int = 20000
    plain_polls: bool = False
    order: str = "ticket"
    suppress: int = 0
    barriers: str = "auto"
    subgroup: int | None = None


@dataclass(frozen=True)
class SelectProblem(Problem):
    """A selection as far as its specialization depends on it.

    dtype: of the elements whose condition is evaluated. log_n: logarithm of their number, rounded up. item: bytes that
    are read for an element. stored: bytes that are stored for a kept element. state: bytes of a partition's state.
    rest: the other elements are stored, too; the number of all kept elements must be known first, therefore only
    "reduce_then_scan" is possible. sums: values are reduced between heads. three: the kept elements are two parts.
    limits: the sizes of the parts are known, so every strategy is possible.
    """

    family: ClassVar[str] = "select"
    log_n: int
    item: int
    stored: int
    state: int
    rest: bool = False
    sums: bool = False
    three: bool = False
    limits: bool = False

    @property
    def two_passes(self) -> bool:
        """Whether the number of kept elements must be known before elements are stored."""
        return (self.rest or self.three) and not self.limits


_SMALL = 2048  # partitions are not made smaller than this to give more cores work
_LOOP_BOUND_PART = 2048  # the loops over a partition and the polls stay below 65,535 iterations
_PARTS = (4096, 8192, 16384, 32768, 65536)
_STREAMED = 0.6  # cost of a nontemporal store relative to a normal store, which first reads the cache line


def partition_size(spec: SelectSpec, n: int, units: int) -> int:
    """Elements of a partition: as specialized, or fewer to give all cores work."""
    if spec.mapping == "simt":
        return spec.lanes * spec.items
    share = -(-n // (4 * units))
    return min(spec.part, max(_SMALL, -(-share // 1024) * 1024))


def _private_bytes(problem: SelectProblem, elements: int) -> int:
    """At least the bytes of private memory for the kept elements of a partition. (Indexes need 4 bytes there.)"""
    return (elements + 16) * problem.stored * (1 + problem.rest + problem.three)


def _iterations(problem: SelectProblem) -> int:
    """The most loop iterations for an element (vector): loops over its words copy it up to three times."""
    return 4 + 3 * problem.stored * (2 if problem.three else 1)


def _local_bytes(problem: SelectProblem, spec: SelectSpec) -> int:
    tile = spec.lanes * spec.items
    lane_states = 2 * (spec.lanes + spec.lanes // spec.columns) * (problem.state + 1)
    return tile * (3 + problem.stored) + lane_states + lookback.window_bytes(problem.state, spec.window) + 64


def default(profile: Profile, problem: SelectProblem) -> SelectSpec:
    """The default specialization, without measurements."""
    part = power_below(max(profile.l2_bytes, 1 << 18) // 4 // max(problem.stored, 4))
    part = max(64, min(part, _PARTS[-1]))
    if profile.loop_limit is not None:
        part = max(2, min(part, _LOOP_BOUND_PART, profile.loop_limit // _iterations(problem)))
    while _private_bytes(problem, part) > profile.most_private_bytes and part > 64:
        part //= 2
    spec = SelectSpec(
        mapping="vector",
        **lookback.default_fields(profile, one_pass=not problem.two_passes),
        part=part,
        nontemporal=profile.stores_nontemporal(problem.stored << problem.log_n),
    )
    if profile.mapping != "simt":
        return spec
    lanes = min(256, power_below(profile.max_group_size))
    for items in (15, 11, 7, 5, 3, 1):
        found = dataclasses.replace(
            spec,
            mapping="simt",
            lanes=lanes,
            columns=min(16, lanes),
            items=items,
            window=lookback.WINDOW,
            nontemporal=False,
        )
        if _local_bytes(problem, found) <= min(profile.local_bytes, 40 << 10):
            return found
    return spec  # elements too large for local memory


def space(profile: Profile, problem: SelectProblem) -> list[SelectSpec]:
    """Candidates for tuning: partition sizes, strategies, stores, work-groups."""
    base = default(profile, problem)
    if profile.loop_limit is not None:
        return [base, *(dataclasses.replace(base, part=max(64, base.part >> shift)) for shift in (1, 2))]
    found = [base]
    if base.mapping == "vector":
        found += variants(base, part=_PARTS, nontemporal=(False, True))
        found += variants(base, block=(64, 256, 512))
        if not problem.two_passes:
            found.append(dataclasses.replace(base, strategy="reduce_then_scan"))
        lanes = dataclasses.replace(base, mapping="simt", nontemporal=False)
        found += variants(lanes, lanes=(64, 256), items=(7,))
    else:
        found += variants(base, lanes=(128, 256, 512), items=(3, 7, 11, 15, 23))
        found += variants(base, window=(1, 64))
        if not problem.two_passes:
            found.append(dataclasses.replace(base, strategy="reduce_then_scan"))
    return list(dict.fromkeys(found))


_ACCEPTED = {
    **lookback.ACCEPTED,
    "part": between(1, 1 << 20),
    "block": power_of_two(4096),
}


def check(profile: Profile, problem: SelectProblem, spec: SelectSpec) -> str | None:
    """One sentence why `spec` cannot run on the device, or None."""
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if problem.two_passes and spec.strategy != "reduce_then_scan":
        return (
            f"strategy {spec.strategy!r} does not know the number of all kept elements, after which the others are "
            "stored; 'reduce_then_scan' is accepted"
        )
    error = lookback.spec_error(profile, spec)
    if error:
        return error
    if spec.mapping == "vector":
        return _check_vector(profile, problem, spec)
    if not 1 <= spec.lanes <= profile.max_group_size:
        return f"lanes {spec.lanes} is not between 1 and {profile.max_group_size}"
    if spec.columns < 1 or spec.lanes % spec.columns or not 1 <= spec.items <= 64 or spec.lanes * spec.items > 65535:
        return (
            f"columns {spec.columns} must divide lanes {spec.lanes}, items {spec.items} must be 1 to 64, and lanes * "
            "items at most 65535"
        )
    if profile.loop_limit is not None and problem.sums and problem.state % 8:
        return f"this driver loses records of {problem.state} bytes in local memory; mapping 'vector' is accepted"
    need = _local_bytes(problem, spec)
    if need > profile.local_bytes:
        return f"the spec needs {need} bytes of local memory; the device has {profile.local_bytes}"
    return None


def _check_vector(profile: Profile, problem: SelectProblem, spec: SelectSpec) -> str | None:
    if profile.loop_limit is not None and spec.part * _iterations(problem) > profile.loop_limit:
        return (
            f"part {spec.part} may take more than {profile.loop_limit} loop iterations, after which this driver ends "
            "loops; smaller partitions are accepted"
        )
    need = _private_bytes(problem, spec.part)
    if need > profile.most_private_bytes:
        return f"the spec needs {need} bytes of private memory; at most {profile.most_private_bytes} are accepted"
    return None


# --- counts --------------------------------------------------------------------------------------------------


def counts(profile: Profile, problem: SelectProblem, spec: SelectSpec) -> Counts:
    """Phases of one selection of half of the elements: with two passes, the first one only counts."""
    n, units = 1 << problem.log_n, profile.compute_units
    item = problem.item
    part = partition_size(spec, n, units)
    parts = max(1, -(-n // part))
    simt = spec.mapping == "simt"
    cpu = profile.kind == "cpu"
    near = cpu and 2.0 * n * item < 0.75 * profile.l2_bytes * units
    size = float(n * item)
    stored = 0.5 * n * problem.stored * (2 if problem.rest else 1)
    looks = 0.0 if spec.strategy == "reduce_then_scan" or parts == 1 else parts * 0.05
    if simt and looks:
        looks = lookback.chain_signals(spec, parts)
    elif spec.strategy == "lookback":
        looks /= units
    phases = []
    if spec.strategy == "reduce_then_scan" and parts > 1:
        phases.append(
            Phase("count", groups=parts, lanes=spec.lanes if simt else 1, operations=float(n),
                  efficiency=efficiency(profile, problem.dtype, 1.0, 0.25), read=0.0 if near else size,
                  cached=size if near else 0.0, balance=spread(parts, units))
        )  # fmt: skip
        phases.append(
            Phase("prefixes", groups=-(-parts // part), lanes=spec.lanes if simt else 1, operations=float(parts),
                  efficiency=efficiency(profile, "int64", 1.0, 1.0), read=8.0 * parts, written=8.0 * parts,
                  balance=spread(-(-parts // part), units))
        )  # fmt: skip
    cycles = 2.0 + (3.0 if problem.sums else 0.0)
    written = 0.0 if near else stored * (_STREAMED if spec.nontemporal else 1.0)
    phases.append(
        Phase("select", groups=parts, lanes=spec.lanes if simt else 1, operations=float(n),
              efficiency=0.1 if simt else efficiency(profile, problem.dtype, 1.0, cycles),
              read=0.0 if near else size, written=written, cached=size + stored if simt or near else stored,
              balance=spread(parts, units), signals=looks, barriers=5.0 if simt else 0.0,
              local_bytes=_local_bytes(problem, spec) if simt else 0, registers=32)
    )  # fmt: skip
    return Counts(problem.dtype, tuple(phases))


FAMILY = Family("select", SelectSpec, default, space, check, counts)
