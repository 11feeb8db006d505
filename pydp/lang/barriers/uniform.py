"""Are a function's barriers met by all lanes of a group?

A value is *divergent* where two lanes of a group may see different ones: what depends on the lane's index, on an
array read at such an index or written by the function itself, or on a variable set under a divergent condition.
A barrier under a divergent condition, in a loop that lanes leave at different times, or after a lane has left, is
refused; the message names what diverges.
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
    """Why control diverges here: at which line, and what the condition depends on."""

    what: str
    where: ir.Where


@dataclass
class Uniformity:
    """What is divergent in a function; see :func:`analyse`."""

    written: frozenset[str]
    variables: dict[str, _Reason] = field(default_factory=dict)
    barriers: list[tuple[ir.Barrier, _Reason]] = field(default_factory=list)

    def cause(self, expr: ir.Expr) -> str | None:
        """What makes an expression divergent, None where it is the same for all lanes of a group."""
        if isinstance(expr, ir.LocalIndex | ir.GlobalIndex):
            return f"idx.local[{expr.axis}]" if isinstance(expr, ir.LocalIndex) else f"idx[{expr.axis}]"
        if isinstance(expr, ir.Read):
            name = expr.variable.name
            if expr.variable.synthetic and name in self.variables:
                return self.variables[name].what
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
    """The divergence around a statement: of the conditions above it, and of exits from the loop that it is in."""

    reason: _Reason | None
    left: _Reason | None = None
    skipped: _Reason | None = None

    def now(self) -> _Reason | None:
        return self.reason or self.left or self.skipped


def analyse(function: ir.Function) -> Uniformity:
    """What is divergent in a function's variables, and which of its barriers are not met by all lanes."""
    stores = (item for item in ir.statements(function.body) if isinstance(item, ir.Store | ir.Atomic))
    result = Uniformity(frozenset(item.array.name for item in stores))
    while True:
        before = len(result.variables)
        result.barriers.clear()
        _walk(function.body, _Control(None), result)
        if len(result.variables) == before:
            return result


def check_barriers(function: ir.Function) -> None:
    """Raise VectorError at the first barrier that not all lanes of a group meet."""
    if not ir.barriers(function.body):
        return
    for barrier, reason in analyse(function).barriers:
        raise VectorError(
            f"not all lanes of a group meet this barrier: {_absent(function, barrier)}, "
            f"for line {reason.where.line} depends on {reason.what}, which differs from lane to lane; move the barrier "
            f"out of the condition, make the condition the same for all, or {_advice(barrier)}",
            barrier.where,
        )


def _advice(barrier: ir.Barrier) -> str:
    if barrier.width is None:
        return "say how many meet: group_barrier(width)"
    return (
        "give a width that is the same for all, with only conditions and for loops of counts that are the same for all "
        "between the condition and the barrier"
    )


def _absent(function: ir.Function, barrier: ir.Barrier) -> str:
    """Who does not come to a barrier, as far as it is known before the run."""
    for event in trace_group(function):
        if isinstance(event, BarrierEvent) and event.barrier is barrier and event.absent:
            return f"{lanes_text(event.absent, function.group or ())} would not come"
    return "it is for the run to tell which of them do not come"


def _walk(body: Iterable[ir.Stmt], control: _Control, found: Uniformity) -> None:
    for statement in body:
        now = control.now()
        if isinstance(statement, ir.Assign):
            _assigned(statement, now, found)
        elif isinstance(statement, ir.Barrier):
            _barrier(statement, now, found)
        elif isinstance(statement, ir.If):
            _branch(statement, control, found)
        elif isinstance(statement, ir.For | ir.While):
            _loop(statement, now, found)
        elif isinstance(statement, ir.Break) and now is not None:
            control.left = control.left or now
        elif isinstance(statement, ir.Continue) and now is not None:
            control.skipped = control.skipped or now


def _assigned(statement: ir.Assign, now: _Reason | None, found: Uniformity) -> None:
    name = statement.variable.name
    cause = found.cause(statement.value)
    if name not in found.variables and (cause is not None or now is not None):
        found.variables[name] = now if now is not None else _Reason(cause or "", statement.where)


def _barrier(statement: ir.Barrier, now: _Reason | None, found: Uniformity) -> None:
    cause = None if statement.width is None else found.cause(statement.width)
    if now is not None:
        found.barriers.append((statement, now))
    elif cause is not None:
        found.barriers.append((statement, _Reason(cause, statement.where)))


def _branch(statement: ir.If, control: _Control, found: Uniformity) -> None:
    cause = found.cause(statement.condition)
    inner = control.now()
    if inner is None and cause is not None:
        inner = _returned(statement.condition, found) or _Reason(cause, statement.where)
    for block in (statement.then, statement.orelse):
        branch = _Control(inner, None, None)
        _walk(block, branch, found)
        control.left = control.left or branch.left
        control.skipped = control.skipped or branch.skipped


def _returned(condition: ir.Expr, found: Uniformity) -> _Reason | None:
    """Where the condition is `has this lane returned?`: why some lanes have."""
    inner = condition.value if isinstance(condition, ir.Unary) else condition
    if isinstance(inner, ir.Read) and inner.variable.name.startswith("done"):
        return found.variables.get(inner.variable.name)
    return None


def _loop(statement: ir.For | ir.While, now: _Reason | None, found: Uniformity) -> None:
    """A loop is divergent where its trip count is, or where some lanes leave it before others."""
    exprs = [statement.condition] if isinstance(statement, ir.While) else [
        statement.start, statement.stop, statement.step,
    ]  # fmt: skip
    left: _Reason | None = None
    while True:
        causes = [cause for cause in map(found.cause, exprs) if cause is not None]
        reason = now or left or (_Reason(causes[0], statement.where) if causes else None)
        if isinstance(statement, ir.For) and reason is not None:
            found.variables.setdefault(statement.variable.name, reason)
        before = len(found.variables)
        kept = len(found.barriers)
        inside = _Control(reason)
        _walk(statement.body, inside, found)
        if len(found.variables) == before and (inside.left is None or left is not None or reason is not None):
            return
        left = left or inside.left
        del found.barriers[kept:]
