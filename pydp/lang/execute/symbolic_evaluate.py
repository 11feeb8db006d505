"""Evaluates expressions for the lanes of one group with symbolic values, and records their loads.

Values that depend only on lane indexes and loop counters are computed for every lane. Values that depend on data are
unknown.
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
from pydp.lang.execute.symbolic_values import (
    OptionalValue,
    SymbolicValue,
    apply,
    binary,
    cast,
    compare,
    merge,
    same,
    symbol,
    unary,
)
from pydp.lang.intrinsics import FUNCTIONS


class SymbolicEvaluator:
    """Evaluates expressions for all lanes with symbolic values; `events` has the accesses."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.group = function.group or (1,) * function.grid_rank
        self.size = max(1, math.prod(self.group))
        self.local_indices = np.unravel_index(np.arange(self.size), self.group) if self.group else ()
        self.active = self.all_lanes = np.ones(self.size, bool)
        self.lanes = np.arange(self.size)
        self.certain, self.iterations_known, self.earlier_writes_traced = True, True, True
        self.context: tuple[int, ...] = ()
        self.values: dict[str, OptionalValue] = {}
        self.signatures: dict[str, Signature] = {}
        self.written = {s.array.name for s in ir.statements(function.body) if isinstance(s, ir.Store | ir.Atomic)}
        self.events: list[Event] = []
        self.work = 0
        self.condition_count = 0

    # --- expressions --------------------------------------------------------------------------------------

    def evaluate(self, expression: ir.Expr) -> OptionalValue:
        self.work += 1
        return getattr(self, "of_" + type(expression).__name__.lower())(expression)

    def of_const(self, e: ir.Const) -> OptionalValue:
        if e.dtype.names is not None:
            return None
        return SymbolicValue(np.asarray(e.value).astype(e.dtype)[()])

    def of_read(self, e: ir.Read) -> OptionalValue:
        return self.values.get(e.variable.name)

    def of_parameter(self, e: ir.Parameter) -> OptionalValue:
        return symbol(("parameter", e.position, e.item), e.dtype)

    def uniform_index(self, what: str, axis: int, dtype: np.dtype[Any]) -> OptionalValue:
        """A uniform index along an axis: the group's index in the grid ("group") or the grid's offset ("offset")."""
        return symbol((what, axis), dtype)

    def of_groupindex(self, e: ir.GroupIndex) -> OptionalValue:
        return self.uniform_index("group", e.axis, e.dtype)

    def of_localindex(self, e: ir.LocalIndex) -> OptionalValue:
        if self.group[e.axis] == 1:
            return SymbolicValue(e.dtype.type(0))
        return SymbolicValue(self.local_indices[e.axis].astype(e.dtype))

    def of_globalindex(self, e: ir.GlobalIndex) -> OptionalValue:
        group, extent = self.uniform_index("group", e.axis, e.dtype), SymbolicValue(e.dtype.type(self.group[e.axis]))
        first = binary("mul", group, extent, e.dtype)
        first = binary("add", first, self.uniform_index("offset", e.axis, e.dtype), e.dtype)
        return binary("add", first, SymbolicValue(self.local_indices[e.axis].astype(e.dtype)), e.dtype)

    def of_gridextent(self, e: ir.GridExtent) -> OptionalValue:
        return symbol(("grid", e.axis), e.dtype)

    def of_arrayextent(self, e: ir.ArrayExtent) -> OptionalValue:
        return symbol(("extent", e.array.name, e.axis), e.dtype)

    def of_unary(self, e: ir.Unary) -> OptionalValue:
        return unary(e.op, self.evaluate(e.value), e.dtype)

    def of_binary(self, e: ir.Binary) -> OptionalValue:
        return binary(e.op, self.evaluate(e.left), self.evaluate(e.right), e.dtype)

    def of_compare(self, e: ir.Compare) -> OptionalValue:
        return compare(e.op, self.evaluate(e.left), self.evaluate(e.right))

    def of_logical(self, e: ir.Logical) -> OptionalValue:
        left = self.evaluate(e.left)
        right = self._evaluate_under(left, e.right, wanted=e.op == "and")
        outcome = self._uniform_outcome(left)
        if outcome is not None:
            return left if outcome == (e.op == "or") else right
        if left is None or right is None or not (left.is_exact and right.is_exact):
            return None
        return SymbolicValue((np.logical_and if e.op == "and" else np.logical_or)(left.lanes, right.lanes))

    def of_select(self, e: ir.Select) -> OptionalValue:
        condition = self.evaluate(e.condition)
        yes = self._evaluate_under(condition, e.yes, wanted=True)
        no = self._evaluate_under(condition, e.no, wanted=False)
        if condition is None or not condition.is_exact:
            return yes if same(yes, no) else None
        outcome = self._uniform_outcome(condition)
        if outcome is not None:
            return yes if outcome else no
        return merge(condition.lanes, yes, no)

    def _uniform_outcome(self, condition: OptionalValue) -> bool | None:
        """The value of a condition if it is known and the same in all active lanes, else None."""
        if condition is None or not condition.is_exact:
            return None
        if condition.is_uniform:
            return bool(condition.lanes)
        truths = condition.lanes[self.active]
        return bool(truths[0]) if len(truths) and (truths == truths[0]).all() else None

    def _evaluate_under(self, condition: OptionalValue, expression: ir.Expr, wanted: bool) -> OptionalValue:
        """The value of an expression that is evaluated only by the lanes in which the condition equals `wanted`."""
        if condition is None or not condition.is_exact:
            with self.unknown_condition(uniform=condition is not None):
                return self.evaluate(expression)
        outer = self.active
        self.active = outer & (np.broadcast_to(condition.lanes, outer.shape) == wanted)
        value = self.evaluate(expression) if self.active.any() else None
        self.active = outer
        return value

    def of_cast(self, e: ir.Cast) -> OptionalValue:
        return cast(self.evaluate(e.value), e.dtype)

    def of_math(self, e: ir.Math) -> OptionalValue:
        row = FUNCTIONS[e.name]
        compute = row.numpy if row.is_exact(e.values[0].dtype) else None  # on some devices cbrt(27) < 3
        return apply(e.name, compute, [self.evaluate(v) for v in e.values], e.dtype)

    def of_member(self, e: ir.Member) -> OptionalValue:
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

    def of_makerecord(self, e: ir.MakeRecord) -> OptionalValue:
        for value in e.values:
            self.evaluate(value)
        return None

    def of_load(self, e: ir.Load) -> OptionalValue:
        self.touch("read", e, e.where)
        return None

    # --- accesses -----------------------------------------------------------------------------------------

    def signature(self, expression: ir.Expr) -> Signature:
        return signature(expression, self.evaluate, self.signatures, self.written)

    def touch(
        self, kind: str, access: Any, where: ir.Where, value: OptionalValue = None, members: tuple[Any, ...] = ()
    ) -> Access | None:
        """Record an access of the active lanes. Subclasses may ignore the access and return None."""
        dims = tuple(self.evaluate(index) for index in access.indices)
        known = None if any(value is None for value in dims) else dims
        lanes = self.lanes if self.active is self.all_lanes else np.nonzero(self.active)[0]
        state = (self.certain, self.context, where, access, value, self.earlier_writes_traced)
        event = Access(kind, access.array, lanes, known, *state, members=members)
        self.events.append(event)
        return event

    @contextmanager
    def unknown_condition(self, uniform: bool) -> Iterator[None]:
        """Context manager: the code inside runs under a condition of unknown outcome. uniform: the outcome is the same
        for all lanes of a group."""
        state = self.certain, self.context, self.iterations_known
        self._enter_unknown_condition(uniform)
        yield
        self.certain, self.context, self.iterations_known = state

    def _enter_unknown_condition(self, uniform: bool) -> None:
        self.iterations_known = False
        if uniform:
            self.condition_count += 1
            self.context = (*self.context, self.condition_count)
        else:
            self.certain = False
