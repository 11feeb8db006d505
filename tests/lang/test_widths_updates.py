"""Inferred widths of barriers between updates, and around dropped writes and device-dependent values."""

from __future__ import annotations

import numpy as np
import pytest
from builder import barrier, c, function, shared
from shown_widths import I1, shown

import pydp
from pydp.lang import ir
from pydp.lang.barriers import widths
from pydp.lang.compile import FieldType

pytestmark = pytest.mark.host


@pytest.mark.parametrize(
    ("first", "second", "dtype", "wanted"),
    [
        ("add", "add", np.int32, 1),
        ("max", "max", np.float32, 1),
        ("add", "max", np.int32, 64),
        ("min", "max", np.int32, 64),
        ("and", "or", np.int32, 64),
        ("add", "add", np.float32, 64),
    ],
)
def test_updates_that_do_not_commute_are_ordered(first, second, dtype, wanted):
    slots = shared("s", 1, dtype=dtype)
    updates = [ir.Atomic(ir.NOWHERE, name, slots, (c(0),), c(1, dtype)) for name in (first, second)]
    made = function([updates[0], barrier(0), updates[1]], group=(64,), locals=[slots])
    assert widths.infer(made)[0].per_iteration == (wanted,)


def test_the_previous_value_depends_on_all_earlier_updates():
    def taken(idx, out):
        s = pydp.local_field(np.int32, 1)
        s[0] = 0
        pydp.group_barrier()
        pydp.atomic_add(s, 0, 1)
        pydp.group_barrier()
        out[idx] = pydp.atomic_add(s, 0, 1)

    assert shown(taken, [I1], (64,)) == ["64", "64"]


def test_rewritten_elements_may_be_overwritten_by_lanes_outside_the_barrier():
    def again(idx, out):
        s = pydp.local_field(np.int32, 32)
        i = idx.local[0]
        for k in range(2):
            s[i % 32] = k
        pydp.group_barrier()
        out[idx] = s[(i + 1) % 32]

    def the_same(idx, out):
        s = pydp.local_field(np.int32, 32)
        i = idx.local[0]
        for _ in range(2):
            s[i % 32] = 7
        pydp.group_barrier()
        out[idx] = s[(i + 1) % 32]

    def in_turns(idx, out):
        s = pydp.local_field(np.int32, 32)
        i = idx.local[0]
        for k in range(2):
            for j in range(2):
                s[i % 32] = k * j
            pydp.group_barrier()
            out[idx] = s[(i + 1) % 32]
            pydp.group_barrier()

    assert [shown(fn, [I1], (64,)) for fn in (again, the_same, in_turns)] == [["64"], ["32"], ["32, 64", "64, none"]]


def test_readers_do_not_rely_on_writes_of_lanes_outside_the_grid():
    def halves(idx, out, t):
        t[(idx.local[1] + 8 * idx.local[0]) % 16] = 1
        pydp.group_barrier()
        out[idx] = t[(idx.local[1] + 8 - 8 * idx.local[0]) % 16]

    # In a grid of 8 columns, lanes 0 to 7 read elements that lanes 8 to 15 would write, but only lanes 16 to 23 write.
    assert shown(halves, [FieldType(np.dtype(np.int32), 2), I1], (2, 16)) == ["32"]


def test_functions_with_device_dependent_rounding_are_unknown():
    """NumPy's cbrt(27) is slightly less than 3: with it, runs of 16 lanes would seem sufficient instead of 32."""

    def root(idx, out):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        s[i] = i
        pydp.group_barrier()
        out[idx] = s[i ^ ((int(np.cbrt(np.float32(27 + i * 0))) + 1) * 4)]

    def floors(idx, out):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        s[i] = i
        pydp.group_barrier()
        out[idx] = s[int(np.floor(i * 0.25)) * 4]

    def chosen(idx, out):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        s[i] = i
        pydp.group_barrier()
        k = i ^ 1 if np.float32(i) ** np.float32(0.5) < 9 else i ^ 32
        out[idx] = s[k]

    assert [shown(fn, [I1], (64,)) for fn in (root, floors, chosen)] == [["64"], ["4"], ["64"]]
