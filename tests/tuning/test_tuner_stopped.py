"""A search may be stopped at any moment, or its process die: the next one goes on where it was."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import toy_tuning as toy
from toy_tuning import SHAPE, ToySpec, X, failures

from pydp.tuning import store, trial, tuned, tuner
from pydp.tuning.store import Trial, Unfinished
from pydp.tuning.tuner import tune

pytestmark = pytest.mark.host

HERE = platform.node()
STARTS = tuner._start(os.getpid()) is not None  # whether the system tells when a process began


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
    assert set(failures(found)) == {"wrong", "raises"} and found.spec.wait == 1


def test_what_took_its_process_down_twice_is_not_tried_again(toys: Any) -> None:
    journal = tuner.journal_of(tuned.store_of(toys))
    fields = [tuned.fields_of(spec) for spec in (ToySpec(4), ToySpec(6))]
    journal.add(Trial(SHAPE, one, None, unfinished=Unfinished(ended)) for ended, one in enumerate(fields, 1))
    found = tune(toy.double, X, device=toys, budget=20)
    assert ToySpec(4) in toy.RUNS and ToySpec(6) not in toy.RUNS
    assert [one.failure for one in found.failures if one.spec["wait"] == 6] == ["the process ended twice while it ran"]
    assert not any(one.unfinished for one in tuned.store_of(toys).trials())


@pytest.mark.parametrize(
    ("ended", "which", "start", "machine", "tried"),
    [
        (0, "dead", None, HERE, True),
        (1, "dead", None, HERE, False),
        (1, "alive", None, HERE, True),  # another tuner is at it
        pytest.param(1, "me", tuner._start(os.getpid()), HERE, True, id="the same start"),
        (1, "alive", "1", HERE, not STARTS),  # an id that was given again
        (1, "unburied", None, HERE, not STARTS),
        (1, "dead", None, "elsewhere", True),
        (0, "nobody", None, "", True),  # stopped
    ],
)
def test_what_others_have_begun(
    toys: Any, ended: int, which: str, start: str | None, machine: str, tried: bool
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    unburied = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert unburied.stdout is not None and not unburied.stdout.read()
    while tuner._start(unburied.pid) not in ("", None):
        time.sleep(0.01)
    processes = {"dead": dead.pid, "alive": os.getppid(), "me": os.getpid(), "unburied": unburied.pid}
    begun = Unfinished(ended, processes.get(which), start, machine)
    journal = tuner.journal_of(tuned.store_of(toys))
    journal.add([Trial(SHAPE, tuned.fields_of(ToySpec(4)), None, unfinished=begun)])
    found = tune(toy.double, X, device=toys, budget=20)
    unburied.communicate()
    assert (ToySpec(4) in toy.RUNS) == tried
    assert ("the process ended twice while it ran" in {one.failure for one in found.failures}) != tried


def test_what_another_process_finished_meanwhile_is_taken(toys: Any) -> None:
    journal = tuner.journal_of(tuned.store_of(toys))
    fields = tuned.fields_of(ToySpec(6))
    journal.add([Trial(SHAPE, fields, None, unfinished=Unfinished(2))])

    def finish(progress: tuner.Progress) -> None:
        journal.add([Trial(SHAPE, fields, 1.2)])

    found = tune(toy.double, X, device=toys, budget=20, progress=finish)
    assert ToySpec(6) not in toy.RUNS and set(failures(found)) == {"wrong", "raises"}


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
    assert ToySpec(4) in toy.RUNS and set(failures(found)) == {"wrong", "raises"}


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows cannot send a signal to a thread")
def test_stopping_waits_for_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    late, waiting, again = threading.Event(), threading.Event(), threading.Event()
    stopped, ended = [], []

    def work() -> None:
        assert waiting.wait(300)
        while not late.wait(0.01):  # a signal that comes just before a thread begins to wait is not seen until it ends
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert again.wait(300)
        ended.append(True)

    def waited(end: threading.Event, seconds: float) -> bool:
        (again if waiting.is_set() else waiting).set()
        return end.wait(300)

    def stop(*_: object) -> None:
        if not stopped:
            stopped.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(trial, "_waited", waited)
    before = signal.signal(signal.SIGINT, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            trial.within(20, work, late)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended and not late.is_set()


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


def test_a_journal_stays_where_its_result_cannot_be_kept(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = store.Store.replace_class
    monkeypatch.setattr(
        store.Store, "replace_class", lambda self, *words: self.path.parent.name != "tuned" and replace(self, *words)
    )
    assert not tune(toy.double, X, device=toys, budget=20).kept
    tried = tuner.journal_of(tuned.store_of(toys)).trials(SHAPE)
    assert {one.spec["mode"] for one in tried} == {"right", "wrong", "raises"}
