"""How many loop iterations a launch means, against counting them."""

from __future__ import annotations

import pytest
from builder import I32, add, array, assign, c, cmp, function, load, loop, mul, place, read, store, var, when

from pydp.lang import ir
from pydp.lang.ir_text import ir_text
from pydp.lang.trip_counts import LoopBound

pytestmark = pytest.mark.host

A = array("a", rank=2)
LENGTH = ir.ArrayExtent(I32, A, 1)


def made(*body):
    return function(list(body), arrays=[A], variables=[])


def count(body, length=10):
    return LoopBound(made(*body)).count(lambda leaf: length if leaf == LENGTH else None)


def test_loops_over_extents_and_constants():
    i, j, n = var("i"), var("j"), var("n")
    inner = [store(A, (read(i), read(j)), 1)]
    assert count([loop(i, 0, LENGTH, inner)]) == 11  # the turn in which it ends is one
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
    assert count(body) is None and not LoopBound(made(*body)).is_known
    endless = [ir.While(ir.NOWHERE, cmp("lt", place(), 3), [])]
    assert count(endless) is None
    assert LoopBound(made(loop(i, 0, LENGTH, []))).is_known
    changed = [assign(i, 0), assign(i, 5), loop(var("j"), 0, read(i), [])]
    assert count(changed) is None


def test_the_typed_form_as_text():
    i = var("i")
    text = ir_text(made(loop(i, 0, LENGTH, [store(A, (read(i), add(place(), 1)), load(A, 0, 0))], line=7)))
    assert "for i in range(0, a.extent[1], 1)  # 7" in text
    assert "a[i, (global[0] + 1)] = a[0, 0]" in text
