"""Random functions whose lanes access one array: rejected before the launch if the interpreter finds a race."""

from __future__ import annotations

import random

import interpreter
import numpy as np
import pytest
from builder import (
    HERE,
    add,
    array,
    assign,
    barrier,
    c,
    cmp,
    div,
    function,
    group,
    load,
    local,
    loop,
    mod,
    mul,
    op,
    place,
    read,
    store,
    sub,
    var,
    when,
)

from pydp.lang import ir
from pydp.lang.analysis.launch_check import LaunchCheck
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host

SIZE = 24


def _index(dice, lanes, counter):
    """An index near the index of the lane or of its group; some are out of bounds."""
    picks = [
        place(),
        place(),
        add(place(), dice.randint(1, 3)),
        sub(SIZE - 1, place()),
        op("xor", place(), dice.choice([1, 2, lanes])),
        div(place(), 2),
        mod(place(), dice.choice([4, lanes, 16])),
        add(mul(group(), lanes), mod(add(local(), dice.randint(1, 3)), lanes)),
        group(),
        c(dice.randrange(SIZE)),
    ]
    if counter is not None:
        picks += [add(place(), counter), add(mul(counter, SIZE // 2), place()), op("xor", place(), counter)]
    return dice.choice(picks)


def _statement(dice, target, lanes, counter=None):
    index = _index(dice, lanes, counter)
    pick = dice.randrange(6)
    if pick < 2:
        made = store(target, [index], dice.choice([local(), c(1), place(), group()]))
    elif pick == 2:
        made = ir.Atomic(HERE, "add", target, (index,), c(1))
    else:
        made = assign(var("kept"), load(target, index))
    if dice.random() < 0.5:
        left = dice.choice([local(), place(), group(), mod(place(), 2)])
        made = when(cmp(dice.choice(["lt", "ge", "eq"]), left, dice.randrange(6)), [made])
    return made


def _made(seed):
    dice = random.Random(seed)
    lanes = dice.choice([4, 8])
    target = array("a")
    body = [barrier(0)]
    for _ in range(dice.randint(2, 5)):
        pick = dice.random()
        if pick < 0.3:
            body.append(barrier(len(body)))
        elif pick < 0.5:
            turn = var(f"turn{len(body)}")
            inner = [_statement(dice, target, lanes, read(turn)), barrier(len(body) + 100)]
            body.append(loop(turn, 0, c(dice.randint(1, 3)), inner))
        else:
            body.append(_statement(dice, target, lanes))
    return function(body, group=(lanes,), arrays=[target]), dice.choice([lanes, 16, 2 * lanes, 13])


def _in_grid(entry, lanes, extent):
    return entry[2][0] * lanes + entry[4][0] < extent


def test_races_are_found_where_an_interpreter_sees_them_and_nowhere_else():
    found = []
    for seed in range(1000):
        made, extent = _made(seed)
        log = []
        interpreter.run(made, (extent,), None, [np.zeros(SIZE, np.int32)], (), seed, log)
        log = [entry for entry in log if _in_grid(entry, made.group[0], extent)]
        real = any(
            not (one[5] == other[5] == "write" and one[7] == other[7]) for one, other, _ in interpreter.races(log)
        )
        try:
            LaunchCheck(made, False).check((extent,), (0,), ((SIZE,),), (), {})
            said = False
        except VectorError as error:
            said = "race:" in str(error)
        assert said == real, seed
        found.append(real)
    assert 0.2 < np.mean(found) < 0.9
