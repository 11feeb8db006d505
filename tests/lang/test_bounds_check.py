"""Indexes outside local and private fields that depend on the numbers and extents of a launch."""

from __future__ import annotations

import numpy as np
import pytest

import pydp
from pydp.lang.ir.diagnostics import VectorError


def sums(idx, out, n):
    s = pydp.local_field(np.int32, 16)
    s[idx.local] = 1
    pydp.group_barrier()
    total = 0
    for k in range(n):
        total += s[k]
    out[idx] = total


def sums_an_extent(idx, out, n):
    s = pydp.local_field(np.int32, 16)
    s[idx.local] = n
    pydp.group_barrier()
    total = 0
    for k in range(out.extent(0) - 16):
        total += s[k]
    out[idx] = total


def neighbours(idx, out, n):
    s = pydp.local_field(np.int32, 16)
    s[idx.local] = idx.local[0]
    pydp.group_barrier()
    place = idx.local[0] + n - 16
    out[idx] = s[place] if place >= 0 else -1


def fills(idx, out, n):
    p = pydp.private_field(np.int32, 16)
    for k in range(n):
        p[k] = k
    out[idx] = p[n - 1]


WHERE = [{"device": "host"}, {"spec": {"mapping": "simt"}}, {}]


@pytest.mark.parametrize("where", WHERE, ids=["host", "simt", "default"])
def test_numbers_that_lead_outside_are_refused(device, where):
    for fn in (sums, neighbours, fills):
        out = np.zeros(32, np.int32)
        pydp.forall(32, fn, out, 16, group=16, **where)  # what passed says nothing of other numbers
        assert out.any()
        for n in (17, 30):
            with pytest.raises(VectorError, match=r"lane \[\d+\].* (reads s|writes p) at index \d+ .*0 to 15 there"):
                pydp.forall(32, fn, out, n, group=16, **where)


@pytest.mark.parametrize("where", WHERE, ids=["host", "simt", "default"])
def test_extents_that_lead_outside_are_refused(device, where):
    out = np.zeros(32, np.int32)
    pydp.forall(32, sums_an_extent, out, 2, group=16, **where)
    assert (out == 32).all()
    with pytest.raises(VectorError, match=r"reads s at index 16 of axis 0: this local_field has indexes 0 to 15 there"):
        pydp.forall(32, sums_an_extent, np.zeros(33, np.int32), 2, group=16, **where)
    pydp.forall(0, sums_an_extent, np.zeros(33, np.int32), 2, group=16, **where)


def looks_before_it_reads(idx, out, by):
    s = pydp.local_field(np.int32, 16)
    lane = idx.local[0]
    s[lane] = lane
    pydp.group_barrier()
    if lane >= by:
        out[idx] = pydp.where(lane - by < 16, s[lane - by], 0)
    for k in range(by, 40):
        if k >= 16:
            break
        out[idx] += s[k]


def test_lanes_that_look_before_they_read_are_right(device):
    for by in (0, 1, 5, 16, 100):
        out, lanes = np.zeros(16, np.int32), np.arange(16)
        pydp.forall(16, looks_before_it_reads, out, by, group=16)
        assert (out == np.where(lanes >= by, lanes - by, 0) + np.arange(by, 16).sum()).all()


@pytest.mark.parametrize("where", WHERE, ids=["host", "simt", "default"])
def test_what_is_left_before_it_leads_outside_is_accepted(device, where):
    def first(idx, x, out, n):
        p = pydp.private_field(np.int32, 16)
        for k in range(x.shape[0]):
            if k == n:
                break
            p[k] = x[k] + 1
        out[idx] = p[3]

    for size in (16, 100, 1000):
        out = np.zeros(4, np.int32)
        pydp.forall(4, first, np.arange(size, dtype=np.int32), out, np.int32(16), **where)
        assert (out == 4).all()


@pytest.mark.parametrize("where", WHERE, ids=["host", "simt", "default"])
def test_numbers_that_decide_whether_an_index_is_used_are_checked(device, where):
    def maybe(idx, out, n, on):
        p = pydp.private_field(np.int32, 16)
        p[3] = 7
        if on > 0:
            p[n] = 1
        out[idx] = p[3]

    out = np.zeros(4, np.int32)
    pydp.forall(4, maybe, out, np.int32(100), np.int32(0), **where)
    assert (out == 7).all()
    with pytest.raises(VectorError, match="100"):
        pydp.forall(4, maybe, out, np.int32(100), np.int32(1), **where)


def under_a_number(idx, out, n):
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = i
    pydp.group_barrier()
    if n > 16:
        s[i + 1] = 0
    out[idx] = i + n


def turns_left_by_a_number(idx, out, n):
    p = pydp.private_field(np.int32, 16)
    for k in range(32):
        if k >= n:
            break
        p[k] = k
    out[idx] = p[3] + n


