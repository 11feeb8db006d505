"""Structure parameters of a device and analysis parameters of a program (SPEC S5, the first two of five modules).

Times are in seconds; sizes of memory in bytes; the other figures count things.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydp.errors import InvalidArgument


@dataclass(frozen=True)
class Structure:
    """What the device is.

    warp_size: work-items that run together. sms: multiprocessors (compute units; cores of a CPU).
    registers_per_sm: 32-bit registers. local_per_sm: bytes of local memory. max_warps_per_sm: warps that an SM
    holds. max_active_blocks_per_sm: groups that it holds. min_block, max_block: work-items of a group, least and most.
    mem_cycle, comp_cycle: seconds that one memory / compute instruction of a warp takes. t_allo: seconds to hand one
    group to an SM.
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
            raise InvalidArgument(f"{self} has a count below 1 or no group size at all")
        if min(self.mem_cycle, self.comp_cycle, self.t_allo) < 0:
            raise InvalidArgument(f"{self} has a negative time")


@dataclass(frozen=True)
class Analysis:
    """What the program is.

    registers_per_thread: 32-bit registers. local_per_thread: bytes of local memory, the group's divided by its
    work-items. threads: work-items in all. mem_insts, comp_insts: memory and compute instructions of one of them.
    """

    registers_per_thread: float
    local_per_thread: float
    threads: int
    mem_insts: float
    comp_insts: float

    def __post_init__(self) -> None:
        counts = (self.mem_insts, self.comp_insts, self.registers_per_thread, self.local_per_thread)
        if self.threads < 1 or min(counts) < 0:
            raise InvalidArgument(f"{self} has no work-items, or a negative count")


def wmpd_registers(device: Structure, program: Analysis) -> float:
    """WMPD_Reg: warps for which an SM has registers; infinite for a program without any."""
    used = program.registers_per_thread * device.warp_size
    return device.registers_per_sm / used if used else math.inf


def wmpd_local(device: Structure, program: Analysis) -> float:
    """WMPD_Smem: warps for which an SM has local memory; infinite for a program without any."""
    used = program.local_per_thread * device.warp_size
    return device.local_per_sm / used if used else math.inf


def wmpd_resources(device: Structure, program: Analysis) -> float:
    """(3)  WMPD_M = min(WMPD_Max, WMPD_Reg, WMPD_Smem): warps that an SM's resources admit."""
    return min(device.max_warps_per_sm, wmpd_registers(device, program), wmpd_local(device, program))


def memory_time(device: Structure, program: Analysis) -> float:
    """(8)  T_M = Mem_Cycle * Mem_insts: seconds that a warp's memory instructions take one after the other."""
    return device.mem_cycle * program.mem_insts


def compute_time(device: Structure, program: Analysis) -> float:
    """(9)  T_C = Comp_Cycle * Comp_insts: seconds that a warp's compute instructions take."""
    return device.comp_cycle * program.comp_insts


def wcpd(device: Structure, program: Analysis) -> float:
    """WCPD = (T_M + T_C) / T_C: warps whose computing fits beside one warp's whole time."""
    compute = compute_time(device, program)
    return (memory_time(device, program) + compute) / compute if compute else math.inf


def warps_per_sm(device: Structure, program: Analysis) -> float:
    """(11)  N = dGrid * dBlock / (warpSize * N_SMs): warps of the whole launch for one SM. dGrid * dBlock is
    N_Threads, so N does not depend on how the threads are grouped."""
    return program.threads / (device.warp_size * device.sms)
