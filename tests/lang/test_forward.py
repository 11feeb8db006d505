"""The walk of forward analyses: the possible values of variables, against running random bodies many times."""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from typing import Any

import pytest
from builder import BOOL, HERE, add, assign, c, cmp, loop, place, read, var, when

from pydp.lang import ir
from pydp.lang.analysis.forward import Facts, Forward, until_stable

pytestmark = pytest.mark.host

X, Y, K = (var(name) for name in "xyk")
UNKNOWN = cmp("lt", place(), 3)
LEAVE, GO_ON = ir.Break(HERE), ir.Continue(HERE)
Values = dict[str, frozenset[int]]


class PossibleValues(Forward[Values]):
    """The values that each variable may have. Sums stop at 9, so there are finitely many. visited: the places of the
    final pass, with the values of x there."""

    def __init__(self) -> None:
        super().__init__()
        self.visited: list[tuple[ir.Stmt, frozenset[int]]] = []
        self.conditions: list[ir.Expr] = []

    def entry(self) -> Values:
        return {"x": frozenset([0]), "y": frozenset([0])}

    def join(self, states: Sequence[Values]) -> Values:
        names = {name for state in states for name in state}
        return {name: frozenset().union(*(state.get(name, ()) for state in states)) for name in names}

    def transfer(self, statement: ir.Stmt) -> None:
        assert self.state is not None
        if self.final:
            self.visited.append((statement, self.state["x"]))
        if isinstance(statement, ir.Assign):
            self.state[statement.variable.name] = self.of(statement.value)

    def of(self, expr: ir.Expr) -> frozenset[int]:
        if isinstance(expr, ir.Const):
            return frozenset([expr.value])
        if isinstance(expr, ir.Read):
            assert self.state is not None
            return self.state[expr.variable.name]
        assert isinstance(expr, ir.Binary)
        return frozenset(min(9, a + b) for a in self.of(expr.left) for b in self.of(expr.right))

    def read(self, expr: ir.Expr) -> None:
        self.conditions.append(expr)

    def given(self, state: Values, condition: ir.Expr, holds: bool) -> Values | None:
        """Conditions are constants, comparisons of x with a constant, or unknown."""
        if isinstance(condition, ir.Const):
            return dict(state) if bool(condition.value) == holds else None
        if isinstance(condition, ir.Compare) and isinstance(condition.left, ir.Read):
            left = frozenset(one for one in state["x"] if (one < condition.right.value) == holds)
            return {**state, "x": left} if left else None
        return dict(state)


def values(*body: ir.Stmt) -> dict[str, set[int]] | None:
    analysis = PossibleValues()
    assert analysis.solve(body)
    return None if analysis.state is None else {name: set(found) for name, found in sorted(analysis.state.items())}


def endless(*body: ir.Stmt, condition: ir.Expr = UNKNOWN) -> ir.While:
    return ir.While(HERE, condition, list(body))


def x_is(value: int) -> ir.Assign:
    return assign(X, value)


def below(limit: int) -> ir.Expr:
    return cmp("lt", read(X), limit)


def test_branches_are_joined() -> None:
    assert values(when(UNKNOWN, [x_is(1)], [x_is(2)])) == {"x": {1, 2}, "y": {0}}
    assert values(when(UNKNOWN, [x_is(1)])) == {"x": {0, 1}, "y": {0}}
    assert values(when(below(1), [assign(Y, 5)], [assign(Y, 6)])) == {"x": {0}, "y": {5}}
    both = when(UNKNOWN, [x_is(3)]), when(below(2), [assign(Y, read(X))], [assign(Y, 4)])
    assert values(*both) == {"x": {0, 3}, "y": {0, 4}}


