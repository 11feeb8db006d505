"""Walks over the typed form."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from builder import (
    BOOL,
    HERE,
    I32,
    add,
    array,
    assign,
    barrier,
    c,
    cmp,
    load,
    loop,
    place,
    private,
    read,
    store,
    var,
    when,
)

from pydp.lang import ir

pytestmark = pytest.mark.host

A = array("a")


def test_jumps_belong_to_loops_around_the_body() -> None:
    leave, go_on = ir.Break(HERE), ir.Continue(HERE)
    inner = when(cmp("lt", place(), 3), [leave], [go_on])
    assert list(ir.jumps([inner, leave])) == [leave, go_on, leave]
    assert not list(ir.jumps([loop(var("i"), 0, 3, [inner]), ir.While(HERE, cmp("lt", place(), 3), [leave])]))
    assert list(ir.jumps([when(cmp("lt", place(), 3), [loop(var("i"), 0, 3, [leave]), go_on])])) == [go_on]


def test_conditions_around_jumps() -> None:
    jumps, other = [when(cmp("lt", place(), n), [ir.Break(HERE)]) for n in range(2)], when(cmp("lt", place(), 5), [])
    outer = when(cmp("lt", place(), 7), [other], [jumps[1], loop(var("i"), 0, 3, [jumps[0]])])
    assert list(ir.jump_conditions([jumps[0], other, outer])) == [jumps[0], outer, jumps[1]]
    assert not list(ir.jump_conditions([ir.Break(HERE), other]))


def test_ranges_of_constant_loops() -> None:
    assert ir.constant_range(loop(var("i"), 7, 0, [], step=-2)) == range(7, 0, -2)
    for ends in ((place(), 3), (0, place()), (0, read(var("n")))):
        assert ir.constant_range(loop(var("i"), *ends, [])) is None
    assert ir.constant_range(loop(var("i"), 0, 3, [], step=place())) is None


def test_an_expression_is_walked_outermost_first() -> None:
    index, more = read(var("i")), c(1)
    element = load(A, index)
    both = add(element, more)
    least = ir.Math(I32, "minimum", (both, index))
    chosen = ir.Select(I32, cmp("lt", index, 3), least, more)
    assert list(ir.children(chosen)) == [chosen.condition, least, more]
    assert list(ir.walk(least)) == [least, both, element, index, more, index]


def test_a_walk_leaves_out_the_bounds_of_checked_mode() -> None:
    index, bound = c(1), c(2)
    element = ir.Load(I32, A, (index,), (ir.Bound(bound, 8),))
    assert list(ir.children(element)) == [index]
    item = ir.ItemBound(bound, 8, "m", "read", HERE)
    truth = ir.Const(BOOL, True)
    assert list(ir.children(ir.Select(I32, truth, index, index, item))) == [truth, index, index]
    kept = ir.Store(HERE, A, (index,), c(3), (), (ir.Bound(bound, 8),))
    assert list(ir.expressions(kept)) == [index, c(3)]


def test_expressions_of_a_statement_are_its_own() -> None:
    inner = store(A, [c(1)], 2)
    turns = loop(var("i"), 3, 4, [inner], step=5)
    assert list(ir.expressions(turns)) == [c(3), c(4), c(5)]
    update = ir.Atomic(HERE, "add", A, (c(6),), c(7), old=private("old", 1))
    assert list(ir.expressions(update)) == [c(6), c(7)]
    assert list(ir.expressions(barrier(width=c(8)))) == [c(8)]
    assert not list(ir.expressions(barrier())) and not list(ir.expressions(ir.Break(HERE)))


def test_statements_come_in_source_order() -> None:
    first, second, third, last = (assign(var(name), 0) for name in "abcd")
    meets = [barrier(0), barrier(1)]
    either = when(cmp("lt", place(), 3), [first, meets[0]], [second])
    turns = loop(var("i"), 0, 3, [either, meets[1], third])
    body = [turns, last]
    assert list(ir.blocks(either)) == [either.then, either.orelse] and list(ir.blocks(turns)) == [turns.body]
    wanted = [turns, either, first, meets[0], second, meets[1], third, last]
    found = list(ir.statements(body))
    assert len(found) == len(wanted) and all(one is other for one, other in zip(found, wanted, strict=True))
    assert [one.number for one in ir.barriers(body)] == [0, 1]
    assert all(one is other for one, other in zip(ir.barriers(body), meets, strict=True))


def test_a_node_has_its_own_uid() -> None:
    one, equal, leave = read(var("i")), read(var("i")), ir.Break(HERE)
    assert one == equal and hash(one) == hash(equal) and repr(one) == repr(equal)
    assert len({one.uid, equal.uid, replace(one).uid, leave.uid, replace(leave).uid}) == 5
    assert one.uid == one.uid and ir.Break(HERE) == leave
    both = add(one, one)
    assert [inner.uid for inner in ir.children(both)] == [one.uid, one.uid]


def test_threads_read_the_same_uid() -> None:
    nodes = [c(number) for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [node.uid for node in nodes], range(4)))
    assert all(one == found[0] for one in found) and len(set(found[0])) == len(nodes)
