"""The model in use: what it picks, where it keeps out of the way, and what explanations tell of it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.algorithms.scan.policy import FAMILY, ScanProblem
from pydp.algorithms.transpose.policy import FAMILY as transposes
from pydp.model import calibration, modelled
from pydp.model.architectures import by_target, rates_of
from pydp.model.costs import analysis
from pydp.model.modelled import by_model
from pydp.model.ranking import rank
from pydp.model.structure import wcpd

PROBLEM = ScanProblem("int32", 0, 24, 4, 0, vectors=True)


def _device(**changes: Any) -> Any:
    profile = dataclasses.replace(by_target("avx512")[0], **changes)
    return SimpleNamespace(name="made up", uid="made-up", profile=profile, facts={calibration._KEY: (None,)}, cl=None)


@pytest.mark.host
def test_the_pick_is_the_first_of_the_ranking() -> None:
    device = _device()
    found = by_model(FAMILY, device, PROBLEM)
    assert found is not None
    assert found.spec == rank(FAMILY, device.profile, PROBLEM)[0].spec and found.source == "model"
    assert "by the model with the table's rates" in found.reason
    measured = dataclasses.replace(rates_of(device.profile), source="measured")
    device.facts[calibration._KEY] = (measured,)
    found = by_model(FAMILY, device, PROBLEM)
    assert found is not None
    assert "measured rates" in found.reason


@pytest.mark.host
def test_a_default_that_is_not_the_best_prediction_is_called_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = rank(FAMILY, _device().profile, PROBLEM)
    for best, said in (
        (ranked[0].seconds, f"the best of {len(ranked)} by the model with the table's rates: "),
        (ranked[0].seconds / 1.02, f"the default: within 5% of the best of {len(ranked)} predictions by the model"),
    ):
        monkeypatch.setattr(modelled, "rank", lambda *_, best=best: [ranked[0]._replace(best=best), *ranked[1:]])
        found = by_model(FAMILY, _device(), PROBLEM)
        assert found is not None and found.reason.startswith(said)
        assert ("1.02 times the best prediction" in found.reason) == said.startswith("the default")


@pytest.mark.host
def test_no_pick_where_time_means_nothing_or_loops_are_cut_short() -> None:
    assert by_model(FAMILY, _device(is_simulator=True), PROBLEM) is None
    assert by_model(FAMILY, _device(loop_limit=65535), PROBLEM) is None
    assert by_model(dataclasses.replace(FAMILY, counts=None), _device(), PROBLEM) is None


def test_explanations_tell_predictions_and_slower_candidates(device: Any) -> None:
    a, b = np.zeros((300, 200), np.float32), np.zeros((200, 400), np.float32)
    x = np.zeros(1 << 16, np.int32)
    calls: list[tuple[Any, ...]] = [(pydp.matmul, a, b), (pydp.transpose, a)]
    calls += [(call, x) for call in (pydp.scan, pydp.reduce, pydp.sort, pydp.histogram)]
    for call in calls:
        told = pydp.explain(*call, device=device)
        assert "limited by" in str(told.facts["predicted"])
        ranked = [line for line in told.choices if line.startswith(("candidate ", "slower candidate", "cannot run"))]
        careful = device.profile.loop_limit is not None
        assert len(ranked) >= (1 if careful else 3)
        assert all("predicted" in line or line.startswith("cannot run") for line in ranked)
        if call[0] in (pydp.matmul, pydp.scan, pydp.sort):  # of the others no candidate is far from the best
            assert sum(line.startswith("slower candidate") for line in told.choices) >= (0 if careful else 1)


def test_what_is_chosen_runs_and_is_right(device: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (90, 70)).astype(np.float32), rng.integers(0, 9, (70, 110)).astype(np.float32)
    assert np.array_equal(pydp.matmul(a, b, device=device), a @ b)
    x = rng.integers(0, 100, 9000).astype(np.int32)
    assert np.array_equal(pydp.scan(x, device=device), np.cumsum(x, dtype=np.int32))


def test_sizes_of_a_class_share_a_choice(device: Any) -> None:
    calls: tuple[tuple[str, Any], ...] = (("sort", pydp.sort), ("reduce", pydp.reduce), ("histogram", pydp.histogram))
    for name, call in calls:
        for n in (1100, 1500, 1999, 2048):
            call(np.arange(n, dtype=np.int32), device=device)
        kept = [key for key in device.choices if key[0] == name and key[1].sizes[0] in range(1025, 2049)]
        assert len({key[1].sizes[0] for key in kept}) == 1, kept


@pytest.mark.host
def test_explanations_of_gpus_tell_the_figures_of_the_models() -> None:
    from pydp.offline.study import study
    from pydp.offline.text import text_of

    found = study("xe_hpg", pydp.transpose, np.zeros((512, 512), np.float32))
    text = text_of("transpose", found)
    # 512 x 512 in tiles of 32 x 32 by 2 x 32 lanes, or alike: every figure from the candidate's own counts.
    counts = transposes.counts(found.target.profile, found.problem, found.runs.spec) if transposes.counts else None
    assert counts is not None
    structure = by_target("xe_hpg")[1]
    program = analysis(counts.main, structure, rates_of(found.target.profile).slowdown(counts.dtype))
    n = counts.main.work_items / (structure.warp_size * structure.sms)
    assert f"N = {n:.3g} warps per multiprocessor" in text and f"WCPD = {wcpd(structure, program):.3g}" in text
    for word in ("WMPD = ", "T_M = ", "T_C = ", "formula (1", "size model", "case "):
        assert word in text, word