def test_loops_repeat_until_nothing_changes() -> None:
    more = assign(X, add(read(X), 1))
    assert values(endless(more)) == {"x": set(range(10)), "y": {0}}
    assert values(endless(more, condition=below(4))) == {"x": {4}, "y": {0}}
    assert values(loop(K, 0, 3, [assign(Y, read(X)), x_is(7)])) == {"x": {0, 7}, "y": {0, 7}}
    assert values(loop(K, 0, 3, [endless(assign(Y, read(X)), more)])) == {"x": set(range(10)), "y": set(range(10))}


def test_jumps_lead_to_their_loop() -> None:
    left = [when(UNKNOWN, [x_is(1), LEAVE]), when(UNKNOWN, [x_is(2), GO_ON]), x_is(3)]
    assert values(loop(K, 0, 3, left)) == {"x": {0, 1, 2, 3}, "y": {0}}
    # A `while True` ends only by its breaks; the inner loop's break stays in it.
    forever = ir.Const(BOOL, True)
    inner = loop(K, 0, 3, [x_is(5), LEAVE])
    assert values(endless(inner, assign(Y, read(X)), when(UNKNOWN, [x_is(6), LEAVE]), condition=forever)) == {
        "x": {6},
        "y": {0, 5},
    }
    assert values(endless(x_is(1), condition=forever)) is None
    assert values(endless(when(UNKNOWN, [LEAVE], [GO_ON]), x_is(1), condition=forever)) == {"x": {0}, "y": {0}}


def test_unreachable_statements_are_not_visited() -> None:
    first, never, after = x_is(1), assign(Y, 1), assign(Y, 2)
    analysis = PossibleValues()
    nothing = [when(c(0, BOOL), [never]), endless(never, condition=c(0, BOOL)), loop(K, 0, 3, [LEAVE, never])]
    assert analysis.solve([first, *nothing, after])
    assert analysis.visited == [(first, frozenset([0])), (after, frozenset([1]))]


def test_conditions_are_visited_once_in_each_pass() -> None:
    analysis = PossibleValues()
    assert analysis.solve([when(UNKNOWN, []), when(below(5), [])])
    assert analysis.conditions == [UNKNOWN, below(5)] * 2  # no loop, so no pass narrows


# --- widening


class Widened(PossibleValues):
    """Sums have no end; a set that grows after two passes gets all values from -1 to 99, and narrowing takes -1 away.
    calls: the hooks, in order."""

    ends = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def of(self, expr: ir.Expr) -> frozenset[int]:
        if isinstance(expr, ir.Binary):
            return frozenset(min(99, a + b) for a in self.of(expr.left) for b in self.of(expr.right))
        return super().of(expr)

    def widen(self, before: Values, now: Values) -> Values:
        self.calls.append("widen")
        assert before["x"] <= now["x"]
        return {**now, "x": frozenset(range(-1, 100))} if self.ends and before["x"] != now["x"] else now

    def narrow(self, loop: ir.For | ir.While, before: Values, now: Values) -> Values:
        self.calls.append("narrow")
        assert self.ends and now["x"] <= before["x"]
        return {**before, "x": before["x"] - {-1}}


def test_states_at_loop_heads_are_widened_then_narrowed() -> None:
    body = [endless(assign(X, add(read(X), 1)))]
    analysis = Widened()
    assert analysis.solve(body)
    assert analysis.state is not None and analysis.state["x"] == frozenset(range(100))
    # Two passes join, the third one widens, the fourth one finds no change; the second one of narrowing is stable.
    assert analysis.calls == ["widen"] * 2 + ["narrow"] * 2


def test_an_analysis_that_does_not_end_is_given_up() -> None:
    analysis = Widened()
    analysis.ends = False
    assert not analysis.solve([endless(assign(X, add(read(X), 1)))])
    assert len(analysis.calls) == 38


# --- random bodies


class _Leave(Exception):
    pass


class _GoOn(Exception):
    pass


class _TooLong(Exception):
    pass


