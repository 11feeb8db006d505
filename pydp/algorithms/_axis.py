"""Axes as callers name them, counted from the front."""

from __future__ import annotations

from typing import Any

from pydp.errors import InvalidArgument


def axis_of(axis: Any, rank: int, accepted: str = "an integer or None") -> int:
    """The number of an axis of an array of `rank` axes; `accepted` tells what the caller takes besides.

    Raises InvalidArgument for what is no integer and for an axis that is not there.

    >>> axis_of(-1, 3)
    2
    """
    try:
        number = int(axis.__index__())
    except (AttributeError, TypeError):
        raise InvalidArgument(f"axis={axis!r} is not an axis; {accepted} is accepted") from None
    if rank == 0:
        raise InvalidArgument(f"axis={number} is not an axis of an array of rank 0, which has none; None is accepted")
    if not -rank <= number < rank:
        raise InvalidArgument(
            f"axis={number} is not an axis of an array of rank {rank}; {-rank} to {rank - 1} are accepted"
        )
    return number % rank
