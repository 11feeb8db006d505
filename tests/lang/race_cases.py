"""Kernels that race on arrays, each with a line that ends in `# here`, and similar kernels without a race."""

from __future__ import annotations

import numpy as np

import pydp

WRONG: list[tuple] = []
RIGHT: list[tuple] = []
PAIR = np.dtype([("a", np.int32), ("b", np.int32)])


def wrong(says, grid, *args, group=None):
    """Decorator: the function is rejected when it runs over `grid` with `args` (shapes of arrays, or numbers)."""
    return lambda fn: WRONG.append((fn, says, grid, args, group)) or fn


def right(grid, *args, group=None):
    return lambda fn: RIGHT.append((fn, grid, args, group)) or fn


# --- lanes without a group


@wrong("lane [0] reads a[1] in line", 40, (40,))
def shifts_in_place(idx, a):
    a[idx] = a[idx[0] + 1] + 1  # here


@right(40, (40,), (40,))
def shifts_into_another(idx, out, a):
    out[idx] = a[idx[0] + 1] + 1


@right(40, (40,))
def changes_its_own(idx, a):
    a[idx] = a[idx] * 2 + a[idx[0]]


@wrong("writes o[0]", 40, (1,), (40,))
def different_values_into_one(idx, o, a):
    o[0] = a[idx]  # here


@right(40, (1,), (40,))
def one_value_into_one(idx, o, a):
    o[0] = a[3] + 7


@right(40, (1,), (40,))
def a_flag(idx, o, a):
    if a[idx] > 20:
        o[0] = 1


@right(40, (1,), (40,))
def one_lane_into_one(idx, o, a):
    if idx[0] == 5:
        o[0] = a[idx]


