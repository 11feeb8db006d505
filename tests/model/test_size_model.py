"""Formulas (3) to (14) on hand-worked examples, and the closed form against an exhaustive search."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from pydp.errors import InvalidArgument
from pydp.model import size_model, structure, time_model
from pydp.model.architectures import by_target, rates_of
from pydp.model.counts import Counts, Phase
from pydp.model.parallelism import parallelism
from pydp.model.structure import Analysis, Structure

pytestmark = pytest.mark.host

# Ten multiprocessors of 64 warps and 8 groups; a memory instruction takes 400, a compute one 4 time units.
DEVICE = Structure(32, 10, 65536, 49152, 64, 8, 32, 1024, 400.0, 4.0, 2.0)
# 25,600 work-items (80 warps for each multiprocessor), 32 registers and 16 bytes of local memory each.
PROGRAM = Analysis(32, 16, 25_600, 10, 100)
RATES = rates_of(by_target("sm_86")[0])


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


def test_cases_of_the_conditions() -> None:
    assert size_model.turning_point(DEVICE) == 80
    heavy = replace(PROGRAM, comp_insts=2000)
    assert size_model.closed_form(DEVICE, heavy).case == "20"
    assert size_model.closed_form(DEVICE, replace(PROGRAM, threads=3200, comp_insts=1)).case == "24"
    many = replace(PROGRAM, threads=2_560_000)
    found = {size_model.closed_form(DEVICE, many).case}
    # A long compute tail against cheap rounds has its minimum between the bounds.
    tail = Structure(32, 4, 65536, 49152, 64, 32, 32, 1024, 1.0, 0.9, 0.0)
    program = Analysis(1, 0, 32 * 4 * 64, 1, 1)
    found.add(size_model.closed_form(tail, program).case)
    assert found <= {"20", "23a", "23b", "23c", "24"} and found & {"23a", "23b", "23c"}


def test_sizes_that_resources_admit() -> None:
    assert size_model.block_range(DEVICE, replace(PROGRAM, registers_per_thread=255)) == (1, 8)  # 65536 / (255 * 32)
    assert size_model.block_range(DEVICE, replace(PROGRAM, threads=320 * 5)) == (1, 5)
    assert size_model.block_range(DEVICE, PROGRAM) == (1, 32)


def test_the_interior_minimum() -> None:
    # P = 8 * 25,600 / 32 = 6400; each group costs 2 + 4000 * 80 / 6400 = 52, tails of 400 / 10 fall as 1 / groups.
    found = size_model.interior_minimum(DEVICE, PROGRAM)
    assert math.isclose(found, math.sqrt(40 * 6400 / 52))
    assert size_model.interior_minimum(DEVICE, replace(PROGRAM, mem_insts=0)) == math.inf


def _random_case(rng: random.Random) -> tuple[Structure, Analysis]:
    warp = rng.choice([1, 16, 32, 64])
    device = Structure(
        warp,
        rng.randint(1, 130),
        rng.choice([16384, 32768, 65536, 131072]),
        rng.choice([16384, 49152, 65536, 233472]),
        rng.choice([16, 32, 48, 64]),
        rng.choice([1, 4, 8, 16, 32]),
        rng.choice([1, warp, 2 * warp]),
        rng.choice([4, 8, 16, 32]) * warp,
        rng.choice([0.5, 1.0, 40.0, 400.0]),
        rng.choice([0.0, 0.25, 1.0, 4.0, 390.0]),
        rng.choice([0.0, 0.001, 0.1, 1.0, 50.0]),
    )
    program = Analysis(
        rng.choice([1, 8, 32, 64, 255]),
        rng.choice([0, 0, 4, 16, 200]),
        rng.randint(1, 10 ** rng.randint(1, 8)),
        rng.choice([0, 1, 2, 10, 1000]),
        rng.choice([0, 1, 2, 10, 1000, 5000]),
    )
    return device, program


def test_closed_form_equals_exhaustive_search() -> None:
    rng = random.Random(5)
    cases: dict[str, int] = {}
    for turn in range(10_000):
        device, program = _random_case(rng)
        solution = size_model.closed_form(device, program)
        best = size_model.exhaustive(device, program)
        assert (solution.best.block, solution.best.seconds) == (best.block, best.seconds), (device, program)
        cases[solution.case] = cases.get(solution.case, 0) + 1
        if turn < 1000:  # the search itself against a plain loop
            assert (best.block, best.seconds) == _by_hand(device, program)
    assert set(cases) == {"20", "23a", "23b", "23c", "24"}, cases


def _by_hand(device: Structure, program: Analysis) -> tuple[int, float]:
    least, most = size_model.block_range(device, program)
    blocks = [n * device.warp_size for n in range(least, most + 1)]
    times = [time_model.total_time(device, program, program.threads / block) for block in blocks]
    return max((block, t) for block, t in zip(blocks, times, strict=True) if t <= min(times) * (1 + 1e-12))


def test_ties_go_to_the_largest_group() -> None:
    free, heavy = replace(DEVICE, t_allo=0.0), replace(PROGRAM, comp_insts=2000)  # (13) does not depend on the groups
    least, most = size_model.block_range(free, heavy)
    assert least < most
    assert size_model.exhaustive(free, heavy).block == 32 * most == size_model.closed_form(free, heavy).best.block


def test_what_is_told_of_a_launch() -> None:
    # 4 warps a group, 40 groups: 16 warps for each of ten multiprocessors, all of them resident.
    phase = Phase("f", groups=40, lanes=128, operations=51200.0, read=81920.0, registers=32, access=16)
    told = parallelism(Counts("float32", (phase,)), DEVICE, RATES)
    warps = "N = 16 warps per multiprocessor; WMPD = 16 at once, limited by the number of groups; WCPD = 21"
    assert told["parallelism"] == warps
    formula = "formula (13), computation overlaps one memory access, at least 720 s"
    assert told["time model"] == f"T_M = 400 s, T_C = 20 s per warp: {formula}"
    assert told["size model"].startswith(
        "groups of 512 work-items are best, 128 are used; case 24, all groups are resident"
    )
    many = Phase("f", groups=4000, lanes=128, operations=51200.0, read=8192000.0, registers=128, access=16)
    assert (
        "WMPD = 16 at once, limited by registers;"
        in parallelism(Counts("float32", (many,)), DEVICE, RATES)["parallelism"]
    )
    # The RTX 3090 has one float64 multiply-add for 64 of float32: 64 times 20 s of computing hide 400 s of memory.
    told = parallelism(Counts("float64", (phase,)), DEVICE, RATES)
    assert "T_C = 1.28e+03 s per warp: formula (13)" in told["time model"]


def test_wrong_parameters() -> None:
    with pytest.raises(InvalidArgument):
        replace(DEVICE, sms=0)
    with pytest.raises(InvalidArgument):
        replace(DEVICE, local_per_sm=0)
    with pytest.raises(InvalidArgument):
        replace(PROGRAM, local_per_thread=-1)
    with pytest.raises(InvalidArgument):
        replace(PROGRAM, threads=0)
    with pytest.raises(InvalidArgument, match="multiple"):
        size_model.exhaustive(replace(DEVICE, min_block=33, max_block=40), PROGRAM)
