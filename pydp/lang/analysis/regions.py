"""A body cut at its barriers: intervals of plain statements, and around them the control flow that all lanes share.

What stands between two barriers can be run lane after lane in any order. Loops and conditions that hold a
barrier, or a ``break`` out of such a loop, are the same for all lanes of a group (the front end has made sure)
and are run once for the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydp.lang import ir


@dataclass(eq=False)
class Interval:
    """Statements that every lane runs without meeting another. `looped`: a loop with barriers is around it."""

    body: list[ir.Stmt]
    looped: bool = False


@dataclass(eq=False)
class Shared:
    """A For, While or If that holds barriers: its parts, run once for the group."""

    statement: ir.For | ir.While | ir.If
    body: list[Node]
    orelse: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Jump:
    """A break or continue of a shared loop."""

    statement: ir.Break | ir.Continue


Node = Interval | Shared | Jump


def split(body: list[ir.Stmt]) -> list[Node]:
    """The regions of a body; one interval holds it all where there is no barrier."""
    return _split(body, False)


def _split(body: list[ir.Stmt], looped: bool) -> list[Node]:
    nodes: list[Node] = []
    plain: list[ir.Stmt] = []

    def cut() -> None:
        if plain:
            nodes.append(Interval(list(plain), looped))
            plain.clear()

    for statement in body:
        if isinstance(statement, ir.Barrier):
            cut()
        elif looped and isinstance(statement, ir.Break | ir.Continue):
            cut()
            nodes.append(Jump(statement))
        elif _is_shared(statement, looped):
            cut()
            nodes.append(_shared(statement, looped))
        else:
            plain.append(statement)
    cut()
    return nodes


def _shared(statement: ir.Stmt, looped: bool) -> Shared:
    if isinstance(statement, ir.If):
        return Shared(statement, _split(statement.then, looped), _split(statement.orelse, looped))
    assert isinstance(statement, ir.For | ir.While)
    return Shared(statement, _split(statement.body, True))


def _is_shared(statement: ir.Stmt, looped: bool) -> bool:
    """The statement holds a barrier, or (inside a shared loop) a jump of that loop."""
    if any(isinstance(inner, ir.Barrier) for inner in ir.statements([statement])):
        return True
    return looped and isinstance(statement, ir.If) and any(ir.jumps([statement]))


def intervals(nodes: list[Node]) -> Iterator[Interval]:
    """All intervals, in source order."""
    for node in nodes:
        if isinstance(node, Interval):
            yield node
        elif isinstance(node, Shared):
            yield from intervals(node.body)
            yield from intervals(node.orelse)


def shared(nodes: list[Node]) -> Iterator[Shared]:
    """All shared statements, outer ones first."""
    for node in nodes:
        if isinstance(node, Shared):
            yield node
            yield from shared(node.body)
            yield from shared(node.orelse)


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
    """Walk `body` with the names assigned so far; note exposed reads in `found`; the names assigned after it."""
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


def carried(nodes: list[Node]) -> set[str]:
    """Names of the variables whose value an interval, or shared control flow, may get from another interval."""
    found: set[str] = set()
    if len(nodes) == 1 and isinstance(nodes[0], Interval):
        return found
    for interval in intervals(nodes):
        found |= exposed(interval.body)
    for node in shared(nodes):
        for expr in ir.expressions(node.statement):
            found.update(variable.name for variable in reads(expr))
        if isinstance(node.statement, ir.For):
            found.add(node.statement.variable.name)
    return found


class Scopes:
    """For each variable of an interval that is not carried: the innermost list of statements that holds all its uses.

    In a loop's body the value must not come from the round before. Lists are known by identity.
    """

    def __init__(self, body: list[ir.Stmt], carried_names: set[str]) -> None:
        self._parents: dict[int, list[ir.Stmt] | None] = {id(body): None}
        self._lists: dict[int, list[ir.Stmt]] = {id(body): body}
        uses: dict[str, list[list[ir.Stmt]]] = {}
        self._collect(body, uses)
        self.of: dict[str, list[ir.Stmt]] = {}
        for name, places in uses.items():
            self.of[name] = body if name in carried_names else self._innermost(name, places)

    def declared_in(self, body: list[ir.Stmt]) -> list[str]:
        """The names of the variables whose scope is `body`, in order."""
        return sorted(name for name, scope in self.of.items() if scope is body)

    def _collect(self, body: list[ir.Stmt], uses: dict[str, list[list[ir.Stmt]]]) -> None:
        for statement in body:
            for expr in ir.expressions(statement):
                for variable in reads(expr):
                    uses.setdefault(variable.name, []).append(body)
            if isinstance(statement, ir.Assign):
                uses.setdefault(statement.variable.name, []).append(body)
            elif isinstance(statement, ir.For):
                uses.setdefault(statement.variable.name, []).append(statement.body)
            for block in ir.blocks(statement):
                self._parents[id(block)] = body
                self._lists[id(block)] = block
                self._collect(block, uses)

    def _chain(self, body: list[ir.Stmt]) -> list[list[ir.Stmt]]:
        """`body` and the lists around it, innermost first."""
        chain: list[list[ir.Stmt]] = []
        current: list[ir.Stmt] | None = body
        while current is not None:
            chain.append(current)
            current = self._parents[id(current)]
        return chain

    def _innermost(self, name: str, places: list[list[ir.Stmt]]) -> list[ir.Stmt]:
        common = self._chain(places[0])
        for place in places[1:]:
            inside = {id(body) for body in self._chain(place)}
            common = [body for body in common if id(body) in inside]
        for body in common[:-1]:
            if name not in exposed(body) or self._is_counter(name, body):
                return body
        return common[-1]

    def _is_counter(self, name: str, body: list[ir.Stmt]) -> bool:
        """`body` is that of a loop that sets the variable itself at the start of each round."""
        parent = self._parents[id(body)]
        return any(
            isinstance(statement, ir.For) and statement.body is body and statement.variable.name == name
            for statement in parent or []
        )
