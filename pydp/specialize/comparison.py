"""Times of specializations over a baseline's, sampled in turns, so that whatever else the machine does meets all alike.

A short call has two times: in a row, where the next one is enqueued while it runs, and where each one is waited for.
They need not agree: a kernel that takes a tenth longer may keep a driver's threads awake for the next call, and win in
a row alone. A specialization counts by the way in which it does worse, so that the best one slows no program down, and
one that is about as fast as the baseline in either way is not far ahead or far behind by chance.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Ratio", "Samples", "hopeless", "ratios", "rounds", "slower"]

_SLOWER = 1.01  # of the baseline's time: who takes more, and more than noise, is slower
_HOPELESS = 1.3  # times the best ratio so far: who is above it after two rounds is not timed further

# Seconds by way of calling (in a row; each waited for, where calls are short), by specialization, by round.
Samples = Sequence[Sequence[Sequence[float]]]


class Ratio(NamedTuple):
    """A specialization's time over the baseline's: in a row, where each call is waited for (the same for long calls),
    and how far the worse of them may be off."""

    in_a_row: float
    waited: float
    noise: float

    @property
    def worse(self) -> float:
        """What it counts by."""
        return max(self.in_a_row, self.waited)


def rounds(sample: Callable[[Any, bool], float], specs: Sequence[Any], short: bool) -> Iterator[Samples]:
    """Goes round `specs`, the baseline first, without end; what has been sampled, after each round.

    sample: seconds of a call with a specialization; whether each is waited for. short: both ways are sampled. Each
    round has an order of its own: whoever comes after the same one, or after a change of ways, would differ by that.
    """
    order = random.Random(0)
    ways = (False, True) if short else (False,)
    times: list[list[list[float]]] = [[[] for _ in specs] for _ in ways]
    while True:
        for way, own in zip(ways, times, strict=True):
            for place in order.sample(range(len(specs)), len(specs)):
                own[place].append(sample(specs[place], way))
        yield times


def ratios(times: Samples) -> list[Ratio]:
    """Those of all but the baseline: medians of the rounds' ratios, each way by itself."""
    found = []
    for place in range(1, len(times[0])):
        by_way = [_compared(own[place], own[0]) for own in times]
        found.append(Ratio(by_way[0][0], by_way[-1][0], max(by_way)[1]))
    return found


def hopeless(times: Samples, best: float) -> bool:
    """Whether the second of two is slower than the best ratio so far by so much that no more rounds are needed."""
    return any(min(own[1]) > _HOPELESS * best * max(own[0]) for own in times)


def slower(specs: Sequence[Any], found: Sequence[Ratio]) -> dict[Any, Ratio]:
    """Those that are slower than the baseline by more than noise, in a row or waited for."""
    pairs = zip(specs, found, strict=True)
    return {spec: ratio for spec, ratio in pairs if ratio.worse > _SLOWER + min(ratio.noise, 0.05)}


def _compared(times: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The median ratio of paired times, and twice the standard error of that median, by the spread of the middle."""
    found = [one / other for one, other in zip(times, others, strict=True)]
    middle = statistics.median(found)
    spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in found)
    return middle, 2 * 1.2533 * spread / math.sqrt(len(found))
