"""Wrong records and calls are refused with the line that is wrong, and whole functions that are right are not."""

# ruff: noqa: F821, UP037

from __future__ import annotations

import math

import numpy as np
import pytest
from reject_cases import REC, A, C, Cases, R, T, V, name_of

import pydp
from pydp.lang.compile import FieldType, translate
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host

CASES = Cases("_recursive", "_changed", "_sometimes", "_mixed")
wrong, right = CASES.wrong, CASES.right

OTHER = np.dtype([("y", "f4")])


# --- records


@wrong("the record has no member 'z'", C, R)
def unknown_member(idx, out, r):
    out[idx] = r[0].z  # here


@wrong("there is no member 'z'", C, R)
def assign_unknown_member(idx, out, r):
    r[0].z = 1.0  # here


@wrong("records support == and != only", C, R)
def order_of_records(idx, out, r):
    out[idx] = r[0] < r[1]  # here


@wrong("member 'n' is missing", R, rank=1)
def incomplete_record(idx, r):
    r[idx] = pydp.record(REC, x=1.0)  # here


@right(R, rank=1)
def complete_record(idx, r):
    r[idx] = pydp.record(REC, x=1.0, n=2)


@wrong("'y' is not a member", R, rank=1)
def record_with_more(idx, r):
    r[idx] = REC(x=1.0, n=1, y=2)  # here


@wrong("cannot be converted to a record", R, rank=1)
def number_into_record(idx, r):
    r[idx] = 1.0  # here


@wrong("is a record of the caller", R, rank=1)
def callee_changes_record(idx, r):
    r[idx] = _changed(r[idx])


def _changed(body):
    body.x = 2.0  # here
    return body


@wrong("needs numbers, not records", R, rank=1)
def add_records(idx, r):
    r[idx] = r[idx] + r[idx]  # here


# --- calls


def _recursive(n):
    return _recursive(n - 1) if n > 0 else 0  # here


@wrong("recursion", C)
def recursion(idx, out):
    out[idx] = _recursive(idx[0])


def _two(x, y):
    return x + y


@wrong("lacks the argument 'y'", C)
def missing_argument(idx, out):
    out[idx] = _two(1)  # here


@wrong("takes 2 arguments, not 3", C)
def too_many_arguments(idx, out):
    out[idx] = _two(1, 2, 3)  # here


@wrong("max takes 1 to 32 arguments, not 0", C)
def largest_of_nothing(idx, out):
    out[idx] = max()  # here


@wrong("has no argument 'z'", C)
def unknown_argument(idx, out):
    out[idx] = _two(1, z=3)  # here


@right(C)
def named_argument(idx, out):
    out[idx] = _two(1, y=3)


def _sometimes(x):
    if x > 0:  # here
        return 1.0


@wrong("may end without a return", C)
def no_return(idx, out):
    out[idx] = _sometimes(idx[0])


def _mixed(x):
    if x > 0:
        return 1.0
    return (1.0, 2.0)  # here


@wrong("a tuple of 2 here, but Python float elsewhere", C)
def mixed_returns(idx, out):
    out[idx] = _mixed(idx[0])


@wrong("not None", C)
def result_of_nothing(idx, out):
    out[idx] = _nothing(out, idx)  # here


def _nothing(out, idx):
    out[idx] = 1.0


@wrong("a function run by forall cannot return a value", C)
def returns_a_value(idx, out):
    return out[idx]  # here


@wrong("is not supported in a vector function", C)
def calls_a_type(idx, out):
    out[idx] = sorted((3, 1, 2))  # here


@wrong("print is not supported", C)
def prints(idx, out):
    print(out[idx])  # here


@wrong("pydp.matmul is not supported", C, A)
def calls_an_algorithm(idx, out, a):
    pydp.matmul(a, a)  # here


@wrong("math.sin takes 1 argument, not 2", C, A)
def wrong_arity(idx, out, a):
    out[idx] = math.sin(a[idx], 2.0)  # here


@wrong("cannot change a private_field", C)
def atomic_on_private(idx, out):
    own = pydp.private_field(np.int32, 4)
    pydp.atomic_add(own, 0, 1)  # here


@wrong("needs an element of an array, not", C)
def atomic_on_a_number(idx, out):
    pydp.atomic_add(idx[0], 1)  # here


