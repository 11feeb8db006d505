"""Where the elements of local arrays lie: the work-item's own memory has whatever order makes its accesses unit steps.

Lanes that take `deal` neighbouring columns each (``s[k, 4 * lane + c]``) would read every fourth element. The axis is
dealt then, as cards are: element e lies in pile ``e % deal``, at place ``e // deal`` of it, and a strip reads whole
vectors. The axis along which lanes move may also be stored fastest although it is not the last one. What an order costs
is counted over all accesses of the function, weighted by the rounds of the loops around them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydp.lang import ir
from pydp.lang.opencl.vector.layout import Layout
from pydp.lang.opencl.vector.variance import Variances

_MOST_DEALT = 16
_UNKNOWN_ROUNDS = 16
# Cost of one strip's access, in vector accesses: whole vectors, shuffled ones, lane by lane.
_UNIT, _SHUFFLED, _SCATTERED = 1.0, 5.0, 20.0
_WORTH = 0.9  # another order must cost less than this part of the plain one


@dataclass(frozen=True)
class Arrangement:
    """The order of a local array: axis `fastest` has stride 1 (between the elements of a pile), in `deal` piles."""

    shape: tuple[int, ...]
    fastest: int = -1
    deal: int = 1

    @property
    def axis(self) -> int:
        """The fastest axis, counted from the first one."""
        return self.fastest % max(1, len(self.shape))

    @property
    def pile(self) -> int:
        """Elements of a pile."""
        return -(-self.shape[self.axis] // self.deal) if self.shape else 1

    @property
    def reason(self) -> str:
        """What is told of the order where it is not the plain one."""
        if self.deal > 1:
            return f"is stored in {self.deal} piles along axis {self.axis}: lanes take {self.deal} neighbours each"
        if self.axis < len(self.shape) - 1:
            return f"is stored with axis {self.axis} as the fastest: lanes move along it"
        return ""

    @property
    def total(self) -> int:
        """Elements of the array, those that fill the last places of piles included."""
        rest = [size for axis, size in enumerate(self.shape) if axis != self.axis]
        return math.prod(rest) * self.pile * self.deal

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next along each axis (along the fastest: inside a pile)."""
        found, step = [0] * len(self.shape), self.pile * self.deal
        for axis in reversed(range(len(self.shape))):
            if axis != self.axis:
                found[axis], step = step, step * self.shape[axis]
        if self.shape:
            found[self.axis] = 1
        return tuple(found)


@dataclass
class _Accesses:
    """Of one array: for each access the steps from lane to lane along its axes, the rounds that it takes part in, and
    whether it only loads."""

    shape: tuple[int, ...]
    found: list[tuple[tuple[int | None, ...], float, bool]] = field(default_factory=list)


def arrange(function: ir.Function, variances: Variances, layout: Layout) -> dict[str, Arrangement]:
    """The cheapest order for each local array of `function`, by name."""
    accesses = {array.name: _Accesses(array.shape) for array in function.locals}
    _collect(function.body, 1.0, variances, accesses)
    return {name: _cheapest(each, layout.width) for name, each in accesses.items()}


def _collect(body: list[ir.Stmt], rounds: float, variances: Variances, accesses: dict[str, _Accesses]) -> None:
    for statement in body:
        inside = rounds * _rounds(statement)
        for array, indices, loads in _uses(statement):
            steps = tuple(variances.of(index).step for index in indices)
            weight = inside if isinstance(statement, ir.While) else rounds
            accesses[array.name].found.append((steps, weight, loads))
        for block in ir.blocks(statement):
            _collect(block, inside, variances, accesses)


def _rounds(statement: ir.Stmt) -> float:
    if isinstance(statement, ir.While):
        return _UNKNOWN_ROUNDS
    if not isinstance(statement, ir.For):
        return 1.0
    bounds = [part.value for part in (statement.start, statement.stop, statement.step) if isinstance(part, ir.Const)]
    return float(len(range(*(int(bound) for bound in bounds)))) if len(bounds) == 3 else _UNKNOWN_ROUNDS


def _uses(statement: ir.Stmt) -> Iterator[tuple[ir.LocalArray, tuple[ir.Expr, ...], bool]]:
    """(array, indexes, only loads) of the statement's own accesses to local arrays."""
    if isinstance(statement, ir.Store | ir.Atomic) and isinstance(statement.array, ir.LocalArray):
        yield statement.array, statement.indices, False
    for expr in ir.expressions(statement):
        for inner in ir.walk(expr):
            if isinstance(inner, ir.Load) and isinstance(inner.array, ir.LocalArray):
                yield inner.array, inner.indices, True


def _cheapest(accesses: _Accesses, width: int) -> Arrangement:
    plain = Arrangement(accesses.shape)
    best, least = plain, _cost(accesses, plain, width) * _WORTH
    for axis, size in enumerate(accesses.shape):
        steps = {abs(found[axis] or 0) for found, *_ in accesses.found}
        deals = sorted(step for step in steps if 1 < step <= min(_MOST_DEALT, size))
        for deal in [1, *deals]:
            trial = Arrangement(accesses.shape, axis, deal)
            cost = _cost(accesses, trial, width)
            if cost < least:
                best, least = trial, cost
    return best


def _cost(accesses: _Accesses, order: Arrangement, width: int) -> float:
    return sum(weight * _access_cost(steps, loads, order, width) for steps, weight, loads in accesses.found)


def _access_cost(steps: tuple[int | None, ...], loads: bool, order: Arrangement, width: int) -> float:
    total = 0
    for axis, (step, stride) in enumerate(zip(steps, order.strides, strict=True)):
        if step is None:
            return _SCATTERED
        if axis == order.axis and step % order.deal:
            alone = not any(other for place, other in enumerate(steps) if place != axis)
            return _SHUFFLED if step == 1 and alone and width % order.deal == 0 else _SCATTERED
        total += stride * (step // order.deal if axis == order.axis else step)
    if total in (0, 1):
        return _UNIT
    return _SHUFFLED if loads and 2 <= total <= 8 else _SCATTERED
