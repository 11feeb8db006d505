"""Tuning finds the fastest specialization with a right result and keeps it; later calls choose it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_tuning as toy
from toy_tuning import SHAPE, ToySpec, X, failures

import pydp
from pydp.errors import InvalidArgument
from pydp.tuning import store, tuned, tuner
from pydp.tuning.store import Trial
from pydp.tuning.tuner import tune

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.host
def test_the_fastest_right_one_wins(toys: Any) -> None:
    found = tune(toy.double, X, device=toys, budget=20)
    assert found.spec.mode == "right" and found.spec.wait == 1  # by the climb: no candidate is as short
    assert 0.05 < found.ratio < 0.5 and found.kept and not found.known
    failed = failures(found)
    assert failed["wrong"].startswith("wrong result: 10 of 10 elements are wrong, the first at (0,): ")
    assert failed["raises"] == "RuntimeError: no such instruction"
    kept = tuned.store_of(toys)
    best = kept.best(SHAPE)
    assert best is not None and tuned.rebuild(ToySpec, best.spec) == found.spec
    assert {one.failure for one in kept.trials(SHAPE)} == {None, *(one.failure for one in found.failures)}
    assert tuner.journal_of(kept).trials() == []


@pytest.mark.host
def test_what_is_known_is_not_run_again(toys: Any) -> None:
    first = tune(toy.double, X, device=toys, budget=20)
    toy.RUNS.clear()
    second = tune(toy.double, X[:9], device=toys)  # of the same class
    assert second.known and second.spec == first.spec and not toy.RUNS
    assert "tuned before" in str(second)
    third = tune(toy.double, X, device=toys, again=True, budget=20)
    assert not third.known and toy.RUNS and third.spec.mode == "right"
    assert f"{third.ratio:.2f} of the untuned time" in str(third)


@pytest.mark.host
def test_what_is_tuned_but_cannot_run_is_tuned_again(toys: Any) -> None:
    tuned.store_of(toys).add([Trial(SHAPE, {"wait": 1000, "mode": "right", "seconds": 0.0}, 0.5)])
    found = tune(toy.double, X, device=toys, budget=1)
    assert not found.known and found.spec.wait <= 64


@pytest.mark.host
def test_what_could_not_be_written_is_not_told_as_kept(toys: Any, tmp_path: Path) -> None:
    blocked = tmp_path / store.TUNED
    blocked.write_text("not a folder")
    assert not tune(toy.double, X, device=toys, budget=20).kept
    again = tune(toy.double, X, device=toys)
    assert again.known and not again.kept
    blocked.unlink()
    again = tune(toy.double, X, device=toys)
    assert again.known and again.kept and store.load(tuned.store_of(toys).path)[1]


@pytest.mark.host
def test_results_of_a_full_disk_are_kept_for_the_process(
    toys: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Any, data: bytes) -> bool:
        store.log_once("the disk is full")
        return False

    monkeypatch.setattr(store, "atomic_write", full)
    with caplog.at_level(logging.WARNING):
        found = tune(toy.double, X, device=toys, budget=2)
    assert not found.kept and found.spec.wait < 8
    best = tuned.store_of(toys).best(SHAPE)
    assert best is not None and best.spec["wait"] == found.spec.wait
    assert len([record for record in caplog.records if "disk" in record.message]) <= 1


@pytest.mark.host
def test_the_budget_ends_a_search(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuner.Progress] = []
    monkeypatch.setattr(toy, "SPACE", [ToySpec(wait) for wait in range(8, 40)])
    found = tune(toy.double, X, device=toys, budget=0.6, progress=seen.append)
    assert 1 <= found.tried < 20 and len(seen) == found.tried - 1
    assert seen[0].tried == 1 and seen[0].ranked == 32 and 0 <= seen[-1].spent < 0.6 == seen[-1].budget


@pytest.mark.host
def test_the_callers_arrays_stay(toys: Any) -> None:
    out = np.full(10, 7, np.int64)
    tune(toy.double, X, device=toys, out=out, budget=0.1)
    assert (out == 7).all()
    both = X.copy()
    found = tune(toy.double, both, device=toys, out=both, again=True, budget=0.5)
    assert (both == X).all() and "wrong" in failures(found)


@pytest.mark.host
def test_what_cannot_be_tuned(toys: Any) -> None:
    for wrong, match in (
        (lambda: tune(len, [1]), "len cannot be tuned"),
        (lambda: tune(toy.double, X, device=toys, spec={"wait": 1}), "spec= is not accepted here"),
        (lambda: tune(toy.double, X[:0], device=toys), "this call of double cannot be tuned"),
        (lambda: tune(toy.unspecialized, X), "unspecialized has no specializations to tune"),
        (lambda: tune(pydp.forall, 3), "invalid arguments for forall: missing a required argument: 'fn'; grid, fn"),
        (lambda: tune(toy.double, X, device=toys, budget=0), "budget is 0; a positive number"),
        (lambda: tune(toy.double, X, device=toys, budget=True), "budget is True"),
    ):
        with pytest.raises(InvalidArgument, match=match):
            wrong()
    with pytest.raises(InvalidArgument, match=r"invalid arguments for double: .*'nonsense'.* are accepted"):
        tune(toy.double, X, device=toys, nonsense=1)
    assert (np.arange(10) == X).all()  # and nothing was run


def test_later_calls_choose_what_was_found(device: Any) -> None:
    rng = np.random.default_rng(0)
    a = pydp.field(rng.integers(-4, 5, (90, 70)).astype("f"), device=device)
    b = pydp.field(rng.integers(-4, 5, (70, 80)).astype("f"), device=device)
    found = tune(pydp.matmul, a, b, budget=1.0)
    again = tune(pydp.matmul, a, b)
    assert again.known and again.spec == found.spec and not tuner.journal_of(tuned.store_of(device)).trials()
    explanation = pydp.explain(pydp.matmul, a, b)
    assert explanation.facts["specialization"] == found.spec
    assert any(choice.startswith("tuned: measured") for choice in explanation.choices)
    np.testing.assert_array_equal(pydp.matmul(a, b).get(), a.get() @ b.get())
    tuned.clear(device)
    assert not any(choice.startswith("tuned") for choice in pydp.explain(pydp.matmul, a, b).choices)


@pytest.mark.parametrize(
    "name, args, kw",
    [
        ("scan", [np.arange(3000, dtype=np.int32)], {}),
        ("scan", [np.arange(3000, dtype=np.int32)], {"op": "max", "reverse": True, "strategy": "reduce_then_scan"}),
        ("reduce", [np.ones((50, 60), np.float32)], {"axis": 1}),
        ("sort", [np.arange(2000, dtype=np.int32)[::-1]], {}),
        ("transpose", [np.ones((30, 40), np.float32)], {}),
        ("histogram", [np.linspace(0, 1, 5000).astype("f")], {"bins": 16}),
    ],
)
def test_every_family_can_be_tuned(device: Any, name: str, args: list[Any], kw: dict[str, Any]) -> None:
    found = tune(getattr(pydp, name), *args, device=device, budget=0.3, **kw)
    assert found.shape.kernel == name and found.kept
    assert not [one for one in found.failures if "wrong result" in (one.failure or "")]
    again = tune(getattr(pydp, name), *args, device=device, **kw)
    assert again.known and again.spec == found.spec
