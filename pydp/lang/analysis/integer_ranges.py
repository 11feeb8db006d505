"""Whether 32 bits are enough for a function's weak integers, from the ranges of a launch's extents and numbers.

`integer_widths.fits_32_bits` runs this analysis.

Weak integers have 64-bit values. Addition, subtraction and multiplication need only the low 32 bits when the
destination has 32 bits. An index that does not fit 32 bits is out of bounds in both forms. Comparisons, divisions,
conversions and loop bounds need the whole value, so its range must fit 32 bits.

The ranges come from abstract interpretation over intervals (Cousot and Cousot, 1977) with the walk of
:mod:`pydp.lang.analysis.forward`. Ranges at loop heads are widened to the constants of the function and the numbers of
the launch. They are then narrowed by loop conditions and, for variables that a loop only adds to, by trip count times
increment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis.exact_choices import BY_VALUE, WHOLE_VALUE_OPERATIONS, ExactChoices, is_promoted
from pydp.lang.analysis.forward import Forward
from pydp.lang.analysis.intervals import (
    INT32_RANGE,
    OPERATIONS,
    UNBOUNDED,
    Range,
    bounded,
    common_part,
    counter_range,
    hull,
    limits,
    trip_count,
    within,
    wrapped,
)
from pydp.lang.ir.types import BOOL, MIRRORED

VariableRanges = dict[str, Range]
InputRange = Callable[[ir.Expr], Range]

# 32-bit indexes have extents up to 2**30, so if a value in this range wraps, the result is still out of bounds.
_INDEX_RANGE: Range = (-(1 << 32) + (1 << 30) + 1, (1 << 32) - 1)
_BOOL_RANGE: Range = (0, 1)
_WIDEN_FAR_AFTER = 8  # passes before ranges are widened to "no bound"
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
# The range of int(x), by the bytes of the float. Floats out of range give INT32_MIN; the analysis ignores that result
# (see `integer_widths.fits_32_bits`).
_FLOAT_TO_INT32: dict[int, Range] = {2: (-65504, 65504), 4: (-(2**31), 2**31 - 128), 8: (-(2**31), 2**31 - 1)}


class _TooWideError(Exception):
    """A value that 32 bits do not hold is needed whole."""


class IntegerRanges(Forward[VariableRanges]):
    """The ranges of integer variables. The final pass raises _TooWideError for a value that 32 bits do not hold."""

    def __init__(self, function: ir.Function | ir.ValueFunction, input_range: InputRange) -> None:
        super().__init__()
        self.function, self.input_range = function, input_range
        self.choices = ExactChoices(function)
        self.thresholds: list[int] = []
        self.inverted = False
        self._counters: VariableRanges = {}  # of the `for` loops around the current place
        self._limits: dict[int, VariableRanges] = {}  # by loop: from trip count times increment
        # For each open loop: the sum of the increments of each variable in an iteration; None after other assignments.
        self._increments: list[dict[str, Range | None]] = []

    def run(self) -> bool:
        self.thresholds = self._thresholds()
        try:
            if not self.solve(self.function.body):
                return False
            if isinstance(self.function, ir.ValueFunction):
                self.of(self.function.result)
        except _TooWideError:
            return False
        return not self.inverted

    def entry(self) -> VariableRanges:
        arguments = self.function.arguments if isinstance(self.function, ir.ValueFunction) else ()
        return {one.name: limits(one.dtype) for one in arguments if one.dtype.kind in "iu"}

    def _thresholds(self) -> list[int]:
        """The widening thresholds: constants of the function and numbers of the launch, and their neighbours."""
        found = {0, -1, 1, *INT32_RANGE, *_INDEX_RANGE}
        for part in ir.parts(ir.statements(self.function.body)):
            if part.dtype.kind in "iu" and isinstance(part, ir.Const | ir.Parameter | ir.ArrayExtent):
                found |= {value + more for value in self.of(part) or () for more in (-1, 0, 1)}
        return sorted(found | {*UNBOUNDED})

    # --- statements

    def transfer(self, statement: ir.Stmt) -> None:
        if isinstance(statement, ir.Assign):
            self._assign(statement)
        elif isinstance(statement, ir.Store | ir.Atomic):
            self._indices(statement)
            self.of(statement.value)
        elif isinstance(statement, ir.Barrier) and statement.width is not None:
            self.whole(statement.width)

    def _assign(self, one: ir.Assign) -> None:
        name = one.variable.name
        value = self.exact(one.value) if name in self.choices.variables else self.of(one.value)
        if one.members or value is None or one.variable.dtype.kind not in "iu":
            return
        assert self.state is not None
        if self._increments:
            self._add_increment(name, self._increment(one))
        self.state[name] = value

    def _increment(self, one: ir.Assign) -> Range | None:
        """The range of the increment of an assignment ``v = v + e`` or ``v = v - e``, and 0; None for others."""
        added = _added_to(one) if one.variable.weak else None
        by = None if added is None else self.of(added[0])
        if added is None or by is None:
            return None
        low, high = by if added[1] > 0 else (-by[1], -by[0])
        return min(0, low), max(0, high)

    def _add_increment(self, name: str, by: Range | None) -> None:
        total = self._increments[-1].get(name, (0, 0))
        self._increments[-1][name] = None if total is None or by is None else (total[0] + by[0], total[1] + by[1])

    def _indices(self, one: ir.Load | ir.Store | ir.Atomic) -> None:
        for index in one.indices:
            self._index(index)
        for bound in one.bounds:
            self._index(bound.index)

    def _index(self, expr: ir.Expr) -> None:
        value = self.exact(expr)
        if value is not None and expr.dtype.itemsize == 4 and not within(value, _INDEX_RANGE):
            self._refuse()

    # --- loops and joins

    def loop(self, loop: ir.For | ir.While, entry: VariableRanges) -> None:
        trips = None
        if isinstance(loop, ir.For):
            start, stop, step = (self.whole(bound) for bound in (loop.start, loop.stop, loop.step))
            if start is None or stop is None or step is None:
                return
            self._check_last_counter(loop, stop, step)
            trips = trip_count((stop[0] - start[1], stop[1] - start[0]), step)[1]
            if not trips:
                return
            self._counters[loop.variable.name] = counter_range(start, stop, step)
        self._increments.append({})
        super().loop(loop, entry)
        self._limits[loop.uid] = after = {}
        for name, by in self._increments.pop().items():
            total = None if by is None or trips is None else (by[0] * trips, by[1] * trips)
            if total is not None and name in entry:
                after[name] = entry[name][0] + total[0], entry[name][1] + total[1]
            if self._increments:
                self._add_increment(name, total)

    def _check_last_counter(self, loop: ir.For, stop: Range, step: Range) -> None:
        """The kernel compares the counter once more after the last iteration, so this value must fit, too."""
        if isinstance(loop.step, ir.Const) and loop.variable.dtype.itemsize == 4 and _is_weak(loop.stop):
            last = stop[1] - 1 + step[0] if step[0] > 0 else stop[0] + 1 + step[0]
            if not within((last, last), INT32_RANGE):
                self._refuse()

    def enter(self, loop: ir.For, head: VariableRanges) -> VariableRanges:
        return {**head, loop.variable.name: self._counters[loop.variable.name]}

    def join(self, states: Sequence[VariableRanges]) -> VariableRanges:
        result = dict(states[0])
        for state in states[1:]:
            for name, ends in state.items():
                mine = result.get(name)
                result[name] = ends if mine is None else (min(mine[0], ends[0]), max(mine[1], ends[1]))
        return result

    def narrow(self, loop: ir.For | ir.While, before: VariableRanges, now: VariableRanges) -> VariableRanges:
        head = {name: common_part(ends, before.get(name, ends)) for name, ends in now.items()}
        for name, ends in self._limits.get(loop.uid, {}).items():
            if name in head:
                head[name] = common_part(head[name], ends)
        return head

    def widen(self, before: VariableRanges, now: VariableRanges) -> VariableRanges:
        return {name: self._widened(before.get(name), ends) for name, ends in now.items()}

    def _widened(self, before: Range | None, now: Range) -> Range:
        if before is None or before == now:
            return now
        thresholds = [*UNBOUNDED] if self.pass_number >= _WIDEN_FAR_AFTER else self.thresholds
        low, high = now
        if low < before[0]:
            low = max((one for one in thresholds if one <= low), default=low)
        if high > before[1]:
            high = min((one for one in thresholds if one >= high), default=high)
        return low, high

    # --- expressions

    def _refuse(self) -> None:
        if self.final:
            raise _TooWideError

    def whole(self, expr: ir.Expr) -> Range | None:
        """The range of an integer whose value is used, not only its low bits."""
        value = self.whole(expr.value) if is_promoted(expr) else self.exact(expr)
        if value is not None and not within(value, limits(expr.dtype)):
            self._refuse()
        return value

    def exact(self, expr: ir.Expr) -> Range | None:
        """The range of an integer's value before its promotion to the type of a typed integer."""
        if is_promoted(expr):
            return self.of(expr.value)
        if not self.choices.holds(expr):
            return self.of(expr)
        if isinstance(expr, ir.Select):
            return self._chosen(expr, self.exact)
        if isinstance(expr, ir.Read):
            return (self.state or {}).get(expr.variable.name, limits(expr.dtype))
        return self.of(expr)

    def of(self, expr: ir.Expr) -> Range | None:
        """The range of an integer's true value; None if it is not an integer."""
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        return self._input(expr) if expr.dtype.kind in "iu" else None

    def _input(self, expr: ir.Expr) -> Range:
        """The range of an input. An empty one would make code that runs look unreachable; 64 bits are used then."""
        ends = self.input_range(expr)
        if ends[0] > ends[1]:
            self.inverted = True
            return UNBOUNDED
        return ends

    def _const(self, expr: ir.Const) -> Range | None:
        return (int(expr.value), int(expr.value)) if expr.dtype.kind in "iu" else None

    def _read(self, expr: ir.Read) -> Range | None:
        variable = expr.variable
        if variable.dtype.kind not in "iu":
            return None
        found = (self.state or {}).get(variable.name)
        if found is None:
            return (0, 0) if variable.weak else limits(variable.dtype)
        return wrapped(found, variable.dtype) if variable.name in self.choices.variables else found

    def _unary(self, expr: ir.Unary) -> Range | None:
        value = self.of(expr.value)
        if value is None or expr.op == "not":
            return None
        low, high = (-value[1], -value[0]) if expr.op == "neg" else (~value[1], ~value[0])
        return _result((low, high), expr)

    def _binary(self, expr: ir.Binary) -> Range | None:
        if expr.dtype.kind not in "iu":
            self.of(expr.left)
            self.of(expr.right)
            return None
        both = expr.op in WHOLE_VALUE_OPERATIONS
        left = self.whole(expr.left) if both else self.of(expr.left)
        right = self.whole(expr.right) if both or expr.op in ("pow", "shl") else self.of(expr.right)
        if left is None or right is None:
            return limits(expr.dtype)
        return _result(OPERATIONS[expr.op](left, right), expr)

    def _compare(self, expr: ir.Compare) -> None:
        self.whole(expr.left)
        self.whole(expr.right)

    def _logical(self, expr: ir.Logical) -> None:
        self.of(expr.left)
        before = self.state
        self.state = self.given(before, expr.left, expr.op == "and")
        if self.state is not None:
            self.of(expr.right)
        self.state = before

    def _select(self, expr: ir.Select) -> Range | None:
        ends = self._chosen(expr, self.of)
        return _result(ends, expr) if ends is not None and expr.dtype.kind in "iu" else None

    def _chosen(self, expr: ir.Select, of: Callable[[ir.Expr], Range | None]) -> Range | None:
        """The range of a conditional's two values, each by `of` under its condition."""
        self.of(expr.condition)
        before, found = self.state, []
        for part, holds in ((expr.yes, True), (expr.no, False)):
            self.state = self.given(before, expr.condition, holds)
            if self.state is not None:
                found.append(of(part))
        self.state = before
        ends = [one for one in found if one is not None]
        return hull(ends) if ends else None

    def _cast(self, expr: ir.Cast) -> Range | None:
        source, target = expr.value.dtype, expr.dtype
        if source == BOOL:
            self.of(expr.value)
            return _BOOL_RANGE if target.kind in "iu" else None
        whole = target.kind not in "iu" or target.itemsize > source.itemsize
        value = self.whole(expr.value) if whole and source.kind in "iu" else self.of(expr.value)
        if expr.weak and source == target:
            value = self.exact(expr.value)
        if target.kind not in "iu":
            return None
        if value is None:
            small = source.kind == "f" and target.itemsize == 4 and target.kind == "i"
            return _FLOAT_TO_INT32[source.itemsize] if small else limits(target)
        return _result(value, expr)

    def _math(self, expr: ir.Math) -> Range | None:
        by_value = expr.name in BY_VALUE or expr.dtype.kind not in "iu"
        values = [self.whole(one) if by_value else self.of(one) for one in expr.values]
        if expr.dtype.kind not in "iu":
            return None
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not by_value:
            return limits(expr.dtype)
        if expr.name == "abs":
            low, high = known[0]
            return _result((max(0, low, -high), max(-low, high)), expr)
        pick = min if expr.name == "minimum" else max
        return _result((pick(one[0] for one in known), pick(one[1] for one in known)), expr)

    def _load(self, expr: ir.Load) -> Range | None:
        self._indices(expr)
        return limits(expr.dtype) if expr.dtype.kind in "iu" else None

    def _member(self, expr: ir.Member) -> Range | None:
        self.of(expr.record)
        return limits(expr.dtype) if expr.dtype.kind in "iu" else None

    def _record(self, expr: ir.MakeRecord) -> None:
        for value in expr.values:
            self.of(value)

    # --- conditions

    def read(self, expr: ir.Expr) -> None:
        self.of(expr)

    def given(self, known: VariableRanges | None, condition: ir.Expr, holds: bool) -> VariableRanges | None:
        if known is None:
            return None
        if isinstance(condition, ir.Const):
            return dict(known) if bool(condition.value) == holds else None
        if isinstance(condition, ir.Unary) and condition.op == "not":
            return self.given(known, condition.value, not holds)
        if isinstance(condition, ir.Logical):
            if (condition.op == "and") == holds:
                return self.given(self.given(known, condition.left, holds), condition.right, holds)
            left = self.given(known, condition.left, holds)
            rest = self.given(known, condition.left, not holds)
            return self._joined([left, self.given(rest, condition.right, holds)])
        if isinstance(condition, ir.Compare) and condition.left.dtype.kind in "iu":
            op = condition.op if holds else _OPPOSITE[condition.op]
            first = self._bounded(dict(known), condition.left, op, condition.right)
            return None if first is None else self._bounded(first, condition.right, MIRRORED[op], condition.left)
        return dict(known)

    def _bounded(self, known: VariableRanges, target: ir.Expr, op: str, other: ir.Expr) -> VariableRanges | None:
        """`known`, where the variable in `target` has only values for which ``target op other`` may hold."""
        inverses: list[tuple[str, int]] = []
        target = _inner(target)
        while isinstance(target, ir.Binary) and target.weak and target.op in ("add", "sub", "mul"):
            constant, rest = target.right, target.left
            if isinstance(rest, ir.Const) and target.op != "sub":
                constant, rest = rest, constant
            if not isinstance(constant, ir.Const):
                return known
            by = int(constant.value)
            inverses.append((target.op, by) if target.op != "sub" else ("add", -by))
            target = _inner(rest)
        if not isinstance(target, ir.Read) or target.variable.name not in known:
            return known
        outer, final, self.state, self.final = self.state, self.final, known, False
        ends = self.of(_inner(other))
        self.state, self.final = outer, final
        if ends is None:
            return known
        low, high = UNBOUNDED
        if op in ("lt", "le", "eq"):
            high = ends[1] - (op == "lt")
        if op in ("gt", "ge", "eq"):
            low = ends[0] + (op == "gt")
        for operation, by in inverses:
            if operation == "add":
                low, high = low - by, high - by
            elif by > 0:
                low, high = -(-low // by), high // by
            else:
                return known
        before = known[target.variable.name]
        low, high = max(low, before[0]), min(high, before[1])
        if low > high:
            return None
        known[target.variable.name] = low, high
        return known


_RULES: dict[type, Callable[[IntegerRanges, Any], Range | None]] = {
    ir.Const: IntegerRanges._const,
    ir.Read: IntegerRanges._read,
    ir.Unary: IntegerRanges._unary,
    ir.Binary: IntegerRanges._binary,
    ir.Compare: IntegerRanges._compare,
    ir.Logical: IntegerRanges._logical,
    ir.Select: IntegerRanges._select,
    ir.Cast: IntegerRanges._cast,
    ir.Math: IntegerRanges._math,
    ir.Load: IntegerRanges._load,
    ir.Member: IntegerRanges._member,
    ir.MakeRecord: IntegerRanges._record,
}


def _result(value: Range, expr: Any) -> Range:
    """The range of an operation's result. Typed integers wrap; weak ones keep the exact value."""
    if not expr.weak:
        return wrapped(value, expr.dtype)
    if expr.dtype.kind == "u":
        return wrapped(value, expr.dtype)
    return bounded(value)


def _is_weak(expr: ir.Expr) -> bool:
    if isinstance(expr, ir.Read):
        return expr.variable.weak
    if isinstance(expr, ir.Cast) and expr.dtype == expr.value.dtype:
        return _is_weak(expr.value)
    return bool(getattr(expr, "weak", isinstance(expr, ir.INDEXES)))


def _inner(expr: ir.Expr) -> ir.Expr:
    """The expression whose value a comparison compares: without conversions to a type that holds all values, and
    without promotions of weak integers, because comparisons use the whole value."""
    while isinstance(expr, ir.Cast) and expr.value.dtype.kind in "iu" and expr.dtype.kind in "iu":
        wider = expr.dtype.itemsize > expr.value.dtype.itemsize and np.can_cast(expr.value.dtype, expr.dtype)
        if not (expr.promoted or wider or (expr.weak and expr.dtype == expr.value.dtype)):
            break
        expr = expr.value
    return expr


def _added_to(one: ir.Assign) -> tuple[ir.Expr, int] | None:
    """(e, sign) of ``v = v + e`` and ``v = v - e``."""
    value = one.value
    if not isinstance(value, ir.Binary) or value.op not in ("add", "sub") or not value.weak:
        return None
    sides = [(value.left, value.right, 1 if value.op == "add" else -1)]
    if value.op == "add":
        sides.append((value.right, value.left, 1))
    for own, other, sign in sides:
        if isinstance(own, ir.Read) and own.variable.name == one.variable.name:
            reads = any(
                isinstance(part, ir.Read) and part.variable.name == one.variable.name for part in ir.walk(other)
            )
            return None if reads else (other, sign)
    return None
