"""The best of all candidates is judged as the tuner judges: not by calls in a row alone."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import toy_tuning as toy
from pydp.bench import bench_tuning
from toy_tuning import SHAPE, ToySpec, X

from pydp.tuning import trial, tuned
from pydp.tuning.store import Trial

pytestmark = pytest.mark.host


@pytest.fixture
def measured(toys: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures the toy's specializations, after so much was tuned."""
    monkeypatch.setattr(bench_tuning, "algorithms", lambda: {"toy": SimpleNamespace(function=toy.double)})
    monkeypatch.setattr(bench_tuning, "arguments", lambda *_: ([X], {"device": toys}))
    monkeypatch.setattr(trial, "_SAMPLE", 0.05)
    monkeypatch.setattr(toy, "CLOSED", True)
    for name in ("_SECONDS", "_JUDGED", "_ELSEWHERE"):
        monkeypatch.setattr(bench_tuning, name, 0.2)

    def row(space: list[ToySpec], winner: ToySpec, ratio: float) -> Any:
        monkeypatch.setattr(toy, "SPACE", space)
        tuned.store_of(toys).add([Trial(SHAPE, tuned.fields_of(winner), ratio)])
        return bench_tuning.measured(toys, "toy", "10", "int64")

    return row


def test_candidates_that_are_faster_only_back_to_back_are_excluded_but_named(measured: Any) -> None:
    """4 ms a call, but 16 where waited for."""
    row = measured([ToySpec(8), ToySpec(4, "late", 0.012)], ToySpec(8), 1.0)
    assert row.ratios == {"untuned": 1.0, "best of all": 1.0}
    told = re.fullmatch(
        "2 candidates, wait=4 mode=late seconds=0.012 takes (.*) of the tuned time back to back, "
        "but (.*) of it one at a time",
        row.notes,
    )
    assert told is not None and float(told[1]) < 0.8 and float(told[2]) == 2


def test_candidates_that_are_faster_at_one_size_only_are_excluded_but_named(measured: Any) -> None:
    """4 ms a call, but 12 at other sizes."""
    row = measured([ToySpec(8), ToySpec(4, "here", 0.012)], ToySpec(8), 1.0)
    assert row.ratios == {"untuned": 1.0, "best of all": 1.0}
    assert row.notes == (
        "2 candidates, wait=4 mode=here seconds=0.012 takes 0.500 of the tuned time, "
        "but takes 1.500 of the untuned time at 0.55 of the class's largest size"
    )


def test_what_tuning_missed_counts(measured: Any) -> None:
    row = measured([ToySpec(8), ToySpec(4), ToySpec(16, "wrong")], ToySpec(8), 1.0)
    assert row.ratios["best of all"] == pytest.approx(0.5, abs=0.1)
    assert row.notes == "2 candidates, 1 failed, the best is wait=4"


def test_the_worse_of_both_ways_counts_for_the_best(measured: Any) -> None:
    """4 ms a call and 7 where waited for are no better than 7."""
    row = measured([ToySpec(8), ToySpec(4, "late", 0.003), ToySpec(7)], ToySpec(7), 7 / 8)
    assert row.ratios == {"untuned": pytest.approx(8 / 7), "best of all": 1.0}
    told = re.fullmatch(
        "3 candidates, wait=4 mode=late seconds=0.003 takes (.*) of the tuned time back to back, "
        "but 1.000 of it one at a time",
        row.notes,
    )
    assert told is not None and float(told[1]) < 0.7


def test_the_two_that_are_fastest_in_a_row_alone_are_named(measured: Any) -> None:
    """3, 4 and 5 ms a call in a row, near the tuned 7 or far behind it where each is waited for; not 6, nor the untuned
    choice, which is in neither."""
    late = [ToySpec(5, "late", 0.0025), ToySpec(4, "late", 0.02), ToySpec(3, "late", 0.0045), ToySpec(6, "late", 0.03)]
    row = measured([ToySpec(8), ToySpec(7), *late], ToySpec(7), 7 / 8)
    assert row.ratios == {"untuned": pytest.approx(8 / 7), "best of all": 1.0}
    assert re.findall("wait=(.) mode=late seconds=(.*?) takes", row.notes) == [("3", "0.0045"), ("5", "0.0025")]
    assert row.notes.startswith("6 candidates, wait=3") and row.notes.count("takes") == 2


def test_candidates_near_the_tuned_choice_are_compared_again(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first four by the worse of both ratios, and the untuned choice."""
    finalists: list[list[Any]] = []
    judged = bench_tuning._judged
    monkeypatch.setattr(bench_tuning, "_judged", lambda *given: (finalists.append(given[1]), judged(*given))[1])
    monkeypatch.setattr(trial, "_SAMPLE", 0.2)
    monkeypatch.setattr(toy, "FAMILY", replace(toy.FAMILY, default=lambda *_: ToySpec(62)))
    late = [ToySpec(3, "late", 0.06), ToySpec(40, "late", 0.0202)]
    row = measured([*late, *map(ToySpec, (62, 60, 59, 58, 57, 56, 55))], ToySpec(55), 55 / 62)
    assert finalists[0] == list(map(ToySpec, (55, 62, 56, 57, 58, 59)))
    assert row.ratios["best of all"] == 1.0


def test_a_tuned_choice_that_is_slower_where_waited_for_shows(measured: Any) -> None:
    late = ToySpec(4, "late", 0.012)
    row = measured([ToySpec(8), late], late, 0.5)
    assert row.ratios == {"untuned": pytest.approx(0.5), "best of all": pytest.approx(0.5)}
    late_too = "the tuned one takes 2.000 of the untuned time at 0.55 of the class's largest size"
    assert row.notes == f"2 candidates, the best is the untuned one, {late_too}"


def test_a_tuned_choice_that_is_slower_at_other_sizes_is_named(measured: Any) -> None:
    here = ToySpec(4, "here", 0.012)
    row = measured([ToySpec(8), here], here, 0.5)
    assert row.ratios == {"untuned": pytest.approx(2), "best of all": 1.0}
    assert row.notes == (
        "2 candidates, the tuned one takes 1.500 of the untuned time at 0.55 of the class's largest size"
    )