def random_body(dice: random.Random, depth: int, looped: bool) -> list[ir.Stmt]:
    body: list[ir.Stmt] = []
    for _ in range(dice.randint(1, 3)):
        kind = dice.choice(["set", "copy", "add", "if", "if", "loop", "while", *["jump"] * looped])
        condition = dice.choice([UNKNOWN, below(dice.randint(0, 9)), c(dice.randint(0, 1), BOOL)])
        if kind == "set":
            body.append(assign(dice.choice([X, Y]), dice.randint(0, 9)))
        elif kind == "copy":
            body.append(assign(*dice.choice([(X, read(Y)), (Y, read(X))])))
        elif kind == "add" or depth == 0:
            body.append(assign(X, add(read(X), dice.randint(0, 2))))
        elif kind == "if":
            body.append(when(condition, *(random_body(dice, depth - 1, looped) for _ in range(2))))
        elif kind == "jump":
            body.append(when(condition, [dice.choice([LEAVE, GO_ON])]))
        elif kind == "loop":
            body.append(loop(K, 0, 3, random_body(dice, depth - 1, True)))
        else:
            body.append(endless(*random_body(dice, depth - 1, True), condition=condition))
    return body


class _Run:
    """Runs a body with random outcomes of unknown conditions. steps: the number of statements, at most 300."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.x, self.y, self.steps = dice, 0, 0, 0

    def holds(self, condition: Any) -> bool:
        if condition is UNKNOWN:
            return self.dice.random() < 0.5
        return bool(condition.value) if isinstance(condition, ir.Const) else self.x < condition.right.value

    def value(self, expr: Any) -> int:
        if isinstance(expr, ir.Const):
            return int(expr.value)
        if isinstance(expr, ir.Read):
            return int(getattr(self, expr.variable.name))
        return min(9, self.value(expr.left) + self.value(expr.right))

    def block(self, body: Sequence[Any], seen: dict[int, set[int]]) -> None:
        for one in body:
            self.steps += 1
            if self.steps > 300:
                raise _TooLong
            if isinstance(one, ir.Assign):
                seen.setdefault(id(one), set()).add(self.x)
                setattr(self, one.variable.name, self.value(one.value))
            elif isinstance(one, ir.If):
                self.block(one.then if self.holds(one.condition) else one.orelse, seen)
            elif isinstance(one, ir.For | ir.While):
                count = self.dice.randint(0, 3)
                try:
                    while count > 0 if isinstance(one, ir.For) else self.holds(one.condition):
                        count -= 1
                        self.steps += 1
                        try:
                            self.block(one.body, seen)
                        except _GoOn:
                            continue
                except _Leave:
                    pass
            else:
                raise _Leave if isinstance(one, ir.Break) else _GoOn


@pytest.mark.parametrize("seed", range(60))
def test_every_value_of_a_run_is_found(seed: int) -> None:
    dice = random.Random(seed)
    body = random_body(dice, 3, False)
    analysis = PossibleValues()
    assert analysis.solve(body)
    found = {id(statement): known for statement, known in analysis.visited}
    for _ in range(40):
        run = _Run(dice)
        seen: dict[int, set[int]] = {}
        try:
            run.block(body, seen)
        except _TooLong:
            pass
        else:
            assert analysis.state is not None and run.x in analysis.state["x"] and run.y in analysis.state["y"]
        for place_, known in seen.items():
            assert known <= found[place_]


# --- facts


def test_facts_are_joined_until_none_changes() -> None:
    greatest: Facts[str, int] = Facts(max)
    names: Facts[int, frozenset[str]] = Facts(operator.or_)
    visits: list[int] = []

    def visit() -> None:
        visits.append(greatest.changes)
        greatest.add("a", min(3, greatest.get("b", 0) + 1))
        greatest.add("b", greatest["a"])
        names.add(0, frozenset("ab"[: len(visits)]))

    until_stable(visit, greatest, names)
    assert greatest == {"a": 3, "b": 3} and names == {0: frozenset("ab")}
    assert visits == [0, 2, 4, 6]
    assert greatest.add("a", 1) == 3 and greatest.add("c", 0) == 0 and greatest.changes == 7
