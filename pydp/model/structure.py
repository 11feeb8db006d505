"""Structure parameters of a device and analysis parameters of a program (SPEC S5, the first two of five modules).

Times are in seconds; sizes of memory in bytes; the other figures count things.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydp.errors import InvalidArgument


@dataclass(frozen=True)
class Structure:
    """Structure parameters of a device.

    warp_size: work-items that run together. sms: multiprocessors (compute units; cores of a CPU).
    registers_per_sm: 32-bit registers. local_per_sm: bytes of local memory. max_warps_per_sm: most resident
    warps per SM. max_active_blocks_per_sm: most resident groups per SM. min_block, max_block: least and most work-items
    per group. mem_cycle, comp_cycle: seconds of one memory / compute instruction of a warp. t_allo: seconds to start
    one group on an SM.
    """

    warp_size: int
    sms: int
    registers_per_sm: int
    local_per_sm: int
    max_warps_per_sm: int
    max_active_blocks_per_sm: int
    min_block: int
    max_block: int
    mem_cycle: float
    comp_cycle: float
    t_allo: float

    def __post_init__(self) -> None:
        counts = (self.warp_size, self.sms, self.max_warps_per_sm, self.max_active_blocks_per_sm, self.min_block)
        if min(*counts, self.registers_per_sm, self.local_per_sm) < 1 or self.max_block < self.min_block:
            raise InvalidArgument(f"{self} is invalid: counts must be at least 1, and max_block at least min_block")
        if min(self.mem_cycle, self.comp_cycle, self.t_allo) < 0:
            raise InvalidArgument(f"{self} is invalid: times must be at least 0")


@dataclass(frozen=True)
class Analysis:
    """Analysis parameters of a program.

    registers_per_thread: 32-bit registers. local_per_thread: bytes of local memory of a group, divided
    by its work-items. threads: total work-items. mem_insts, comp_insts: memory and compute instructions per work-item.
    """

    registers_per_thread: float
    local_per_thread: float
    threads: int
    mem_insts: float
    comp_insts: float

    def __post_init__(self) -> None:
        counts = (self.mem_insts, self.comp_insts, self.registers_per_thread, self.local_per_thread)
        if self.threads < 1 or min(counts) < 0:
            raise InvalidArgument(f"{self} is invalid: threads must be at least 1, and the other counts at least 0")


def wmpd_registers(device: Structure, program: Analysis) -> float:
    """WMPD_Reg: most resident warps by registers; infinite if the program uses none."""
    used = program.registers_per_thread * device.warp_size
    return device.registers_per_sm / used if used else math.inf


def wmpd_local(device: Structure, program: Analysis) -> float:
    """WMPD_Smem: most resident warps by local memory; infinite if the program uses none."""
    used = program.local_per_thread * device.warp_size
    return device.local_per_sm / used if used else math.inf


def wmpd_resources(device: Structure, program: Analysis) -> float:
    """(3)  WMPD_M = min(WMPD_Max, WMPD_Reg, WMPD_Smem): most resident warps by an SM's resources."""
    return min(device.max_warps_per_sm, wmpd_registers(device, program), wmpd_local(device, program))


def memory_time(device: Structure, program: Analysis) -> float:
    """(8)  T_M = Mem_Cycle * Mem_insts: seconds of a warp's memory instructions, one after the other."""
    return device.mem_cycle * program.mem_insts


def compute_time(device: Structure, program: Analysis) -> float:
    """(9)  T_C = Comp_Cycle * Comp_insts: seconds of a warp's compute instructions."""
    return device.comp_cycle * program.comp_insts


def wcpd(device: Structure, program: Analysis) -> float:
    """WCPD = (T_M + T_C) / T_C: warps that can compute during the whole time of one warp."""
    compute = compute_time(device, program)
    return (memory_time(device, program) + compute) / compute if compute else math.inf


def warps_per_sm(device: Structure, program: Analysis) -> float:
    """(11)  N = dGrid * dBlock / (warpSize * N_SMs): warps of the whole launch per SM.

    dGrid * dBlock is N_Threads, so N does not depend on the group size.
    """
    return program.threads / (device.warp_size * device.sms)
