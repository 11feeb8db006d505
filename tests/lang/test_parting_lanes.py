"""Lanes that diverge in conditions and loops, and their indexes: small kernels in both mappings, against Python."""

from __future__ import annotations

import numpy as np
import pytest

import pydp

N = 40


@pytest.fixture(params=["host", "simt", "vector"])
def run(request, device):
    """forall over N lanes in one of the ways that the device has."""
    refused = request.param == "vector" and device.profile.loop_limit is not None
    way = {"device": "host"} if request.param == "host" else {} if refused else {"spec": {"mapping": request.param}}
    return lambda fn, *args, **more: pydp.forall((N,), fn, *args, **way, **more)


def leaves_from_within(idx, out, x):
    total = 0
    for k in range(6):
        if x[idx] > 2:
            if x[idx] + k > 7:
                break
            total += 1
            if x[idx] + k > 5:
                continue
            total += 10
        total += 100
    out[idx] = total


def plain(x):
    total = 0
    for k in range(6):
        if x > 2:
            if x + k > 7:
                break
            total += 1
            if x + k > 5:
                continue
            total += 10
        total += 100
    return total


def test_lanes_that_left_run_nothing_more_of_their_branch(run):
    x, out = np.random.default_rng(1).integers(0, 9, N).astype(np.int32), np.zeros(N, np.int32)
    run(leaves_from_within, out, x)
    np.testing.assert_array_equal(out, [plain(int(one)) for one in x])


def leaves_a_short_loop(idx, out, x):
    p = pydp.private_field(np.int32, 4)
    for k in range(4):
        p[k] = x[idx] * k
    total = 0
    for k in range(4):
        if p[k] > 6:
            break
        total += p[k]
    out[idx] = total


def test_short_loops_over_private_fields_may_be_left(run):
    x, out = np.random.default_rng(2).integers(0, 9, N).astype(np.int32), np.zeros(N, np.int32)
    run(leaves_a_short_loop, out, x)
    want = [sum(x * k for k in range(4) if not any(x * j > 6 for j in range(k + 1))) for x in map(int, x)]
    np.testing.assert_array_equal(out, want)


def counts_down(idx, out, x):
    total = 0
    for k in range(3, -5, -1):
        total += x[idx[0] + k]
    out[idx] = total


def steps_behind_its_barrier(idx, out, x, last):
    s = pydp.local_field(np.int32, 8)
    j = last
    s[idx.local[0]] = j
    pydp.group_barrier()
    j = j + 1
    out[idx] = x[j] + s[7 - idx.local[0]]


def test_nothing_is_read_beside_the_array(run):
    whole, out = np.arange(1, 2 * N + 1, dtype=np.int32), np.zeros(N, np.int32)
    x = whole[N // 2 : -N // 2]
    run(counts_down, out, x)
    place = np.arange(N)[:, None] + np.arange(3, -5, -1)
    inside = (place >= 0) & (place < N)
    np.testing.assert_array_equal(out, np.where(inside, x[place.clip(0, N - 1)], 0).sum(1))
    run(steps_behind_its_barrier, out, x, N - 1, group=8)
    np.testing.assert_array_equal(out, np.full(N, N - 1))


def wraps(idx, out, x, y):
    out[idx] = 1 if x[idx] + y[idx] < x[idx] else 0


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_sums_of_narrow_numbers_wrap_before_they_are_compared(run, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, np.iinfo(dtype).max, N, endpoint=True).astype(dtype) for _ in range(2))
    out = np.zeros(N, np.int32)
    run(wraps, out, x, y)
    np.testing.assert_array_equal(out, x + y < x)


def one_flag(idx, out, x):
    out[0] = x[min(idx[0], 0)] > 0


def test_a_boolean_that_all_lanes_write_is_one(run):
    out = np.zeros(1, np.bool_)
    run(one_flag, out, np.ones(N, np.int32))
    assert out.view(np.uint8)[0] == 1


def quotients(idx, down, rest, x, y):
    down[idx] = x[idx] // y[idx]
    rest[idx] = x[idx] % y[idx]


