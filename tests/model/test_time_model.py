"""Formulas (4), (10) and (12) to (14) on hand-worked examples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pydp.model import structure, time_model
from pydp.model.structure import Analysis, Structure

pytestmark = pytest.mark.host

# Ten multiprocessors of 64 warps and 8 groups; a memory instruction takes 400, a compute one 4 time units.
DEVICE = Structure(32, 10, 65536, 49152, 64, 8, 32, 1024, 400.0, 4.0, 2.0)
# 25,600 work-items (80 warps for each multiprocessor), 32 registers and 16 bytes of local memory each.
PROGRAM = Analysis(32, 16, 25_600, 10, 100)


def test_groups_that_are_active() -> None:
    assert time_model.active_blocks(DEVICE, 50) == 5  # (4)
    assert time_model.active_blocks(DEVICE, 800) == 8
    assert time_model.wmpd(DEVICE, PROGRAM, 800) == 8 * 32 / 32 == 8
    assert time_model.wmpd(DEVICE, PROGRAM, 100) == min(64, 8 * 256 / 32) == 64
    assert time_model.init_time(DEVICE, 100) == 200  # (10)


def test_time_of_a_launch() -> None:
    # 800 groups of 32: WMPD 8, N 80: ten rounds of 4000, then 7 tails of 400 / 10.                          (12)
    assert time_model.gpu_time(DEVICE, PROGRAM, 800) == 4000 * 80 / 8 + 40 * 7 == 40_280
    assert time_model.total_time(DEVICE, PROGRAM, 800) == 40_280 + 1600  # (14)
    heavy = replace(PROGRAM, comp_insts=2000)  # T_C = 8000 >= T_M
    assert time_model.gpu_time(DEVICE, heavy, 800) == 80 * 8000 + 4000  # (13)
    few = replace(PROGRAM, threads=3200)  # N = 10 <= WMPD at 10 groups of 320
    assert time_model.gpu_time(DEVICE, few, 10) == 10 * 400 + 4000  # (13)


def test_resources_for_less_than_a_warp_leave_no_tail() -> None:
    large = replace(PROGRAM, local_per_thread=3072, mem_insts=0.01, comp_insts=0.1)  # WMPD 0.5: rounds of half a warp
    assert structure.wmpd_resources(DEVICE, large) == 0.5
    assert time_model.gpu_time(DEVICE, large, 100) == pytest.approx(4 * 80 / 0.5)  # T_M = 4 > T_C = 0.4, N = 80


def test_predictions() -> None:
    # 100 groups of 256: 8 groups of 8 warps fit, so WMPD is 64, and 80 warps need 5000 and 63 tails of 40.       (12)
    found = time_model.predict(DEVICE, PROGRAM, 256)
    assert (found.grid, found.block, found.seconds) == (100, 256, 5000 + 63 * 40 + 100 * 2)
    assert (found.warps, found.limiter) == (80, "memory")
    # Twice as large groups: 5 groups of 16 warps, again limited to 64 warps; half as many groups start.
    assert time_model.predict(DEVICE, PROGRAM, 512).seconds == 5000 + 63 * 40 + 50 * 2


def test_limiters_of_launches() -> None:
    heavy = replace(PROGRAM, comp_insts=2000)  # T_C = 8000 >= T_M
    assert time_model.predict(DEVICE, heavy, 256).limiter == "compute"
    assert time_model.predict(DEVICE, replace(PROGRAM, comp_insts=1000), 256).limiter == "compute"  # T_C = T_M
    few = replace(PROGRAM, threads=3200)  # ten warps for each multiprocessor, all resident: (13), with T_C < T_M
    found = time_model.predict(DEVICE, few, 320)
    assert (found.seconds, found.limiter) == (10 * 400 + 4000 + 10 * 2, "latency")
    # Starting ten groups takes 8000 of 16,000: not yet more than half. One unit more for each group is.
    assert time_model.predict(replace(DEVICE, t_allo=800.0), few, 320).limiter == "latency"
    assert time_model.predict(replace(DEVICE, t_allo=801.0), few, 320).limiter == "launch"


def test_memory_bound_launches() -> None:
    assert time_model.is_memory_bound(DEVICE, PROGRAM, 100)
    assert not time_model.is_memory_bound(DEVICE, replace(PROGRAM, comp_insts=1000), 100)  # T_C = T_M
    assert not time_model.is_memory_bound(DEVICE, replace(PROGRAM, threads=20_480), 80)  # N = 64 = WMPD
    # 64.1 warps for each multiprocessor, in 81 groups: WMPD is 64, by the registers.
    assert time_model.is_memory_bound(DEVICE, replace(PROGRAM, threads=20_512), 81)
