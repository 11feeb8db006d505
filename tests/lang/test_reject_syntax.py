"""Statements and expressions that the language does not have are refused with their line."""

# ruff: noqa: B021, E731, RUF059, SIM105

from __future__ import annotations

import numpy as np
import pytest
from reject_cases import INT, A, C, Cases, T, name_of

import pydp
from pydp.lang.compile import TupleType

pytestmark = pytest.mark.host

CASES = Cases()
wrong, right = CASES.wrong, CASES.right

TABLE = [1, 2, 3]
ARRAY = np.zeros(300)
NAMES = {"a": 1}
WEIGHTS = (1.0, 2.0, 3.0)


# --- syntax


@wrong("a formatted string cannot be used", C)
def formatted(idx, out):
    f"{out}"  # here


@wrong("is a string", C)
def string(idx, out):
    name = "x"  # here
    out[idx] = name


@wrong("a list cannot be used", C)
def list_display(idx, out):
    x = [1, 2]  # here
    out[idx] = x[0]


@wrong("'TABLE' is a list", C)
def list_from_outside(idx, out):
    out[idx] = TABLE[0]  # here


@wrong("'ARRAY' is an array from an enclosing scope", C)
def array_from_outside(idx, out):
    out[idx] = ARRAY[0]  # here


@wrong("'NAMES' is a dict", C)
def dict_from_outside(idx, out):
    out[idx] = NAMES["a"]  # here


@wrong("a dict cannot be used", C)
def dict_display(idx, out):
    x = {1: 2}  # here
    out[idx] = x[1]


@wrong("a list comprehension cannot be used", C)
def comprehension(idx, out):
    x = [k for k in range(3)]  # here
    out[idx] = x[0]


@wrong("a generator expression cannot be used", C)
def generator(idx, out):
    out[idx] = max(k for k in range(3))  # here


@wrong("a lambda cannot be used", C)
def inner_lambda(idx, out):
    f = lambda x: x  # here
    out[idx] = f(1)


@wrong("a function inside a function", C)
def inner_function(idx, out):
    def f(x):  # here
        return x

    out[idx] = f(1)


@wrong("a class cannot be used", C)
def inner_class(idx, out):
    class Thing:  # here
        pass


@wrong("try cannot be used", C)
def tries(idx, out):
    try:  # here
        out[idx] = 1
    except ValueError:
        pass


@wrong("with cannot be used", C)
def withs(idx, out):
    with out:  # here
        pass


@wrong("raise cannot be used", C)
def raises(idx, out):
    raise ValueError  # here


@wrong("assert cannot be used", C)
def asserts(idx, out):
    assert idx[0] > 0  # here


@wrong("global cannot be used", C)
def globals_(idx, out):
    global TABLE  # here
    out[idx] = 1


@wrong("del cannot be used", C)
def deletes(idx, out):
    x = 1.0
    del x  # here


@wrong("import cannot be used", C)
def imports(idx, out):
    import math  # here

    out[idx] = math.pi


@wrong("else of a loop", C)
def loop_else(idx, out):
    for k in range(4):
        out[idx] = k
    else:
        out[idx] = 1  # here


@wrong("a for loop iterates over range", C, A)
def for_over_array(idx, out, a):
    for x in a:  # here
        out[idx] = x


@wrong("break is not supported inside a loop over a tuple", C)
def break_in_unrolled(idx, out):
    for w in WEIGHTS:
        if idx[0] > w:
            break  # here
        out[idx] = w


@wrong("'in' cannot be used", C)
def membership(idx, out):
    if idx[0] in (1, 2):  # here
        out[idx] = 1


@wrong("'is' cannot be used", C)
def identity(idx, out):
    if out is None:  # here
        out[idx] = 1


@wrong("None cannot be used", C)
def none_value(idx, out):
    x = None  # here
    out[idx] = x


@wrong("an assignment inside an expression", C)
def walrus(idx, out):
    if (n := idx[0]) > 2:  # here
        out[idx] = n


@wrong("@ cannot be used", C, A)
def matrix_product(idx, out, a):
    out[idx] = a @ a  # here


@wrong("a starred", C)
def starred(idx, out):
    first, *rest = idx  # here
    out[idx] = first


@wrong("a condition must be a number", C)
def tuple_condition(idx, out):
    if idx:  # here
        out[idx] = 1


@right(C, A, TupleType((INT, INT)), T, group=(16, 16))
def everything(idx, out, a, pair, t):
    """A docstring, then a little of everything that is right."""
    i, j = idx
    total: float = 0.0
    own = pydp.private_field((2, 2), np.float32)
    for k in range(2):
        own[k, k] = a(i, k)
        total += own[k, k] if k else -own[k, k]
    for w in WEIGHTS:
        total *= w
    while total > 100.0:
        total /= 2
        if total < 1:
            continue
        pass
    tile = t[idx.group]
    out[idx + pair] = pydp.where(total > 0, total, tile[idx.local]) + max(i, j, pair[0]) % 7
    return


@pytest.mark.parametrize("fn, says, types, rank, group", CASES.refused, ids=name_of)
def test_refused(fn, says, types, rank, group):
    CASES.check_wrong(fn, says, types, rank, group)


@pytest.mark.parametrize("fn, types, rank, group", CASES.accepted, ids=name_of)
def test_accepted(fn, types, rank, group):
    CASES.check_right(fn, types, rank, group)


def test_there_are_enough():
    import test_reject
    import test_reject_calls

    files = (CASES, test_reject.CASES, test_reject_calls.CASES)
    assert sum(len(one.refused) for one in files) >= 30 and sum(len(one.accepted) for one in files) >= 30
