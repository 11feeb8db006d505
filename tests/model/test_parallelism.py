"""The sentences about the size and time models, and seconds with their units."""

from __future__ import annotations

import pytest

from pydp.model.architectures import by_target, rates_of
from pydp.model.counts import Counts, Phase
from pydp.model.parallelism import parallelism, seconds_text
from pydp.model.structure import Structure

pytestmark = pytest.mark.host

# Ten multiprocessors of 64 warps and 8 groups; a memory instruction takes 400, a compute one 4 time units.
DEVICE = Structure(32, 10, 65536, 49152, 64, 8, 32, 1024, 400.0, 4.0, 2.0)
RATES = rates_of(by_target("sm_86")[0])


def test_sentences_about_a_launch() -> None:
    # 4 warps a group, 40 groups: 16 warps for each of ten multiprocessors, all of them resident.
    phase = Phase("f", groups=40, lanes=128, operations=51200.0, read=81920.0, registers=32, access=16)
    found = parallelism(Counts("float32", (phase,)), DEVICE, RATES)
    assert found["parallelism"] == (
        "N = 16 warps per multiprocessor; WMPD = 16 warps wait for memory at the same time, limited by the number of "
        "groups; WCPD = 21 warps compute during one memory access"
    )
    formula = "formula (13), computation overlaps one memory access, at least 720 s"
    assert found["time model"] == f"T_M = 400 s, T_C = 20 s per warp: {formula}"
    assert found["size model"].startswith(
        "groups of 512 work-items are best, 128 are used; all groups run at the same time"
    )
    many = Phase("f", groups=4000, lanes=128, operations=51200.0, read=8192000.0, registers=128, access=16)
    assert (
        "WMPD = 16 warps wait for memory at the same time, limited by registers;"
        in parallelism(Counts("float32", (many,)), DEVICE, RATES)["parallelism"]
    )
    # The RTX 3090 has one float64 multiply-add for 64 of float32: 64 times 20 s of computing hide 400 s of memory.
    found = parallelism(Counts("float64", (phase,)), DEVICE, RATES)
    assert "T_C = 1.28e+03 s per warp: formula (13)" in found["time model"]


def test_seconds_in_words() -> None:
    assert [seconds_text(value) for value in (2.5, 1.2e-3, 3.4e-6, 5e-9)] == ["2.5 s", "1.2 ms", "3.4 us", "5 ns"]
