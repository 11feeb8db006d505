"""The values of expressions for one group's lanes, as far as they are known before a launch, and what they read.

What depends on the lane's place and on loop counters is computed for every lane; what depends on data is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access, Event
from pydp.lang.execute.lane_signature import Signature, signature
from pydp.lang.execute.symbolic_values import Known, Value, apply, binary, cast, compare, merge, same, symbol, unary
from pydp.lang.intrinsics import FUNCTIONS


class Evaluator:
    """Evaluates expressions for lanes in the abstract; `events` is what they touched."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.group = function.group or (1,) * function.grid_rank
        self.size = max(1, math.prod(self.group))
        self.places = np.unravel_index(np.arange(self.size), self.group) if self.group else ()
        self.active = self.everyone = np.ones(self.size, bool)
        self.lanes = np.arange(self.size)
        self.certain, self.exact, self.settled = True, True, True
        self.context: tuple[int, ...] = ()
        self.values: dict[str, Value] = {}
        self.signatures: dict[str, Signature] = {}
        self.written = {s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)}
        self.events: list[Event] = []
        self.work = 0
        self.serial = 0

    # --- expressions --------------------------------------------------------------------------------------

    def evaluate(self, expression: ir.Expr) -> Value:
        self.work += 1
        return getattr(self, "of_" + type(expression).__name__.lower())(expression)

    def of_const(self, e: ir.Const) -> Value:
        if e.dtype.names is not None:
            return None
        return Known(np.asarray(e.value).astype(e.dtype)[()])

    def of_read(self, e: ir.Read) -> Value:
        return self.values.get(e.variable.name)

    def of_parameter(self, e: ir.Parameter) -> Value:
        return symbol(("parameter", e.position, e.item), e.dtype)

    def placed(self, what: str, axis: int, dtype: np.dtype[Any]) -> Value:
        """Along an axis the group's number in the grid ("group"), or where the grid begins ("offset")."""
        return symbol((what, axis), dtype)

    def of_groupindex(self, e: ir.GroupIndex) -> Value:
        return self.placed("group", e.axis, e.dtype)

    def of_localindex(self, e: ir.LocalIndex) -> Value:
        return Known(self.places[e.axis].astype(e.dtype)) if self.group[e.axis] > 1 else Known(e.dtype.type(0))

    def of_globalindex(self, e: ir.GlobalIndex) -> Value:
        first = binary("mul", self.placed("group", e.axis, e.dtype), Known(e.dtype.type(self.group[e.axis])), e.dtype)
        first = binary("add", first, self.placed("offset", e.axis, e.dtype), e.dtype)
        return binary("add", first, Known(self.places[e.axis].astype(e.dtype)), e.dtype)

    def of_gridextent(self, e: ir.GridExtent) -> Value:
        return symbol(("grid", e.axis), e.dtype)

    def of_arrayextent(self, e: ir.ArrayExtent) -> Value:
        return symbol(("extent", e.array.name, e.axis), e.dtype)

    def of_unary(self, e: ir.Unary) -> Value:
        return unary(e.op, self.evaluate(e.value), e.dtype)

    def of_binary(self, e: ir.Binary) -> Value:
        return binary(e.op, self.evaluate(e.left), self.evaluate(e.right), e.dtype)

    def of_compare(self, e: ir.Compare) -> Value:
        return compare(e.op, self.evaluate(e.left), self.evaluate(e.right))

    def of_logical(self, e: ir.Logical) -> Value:
        left = self.evaluate(e.left)
        right = self._where(left, e.right, wanted=e.op == "and")
        outcome = self._outcome(left)
        if outcome is not None:
            return left if outcome == (e.op == "or") else right
        if left is None or right is None or not (left.is_exact and right.is_exact):
            return None
        return Known((np.logical_and if e.op == "and" else np.logical_or)(left.lanes, right.lanes))

    def of_select(self, e: ir.Select) -> Value:
        condition = self.evaluate(e.condition)
        yes = self._where(condition, e.yes, wanted=True)
        no = self._where(condition, e.no, wanted=False)
        if condition is None or not condition.is_exact:
            return yes if same(yes, no) else None
        outcome = self._outcome(condition)
        if outcome is not None:
            return yes if outcome else no
        return merge(condition.lanes, yes, no)

    def _outcome(self, condition: Value) -> bool | None:
        """What a condition is in all lanes that are active, None where they differ or it is not known."""
        if condition is None or not condition.is_exact:
            return None
        if condition.is_uniform:
            return bool(condition.lanes)
        truths = condition.lanes[self.active]
        return bool(truths[0]) if len(truths) and (truths == truths[0]).all() else None

    def _where(self, condition: Value, expression: ir.Expr, wanted: bool) -> Value:
        """An expression that only lanes read in which the condition has the wanted outcome."""
        if condition is None or not condition.is_exact:
            with self.unsure(shared=condition is not None):
                return self.evaluate(expression)
        outer = self.active
        self.active = outer & (np.broadcast_to(condition.lanes, outer.shape) == wanted)
        value = self.evaluate(expression) if self.active.any() else None
        self.active = outer
        return value

    def of_cast(self, e: ir.Cast) -> Value:
        return cast(self.evaluate(e.value), e.dtype)

    def of_math(self, e: ir.Math) -> Value:
        row = FUNCTIONS[e.name]
        compute = row.numpy if row.is_exact(e.values[0].dtype) else None  # of cbrt(27) some devices make less than 3
        return apply(e.name, compute, [self.evaluate(v) for v in e.values], e.dtype)

    def of_member(self, e: ir.Member) -> Value:
        names: tuple[Any, ...] = (e.name,)
        whole = e.record
        while isinstance(whole, ir.Member):
            names, whole = (whole.name, *names), whole.record
        if isinstance(whole, ir.Load):
            self.touch("read", whole, whole.where, members=names)
            return None
        record = self.evaluate(e.record)
        if e.dtype.subdtype is not None or isinstance(e.name, ir.Item):
            return None
        return apply("." + e.name, lambda r: r[e.name], [record], e.dtype) if record is not None else None

    def of_makerecord(self, e: ir.MakeRecord) -> Value:
        for value in e.values:
            self.evaluate(value)
        return None

    def of_load(self, e: ir.Load) -> Value:
        self.touch("read", e, e.where)
        return None

    # --- what they touch ----------------------------------------------------------------------------------

    def signature(self, expression: ir.Expr) -> Signature:
        return signature(expression, self.evaluate, self.signatures, self.written)

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: Value = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        """Note an access of the active lanes; None where it is of no interest."""
        dims = tuple(self.evaluate(index) for index in access.indices)
        known = None if any(value is None for value in dims) else dims
        lanes = self.lanes if self.active is self.everyone else np.nonzero(self.active)[0]
        state = (self.certain, self.context, where, access, value, self.settled)
        event = Access(kind, access.array, lanes, known, *state, members=members)
        self.events.append(event)
        return event

    @contextmanager
    def unsure(self, shared: bool) -> Iterator[None]:
        """What runs inside happens for all lanes or none (`shared`), or for some of them."""
        state = self.certain, self.context, self.exact
        self._may_have_left(shared)
        yield
        self.certain, self.context, self.exact = state

    def _may_have_left(self, shared: bool) -> None:
        self.exact = False
        if shared:
            self.serial += 1
            self.context = (*self.context, self.serial)
        else:
            self.certain = False
