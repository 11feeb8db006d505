"""Inferred widths of barriers that `break` or `continue` may skip."""

from __future__ import annotations

import numpy as np
import pytest
from shown_widths import I1, shown

import pydp

pytestmark = pytest.mark.host


def left_by_data(idx, out, u):
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    for k in range(2):
        s[i] = k
        pydp.group_barrier()
        if u[0] > 0:
            break
        pydp.group_barrier()
    out[idx] = s[63 - i]


def by_data(u):
    return u[0] > 0


def by_an_extent(u):
    return u.extent[0] > 3


def gone_on(goes_on):
    def gone_on_where(idx, out, u):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        v = 0
        for k in range(2):
            if k == 0:
                s[i] = i
            else:
                v = s[63 - i]
            pydp.group_barrier()
            if goes_on(u):
                continue
            pydp.group_barrier()
        out[idx] = v

    return gone_on_where


def gone_on_or_left(idx, out, u):
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    v = 0
    for k in range(3):
        if k == 0:
            s[i] = i
        else:
            v = s[63 - i]
        pydp.group_barrier()
        if u[0] > 0:
            continue
        pydp.group_barrier()
        if u[1] > 0:
            break
        pydp.group_barrier()
    out[idx] = v


def gone_on_in_a_loop_of_unknown_length(idx, out, u):
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    v, k = 0, 0
    while k < u[2]:
        k += 1
        if k == 1:
            s[i] = i
        else:
            v = s[63 - i]
        pydp.group_barrier()
        if u[0] > 0:
            continue
        pydp.group_barrier()
    out[idx] = v


@pytest.mark.parametrize(
    "fn",
    [left_by_data, gone_on(by_data), gone_on(by_an_extent), gone_on_or_left, gone_on_in_a_loop_of_unknown_length],
    ids=["left", "gone on by data", "gone on by an extent", "gone on or left", "loop of unknown length"],
)
def test_barriers_skipped_by_break_or_continue_satisfy_nothing(fn):
    """Only the first barrier is always executed between the writes and the reads."""
    assert shown(fn, [I1, I1], (64,))[0] == "64"


def test_lanes_that_leave_a_loop_inside_a_divergent_condition_keep_their_values():
    def left(idx, out, u):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        s[i] = 0
        pydp.group_barrier()
        if u[idx] > 5:
            at = i ^ 32
            for k in range(2):
                if u[idx] > k + 6:
                    break
                at = i
            s[at] = i
        pydp.group_barrier()
        out[idx] = s[i]

    assert shown(left, [I1, I1], (64,)) == ["64", "64"]
