"""Bodies that are split at their barriers, and the variables that carry values between intervals."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from builder import HERE, add, assign, barrier, c, cmp, local, loop, place, read, var, when

from pydp.lang import ir
from pydp.lang.analysis.regions import (
    GroupControl,
    Interval,
    Jump,
    Scopes,
    assigned_in,
    carried,
    definitions,
    exposed,
    group_controls,
    intervals,
    reads,
    split,
)

pytestmark = pytest.mark.host

X, Y, Z, K, N = (var(name) for name in "xyzkn")
Z0 = assign(Z, 0)
SOME = cmp("lt", local(), 3)


def test_a_body_is_split_at_its_barriers() -> None:
    body = [assign(X, c(1)), barrier(), loop(K, 0, 3, [assign(X, c(2)), barrier()])]
    nodes = split(body)
    assert [type(node) for node in nodes] == [Interval, GroupControl]
    assert nodes[1].body[0].looped and not nodes[0].looped


def test_a_body_without_barriers_is_one_interval() -> None:
    body = [assign(X, 1), loop(K, 0, 3, [when(SOME, [ir.Break(HERE)])]), assign(Y, 2)]
    (only,) = split(body)
    assert isinstance(only, Interval) and only.body == body and not only.looped
    assert not split([]) and not split([barrier(), barrier()])


def test_jumps_of_a_loop_with_barriers_run_once_for_the_group() -> None:
    leave, go_on = ir.Break(HERE), ir.Continue(HERE)
    inner = loop(N, 0, 3, [when(SOME, [ir.Break(HERE)])])  # its jump is its own
    repeated = loop(K, 0, 3, [assign(X, 1), when(SOME, [assign(Y, 2), leave], [go_on]), inner, barrier(), assign(Z, 3)])
    (node,) = split([repeated])
    assert isinstance(node, GroupControl) and node.statement is repeated
    first, either, second, third = node.body
    assert isinstance(either, GroupControl) and [type(one) for one in either.body] == [Interval, Jump]
    assert [one.statement for one in (either.body[1], *either.orelse)] == [leave, go_on]
    assert [one.body for one in (first, second, third)] == [[assign(X, 1)], [inner], [assign(Z, 3)]]
    assert [one.body for one in intervals([node])] == [first.body, [assign(Y, 2)], second.body, third.body]
    assert [one.statement for one in group_controls([node])] == [repeated, either.statement]
    assert all(one.looped for one in intervals([node]))


def test_a_jump_of_a_loop_without_barriers_stays_in_its_interval() -> None:
    branch = when(SOME, [barrier()], [assign(X, 1)])
    (node,) = split([branch])
    assert isinstance(node, GroupControl) and not node.body and [type(one) for one in node.orelse] == [Interval]
    assert not node.orelse[0].looped


def test_variables_that_are_read() -> None:
    assert [one.name for one in reads(add(read(X), ir.Cast(X.dtype, add(read(Y), read(X)))))] == ["x", "y", "x"]


def test_variables_that_are_assigned() -> None:
    body = [assign(X, read(Y)), loop(K, 0, 3, [when(SOME, [], [assign(Z, 1)])]), ir.While(HERE, SOME, [assign(N, 1)])]
    assert assigned_in(body) == {"x", "k", "z", "n"}


def paths(body: list[ir.Stmt]) -> Iterator[list[tuple[str, str]]]:
    """The reads and writes of every path through a body whose loops run at most two iterations."""
    if not body:
        yield []
        return
    first, rest = body[0], body[1:]
    own = [("read", one.name) for expr in ir.expressions(first) for one in reads(expr)]
    if isinstance(first, ir.Assign):
        found = [[*own, ("write", first.variable.name)]]
    elif isinstance(first, ir.If):
        found = [own + one for part in (first.then, first.orelse) for one in paths(part)]
    else:
        assert isinstance(first, ir.For)
        iterations = [[("write", first.variable.name), *one] for one in paths(first.body)]
        found = [
            own,
            *(own + one for one in iterations),
            *(own + one + two for one in iterations for two in iterations),
        ]
    for one, other in itertools.product(found, list(paths(rest))):
        yield one + other


def exposed_by_paths(body: list[ir.Stmt]) -> set[str]:
    found: set[str] = set()
    for path in paths(body):
        written: set[str] = set()
        for kind, name in path:
            if kind == "write":
                written.add(name)
            elif name not in written:
                found.add(name)
    return found


def random_body(dice: random.Random, depth: int) -> list[ir.Stmt]:
    body: list[ir.Stmt] = []
    for _ in range(dice.randint(1, 2)):
        pick = dice.randrange(4 if depth else 2)
        names = [dice.choice([X, Y, Z]) for _ in range(2)]
        if pick < 2:
            body.append(assign(names[0], read(names[1]) if dice.random() < 0.6 else 1))
        elif pick == 2:
            parts = [random_body(dice, depth - 1) if dice.random() < 0.8 else [] for _ in range(2)]
            body.append(when(cmp("lt", read(names[0]), 3), *parts))
        else:
            body.append(loop(dice.choice([K, X]), 0, read(names[0]), random_body(dice, depth - 1)))
    return body


def test_exposed_reads_are_those_of_some_way_through_the_body() -> None:
    dice = random.Random(3)
    sizes = set()
    for _ in range(400):
        body = random_body(dice, 2)
        found = exposed(body)
        assert found == exposed_by_paths(body), body
        sizes.add(len(found))
    assert sizes == {0, 1, 2, 3}


def test_members_leave_the_rest_of_a_variable_exposed() -> None:
    one = ir.Assign(HERE, X, c(1), ("p",))
    assert exposed([one]) == {"x"} and exposed([assign(X, 0), one]) == set()


def test_values_that_are_carried_over_a_barrier() -> None:
    assert not carried(split([assign(Y, read(X))])) and carried(split([assign(Y, read(X)), barrier(), Z0])) == {"x"}
    body = [assign(X, 1), assign(Y, 2), barrier(), assign(Y, 3), assign(Z, add(read(X), read(Y)))]
    assert carried(split(body)) == {"x"}
    # The bounds of a loop with barriers, and its counter, are known to the whole group.
    repeated = loop(K, 0, read(N), [assign(Z, 1), assign(Y, read(Z)), barrier()])
    assert carried(split([repeated])) == {"n", "k"}
    assert carried(split([when(cmp("lt", read(X), 3), [barrier()])])) == {"x"}


def test_scopes() -> None:
    inner = [assign(X, place()), assign(Y, add(read(Y), read(X)))]
    repeated = loop(K, 0, 3, [assign(N, read(K)), *inner])
    either = when(SOME, [assign(Z, 1)], [assign(Z, 2)])
    body = [assign(Y, 0), repeated, either]
    scopes = Scopes(body, set())
    # y comes from the iteration before, and the body is the innermost list with both assignments of z.
    assert scopes.declared_in(repeated.body) == ["k", "n", "x"]
    assert scopes.declared_in(body) == ["y", "z"]
    assert not scopes.declared_in(either.then)
    kept = Scopes(body, {"x"})
    assert kept.declared_in(repeated.body) == ["k", "n"] and kept.declared_in(body) == ["x", "y", "z"]


def test_a_counter_that_is_read_after_its_loop_has_an_outer_scope() -> None:
    repeated = loop(K, 0, 3, [assign(X, read(K))])
    body = [repeated, assign(Y, read(K))]
    assert Scopes(body, set()).declared_in(body) == ["k", "y"]
    nested = [loop(N, 0, 3, [assign(K, 0), repeated])]
    assert Scopes(nested, set()).declared_in(nested[0].body) == ["k", "n"]


def test_definitions_of_variables_that_are_assigned_once() -> None:
    member = ir.Assign(HERE, N, c(1), ("m",))
    body = [assign(X, 1), when(SOME, [assign(Y, read(X))]), loop(K, 0, 3, [assign(Z, 2)]), assign(Z, 3), member]
    assert definitions(body) == {"x": c(1), "y": read(X)}
