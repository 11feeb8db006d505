"""A winner is ahead by more than noise, and slower neither at other sizes nor where each call is waited for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import toy_tuning as toy
from toy_tuning import SHAPE, ToySpec, X

import pydp
from pydp.errors import OutOfResources
from pydp.specialize import trial, tuned, tuner
from pydp.specialize.comparison import Ratio
from pydp.specialize.store import Store, Trial
from pydp.specialize.tuner import tune


@pytest.mark.host
def test_the_default_is_kept_where_nothing_beats_it(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(16)])
    monkeypatch.setattr(toy, "CLOSED", True)
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio, found.tried) == (ToySpec(8), 1.0, 2)
    best = tuned.store_of(toys).best(SHAPE)
    assert best is not None and best.ratio == 1.0
    chosen = tuned.provide(toy.FAMILY, toys, toy.Problem("toy", "int64", (12,)))
    assert chosen is not None and chosen[0] == ToySpec(8) and "nothing beats the default's choice" in chosen[1]


@pytest.mark.host
@pytest.mark.parametrize("measured, noise, wins", [(0.99, 0.0, False), (0.9, 0.2, False), (0.9, 0.05, True)])
def test_a_winner_is_ahead_by_more_than_noise(
    toys: Any, monkeypatch: pytest.MonkeyPatch, measured: float, noise: float, wins: bool
) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(
        trial.Subject, "final", lambda self, specs, *_: [Ratio(measured, measured, noise) for _ in specs]
    )
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio) == ((ToySpec(4), measured) if wins else (ToySpec(8), 1.0))


@pytest.mark.host
def test_short_calls_count_by_the_worse_of_both_ways(toys: Any, exact: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 ms a call, but more where each is waited for: 16 are slower than the untuned choice's 8, 5 are faster."""
    monkeypatch.setattr(trial, "_SAMPLE", 0.05)
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4, "late", 0.012)])
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio, found.tried, found.failures) == (ToySpec(8), 1.0, 2, [])
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4, "late", 0.003), ToySpec(5), ToySpec(4, "late", 0.002)])
    found = tune(toy.double, X, device=toys, again=True)
    assert found.spec == ToySpec(5) and found.ratio == pytest.approx(5 / 8)


@pytest.mark.host
def test_a_winner_is_not_slower_at_other_sizes_of_its_class(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(2), ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    sizes: list[int] = []

    def final(self: Any, specs: Any, *_: Any) -> list[Ratio]:
        size = self.args[0].size
        sizes.append(size)
        return [Ratio(spec.wait / 8, 1.5 if size == 13 and spec.wait == 2 else spec.wait / 8, 0.0) for spec in specs]

    monkeypatch.setattr(trial.Subject, "final", final)
    x = np.arange(12, dtype=np.int64)
    found = tune(toy.double, x, device=toys, out=np.zeros(12, np.int64))
    assert (found.spec, found.ratio) == (ToySpec(4), 0.5) and {9, 12, 13} == set(sizes)


@pytest.mark.host
def test_where_the_fastest_are_slower_elsewhere_the_next_ones_are_looked_at(
    toys: Any, exact: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [ToySpec(2 + extra, "here", 0.06) for extra in range(9)]
    monkeypatch.setattr(toy, "SPACE", [ToySpec(16), *here, ToySpec(12)])
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(toy, "FAMILY", replace(toy.FAMILY, default=lambda *_: ToySpec(16)))
    found = tune(toy.double, X, device=toys)
    assert found.spec == ToySpec(12) and found.ratio == pytest.approx(12 / 16)


@pytest.mark.host
@pytest.mark.parametrize("again", [False, True])
def test_what_another_process_found_meanwhile_is_kept(
    toys: Any, exact: None, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """One with more time, for example; what had been found before a search that is to be done again goes."""
    store = Store(tuned.store_of(toys).name, toy.about(toys))
    if again:
        store.add([Trial(SHAPE, tuned.fields_of(ToySpec(3)), 0.1)])
    theirs = Trial(SHAPE, tuned.fields_of(ToySpec(4)), 0.5)
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(16), ToySpec(4)])
    monkeypatch.setattr(toy, "FAMILY", replace(toy.FAMILY, space=lambda *_: [ToySpec(8), ToySpec(16)]))
    monkeypatch.setattr(tuner, "neighbourhood", lambda *_: lambda spec: [])
    found = tune(toy.double, X, device=toys, again=again, progress=lambda now: store.add([theirs]))
    assert (found.spec, found.ratio) == (ToySpec(4), 0.5) and tuned.store_of(toys).best(SHAPE) == theirs


@pytest.mark.host
@pytest.mark.parametrize("error", [OutOfResources("no room"), MemoryError()])
def test_other_sizes_that_do_not_fit_spoil_nothing(
    toys: Any, monkeypatch: pytest.MonkeyPatch, error: MemoryError
) -> None:
    prepare = trial.Subject.prepare

    def full(self: Any, baseline: ToySpec) -> None:
        if self.args[0].size > X.size:
            raise error
        prepare(self, baseline)

    monkeypatch.setattr(trial.Subject, "prepare", full)
    found = tune(toy.double, X, device=toys, budget=20)
    assert found.spec.mode == "right" and found.spec.wait == 1 and found.kept


def test_calls_at_other_sizes(device: Any) -> None:
    a, b = np.ones((12, 100), np.float32), np.ones((100, 5), np.float32)
    subject = trial.Subject(pydp.matmul, (pydp.field(a, device=device), b), {"device": device})
    other = trial.resized(subject, 0.8)
    assert other is not None and [one.shape for one in other.args] == [(13, 103), (103, 5)]
    np.testing.assert_array_equal(np.asarray(other.run()), np.full((13, 5), 103, np.float32))


@pytest.mark.host
def test_races_of_short_calls_take_more_rounds(toys: Any, exact: None) -> None:
    """They scatter most."""
    subject = trial.Subject(toy.double, (X,), {"device": toys})
    runs = {}
    for wait in (1, 8):
        subject.prepare(ToySpec(wait))
        toy.RUNS.clear()
        subject.race(ToySpec(wait), ToySpec(wait))
        runs[wait] = len(toy.RUNS)
    assert runs[8] == 2 * trial._ROUNDS and runs[1] == 400  # 0.4 s, half of it in a row
