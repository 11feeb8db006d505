"""Random functions whose accesses to a local field depend only on the lane and on loop counters."""

from __future__ import annotations

import random

import numpy as np
from builder import (
    HERE,
    I32,
    add,
    array,
    assign,
    barrier,
    c,
    cmp,
    div,
    function,
    load,
    local,
    loop,
    mod,
    mul,
    op,
    place,
    read,
    shared,
    store,
    sub,
    var,
    when,
)

from pydp.lang import ir

SIZE = 16


def index(dice: random.Random, group: tuple[int, ...], counter: ir.Expr | None) -> ir.Expr:
    """An index into a field of SIZE elements, mostly near the lane's number."""
    lane = local(0) if len(group) == 1 else add(mul(local(0), group[1]), local(1))
    picks = [
        lane,
        lane,
        add(lane, dice.randint(1, 3)),
        mul(lane, dice.randint(1, 2)),
        op("xor", lane, dice.choice([1, 2, 4])),
        mod(lane, dice.choice([2, 4, 8])),
        div(lane, dice.choice([2, 4])),
        c(dice.randrange(SIZE)),
        sub(SIZE - 1, lane),
    ]
    if counter is not None:
        picks += [add(lane, counter), op("xor", lane, op("shl", c(1), counter)), counter]
    return mod(dice.choice(picks), SIZE)


def statement(dice: random.Random, group: tuple[int, ...], field: ir.LocalArray, counter: ir.Expr | None) -> ir.Stmt:
    """A write, a read or an update, sometimes by some of the lanes."""
    kept = var("kept")
    where = index(dice, group, counter)
    pick = dice.randrange(8)
    if pick < 3:
        made: ir.Stmt = store(field, [where], dice.choice([local(0), c(1), place(0)]))
    elif pick == 3:
        made = ir.Atomic(HERE, dice.choice(["add", "add", "max"]), field, (where,), c(1))
    else:
        made = assign(kept, load(field, where))
    if dice.random() < 0.3:
        made = when(cmp(dice.choice(["lt", "ge", "eq"]), local(0), dice.randrange(group[0])), [made])
    return made


PARAMETER = ir.Parameter(I32, "p", 1)


def jump(dice: random.Random, zeros: ir.GlobalArray) -> ir.Stmt:
    """A uniform break or continue; the condition depends on the parameter, sometimes also on an array element."""
    value = PARAMETER if dice.random() < 0.5 else add(load(zeros, c(0)), PARAMETER)
    made = dice.choice([ir.Break, ir.Continue])(HERE)
    return when(cmp(dice.choice(["lt", "ge"]), value, dice.randint(1, 2)), [made])


def pattern(seed: int, group: tuple[int, ...] | None = None, length: int = 5, open_ended: bool = False) -> ir.Function:
    """A function with one local field: it is initialized, then accessed by a few statements with barriers between.

    open_ended: the trip counts of some loops, and some branches and jumps, depend on a parameter.
    """
    dice = random.Random(seed)
    group = group or dice.choice([(4,), (8,), (16,), (2, 4), (4, 4), (12,)])
    field, out = shared("s", SIZE), array("out")
    size = int(np.prod(group))
    lane = local(0) if len(group) == 1 else add(mul(local(0), group[1]), local(1))
    k = var("fill")
    fill = loop(k, lane, c(SIZE), [store(field, [read(k)], read(k))], step=size)
    body: list[ir.Stmt] = [fill, barrier(0)]
    number = 1
    for _ in range(length):
        pick = dice.random()
        if pick < 0.4:
            body.append(barrier(number))
            number += 1
        elif pick < 0.6:
            turn = var(f"turn{number}")
            inner = [statement(dice, group, field, read(turn)), barrier(number)]
            number += 1
            if open_ended and dice.random() < 0.6:
                inner.append(jump(dice, out))
            if dice.random() < 0.7:
                inner.append(statement(dice, group, field, read(turn)))
            if dice.random() < 0.5:
                inner.append(barrier(number))
                number += 1
            turns = PARAMETER if open_ended and dice.random() < 0.7 else c(dice.randint(1, 4))
            body.append(loop(turn, 0, turns, inner))
        elif open_ended and pick < 0.75:
            inner = [statement(dice, group, field, None), barrier(number), statement(dice, group, field, None)]
            body.append(when(cmp(dice.choice(["lt", "ge", "eq"]), PARAMETER, dice.randint(0, 2)), inner))
            number += 1
        else:
            body.append(statement(dice, group, field, None))
    body.append(store(out, [place(0)], c(0)) if len(group) == 1 else assign(var("last"), c(0)))
    return function(body, group=group, rank=len(group), arrays=[out], parameters=[PARAMETER], locals=[field])
