"""Analysis parameters of one candidate, counted without running it (SPEC S5, the second of five modules).

A family's ``counts(profile, problem, spec)`` returns :class:`Counts`: the phases of a call, one after the other. All
figures follow from the template's arithmetic. Operations are scalar (a fused multiply-add counts two), sizes are bytes,
and a *unit* is a core of a CPU or a multiprocessor of a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pydp.errors import InvalidArgument
from pydp.runtime.device.profile import Profile


class Phase(NamedTuple):
    """One part of the work that does not overlap with other parts. Totals are over all groups.

    It is a tuple for speed: a first choice makes about a hundred. `Counts` checks the values.

    name: one or two words.
    groups, lanes: work-groups, and work-items per group.
    operations: arithmetic operations, including wasted ones (masked edges).
    efficiency: the largest reachable share of a unit's peak rate, in (0, 1]: it counts unfilled vectors, long chains of
    dependent instructions and missing registers.
    read, written: bytes from and to memory beyond a unit's own caches, including repeated reads.
    cached: bytes between a unit's second-level cache and its registers (on GPUs: local memory).
    balance: the busiest unit's share of the work divided by a fair share, at least 1.
    launches: kernel launches that begin here (0: the phase is part of the previous launch).
    barriers: group barriers per group.
    signals: messages between groups that wait for one another (look-back, chains).
    local_bytes: local memory per group. registers: 32-bit registers per work-item.
    access: bytes of one memory access of a work-item.
    """

    name: str
    groups: int = 1
    lanes: int = 1
    operations: float = 0.0
    efficiency: float = 1.0
    read: float = 0.0
    written: float = 0.0
    cached: float = 0.0
    balance: float = 1.0
    launches: int = 1
    barriers: float = 0.0
    signals: float = 0.0
    local_bytes: int = 0
    registers: int = 16
    access: int = 16

    @property
    def work_items(self) -> int:
        """Total number of work-items."""
        return self.groups * self.lanes

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return self.read + self.written


@dataclass(frozen=True)
class Counts:
    """The phases of a call; `dtype` is the type of the computation ("float32").

    >>> Counts("float32", (Phase("copy", groups=8, read=4096.0, written=4096.0),)).main.bytes
    8192.0
    """

    dtype: str
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases:
            raise InvalidArgument("phases is empty; at least one phase is needed")
        for phase in self.phases:
            _, groups, lanes, operations, share, read, written, cached, balance, launches, barriers, signals, *_ = phase
            if min(operations, read, written, cached, launches, barriers, signals) < 0 or groups < 1 or lanes < 1:
                raise InvalidArgument(
                    f"{phase} is invalid: groups and lanes must be at least 1, and amounts at least 0"
                )
            if not 0 < share <= 1 or balance < 1:
                raise InvalidArgument(f"{phase} is invalid: efficiency must be in (0, 1], and balance at least 1")

    @property
    def main(self) -> Phase:
        """The phase with the most operations; among equal ones, the one with the most bytes."""
        return max(self.phases, key=lambda phase: (phase.operations, phase.bytes))

    @property
    def registers(self) -> int:
        """The most 32-bit registers of a work-item, over all phases."""
        return max(phase.registers for phase in self.phases)


def spread(pieces: int, units: int) -> float:
    """The busiest unit's share divided by a fair share, for `pieces` equal pieces of work on `units`.

    >>> spread(5, 2)
    1.2
    """
    if pieces < 1 or units < 1:
        raise InvalidArgument(f"{pieces} pieces for {units} units; at least one of each is needed")
    return -(-pieces // units) * units / pieces


def operations_per_cycle(profile: Profile, dtype: str) -> float:
    """Operations per cycle of a core that starts two vector multiply-adds per cycle.

    It equals `Rates.operations` divided by the clock. Integers have no fused multiply-add.

    >>> from pydp.model.architectures import by_target
    >>> operations_per_cycle(by_target("avx512")[0], "float32")
    64.0
    """
    full = float(profile.simd_bytes)  # two float32 multiply-adds of simd_bytes / 4 lanes each, two operations a lane
    if "float64" in dtype or "complex128" in dtype:
        return full / 2
    if "float" in dtype or "complex" in dtype:
        return full
    return full / 4 if "64" in dtype else full / 2


def efficiency(profile: Profile, dtype: str, operations: float, cycles: float) -> float:
    """The share of a core's peak rate if `operations` take `cycles`."""
    return max(1e-6, min(1.0, operations / (max(cycles, 1e-9) * operations_per_cycle(profile, dtype))))
