"""What loops inside a Python operator, key or comparison leave of the loops that a driver lets a work-item go round."""

from __future__ import annotations

from pydp.errors import UnsupportedOnDevice

MOST_ROUNDS = 600  # iterations of a call; with more, parts would be a few elements long


def room(limit: int | None, rounds: int | None, what: str) -> int | None:
    """The driver's limit of a work-item's iterations (None: it has none) as a count of calls that take `rounds` each.

    `rounds` None: data decide how many. Raises UnsupportedOnDevice for those, and for more than MOST_ROUNDS, where
    there is a limit: results would be wrong without a word.

    >>> room(65535, 3, "op 'add'")
    16383
    """
    if limit is None:
        return None
    if rounds is None:
        raise UnsupportedOnDevice(
            f"{what} has loops whose length depends on values, and this driver ends a work-item's loops after {limit} "
            "iterations; loops over constant ranges that hold no remainders of floats are accepted"
        )
    if rounds > MOST_ROUNDS:
        raise UnsupportedOnDevice(
            f"{what} takes {rounds} iterations a call, and this driver ends a work-item's loops after {limit}; at most "
            f"{MOST_ROUNDS} are accepted"
        )
    return limit // (1 + rounds)
