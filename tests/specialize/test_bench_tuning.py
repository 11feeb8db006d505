"""The best of all candidates is judged as the tuner judges: not by calls in a row alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
import toy_tuning as toy
from pydp.bench import bench_tuning
from toy_tuning import SHAPE, ToySpec, X

import pydp
from pydp.specialize import trial, tuned
from pydp.specialize.store import Trial

pytestmark = pytest.mark.host


@pytest.fixture
def measured(toys: Any, exact: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures the toy's specializations, after so much was tuned."""
    monkeypatch.setattr(pydp, "toy", toy.double, raising=False)
    monkeypatch.setattr(bench_tuning, "arguments", lambda *_: ([X], {"device": toys}))
    monkeypatch.setattr(trial, "_SAMPLE", 0.05)
    monkeypatch.setattr(toy, "CLOSED", True)
    for name in ("_SECONDS", "_JUDGED", "_WAITED"):
        monkeypatch.setattr(bench_tuning, name, 0.2)

    def row(space: list[ToySpec], winner: ToySpec, ratio: float) -> Any:
        monkeypatch.setattr(toy, "SPACE", space)
        tuned.store_of(toys).add([Trial(SHAPE, tuned.fields_of(winner), ratio)])
        return bench_tuning.measured(toys, "toy", "10", "int64")

    return row


@pytest.mark.parametrize(
    ("mode", "faster", "slower", "where"),
    [("late", 0.95, 1.5, "where waited for"), ("here", 0.6, 1.3, "at 0.55 of the class's largest size")],
)
def test_what_is_faster_in_one_way_alone_is_no_rival_but_named(
    measured: Any, mode: str, faster: float, slower: float, where: str
) -> None:
    """4 ms a call, but 16 where each is waited for; or 4 ms at this size, but 12 at others."""
    row = measured([ToySpec(8), ToySpec(4, mode, 0.012)], ToySpec(8), 1.0)
    assert row.ratios == {"untuned": pytest.approx(1, abs=0.1), "best of all": 1.0}
    told = re.fullmatch(
        f"2 candidates, wait=4 mode={mode} seconds=0.012 takes (.*) of the tuned time, "
        f"but takes (.*) of the untuned time {where}",
        row.notes,
    )
    assert told is not None and float(told[1]) < faster and float(told[2]) > slower


def test_what_tuning_missed_counts(measured: Any) -> None:
    row = measured([ToySpec(8), ToySpec(4), ToySpec(16, "wrong")], ToySpec(8), 1.0)
    assert row.ratios["best of all"] == pytest.approx(0.5, abs=0.1)
    assert row.notes == "2 candidates, 1 failed, the best is wait=4"


def test_a_tuned_choice_that_is_slower_where_waited_for_is_named(measured: Any) -> None:
    late = ToySpec(4, "late", 0.012)
    row = measured([ToySpec(8), late], late, 0.5)
    assert row.ratios["best of all"] == 1.0 and row.ratios["untuned"] > 1.2
    told = re.fullmatch("2 candidates, the tuned one takes (.*) of the untuned time where waited for", row.notes)
    assert told is not None and float(told[1]) > 1.5
