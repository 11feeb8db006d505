"""The policy of blocked transposes: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pydp.groups.barrier_plan import build_kernel
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, field_error, one_of, power_of_two, variants
from pydp.runtime.arrays.copy_transposed import TransposeTiling, placement, usual
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs.program import Kernel

_STREAMED = 0.6  # cost of a nontemporal store relative to a normal store, which first reads the cache line


@dataclass(frozen=True)
class TransposeProblem(Problem):
    """A blocked transpose as far as its specialization depends on it.

    dtype: "V4" if words of 4 bytes are moved. along: elements along the source's contiguous axis. across: along the
    target's.
    """

    family: ClassVar[str] = "transpose"
    along: int
    across: int

    @property
    def item_bytes(self) -> int:
        """Bytes of a word."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class TransposeSpec(TransposeTiling):
    """One specialization of transpose. mapping, block, rows, chunk, streams: see
    :class:`pydp.runtime.arrays.copy_transposed.TransposeTiling`. barriers, subgroup: synchronization of the lanes (see
    :mod:`pydp.groups.barrier`; simt only)."""

    barriers: str = "group"
    subgroup: int | None = None

    def build(self, device: Any, params: dict[str, object]) -> Kernel:
        """Build the kernel with the barriers that `barriers` and `subgroup` select."""
        if self.mapping == "vector":
            return super().build(device, params)
        lanes = self.block * self.rows
        return build_kernel(device, "copy_transposed.mako", "copy_transposed", params, {"exchange": lanes},
                     lanes=lanes, choice=self.barriers, subgroup=self.subgroup, row=self.block)  # fmt: skip


def counts(profile: Profile, problem: TransposeProblem, spec: TransposeSpec) -> Counts:
    """The phase that moves all blocks."""
    along, across = max(1, problem.along), max(1, problem.across)
    item = problem.item_bytes
    size = float(along * across * item)
    blocks = -(-along // spec.block) * -(-across // spec.block)
    dtype = f"uint{8 * min(item, 8)}"
    if spec.mapping == "simt":
        return Counts(dtype, (_lanes(profile, spec, blocks, size, item),))
    groups = max(1, -(-along // spec.block // spec.chunk)) * -(-across // spec.block)
    line = max(1.0, profile.cache_line / (spec.block * item))  # fetches of a cache line, if a block covers only a part
    near = 2 * size < 0.75 * profile.l2_bytes * profile.compute_units
    vectors = spec.block * item == profile.cache_line and spec.block in (8, 16)
    streams = spec.streams and vectors and size > profile.l2_bytes
    # In registers, a vector takes log2(block) two-operand shuffles. Otherwise every element is loaded and stored.
    cycles = 2.0 * spec.block.bit_length() / spec.block if vectors else 2.0
    cycles += 40.0 / (spec.block * spec.block)
    phase = Phase(
        "blocks", groups=groups, operations=float(along * across),
        efficiency=efficiency(profile, dtype, 1.0, cycles), read=0.0 if near else size * line,
        written=0.0 if near else size * (_STREAMED if streams else 1.0) * line, cached=2 * size * line,
        balance=spread(groups, profile.compute_units),
    )  # fmt: skip
    return Counts(dtype, (phase,))


def _lanes(profile: Profile, spec: TransposeSpec, blocks: int, size: float, item: int) -> Phase:
    lanes = spec.block * spec.rows
    steps = spec.block // spec.rows
    line = max(1.0, 32.0 / (spec.block * item))
    return Phase(
        "blocks", groups=blocks, lanes=lanes, operations=blocks * lanes * (12.0 * steps + 20.0), efficiency=0.5,
        read=size * line, written=size * line, cached=2 * size, balance=spread(blocks, profile.compute_units),
        barriers=1, local_bytes=spec.block * (spec.block + 1) * item, registers=20 + steps * max(1, item // 4),
        access=item,
    )  # fmt: skip


def _default(profile: Profile, problem: TransposeProblem) -> TransposeSpec:
    return TransposeSpec(**vars(usual(profile, problem.item_bytes, problem.along)))


def _space(profile: Profile, problem: TransposeProblem) -> list[TransposeSpec]:
    base = _default(profile, problem)
    if base.mapping == "vector":
        found = variants(base, block=(4, 8, 16, 32), chunk=(1, 8, 64), streams=(True, False))
    else:
        found = variants(base, block=(16, 32, 64), rows=(1, 2, 4, 8, 16))
    return list(dict.fromkeys([base, *found]))


_ACCEPTED = {
    "block": power_of_two(64),
    "rows": power_of_two(64),
    "chunk": power_of_two(1024),
    "streams": one_of(True, False),
}


def _check(profile: Profile, problem: TransposeProblem, spec: TransposeSpec) -> str | None:
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if spec.block < 2 or spec.block % spec.rows:
        return f"block is {spec.block} and rows {spec.rows}; a block of at least 2 and rows that divide it are accepted"
    if spec.mapping == "vector":
        limit = profile.loop_limit
        if limit is not None and 2 * spec.chunk * spec.block**2 > limit:
            return f"chunk {spec.chunk} with block {spec.block} exceeds the {limit} loop iterations of this driver"
        return None
    if spec.block * spec.rows > profile.max_group_size:
        return f"block * rows is {spec.block * spec.rows}; at most {profile.max_group_size} is accepted"
    needed = _local_bytes(profile, spec, problem.item_bytes)
    if needed > profile.local_bytes:
        return f"a block needs {needed} bytes of local memory; the device has {profile.local_bytes}"
    return None


def _local_bytes(profile: Profile, spec: TransposeSpec, item_bytes: int) -> int:
    """Bytes of local memory of a work-group, or a bound if it already decides whether the block fits.

    The exact placement takes long to compute. The lower bound is the block without padding. The upper bound is rows of
    twice the elements, with each lane's row rounded up to whole bank entries."""
    least = spec.block**2 * item_bytes
    most = 2 * (least + spec.block * spec.rows * max(profile.bank_bytes, item_bytes))
    if least > profile.local_bytes:
        return least
    return most if most <= profile.local_bytes else placement(profile, spec, item_bytes).size * item_bytes


FAMILY = Family("transpose", TransposeSpec, _default, _space, _check, counts)
