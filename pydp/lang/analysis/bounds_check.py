"""Checks the indexes of local and private fields before a launch. Kernels do not check them at run time.

Indexes that depend only on constants are checked once (see :mod:`static_checks`), other indexes with the values of each
launch (see :mod:`launch_check`). Indexes that depend on data are left to checked mode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import VERBS, Access
from pydp.lang.execute.launch_lanes import LaunchTrace
from pydp.lang.ir.diagnostics import VectorError


def check(trace: LaunchTrace) -> None:
    """Raise VectorError if lanes of a launch certainly use an index outside a local or private field."""
    for event in trace.events:
        if isinstance(event, Access) and event.dims is not None and not isinstance(event.array, ir.GlobalArray):
            lanes_in_bounds(event, lambda lane: trace.sample.name(lane))


def lanes_in_bounds(access: Access, lane_text: Callable[[int], str]) -> np.ndarray | None:
    """A mask of the lanes of an access to a local or private field that are not known to be out of bounds; None: all.

    Raises VectorError if a lane certainly accesses an element that does not exist. lane_text: names a lane.
    """
    assert not isinstance(access.array, ir.GlobalArray)
    inside: np.ndarray | None = None
    for axis, (index, extent) in enumerate(zip(access.dims or (), access.array.shape, strict=False)):
        if index is None or not index.is_exact:
            continue
        values = access.index_values(index)
        if values.min(initial=0) >= 0 and values.max(initial=0) < extent:
            continue
        outside = np.broadcast_to((values < 0) | (values >= extent), access.lanes.shape)
        if access.certain and not access.context and outside.any():
            at = int(np.argmax(outside))
            value = int(np.broadcast_to(values, outside.shape)[at])
            raise VectorError(_text(access, axis, value, lane_text(int(access.lanes[at]))), access.where)
        inside = ~outside if inside is None else inside & ~outside
    return inside


def _text(access: Access, axis: int, value: int, lane: str) -> str:
    assert not isinstance(access.array, ir.GlobalArray)
    kind = "local_field" if isinstance(access.array, ir.LocalArray) else "private_field"
    extent = access.array.shape[axis]
    return (
        f"{lane} {VERBS[access.kind]} {access.array.name} at index {value} of axis {axis}: this {kind} has "
        f"indexes 0 to {extent - 1} there"
    )


def field_indexes(function: ir.Function) -> list[ir.Expr]:
    """The indexes of all accesses to local and private fields."""
    if not function.locals and not function.privates:
        return []
    statements = list(ir.statements(function.body))
    accesses = [*ir.loads(statements), *(one for one in statements if isinstance(one, ir.Store | ir.Atomic))]
    return [index for one in accesses if not isinstance(one.array, ir.GlobalArray) for index in one.indices]
