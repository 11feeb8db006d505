"""The iteration budget of a work-item on drivers that limit loop iterations.

Loops inside a Python operator, key or comparison count against this budget.
"""

from __future__ import annotations

from pydp.errors import UnsupportedOnDevice

MOST_ITERATIONS = 600  # iterations per call; with more, a part would have only a few elements


def call_budget(limit: int | None, iterations: int | None, what: str) -> int | None:
    """The number of calls that a work-item may make within `limit` iterations; None if the driver has no limit.

    iterations: iterations per call; None if they depend on data. what: the function's name, for messages. If there is a
    limit, raises UnsupportedOnDevice for iterations=None and for more than MOST_ITERATIONS: the driver would silently
    end the loops early and give wrong results.

    >>> call_budget(65535, 3, "op 'add'")
    16383
    """
    if limit is None:
        return None
    if iterations is None:
        raise UnsupportedOnDevice(
            f"{what} contains a loop whose trip count depends on data; this driver ends a work-item's loops after "
            f"{limit} iterations. Loops over constant ranges without float remainders (%) are accepted"
        )
    if iterations > MOST_ITERATIONS:
        raise UnsupportedOnDevice(
            f"{what} takes {iterations} iterations per call; this driver ends a work-item's loops after {limit} "
            f"iterations. At most {MOST_ITERATIONS} iterations per call are accepted"
        )
    return limit // (1 + iterations)
