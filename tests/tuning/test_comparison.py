"""Times are compared in turns; short calls count by the worse of two ways, in a row and each waited for."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pydp.tuning.comparison import Ratio, hopeless, ratios, rounds, slower

pytestmark = pytest.mark.host


def _after(count: int, seconds: Any, specs: str, short: bool) -> Any:
    """The samples after `count` rounds."""
    return next(itertools.islice(rounds(seconds, specs, short), count - 1, None))


@pytest.mark.parametrize("short", [False, True])
def test_everyone_is_sampled_once_a_round_in_any_order(short: bool) -> None:
    """No candidate always follows the same one, or is more often early in a round than late."""
    seen: list[tuple[str, bool]] = []
    times = _after(60, lambda spec, waited: float(seen.append((spec, waited)) or len(seen)), "abc", short)
    ways = [False, True] if short else [False]
    rounds_ = [seen[first : first + 3] for first in range(0, len(seen), 3)]
    assert [one[0][1] for one in rounds_] == ways * 60
    assert all(sorted(one) == [(spec, one[0][1]) for spec in "abc"] for one in rounds_)
    assert {"".join(spec for spec, _ in one) for one in rounds_} == set(map("".join, itertools.permutations("abc")))
    for way, own in zip(ways, times, strict=True):
        for spec, samples in zip("abc", own, strict=True):
            assert samples == [place for place, turn in enumerate(seen, 1) if turn == (spec, way)]
    for way in ways:
        mine = [[spec for spec, _ in one] for one in rounds_ if one[0][1] == way]
        assert all(early == late[::-1] for early, late in zip(mine[::2], mine[1::2], strict=True))


def test_the_worse_way_counts() -> None:
    seconds = {"a": (2.0, 10.0), "b": (1.0, 11.0), "c": (3.0, 5.0), "d": (1.0, 9.0)}
    times = _after(5, lambda spec, waited: seconds[spec][waited], "abcd", True)
    found = ratios(times)
    assert found == [Ratio(0.5, 1.1), Ratio(1.5, 0.5), Ratio(0.5, 0.9)]
    assert [one.worse for one in found] == [1.1, 1.5, 0.9]
    assert slower("bcd", found) == {"b": found[0], "c": found[1]}


def test_long_calls_are_sampled_one_way() -> None:
    (found,) = ratios(_after(3, lambda spec, waited: {"a": 2.0, "b": 1.0}[spec] / (not waited), "ab", False))
    assert found == Ratio(0.5, 0.5)


def test_ratios_are_those_of_the_rounds_each_way_with_its_noise() -> None:
    """Slow rounds have no effect on the ratios; the noise is twice the standard error of the median."""
    slow = itertools.cycle([1.0, 1.0, 1.0, 1.0, 7.0, 7.0, 7.0, 7.0])
    (steady,) = ratios(_after(8, lambda spec, waited: next(slow) * (2.0 if spec == "b" else 4.0), "ab", True))
    assert steady == Ratio(0.5, 0.5)
    scatter = itertools.cycle([0.8, 0.9, 1.0, 1.1, 1.2])

    def seconds(spec: str, waited: bool) -> float:
        return 1.0 if spec == "a" else 0.5 if waited else next(scatter)

    (found,) = ratios(_after(25, seconds, "ab", True))
    assert (found.in_a_row, found.waited) == (1.0, 0.5)
    assert found.noises == (pytest.approx(2 * 1.2533 * 1.4826 * 0.1 / 5), 0.0)


@pytest.mark.parametrize(
    "ratio, is_slower",
    [
        (Ratio(1.02, 0.5), True),
        (Ratio(0.5, 1.02), True),
        (Ratio(1.009, 1.009), False),
        (Ratio(1.02, 1.02, (0.02, 0.02)), False),
        (Ratio(1.03, 1.02, (0.03, 0.0)), True),  # the worse way may be noise and the other none
        (Ratio(1.02, 1.03, (0.0, 0.03)), True),
        (Ratio(1.07, 1.0, (0.3, 0.3)), True),  # noise excuses no more than a twentieth
    ],
)
def test_slower_is_by_more_than_a_hundredth_and_noise(ratio: Ratio, is_slower: bool) -> None:
    assert slower(["one"], [ratio]) == ({"one": ratio} if is_slower else {})


@pytest.mark.parametrize(
    "ratio, is_ahead",
    [
        (Ratio(0.9, 0.95, (0.05, 0.04)), True),
        (Ratio(0.9, 0.95, (0.2, 0.04)), False),
        (Ratio(0.95, 0.9, (0.04, 0.2)), False),
        (Ratio(0.5, 1.0), False),
        (Ratio(1.0, 0.5), False),
    ],
)
def test_ahead_is_by_more_than_noise_in_both_ways(ratio: Ratio, is_ahead: bool) -> None:
    assert ratio.ahead == is_ahead


def test_who_is_far_behind_the_best_in_one_way_is_hopeless() -> None:
    def times(in_a_row: float, waited: float) -> Any:
        seconds = {"a": (1.0, 1.0), "b": (in_a_row, waited)}
        return _after(2, lambda spec, way: seconds[spec][way], "ab", True)

    assert not hopeless(times(1.29, 1.29), 1.0) and hopeless(times(1.31, 0.1), 1.0) and hopeless(times(0.1, 1.31), 1.0)
    assert hopeless(times(0.7, 0.7), 0.5) and not hopeless(times(0.6, 0.6), 0.5)
