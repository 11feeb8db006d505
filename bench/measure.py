"""Timing as ratios: candidates alternate in one run, and their medians are compared.

Machines are shared and noisy, so a figure is only reported together with its peers of the same run.
"""

from __future__ import annotations

import gc
import random
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

_SHORT = 0.05  # seconds of a call that is repeated without timing before it is timed
_SETTLING = 0.03  # seconds of these repetitions
_TICKS = 0.012  # seconds; Linux counts the time of threads on other cores at the timer's ticks, of up to 10 ms
_Case = TypeVar("_Case", bound=tuple[Any, ...])


def cases_of(cases: Iterable[_Case], only: str) -> list[_Case]:
    """The cases whose first item begins with the name of a function; all cases if `only` is ""."""
    return [case for case in cases if not only or re.match(rf"{only}\b", case[0])]


@dataclass
class Row:
    """One measured case.

    seconds: median of one call. value, unit: the rate (GFLOP/s, GB/s, Gitem/s). ratios: this candidate's rate divided
    by each peer's or limit's in the same run (above 1: faster than the peer).
    """

    algorithm: str
    case: str
    device: str
    seconds: float
    value: float
    unit: str
    ratios: dict[str, float] = field(default_factory=dict)
    notes: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row as a JSON-compatible dict."""
        return asdict(self)


def wait_for_idle_threads(limit: float = 0.3) -> None:
    """Return when no thread of this process computes, or after `limit` seconds.

    The thread pools of BLAS and OpenMP spin for some time after a call. A candidate timed while another's threads spin
    shares the cores with them.
    """
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        began, used = time.perf_counter(), time.process_time()
        time.sleep(_TICKS)
        if time.process_time() - used < 0.1 * (time.perf_counter() - began):
            return


def alternating(
    candidates: Mapping[str, Callable[[], Any]], repeats: int = 7, budget: float = 6.0, warm: int = 1
) -> dict[str, float]:
    """Median seconds of each candidate; candidates alternate, in another order each round.

    Each candidate is first called `warm` times without timing. Then at least 3 and at most `repeats` rounds run, until
    `budget` seconds are over. Before each timed call the threads of the candidate before it come to rest. A call of
    less than 50 ms is then repeated for 30 ms without timing. The system may wake the threads of a driver on one core,
    and spreads them over the cores some milliseconds later; on virtual machines, cores that have slept take as long to
    reach their speed; and the caches then hold what they can of the candidate's own data. A candidate must block until
    its work is done.
    """
    last = {}  # seconds of the last call; the first one may build kernels
    for name, call in candidates.items():
        for _ in range(max(warm, 1)):
            start = time.perf_counter()
            call()
        last[name] = time.perf_counter() - start
    times: dict[str, list[float]] = {name: [] for name in candidates}
    order, rng = list(candidates.items()), random.Random(0)
    began = time.perf_counter()
    enabled = gc.isenabled()
    gc.disable()
    try:
        for repeat in range(repeats):
            if repeat >= 3 and time.perf_counter() - began > budget:
                break
            rng.shuffle(order)
            for name, call in order:
                wait_for_idle_threads()
                settled = time.perf_counter() + _SETTLING if last[name] < _SHORT else 0.0
                while time.perf_counter() < settled:
                    call()
                start = time.perf_counter()
                call()
                last[name] = time.perf_counter() - start
                times[name].append(last[name])
    finally:
        if enabled:
            gc.enable()
    return {name: statistics.median(values) for name, values in times.items()}
