"""Ratios of the times of specializations to the time of a baseline.

Samples alternate between the specializations, so that background load affects all of them equally. A short call is
timed back to back (the next call is enqueued while it runs) and one at a time (each call is waited for). The two times
may disagree: a kernel that is a tenth slower may keep a driver's threads awake for the next call, and be faster only
back to back. The worse of the two ratios counts. The best specialization then slows no program down, and chance alone
makes none look far better or worse than the baseline.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Ratio", "Samples", "hopeless", "ratios", "rounds", "slower"]

_SLOWER = 1.01  # times the baseline's time: more than this, plus noise, is slower
_EXCUSED = 0.05  # times the baseline's time: the most that is taken for noise
_HOPELESS = 1.3  # times the best ratio so far: above it after two rounds, timing stops

# Seconds by mode (back to back; for short calls also one at a time), by specialization, by round.
Samples = Sequence[Sequence[Sequence[float]]]


class Ratio(NamedTuple):
    """Ratio of a specialization's time to the baseline's.

    in_a_row: timed back to back. waited: timed one call at a time; equal to `in_a_row` for long calls. noises: the
    uncertainty of the two ratios.
    """

    in_a_row: float
    waited: float
    noises: tuple[float, float] = (0.0, 0.0)

    @property
    def worse(self) -> float:
        """The ratio that counts."""
        return max(self.in_a_row, self.waited)

    @property
    def ahead(self) -> bool:
        """Whether it is faster than the baseline by more than noise in both modes."""
        return self.in_a_row + self.noises[0] < 1 and self.waited + self.noises[1] < 1

    @property
    def behind(self) -> bool:
        """Whether it is slower than the baseline by more than noise in either mode."""
        ways = zip((self.in_a_row, self.waited), self.noises, strict=True)
        return any(ratio > _SLOWER + min(noise, _EXCUSED) for ratio, noise in ways)


def rounds(sample: Callable[[Any, bool], float], specs: Sequence[Any], short: bool) -> Iterator[Samples]:
    """Sample `specs`, the baseline first, in endless rounds; yield all samples after each round.

    sample: a function of a specialization and of whether each call is waited for; it returns seconds of one call.
    short: sample both modes. The order is random in every other round, and reversed in the next one. A fixed order
    would favour a specialization by its predecessor or by its place in the round.
    """
    chance = random.Random(0)
    ways = (False, True) if short else (False,)
    times: list[list[list[float]]] = [[[] for _ in specs] for _ in ways]
    order = list(range(len(specs)))
    for number in itertools.count():
        if number % 2:
            order.reverse()
        else:
            chance.shuffle(order)
        for way, own in zip(ways, times, strict=True):
            for place in order:
                own[place].append(sample(specs[place], way))
        yield times


def ratios(times: Samples) -> list[Ratio]:
    """The ratio of each specialization except the baseline: medians of the ratios of all rounds, for each mode."""
    found = []
    for place in range(1, len(times[0])):
        by_way = [_compared(own[place], own[0]) for own in times]
        (in_a_row, noise), (waited, other) = by_way[0], by_way[-1]
        found.append(Ratio(in_a_row, waited, (noise, other)))
    return found


def hopeless(times: Samples, best: float) -> bool:
    """Whether the second of two specializations is so much slower than the best ratio so far that timing can stop."""
    return any(min(own[1]) > _HOPELESS * best * max(own[0]) for own in times)


def slower(specs: Sequence[Any], found: Sequence[Ratio]) -> dict[Any, Ratio]:
    """The specializations that are slower than the baseline by more than noise, in either mode."""
    return {spec: ratio for spec, ratio in zip(specs, found, strict=True) if ratio.behind}


def _compared(times: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The median ratio of paired times, and twice its standard error, estimated from the median deviation."""
    found = [one / other for one, other in zip(times, others, strict=True)]
    middle = statistics.median(found)
    spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in found)
    return middle, 2 * 1.2533 * spread / math.sqrt(len(found))
