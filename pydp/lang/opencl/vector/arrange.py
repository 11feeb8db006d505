"""The storage order of local arrays: the one that makes most accesses of the work-item contiguous.

If each lane accesses several adjacent columns (``s[k, 4 * lane + c]``), a strip reads every fourth element. The axis is
then stored interleaved: with an interleave factor f, element e is number ``e // f`` of plane ``e % f``, and a strip
reads whole vectors. The axis along which lanes move may also be stored with stride 1 although it is not the last axis.
The cost of an order is summed over all accesses of the function, weighted by the trip counts of the loops around them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pydp.lang import ir
from pydp.lang.opencl.vector.layout import StripLayout
from pydp.lang.opencl.vector.variance import Variances

_MOST_INTERLEAVED = 16
_UNKNOWN_ITERATIONS = 16
# The cost of one strip's access, in vector accesses: whole vectors, shuffled vectors, lane by lane.
_UNIT, _SHUFFLED, _SCATTERED = 1.0, 5.0, 20.0
_WORTH = 0.9  # another order must cost less than this fraction of the row-major order


@dataclass(frozen=True)
class Arrangement:
    """The storage order of a local array: axis `fastest` has stride 1 and is stored as `interleave_factor` planes."""

    shape: tuple[int, ...]
    fastest: int = -1
    interleave_factor: int = 1

    @cached_property
    def axis(self) -> int:
        """The fastest axis, counted from the first one."""
        return self.fastest % max(1, len(self.shape))

    @cached_property
    def plane_size(self) -> int:
        """Number of elements of a plane along the fastest axis."""
        return -(-self.shape[self.axis] // self.interleave_factor) if self.shape else 1

    @property
    def reason(self) -> str:
        """The sentence for explain; "" for row-major order."""
        if self.interleave_factor > 1:
            factor = self.interleave_factor
            return (
                f"is stored in {factor} interleaved planes along axis {self.axis}: a lane accesses {factor} neighbours"
            )
        if self.axis < len(self.shape) - 1:
            return f"is stored with axis {self.axis} as the fastest: lanes move along it"
        return ""

    @cached_property
    def total(self) -> int:
        """Number of stored elements, including the padding of the last elements of planes."""
        rest = [size for axis, size in enumerate(self.shape) if axis != self.axis]
        return math.prod(rest) * self.plane_size * self.interleave_factor

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Strides of the axes in elements (of the fastest axis: inside a plane)."""
        found, step = [0] * len(self.shape), self.plane_size * self.interleave_factor
        for axis in reversed(range(len(self.shape))):
            if axis != self.axis:
                found[axis], step = step, step * self.shape[axis]
        if self.shape:
            found[self.axis] = 1
        return tuple(found)


class _Use(NamedTuple):
    """An access. steps: from lane to lane along each axis. iterations: the number of executions. loads: a load."""

    steps: tuple[int | None, ...]
    iterations: float
    loads: bool


def arrange(function: ir.Function, variances: Variances, layout: StripLayout) -> dict[str, Arrangement]:
    """The cheapest order for each local array of `function`, by name."""
    uses: dict[str, list[_Use]] = {array.name: [] for array in function.locals}
    _collect(function.body, 1.0, variances, uses)
    return {array.name: _cheapest(array.shape, uses[array.name], layout.width) for array in function.locals}


def _collect(body: list[ir.Stmt], iterations: float, variances: Variances, uses: dict[str, list[_Use]]) -> None:
    for statement in body:
        inside = iterations
        if isinstance(statement, ir.For | ir.While):
            values = ir.constant_range(statement) if isinstance(statement, ir.For) else None
            inside *= _UNKNOWN_ITERATIONS if values is None else len(values)
        weight = inside if isinstance(statement, ir.While) else iterations
        for access in ir.accesses([statement]):
            if isinstance(access.array, ir.LocalArray):
                steps = tuple(variances.of(index).step for index in access.indices)
                uses[access.array.name].append(_Use(steps, weight, isinstance(access, ir.Load)))
        for block in ir.blocks(statement):
            _collect(block, inside, variances, uses)


def _cheapest(shape: tuple[int, ...], uses: list[_Use], width: int) -> Arrangement:
    def cost(order: Arrangement) -> float:
        return sum(use.iterations * _access_cost(use, order, width) for use in uses)

    best = Arrangement(shape)
    least = cost(best) * _WORTH
    for axis, size in enumerate(shape):
        steps = {abs(use.steps[axis] or 0) for use in uses}
        factors = sorted(step for step in steps if 1 < step <= min(_MOST_INTERLEAVED, size))
        for factor in [1, *factors]:
            trial = Arrangement(shape, axis, factor)
            if cost(trial) < least:
                best, least = trial, cost(trial)
    return best


def _access_cost(use: _Use, order: Arrangement, width: int) -> float:
    total = 0
    for axis, (step, stride) in enumerate(zip(use.steps, order.strides, strict=True)):
        if step is None:
            return _SCATTERED
        if axis == order.axis and step % order.interleave_factor:
            alone = not any(other for place, other in enumerate(use.steps) if place != axis)
            return _SHUFFLED if step == 1 and alone and width % order.interleave_factor == 0 else _SCATTERED
        total += stride * (step // order.interleave_factor if axis == order.axis else step)
    if total in (0, 1):
        return _UNIT
    return _SHUFFLED if use.loads and 2 <= total <= 8 else _SCATTERED
