"""Formulas (3) to (14) on hand-worked examples, and the closed form against an exhaustive search."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from pydp.errors import InvalidArgument
from pydp.model import size_model, time_model
from pydp.model.structure import Analysis, Structure

pytestmark = pytest.mark.host

# Ten multiprocessors of 64 warps and 8 groups; a memory instruction takes 400, a compute one 4 time units.
DEVICE = Structure(32, 10, 65536, 49152, 64, 8, 32, 1024, 400.0, 4.0, 2.0)
# 25,600 work-items (80 warps for each multiprocessor), 32 registers and 16 bytes of local memory each.
PROGRAM = Analysis(32, 16, 25_600, 10, 100)


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
    for _ in range(10_000):
        device, program = _random_case(rng)
        solution = size_model.closed_form(device, program)
        assert (solution.best.block, solution.best.seconds) == _exhaustive(device, program), (device, program)
        cases[solution.case] = cases.get(solution.case, 0) + 1
    assert set(cases) == {"20", "23a", "23b", "23c", "24"}, cases


def _exhaustive(device: Structure, program: Analysis) -> tuple[int, float]:
    """The best of all allowed group sizes, the largest one if several are equal, and its seconds."""
    least, most = size_model.block_range(device, program)
    blocks = [n * device.warp_size for n in range(least, most + 1)]
    times = [time_model.total_time(device, program, program.threads / block) for block in blocks]
    return max((block, t) for block, t in zip(blocks, times, strict=True) if t <= min(times) * (1 + 1e-12))


def test_ties_go_to_the_largest_group() -> None:
    free, heavy = replace(DEVICE, t_allo=0.0), replace(PROGRAM, comp_insts=2000)  # (13) does not depend on the groups
    least, most = size_model.block_range(free, heavy)
    assert least < most
    assert _exhaustive(free, heavy)[0] == 32 * most == size_model.closed_form(free, heavy).best.block


def test_no_allowed_size() -> None:
    with pytest.raises(InvalidArgument, match="multiple"):
        size_model.closed_form(replace(DEVICE, min_block=33, max_block=40), PROGRAM)
