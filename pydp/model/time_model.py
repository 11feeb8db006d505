"""The time of a launch as a function of its number of groups (SPEC S5, the third of five modules).

The source's formula (12) is lost. It belongs to the Hong-Kim family (ISCA 2009), whose memory-bound case is used here:

    T_GPU = T_M * N / WMPD + (T_C / Mem_insts) * (WMPD - 1)                                              (12)

The first term is N / WMPD rounds, each as long as one warp's memory time. The second term is the compute tail of the
warps in the last round: for each warp except the first, the part of T_C for one memory instruction. The expression is
the same for WCPD above and below WMPD. (If an SM has resources for less than one warp, no other warp shares the round.)

For the number of groups g = dGrid with given N_Threads (dBlock = N_Threads / g, N constant) this means:

* Below the turning point g0 = N_SMs * N_Max_Active_Blocks_per_SM, every group is resident: WMPD = min(WMPD_M, N), which
  does not depend on g, and T grows by T_allo for each group;
* Above it, WMPD = min(WMPD_M, P / g) with P = N_Max_Active_Blocks_per_SM * N_Threads / warpSize. If P / g is the
  smaller one,  T(g) = g * T_allo + T_M * N * g / P + (T_C / Mem_insts) * (P / g - 1):  the first two terms grow with g,
  the last falls as 1 / g. T is convex ("a parabola opening upward") with its minimum at
  g* = sqrt((T_C / Mem_insts) * P / (T_allo + T_M * N / P)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydp.model.structure import Analysis, Structure, compute_time, memory_time, warps_per_sm, wmpd_resources


def active_blocks(device: Structure, grid: float) -> float:
    """(4)  N_Active_Blocks_per_SM = min(N_Max_Active_Blocks_per_SM, dGrid / N_SMs)."""
    return min(device.max_active_blocks_per_sm, grid / device.sms)


def wmpd(device: Structure, program: Analysis, grid: float) -> float:
    """WMPD = min(WMPD_M, N_Active_Blocks_per_SM * dBlock / warpSize): warps that wait for memory at once."""
    block = program.threads / grid
    return min(wmpd_resources(device, program), active_blocks(device, grid) * block / device.warp_size)


def init_time(device: Structure, grid: float) -> float:
    """(10)  T_init = dGrid * T_allo."""
    return grid * device.t_allo


def is_memory_bound(device: Structure, program: Analysis, grid: float) -> bool:
    """Whether (12) holds: T_C < T_M and N > WMPD."""
    memory, compute = memory_time(device, program), compute_time(device, program)
    return compute < memory and not _at_most(warps_per_sm(device, program), wmpd(device, program, grid))


def gpu_time(device: Structure, program: Analysis, grid: float) -> float:
    """(12) if the launch is memory bound, else (13)  T_GPU = N * T_C + T_M."""
    memory, compute = memory_time(device, program), compute_time(device, program)
    warps = warps_per_sm(device, program)
    if not is_memory_bound(device, program, grid):
        return warps * compute + memory
    parallel = wmpd(device, program, grid)
    return memory * warps / parallel + compute / program.mem_insts * max(0.0, parallel - 1)


def total_time(device: Structure, program: Analysis, grid: float) -> float:
    """(14)  T = T_init + T_GPU, in seconds, for `grid` groups."""
    return init_time(device, grid) + gpu_time(device, program, grid)


@dataclass(frozen=True)
class Prediction:
    """The model's prediction for one launch: groups, work-items per group, seconds, warps, and the limiter."""

    grid: float
    block: int
    seconds: float
    warps: float
    limiter: str


def predict(device: Structure, program: Analysis, block: int) -> Prediction:
    """The prediction for groups of `block` work-items."""
    grid = program.threads / block
    seconds = total_time(device, program, grid)
    if init_time(device, grid) > seconds / 2:
        limiter = "launch"
    elif is_memory_bound(device, program, grid):
        limiter = "memory"
    else:
        limiter = "compute" if compute_time(device, program) >= memory_time(device, program) else "latency"
    return Prediction(grid, block, seconds, warps_per_sm(device, program), limiter)


def _at_most(left: float, right: float) -> bool:
    """left <= right, with a tolerance for rounding."""
    return left <= right or math.isclose(left, right, rel_tol=1e-12)
