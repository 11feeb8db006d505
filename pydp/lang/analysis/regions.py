"""Splits a body at its barriers into intervals, and finds which variables carry values between them.

The lanes can run the statements between two barriers one after another, in any order. Loops and conditions that contain
a barrier, or a ``break`` out of such a loop, are uniform in the group (the front end checks this), so they run once for
the group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pydp.lang import ir


@dataclass(eq=False)
class Interval:
    """Statements without a barrier. looped: the interval is inside a loop with barriers."""

    body: list[ir.Stmt]
    looped: bool = False


@dataclass(eq=False)
class GroupControl:
    """A For, While or If that contains barriers, or jumps of a loop with barriers: it runs once for the group."""

    statement: ir.For | ir.While | ir.If
    body: list[Node]
    orelse: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Jump:
    """A break or continue of a loop with barriers."""

    statement: ir.Break | ir.Continue


Node = Interval | GroupControl | Jump


def split(body: list[ir.Stmt]) -> list[Node]:
    """The regions of a body; a body without barriers is one interval."""
    return _split(body, False)


def _split(body: list[ir.Stmt], looped: bool) -> list[Node]:
    nodes: list[Node] = []
    plain: list[ir.Stmt] = []

    def end_interval() -> None:
        if plain:
            nodes.append(Interval(list(plain), looped))
            plain.clear()

    for statement in body:
        if isinstance(statement, ir.Barrier):
            end_interval()
        elif looped and isinstance(statement, ir.Break | ir.Continue):
            end_interval()
            nodes.append(Jump(statement))
        elif _is_group_control(statement, looped):
            end_interval()
            nodes.append(_group_control(statement, looped))
        else:
            plain.append(statement)
    end_interval()
    return nodes


def _group_control(statement: ir.Stmt, looped: bool) -> GroupControl:
    if isinstance(statement, ir.If):
        return GroupControl(statement, _split(statement.then, looped), _split(statement.orelse, looped))
    assert isinstance(statement, ir.For | ir.While)
    return GroupControl(statement, _split(statement.body, True))


def _is_group_control(statement: ir.Stmt, looped: bool) -> bool:
    """Whether a statement contains a barrier or, inside a loop with barriers, a jump of that loop."""
    if any(isinstance(inner, ir.Barrier) for inner in ir.statements([statement])):
        return True
    return looped and isinstance(statement, ir.If) and any(ir.jumps([statement]))


def intervals(nodes: list[Node]) -> Iterator[Interval]:
    """All intervals, in source order."""
    for node in nodes:
        if isinstance(node, Interval):
            yield node
        elif isinstance(node, GroupControl):
            yield from intervals(node.body)
            yield from intervals(node.orelse)


def group_controls(nodes: list[Node]) -> Iterator[GroupControl]:
    """All control flow of the group, outer statements first."""
    for node in nodes:
        if isinstance(node, GroupControl):
            yield node
            yield from group_controls(node.body)
            yield from group_controls(node.orelse)


def reads(expr: ir.Expr) -> Iterator[ir.Variable]:
    """The variables that an expression reads."""
    for inner in ir.walk(expr):
        if isinstance(inner, ir.Read):
            yield inner.variable


def exposed(body: list[ir.Stmt]) -> set[str]:
    """Names of the variables that `body` may read before it has assigned them."""
    found: set[str] = set()
    _flow(body, set(), found)
    return found


def _flow(body: list[ir.Stmt], assigned: set[str], found: set[str]) -> set[str]:
    """Add the exposed reads of `body` to `found`. assigned: the names assigned before it. Returns those after it."""
    assigned = set(assigned)
    for statement in body:
        for expr in ir.expressions(statement):
            found.update(variable.name for variable in reads(expr) if variable.name not in assigned)
        if isinstance(statement, ir.Assign):
            if statement.members and statement.variable.name not in assigned:
                found.add(statement.variable.name)
            assigned.add(statement.variable.name)
        elif isinstance(statement, ir.If):
            then = _flow(statement.then, assigned, found)
            assigned = then & _flow(statement.orelse, assigned, found)
        elif isinstance(statement, ir.For):
            _flow(statement.body, assigned | {statement.variable.name}, found)
        elif isinstance(statement, ir.While):
            _flow(statement.body, assigned, found)
    return assigned


def assigned_in(body: list[ir.Stmt]) -> set[str]:
    """Names of the variables that `body` assigns anywhere."""
    return {statement.variable.name for statement in ir.statements(body) if isinstance(statement, ir.Assign | ir.For)}


def definitions(body: Iterable[ir.Stmt]) -> dict[str, ir.Expr]:
    """The values of the variables that exactly one statement assigns, as a whole; not of loop counters."""
    found: dict[str, ir.Expr | None] = {}
    for statement in ir.statements(list(body)):
        if isinstance(statement, ir.Assign | ir.For):
            name = statement.variable.name
            found[name] = None if name in found else _whole_value(statement)
    return {name: value for name, value in found.items() if value is not None}


def _whole_value(statement: ir.Assign | ir.For) -> ir.Expr | None:
    return statement.value if isinstance(statement, ir.Assign) and not statement.members else None


def carried(nodes: list[Node]) -> set[str]:
    """Names of the variables whose value an interval, or control flow of the group, may get from another interval."""
    found: set[str] = set()
    if len(nodes) == 1 and isinstance(nodes[0], Interval):
        return found
    for interval in intervals(nodes):
        found |= exposed(interval.body)
    for node in group_controls(nodes):
        for expr in ir.expressions(node.statement):
            found.update(variable.name for variable in reads(expr))
        if isinstance(node.statement, ir.For):
            found.add(node.statement.variable.name)
    return found


class Scopes:
    """For each variable of an interval that is not carried: the innermost list of statements that holds all its uses.

    In a loop's body the value must not come from an earlier iteration. Lists are compared by identity.
    """

    def __init__(self, body: list[ir.Stmt], carried_names: set[str]) -> None:
        uses: dict[str, list[_Path]] = {}
        _collect_uses((body,), uses)
        self.of: dict[str, list[ir.Stmt]] = {}
        for name, paths in uses.items():
            self.of[name] = body if name in carried_names else _innermost(name, paths)

    def declared_in(self, body: list[ir.Stmt]) -> list[str]:
        """The names of the variables whose scope is `body`, in order."""
        return sorted(name for name, scope in self.of.items() if scope is body)


_Path = tuple[list[ir.Stmt], ...]  # a list of statements, after the lists around it, outermost first


def _collect_uses(path: _Path, uses: dict[str, list[_Path]]) -> None:
    """Add the lists in which each variable is read or set."""
    for statement in path[-1]:
        for expr in ir.expressions(statement):
            for variable in reads(expr):
                uses.setdefault(variable.name, []).append(path)
        if isinstance(statement, ir.Assign):
            uses.setdefault(statement.variable.name, []).append(path)
        elif isinstance(statement, ir.For):
            uses.setdefault(statement.variable.name, []).append((*path, statement.body))
        for block in ir.blocks(statement):
            _collect_uses((*path, block), uses)


def _innermost(name: str, paths: list[_Path]) -> list[ir.Stmt]:
    """The innermost list that holds all uses of a variable and that needs no value from outside."""
    common = paths[0]
    for path in paths[1:]:
        pairs = zip(common, path, strict=False)
        common = common[: sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))]
    for depth in range(len(common) - 1, 0, -1):
        if name not in exposed(common[depth]) or _is_counter(name, common[depth], common[depth - 1]):
            return common[depth]
    return common[0]


def _is_counter(name: str, body: list[ir.Stmt], around: list[ir.Stmt]) -> bool:
    """Whether `body` is the body of a loop of `around` that sets the variable at the start of each iteration."""
    return any(isinstance(one, ir.For) and one.body is body and one.variable.name == name for one in around)
