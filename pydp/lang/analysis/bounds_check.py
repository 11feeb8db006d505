"""Checks the indexes of local and private fields with the values of a launch. Kernels do not check them at run time.

Indexes that depend only on constants are checked earlier (see :mod:`static_checks`); indexes that depend on data are
left to checked mode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis.static_checks import outside_text
from pydp.lang.barriers.barrier_check import control_inputs
from pydp.lang.execute.lane_events import Access
from pydp.lang.execute.launch_lanes import MAX_SIMILAR_LAUNCHES, LaunchValues, Sample, magnitude, trace_launch
from pydp.lang.ir.diagnostics import VectorError
from pydp.runtime.bounded import BoundedCache

_LEAVES = (ir.Parameter, ir.ArrayExtent, ir.GridExtent)
_PLACES = (ir.GlobalIndex, ir.GroupIndex)
_MOST_KEPT = 512


class LaunchPlaces:
    """The check of a function's local and private field indexes. any: they depend on the values of a launch."""

    def __init__(self, function: ir.Function, doubtful: bool) -> None:
        """doubtful: an index is out of bounds under a condition that is not constant (see :mod:`static_checks`)."""
        self.function = function
        self._fields = {array.name for array in function.locals} | {array.name for array in function.privates}
        self._by_place = doubtful or (bool(self._fields) and _is_decided(function.body, _PLACES))
        self.any = self._by_place or (bool(self._fields) and _is_decided(function.body, _LEAVES))
        self._leaves = control_inputs(function.body) if self.any else []
        self._passed = BoundedCache(_MOST_KEPT)  # launches that passed, by their values
        self._alike = BoundedCache(_MOST_KEPT)  # number of checked launches, by the values' magnitudes

    def check(
        self,
        values: Callable[[ir.Expr], int | None],
        extent: tuple[int, ...],
        offset: tuple[int, ...],
        get_launch: Callable[[], LaunchValues],
    ) -> None:
        """Raise VectorError if lanes of a launch certainly use an index outside a local or private field.

        values: returns the value of a number argument or extent. extent, offset: extent and offset of the grid.
        get_launch: returns all values of the launch; called only for new values. Number arguments that change on every
        call are checked for the first values of each magnitude only, and so are grid extents if indexes depend on them.
        """
        sizes = extent if self._by_place else tuple(map(magnitude, extent))
        key = (*sizes, *offset, *(values(leaf) for leaf in self._leaves))
        if self._passed.get(key) or self._passed.find(key):
            return
        alike = tuple(magnitude(number) for number in key)
        looked_at = self._alike.find(alike, 0)
        if looked_at >= MAX_SIMILAR_LAUNCHES:
            self._passed.put(key, True)
            return
        launch = get_launch()
        if 0 in launch.extent:
            return
        sample = Sample(self.function, launch.extent, launch.offset)
        for event in trace_launch(self.function, sample, launch, self._fields):
            if isinstance(event, Access) and event.certain and not event.context:
                _look_at(event, sample)
        self._passed.put(key, True)
        self._alike.put(alike, looked_at + 1)


def _look_at(access: Access, sample: Sample) -> None:
    assert not isinstance(access.array, ir.GlobalArray)
    for axis, (index, extent) in enumerate(zip(access.dims or (), access.array.shape, strict=False)):
        if index is None or not index.is_exact:
            continue
        places = np.broadcast_to(np.asarray(index.lanes).astype(np.int64), (sample.size,))[access.lanes]
        outside = (places < 0) | (places >= extent)
        if outside.any():
            at = int(np.argmax(outside))
            lane = sample.name(int(access.lanes[at])).capitalize()
            raise VectorError(outside_text(access, axis, int(places[at]), lane), access.where)


def _is_decided(body: list[ir.Stmt], leaves: tuple[type[ir.Expr], ...]) -> bool:
    """Whether indexes of local and private fields depend on expressions of the given types, directly or through
    variables, conditions or loop bounds."""
    given = _given(body)
    open_: list[ir.Expr] = []
    for statement in ir.statements(body):
        if isinstance(statement, ir.Store | ir.Atomic) and not isinstance(statement.array, ir.GlobalArray):
            open_ += statement.indices
        for part in (p for e in ir.expressions(statement) for p in ir.walk(e)):
            if isinstance(part, ir.Load) and not isinstance(part.array, ir.GlobalArray):
                open_ += part.indices
    while open_:
        for part in ir.walk(open_.pop()):
            if isinstance(part, ir.Read):
                open_ += given.pop(part.variable.name, [])
            elif isinstance(part, leaves) and part.dtype.kind in "iub":
                return True
    return False


def _given(body: list[ir.Stmt]) -> dict[str, list[ir.Expr]]:
    """For each variable, the expressions that decide its value: assigned values, and the conditions around them."""
    given: dict[str, list[ir.Expr]] = defaultdict(list)
    for statement in ir.statements(body):
        inner: list[ir.Stmt] = []
        conditions: list[ir.Expr] = []
        if isinstance(statement, ir.Assign):
            given[statement.variable.name].append(statement.value)
        elif isinstance(statement, ir.If):
            inner, conditions = [*statement.then, *statement.orelse], [statement.condition]
        elif isinstance(statement, ir.For | ir.While):
            ends = (one for one in ir.statements(statement.body) if isinstance(one, ir.If) and any(ir.jumps([one])))
            inner, conditions = [statement], [one.condition for one in ends]
            if isinstance(statement, ir.For):
                given[statement.variable.name] += (statement.start, statement.stop, statement.step)
            else:
                conditions.append(statement.condition)
        for one in ir.statements(inner):
            if isinstance(one, ir.Assign | ir.For):
                given[one.variable.name] += conditions
    return given