def test_zeros_have_the_sign_that_numpy_gives_them(run):
    values = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.5], np.float32)
    pairs = np.array([(a, b) for a in values for b in values if b], np.float32)[:N]
    x, y = pairs.T.copy()
    down, rest = np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
    run(quotients, down, rest, x, y)
    for got, want in ((down, x // y), (rest, x % y)):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def first_or_after_a_positive(idx, out, x):
    if idx[0] == 0 or x[idx[0] - 1] > 0:
        out[idx] = 1


@pytest.mark.host
def test_checked_mode_reads_the_second_operand_of_or_where_the_first_is_false():
    x, out = np.arange(N, dtype=np.int32) % 3, np.zeros(N, np.int32)
    with pydp.checked():
        pydp.forall((N,), first_or_after_a_positive, out, x)
    np.testing.assert_array_equal(out, np.r_[1, x[:-1] > 0])


def section_of_section(idx, out, x):
    out[idx] = pydp.section(pydp.section(x, 2, 5), 3, 4)[idx[0] % 4]


def row_of_section(idx, out, x):
    out[idx] = pydp.project(pydp.section(x, (1, 0), (2, 4)), 0, idx[0] // 4 % 4)[idx[0] % 4]


def test_sections_end_where_those_around_them_do(run):
    x, out = np.arange(1, N + 1, dtype=np.int32), np.zeros(N, np.int32)
    run(section_of_section, out, x)
    np.testing.assert_array_equal(out, np.tile([x[5], x[6], 0, 0], N // 4))
    rows = np.arange(1, 29, dtype=np.int32).reshape(7, 4)
    run(row_of_section, out, rows)
    np.testing.assert_array_equal(out[:16].reshape(4, 4), np.vstack([rows[1:3], np.zeros((2, 4), np.int32)]))


def shifted(idx, left, right, x):
    left[idx] = x[idx] << 32
    right[idx] = x[idx] >> 32


def test_shifts_by_the_width_leave_nothing(run):
    x = np.arange(-N // 2, N // 2, dtype=np.int32)
    left, right = np.ones(N, np.int32), np.ones(N, np.int32)
    run(shifted, left, right, x)
    np.testing.assert_array_equal(left, 0)
    np.testing.assert_array_equal(right, np.where(x < 0, -1, 0))


def meets_as_told(idx, out, x):
    s = pydp.local_field(np.int32, 8)
    i = idx.local[0]
    width = 3
    if x[0] > 5:
        width = 4
    if x[0] <= 5:
        width = 8
    s[i] = x[idx]
    pydp.group_barrier(width)
    out[idx] = s[i ^ 1]


def test_widths_that_data_decides_are_not_taken_for_earlier_ones(run):
    x, out = np.arange(N, dtype=np.int32), np.zeros(N, np.int32)
    run(meets_as_told, out, x, group=8)
    np.testing.assert_array_equal(out, x ^ 1)


PAIR = np.dtype([("a", np.int32), ("b", np.int32)])


def unlike(idx, out, x, y):
    out[idx] = (1 if x[idx] != y[idx] else 0) + (2 if x[idx] == y[idx] else 0)


def test_records_that_differ(run):
    rng = np.random.default_rng(7)
    x, y = (rng.integers(0, 2, (N, 2)).astype(np.int32).view(PAIR)[:, 0] for _ in range(2))
    out = np.zeros(N, np.int32)
    run(unlike, out, x, y)
    np.testing.assert_array_equal(out, np.where(x != y, 1, 2))


def meets_in_the_inner_branches(idx, out, x):
    s = pydp.local_field(np.int32, 8)
    i = idx.local[0]
    s[i] = x[idx]
    if i < 4:
        if i < 2:
            s[i] = s[i] + 1
            pydp.group_barrier(8)
            s[i] = s[i] * 2
        else:
            s[i] = s[i] + 100
            pydp.group_barrier(8)
            s[i] = s[i] * 3
    pydp.group_barrier()
    out[idx] = s[i]


def test_the_other_branch_is_for_lanes_that_came_to_its_condition(run):
    x, out, place = np.arange(N, dtype=np.int32), np.zeros(N, np.int32), np.arange(N) % 8
    run(meets_in_the_inner_branches, out, x, group=8)
    np.testing.assert_array_equal(out, np.select([place < 2, place < 4], [(x + 1) * 2, (x + 100) * 3], x))


def counts_rounds(idx, out, stop, step, steps):
    rounds = 0
    for _ in range(0, stop, step):
        rounds += 1
    for _ in range(idx[0], stop, steps[idx]):
        rounds += 100
    out[idx] = rounds


def test_a_step_of_0_has_no_rounds_whether_a_launch_or_data_give_it(run):
    steps, out = np.array([0, -1, 0, 2] * (N // 4), np.int32), np.zeros(N, np.int32)
    for stop in (9, -9):
        run(counts_rounds, out, stop, 0, steps)
        rounds = [100 * len(range(i, stop, step)) if step else 0 for i, step in enumerate(steps.tolist())]
        np.testing.assert_array_equal(out, rounds)
