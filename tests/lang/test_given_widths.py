"""Given widths: accepted if they satisfy all dependencies, else rejected with a message that names two lanes."""

from __future__ import annotations

import numpy as np
import pytest
from builder import local

import pydp
from pydp.lang.barriers import widths
from pydp.lang.compile import FieldType, NumberType, TupleType, translate
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host

I1 = FieldType(np.dtype(np.int32), 1)
N = NumberType(np.dtype(np.int32), True)
L = local(0)


def test_a_given_width_that_is_too_narrow_names_two_lanes():
    def mirrored(idx, out, x):
        s = pydp.local_field(np.int32, 32)
        s[idx.local[0]] = x[idx]
        pydp.group_barrier(8)
        out[idx] = s[15 - idx.local[0]] if idx.local[0] < 16 else 0

    with pytest.raises(VectorError) as caught:
        widths.check_given(translate(mirrored, 1, (32,), [I1, I1]))
    message = str(caught.value)
    assert "A barrier of width 8 is too narrow: lane [0] writes s" in message and "lane [15] reads the same" in message
    assert "pydp.group_barrier(8)" in message


def test_a_given_width_that_is_too_narrow_in_one_iteration():
    def mirrored(idx, out):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        for k in range(200):
            s[i] = k
            pydp.group_barrier(4)
            out[idx] += s[15 - i]
            pydp.group_barrier(4)

    with pytest.raises(VectorError, match=r"width 4 is too narrow: lane \[0\] writes s .* lane \[15\] reads"):
        widths.check_given(translate(mirrored, 1, (16,), [I1]))


def test_barriers_of_widths_that_do_not_nest():
    """Lanes 5 and 6 are in one run of 4, but not in one run of 6; lanes 3 and 7 are in neither."""

    def swapped(idx, out, one, other):
        s = pydp.local_field(np.int32, 12)
        i = idx.local[0]
        s[i] = i
        pydp.group_barrier(6)
        pydp.group_barrier(4)
        out[idx] = s[one] if i == other else s[other] if i == one else s[i]

    def of(one, other):
        def fixed(idx, out):
            swapped(idx, out, one, other)

        return translate(fixed, 1, (12,), [I1])

    widths.check_given(of(5, 6))
    with pytest.raises(VectorError, match=r"width 6 is too narrow: lane \[\d\] writes s .* lane \[\d\] reads"):
        widths.check_given(of(3, 7))


@pytest.mark.parametrize("width", [16, 32])
def test_a_given_width_that_is_wide_enough(width):
    sizes = TupleType((N,))

    def mirrored(idx, out, x, w):
        s = pydp.local_field(np.int32, 32)
        s[idx.local[0]] = x[idx]
        pydp.group_barrier(width)
        out[idx] = s[15 - idx.local[0]] if idx.local[0] < 16 else 0

    widths.check_given(translate(mirrored, 1, (32,), [I1, I1, sizes]))


def test_a_width_that_halves_with_the_step():
    def total(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[i]
        pydp.group_barrier()
        step = 8
        while step > 0:
            if i < step:
                s[i] = s[i] + s[i + step]
            pydp.group_barrier(step)
            step //= 2
        if i == 0:
            out[0] = s[0]

    widths.check_given(translate(total, 1, (16,), [I1, I1]))


def test_a_width_that_does_not_divide_the_group():
    def f(idx, out):
        pydp.group_barrier(12)
        out[idx] = 1

    with pytest.raises(VectorError, match="width is 12; numbers that divide the group's 32 lanes"):
        widths.check_given(translate(f, 1, (32,), [I1]))


def test_a_given_width_that_lets_updates_of_two_operations_race():
    def bounded(idx, out, x):
        s = pydp.local_field(np.int32, 1)
        s[0] = 0
        pydp.group_barrier()
        pydp.atomic_add(s, 0, x[idx])
        pydp.group_barrier(8)
        pydp.atomic_max(s, 0, 100)
        pydp.group_barrier()
        out[idx] = s[0]

    def counted(idx, out, x):
        s = pydp.local_field(np.int32, 1)
        s[0] = 0
        pydp.group_barrier()
        pydp.atomic_add(s, 0, x[idx])
        pydp.group_barrier(8)
        out[idx] = pydp.atomic_add(s, 0, 1)

    field = FieldType(np.dtype(np.int32), 1)
    with pytest.raises(
        VectorError, match=r"width 8 is too narrow: lane \[0\] updates s .* lane \[8\] updates the same"
    ):
        widths.check_given(translate(bounded, 1, (64,), [field, field]))
    widths.check_given(translate(counted, 1, (64,), [field, field]))


def test_different_record_members_do_not_conflict():
    """Lane 32's write of member b does not conflict with lane 0's read of a; its write of a does."""
    pair = np.dtype([("a", np.int32), ("b", np.int32)])

    def written(same):
        def member(idx, out):
            s = pydp.local_field(pair, 64)
            i = idx.local[0]
            s[i] = pydp.record(pair, i, i)
            pydp.group_barrier()
            out[idx] = s[(i + 32) % 64].a
            pydp.group_barrier(2)
            if same:
                s[i].a = 5
            else:
                s[i].b = 5

        return member

    out = np.zeros(64, np.int32)
    pydp.forall(64, written(False), out, group=64, device="host")
    assert out.tolist() == [*range(32, 64), *range(32)]
    with pytest.raises(VectorError, match=r"width 2 is too narrow: lane \[0\] reads s in line"):
        pydp.forall(64, written(True), out, group=64, device="host")
