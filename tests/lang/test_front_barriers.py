"""Divergent barriers are rejected with the divergent value; uniform control flow is accepted."""

from __future__ import annotations

import inspect

import interpreter
import numpy as np
import pytest

import pydp
from pydp.lang import ir
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.execute import host
from pydp.lang.ir.diagnostics import VectorError

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


def _summed(s, t, n, levels):
    """The sum of s[0:n], n a power of two, by n / 2, n / 4, ... lanes; each barrier is for the active lanes only."""
    for level in range(levels):
        half = n >> (level + 1)
        if t < half:
            s[t] = s[t] + s[t + half]
            pydp.group_barrier(half)


def reduction(idx, out, a, n):
    s = pydp.local_field(np.int32, 8)
    t = idx.local[0]
    s[t] = a[idx]
    pydp.group_barrier()
    _summed(s, t, 8, 3)
    if t == 0:
        out[idx.group[0]] = s[0]


def counted_condition(idx, out, a, n):
    s = pydp.local_field(np.int32, 8)
    t = idx.local[0]
    x = 0
    if t >= n:
        out[idx] = -1
        return
    s[t] = a[idx]
    if t < n - 1:
        x = 1000
        pydp.group_barrier(n)
        x += s[t + 1]
    else:
        pydp.group_barrier(n)
        x += s[0]
    for k in range(2):
        pydp.group_barrier(n)
        s[t] = x + k
        pydp.group_barrier(n)
        x = s[(t + 1) % n]
    out[idx] = x


def _reference(a, n):
    out = np.full(len(a), -1)
    for first in range(0, len(a), 8):
        part = a[first : first + 8][:n]
        x = np.append(part[1:] + 1000, part[0])
        for k in range(2):
            x = np.roll(x + k, -1)
        out[first : first + n] = x
    return out


@pytest.mark.parametrize("n", [1, 3, 8])
def test_barriers_with_a_width_under_conditions(n):
    """Barriers with a width under divergent conditions: all lanes reach them; only the given lanes do the work."""
    a = np.random.default_rng(n).integers(-9, 9, 16).astype(np.int32)
    for fn, wanted in ((reduction, a.reshape(2, 8).sum(1)), (counted_condition, _reference(a, n))):
        types = [FieldType(I32, 1), FieldType(I32, 1, (), False), NumberType(I32, True)]
        made = translate(fn, 1, (8,), types)
        for seed in (None, 1, 2):
            out = np.zeros(16, np.int32)
            interpreter.run(made, (16,), None, [out, a], {2: n}, seed)
            np.testing.assert_array_equal(out[: len(wanted)], wanted)
        out = np.zeros(16, np.int32)
        host.run(made, (16,), None, [out, a], {2: n})
        np.testing.assert_array_equal(out[: len(wanted)], wanted)


@refused("idx.local[0]")
def width_in_a_divergent_loop(idx, out, a, n):
    for _ in range(idx.local[0]):
        pydp.group_barrier(n)  # here


@refused("idx.local[0]")
def width_before_a_break(idx, out, a, n):
    for k in range(n):
        if idx.local[0] > k:
            pydp.group_barrier(n)  # here
            break


def _chosen(value):
    if value > 2:
        return 1
    return _meets_first(value)


def _meets_first(value):
    pydp.group_barrier()  # here
    return value


@refused("'value'")
def on_the_way_to_a_result(idx, out, a, n):
    if _chosen(n) > 0 and _chosen(a[idx]) > 0:
        out[idx] = 1


@refused("idx[0]")
def under_conditions_that_call(idx, out, a, n):
    if a[idx] > 1 and _meets_first(n) > 0:
        out[idx] = 1


def _either(value, n):
    if value > n:
        return value
    return n


@refused("'value'")
def under_a_called_functions_result(idx, out, a, n):
    if _either(a[idx], n) > 0:
        pydp.group_barrier()  # here


def _met(lane, n):
    if lane < n:
        pydp.group_barrier(8)
        return 1
    return 0


@refused("idx.local[0]")
def under_a_result_of_lanes_that_met(idx, out, a, n):
    if _met(idx.local[0], n) > 0 and a[idx] > 0:
        pydp.group_barrier()  # here


def _line(fn):
    found = set()
    for each in (fn, _meet, _meets_first):
        lines, first = inspect.getsourcelines(each)
        found |= {first + n for n, line in enumerate(lines) if "# here" in line}
    return found


@pytest.mark.parametrize("fn, cause", REFUSED, ids=lambda item: getattr(item, "__name__", ""))
def test_refused(fn, cause):
    with pytest.raises(VectorError, match="not reach this barrier") as caught:
        translate(fn, 1, (8,), TYPES)
    assert f"depends on {cause}" in caught.value.message, caught.value.message
    assert caught.value.line in _line(fn)


def _two_axes(idx, out, a, n):
    if n > 3 and a[0] == n:
        out[0] = 1
        if idx.local[1] != 2:
            pydp.group_barrier()


ABSENT = [
    (under_local_index, (8,), "lanes [4], [5], [6], [7] do not reach this barrier"),
    (under_local_index, (16,), "lanes [4], [5], [6], [7] and 8 more do not reach this barrier"),
    (after_a_return, (8,), "lanes [4], [5], [6], [7] do not reach this barrier"),
    (in_a_called_function, (4,), "lanes [0], [1], [2] do not reach this barrier"),
    (trip_count, (8,), "lane [0] does not reach this barrier"),
    (_two_axes, (2, 3), "lanes [0, 2], [1, 2] do not reach this barrier"),
    (under_global_index, (8,), "some lanes may not reach this barrier"),
    (under_a_load, (8,), "some lanes may not reach this barrier"),
]


@pytest.mark.parametrize(("fn", "group", "words"), ABSENT, ids=lambda item: getattr(item, "__name__", ""))
def test_lanes_that_do_not_reach_the_barrier_are_named(fn, group, words):
    with pytest.raises(VectorError) as caught:
        translate(fn, len(group), group, TYPES)
    assert caught.value.message.startswith(f"{words}, because the condition or loop in line ")


def _width_in_a_while_loop(idx, out, x, n):
    k = 0
    if idx.local[0] < n:
        while k < 3:
            pydp.group_barrier(n)
            k += 1
    out[idx] = k


def test_the_message_says_what_a_width_needs():
    """If the barrier has a width, the message does not suggest to give one."""
    with pytest.raises(VectorError) as caught:
        translate(_width_in_a_while_loop, 1, (8,), TYPES)
    assert "with uniform bounds between" in caught.value.message
    assert "give the number of lanes" not in caught.value.message


@pytest.mark.parametrize("fn, count", ACCEPTED, ids=lambda item: getattr(item, "__name__", ""))
def test_accepted(fn, count):
    made = translate(fn, 1, (8,), TYPES)
    assert [barrier.number for barrier in ir.barriers(made.body)] == list(range(count))
