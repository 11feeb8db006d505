"""Tuning finds the fastest specialization with a right result, whatever the others do, and whenever it is stopped."""

from __future__ import annotations

import logging
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_tuning as toy
from toy_tuning import ToySpec

import pydp
from pydp.errors import InvalidArgument, OutOfResources
from pydp.specialize import store, trial, tuned, tuner
from pydp.specialize.shape_class import ShapeClass
from pydp.specialize.store import Trial
from pydp.specialize.tuner import Stuck, tune

X = np.arange(10, dtype=np.int64)
SHAPE = ShapeClass("toy", "int64", (16,))
STARTS = tuner._start(os.getpid()) is not None  # whether the system tells when a process began


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuned, "STARTER", tmp_path / "none")
    monkeypatch.setattr(tuner, "_FINAL_SECONDS", 0.2)
    monkeypatch.setattr(tuner, "_AGAIN_SECONDS", 0.05)
    toy.RUNS.clear()
    yield
    tuned._renewed()


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tuned, "about", toy.about)
    return toy.device()


def _failures(found: Any) -> dict[str, str]:
    return {trial.spec["mode"]: trial.failure for trial in found.failures}


@pytest.mark.host
def test_the_fastest_right_one_wins(toys: Any) -> None:
    found = tune(toy.double, X, device=toys, budget=20)
    assert found.spec.mode == "right" and found.spec.wait == 1  # by the climb: no candidate is as short
    assert 0.05 < found.ratio < 0.5 and found.kept and not found.known
    failures = _failures(found)
    assert failures["wrong"] == "wrong result: 10 of 10 elements are wrong, the first at (0,): 1 instead of 0" or (
        failures["wrong"].startswith("wrong result: 10 of 10 elements are wrong, the first at (0,): ")
    )
    assert failures["raises"] == "RuntimeError: no such instruction"
    kept = tuned.store_of(toys)
    best = kept.best(SHAPE)
    assert best is not None and tuned.rebuild(ToySpec, best.spec) == found.spec
    assert {one.failure for one in kept.trials(SHAPE)} == {None, *(one.failure for one in found.failures)}
    assert tuner.journal_of(kept).trials() == []


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
def test_calls_in_a_row_are_not_all_that_counts(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 ms a call, but 16 where each is waited for."""
    monkeypatch.setattr(trial, "_SAMPLE", 0.05)
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4, "late", 0.012)])
    monkeypatch.setattr(toy, "CLOSED", True)
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio, found.tried, found.failures) == (ToySpec(8), 1.0, 2, [])
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4, "late", 0.001)])
    assert tune(toy.double, X, device=toys, again=True).spec == ToySpec(4, "late", 0.001)


@pytest.mark.host
@pytest.mark.parametrize("measured, noise, wins", [(0.99, 0.0, False), (0.9, 0.2, False), (0.9, 0.05, True)])
def test_a_winner_is_ahead_by_more_than_noise(
    toys: Any, monkeypatch: pytest.MonkeyPatch, measured: float, noise: float, wins: bool
) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    monkeypatch.setattr(trial.Subject, "final", lambda self, specs, *_, **__: [(measured, noise) for _ in specs])
    found = tune(toy.double, X, device=toys)
    assert (found.spec, found.ratio) == ((ToySpec(4), measured) if wins else (ToySpec(8), 1.0))


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


@pytest.mark.host
def test_an_interrupted_search_goes_on(toys: Any) -> None:
    def stop(progress: tuner.Progress) -> None:
        if progress.tried == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(toy.double, X, device=toys, progress=stop)
    assert tuned.store_of(toys).best(SHAPE) is None
    tried = tuner.journal_of(tuned.store_of(toys)).trials(SHAPE)
    assert [one.spec["mode"] for one in tried if one.failure] == ["wrong"] and len(tried) == 2
    toy.RUNS.clear()
    found = tune(toy.double, X, device=toys, budget=20)
    assert ToySpec(2, "wrong") not in toy.RUNS and ToySpec(2, "raises") in toy.RUNS
    assert set(_failures(found)) == {"wrong", "raises"} and found.spec.wait == 1


@pytest.mark.host
def test_what_took_its_process_down_twice_is_not_tried_again(toys: Any) -> None:
    journal = tuner.journal_of(tuned.store_of(toys))
    fields = [tuned.fields_of(spec) for spec in (ToySpec(4), ToySpec(6))]
    journal.add([Trial(SHAPE, fields[0], None, "begun"), Trial(SHAPE, fields[1], None, "begun again")])
    found = tune(toy.double, X, device=toys, budget=20)
    assert ToySpec(4) in toy.RUNS and ToySpec(6) not in toy.RUNS
    assert [one.failure for one in found.failures if one.spec["wait"] == 6] == ["the process ended twice while it ran"]
    assert "begun" not in {one.failure for one in tuned.store_of(toys).trials()}


@pytest.mark.host
@pytest.mark.parametrize(
    "mark, tried",
    [
        ("begun by process {dead} of {here}", True),
        ("begun again by process {dead} of {here}", False),
        ("begun again by process {alive} of {here}", True),  # another tuner is at it
        ("begun again by process {me} of {here}", True),
        ("begun again by process {alive}-1 of {here}", not STARTS),  # a number that was given again
        ("begun again by process {unburied} of {here}", not STARTS),
        ("begun again by process {dead} of elsewhere", True),
        ("stopped", True),
    ],
)
def test_what_others_have_begun(toys: Any, mark: str, tried: bool) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    unburied = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert unburied.stdout is not None and not unburied.stdout.read()
    while tuner._start(unburied.pid) not in ("", None):
        time.sleep(0.01)
    me = f"{os.getpid()}-{tuner._start(os.getpid())}"
    text = mark.format(dead=ended.pid, alive=os.getppid(), unburied=unburied.pid, me=me, here=platform.node())
    tuner.journal_of(tuned.store_of(toys)).add([Trial(SHAPE, tuned.fields_of(ToySpec(4)), None, text)])
    found = tune(toy.double, X, device=toys, budget=20)
    unburied.communicate()
    assert (ToySpec(4) in toy.RUNS) == tried
    assert ("the process ended twice while it ran" in {one.failure for one in found.failures}) != tried


@pytest.mark.host
def test_what_another_process_finished_meanwhile_is_taken(toys: Any) -> None:
    journal = tuner.journal_of(tuned.store_of(toys))
    fields = tuned.fields_of(ToySpec(6))
    journal.add([Trial(SHAPE, fields, None, "begun again")])

    def finish(progress: tuner.Progress) -> None:
        journal.add([Trial(SHAPE, fields, 1.2)])

    found = tune(toy.double, X, device=toys, budget=20, progress=finish)
    assert ToySpec(6) not in toy.RUNS and set(_failures(found)) == {"wrong", "raises"}


@pytest.mark.host
def test_stopping_in_the_same_candidate_again_and_again(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    verify = trial.Subject.verify

    def stopped(self: Any, spec: ToySpec) -> None:
        if spec.wait == 4:
            raise KeyboardInterrupt
        verify(self, spec)

    with monkeypatch.context() as patch:
        patch.setattr(trial.Subject, "verify", stopped)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                tune(toy.double, X, device=toys, budget=20)
    toy.RUNS.clear()
    found = tune(toy.double, X, device=toys, budget=20)
    assert ToySpec(4) in toy.RUNS and set(_failures(found)) == {"wrong", "raises"}


@pytest.mark.host
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals cannot be sent to a thread there")
def test_stopping_waits_for_what_runs() -> None:
    late, ended = threading.Event(), []

    def work() -> None:
        time.sleep(0.2)  # until it is waited for
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert late.wait(5)
        time.sleep(0.1)
        ended.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # runs in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            trial.within(20, work, late)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended and not late.is_set()


@pytest.mark.host
def test_stopping_where_another_process_came_to_its_end(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tuner.journal_of(tuned.store_of(toys))
    found = Trial(SHAPE, tuned.fields_of(ToySpec(4)), 0.5)
    verify = trial.Subject.verify

    def stopped(self: Any, spec: ToySpec) -> None:
        if spec.wait == 4:
            journal.add([found])
            raise KeyboardInterrupt
        verify(self, spec)

    monkeypatch.setattr(trial.Subject, "verify", stopped)
    with pytest.raises(KeyboardInterrupt):
        tune(toy.double, X, device=toys, budget=20)
    assert found in journal.trials(SHAPE)


@pytest.mark.host
def test_a_journal_stays_where_its_result_cannot_be_kept(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = store.Store.settle
    monkeypatch.setattr(
        store.Store, "settle", lambda self, *words: self.path.parent.name != "tuned" and settle(self, *words)
    )
    assert not tune(toy.double, X, device=toys, budget=20).kept
    tried = tuner.journal_of(tuned.store_of(toys)).trials(SHAPE)
    assert {one.spec["mode"] for one in tried} == {"right", "wrong", "raises"}


@pytest.mark.host
def test_what_is_tuned_but_cannot_run_is_tuned_again(toys: Any) -> None:
    tuned.store_of(toys).add([Trial(SHAPE, {"wait": 1000, "mode": "right", "seconds": 0.0}, 0.5)])
    found = tune(toy.double, X, device=toys, budget=1)
    assert not found.known and found.spec.wait <= 64


@pytest.mark.host
def test_a_wrong_result_at_another_size_is_noted(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(2), ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    verify = trial.Subject.verify

    def wrong(self: Any, spec: ToySpec) -> None:
        if spec.wait == 2 and self.args[0].size != X.size:
            raise trial.WrongResult("wrong result: 1 of 9 elements")
        verify(self, spec)

    monkeypatch.setattr(trial.Subject, "verify", wrong)
    found = tune(toy.double, X, device=toys)
    assert found.spec == ToySpec(4) and [one.spec["wait"] for one in found.failures] == [2]
    assert found.failures[0].failure == "at another size of the class: wrong result: 1 of 9 elements"


@pytest.mark.host
@pytest.mark.parametrize("seconds, stuck", [(0.9, False), (4.0, True)])
def test_one_that_takes_too_long(toys: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, stuck: bool) -> None:
    hanging = ToySpec(2, "hangs", seconds)
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), hanging, ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    prepare = trial.Subject.prepare

    def short(self: Any, baseline: Any) -> None:
        prepare(self, baseline)
        self.limit = 0.6

    monkeypatch.setattr(trial.Subject, "prepare", short)
    if stuck:
        with pytest.raises(Stuck, match=r"no result within 0\.6 s and still runs; start again"):
            tune(toy.double, X, device=toys)
        for thread in threading.enumerate():
            if thread.name == "pydp-trial":
                thread.join()
        toy.RUNS.clear()
    found = tune(toy.double, X, device=toys)
    assert found.spec == ToySpec(4) and [one.failure for one in found.failures] == ["no result within 0.6 s"]
    assert toy.RUNS.count(hanging) == (0 if stuck else 1)  # and never again


@pytest.mark.host
def test_the_callers_arrays_stay(toys: Any) -> None:
    out = np.full(10, 7, np.int64)
    tune(toy.double, X, device=toys, out=out, budget=0.1)
    assert (out == 7).all()
    both = X.copy()
    found = tune(toy.double, both, device=toys, out=both, again=True, budget=0.5)
    assert (both == X).all() and "wrong" in _failures(found)


@pytest.mark.host
def test_the_budget_ends_a_search(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuner.Progress] = []
    monkeypatch.setattr(toy, "SPACE", [ToySpec(wait) for wait in range(8, 40)])
    found = tune(toy.double, X, device=toys, budget=0.6, progress=seen.append)
    assert 1 <= found.tried < 20 and len(seen) == found.tried - 1
    assert seen[0].tried == 1 and seen[0].ranked == 32 and 0 <= seen[-1].spent < 0.6 == seen[-1].budget


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
def test_what_cannot_be_tuned(toys: Any) -> None:
    for wrong, match in (
        (lambda: tune(len, [1]), "len cannot be tuned"),
        (lambda: tune(toy.double, X, device=toys, spec={"wait": 1}), "spec= is what tuning looks for"),
        (lambda: tune(toy.double, X[:0], device=toys), "this call of double has nothing to choose"),
        (lambda: tune(toy.unspecialized, X), "unspecialized has no specializations to choose from"),
        (lambda: tune(toy.double, X, device=toys, budget=0), "budget is 0; a positive number"),
        (lambda: tune(toy.double, X, device=toys, budget=True), "budget is True"),
    ):
        with pytest.raises(InvalidArgument, match=match):
            wrong()
    with pytest.raises(TypeError, match="nonsense"):  # what is wrong with the call itself
        tune(toy.double, X, device=toys, nonsense=1)


@pytest.mark.host
def test_a_wrong_default_is_told(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trial.reference._BY_NAME, "double", lambda x: [trial.reference.Expected(3 * x)])
    with pytest.raises(trial.WrongResult, match="untuned result of double is not NumPy's, so nothing is tuned: 9 of"):
        tune(toy.double, X, device=toys)


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


@pytest.mark.host
def test_a_winner_is_not_slower_at_other_sizes_of_its_class(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), ToySpec(2), ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    sizes: list[int] = []

    def final(self: Any, specs: Any, *_: Any, **__: Any) -> list[tuple[float, float]]:
        size = self.args[0].size
        sizes.append(size)
        return [(1.5 if size == 13 and spec.wait == 2 else spec.wait / 8, 0.0) for spec in specs]

    monkeypatch.setattr(trial.Subject, "final", final)
    x = np.arange(12, dtype=np.int64)
    found = tune(toy.double, x, device=toys, out=np.zeros(12, np.int64))
    assert (found.spec, found.ratio) == (ToySpec(4), 0.5) and {9, 12, 13} == set(sizes)


def test_calls_at_other_sizes(device: Any) -> None:
    a, b = np.ones((12, 100), np.float32), np.ones((100, 5), np.float32)
    subject = trial.Subject(pydp.matmul, (pydp.field(a, device=device), b), {"device": device})
    other = trial.resized(subject, 0.8)
    assert other is not None and [one.shape for one in other.args] == [(13, 103), (103, 5)]
    np.testing.assert_array_equal(np.asarray(other.run()), np.full((13, 5), 103, np.float32))
