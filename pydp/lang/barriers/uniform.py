"""Uniformity analysis: checks that all lanes of a group reach every barrier.

A value is *divergent* if it may differ between lanes of a group: it depends on the lane's index, on an array element
read at such an index, on an array that the function writes, or on a variable assigned under a divergent condition.
Rejected are barriers under a divergent condition, in a loop with a divergent trip count, and after a divergent jump.
The error message names the divergent value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydp.lang import ir
from pydp.lang.execute.lane_events import BarrierEvent, lanes_text
from pydp.lang.execute.symbolic_run import trace_group
from pydp.lang.ir.diagnostics import VectorError


@dataclass
class _Reason:
    """Why control flow is divergent: the location of the condition, and the divergent value it depends on."""

    value: str
    where: ir.Where


@dataclass
class Uniformity:
    """The divergent variables and barriers of a function; see :func:`analyze`."""

    written: frozenset[str]
    variables: dict[str, _Reason] = field(default_factory=dict)
    barriers: list[tuple[ir.Barrier, _Reason]] = field(default_factory=list)

    def cause(self, expr: ir.Expr) -> str | None:
        """The value that makes an expression divergent, as text; None if the expression is uniform."""
        if isinstance(expr, ir.LocalIndex | ir.GlobalIndex):
            return f"idx.local[{expr.axis}]" if isinstance(expr, ir.LocalIndex) else f"idx[{expr.axis}]"
        if isinstance(expr, ir.Read):
            name = expr.variable.name
            if expr.variable.synthetic and name in self.variables:
                return self.variables[name].value
            return repr(name) if name in self.variables else None
        if isinstance(expr, ir.Load):
            if isinstance(expr.array, ir.PrivateArray):
                return repr(expr.array.name)
            if isinstance(expr.array, ir.GlobalArray) and expr.array.name in self.written:
                return f"{expr.array.name!r}, which the function writes"
        causes = (self.cause(child) for child in ir.children(expr))
        return next((cause for cause in causes if cause is not None), None)


@dataclass
class _Control:
    """Why control flow is divergent at a statement: because of enclosing conditions, or because of earlier break or
    continue statements in the same loop; None if it is uniform."""

    reason: _Reason | None
    broken: _Reason | None = None
    continued: _Reason | None = None

    def now(self) -> _Reason | None:
        return self.reason or self.broken or self.continued


def analyze(function: ir.Function) -> Uniformity:
    """Find the divergent variables of a function, and the barriers that not all lanes of a group reach."""
    stores = (item for item in ir.statements(function.body) if isinstance(item, ir.Store | ir.Atomic))
    result = Uniformity(frozenset(item.array.name for item in stores))
    while True:
        before = len(result.variables)
        result.barriers.clear()
        _walk(function.body, _Control(None), result)
        if len(result.variables) == before:
            return result


def check_barriers(function: ir.Function) -> None:
    """Raise VectorError for the first barrier that not all lanes of a group reach."""
    if not ir.barriers(function.body):
        return
    for barrier, reason in analyze(function).barriers:
        raise VectorError(
            f"{_absent(function, barrier)} reach this barrier, because the condition or loop in line "
            f"{reason.where.line} depends on {reason.value}, which differs between lanes. Move the barrier to where "
            f"all lanes reach it, make the condition or loop the same in all lanes, or {_advice(barrier)}",
            barrier.where,
        )


def _advice(barrier: ir.Barrier) -> str:
    if barrier.width is None:
        return "give the number of lanes that reach it: group_barrier(width)"
    return (
        "pass a width that is the same in all lanes, with only conditions and for loops with uniform bounds between "
        "the condition and the barrier"
    )


def _absent(function: ir.Function, barrier: ir.Barrier) -> str:
    """The subject and verb of a sentence on the lanes that do not reach a barrier: "lane [0] does not"."""
    for event in trace_group(function):
        if isinstance(event, BarrierEvent) and event.barrier is barrier and event.absent:
            verb = "does" if len(event.absent) == 1 else "do"
            return f"{lanes_text(event.absent, function.group or ())} {verb} not"
    return "some lanes may not"


def _walk(body: Iterable[ir.Stmt], control: _Control, result: Uniformity) -> None:
    for statement in body:
        now = control.now()
        if isinstance(statement, ir.Assign):
            _assigned(statement, now, result)
        elif isinstance(statement, ir.Barrier):
            _barrier(statement, now, result)
        elif isinstance(statement, ir.If):
            _branch(statement, control, result)
        elif isinstance(statement, ir.For | ir.While):
            _loop(statement, now, result)
        elif isinstance(statement, ir.Break) and now is not None:
            control.broken = control.broken or now
        elif isinstance(statement, ir.Continue) and now is not None:
            control.continued = control.continued or now


def _assigned(statement: ir.Assign, now: _Reason | None, result: Uniformity) -> None:
    name = statement.variable.name
    cause = result.cause(statement.value)
    if name not in result.variables and (cause is not None or now is not None):
        result.variables[name] = now if now is not None else _Reason(cause or "", statement.where)


def _barrier(statement: ir.Barrier, now: _Reason | None, result: Uniformity) -> None:
    cause = None if statement.width is None else result.cause(statement.width)
    if now is not None:
        result.barriers.append((statement, now))
    elif cause is not None:
        result.barriers.append((statement, _Reason(cause, statement.where)))


def _branch(statement: ir.If, control: _Control, result: Uniformity) -> None:
    cause = result.cause(statement.condition)
    inner = control.now()
    if inner is None and cause is not None:
        inner = _returned(statement.condition, result) or _Reason(cause, statement.where)
    for block in (statement.then, statement.orelse):
        branch = _Control(inner, None, None)
        _walk(block, branch, result)
        control.broken = control.broken or branch.broken
        control.continued = control.continued or branch.continued


def _returned(condition: ir.Expr, result: Uniformity) -> _Reason | None:
    """If the condition tests whether the lane has returned, the reason of that return."""
    inner = condition.value if isinstance(condition, ir.Unary) else condition
    if isinstance(inner, ir.Read) and inner.variable.name.startswith("done"):
        return result.variables.get(inner.variable.name)
    return None


def _loop(statement: ir.For | ir.While, now: _Reason | None, result: Uniformity) -> None:
    """A loop is divergent if its trip count is, or if some lanes leave it earlier than others."""
    broken: _Reason | None = None
    while True:
        causes = [cause for cause in map(result.cause, ir.expressions(statement)) if cause is not None]
        reason = now or broken or (_Reason(causes[0], statement.where) if causes else None)
        if isinstance(statement, ir.For) and reason is not None:
            result.variables.setdefault(statement.variable.name, reason)
        before = len(result.variables)
        kept = len(result.barriers)
        inside = _Control(reason)
        _walk(statement.body, inside, result)
        if len(result.variables) == before and (inside.broken is None or broken is not None or reason is not None):
            return
        broken = broken or inside.broken
        del result.barriers[kept:]
