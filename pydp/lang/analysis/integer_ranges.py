"""Whether 32 bits are enough for a function's weak integers, from the ranges of a launch's extents and numbers.

Weak integers have 64-bit values. Addition, subtraction and multiplication need only the low 32 bits when the
destination has 32 bits. An index that does not fit 32 bits is out of bounds in both forms. Comparisons, divisions,
conversions and loop bounds need the whole value, so its range must fit 32 bits.

The ranges come from abstract interpretation over intervals (Cousot and Cousot, 1977). Passes over the body repeat until
the ranges at the loop heads are stable. They are widened to the launch's own numbers, then narrowed by loop conditions
and, for variables that a loop only adds to, by trip count times increment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis.exact_choices import BY_VALUE, ExactChoices, is_met
from pydp.lang.analysis.intervals import (
    INT32_RANGE,
    OPERATIONS,
    UNBOUNDED,
    Range,
    bounded,
    common_part,
    hull,
    limits,
    within,
    wrapped,
)
from pydp.lang.ir.types import BOOL

Known = dict[str, Range]
Leaf = Callable[[ir.Expr], Range]

# Extents are at most 2**30 where indexes have 32 bits: a value in this range that wraps comes out below 0 or beyond.
_INDEX_RANGE: Range = (-(1 << 32) + (1 << 30) + 1, (1 << 32) - 1)
_TRUTH: Range = (0, 1)
_WIDEN_AFTER, _WIDEN_FAR_AFTER, _MOST_PASSES, _NARROWING = 2, 8, 40, 4
_WHOLE = ("floordiv", "mod", "shr")  # operations whose result depends on all bits of both operands
_INDEXES = (ir.GroupIndex, ir.LocalIndex, ir.GlobalIndex, ir.GridExtent, ir.ArrayExtent)
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
# The range of int(x), by the bytes of the float. Floats out of range give INT32_MIN; the analysis ignores that result.
_OF_FLOATS: dict[int, Range] = {2: (-65504, 65504), 4: (-(2**31), 2**31 - 128), 8: (-(2**31), 2**31 - 1)}


class _TooWideError(Exception):
    """A value that 32 bits do not hold is needed whole."""


def fits_32_bits(function: ir.Function | ir.ValueFunction, leaf: Leaf) -> bool:
    """Whether the function, in the front end's form, gives the same results with its weak integers in 32 bits.

    leaf: the range of each parameter, extent and index."""
    return _Passes(function, leaf).run()


class _Loop:
    """A loop while passes go on: ranges at its head, at the end of its body, and where it is left early."""

    def __init__(self) -> None:
        self.head: Known | None = None
        self.back: Known | None = None
        self.caps: Known = {}
        self.breaks: list[Known] = []
        self.continues: list[Known] = []
        self.growth: dict[str, Range | None] = {}


class _Passes:
    """Passes over a function's body. `known`: the ranges of variables here, None where nothing comes by."""

    def __init__(self, function: ir.Function | ir.ValueFunction, leaf: Leaf) -> None:
        self.function, self.leaf = function, leaf
        self.choices = ExactChoices(function)
        self.known: Known | None = {}
        self.loops: dict[int, _Loop] = {}
        self.open: list[_Loop] = []
        self.checking = False
        self.changed = False
        self.number = 0
        self.narrowing = False
        self.steps: list[int] = []
        self.inverted = False

    def run(self) -> bool:
        self.steps = self._thresholds()
        for self.number in range(_MOST_PASSES):
            self._pass()
            if not self.changed:
                break
        else:
            return False
        self.narrowing = True
        for _ in range(_NARROWING if self.loops else 0):
            self._pass()
            if not self.changed:
                break
        self.checking = True
        try:
            self._pass()
            if isinstance(self.function, ir.ValueFunction):
                self.of(self.function.result)
        except _TooWideError:
            return False
        return not self.inverted

    def _pass(self) -> None:
        self.known, self.changed = {}, False
        if isinstance(self.function, ir.ValueFunction):
            for one in self.function.arguments:
                if one.dtype.kind in "iu":
                    self.known[one.name] = limits(one.dtype)
        self.block(self.function.body)

    def _thresholds(self) -> list[int]:
        """The bounds that ranges of loops are widened to: literals of the function and numbers of the launch."""
        found = {0, -1, 1, *INT32_RANGE, *_INDEX_RANGE}
        for statement in ir.statements(self.function.body):
            for one in ir.expressions(statement):
                for part in ir.walk(one):
                    if part.dtype.kind in "iu" and isinstance(part, ir.Const | ir.Parameter | ir.ArrayExtent):
                        ends = self.of(part)
                        found |= {value + more for value in ends or () for more in (-1, 0, 1)}
        return sorted(found | {*UNBOUNDED})

    # --- statements

    def block(self, body: Sequence[ir.Stmt]) -> None:
        for statement in body:
            if self.known is None:
                return
            getattr(self, f"_do_{type(statement).__name__}")(statement)

    def _do_Assign(self, one: ir.Assign) -> None:
        name = one.variable.name
        value = self.exact(one.value) if name in self.choices.variables else self.of(one.value)
        if one.members or value is None or one.variable.dtype.kind not in "iu":
            return
        assert self.known is not None
        self._note_growth(one)
        self.known[name] = value

    def _note_growth(self, one: ir.Assign) -> None:
        """What a turn of the innermost loop adds to a variable; None where it does something else to it."""
        if not self.open:
            return
        name, growth = one.variable.name, self.open[-1].growth
        added = _added_to(one) if one.variable.weak else None
        by = None if added is None else self.of(added[0])
        if added is None or by is None or growth.get(name, (0, 0)) is None:
            growth[name] = None
            return
        low, high = by if added[1] > 0 else (-by[1], -by[0])
        before = growth.get(name) or (0, 0)
        growth[name] = before[0] + min(0, low), before[1] + max(0, high)

    def _do_Store(self, one: ir.Store) -> None:
        self._indices(one)
        self.of(one.value)

    def _do_Atomic(self, one: ir.Atomic) -> None:
        self._indices(one)
        self.of(one.value)

    def _indices(self, one: ir.Load | ir.Store | ir.Atomic) -> None:
        for index in one.indices:
            self._index(index)
        for bound in one.bounds:
            self._index(bound.index)

    def _index(self, expr: ir.Expr) -> None:
        value = self.exact(expr)
        if value is not None and expr.dtype.itemsize == 4 and not within(value, _INDEX_RANGE):
            self._refuse()

    def _do_Barrier(self, one: ir.Barrier) -> None:
        if one.width is not None:
            self.whole(one.width)

    def _do_Break(self, one: ir.Break) -> None:
        assert self.known is not None
        self.open[-1].breaks.append(self.known)
        self.known = None

    def _do_Continue(self, one: ir.Continue) -> None:
        assert self.known is not None
        self.open[-1].continues.append(self.known)
        self.known = None

    def _do_If(self, one: ir.If) -> None:
        self.of(one.condition)
        start = self.known
        self.known = self.given(start, one.condition, True)
        self.block(one.then)
        first, self.known = self.known, self.given(start, one.condition, False)
        self.block(one.orelse)
        self.known = _joined([first, self.known])

    def _do_While(self, one: ir.While) -> None:
        self._loop(one, None, one.condition)

    def _do_For(self, one: ir.For) -> None:
        start, stop, step = (self.whole(bound) for bound in (one.start, one.stop, one.step))
        if start is None or stop is None or step is None:
            return
        if isinstance(one.step, ir.Const) and one.variable.dtype.itemsize == 4 and _is_weak(one.stop):
            last = stop[1] - 1 + step[0] if step[0] > 0 else stop[0] + 1 + step[0]
            if not within((last, last), INT32_RANGE):
                self._refuse()  # the counter is compared once more after the last turn
        up, down = stop[1] - start[0], start[1] - stop[0]
        low, high = min(start[0], stop[0] + 1), max(start[1], stop[1] - 1)
        turns = max(up, down, 0)
        if step[0] > 0:
            low, high, turns = start[0], stop[1] - 1, -(-up // step[0])
        elif step[1] < 0:
            low, high, turns = stop[0] + 1, start[1], -(down // step[1])
        if turns <= 0:
            return
        self._loop(one, turns, None, (one.variable.name, (low, high)))

    def _loop(
        self,
        one: ir.For | ir.While,
        turns: int | None,
        condition: ir.Expr | None,
        counter: tuple[str, Range] | None = None,
    ) -> None:
        loop = self.loops.setdefault(one.uid, _Loop())
        entry = self.known
        assert entry is not None
        head = self._head(loop, entry)
        loop.breaks, loop.continues, loop.growth = [], [], {}
        self.open.append(loop)
        self.known = dict(head)
        if condition is not None:
            self.of(condition)
            self.known = self.given(head, condition, True)
        if counter is not None and self.known is not None:
            self.known[counter[0]] = counter[1]
        if self.known is not None:
            self.block(one.body)
        self.open.pop()
        loop.back = _joined([self.known, *loop.continues])
        loop.caps = {}
        for name, by in loop.growth.items():
            total = None if by is None or turns is None else (by[0] * turns, by[1] * turns)
            if total is not None and name in entry:
                loop.caps[name] = entry[name][0] + total[0], entry[name][1] + total[1]
            if self.open:
                outer = self.open[-1].growth
                before = outer.get(name, (0, 0))
                both = None if total is None or before is None else (before[0] + total[0], before[1] + total[1])
                outer[name] = both
        ends = [head if condition is None else self.given(head, condition, False), *loop.breaks]
        self.known = _joined(ends)
        after = _joined([head, loop.back])
        if not self.checking and not self.narrowing and after != head:
            self.changed = True

    def _head(self, loop: _Loop, entry: Known) -> Known:
        """The ranges at a loop's head in this pass."""
        before = loop.head
        reached = _joined([entry, loop.back])
        assert reached is not None
        if self.checking and before is not None:
            return before
        if self.narrowing and before is not None:
            head = {name: common_part(ends, before.get(name, ends)) for name, ends in reached.items()}
            for name, cap in loop.caps.items():
                if name in head:
                    head[name] = common_part(head[name], cap)
        else:
            head = _joined([before, reached]) or {}
            if before is not None and self.number >= _WIDEN_AFTER:
                head = {name: self._widened(before.get(name), ends) for name, ends in head.items()}
        if head != before:
            self.changed = True
        loop.head = head
        return head

    def _widened(self, before: Range | None, now: Range) -> Range:
        if before is None or before == now:
            return now
        steps = [*UNBOUNDED] if self.number >= _WIDEN_FAR_AFTER else self.steps
        low, high = now
        if low < before[0]:
            low = max((step for step in steps if step <= low), default=low)
        if high > before[1]:
            high = min((step for step in steps if step >= high), default=high)
        return low, high

    # --- expressions

    def _refuse(self) -> None:
        if self.checking:
            raise _TooWideError

    def whole(self, expr: ir.Expr) -> Range | None:
        """The range of an integer whose value is used, not only its low bits."""
        value = self.whole(expr.value) if is_met(expr) else self.exact(expr)  # type: ignore[attr-defined]
        if value is not None and not within(value, limits(expr.dtype)):
            self._refuse()
        return value

    def exact(self, expr: ir.Expr) -> Range | None:
        """The range of an integer's value before it takes the type of a typed integer that it meets."""
        if is_met(expr):
            return self.of(expr.value)  # type: ignore[attr-defined]
        if not self.choices.holds(expr):
            return self.of(expr)
        if isinstance(expr, ir.Select):
            return self._chosen(expr, self.exact)
        if isinstance(expr, ir.Read):
            return (self.known or {}).get(expr.variable.name, limits(expr.dtype))
        return self.of(expr)

    def of(self, expr: ir.Expr) -> Range | None:
        """The range of an integer's true value; None for what is no integer."""
        rule = _RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        return self._given(expr) if expr.dtype.kind in "iu" else None

    def _given(self, expr: ir.Expr) -> Range:
        """The leaf's range. One without values would make code that runs look unreachable: 64 bits are the answer."""
        ends = self.leaf(expr)
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
        found = (self.known or {}).get(variable.name)
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
        both = expr.op in _WHOLE
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
        before = self.known
        self.known = self.given(before, expr.left, expr.op == "and")
        if self.known is not None:
            self.of(expr.right)
        self.known = before

    def _select(self, expr: ir.Select) -> Range | None:
        ends = self._chosen(expr, self.of)
        return _result(ends, expr) if ends is not None and expr.dtype.kind in "iu" else None

    def _chosen(self, expr: ir.Select, of: Callable[[ir.Expr], Range | None]) -> Range | None:
        """The common range of a conditional's values, each by `of` where the condition says so."""
        self.of(expr.condition)
        before, found = self.known, []
        for part, holds in ((expr.yes, True), (expr.no, False)):
            self.known = self.given(before, expr.condition, holds)
            if self.known is not None:
                found.append(of(part))
        self.known = before
        ends = [one for one in found if one is not None]
        return hull(ends) if ends else None

    def _cast(self, expr: ir.Cast) -> Range | None:
        source, target = expr.value.dtype, expr.dtype
        if source == BOOL:
            self.of(expr.value)
            return _TRUTH if target.kind in "iu" else None
        whole = target.kind not in "iu" or target.itemsize > source.itemsize
        value = self.whole(expr.value) if whole and source.kind in "iu" else self.of(expr.value)
        if expr.weak and source == target:
            value = self.exact(expr.value)
        if target.kind not in "iu":
            return None
        if value is None:
            small = source.kind == "f" and target.itemsize == 4 and target.kind == "i"
            return _OF_FLOATS[source.itemsize] if small else limits(target)
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

    def given(self, known: Known | None, condition: ir.Expr, holds: bool) -> Known | None:
        """The ranges where a condition holds (or does not); None where that cannot be."""
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
            return _joined([left, self.given(rest, condition.right, holds)])
        if isinstance(condition, ir.Compare) and condition.left.dtype.kind in "iu":
            op = condition.op if holds else _OPPOSITE[condition.op]
            first = self._bounded(dict(known), condition.left, op, condition.right)
            return None if first is None else self._bounded(first, condition.right, _MIRRORED[op], condition.left)
        return dict(known)

    def _bounded(self, known: Known, target: ir.Expr, op: str, other: ir.Expr) -> Known | None:
        """`known` with what `target op other` says of the variable in `target`."""
        steps: list[tuple[str, int]] = []
        target = _inner(target)
        while isinstance(target, ir.Binary) and target.weak and target.op in ("add", "sub", "mul"):
            constant, rest = target.right, target.left
            if isinstance(rest, ir.Const) and target.op != "sub":
                constant, rest = rest, constant
            if not isinstance(constant, ir.Const):
                return known
            by = int(constant.value)
            steps.append((target.op, by) if target.op != "sub" else ("add", -by))
            target = _inner(rest)
        if not isinstance(target, ir.Read) or target.variable.name not in known:
            return known
        outer, self.known, checking, self.checking = self.known, known, self.checking, False
        ends = self.of(_inner(other))
        self.known, self.checking = outer, checking
        if ends is None:
            return known
        low, high = UNBOUNDED
        if op in ("lt", "le", "eq"):
            high = ends[1] - (op == "lt")
        if op in ("gt", "ge", "eq"):
            low = ends[0] + (op == "gt")
        for step, by in steps:
            if step == "add":
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


_RULES: dict[type, Callable[[_Passes, Any], Range | None]] = {
    ir.Const: _Passes._const,
    ir.Read: _Passes._read,
    ir.Unary: _Passes._unary,
    ir.Binary: _Passes._binary,
    ir.Compare: _Passes._compare,
    ir.Logical: _Passes._logical,
    ir.Select: _Passes._select,
    ir.Cast: _Passes._cast,
    ir.Math: _Passes._math,
    ir.Load: _Passes._load,
    ir.Member: _Passes._member,
    ir.MakeRecord: _Passes._record,
}


def _joined(states: Iterable[Known | None]) -> Known | None:
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    result = dict(reached[0])
    for state in reached[1:]:
        for name, ends in state.items():
            mine = result.get(name)
            result[name] = ends if mine is None else (min(mine[0], ends[0]), max(mine[1], ends[1]))
    return result


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
    return bool(getattr(expr, "weak", isinstance(expr, _INDEXES)))


def _inner(expr: ir.Expr) -> ir.Expr:
    """What a comparison compares: conversions to a type that holds all values change nothing, and what a weak integer
    becomes where it meets a typed one is compared as it is."""
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
