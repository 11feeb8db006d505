"""The policy of repeat and segmented_reduce: specializations and their limits.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydp.model.family import Family, Problem, between, field_error, variants
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class SegmentSpec:
    """One specialization of repeat, run_length_decode and segmented_reduce.

    mapping: "vector" (one work-item per work-group has a part of the segments and elements: CPUs) or "simt" (repeat: a
    work-item for each element of the result; segmented_reduce: a segmented scan: GPUs).
    part: most segments and elements of a work-item together (vector).
    """

    mapping: str
    part: int = 16384


@dataclass(frozen=True)
class SegmentProblem(Problem):
    """log_n: logarithm of the number of elements of the input, rounded up. reduces: segmented_reduce, not repeat."""

    family: ClassVar[str] = "segments"
    log_n: int
    reduces: bool = False


def part_size(spec: SegmentSpec, n: int, units: int) -> int:
    """Segments and elements of a work-item: as specialized, or fewer to give all cores work."""
    return max(1, min(spec.part, max(512, -(-n // (4 * units)))))


def _default(profile: Profile, problem: SegmentProblem) -> SegmentSpec:
    # A driver that ends long loops cannot run loops over a segment.
    return SegmentSpec("simt" if profile.mapping == "simt" or profile.loop_limit is not None else "vector")


def _space(profile: Profile, problem: SegmentProblem) -> list[SegmentSpec]:
    base = _default(profile, problem)
    return [base] if base.mapping == "simt" else [base, *variants(base, part=(4096, 16384, 65536))]


def _check(profile: Profile, problem: SegmentProblem, spec: SegmentSpec) -> str | None:
    error = field_error(spec, {"part": between(1, 1 << 24)})
    if error:
        return error
    if spec.mapping == "vector" and profile.loop_limit is not None:
        return f"this driver ends loops after {profile.loop_limit} iterations; mapping 'simt' is accepted"
    return None


FAMILY = Family("segments", SegmentSpec, _default, _space, _check)
