"""Rank correlation and the heat maps of the benchmark of specializations, on small made-up measurements."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pydp.bench import bench_specializations, specialization_cases
from pydp.bench.bench_specializations import Quality, pooled, ranks, spearman
from pydp.bench.specialization_report import by_family, candidates_table, heat, heat_tables, plot, summary

pytestmark = pytest.mark.host


@dataclass(frozen=True)
class Spec:
    part: int
    strategy: str
    vector: int = 0
    lanes: int = 1
    items: int = 1


def _quality(name: str, predicted: list[float], measured: list[float]) -> Quality:
    specs = [Spec(1 << i // 2, "ab"[i % 2]) for i in range(len(measured))]
    return Quality(name, predicted, measured, ["memory"] * len(measured), specs)


def test_ranks_share_the_average_of_ties() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]).tolist() == [3.5, 1.0, 3.5, 2.0]
    assert ranks([5.0, 5.0, 5.0]).tolist() == [2.0, 2.0, 2.0]


def test_spearman_by_hand() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1.0)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    # Without ties it is 1 - 6 sum d^2 / n (n^2 - 1): ranks 1 2 3 4 5 against 2 1 4 3 5, d^2 sums to 4.
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert math.isnan(spearman([1, 1], [1, 2]))


def test_spearman_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.integers(0, 8, 20).astype(float), rng.integers(0, 8, 20).astype(float)
        assert spearman(x.tolist(), y.tolist()) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_sums_that_must_be_equal_in_every_bit_are_exact_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[np.ndarray] = []
    monkeypatch.setattr(specialization_cases.pydp, "field", lambda x, device: given.append(x))
    monkeypatch.setattr(specialization_cases.pydp, "zeros", lambda *shape, device: None)
    specialization_cases._reduce("", None, 1 << 24)
    assert 0 < given[0].sum(dtype=np.float64) <= 2.0**24 and np.array_equal(given[0], np.rint(given[0]))


def test_what_the_picks_reach() -> None:
    one = _quality("scan int32 2^20", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 4.0, 2.5, 3.0, 1.6, 1.0])
    assert (one.first, one.five) == (0.5, 1.0 / 1.6)
    assert one.rho == spearman(one.predicted, one.measured)
    two = _quality("scan int32 2^12", [10.0, 20.0], [0.1, 0.2])
    assert pooled([two, two]) == pytest.approx(1.0)
    assert set(by_family([one, _quality("matmul f", [1.0], [1.0])])) == {"scan", "matmul"}


def test_what_fails_is_no_pick_to_be_proud_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, specs = SimpleNamespace(name="scan x"), [Spec(1, "a"), Spec(2, "a"), Spec(2, "b")]
    ranking = [SimpleNamespace(spec=spec, seconds=1.0 + i, limiter="memory") for i, spec in enumerate(specs)]
    monkeypatch.setattr(bench_specializations, "wanted", lambda device: [("scan x", lambda name: case)])
    monkeypatch.setattr(bench_specializations, "ranked", lambda device, case: ranking)
    measured: list[dict[str, object]] = [{"failure": "wrong result: 7"}, {"ratio": 2.0}, {"ratio": 1.0}]
    known = {
        "scan x": {"candidates": [{"spec": asdict(spec), **one} for spec, one in zip(specs, measured, strict=True)]}
    }
    (one,) = bench_specializations.qualities(None, known)
    assert (one.first, one.five, one.rho) == (0.0, 1.0, -1.0)
    assert heat(one, "part", "strategy")[2] == [[0.0, 0.5], [None, 1.0]]
    (row,) = bench_specializations.rows(SimpleNamespace(name="d"), [one])
    assert row.notes.endswith("1 failed, the first: wrong result: 7") and candidates_table(one).row_count == 3
    pytest.importorskip("matplotlib")
    plot([one], tmp_path / "quality.png")  # a failed candidate is drawn too


@pytest.mark.parametrize(
    "size, seconds, places", [(20, 1e6, [0, 3, 5, 8, 11, 14, 16, 19]), (3, 1e6, [0, 1, 2]), (20, 0, [0])]
)
def test_a_sample_is_spread_over_the_models_order(
    size: int, seconds: float, places: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranking = [SimpleNamespace(spec=Spec(at, "a"), seconds=1.0 + at, limiter="memory") for at in range(size)]
    monkeypatch.setattr(bench_specializations, "ranked", lambda device, case: ranking)
    monkeypatch.setattr(bench_specializations, "_base", lambda device, case, order: None)
    monkeypatch.setattr(bench_specializations, "_candidate", lambda case, spec, base: {"ratio": 1.0 + spec.part})
    monkeypatch.setattr(bench_specializations, "_again", lambda *_: None)
    found = bench_specializations.sampled(None, SimpleNamespace(name="scan x"), 8, seconds)
    assert [one.part for one in found.specs] == places
    assert found.predicted == found.measured == [1.0 + at for at in places]


def test_heat_maps_hold_the_best_of_each_pair() -> None:
    one = _quality("scan int32 2^20", [1.0, 2.0, 3.0], [2.0, 4.0, 1.0])
    columns, rows, cells = heat(one, "part", "strategy")
    assert (columns, rows) == ([1, 2], ["a", "b"])
    assert cells == [[0.5, 1.0], [0.25, None]]
    assert len(heat_tables(one)) == 1
    assert summary([one]).row_count == 1


def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "quality.png"
    plot([_quality("scan int32 2^20", [1.0, 2.0, 3.0], [2.0, 4.0, 1.0])], path)
    assert path.stat().st_size > 1000
