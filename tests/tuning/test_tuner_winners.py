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
from pydp.tuning import comparison, trial, tuned, tuner
from pydp.tuning.comparison import Ratio
from pydp.tuning.store import Store, Trial
from pydp.tuning.tuner import tune


@pytest.mark.host
def test_the_default_is_kept_where_nothing_beats_it(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(16)])
    monkeypatch.setattr(toy, "CLOSED", True)
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio, found.tried) == (ToySpec(8), 1.0, 2)
    best = tuned.store_of(toys).best(SHAPE)
    assert best is not None and best.ratio == 1.0
    chosen = tuned.provide(toy.FAMILY, toys, toy.ToyProblem("int64", 12))
    assert chosen is not None and chosen[0] == ToySpec(8) and "nothing beats the default's choice" in chosen[1]


@pytest.mark.host
@pytest.mark.parametrize(
    "measured, wins",
    [
        (Ratio(0.99, 0.99), False),
        (Ratio(0.5, 0.99), False),
        (Ratio(0.9, 0.9, (0.2, 0.2)), False),
        (Ratio(0.9, 0.91, (0.2, 0.0)), False),
        (Ratio(0.9, 0.9, (0.05, 0.05)), True),
        (Ratio(0.7, 0.9), True),
    ],
)
def test_a_winner_is_ahead_by_more_than_noise(
    toys: Any, monkeypatch: pytest.MonkeyPatch, measured: Ratio, wins: bool
) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)

    def final(self: Any, specs: Any, baseline: Any, seconds: float) -> list[Ratio]:
        return [measured if seconds == tuner._FINAL_SECONDS else Ratio(0.5, 0.5) for _ in specs]

    monkeypatch.setattr(trial.Subject, "final", final)
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio) == ((ToySpec(4), 0.9) if wins else (ToySpec(8), 1.0))


@pytest.mark.host
def test_races_are_against_the_untuned_choice_and_go_by_the_best_so_far(
    toys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that wins is timed again with the best so far. The new ratios of both count, and may lose."""
    raced = {4: Ratio(0.5, 0.9), 6: Ratio(0.5, 0.95), 5: Ratio(0.9, 0.7), 7: Ratio(0.99, 0.9), 3: Ratio(1.5, 0.5)}
    again = iter([[Ratio(0.6, 0.92)], [Ratio(1.05, 0.5), Ratio(0.5, 1.02)], [Ratio(0.97, 0.6)]])
    last = {6: Ratio(0.5, 1.005), 7: Ratio(0.9, 0.98)}
    asked: list[tuple[int, int, float]] = []
    finals: list[list[int]] = []

    def race(self: Any, spec: ToySpec, baseline: ToySpec, best: float) -> Ratio:
        asked.append((spec.wait, baseline.wait, best))
        return raced[spec.wait]

    def final(self: Any, specs: list[ToySpec], baseline: ToySpec, seconds: float) -> list[Ratio]:
        assert baseline == ToySpec(8)
        finals.append([spec.wait for spec in specs])
        return next(again, None) or [last[spec.wait] for spec in specs]

    monkeypatch.setattr(toy, "SPACE", [ToySpec(wait) for wait in (8, *raced)])
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(trial.Subject, "race", race)
    monkeypatch.setattr(trial.Subject, "final", final)
    shown: list[float] = []
    found = tune(toy.double, X, device=toys, progress=lambda now: shown.append(now.best))
    assert asked == [(4, 8, 1.0), (6, 8, 0.92), (5, 8, 0.92), (7, 8, 1.0), (3, 8, 0.97)]
    assert shown == [best for _, _, best in asked]
    assert finals == [[4], [5, 4], [7], [6, 7], [6, 7], [6, 7]]
    assert (found.spec, found.ratio) == (ToySpec(7), 0.98)


@pytest.mark.host
def test_short_calls_count_by_the_worse_of_both_ways(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
        return [Ratio(spec.wait / 8, 1.5 if size == 13 and spec.wait == 2 else spec.wait / 8) for spec in specs]

    monkeypatch.setattr(trial.Subject, "final", final)
    x = np.arange(12, dtype=np.int64)
    found = tune(toy.double, x, device=toys, out=np.zeros(12, np.int64))
    assert (found.spec, found.ratio) == (ToySpec(4), 0.5) and {9, 12, 13} == set(sizes)


@pytest.mark.host
def test_where_the_fastest_are_slower_elsewhere_the_next_ones_are_looked_at(
    toys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [ToySpec(2 + extra, "here", 0.06) for extra in range(9)]
    monkeypatch.setattr(toy, "SPACE", [ToySpec(16), *here, ToySpec(12)])
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(toy, "FAMILY", replace(toy.FAMILY, default=lambda *_: ToySpec(16)))
    found = tune(toy.double, X, device=toys)
    assert found.spec == ToySpec(12) and found.ratio == pytest.approx(12 / 16)


@pytest.mark.host
@pytest.mark.parametrize("again", [False, True])
def test_what_another_process_found_meanwhile_is_kept(toys: Any, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    """A search with more time, for example. A repeated search removes the earlier results."""
    store = Store(tuned.store_of(toys).name, toy.device_info(toys))
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
def test_races_of_short_calls_take_more_rounds(toys: Any) -> None:
    """They scatter most."""
    subject = trial.Subject(toy.double, (X,), {"device": toys})
    runs = {}
    for wait in (1, 8):
        subject.prepare(ToySpec(wait))
        toy.RUNS.clear()
        subject.race(ToySpec(wait), ToySpec(wait))
        runs[wait] = len(toy.RUNS)
    # Two calls per sample, one of them timed; three calls per sample of short calls, in both modes, for 0.4 s.
    assert runs[8] == 2 * 2 * trial._ROUNDS and runs[1] == 34 * 2 * 2 * 3


@pytest.mark.host
def test_what_another_one_left_is_not_timed(toys: Any) -> None:
    """Caches, for example: 4 ms a call, but 12 after another one's; where calls are long, caches hold nothing."""
    subject = trial.Subject(toy.double, (X,), {"device": toys})
    for wait, taken in ((8, 4), (24, 12)):
        subject.prepare(ToySpec(wait))
        found = subject.final([ToySpec(4, "after", 0.012)], ToySpec(wait), 10.0)
        assert found[0].in_a_row == pytest.approx(taken / wait)


@pytest.mark.host
@pytest.mark.parametrize(
    "spec, best, rounds",
    [
        (ToySpec(6), 1.0, 7),
        (ToySpec(6), 0.5, 2),  # far behind the best so far, though faster than the baseline
        (ToySpec(12), 1.0, 2),
        (ToySpec(10, "long", 0.39), 60.0, 3),  # long ones are raced for a second
    ],
)
def test_races_end_soon_for_who_is_behind_or_long(
    toys: Any, monkeypatch: pytest.MonkeyPatch, spec: ToySpec, best: float, rounds: int
) -> None:
    taken: list[int] = []

    def counted(*given: Any, **options: Any) -> Any:
        for number, times in enumerate(comparison.rounds(*given, **options), 1):
            taken.append(number)
            yield times

    monkeypatch.setattr(trial, "rounds", counted)
    subject = trial.Subject(toy.double, (X,), {"device": toys})
    subject.prepare(ToySpec(8))
    subject.race(spec, ToySpec(8), best)
    assert taken == list(range(1, rounds + 1))
