"""The order of candidates on devices whose best one is known by construction."""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.matmul.policy import FAMILY as MATMUL
from pydp.algorithms.matmul.spec import MatmulProblem
from pydp.algorithms.reduce.policy import ReduceProblem
from pydp.algorithms.scan.policy import FAMILY as SCAN
from pydp.algorithms.scan.policy import ScanProblem, default
from pydp.algorithms.sort.policy import SortProblem
from pydp.algorithms.transpose.policy import TransposeProblem
from pydp.errors import InvalidArgument
from pydp.model.architectures import TABLE, by_name, by_target
from pydp.model.counts import Counts, Phase
from pydp.model.family import Family, Problem
from pydp.model.ranking import rank, rejected

pytestmark = pytest.mark.host


@dataclass(frozen=True)
class ToyProblem(Problem):
    family: ClassVar[str] = "toy"
    n: int


@dataclass(frozen=True)
class Spec:
    groups: int
    waste: float = 1.0


def _counts(profile: Any, problem: ToyProblem, spec: Spec) -> Counts:
    work = float(problem.n) * spec.waste
    return Counts("float32", (Phase("work", groups=spec.groups, operations=work, balance=max(1.0, 8 / spec.groups)),))


def _check(profile: Any, problem: Problem, spec: Spec) -> str | None:
    return f"groups {spec.groups} are above 1000" if spec.groups > 1000 else None


def _family(*found: Spec, counts: Any = _counts) -> Family:
    return Family("toy", Spec, lambda profile, problem: found[0], lambda profile, problem: list(found), _check, counts)


PROFILE = by_target("avx512")[0]  # eight cores
LARGE = ToyProblem("float32", 10**10)


def test_the_best_goes_first() -> None:
    family = _family(Spec(1), Spec(8), Spec(4), Spec(8, 1.5), Spec(2000))
    found = rank(family, PROFILE, LARGE)
    assert [one.spec for one in found] == [Spec(8), Spec(8, 1.5), Spec(4), Spec(1)]
    assert [one.limiter for one in found] == ["compute"] * 4
    assert found[0].seconds == pytest.approx(10**10 / 192e9 / 8, rel=1e-2)
    assert found[2].seconds / found[0].seconds == pytest.approx(2.0, rel=1e-2)
    assert "100% of it compute; 2.00 times the best prediction" in found[2].reason
    assert rejected(family, PROFILE, LARGE) == [(Spec(2000), "groups 2000 are above 1000")]


def test_a_small_problem_is_limited_by_its_launch() -> None:
    found = rank(_family(Spec(8), Spec(512)), PROFILE, ToyProblem("float32", 1000))
    assert [one.spec for one in found] == [Spec(8), Spec(512)]
    assert found[0].limiter == "launch"


def test_the_default_wins_where_predictions_are_equal() -> None:
    near = _family(Spec(8, 1.04), Spec(8))
    assert [one.spec for one in rank(near, PROFILE, LARGE)] == [Spec(8, 1.04), Spec(8)]
    far = _family(Spec(8, 1.2), Spec(8))
    assert [one.spec for one in rank(far, PROFILE, LARGE)] == [Spec(8), Spec(8, 1.2)]


def test_a_family_without_counts_cannot_be_ranked() -> None:
    with pytest.raises(InvalidArgument, match="toy"):
        rank(_family(Spec(8), counts=None), PROFILE, LARGE)


def test_candidates_begin_with_the_default_and_name_nothing_twice() -> None:
    outside = dataclasses.replace(_family(Spec(8), Spec(2000), Spec(4), Spec(8)), default=lambda *_: Spec(4))
    assert outside.candidates(PROFILE, LARGE) == [Spec(4), Spec(8)]
    assert dataclasses.replace(outside, default=lambda *_: Spec(16)).candidates(PROFILE, LARGE)[0] == Spec(16)
    assert dataclasses.replace(outside, default=lambda *_: Spec(3000)).candidates(PROFILE, LARGE) == [Spec(8), Spec(4)]


# --- real families on synthetic devices ------------------------------------------------------------------------


def _first(family: Family, profile: Any, problem: Problem) -> Any:
    return rank(family, profile, problem)[0].spec


SQUARE = MatmulProblem("float32", 1, 2048, 2048, 2048)


def test_matmul_holds_as_many_results_as_there_are_registers() -> None:
    wide = _first(MATMUL, PROFILE, SQUARE)
    assert 18 <= wide.rows * wide.columns // wide.width <= 27
    few = dataclasses.replace(PROFILE, vector_registers=16)
    assert _first(MATMUL, few, SQUARE).rows * _first(MATMUL, few, SQUARE).columns // wide.width <= 14


