"""What a group's lanes do with memory, one event after the other: accesses, meetings at barriers, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_signature import Signature
from pydp.lang.execute.symbolic_values import Value


@dataclass(eq=False)
class Access:
    """Lanes touch elements of an array.

    kind: "read", "write" or "atomic". lanes: numbers of the lanes. dims: an index's values in all lanes, for each
    axis; None where an index is unknown. certain: the lanes surely do it where `context` (the conditions of unknown
    outcome, the same for all lanes, around it) comes true. site: the statement or expression. value: what a write
    gives; signature: which lanes give equal values where it is not known. settled: what earlier turns of the loops
    around it may have written is in the trace. members: the path to the part of a record that is touched.
    """

    kind: str
    array: ir.Array
    lanes: np.ndarray
    dims: tuple[Value, ...] | None
    certain: bool
    context: tuple[int, ...]
    where: ir.Where
    site: object = None
    value: Value = None
    settled: bool = True
    signature: Signature = None
    members: tuple[Any, ...] = ()

    def is_apart(self, other: Access) -> bool:
        """Whether two accesses of one record touch different members of it."""
        return any(one != two for one, two in zip(self.members, other.members, strict=False))


@dataclass(eq=False)
class BarrierEvent:
    """The lanes meet at a barrier. exact: it happens once, in the known turns of all loops around it. absent: lanes, by
    number, that surely do not come."""

    barrier: ir.Barrier
    context: tuple[int, ...]
    exact: bool
    width: Value = None
    absent: tuple[int, ...] = ()


@dataclass(eq=False)
class SkippedIterations:
    """Turns of a loop that were not run; they meet at these barriers, and its accesses follow as unknown ones."""

    barriers: list[ir.Barrier]


Event = Access | BarrierEvent | SkippedIterations


def lane_index(lane: int, group: tuple[int, ...]) -> list[int]:
    """The local index of a lane number."""
    return [int(i) for i in np.unravel_index(lane, group)] if group else []


def lanes_text(lanes: Sequence[int], group: tuple[int, ...], most: int = 4) -> str:
    """Lanes by their local indexes, the first `most` of them by name."""
    names = [str(lane_index(lane, group)) for lane in lanes[:most]]
    more = f" and {len(lanes) - most} more" if len(lanes) > most else ""
    return f"{'lane' if len(lanes) == 1 else 'lanes'} {', '.join(names)}{more}"


def wrong_width(width: int, lanes: int) -> str:
    """What is wrong with a barrier's width in a group of `lanes`; "" where it divides them."""
    if width >= 1 and lanes % width == 0:
        return ""
    return f"A barrier's width is {width}; numbers that divide the group's {lanes} lanes are accepted"
