"""The counts of every family against numbers worked out by hand from its templates."""

from __future__ import annotations

import dataclasses
import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.matmul.counts import counts as matmul_counts
from pydp.algorithms.matmul.policy import FAMILY as MATMUL
from pydp.algorithms.matmul.spec import MatmulProblem, MatmulSpec
from pydp.algorithms.reduce.policy import ReduceProblem, loads_early
from pydp.algorithms.scan.policy import FAMILY as SCAN
from pydp.algorithms.scan.policy import ScanProblem, ScanSpec, partition, scan_cycles
from pydp.algorithms.select.policy import FAMILY as SELECT
from pydp.algorithms.select.policy import SelectProblem, SelectSpec
from pydp.algorithms.sort import policy as sort_policy
from pydp.algorithms.sort.policy import SortProblem
from pydp.algorithms.transpose.policy import TransposeProblem
from pydp.model.architectures import by_target, rates_of
from pydp.model.costs import costs
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem

pytestmark = pytest.mark.host

CPU = dataclasses.replace(by_target("avx512")[0], compute_units=4, l1_bytes=48 << 10, l2_bytes=2 << 20)
GPU = by_target("sm_80")[0]
REDUCE, HISTOGRAM, TRANSPOSE = (
    importlib.import_module(f"pydp.algorithms.{name}").FAMILY
    for name in ("reduce.policy", "histogram.policy", "transpose")
)


def _phases(found: Counts) -> dict[str, Phase]:
    return {phase.name: phase for phase in found.phases}


def _counts(family: Family, profile: Any, problem: Problem, spec: Any) -> dict[str, Phase]:
    assert family.check(profile, problem, spec) is None
    assert family.counts is not None
    return _phases(family.counts(profile, problem, spec))


# --- matmul ----------------------------------------------------------------------------------------------------

PACKED = MatmulSpec("vector", "packed", 1024, 512, 256, 6, 64, width=16)


def test_packed_products() -> None:
    # 3,072 x 2,048 x 512: 3 blocks along m, 4 along n: A is packed 4 times, B 3 times, for 12 blocks on 4 cores.
    found = _counts(MATMUL, CPU, MatmulProblem("float32", 1, 3072, 2048, 512), PACKED)
    assert found["pack a"].operations == 4 * 3072 * 512
    assert found["pack b"].operations == 3 * 512 * 2048
    assert found["pack b"].read == 3 * 512 * 2048 * 4
    assert found["multiply"].operations == 2 * 3072 * 2048 * 512
    # A thread that wakes late adds a quarter of a block: each core has three.
    assert (found["multiply"].groups, found["multiply"].balance) == (12, pytest.approx(1 + 0.25 / 3))
    assert [phase.launches for phase in found.values()] == [1, 0, 0]
    # 12 cycles for 24 multiply-adds, half a cycle for the loop, and a tile's 30 + 4 * 24 over 256 steps.
    assert found["multiply"].efficiency == pytest.approx(12 / (12.5 + 126 / 256), rel=0.01)


def test_register_tiles_that_spill_or_starve() -> None:
    def efficiency(rows: int, vectors: int, width: int = 16) -> float:
        spec = dataclasses.replace(PACKED, rows=rows, columns=vectors * width, width=width)
        return _counts(MATMUL, CPU, MatmulProblem("float32", 1, 768, 768, 512), spec)["multiply"].efficiency

    assert efficiency(6, 4) > 0.9
    assert efficiency(1, 4) == pytest.approx(efficiency(6, 4) / 2, rel=0.3)  # two cycles' work, the latency is four
    assert efficiency(8, 4) < 0.75  # 37 registers live, 32 there
    assert efficiency(6, 4, 8) == pytest.approx(efficiency(6, 4) / 2, rel=0.05)  # half vectors


def test_edges_of_products_are_wasted_work() -> None:
    whole = _counts(MATMUL, CPU, MatmulProblem("float32", 1, 600, 640, 512), PACKED)["multiply"].efficiency
    ragged = _counts(MATMUL, CPU, MatmulProblem("float32", 1, 601, 641, 512), PACKED)["multiply"].efficiency
    assert 0.9 * whole < ragged < whole
    few = _counts(MATMUL, CPU, MatmulProblem("float32", 1, 7, 640, 512), PACKED)["multiply"].efficiency
    assert few == pytest.approx(whole * 7 / 12, rel=0.1)  # two strips of six rows


