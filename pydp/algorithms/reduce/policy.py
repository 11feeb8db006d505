"""The policy of the reductions: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem. The model assumes contiguous rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, altered, between, field_error, one_of, power_of_two, variants
from pydp.runtime.device.profile import Profile

_LEAST_OF_A_LANE = 64  # minimum elements of a column per lane: shorter parts cost more than they gain


@dataclass(frozen=True)
class ReduceSpec:
    """One specialization of reduce.

    mapping: "vector" (CPUs) or "simt" (GPUs).
    width, unroll: elements of a vector (0: fold in order) and accumulators of a chunk, in the rows kernel on CPUs.
    lanes, items: work-items of a work-group, and adjacent elements of each, in the rows kernel on GPUs.
    waves: virtual wavefronts that share the lanes' registers (commutative operators).
    buffers: 1 or 2 local buffers (other operators); with 2, wavefronts alternate and need one barrier less each.
    columns, rows, height: columns of a work-item in the columns kernel; on CPUs also: rows that it combines at a time,
    and maximum elements of a part of a column.
    part, longest: minimum and maximum elements of a part of a row. busy: rows are cut until there are this many
    work-items.
    joined: up to this many parts of all rows together are folded by the last work-item to end, in the rows kernel on
    CPUs; more are folded by another launch. Reductions with hooks always need that launch: 0.
    barriers, subgroup: synchronization of the lanes in the rows kernel on GPUs (see :mod:`pydp.groups.barrier`). The
    default is the whole work-group: narrower barriers were not faster in measurements.
    """

    mapping: str
    width: int
    unroll: int
    lanes: int
    items: int
    columns: int
    part: int
    longest: int
    busy: int
    rows: int
    height: int
    barriers: str = "group"
    subgroup: int | None = None
    waves: int = 1
    buffers: int = 2
    joined: int = 0


@dataclass(frozen=True)
class ReduceProblem(Problem):
    """A reduction as far as its specialization depends on it.

    dtype: the dtype of the results. n: elements of a fold. folds: number of folds. record_bytes: bytes of a record;
    None for a scalar dtype. commutes: the operator is commutative. columns: the columns kernel is used. hooks: the kind
    of hooks (:mod:`pydp.algorithms.reduce.hooks`), if there are any; then dtype is that of the elements, and
    record_bytes are the bytes of an accumulator.
    """

    family: ClassVar[str] = "reduce"
    n: int
    folds: int
    record_bytes: int | None
    commutes: bool = False
    columns: bool = False
    hooks: str | None = None

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        if self.record_bytes is None or self.hooks is not None:
            return np.dtype(self.dtype).itemsize
        return self.record_bytes

    @property
    def result_bytes(self) -> int:
        """Bytes of an accumulator."""
        return self.item_bytes if self.record_bytes is None else self.record_bytes


def local_bytes(problem: ReduceProblem, spec: ReduceSpec) -> int:
    """Local memory of a work-group in bytes: one result per lane, times `buffers` if the operator does not commute."""
    return spec.lanes * problem.result_bytes * (1 if problem.commutes else spec.buffers)


_IN_FLIGHT = 3  # loads of a lane that wait for memory together, as measured on an H200
_PRIVATE = (
    1 << 18
)  # bytes of accumulators that a work-item keeps in private memory; drivers have stacks of 2 MB or more
_EARLY = 256  # bytes of registers for values loaded early: with more, fewer lanes run at once


def loads_early(spec: ReduceSpec, *inputs: np.dtype | None) -> bool:
    """Whether a lane loads all its elements of a tile before it folds the first (simt): they fit in registers.

    inputs: the dtypes of the elements; None for accumulators, which stay in memory, as records do.
    """
    scalars = [one.itemsize for one in inputs if one is not None and one.names is None]
    return len(scalars) == len(inputs) and spec.waves * spec.items * sum(scalars) <= _EARLY


def parts_of(spec: ReduceSpec, n: int, rows: int, columns: int) -> int:
    """The parts of each of `rows` folds of `n` elements; `columns` adjacent folds count as one row (0: rows kernel)."""
    items, least, longest = rows * max(1, -(-columns // spec.columns)), spec.part, spec.longest
    if columns and spec.mapping == "vector":
        least, longest = max(2, spec.rows, spec.part // min(columns, spec.columns)), min(longest, spec.height)
    elif columns:  # each lane folds its part of one column alone
        items, least = -(-items // spec.lanes), max(_LEAST_OF_A_LANE, spec.part // spec.lanes)
    return max(1, min(-(-spec.busy // max(items, 1)), n // least), -(-n // longest))


def counts(profile: Profile, problem: ReduceProblem, spec: ReduceSpec) -> Counts:
    """Phases: the parts of every fold, then the fold of the parts' results."""
    n, folds = max(1, problem.n), max(1, problem.folds)
    columns = folds if problem.columns and spec.mapping == "vector" else 0
    parts = parts_of(spec, n, 1 if columns else folds, columns)
    phases = [_pass(profile, problem, spec, n, folds, parts)]
    if parts > 1:
        phases.append(_pass(profile, problem, spec, parts, folds, 1))
    return Counts(problem.dtype, tuple(phases))


