"""Predicted seconds of counts against numbers worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from pydp.model.costs import analysis, costs
from pydp.model.counts import Counts, Phase
from pydp.model.rates import Rates
from pydp.model.structure import Structure, warps_per_sm, wmpd_local
from pydp.model.time_model import gpu_time

pytestmark = pytest.mark.host

# Four units of 10 Gop/s; 100 MB/s written, 200 MB/s read, 60 MB/s for a unit alone; round numbers to work with.
RATES = Rates(
    units=4, float32=10e9, float64=5e9, integer=8e9, memory_read=200e6, memory_write=100e6, unit_memory=60e6,
    unit_cache=1e9, launch=1e-5, group=1e-6, barrier=1e-9, lane_slowdown=2.0, signal=1e-6,
)  # fmt: skip


def _seconds(phase: Phase, dtype: str = "float32") -> dict[str, float]:
    return costs([Counts(dtype, (phase,))], RATES)[0].parts


def test_arithmetic_takes_the_busiest_units_time() -> None:
    # 4e9 operations over four units of 10e9 at half their peak: 0.2 s, all waiting for one with twice its share: 0.4 s.
    parts = _seconds(Phase("sum", groups=4, operations=4e9, efficiency=0.5, balance=2.0, launches=0))
    assert parts["compute"] == pytest.approx(0.4)
    assert parts["launch"] == pytest.approx(4 * 1e-6 / 4 * 2.0)
    # Lanes are twice slower there; float64 and 64-bit integers have rates of their own.
    parts = _seconds(Phase("sum", groups=4, lanes=8, operations=4e9, launches=0))
    assert parts["compute"] == pytest.approx(0.2)
    assert _seconds(Phase("sum", operations=4e9), "float64")["compute"] == pytest.approx(4e9 / 5e9 / 4)
    assert _seconds(Phase("sum", operations=4e9), "int64")["compute"] == pytest.approx(4e9 / 4e9 / 4)


def test_memory_is_shared_and_one_unit_has_its_own_limit() -> None:
    # 2e6 bytes read, 1e6 written: 10 + 10 ms for all; one unit's quarter is 750,000 bytes: 12.5 ms. The slower counts.
    parts = _seconds(Phase("copy", groups=4, read=2e6, written=1e6))
    assert parts["memory"] == pytest.approx(0.02)
    # All by one unit: 3e6 bytes at 60 MB/s.
    parts = _seconds(Phase("copy", groups=1, read=2e6, written=1e6, balance=4.0))
    assert parts["memory"] == pytest.approx(0.05)


def test_what_overlaps_and_what_does_not() -> None:
    # Memory 10 ms, arithmetic 4 ms beside it (15% are not hidden), two launches, 3 signals, 5 barriers of 8 x 16 items.
    phase = Phase(
        "all", groups=8, lanes=16, operations=8e7, read=2e6, launches=2, barriers=5, signals=3,
    )  # fmt: skip
    found = costs([Counts("float32", (phase,))], RATES)[0]
    assert found.parts["memory"] == pytest.approx(0.01 + 0.15 * 8e7 * 2 / 10e9 / 4)
    assert found.parts["compute"] == 0.0
    assert found.parts["latency"] == pytest.approx(5 * 128 * 1e-9 / 4 + 3e-6)
    assert found.parts["launch"] == pytest.approx(2e-5 + 8e-6 / 4)
    assert found.seconds == pytest.approx(sum(found.parts.values()))
    assert found.limiter == "memory"


@pytest.mark.parametrize(
    ("phase", "limiter"),
    [
        (Phase("m", groups=4, read=1e7), "memory"),
        (Phase("c", groups=4, operations=1e10), "compute"),
        (Phase("w", groups=4, signals=1000.0), "latency"),
        (Phase("l", groups=4, launches=3), "launch"),
    ],
)
def test_every_limiter(phase: Phase, limiter: str) -> None:
    assert costs([Counts("float32", (phase,))], RATES)[0].limiter == limiter


# Two multiprocessors of 1,024 registers, 8 warps of 32 and 4 groups; 1 us for memory, 10 ns for arithmetic.
GPU = Structure(
    warp_size=32, sms=2, registers_per_sm=1024, local_per_sm=4096, max_warps_per_sm=8, max_active_blocks_per_sm=4,
    min_block=32, max_block=256, mem_cycle=1e-6, comp_cycle=1e-8, t_allo=1e-7,
)  # fmt: skip


def test_the_formulas_bound_a_gpu() -> None:
    # 16 groups of 64 items, 16 registers each: WMPD_Reg = 1024 / (16 * 32) = 2 warps. 16 bytes an item, 16 an access:
    # one memory instruction; 128 operations an item: 64 multiply-adds, T_C = 640 ns < T_M = 1 us. N = 16 warps a
    # multiprocessor, so (12): 1 us * 16 / 2 + 640 ns * (2 - 1) = 8.64 us.
    phase = Phase("work", groups=16, lanes=64, operations=128.0 * 1024, read=16.0 * 1024, registers=16, local_bytes=0)
    program = analysis(phase, GPU, 1.0)
    assert (program.mem_insts, program.comp_insts, program.threads) == (1.0, 64.0, 1024)
    assert gpu_time(GPU, program, 16) == pytest.approx(8.64e-6)
    fast = dataclasses.replace(RATES, memory_read=1e15, memory_write=1e15, unit_memory=1e15, lane_slowdown=1.0)
    parts = costs([Counts("float32", (phase,))], fast, GPU)[0].parts
    assert parts["latency"] + parts["compute"] == pytest.approx(8.64e-6, rel=0.01)
    # A float64 instruction takes two float32 ones' time: T_C = 1.28 us >= T_M, (13): 16 * 1.28 us + 1 us = 21.48 us.
    parts = costs([Counts("float64", (phase,))], fast, GPU)[0].parts
    assert parts["latency"] + parts["compute"] == pytest.approx(21.48e-6, rel=0.01)


def test_groups_take_whole_warps() -> None:
    # 100 groups of 8 items: a warp each, of 32. Its local memory is the group's: 2,048 bytes for 32 lanes, not for 8.
    phase = Phase("few", groups=100, lanes=8, operations=1600.0, read=3200.0, access=4, local_bytes=2048, registers=16)
    program = analysis(phase, GPU, 1.0)
    assert (program.threads, program.local_per_thread) == (3200, 64)
    assert (program.mem_insts, program.comp_insts) == (1.0, 1.0)
    assert wmpd_local(GPU, program) == 2 and warps_per_sm(GPU, program) == 50
    # Two registers' warps side by side, 50 warps: 25 rounds of 1 us, and the other warp's tail of 10 ns.           (12)
    assert gpu_time(GPU, program, 100) == pytest.approx(25.01e-6)
