"""The order in which a tuner tries specializations.

The model's best few come first. Then a local search climbs from the best one found: coordinate descent, one field at a
time, to neighbouring values; whenever it stands still, the next few of the model's ranking are tried. It ends when
the ranking does. (The tuning libraries that there are bring their own runners of kernels and want numbers that a space
of linked fields does not have; what is needed of their strategies is these few lines.)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

FIRST, NEXT = 8, 4  # of the ranking: tried before the first climb, and between two climbs
STEP = 0.99  # a candidate is a better place to climb from where its time is below this share of the best one's


def search(ranked: Sequence[Any], neighbours: Callable[[Any], Sequence[Any]]) -> Generator[Any, float | None, None]:
    """Yields each specialization to try, once; is sent its time over some common unit, None where it failed.

    >>> steps = search([8, 1], lambda spec: [spec - 1] if spec > 5 else [])
    >>> [next(steps), *(steps.send(float(time)) for time in (5, 8, 4, 3))]
    [8, 1, 7, 6, 5]
    """
    seen: set[Any] = set()
    best: Any = None
    least = float("inf")
    rest = iter(ranked)
    batch: Sequence[Any] = list(itertools.islice(rest, FIRST))
    while batch:
        moved = False
        for spec in batch:
            if spec in seen:
                continue
            seen.add(spec)
            ratio = yield spec
            if ratio is not None and ratio < STEP * least:
                best, least, moved = spec, ratio, True
        batch = neighbours(best) if moved else []
        while not batch or all(spec in seen for spec in batch):
            batch = list(itertools.islice(rest, NEXT))
            if not batch:
                return


def neighbourhood(candidates: Sequence[Any], check: Callable[[Any], str | None]) -> Callable[[Any], list[Any]]:
    """The function from a specialization to its neighbours: one field changed, to the next smaller or larger number
    among the candidates', to half or twice its own, or to another word. Fields that no two candidates differ in stay,
    and what `check` gives a reason against is left out."""
    values: dict[str, list[Any]] = {}
    for field in dataclasses.fields(candidates[0]) if candidates else ():
        found = list(dict.fromkeys(getattr(spec, field.name) for spec in candidates))
        if field.init and len(found) > 1:
            values[field.name] = found

    def of(spec: Any) -> list[Any]:
        changed = (
            dataclasses.replace(spec, **{name: value})
            for name, known in values.items()
            for value in _next_to(getattr(spec, name), known)
        )
        return [one for one in changed if check(one) is None]

    return of


def _next_to(value: Any, known: Sequence[Any]) -> list[Any]:
    if type(value) is not int:
        return [other for other in known if other != value]
    numbers = (
        {other for other in known if type(other) is int} | {2 * value} | ({value // 2} if value % 2 == 0 else set())
    )
    lower = [other for other in numbers if 0 <= other < value]
    upper = [other for other in numbers if other > value]
    return ([max(lower)] if lower else []) + ([min(upper)] if upper else [])
