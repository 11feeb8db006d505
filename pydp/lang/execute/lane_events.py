"""The memory events of a group's lanes in program order: accesses, barriers, and skipped loop iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_signature import Signature
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue


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

    def index_values(self, index: SymbolicValue) -> np.ndarray:
        """The values of an index in the lanes of this access, without symbols; a scalar if they are uniform."""
        values = np.asarray(index.lanes).astype(np.int64)
        return values[self.lanes] if values.ndim else values

    def value_key(self, lanes: np.ndarray) -> Any:
        """A key of the values that lanes write: equal if they are known to be equal; None if they are unknown."""
        if self.value is not None:
            return _of(self.value.lanes, lanes).tobytes(), self.value.symbols
        return None if self.signature is None else _of(self.signature, lanes).tobytes()


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
VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


def racing_lanes(
    one: Access,
    these: np.ndarray,
    other: Access,
    those: np.ndarray,
    unordered: Callable[[], np.ndarray],
    *,
    barriers_between: bool = False,
    several_groups: bool = False,
) -> tuple[int, int] | None:
    """The first of `these` lanes of one access and of `those` of another that race; None if none do.

    unordered: returns a matrix: whether two lanes access the same element and no barrier orders them.
    barriers_between: there are barriers that may be too narrow. So the program relies on the order of the accesses,
    and updates by different operations and writes of equal values race too.
    several_groups: the lanes may be in different groups, and writes of unknown values are accepted.
    """
    if one.touches_other_member(other) or one.kind == other.kind == "read":
        return None
    updates = [site.op for site in (one.site, other.site) if isinstance(site, ir.Atomic)]
    if len(updates) == 2 and (not barriers_between or updates[0] == updates[1]):
        return None
    # A uniform condition of unknown outcome may have different outcomes in different groups.
    shorter = None if several_groups else min(len(one.context), len(other.context))
    if one.context[:shorter] != other.context[:shorter]:
        return None
    racing = unordered()
    if one.kind == other.kind == "write" and not barriers_between:
        racing = racing & differing_values(one, these, other, those, accept_unknown=several_groups)
    if not racing.any():
        return None
    row, column = np.unravel_index(int(np.argmax(racing)), racing.shape)
    return int(these[row]), int(those[column])


def differing_values(
    one: Access, these: np.ndarray, other: Access, those: np.ndarray, accept_unknown: bool
) -> np.ndarray:
    """For each of `these` and `those` lanes, whether two writes write different values. NaN equals NaN.

    accept_unknown: values written by one statement count as equal unless they are known to be different, and so do
    known equal values of different statements. If not, only known equal values of one statement do.
    """
    same_site = one.site is other.site
    if one.value is not None and other.value is not None:
        if one.value.symbols == other.value.symbols and (same_site or accept_unknown):
            left, right = _of(one.value.lanes, these)[:, None], _of(other.value.lanes, those)[None, :]
            return np.asarray((left != right) & ~((left != left) & (right != right)))
    elif not same_site:
        accept_unknown = False
    elif one.signature is not None and other.signature is not None:
        return np.asarray(_of(one.signature, these)[:, None] != _of(other.signature, those)[None, :])
    return np.full((len(these), len(those)), not accept_unknown)


def _of(values: Any, lanes: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    return values[lanes] if values.ndim else np.full(len(lanes), values)


def race_text(first: Access, lane: str, element: str, second: Access, other_lane: str, other_element: str) -> str:
    """The first part of the error message for two accesses that race."""
    one = f"{lane} {VERBS[first.kind]} {element} in line {first.where.line}"
    return f"race: {one} and {other_lane} {VERBS[second.kind]} {other_element} in line {second.where.line}"


def missing_order(by_group: bool, same_group: bool) -> str:
    """The last part of the error message for lanes that race: why no barrier orders them. by_group: see
    :func:`lane_text`."""
    if not by_group:
        return "lanes run in no particular order"
    return "there is no group_barrier() between them" if same_group else "no barrier holds between groups"


def lane_text(by_group: bool, group: Sequence[int], local: Sequence[int], offset: Sequence[int]) -> str:
    """A lane as text.

    by_group: the text has the lane's index in its group and the index of the group; if not, the lane is a group of its
    own, and the text has its index in the grid. group: the index of the group. local: the index in the group. offset:
    the offset of the grid.
    """
    if by_group:
        return f"lane {list(local)} of group {list(group)}"
    return f"lane {[start + index for start, index in zip(offset, group, strict=True)]}"


def lane_index(lane: int, group: tuple[int, ...]) -> list[int]:
    """The local index of a lane number."""
    return [int(i) for i in np.unravel_index(lane, group)] if group else []


def lanes_text(lanes: Sequence[int], group: tuple[int, ...], limit: int = 4) -> str:
    """Lanes as text: the local indexes of the first `limit` lanes, and the number of the others."""
    names = [str(lane_index(lane, group)) for lane in lanes[:limit]]
    more = f" and {len(lanes) - limit} more" if len(lanes) > limit else ""
    return f"{'lane' if len(lanes) == 1 else 'lanes'} {', '.join(names)}{more}"


def width_error(widths: Sequence[int], lanes: int) -> str:
    """The error message for a barrier's width that does not divide the group's number of lanes, or that differs between
    lanes; "" if it is accepted."""
    if len(widths) == 1 and widths[0] >= 1 and lanes % widths[0] == 0:
        return ""
    shown = widths[0] if len(widths) == 1 else f"{list(widths)}, which differs between lanes"
    return f"a barrier's width is {shown}; numbers that divide the group's {lanes} lanes are accepted"
