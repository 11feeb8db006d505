"""Barriers that some lanes would miss are refused by what diverges; uniform control is accepted."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import pydp
from pydp.lang import ir
from pydp.lang.diagnostics import VectorError
from pydp.lang.front import FieldType, NumberType, translate

pytestmark = pytest.mark.host

F32, I32 = np.dtype("f4"), np.dtype("i4")
TYPES = [FieldType(F32, 1), FieldType(I32, 1, (), False), NumberType(I32, True)]
REFUSED: list = []
ACCEPTED: list = []


def refused(cause):
    return lambda fn: REFUSED.append((fn, cause)) or fn


def accepted(count):
    return lambda fn: ACCEPTED.append((fn, count)) or fn


@refused("idx.local[0]")
def under_local_index(idx, out, a, n):
    if idx.local[0] < 4:
        pydp.group_barrier()  # here


@refused("idx[0]")
def under_global_index(idx, out, a, n):
    if idx[0] < n:
        out[idx] = 1
    else:
        pydp.group_barrier()  # here


@refused("'x'")
def under_a_variable(idx, out, a, n):
    x = a[idx]
    if x > n:
        pydp.group_barrier()  # here


@refused("idx[0]")
def under_a_load(idx, out, a, n):
    if a[idx] > n:
        pydp.group_barrier()  # here


@refused("'out', which the function writes")
def under_a_written_array(idx, out, a, n):
    out[idx] = n
    if out[0] > n:
        pydp.group_barrier()  # here


@refused("'x'")
def set_under_divergence(idx, out, a, n):
    x = 0
    if idx.local[0] > 3:
        x = 1
    while x < n:
        pydp.group_barrier()  # here
        x += 1


@refused("idx.local[0]")
def trip_count(idx, out, a, n):
    for _ in range(idx.local[0]):
        pydp.group_barrier()  # here


@refused("idx.local[0]")
def after_a_return(idx, out, a, n):
    if idx.local[0] > 3:
        return
    pydp.group_barrier()  # here


@refused("idx[0]")
def after_a_return_in_a_loop(idx, out, a, n):
    for k in range(n):
        if a[idx] > k:
            return
    pydp.group_barrier()  # here


@refused("idx.local[0]")
def after_a_break(idx, out, a, n):
    for k in range(n):
        if idx.local[0] == k:
            break
        pydp.group_barrier()  # here


@refused("idx.local[0]")
def before_a_break(idx, out, a, n):
    for k in range(n):
        pydp.group_barrier()  # here
        if idx.local[0] == k:
            break


@refused("idx.local[0]")
def after_a_continue(idx, out, a, n):
    for k in range(n):
        if idx.local[0] == k:
            continue
        pydp.group_barrier()  # here


@refused("'found'")
def through_a_flag(idx, out, a, n):
    found = False
    for k in range(n):
        if a[idx] == k:
            found = True
    if found:
        pydp.group_barrier()  # here


def _meet(flag):
    if flag > 2:
        pydp.group_barrier()  # here


@refused("idx.local[0]")
def in_a_called_function(idx, out, a, n):
    _meet(idx.local[0])


@refused("'own'")
def under_private_data(idx, out, a, n):
    own = pydp.private_field(np.int32, 2)
    own[0] = n
    if own[0]:
        pydp.group_barrier()  # here


@refused("idx.local[0]")
def width_of_a_lane(idx, out, a, n):
    pydp.group_barrier(idx.local[0] + 1)  # here


@accepted(1)
def under_an_argument(idx, out, a, n):
    if n > 3 and a[0] < 7:
        pydp.group_barrier()


@accepted(1)
def under_the_group(idx, out, a, n):
    while n > idx.group[0] and n < out.extent[0]:
        pydp.group_barrier()
        n += a[idx.group[0]]


@accepted(2)
def before_a_continue(idx, out, a, n):
    for k in range(n):
        pydp.group_barrier()
        if idx.local[0] == k:
            continue
        out[idx] = k
    pydp.group_barrier()


@accepted(1)
def after_divergent_control(idx, out, a, n):
    x = 0
    for k in range(idx.local[0]):
        if a[k] > n:
            break
        x += k
    if x > 3:
        out[idx] = x
    pydp.group_barrier()


@accepted(1)
def uniform_return(idx, out, a, n):
    if n == 0:
        return
    for k in range(n):
        if a[k] < 0:
            return
    pydp.group_barrier()


@accepted(1)
def uniform_break(idx, out, a, n):
    k = 0
    while True:
        pydp.group_barrier(n)
        k += 1
        if k * k > n:
            break
        if idx.local[0] > k:
            out[idx] = k


@accepted(2)
def shared_flag(idx, out, a, n):
    s = pydp.local_field(np.int32, 1)
    s[0] = n
    pydp.group_barrier()
    if s[0] > 3:
        pydp.group_barrier()


def _line(fn):
    found = set()
    for each in (fn, _meet):
        lines, first = inspect.getsourcelines(each)
        found |= {first + n for n, line in enumerate(lines) if "# here" in line}
    return found


@pytest.mark.parametrize("fn, cause", REFUSED, ids=lambda item: getattr(item, "__name__", ""))
def test_refused(fn, cause):
    with pytest.raises(VectorError, match="not all lanes of a group meet this barrier") as caught:
        translate(fn, 1, (8,), TYPES)
    assert f"depends on {cause}" in caught.value.message, caught.value.message
    assert caught.value.line in _line(fn)


@pytest.mark.parametrize("fn, count", ACCEPTED, ids=lambda item: getattr(item, "__name__", ""))
def test_accepted(fn, count):
    made = translate(fn, 1, (8,), TYPES)
    assert [barrier.number for barrier in ir.barriers(made.body)] == list(range(count))