@right(V, rank=1)
def atomics(idx, v):
    pydp.atomic_add(v, 0, 1)
    pydp.atomic_max(v[idx], 2)


# --- more that is right


@right(C)
def assigned_by_every_return(idx, out):
    if idx[0] > 3:
        return
    elif idx[1] > 3:
        x = 1.0
    else:
        x = 2
    out[idx] = x


@right(C, A)
def view_chosen_by_a_branch(idx, out, a):
    t = a.tile(4, 4)[0, 0]
    if idx[0] > 3:
        t = a.tile(4, 4)[0, 1]
    out[idx] = t[1, 1]


@right(V, rank=1)
def number_as_condition(idx, v):
    if v[idx] and not v[0]:
        v[idx] = 2


@right(C)
def swap(idx, out):
    i, j = idx
    i, j = j, i
    out[i, j] = 1.0


@right(R, R, rank=1)
def record_is_a_value(idx, r, q):
    x = r[idx]
    y = x
    y.x += 1
    q[idx] = y
    if x == y:
        q[idx].n = 1


@right(V, rank=1)
def bits(idx, v):
    v[idx] = ~v[idx] & 0xFF | v[idx] << 3 ^ v[idx] >> 2


@right(C, T, group=(16, 16))
def first_of_every_tile(idx, out, t):
    for k in range(t.extent(1)):
        out[idx] += t(idx.group[0], k)(0, 0)


@right(C, A)
def nested_tiles(idx, out, a):
    t = pydp.tile(pydp.tile(a, (64, 64)), 16)
    out[idx] = t[0, 1][3, 3][15, 0]


@right(C, A)
def of_a_section(idx, out, a):
    s = pydp.section(a, (2, 2), (idx[0], 5))
    row = pydp.project(s, 0, 1)
    out[idx] = row[idx[1]] + row.extent[0]


@right(V, rank=1)
def index_is_a_number_in_one_dimension(idx, v):
    v[idx] = idx + 1


@right(C, group=(8, 8))
def barrier_in_uniform_control(idx, out):
    s = pydp.local_field(np.float32, 8, 8)
    for k in range(out.extent[0]):
        if k % 2:
            s[idx.local] = k
            pydp.group_barrier()
            out[idx] += s[idx.local[1], idx.local[0]]
            pydp.group_barrier(64)


@right(C)
def annotated(idx, out: "field"):
    x: np.float32
    x: int = 3
    out[idx] = x


@pytest.mark.parametrize("fn, says, types, rank, group", CASES.refused, ids=name_of)
def test_refused(fn, says, types, rank, group):
    CASES.check_wrong(fn, says, types, rank, group)


@pytest.mark.parametrize("fn, types, rank, group", CASES.accepted, ids=name_of)
def test_accepted(fn, types, rank, group):
    CASES.check_right(fn, types, rank, group)


def test_the_calls_that_led_there():
    """An error in a called function also says where it was called."""
    with pytest.raises(VectorError) as caught:
        translate(mixed_returns, 2, None, [C])
    (caller,) = caught.value.callers
    assert caller.function == "mixed_returns" and caller.text.strip() == "out[idx] = _mixed(idx[0])"
    assert f"line {caller.line}, in mixed_returns" in str(caught.value)


def two(idx, out):
    out[idx] = 1.0


def test_arguments_of_translate():
    with pytest.raises(VectorError, match=r"two takes 2 arguments \(the index and the arguments\), not 3"):
        translate(two, 2, None, [C, A])
    with pytest.raises(VectorError, match="group has 1 axes, but the grid has 2"):
        translate(two, 2, (16,), [C])
    with pytest.raises(VectorError, match="is not a Python function"):
        translate(3, 2, None, [C])
    with pytest.raises(VectorError, match="complex64"):
        translate(two, 2, None, [FieldType(np.dtype("c8"), 2)])
    with pytest.raises(VectorError, match="cannot run a lambda"):
        translate(lambda idx, out: out, 2, None, [C])


def test_no_source():
    space: dict = {}
    exec("def made(idx, out):\n    out[idx] = 1\n", space)
    with pytest.raises(VectorError, match="Python cannot give the source of made"):
        translate(space["made"], 2, None, [C])
