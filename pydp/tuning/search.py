"""The order in which a tuner tries specializations.

The first few of the model's ranking come first. Then a local search starts at the best one found: coordinate descent
to neighbouring values, one field at a time. When it finds no improvement, the next few of the ranking are tried. The
search ends at the end of the ranking. (Existing tuning libraries bring their own kernel runners and need independent
numeric parameters; the fields here depend on one another.)
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

FIRST, NEXT = 8, 4  # candidates of the ranking tried before the first local search, and between two
STEP = 0.99  # a candidate counts as an improvement below this share of the best time


def search(ranked: Sequence[Any], neighbours: Callable[[Any], Sequence[Any]]) -> Generator[Any, float | None, None]:
    """A generator of the specializations to try, each once. Send it the relative time of each, or None if it failed.

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
    """A function that returns the neighbours of a specialization.

    A neighbour differs in one field: the next smaller or larger number among the candidates', half or twice its own
    number, or another word. Fields that are equal in all candidates never change. Neighbours that `check` rejects are
    left out.
    """
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
