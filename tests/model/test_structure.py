"""Structure and analysis parameters: formulas (3), (8), (9) and (11) on hand-worked examples."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pydp.errors import InvalidArgument
from pydp.model import structure
from pydp.model.structure import Analysis, Structure

pytestmark = pytest.mark.host

# Ten multiprocessors of 64 warps and 8 groups; a memory instruction takes 400, a compute one 4 time units.
DEVICE = Structure(32, 10, 65536, 49152, 64, 8, 32, 1024, 400.0, 4.0, 2.0)
# 25,600 work-items (80 warps for each multiprocessor), 32 registers and 16 bytes of local memory each.
PROGRAM = Analysis(32, 16, 25_600, 10, 100)


def test_parallelism_that_resources_admit() -> None:
    assert structure.wmpd_registers(DEVICE, PROGRAM) == 65536 / (32 * 32) == 64
    assert structure.wmpd_local(DEVICE, PROGRAM) == 49152 / (16 * 32) == 96
    assert structure.wmpd_resources(DEVICE, PROGRAM) == 64  # (3)
    assert structure.wmpd_resources(DEVICE, replace(PROGRAM, registers_per_thread=64)) == 32
    assert structure.wmpd_resources(DEVICE, replace(PROGRAM, local_per_thread=64)) == 24
    assert structure.wmpd_local(DEVICE, replace(PROGRAM, local_per_thread=0)) == math.inf


def test_times_of_a_warp() -> None:
    assert structure.memory_time(DEVICE, PROGRAM) == 4000  # (8)
    assert structure.compute_time(DEVICE, PROGRAM) == 400  # (9)
    assert structure.wcpd(DEVICE, PROGRAM) == 4400 / 400 == 11
    assert structure.warps_per_sm(DEVICE, PROGRAM) == 25_600 / 320 == 80  # (11)


def test_the_scarcest_resource_limits_the_warps() -> None:
    # 64 registers: 32 warps. 48 bytes: 49152 / (48 * 32) = 32 warps. Few of both: the device's own 64.
    assert structure.wmpd_resources(DEVICE, replace(PROGRAM, registers_per_thread=64, local_per_thread=48)) == 32
    assert structure.wmpd_resources(DEVICE, replace(PROGRAM, registers_per_thread=1, local_per_thread=1)) == 64
    assert structure.wmpd_registers(DEVICE, replace(PROGRAM, registers_per_thread=0)) == math.inf
    assert structure.wmpd_resources(replace(DEVICE, max_warps_per_sm=48), PROGRAM) == 48


def test_without_computation_all_warps_can_compute() -> None:
    assert structure.wcpd(DEVICE, replace(PROGRAM, comp_insts=0)) == math.inf
    assert structure.wcpd(DEVICE, replace(PROGRAM, mem_insts=0)) == 1


def test_wrong_parameters() -> None:
    with pytest.raises(InvalidArgument, match="counts must be at least 1"):
        replace(DEVICE, sms=0)
    with pytest.raises(InvalidArgument, match="counts must be at least 1"):
        replace(DEVICE, local_per_sm=0)
    with pytest.raises(InvalidArgument, match="max_block at least min_block"):
        replace(DEVICE, max_block=31)
    with pytest.raises(InvalidArgument, match="times must be at least 0"):
        replace(DEVICE, t_allo=-1.0)
    with pytest.raises(InvalidArgument, match="the other counts at least 0"):
        replace(PROGRAM, local_per_thread=-1)
    with pytest.raises(InvalidArgument, match="threads must be at least 1"):
        replace(PROGRAM, threads=0)
