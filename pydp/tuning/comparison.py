"""Times of specializations over a baseline's, sampled in turns, so that whatever else the machine does meets all alike.

A short call has two times: in a row, where the next one is enqueued while it runs, and where each one is waited for.
They need not agree: a kernel that takes a tenth longer may keep a driver's threads awake for the next call, and win in
a row alone. A specialization counts by the way in which it does worse, so that the best one slows no program down, and
one that is about as fast as the baseline in either way is not far ahead or far behind by chance.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Ratio", "Samples", "hopeless", "ratios", "rounds", "slower"]

_SLOWER = 1.01  # of the baseline's time: who takes more, and more than noise, is slower
_EXCUSED = 0.05  # of the baseline's time: noise excuses no more
_HOPELESS = 1.3  # times the best ratio so far: who is above it after two rounds is not timed further

# Seconds by way of calling (in a row; each waited for, where calls are short), by specialization, by round.
Samples = Sequence[Sequence[Sequence[float]]]


class Ratio(NamedTuple):
    """A specialization's time over the baseline's: in a row, where each call is waited for (the same for long calls),
    and how far each of the two may be off."""

    in_a_row: float
    waited: float
    noises: tuple[float, float] = (0.0, 0.0)

    @property
    def worse(self) -> float:
        """What it counts by."""
        return max(self.in_a_row, self.waited)

    @property
    def ahead(self) -> bool:
        """Whether it is faster than the baseline by more than noise, in a row and waited for."""
        return self.in_a_row + self.noises[0] < 1 and self.waited + self.noises[1] < 1

    @property
    def behind(self) -> bool:
        """Whether it is slower than the baseline by more than noise, in a row or waited for."""
        ways = zip((self.in_a_row, self.waited), self.noises, strict=True)
        return any(ratio > _SLOWER + min(noise, _EXCUSED) for ratio, noise in ways)


def rounds(sample: Callable[[Any, bool], float], specs: Sequence[Any], short: bool) -> Iterator[Samples]:
    """Goes round `specs`, the baseline first, without end; what has been sampled, after each round.

    sample: seconds of a call with a specialization; whether each is waited for. short: both ways are sampled. Rounds
    have random orders, and every other one that of the round before in reverse: whoever always comes after the same
    one, or more often early in a round, would differ by that.
    """
    chance = random.Random(0)
    ways = (False, True) if short else (False,)
    times: list[list[list[float]]] = [[[] for _ in specs] for _ in ways]
    order = list(range(len(specs)))
    for turn in itertools.count():
        if turn % 2:
            order.reverse()
        else:
            chance.shuffle(order)
        for way, own in zip(ways, times, strict=True):
            for place in order:
                own[place].append(sample(specs[place], way))
        yield times


def ratios(times: Samples) -> list[Ratio]:
    """Those of all but the baseline: medians of the rounds' ratios, each way by itself."""
    found = []
    for place in range(1, len(times[0])):
        by_way = [_compared(own[place], own[0]) for own in times]
        (in_a_row, noise), (waited, other) = by_way[0], by_way[-1]
        found.append(Ratio(in_a_row, waited, (noise, other)))
    return found


def hopeless(times: Samples, best: float) -> bool:
    """Whether the second of two is slower than the best ratio so far by so much that no more rounds are needed."""
    return any(min(own[1]) > _HOPELESS * best * max(own[0]) for own in times)


def slower(specs: Sequence[Any], found: Sequence[Ratio]) -> dict[Any, Ratio]:
    """Those that are slower than the baseline by more than noise, in a row or waited for."""
    return {spec: ratio for spec, ratio in zip(specs, found, strict=True) if ratio.behind}


def _compared(times: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The median ratio of paired times, and twice the standard error of that median, by the spread of the middle."""
    found = [one / other for one, other in zip(times, others, strict=True)]
    middle = statistics.median(found)
    spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in found)
    return middle, 2 * 1.2533 * spread / math.sqrt(len(found))