@wrong("lane [0] writes o[0] in line", 40, (20,), (40,))
def halves(idx, o, a):
    o[idx[0] // 2] = a[idx]  # here


@right(40, (20,), (40,))
def halves_by_even_lanes(idx, o, a):
    if idx[0] % 2 == 0:
        o[idx[0] // 2] = a[idx]


@wrong("reads a[0, 1]", (30, 30), (30, 30))
def transposes_in_place(idx, a):
    i, j = idx
    a[i, j] = a[j, i]  # here


@right((30, 30), (30, 30), (30, 30))
def transposes(idx, out, a):
    i, j = idx
    out[i, j] = a[j, i]


@right((30, 30), (30, 30))
def swaps_by_the_upper_half(idx, a):
    i, j = idx
    if i < j:
        x = a[i, j]
        a[i, j] = a[j, i]
        a[j, i] = x


@wrong("lanes run in no particular order", (20, 24), (20, 24))
def life_in_place(idx, world):
    n, m = world.extent
    count = 0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            count += world[(idx[0] + di + n) % n, (idx[1] + dj + m) % m]
    world[idx] = 1 if count == 3 else 0  # here


@right((20, 24), (20, 24), (20, 24))
def life(idx, out, world):
    n, m = world.extent
    count = 0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            count += world[(idx[0] + di + n) % n, (idx[1] + dj + m) % m]
    out[idx] = 1 if count == 3 else 0


@wrong("reads a[0]", 100_000, (100_000,))
def reverses_in_place(idx, a):
    a[a.extent[0] - 1 - idx[0]] = a[idx]  # here


@right(50_000, (100_000,))
def reverses_by_half_the_lanes(idx, a):
    x = a[idx]
    a[idx] = a[a.extent[0] - 1 - idx[0]]
    a[a.extent[0] - 1 - idx[0]] = x


@wrong("h[", 1000, (10,), (1000,))
def counts_without_atomics(idx, h, a):
    h[idx[0] % 10] += 1  # here


@right(1000, (10,), (1000,))
def counts_with_atomics(idx, h, a):
    pydp.atomic_add(h, idx[0] % 10, 1)


@wrong("updates h[0]", 1000, (10,), (1000,))
def looks_at_what_others_count(idx, h, a):
    pydp.atomic_add(h, idx[0] % 10, 1)
    a[idx] = h[idx[0] % 10]  # here


@wrong("lane [0] reads a[1] in line", 40, (40,))
def guarded_but_in_place(idx, a):
    if idx[0] + 1 < a.extent[0]:
        a[idx] = a[idx[0] + 1]  # here


@right(40, (40,))
def odd_lanes_read_even_ones(idx, a):
    if idx[0] % 2 == 1:
        a[idx] = a[idx[0] - 1]


@wrong("lane [0] reads a[20]", 40, (40,), 20)
def by_a_number_of_the_call(idx, a, step):
    a[idx] = a[idx[0] + step]  # here


@right(20, (40,), 20)
def by_a_number_that_leads_away(idx, a, step):
    a[idx] = a[idx[0] + step]


@wrong("writes o[1]", 40, (80,), (40,))
def in_turns_of_a_loop(idx, o, a):
    for k in range(2):
        o[idx[0] + k] = a[idx]  # here


@right(40, (80,), (40,))
def in_turns_that_stay_apart(idx, o, a):
    for k in range(2):
        o[idx[0] + 40 * k] = a[idx] + k


@right(40, (1,))
def the_last_turn_decides(idx, o):
    for k in range(3):
        o[0] = k


@wrong("writes r[0]", 40, PAIR)
def one_member_twice(idx, r):
    r[idx[0] // 2].a = idx[0]  # here


@right(40, PAIR)
def members_apart(idx, r):
    if idx[0] % 2 == 0:
        r[idx[0] // 2].a = r[idx[0] // 2].a + 1
    else:
        r[idx[0] // 2].b = 2


@right(40, (3,))
def what_does_not_exist_does_not_race(idx, o):
    o[idx[0] // 2 + 3] = idx[0]


@right(40, (40,), (40,))
def what_depends_on_data_is_left_alone(idx, o, a):
    o[a[idx]] = idx[0]


# --- lanes in groups


@wrong("there is no group_barrier() between them", 64, (64,), group=16)
def no_barrier(idx, a):
    base = idx.group[0] * 16
    a[idx] = idx.local[0] * 3
    a[idx] += a[base + (idx.local[0] + 1) % 16]  # here


@right(64, (64,), group=16)
def a_barrier_on_both_sides(idx, a):
    base = idx.group[0] * 16
    a[idx] = idx.local[0] * 3
    pydp.group_barrier()
    x = a[base + (idx.local[0] + 1) % 16]
    pydp.group_barrier()
    a[idx] += x


@wrong("lane [15] of group [0] reads it in line", 64, (64,), group=16)
def over_the_edge_of_a_group(idx, a):
    a[idx] = idx.local[0]
    pydp.group_barrier()
    x = a[idx[0] + 1]  # here
    pydp.group_barrier()
    a[idx] = x  # here


@right(64, (64,), group=16)
def pairs_within_a_group(idx, a):
    a[idx] = idx.local[0]
    pydp.group_barrier()
    x = a[idx[0] ^ 1]
    pydp.group_barrier()
    a[idx] = x


@wrong("no barrier holds between groups", 64, (4,), (64,), group=16)
def groups_meet_in_one(idx, o, a):
    if idx.local[0] == 0:
        o[0] = idx.group[0]  # here
    pydp.group_barrier()


@wrong("writes o[0]", 64, (4,), (64,), group=16)
def all_lanes_give_a_sum(idx, o, a):
    o[idx.group[0]] = a[idx] * 2  # here


@right(64, (4,), (64,), group=16)
def one_lane_gives_a_sum(idx, o, a):
    s = pydp.local_field(np.int32, 16)
    s[idx.local[0]] = a[idx]
    pydp.group_barrier()
    total = 0
    for k in range(16):
        total += s[k]
    if idx.local[0] == 0:
        o[idx.group[0]] = total


@right(64, (4,), (64,), group=16)
def all_lanes_give_one_sum(idx, o, a):
    s = pydp.local_field(np.int32, 16)
    s[idx.local[0]] = a[idx]
    pydp.group_barrier()
    total = 0
    for k in range(16):
        total += s[k]
    o[idx.group[0]] = total


@right(64, (64,), (64,), group=16)
def prefix_in_a_group(idx, o, a):
    o[idx] = a[idx]
    pydp.group_barrier()
    step = 1
    while step < 16:
        x = o[idx]
        if idx.local[0] >= step:
            x += o[idx[0] - step]
        pydp.group_barrier()
        o[idx] = x
        pydp.group_barrier()
        step *= 2


@wrong("there is no group_barrier() between them", 64, (64,), (64,), group=16)
def prefix_without_its_second_barrier(idx, o, a):
    o[idx] = a[idx]
    pydp.group_barrier()
    step = 1
    while step < 16:
        x = o[idx]
        if idx.local[0] >= step:
            x += o[idx[0] - step]  # here
        o[idx] = x  # here
        pydp.group_barrier()
        step *= 2


@right(61, (61,), (64,), group=16)
def partial_groups(idx, o, a):
    s = pydp.local_field(np.int32, 16)
    s[idx.local[0]] = a[idx]
    pydp.group_barrier()
    o[idx] = s[15 - idx.local[0]]


@right(64, (64,), (64,), group=16)
def different_branches_of_one_condition(idx, o, a):
    if a[idx.group[0]] > 3:
        o[idx] = 1
        pydp.group_barrier()
    else:
        o[idx[0] ^ 16] = 2
        pydp.group_barrier()


@right(64, (64,), (64,), group=16)
def loops_as_long_as_the_group_says(idx, o, a):
    k = 0
    for _ in range(8 + idx.group[0]):
        k += 1
        pydp.group_barrier()
    o[(k - 8) * 16 + idx.local[0]] = a[idx]


@right(64, (4,), (64,), group=16)
def what_the_other_branch_gives_a_variable(idx, o, a):
    v = a[idx.group[0]]
    if a[idx.group[0]] > 1:
        v = a[idx]
        pydp.group_barrier()
    else:
        o[idx.group[0]] = v
        pydp.group_barrier()


@wrong("no barrier holds between groups", 640, (640,), (64,), group=16)
def loops_that_end_alike(idx, o, a):
    k = 0
    for _ in range(8 + idx.group[0] // 2):
        k += 1
        pydp.group_barrier()
    o[(k - 8) * 16 + idx.local[0]] = idx.group[0]  # here


NOTHING = float("nan")


@right(20, np.dtype(np.float32))
def all_write_nan(idx, o):
    o[0] = NOTHING


@wrong("writes o[0]", 20, np.dtype(np.float32))
def some_write_nan(idx, o):
    o[0] = NOTHING if idx[0] < 3 else 1.0  # here