def turns_under_a_number(idx, out, n):
    p = pydp.private_field(np.int32, 16)
    for k in range(32):
        if k < n:
            p[k] = k
    out[idx] = p[3] + n


def turns_while_a_number(idx, out, n):
    p = pydp.private_field(np.int32, 16)
    k = 0
    while k < n:
        p[k] = k
        k += 1
    out[idx] = p[3] + n


@pytest.mark.parametrize("where", WHERE, ids=["host", "simt", "default"])
@pytest.mark.parametrize("fn", [under_a_number, turns_left_by_a_number, turns_under_a_number, turns_while_a_number])
def test_conditions_on_numbers_that_lead_outside_are_refused(device, fn, where):
    out = np.zeros(32, np.int32)
    for _ in range(2):
        pydp.forall(32, fn, out, 16, group=16, **where)
        assert out.min() >= 16
        with pytest.raises(VectorError, match="at index 16 of axis 0"):
            pydp.forall(32, fn, out, 20, group=16, **where)


def by_the_grids_index(idx, x, out):
    s = pydp.local_field(np.int32, 16)
    s[idx[0]] = x[idx]
    pydp.group_barrier()
    out[idx] = s[15 - idx.local[0]]


def by_the_grids_index_alone(idx, x, out):
    s = pydp.local_field(np.int32, 16)
    s[idx[0]] = x[idx]
    out[idx] = s[idx[0]]


def by_the_group(idx, x, out):
    p = pydp.private_field(np.int32, 2)
    p[idx.group[0]] = x[idx]
    out[idx] = p[idx.group[0]]


def by_the_group_in_a_condition(idx, x, out):
    s = pydp.local_field(np.int32, 16)
    s[idx.local] = x[idx]
    pydp.group_barrier()
    i = idx.local[0]
    if idx.group[0] > 1:
        i += 1
    out[idx] = s[i]


def by_the_place_in_the_group(idx, x, out):
    s = pydp.local_field(np.int32, 16)
    s[idx[0] - 16 * idx.group[0]] = x[idx]
    pydp.group_barrier()
    out[idx] = s[idx[0] % 16]


@pytest.mark.parametrize("where", WHERE, ids=["host", "simt", "default"])
def test_places_in_the_grid_that_lead_outside_are_refused(device, where):
    for fn, most in ((by_the_grids_index, 16), (by_the_group, 32), (by_the_group_in_a_condition, 32)):
        for size in (most - 1, most + 1, most, 1000, most):
            x, out = np.full(size, 7, np.int32), np.zeros(size, np.int32)
            if size > most + 1 or (size > most and fn is not by_the_group_in_a_condition):
                with pytest.raises(VectorError, match="has indexes 0 to"):
                    pydp.forall(size, fn, x, out, group=16, **where)
            elif size == most:
                pydp.forall(size, fn, x, out, group=16, **where)
                assert (out == 7).all()
    with pytest.raises(VectorError, match="at index 16 of"):  # by a lane of the group that is not in the grid
        pydp.forall(7, by_the_grids_index_alone, np.zeros(7, np.int32), np.zeros(7, np.int32), group=32, **where)
    for size in (1, 16, 17, 1000):
        x, out = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
        pydp.forall(size, by_the_place_in_the_group, x, out, group=16, **where)
        assert (out == x).all()


def by_a_choice_of_all_lanes(idx, out, n):
    s = pydp.local_field(np.int32, 16)
    s[idx.local] = idx.local[0]
    pydp.group_barrier()
    out[idx] = s[n - 1 if idx.local[0] >= 0 else 0]


def by_the_first_of_two_conditions(idx, out, n):
    p = pydp.private_field(np.int32, 16)
    place = 0
    if idx.local[0] < 99 or out[idx] == 3:
        place = n - 1
    if idx.local[0] > 99 and out[idx] == 3:
        place = 0
    p[place] = 4
    out[idx] = p[place]


def by_the_choice_of_some_lanes(idx, out, n):
    s = pydp.local_field(np.int32, 16)
    s[idx.local] = idx.local[0]
    pydp.group_barrier()
    i = idx.local[0]
    out[idx] = s[i + n - 12 if i < 11 else i]


@pytest.mark.parametrize("fn", [by_a_choice_of_all_lanes, by_the_first_of_two_conditions, by_the_choice_of_some_lanes])
def test_conditions_with_one_outcome_in_all_lanes_are_decided(device, fn):
    for where in WHERE:
        out = np.zeros(32, np.int32)
        for n in (16, 15):
            pydp.forall(32, fn, out, n, group=16, **where)
        with pytest.raises(VectorError, match=r"(reads s|writes p) at index 1[67] of axis 0"):
            pydp.forall(32, fn, out, 18, group=16, **where)
