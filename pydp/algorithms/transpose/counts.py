"""Counts of a blocked transpose for the cost model. Partial cache lines are moved several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Problem

if TYPE_CHECKING:
    from pydp.runtime.arrays.copy_transposed import TransposeTiling
    from pydp.runtime.device.profile import Profile

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


def counts(profile: Profile, problem: TransposeProblem, spec: TransposeTiling) -> Counts:
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


def _lanes(profile: Profile, spec: TransposeTiling, blocks: int, size: float, item: int) -> Phase:
    lanes = spec.block * spec.rows
    turns = spec.block // spec.rows
    line = max(1.0, 32.0 / (spec.block * item))
    return Phase(
        "blocks", groups=blocks, lanes=lanes, operations=blocks * lanes * (12.0 * turns + 20.0), efficiency=0.5,
        read=size * line, written=size * line, cached=2 * size, balance=spread(blocks, profile.compute_units),
        barriers=1, local_bytes=spec.block * (spec.block + 1) * item, registers=20 + turns * max(1, item // 4),
        access=item,
    )  # fmt: skip
