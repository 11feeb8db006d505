"""Bounds of the number of loop iterations of a launch, compared with counting them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from builder import (
    HERE,
    I32,
    add,
    array,
    assign,
    c,
    cmp,
    function,
    load,
    loop,
    mul,
    place,
    read,
    store,
    var,
    when,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pydp.lang import ir
from pydp.lang.analysis.trip_counts import LoopBound

pytestmark = pytest.mark.host

A = array("a", rank=2)
LENGTH = ir.ArrayExtent(I32, A, 1)


def made(*body):
    return function(list(body), arrays=[A], variables=[])


def count(body, length=10):
    return LoopBound(made(*body)).upper_bound(lambda expr: length if expr == LENGTH else None)


def test_loops_over_extents_and_constants():
    i, j, n = var("i"), var("j"), var("n")
    inner = [store(A, (read(i), read(j)), 1)]
    assert count([loop(i, 0, LENGTH, inner)]) == 11  # the final test of the condition counts
    assert count([loop(i, 0, LENGTH, inner, step=3)]) == 5
    assert count([loop(i, LENGTH, 0, inner, step=-1)]) == 11
    assert count([loop(i, 5, 2, inner)]) == 1
    assert count([loop(i, 0, LENGTH, [loop(j, 0, 4, inner)])]) == 10 * (1 + 5) + 1
    assert count([loop(i, 0, 3, inner), loop(j, 0, 4, inner)]) == 4 + 5
    assert count([assign(n, add(mul(LENGTH, 2), 1)), loop(i, 0, read(n), inner)]) == 22
    # The longest inner loop stands for all of them.
    assert count([loop(i, 0, LENGTH, [loop(j, 0, read(i), inner)])]) == 10 * (1 + 10) + 1


def test_branches_take_both_sides():
    i, j = var("i"), var("j")
    inner = [store(A, (read(i), read(j)), 1)]
    assert count([when(cmp("lt", place(), 3), [loop(i, 0, 3, inner)], [loop(j, 0, 8, inner)])]) == 4 + 9


def test_what_only_the_lane_knows_is_unknown():
    i = var("i")
    body = [loop(i, 0, load(A, place(), 0), [store(A, (read(i), c(0)), 1)])]
    assert count(body) is None
    endless = [ir.While(ir.NOWHERE, cmp("lt", place(), 3), [])]
    assert count(endless) is None
    changed = [assign(i, 0), assign(i, 5), loop(var("j"), 0, read(i), [])]
    assert count(changed) is None


def test_ranges_whose_two_ends_move_together():
    i, j, n = var("i"), var("j"), var("n")
    window = 10 * (1 + 17) + 1
    assert count([loop(i, 0, LENGTH, [loop(j, read(i), add(read(i), 16), [])])]) == window
    assert count([loop(i, 0, LENGTH, [loop(j, add(16, read(i)), read(i), [], step=-1)])]) == window
    assert count([loop(i, 0, LENGTH, [loop(j, mul(read(i), 4), mul(4, add(read(i), 1)), [])])]) == 10 * (1 + 5) + 1
    wide = [ir.Cast(np.dtype(np.int64), one) for one in (read(i), add(read(i), 16))]
    assert count([loop(i, 0, LENGTH, [ir.For(HERE, var("j", np.int64), *wide, c(2, np.int64), [])])]) == 10 * 10 + 1
    # A variable may have been computed from the counter in an earlier iteration.
    assert count([loop(i, 0, LENGTH, [loop(j, read(n), read(i), []), assign(n, read(i))])]) == 10 * (1 + 10) + 1


def test_what_every_lane_takes():
    i, j = var("i"), var("j")
    few, many = loop(i, 0, 3, []), loop(j, 0, LENGTH, [])
    stopped = when(cmp("lt", place(), 3), [ir.Break(HERE)])

    def least(*body):
        return LoopBound(made(*body)).lower_bound(lambda expr: 10 if expr == LENGTH else None)

    assert least(loop(i, 0, LENGTH, [loop(j, 0, 4, [])])) == 10 * (1 + 5) + 1
    assert least(loop(i, 0, LENGTH, [loop(j, 0, read(i), [])])) == 10 * (1 + 1) + 1
    assert least(when(cmp("lt", place(), 3), [few], [many])) == 4
    assert least(when(cmp("lt", place(), 3), [few])) == 0
    assert least(loop(i, 0, 9, [stopped, many])) == 1
    assert least(loop(i, 0, 9, [loop(j, 0, 9, [stopped])])) == 9 * (1 + 1) + 1
    assert least(ir.While(HERE, cmp("lt", place(), 3), [many]), few) == 1 + 4


class _Leave(Exception):
    """A break (True) or continue of the running loop."""


class _Runs:
    """Runs the loops of a body with random conditions. iterations: their number, with the final tests of conditions."""

    def __init__(self, inputs, chance):
        self.inputs, self.chance, self.variables, self.iterations = inputs, chance, {}, 0

    def value(self, expr):
        if isinstance(expr, ir.Const):
            found = expr.value
        elif isinstance(expr, ir.Read):
            found = self.variables[expr.variable.name]
        elif isinstance(expr, ir.Cast):
            found = self.value(expr.value)
        elif isinstance(expr, ir.Binary):
            left, right = self.value(expr.left), self.value(expr.right)
            ways = {"add": left + right, "sub": left - right, "mul": left * right}
            found = ways[expr.op] if expr.op in ways else left // right if right else 0
        else:
            found = self.inputs(expr)
        bits = 8 * expr.dtype.itemsize
        found %= 1 << bits
        return found - (1 << bits) if expr.dtype.kind == "i" and found >> (bits - 1) else found

    def run(self, body):
        for one in body:
            if isinstance(one, ir.If):
                self.run(one.then if self.chance.random() < 0.5 else one.orelse)
            elif isinstance(one, ir.Assign):
                self.variables[one.variable.name] = self.value(one.value)
            elif isinstance(one, (ir.Break, ir.Continue)):
                raise _Leave(isinstance(one, ir.Break))
            else:
                self.loop(one)

    def loop(self, one):
        for number in range(*(self.value(bound) for bound in (one.start, one.stop, one.step))):
            self.iterations += 1
            if self.iterations > 20_000:
                raise OverflowError
            self.variables[one.variable.name] = number
            try:
                self.run(one.body)
            except _Leave as leave:
                if leave.args[0]:
                    break
        self.iterations += 1


KINDS = [np.dtype(name) for name in ("int32", "int64", "uint64", "uint8")]


def _bounds(draw, names, dtype, depth=2):
    """A random integer expression of the values that are known at a point of the body."""
    kind = draw(st.sampled_from(["const", "number", "read", "read", *(["cast", "op", "op", "op"] if depth else [])]))
    if kind == "read" and names:
        found = read(draw(st.sampled_from(names)))
        return found if found.dtype == dtype else ir.Cast(dtype, found)
    if kind == "cast":
        return ir.Cast(dtype, _bounds(draw, names, draw(st.sampled_from(KINDS)), depth - 1))
    if kind == "op":
        left, right = (_bounds(draw, names, dtype, depth - 1) for _ in "lr")
        return ir.Binary(dtype, draw(st.sampled_from(["add", "sub", "mul", "floordiv"])), left, right)
    if kind == "number":
        return ir.Parameter(dtype, "n", 1)
    return ir.Const(dtype, draw(st.integers(0 if dtype.kind == "u" else -3, 9)))


def _bodies(draw, names, numbers, depth, looped):
    body = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["for", "for", "for", "let", "if", *(["leave"] if looped else [])]))
        if kind == "leave":
            leave = draw(st.sampled_from([ir.Break(HERE), ir.Continue(HERE)]))
            body.append(when(cmp("lt", place(), 3), [leave]))
        elif kind == "let":
            dtype = draw(st.sampled_from(KINDS))
            value = _bounds(draw, names, dtype)
            names = [*names, var(f"v{next(numbers)}", dtype)]
            body.append(assign(names[-1], value))
        elif kind == "if" and depth:
            sides = [_bodies(draw, names, numbers, depth - 1, looped) for _ in "yn"]
            body.append(when(cmp("lt", place(), 3), *sides))
        elif depth:
            dtype = draw(st.sampled_from(KINDS[:2]))
            start, stop = (_bounds(draw, names, dtype) for _ in "se")
            if draw(st.booleans()):
                stop = ir.Binary(dtype, "add", start, stop)  # such as range(i, i + 16)
            counter = var(f"c{next(numbers)}", dtype)
            steps = st.sampled_from([1, 1, 2, -1, -3])
            inner = _bodies(draw, [*names, counter], numbers, depth - 1, True)
            body.append(ir.For(HERE, counter, start, stop, ir.Const(dtype, draw(steps)), inner))
    return body


@settings(deadline=None, max_examples=400)
@given(
    data=st.data(), n=st.sampled_from([0, 1, 2, 5, 12, 100, 255, 2**31 - 1]), chance=st.randoms(use_true_random=False)
)
def test_no_run_takes_more_than_the_count_or_less_than_the_least(data, n, chance):
    body = _bodies(data.draw, [], itertools.count(), 3, False)

    def inputs(expr):
        return n % (1 << 8 * expr.dtype.itemsize) if isinstance(expr, ir.Parameter) else None

    runs, bound = _Runs(inputs, chance), LoopBound(made(*body))
    most, least = bound.upper_bound(inputs), bound.lower_bound(inputs)
    try:
        runs.run(body)
    except OverflowError:
        assert most is None or most > 20_000
    else:
        assert least <= runs.iterations and (most is None or runs.iterations <= most)
