"""The memory events of a group's lanes in program order: accesses, barriers, and skipped loop iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_signature import Signature
from pydp.lang.execute.symbolic_values import OptionalValue


@dataclass(eq=False)
class Access:
    """Lanes access elements of an array.

    kind: "read", "write" or "atomic". lanes: the lane numbers. dims: for each axis, the index values in all lanes; None
    if an index is unknown. context: the enclosing uniform conditions of unknown outcome. certain: if all conditions of
    `context` hold, the lanes certainly perform the access. site: the statement or expression. value: the value of a
    write. signature: if that value is unknown, lanes with equal signatures write equal values. earlier_writes_traced:
    all writes that precede this access are in the trace, including those of earlier iterations of enclosing loops.
    members: the path to the accessed member of a record.
    """

    kind: str
    array: ir.Array
    lanes: np.ndarray
    dims: tuple[OptionalValue, ...] | None
    certain: bool
    context: tuple[int, ...]
    where: ir.Where
    site: ir.Expr | ir.Stmt | None = None
    value: OptionalValue = None
    earlier_writes_traced: bool = True
    signature: Signature = None
    members: tuple[Any, ...] = ()

    def touches_other_member(self, other: Access) -> bool:
        """Whether two accesses to one record access different members."""
        return any(one != two for one, two in zip(self.members, other.members, strict=False))


@dataclass(eq=False)
class BarrierEvent:
    """The lanes execute a barrier. iterations_known: the barrier is executed exactly once, because the iterations of
    all enclosing loops are known. absent: the numbers of lanes that certainly do not reach the barrier."""

    barrier: ir.Barrier
    context: tuple[int, ...]
    iterations_known: bool
    width: OptionalValue = None
    absent: tuple[int, ...] = ()


@dataclass(eq=False)
class SkippedIterations:
    """Iterations of a loop that were not traced. They execute `barriers`; accesses of unknown elements follow."""

    barriers: list[ir.Barrier]


Event = Access | BarrierEvent | SkippedIterations


def lane_index(lane: int, group: tuple[int, ...]) -> list[int]:
    """The local index of a lane number."""
    return [int(i) for i in np.unravel_index(lane, group)] if group else []


def lanes_text(lanes: Sequence[int], group: tuple[int, ...], limit: int = 4) -> str:
    """Lanes as text: the local indexes of the first `limit` lanes, and the number of the others."""
    names = [str(lane_index(lane, group)) for lane in lanes[:limit]]
    more = f" and {len(lanes) - limit} more" if len(lanes) > limit else ""
    return f"{'lane' if len(lanes) == 1 else 'lanes'} {', '.join(names)}{more}"


def width_error(width: int, lanes: int) -> str:
    """The error message for a barrier's width that does not divide the group's number of lanes; "" if it does."""
    if width >= 1 and lanes % width == 0:
        return ""
    return f"A barrier's width is {width}; numbers that divide the group's {lanes} lanes are accepted"