def test_packed_blocks_beyond_the_cache_are_read_again() -> None:
    problem = MatmulProblem("float32", 1, 1024, 4096, 1024)
    small = _counts(MATMUL, CPU, problem, PACKED)["multiply"]
    large = _counts(MATMUL, CPU, problem, dataclasses.replace(PACKED, tile_n=4096, tile_k=1024))["multiply"]
    assert large.read - small.read > 0.9 * -(-1024 // 6) * 4096 * 1024 * 4  # every strip of rows reads all of B


def test_products_in_place_read_operands_once_and_overlap_tiles() -> None:
    spec = MatmulSpec("vector", "direct", 1024, 4096, 64, 4, 64, width=16, unroll=4)

    def phase(batches: int, m: int, n: int) -> Phase:
        (found,) = _counts(MATMUL, CPU, MatmulProblem("float32", batches, m, n, 64), spec).values()
        return found

    whole = phase(1 << 20, 64, 64)
    assert whole.operations == 2 * (1 << 20) * 64**3
    assert (whole.read, whole.written) == ((1 << 20) * 2 * 64 * 64 * 4, (1 << 20) * 64 * 64 * 4)
    assert (whole.launches, whole.balance) == (1, 1.0)
    # 8 cycles for 16 multiply-adds, an eighth of a cycle for the loop, and a tile's 30 + 4 * 16 over 64 steps.
    assert whole.efficiency == pytest.approx(8 / (8.125 + 94 / 64), rel=0.01)
    assert phase(1 << 20, 65, 64).efficiency == pytest.approx(whole.efficiency * 65 / 68, rel=0.01)


def test_parts_of_k_are_added_up() -> None:
    found = _counts(MATMUL, CPU, MatmulProblem("float32", 1, 96, 64, 1 << 16), dataclasses.replace(PACKED, parts=4))
    assert found["multiply"].groups == 4
    assert found["add parts"].launches == 1
    assert found["add parts"].cached == 96 * 64 * 4 * 4
    assert found["add parts"].written == 96 * 64 * 4


def test_complex_and_half_products() -> None:
    single, pair = (
        matmul_counts(CPU, MatmulProblem(name, 1, 960, 960, 512), dataclasses.replace(PACKED, rows=3))
        for name in ("float32", "complex64")
    )
    assert pair.main.operations == 4 * single.main.operations
    half = matmul_counts(CPU, MatmulProblem("float16", 1, 960, 960, 512), PACKED)
    assert _phases(half)["multiply"].written in (0.0, 960 * 960 * 2.0 * 2)


def test_staged_products() -> None:
    # 4,096 cubed in tiles of 128 x 128 x 16 by 16 x 16 lanes: 1,024 groups, 256 steps, two of each tile staged.
    spec = MatmulSpec("simt", "staged", 128, 128, 16, 8, 8, 16, 16, 4, 16, 4)
    phase = _counts(MATMUL, GPU, MatmulProblem("float32", 1, 4096, 4096, 4096), spec)["multiply"]
    # Two groups with 128 registers per lane are resident: each computes while the other one waits at a barrier. The
    # other warps of a group hide three quarters of a barrier.
    assert (phase.groups, phase.lanes, phase.barriers) == (1024, 256, 257 / 2 / 4)
    assert phase.operations == 2 * 4096**3
    assert phase.local_bytes == 2 * 16 * (128 + 128 + 8) * 4
    assert phase.registers == int(1.1 * 64 + 1.6 * 16 + 16) + 23  # each lane reads 16 elements ahead
    assert phase.cached == 4096**3 * (1 / 8 + 1 / 8) * 4 / 2  # two lanes share a load of 16 bytes
    # 216 groups run side by side: 32 rows of blocks and 7 columns share what they read.
    assert phase.read == pytest.approx(1024 / 216 * (32 * 128 + 7 * 128) * 4096 * 4)
    one = dataclasses.replace(spec, buffers=1)
    found = _counts(MATMUL, GPU, MatmulProblem("float32", 1, 4096, 4096, 4096), one)["multiply"]
    assert (found.local_bytes, found.barriers) == (phase.local_bytes // 2, 2 * phase.barriers)


def test_thin_products_read_the_matrix_once() -> None:
    problem = MatmulProblem("float32", 1, 1, 1 << 13, 1 << 13, thin=True)
    spec = MATMUL.default(CPU, problem)
    phase = _counts(MATMUL, CPU, problem, spec)["sweep"]
    assert phase.read == 4 << 26
    assert phase.operations == 2 << 26


# --- scan ------------------------------------------------------------------------------------------------------


def _scan(log: int) -> Problem:
    return ScanProblem("int32", 0, log, 4, 0, vectors=True)


def test_one_pass_reads_and_writes_once() -> None:
    found = _counts(SCAN, CPU, _scan(26), ScanSpec("vector", "lookback", 65536, 16, True))
    assert (found["reduce"].read, found["scan"].read, found["scan"].written) == (4 << 26, 0, 0.6 * (4 << 26))
    assert (found["reduce"].groups, found["reduce"].launches, found["scan"].launches) == (1024, 1, 0)
    plain = _counts(SCAN, CPU, _scan(26), ScanSpec("vector", "lookback", 65536, 16, False))
    assert plain["scan"].written == 4 << 26


def test_two_passes_read_twice() -> None:
    found = _counts(SCAN, CPU, _scan(26), ScanSpec("vector", "reduce_then_scan", 65536, 16))
    assert found["reduce"].read == found["scan"].read == 4 << 26
    assert found["prefixes"].operations == 1024
    assert sum(phase.launches for phase in found.values()) == 3


def test_partitions_that_the_cache_does_not_keep_are_read_twice() -> None:
    found = _counts(SCAN, CPU, _scan(26), ScanSpec("vector", "lookback", 1 << 20, 16))
    assert found["scan"].read == 4 << 26
    found = _counts(SCAN, CPU, _scan(26), ScanSpec("vector", "lookback", 1 << 18, 16))  # a half of L2
    assert found["scan"].read == pytest.approx(0.2 * (4 << 26))


def test_partitions_are_smaller_for_few_elements() -> None:
    spec = ScanSpec("vector", "lookback", 65536)
    assert [partition(spec, size, 4) for size in (1000, 1 << 16, 1 << 18, 1 << 24)] == [4096, 4096, 16384, 65536]
    assert partition(ScanSpec("simt", "lookback", lanes=256, items=15), 1 << 20, 4) == 3840


def test_a_single_partition_is_one_cores() -> None:
    found = _counts(SCAN, CPU, _scan(12), ScanSpec("vector", "lookback", 65536, 16))
    assert list(found) == ["scan"]
    assert found["scan"].balance == 4.0


def test_cycles_of_a_vectors_prefix() -> None:
    def cycles(vector: int, add: float) -> float:
        size: Any = SimpleNamespace(profile=CPU, item=4, add=add, spec=ScanSpec("vector", "lookback", vector=vector))
        return scan_cycles(size)

    assert cycles(16, 1.0) == pytest.approx(10 / 1.3 / 16)  # four steps and the carry, of two instructions each
    assert cycles(4, 4.0) == pytest.approx(5 / 4)  # the carry's addition and one shuffle
    assert cycles(0, 4.0) == 4.0


def test_lanes_of_a_scan() -> None:
    spec = ScanSpec("simt", "lookback", lanes=256, columns=16, items=15)
    phase = _counts(SCAN, GPU, _scan(24), spec)["scan"]
    assert (phase.groups, phase.lanes) == (-(-(1 << 24) // 3840), 256)
    assert (phase.read, phase.written) == (4 << 24, 4 << 24)


# --- the others ------------------------------------------------------------------------------------------------


def test_reductions() -> None:
    problem = ReduceProblem("float32", 1 << 24, 1, None, commutes=True)
    spec = REDUCE.default(CPU, problem)
    found = REDUCE.counts(CPU, problem, spec)
    assert found.phases[0].groups == 32  # eight work-items a core
    assert found.phases[0].read == 4 << 24
    assert found.phases[1].operations == 32
    slow = REDUCE.counts(CPU, problem, dataclasses.replace(spec, width=4, unroll=1))
    assert slow.phases[0].efficiency < found.phases[0].efficiency / 8
    lanes = REDUCE.counts(GPU, problem, REDUCE.default(GPU, problem))
    assert lanes.phases[0].lanes == 256
    assert lanes.phases[0].read == 4 << 24


def test_sorts_merge_until_one_run_is_left() -> None:
    problem = SortProblem("int32", 1 << 20, 1, 4)
    spec = sort_policy.FAMILY.default(CPU, problem)
    assert sort_policy.FAMILY.counts is not None
    found = sort_policy.FAMILY.counts(CPU, problem, spec)
    merges = ((1 << 20) // spec.run).bit_length() - 1
    runs, passes = found.phases
    assert (runs.name, runs.launches, passes.name, passes.launches) == ("runs", 1, "merges", merges)
    assert (runs.bytes, passes.bytes) == (2.0 * (4 << 20), merges * 2.0 * (4 << 20))
    lanes = sort_policy.FAMILY.default(GPU, problem)
    by_lanes = sort_policy.FAMILY.counts(GPU, problem, lanes)
    merges = ((1 << 20) // lanes.run).bit_length() - 1
    assert [phase.name for phase in by_lanes.phases] == ["runs"] + ["merge"] * merges
    assert {phase.bytes for phase in by_lanes.phases} == {2.0 * (4 << 20)}


def _pass(n: int, width: int, spec: sort_policy.SortSpec, moved: float) -> Phase:
    """One pass over runs of `width`: every stretch is found by a search of 25 cycles a step in each chain."""
    stretch = min(spec.stretch, 2 * width)
    work = -(-n // stretch)
    cycles = {1: 13.0, 2: 8.0, 4: 5.5}[spec.chains] + 25.0 * spec.chains * (2 * width).bit_length() / stretch
    speed, balance = efficiency(CPU, "int32", 1.0, cycles), spread(work, CPU.compute_units)
    near = 0.0 if moved else 2.0 * 4 * n
    return Phase("merge", work, operations=n, efficiency=speed, balance=balance, read=moved, written=moved, cached=near)


def test_merges_of_a_cpu_take_the_time_of_their_passes_one_by_one() -> None:
    rates = rates_of(CPU)
    for n in (1 << 11, 1 << 20, (1 << 22) + 5):
        problem = SortProblem("int32", n, 1, 4)
        for spec in sort_policy.FAMILY.candidates(CPU, problem):
            runs, *merges = sort_policy.counts(CPU, problem, spec).phases
            widths = [spec.run << turn for turn in range(30) if spec.run << turn < n]
            alone = [_pass(n, width, spec, merges[0].read / len(widths)) for width in widths]
            together = costs([Counts("int32", (runs, *merges))], rates)[0].seconds
            assert together == pytest.approx(costs([Counts("int32", (runs, *alone))], rates)[0].seconds, rel=0.05)


def test_histograms() -> None:
    problem = HistogramProblem("float32", 1 << 24, 100)
    spec = HISTOGRAM.default(CPU, problem)
    found = _phases(HISTOGRAM.counts(CPU, problem, spec))
    assert found["count"].groups == 16
    assert found["count"].read == 4 << 24
    assert found["count"].written == 16 * 4 * 100 * 4
    assert found["fold"].operations == 16 * 4 * 100


def test_transposes_waste_parts_of_lines() -> None:
    problem = TransposeProblem("V4", 2048, 2048)
    spec = TRANSPOSE.default(CPU, problem)
    lines = TRANSPOSE.counts(CPU, problem, spec).main
    assert (spec.block, lines.read) == (16, 4 << 22)
    half = TRANSPOSE.counts(CPU, problem, dataclasses.replace(spec, block=8)).main
    assert half.read == 2 * lines.read


# --- select ----------------------------------------------------------------------------------------------------


def test_selections() -> None:
    # 2^24 float32 in 512 partitions, half of them kept.
    problem = SelectProblem("float32", 24, 4, 4, 8)
    found = _counts(SELECT, CPU, problem, SelectSpec("vector", "lookback", part=32768))
    assert list(found) == ["select"] and found["select"].groups == 512
    assert found["select"].read == 4 * 2**24 and found["select"].written == 2 * 2**24
    assert found["select"].signals == pytest.approx(512 * 0.05 / 4)
    found = _counts(SELECT, CPU, problem, SelectSpec("vector", "reduce_then_scan", part=32768))
    assert list(found) == ["count", "prefixes", "select"] and found["count"].read == 4 * 2**24
    assert found["select"].signals == 0
    rest = dataclasses.replace(problem, rest=True)
    assert "'reduce_then_scan' is accepted" in str(SELECT.check(CPU, rest, SelectSpec("vector", "lookback")))
    assert SELECT.default(CPU, rest).strategy == "reduce_then_scan"
    assert SELECT.default(GPU, problem).mapping == "simt"


def test_elements_that_a_lane_loads_early() -> None:
    """They fit in registers: 256 bytes of all inputs. Records and accumulators stay in memory."""
    spec = dataclasses.replace(REDUCE.default(GPU, ReduceProblem("float32", 1 << 20, 1, None, True)), waves=8, items=8)
    f4, f8, record = (np.dtype(one) for one in ("f4", "f8", [("a", "f4")]))
    assert loads_early(spec, f4) and not loads_early(spec, f8) and not loads_early(spec, f4, f4)
    assert loads_early(dataclasses.replace(spec, items=4), f4, f4)
    assert not loads_early(spec, record) and not loads_early(spec, None)