def _pass(profile: Profile, problem: ReduceProblem, spec: ReduceSpec, n: int, folds: int, parts: int) -> Phase:
    item = problem.item_bytes
    work = parts * folds
    size = float(n * folds * item)
    near = profile.kind == "cpu" and size < 0.75 * profile.l2_bytes * profile.compute_units
    each = -(-n // parts)
    if spec.mapping == "simt":
        tree = spec.lanes.bit_length() if spec.barriers == "group" else 2  # narrow barriers cost less
        step = spec.lanes * spec.items * (spec.waves if problem.commutes else 1)
        tiles = -(-each // step)
        wasted = tiles * step / each
        # Non-commutative operators need one tree per tile; two buffers save the last barrier of the tree.
        trees, barriers = (1, tree) if problem.commutes else (tiles, tiles * (tree + 1 - spec.buffers))
        return Phase(
            "rows",
            groups=work,
            lanes=spec.lanes,
            operations=n * folds * wasted + 2.0 * work * spec.lanes * trees,
            efficiency=0.5,
            read=size,
            written=float(work * item),
            balance=spread(work, profile.compute_units),
            barriers=barriers,
            local_bytes=local_bytes(problem, spec),
            registers=16 + 2 * spec.items * spec.waves,
            access=item * min(_IN_FLIGHT, spec.items * (spec.waves if problem.commutes else 1)),
        )
    latency = 4.0 if "float" in problem.dtype or "complex" in problem.dtype else 1.0
    pieces = max(1.0, spec.width * item / profile.simd_bytes)
    groups = work if parts > 1 else -(-work // max(1, min(spec.part // n, folds // spec.busy)))
    if problem.columns:
        # An iteration combines `rows` vectors with each other, loads a vector of results and stores it.
        groups = parts * -(-folds // spec.columns)
        cycles, start = pieces * (1 + 2.0 / spec.rows) / max(1, spec.width), 10.0
    elif spec.width and problem.commutes:
        # After 16 vectors of each accumulator, the accumulators are combined; at the end, the last vector's halves are.
        cycles = max(pieces, latency / spec.unroll) * (1 + 1 / 16) / spec.width
        start = 2.0 * spec.unroll + 10.0 * spec.width.bit_length()
    else:
        cycles, start = latency, 10.0
    return Phase(
        "columns" if problem.columns else "rows",
        groups=groups,
        operations=float(n * folds),
        efficiency=efficiency(profile, problem.dtype, 1.0, cycles + start / each),
        read=0.0 if near else size,
        cached=size,
        written=float(work * item),
        balance=spread(groups, profile.compute_units),
    )


def _default(profile: Profile, problem: ReduceProblem) -> ReduceSpec:
    size, lanes = problem.item_bytes, 1 << min(256, profile.max_group_size).bit_length() - 1
    while lanes and 2 * lanes * problem.result_bytes > profile.local_bytes:
        lanes //= 2
    if profile.mapping == "vector" or not lanes:  # lanes is 0 if an element is too large for local memory
        # Up to 8 vectors of the widest OpenCL type (16) hide the operator's latency; they stay in registers. A
        # work-item's columns stay in L1. Parts of columns of floats are short for their accuracy. Below 256 KB, one
        # work-item is faster than a second launch. On drivers that limit loop iterations, a work-item's elements stay
        # well below the limit.
        unlimited = profile.loop_limit is None
        found = ReduceSpec(
            "vector",
            width=16,
            unroll=8 if size <= 4 else 4,
            lanes=1,
            items=1,
            columns=max(16384 // size if unlimited else min(2048 // size, 512), 16),
            part=max(2, (1 << 18) // size) if unlimited else 32,
            longest=2**40 if unlimited else 64,
            busy=8 * profile.compute_units,
            rows=8,
            height=256 if "float" in problem.dtype or "complex" in problem.dtype else 2**40,
            joined=256 if unlimited and problem.record_bytes is None else 0,
        )
        return found if problem.hooks is None else _with_hooks(found, problem)
    longest = 2**30
    if "float" in problem.dtype or "complex" in problem.dtype:  # a lane folds few elements, for the accuracy of sums
        longest = 2**12 if problem.columns else 256 * lanes
    base = ReduceSpec("simt", 0, 1, lanes, 4, 1, 8 * lanes, longest, 8 * profile.compute_units, 1, 2**40)
    # With a commutative operator, adjacent lanes read adjacent elements: one virtual wavefront after the other.
    return replace(base, items=1, waves=8) if problem.commutes else base


def _with_hooks(base: ReduceSpec, problem: ReduceProblem) -> ReduceSpec:
    """With hooks, a run has several registers, and the accumulators of the columns kernel are in private memory."""
    columns = min(base.columns, 2048, max(16, 49152 // problem.result_bytes // 16 * 16))
    return replace(base, unroll=min(base.unroll, 4), columns=columns, height=base.longest)


def _lane_space(base: ReduceSpec, commutes: bool) -> list[ReduceSpec]:
    """Candidates of mapping "simt": virtual wavefronts for commutative operators, else one or two buffers."""
    lanes = (64, 128, 256, 512)
    if commutes:
        found = variants(base, lanes=lanes, items=(1, 2, 4), waves=(1, 4, 8), buffers=(2,))
    else:
        found = variants(base, lanes=lanes, items=(1, 2, 4, 8, 16), waves=(1,), buffers=(1, 2))
    return [altered(one, part=8 * one.lanes) for one in found]


def _space(profile: Profile, problem: ReduceProblem) -> list[ReduceSpec]:
    base = _default(profile, problem)
    if base.mapping == "simt":
        return _lane_space(base, problem.commutes)
    if problem.hooks is not None:
        return variants(base, width=(8, 16), **({"rows": (8, 16)} if problem.columns else {"unroll": (2, 4, 8)}))
    if problem.columns:
        return variants(base, width=(8, 16), rows=(4, 8), columns=(base.columns, 4 * base.columns))
    return variants(base, width=(4, 8, 16), unroll=(1, 2, 4, 8))


_ACCEPTED = {
    "width": one_of(0, 2, 4, 8, 16),
    "unroll": power_of_two(32),
    "lanes": power_of_two(1 << 20),
    "items": between(1, 64),
    "columns": between(1, 1 << 24),
    "part": between(2, 1 << 48),
    "longest": between(2, 1 << 48),
    "busy": between(1, 1 << 24),
    "waves": between(1, 64),
    "buffers": one_of(1, 2),
    "rows": power_of_two(32),
    "height": between(2, 1 << 48),
    "joined": between(0, 1 << 16),
}


def _check(profile: Profile, problem: ReduceProblem, spec: ReduceSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if problem.hooks is not None and spec.joined:
        return f"joined is {spec.joined}; 0 is accepted for reductions of the kind {problem.hooks!r}"
    most = _PRIVATE // problem.result_bytes
    if problem.hooks is not None and spec.mapping == "vector" and spec.columns > most:
        return f"columns is {spec.columns}; at most {most} accumulators of {problem.result_bytes} bytes are accepted"
    if spec.lanes > profile.max_group_size:
        return f"lanes is {spec.lanes}; at most {profile.max_group_size} are accepted"
    needed = local_bytes(problem, spec) if spec.mapping == "simt" else 0
    if needed > profile.local_bytes:
        return f"{spec.lanes} lanes need {needed} bytes of local memory; the device has {profile.local_bytes}"
    return None


FAMILY = Family("reduce", ReduceSpec, _default, _space, _check, counts)