def test_matmul_blocks_follow_the_second_cache() -> None:
    for l2 in (256 << 10, 1 << 20, 4 << 20):
        spec = _first(MATMUL, dataclasses.replace(PROFILE, l2_bytes=l2), SQUARE)
        assert spec.tile_k * min(spec.tile_n, 2048) * 4 <= 0.75 * l2


def test_matmul_cuts_k_only_where_cores_have_no_work() -> None:
    assert _first(MATMUL, PROFILE, SQUARE).parts == 1
    assert _first(MATMUL, PROFILE, MatmulProblem("float32", 1, 32, 64, 1 << 17)).parts > 1


def test_matmul_by_lanes_is_far_from_the_best_on_cpus() -> None:
    found = rank(MATMUL, PROFILE, SQUARE)
    assert len(found) >= 30
    assert all(one.seconds > 3 * found[0].seconds for one in found if one.spec.mapping == "simt")


def test_matmul_on_gpus_takes_large_tiles_for_large_products_only() -> None:
    profile, _ = by_target("sm_80")
    large, small = (MatmulProblem("float32", 1, n, n, n) for n in (4096, 64))
    assert _first(MATMUL, profile, large).tile_m >= 64
    assert _first(MATMUL, profile, small).tile_m <= 64
    assert len(rejected(MATMUL, profile, large)) >= 3


def _scan(log: int) -> Problem:
    return ScanProblem("int32", 0, log, 4, 0, vectors=True)


def test_scan_in_one_pass_where_memory_is_slow() -> None:
    spec = _first(SCAN, PROFILE, _scan(26))
    assert spec.strategy in ("lookback", "chained")
    assert spec.nontemporal
    assert spec.part * 4 <= PROFILE.l2_bytes / 2
    found = {one.spec.strategy: one.seconds for one in reversed(rank(SCAN, PROFILE, _scan(26)))}
    assert found["reduce_then_scan"] > 1.2 * found["lookback"]


def test_scan_of_few_elements_stays_in_the_caches() -> None:
    assert not _first(SCAN, PROFILE, _scan(16)).nontemporal


def test_scan_in_place_stores_to_the_lines_that_the_caches_have_read() -> None:
    in_place = dataclasses.replace(_scan(26), in_place=True)
    assert not _first(SCAN, PROFILE, in_place).nontemporal
    assert default(PROFILE, _scan(26)).nontemporal and not default(PROFILE, in_place).nontemporal
    columns = dataclasses.replace(_scan(26), log_n=20, log_rows=6, columns=64)
    assert _first(SCAN, PROFILE, columns).nontemporal
    assert not _first(SCAN, PROFILE, dataclasses.replace(columns, in_place=True)).nontemporal


def test_scan_waits_for_no_other_group_where_none_need_go_on() -> None:
    careful = dataclasses.replace(PROFILE, group_progress=False)
    assert {one.spec.strategy for one in rank(SCAN, careful, _scan(20))} == {"reduce_then_scan"}


def _family_of(name: str) -> Any:
    return importlib.import_module(f"pydp.algorithms.{name}").FAMILY


def test_every_target_ranks_every_family() -> None:

    problems = [
        (MATMUL, SQUARE),
        (SCAN, _scan(20)),
        (_family_of("sort.policy"), SortProblem("int32", 1 << 20, 1, 4)),
        (_family_of("reduce.policy"), ReduceProblem("float32", 1 << 20, 1, None, commutes=True)),
        (_family_of("histogram.policy"), HistogramProblem("float32", 1 << 20, 100)),
        (_family_of("transpose"), TransposeProblem("V4", 1024, 1024)),
    ]
    for name in TABLE:
        profile, _ = by_target(name)
        for family, problem in problems:
            found = rank(family, profile, problem)
            assert found, (name, family.name)
            assert all(0 < one.seconds < 100 for one in found)
            assert all(family.check(profile, problem, one.spec) is None for one in found)


def test_faster_architectures_are_predicted_faster() -> None:
    seconds = {}
    for name in ("sm_60", "sm_70", "sm_80", "sm_90"):
        entry = by_name(name)
        seconds[name] = rank(MATMUL, by_target(name)[0], SQUARE, entry=entry)[0].seconds
    assert list(seconds.values()) == sorted(seconds.values(), reverse=True)
