"""The allowed group sizes, and the closed form of the best one (SPEC S5, the last two of five modules).

Constraints: minimum <= dBlock <= maximum; dBlock a multiple of warpSize; dGrid >= N_SMs (if there is
enough work). The Karush-Kuhn-Tucker conditions of the time model under them have three cases:

    N < WMPD   T only grows with dGrid: a bound of the constraints                                           (20)
    N > WMPD   the interior minimum, or the lower bound, or the upper bound                              (23 a, b, c)
    N = WMPD   up to the turning point dGrid = N_SMs * N_Max_Active_Blocks_per_SM, as for N < WMPD           (24)

T is continuous except for steps where a case begins, and convex or monotonic between them. The best allowed size is
therefore next to one of a few points: the bounds, the points where the case changes, the interior minimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydp.errors import InvalidArgument
from pydp.model.structure import Analysis, Structure, compute_time, memory_time, warps_per_sm, wmpd_resources
from pydp.model.time_model import Prediction, is_memory_bound, predict, wmpd


@dataclass(frozen=True)
class Solution:
    """The best group size: its prediction, the number of its case of the conditions, and the reason."""

    best: Prediction
    case: str
    reason: str


def block_range(device: Structure, program: Analysis) -> tuple[int, int]:
    """The least and most warps per group. dGrid >= N_SMs holds if the smallest group can satisfy it."""
    least = math.ceil(device.min_block / device.warp_size)
    most = device.max_block // device.warp_size
    if most < least:
        raise InvalidArgument(
            f"no multiple of {device.warp_size} is between {device.min_block} and {device.max_block} work-items"
        )
    available = program.threads // (device.sms * device.warp_size)
    fitting = int(min(most, wmpd_resources(device, program)))
    return least, max(least, min(most, fitting, available))


def closed_form(device: Structure, program: Analysis) -> Solution:
    """The best group size by the conditions: only sizes next to possible optima are evaluated."""
    least, most = block_range(device, program)
    warps = {
        n
        for point in _points(device, program)
        for n in (math.floor(point) - 1, math.floor(point), math.ceil(point), math.ceil(point) + 1)
    }
    candidates = sorted({least, most} | {n for n in warps if least < n < most})
    best = _best(device, program, candidates)
    case, reason = _case(device, program, best, least, most)
    return Solution(best, case, reason)


def turning_point(device: Structure) -> int:
    """dGrid = N_SMs * N_Max_Active_Blocks_per_SM: with more groups, some are not resident at first."""
    return device.sms * device.max_active_blocks_per_sm


def interior_minimum(device: Structure, program: Analysis) -> float:
    """The dGrid with the least T(g) = g * T_allo + T_M * N * g / P + (T_C / Mem_insts) * (P / g - 1); else infinite."""
    memory, compute = memory_time(device, program), compute_time(device, program)
    parallel = device.max_active_blocks_per_sm * program.threads / device.warp_size
    slope = device.t_allo + memory * warps_per_sm(device, program) / parallel
    if not slope or not program.mem_insts:
        return math.inf
    return math.sqrt(compute / program.mem_insts * parallel / slope)


def _points(device: Structure, program: Analysis) -> Iterator[float]:
    """Warps per group where the case changes, or where a convex piece has its minimum."""
    per_warp = program.threads / device.warp_size
    yield per_warp / turning_point(device)
    # P / g = WMPD_M, and P / g = N (which is the turning point again)
    yield wmpd_resources(device, program) / device.max_active_blocks_per_sm
    grid = interior_minimum(device, program)
    if 0 < grid < math.inf:
        yield per_warp / grid


def _best(device: Structure, program: Analysis, warps: list[int]) -> Prediction:
    found = [predict(device, program, n * device.warp_size) for n in warps]
    least = min(item.seconds for item in found)
    return max((item for item in found if item.seconds <= least * (1 + 1e-12)), key=lambda item: item.block)


def _case(device: Structure, program: Analysis, best: Prediction, least: int, most: int) -> tuple[str, str]:
    """The case of the conditions for the optimum, and its meaning."""
    count = best.block // device.warp_size
    warps, parallel = best.warps, wmpd(device, program, best.grid)
    if is_memory_bound(device, program, best.grid):
        if count == most:
            return "23b", "memory bound: the largest groups that are allowed are best"
        if count == least:
            return "23c", "memory bound: the smallest groups that are allowed are best"
        return "23a", "memory bound: more groups lower the memory parallelism, fewer groups compute longer at the end"
    if math.isclose(warps, parallel, rel_tol=1e-9):
        return "24", "all groups run at the same time, so more groups only add the time to start them"
    return "20", "computation hides the memory accesses, so more groups only add the time to start them"
