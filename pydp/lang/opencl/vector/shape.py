"""The vector mapping's choice of strip width and of the number of unrolled rows."""

from __future__ import annotations

import math
from dataclasses import replace

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.opencl.vector.layout import StripLayout, pick_rows
from pydp.lang.opencl.vector.variance import Variances
from pydp.runtime.device.profile import Profile

_MOST_ROWS = 16
_SPARE_REGISTERS = 6  # for values that rows share, intermediate products, masks
_MOST_STATEMENTS = 240  # of all rows together: keeps the driver's compile time down


def widest(function: ir.Function, profile: Profile) -> int:
    """Lanes of the widest strip: one register of elements of the function's usual size, from 4 to 16."""
    arrays: list[ir.GlobalArray | ir.LocalArray] = [*function.arrays, *function.locals]
    sizes = [array.dtype.itemsize for array in arrays if array.dtype.names is None]
    sizes += [variable.dtype.itemsize for variable in function.variables if variable.dtype.kind == "f"]
    floats = [array.dtype.itemsize for array in function.arrays if array.dtype.kind == "f"]
    size = min(floats) if floats else max([4, *sizes])
    return max(4, min(16, profile.simd_bytes // min(8, max(4, size))))


def pick_layout_rows(nodes: list[regions.Node], layout: StripLayout, profile: Profile) -> StripLayout:
    """The layout with the number of unrolled rows that pays off.

    Rows are unrolled if a loop loads values that rows share, no control flow differs between rows, and the values that
    each row keeps through the loop fit into the registers.
    """
    most = min(_MOST_ROWS, layout.row_extent)
    if most < 2:
        return layout
    trial = replace(layout, rows=pick_rows(layout.row_extent, most))
    if trial.rows < 2:
        return layout
    variances = Variances(nodes, trial)
    if any(variance.varies_by_row for variance in variances.control.values()):
        return layout
    bodies = [interval.body for interval in regions.intervals(nodes)]
    loops = [s for body in bodies for s in ir.statements(body) if isinstance(s, ir.For | ir.While)]
    if not any(_shares_loads(loop, variances) for loop in loops):
        return layout
    kept = max((_registers(loop, variances, layout.width, profile) for loop in loops), default=1)
    fitting_rows = max(1, int((profile.vector_registers - _SPARE_REGISTERS) // max(1, kept)))
    size = max((sum(1 for _ in ir.statements(body)) for body in bodies), default=1)
    fitting_rows = min(fitting_rows, most, max(1, _MOST_STATEMENTS // max(1, size)))
    return replace(layout, rows=pick_rows(layout.row_extent, fitting_rows))


def _shares_loads(loop: ir.For | ir.While, variances: Variances) -> bool:
    """Whether the loop loads a value that varies by lane but not by row, and one that varies by row."""
    found = [variances.of(load) for load in ir.loads(ir.statements(loop.body))]
    shared = any(variance.varies_by_lane and not variance.varies_by_row for variance in found)
    return shared and any(variance.varies_by_row for variance in found)


def _registers(loop: ir.For | ir.While, variances: Variances, width: int, profile: Profile) -> float:
    """The number of registers for the values of one row that an iteration takes from the iteration before."""
    found = 0.0
    names = regions.exposed(loop.body) & regions.assigned_in(loop.body)
    variables = {s.variable.name: s.variable for s in ir.statements(loop.body) if isinstance(s, ir.Assign)}
    for name in names:
        variance = variances.variables[name]
        if variance.varies_by_lane and variance.varies_by_row:
            found += max(1.0, width * variables[name].dtype.itemsize / profile.simd_bytes)
    arrays: dict[str, ir.PrivateArray] = {
        s.array.name: s.array
        for s in ir.statements(loop.body)
        if isinstance(s, ir.Store) and isinstance(s.array, ir.PrivateArray)
    }
    for array in arrays.values():
        found += math.prod(array.shape) * max(1.0, width * array.dtype.itemsize / profile.simd_bytes)
    return found
