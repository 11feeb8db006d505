"""Barriers around loops that are too long to be traced: accesses of skipped iterations count too."""

from __future__ import annotations

import numpy as np
import pytest

import pydp
from pydp.lang.barriers import widths
from pydp.lang.compile import FieldType, translate

pytestmark = pytest.mark.host

I1 = FieldType(np.dtype(np.int32), 1)


def reads_far_in_one_turn(idx, out):
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = i
    pydp.group_barrier()
    total = 0
    for k in range(5000):
        total += s[i ^ (8 if k == 2500 else 1)]
    pydp.group_barrier()
    s[i] = total
    out[idx] = s[i]


def writes_far_in_one_turn(idx, out):
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = i
    pydp.group_barrier()
    for k in range(5000):
        s[i ^ (8 if k == 2500 else 1)] = k
    pydp.group_barrier()
    out[idx] = s[i]


@pytest.mark.parametrize("fn", [reads_far_in_one_turn, writes_far_in_one_turn])
def test_the_barriers_around_a_long_loop_are_wide_enough(fn):
    found = widths.infer(translate(fn, 1, (16,), [I1]))
    assert [width.widest for width in found.values()] == [16, 16]
