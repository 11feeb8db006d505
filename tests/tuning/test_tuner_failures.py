"""Candidates that give wrong results or take too long cannot win: they are stored with the reason and not retried."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import toy_tuning as toy
from toy_tuning import ToySpec, X

from pydp.tuning import trial
from pydp.tuning.tuner import Stuck, tune

pytestmark = pytest.mark.host


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


def test_a_wrong_default_is_told(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy.double, "__pydp_reference__", lambda x: [trial.reference.Expected(3 * x)], raising=False)
    with pytest.raises(trial.WrongResult, match="double differs from NumPy's, so it is not tuned: 9 of"):
        tune(toy.double, X, device=toys)


@pytest.mark.parametrize("stuck", [False, True])
def test_one_that_takes_too_long(toys: Any, monkeypatch: pytest.MonkeyPatch, stuck: bool) -> None:
    """The tuner waits twice: after the first timeout, it asks the candidate to stop."""
    hanging = ToySpec(2, "hangs")
    limits: list[float] = []

    def waited(ended: threading.Event, seconds: float) -> bool:
        """Only a candidate that hangs does not end in time."""
        while not ended.wait(0.001):
            if toy.HANGS.is_set():
                limits.append(seconds)
                if len(limits) == 2 and not stuck:
                    toy.RELEASED.set()
                    return ended.wait()
                return False
        return True

    monkeypatch.setattr(trial, "_waited", waited)
    monkeypatch.setattr(toy, "HANGS", threading.Event())
    monkeypatch.setattr(toy, "RELEASED", threading.Event())
    monkeypatch.setattr(toy, "SPACE", [ToySpec(8), hanging, ToySpec(4)])
    monkeypatch.setattr(toy, "CLOSED", True)
    if stuck:
        with pytest.raises(Stuck, match=r"no result within 300 s, and it is still running; start the process again"):
            tune(toy.double, X, device=toys)
        toy.RELEASED.set()
        for thread in threading.enumerate():
            if thread.name == "pydp-trial":
                thread.join()
        toy.HANGS.clear()
        toy.RUNS.clear()
    found = tune(toy.double, X, device=toys)
    assert found.spec == ToySpec(4) and [one.failure for one in found.failures] == ["no result within 300 s"]
    assert limits == [pytest.approx(300.4)] * 2  # LIMIT and 50 calls of 8 ms
    assert toy.RUNS.count(hanging) == (0 if stuck else 1)  # and never again
