"""Blocks at the edges of the grid and of arrays in the lowering for CPUs: lane by lane, with the bits of the others."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from lowering_cases import device_and_host, lowering_for, unit

import pydp.lang.vector as pv
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.opencl import vector as vector_lowering
from pydp.lang.opencl.vector.layout import pick_rows

F32 = np.dtype(np.float32)
BY_LANE = "int at = 0"  # the head of the loop over the lanes of a block


@pytest.fixture
def lower(device):
    return lowering_for(device)


def shifted(idx, out, a, n):
    out[idx] = a[idx[0] - 3] + 2.0 * a[idx[0] + n]


def cross(idx, out, a):
    i, j = idx
    out[idx] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


def solid(idx, out, a):
    i, j, k = idx
    out[idx] = a[i - 1, j, k] - a[i, j + 1, k] + a[i, j, k + 1] * a[i + 1, j - 1, k - 1]


def transposed(idx, out, a):
    i, j = idx
    out[i, j] = a[j, i] + a[j + 1, 2]


def looked_up(idx, out, a, at):
    out[idx] = a[at[idx[0]]] + a[at[2]] + a[5]


def rows_from_memory(idx, out, a, at):
    i, j = idx
    row = at[i] - 1
    out[idx] = a[row, j + 1] - a[at[i + 1], j]


def by_linear_number(idx, out, a):
    element = 16 * idx.local[0] + idx.local[1]
    out[idx] = a[element // 16, element % 16] + a[idx[0], idx[1] - idx.local[1]]


def conditional(idx, out, a, n):
    if n > 3:
        out[idx] = a[idx[0] + 1]
    elif idx[0] % 3 == 1:
        out[idx] = -a[idx[0] - 1]


def carried(idx, out, a):
    s = pv.local_field(np.float32, 4, 18)
    i, j = idx.local
    s[i, j] = a[idx]
    row = idx[0] + 1
    pv.group_barrier()
    near = s[i, (j + 1) % 18]
    positive = s[i, j] > 0.0
    small = np.int8(s[i, j])
    pv.group_barrier()
    out[idx] = near + a[row, idx[1]] + small + 2.0 * positive


def check(device, lower, fn, shapes, extent, *, numbers=(), group=None, index=np.int32, offset=None) -> Any:
    """Run on the device and on the host; the lowered kernel. shapes: of the output, of `a`, and of arrays of int32."""
    rng = np.random.default_rng(7)
    arrays = [np.full(shapes[0], -99, F32), rng.integers(-50, 50, shapes[1]).astype(F32)]
    arrays += [rng.integers(-9, 50, shape, np.int32) for shape in shapes[2:]]
    types = [FieldType(array.dtype, array.ndim) for array in arrays]
    types += [NumberType(np.dtype(np.int32), False)] * len(numbers)
    made = translate(fn, len(extent), group, types, index)
    lowered = lower(made, unit_strides=unit(made))
    device_and_host(device, lowered, made, arrays, extent, offset, parameters=dict(enumerate(numbers, len(shapes))))
    return lowered


def body(lowered) -> str:
    return str(lowered.params["body"])


@pytest.mark.oclgrind
@pytest.mark.parametrize("size", [1, 15, 16, 17, 40])
def test_one_axis(device, lower, size):
    assert BY_LANE in body(check(device, lower, shifted, [(size,), (size,)], (size,), numbers=(5,)))


def test_one_axis_at_the_ends_of_groups(device, lower):
    for size in (2047, 2048, 2049, 4100):
        for number in (-5000, -1, 0, 5000):
            check(device, lower, shifted, [(size,), (size + 3,)], (size,), numbers=(number,))


@pytest.mark.oclgrind
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (9, 16)])
def test_shared_rows(device, lower, shape):
    lowered = check(device, lower, cross, [shape, shape], shape)
    text = body(lowered)
    assert BY_LANE in text
    inside = text[text.index(BY_LANE) :]
    assert "a1_a_e0" not in inside and "a1_a_s0" not in inside, "rows are computed before the loop"


def test_shared_rows_of_every_width(device, lower):
    for shape in [*product((1, 2, 8, 9), (7, 16, 31, 33)), (17, 300), (3, 257)]:
        check(device, lower, cross, [shape, shape], shape)
        check(device, lower, transposed, [shape, (shape[1], shape[0])], shape)
    for extents in product((1, 5), (3, 9), (15, 16, 19)):
        check(device, lower, solid, [extents, extents], extents)


def stepped_up(idx, out, a, n):
    out[idx] = a[2 * idx[0] + n] - a[3 * idx[0] - n]


def stepped_down(idx, out, a, n):
    out[idx] = a[n - idx[0]] - a[n + 40 - 3 * idx[0]]


def divided_index(idx, out, a, n):
    out[idx] = a[(idx[0] + n) // 3] - a[idx[0]]


def by_factor(idx, out, a, n):
    out[idx] = a[n * idx[0]] + a[idx.local[0] + n]


def loop_around(idx, out, a, n):
    total = 0.0
    for k in range(3):
        total += a[idx[0] + k - n]
    out[idx] = total


def one_of_two(idx, out, a, n):
    out[idx] = a[min(idx[0] + n, 30)] + a[max(idx[0] - n, 5)]


@pytest.mark.parametrize("fn", [stepped_up, stepped_down, divided_index, by_factor, loop_around, one_of_two])
def test_indexes_that_move_by_other_steps(device, lower, fn):
    """The limits of the fast path's loop are exact: every length near a strip's and a group's ends."""
    for size in (15, 16, 47, 48, 64, 200):
        for number in (-33, -2, 0, 1, 2, 17, 100):
            for extent in (size, 2 * size + 1, 3 * size + 50):
                check(device, lower, fn, [(size,), (extent,)], (size,), numbers=(number,), group=(64,))


def loop_of_the_fast_path(text):
    return re.search(r"for \(; (local_\d) >= (\w+) && \1 < (\w+); ", text)


def test_blocks_inside_have_a_loop_of_their_own(device, lower):
    """Without a test of their own: the limits are computed before the loop over the strips of a row."""
    text = body(check(device, lower, cross, [(20, 200), (20, 200)], (20, 200)))
    found = loop_of_the_fast_path(text)
    assert found is not None and found[1] == "local_1"
    before = text[: text.index("for (int local_1 = 0")]
    assert f"{found[2]} = " in before and f"{found[3]} = " in before
    fast = text[found.end() : text.index("if (local_1 >= count_1) break;")]
    assert "if (" not in fast


def row_across_a_barrier(idx, out, a, rows):
    s = pv.local_field(np.float32, 4, 18)
    i, j = idx.local
    s[i, j] = a[idx]
    row = rows[idx[0]] - 1
    pv.group_barrier()
    out[idx] = s[i, 17 - j] + a[row, idx[1]]


def test_blocks_are_tested_one_by_one_if_variables_are_indexes(device, lower):
    """Variables that live across barriers have a value for each block, so the limits are not known before the loop."""
    text = body(check(device, lower, row_across_a_barrier, [(9, 37), (9, 37), (9,)], (9, 37), group=(4, 18)))
    first, last = text.split("int block = 0;")[1:]
    assert loop_of_the_fast_path(first) is not None and loop_of_the_fast_path(last) is None


def test_arrays_of_other_sizes_than_the_grid(device, lower):
    for shape in ((4, 20), (9, 33), (1, 50)):
        check(device, lower, cross, [shape, shape], (9, 40))
        check(device, lower, cross, [shape, shape], (6, 30), offset=(-2, -7))
        check(device, lower, cross, [(12, 50), shape], (9, 40))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_wide_indexes(device, lower, index):
    check(device, lower, cross, [(9, 37), (9, 37)], (9, 37), index=index)
    check(device, lower, shifted, [(37,), (40,)], (37,), numbers=(2,), index=index)


def test_indexes_from_memory(device, lower):
    for size in (5, 16, 37):
        check(device, lower, looked_up, [(size,), (size,), (size,)], (size,))


def test_rows_from_memory(device, lower):
    for shape in ((3, 19), (9, 40)):
        check(device, lower, rows_from_memory, [shape, shape, shape[:1]], shape)


def test_indexes_whose_moving_parts_cancel(device, lower):
    """They are uniform, but their parts are not, and so are not known before the loop over the lanes."""
    check(device, lower, by_linear_number, [(8, 16), (8, 16)], (8, 16), group=(8, 16))
    check(device, lower, by_linear_number, [(7, 30), (7, 30)], (7, 30), group=(8, 16))


def test_conditions(device, lower):
    for number in (2, 5):
        check(device, lower, conditional, [(37,), (37,)], (37,), numbers=(number,))


@pytest.mark.oclgrind
@pytest.mark.parametrize("shape", [(3, 19), (9, 43)])
def test_values_that_cross_barriers(device, lower, shape):
    larger = (shape[0] + 3, shape[1] + 5)
    for shapes in ([shape, shape], [larger, larger]):
        assert BY_LANE in body(check(device, lower, carried, shapes, shape, group=(4, 18)))


def test_rows_side_by_side(device, lower, monkeypatch):
    def rows(nodes, layout, profile):
        return replace(layout, rows=pick_rows(layout.row_extent, 4))

    monkeypatch.setattr(vector_lowering, "pick_layout_rows", rows)
    for extent in ((3, 19), (9, 43)):
        for shape in (extent, (extent[0] + 3, extent[1] + 5)):
            assert BY_LANE in body(check(device, lower, carried, [shape, shape], extent, group=(4, 18)))
            check(device, lower, cross, [shape, shape], extent)
            check(device, lower, transposed, [shape, (shape[1], shape[0])], extent)


def counted(idx, out, a):
    s = pv.local_field(np.float32, 2, 16)
    i, j = idx.local
    s[i, j] = a[idx]
    n = 0
    m = 1
    for _ in range(3):
        pv.group_barrier()
        n = 2 * n + idx[0] - i + m
        m = n + 1
        pv.group_barrier()
        s[i, j] = s[i, j] + n
    out[idx] = s[i, j]


@pytest.mark.parametrize("rows", [1, 2])
def test_intervals_that_only_assign_uniform_variables(device, lower, rows):
    check(device, lower, counted, [(9, 40), (9, 40)], (9, 40), group=(rows, 16))


def stepped(idx, out, a):
    s = pv.local_field(np.float32, 64)
    s[idx.local[0]] = a[idx]
    n = 1
    while n < 40:
        pv.group_barrier()
        n = 3 * n
    pv.group_barrier()
    out[idx] = s[(idx.local[0] + n) % 64]


def test_an_interval_of_uniform_assignments_has_no_loop(device, lower):
    text = body(check(device, lower, stepped, [(200,), (200,)], (200,), group=(64,)))
    assert len(re.findall(r"local_0 = 0;", text)) == 2, "one loop for the first interval, one for the last"


def skipping(idx, out, a, n):
    s = pv.local_field(np.float32, 4, 18)
    i, j = idx.local
    s[i, j] = -1.0
    pv.group_barrier()
    for k in range(3):
        if a[idx] < k or j + n >= 18 or j + n < 0:
            continue
        s[i, j + n] = s[i, j + n] + 1.0
    pv.group_barrier()
    out[idx] = s[i, 17 - j]


@pytest.mark.parametrize("number", [0, 17, -18, 10**6, 2**31 - 1, -(2**31)])
def test_masked_stores_to_local_fields(device, lower, number):
    lowered = check(device, lower, skipping, [(9, 37), (9, 37)], (9, 37), numbers=(number,), group=(4, 18))
    assert "strip_store" not in str(lowered.params["accesses"]), "vectors are blended"


def divided(idx, out, a):
    out[idx] = a[idx[0] + 1] / 3.0


def exponential(idx, out, a):
    out[idx] = np.exp(a[idx[0] + 1])


def long_work(idx, out, a):
    x = a[idx[0] + 1]
    for _ in range(9):
        x = x * x + 1.0
    out[idx] = x


def long_expression(idx, out, a):
    x = a[idx[0] + 1]
    out[idx] = x * x * x * x * x * x * x * x * x + x * x * x * x * x * x * x * x * x * x * x * x


@pytest.mark.parametrize("fn", [divided, exponential, long_work, long_expression])
def test_vectors_where_bits_or_speed_would_differ(lower, fn):
    made = translate(fn, 1, None, [FieldType(F32, 1), FieldType(F32, 1)])
    assert BY_LANE not in body(lower(made, unit_strides=unit(made)))


def below_zero(idx, out, a):
    out[idx] = a[max(np.uint32(idx[0]) - np.uint32(1), np.uint32(0))]


def stored_below_zero(idx, out, a):
    out[max(np.uint32(idx[0]) - np.uint32(1), np.uint32(0))] = a[idx]


def far_product(idx, out, a):
    out[idx] = a[min(np.int32(idx[0]) * np.int32(100000000), np.int32(7))]


def half_of_a_sum(idx, out, a):
    out[idx] = a[(np.int32(idx[0]) + np.int32(2147483647)) // np.int32(2) - np.int32(1073741824) + np.int32(5)]


def long_loop(idx, out, a):
    total = 0.0
    for k in range(np.uint32(idx[0]) // np.uint32(64)):
        total += a[k]
    out[idx] = total


@pytest.mark.parametrize("fn", [below_zero, stored_below_zero, far_product, half_of_a_sum, long_loop])
def test_operands_that_wrap(device, lower, fn):
    """An integer that wraps before it is compared or divided: its bounds say nothing about the result."""
    for size in (40, 64, 200):
        check(device, lower, fn, [(size,), (size,)], (size,), group=(64,))


def scaled_number(idx, out, a, s):
    out[idx] = a[3 * idx[0] + s] + a[(np.int64(idx[0]) * 4 + s) // 4] + a[min(idx[0] + s, 9)]


def stored_far(idx, out, a, s):
    out[idx[0] + s] = a[idx] + a[s - 3 * idx[0]]


@pytest.mark.parametrize("fn", [scaled_number, stored_far])
@pytest.mark.parametrize("number", [-(2**63), -(2**63) + 3, 2**63 - 1, 2**62, -(2**62), 2**48, 2**40, 0, 5])
def test_numbers_near_the_ends_of_64_bits(device, lower, fn, number):
    """Bounds are computed without overflow; numbers beyond 2**48 are tested before."""
    arrays = [np.full(200, -99, F32), np.arange(200, dtype=F32)]
    types = [FieldType(F32, 1), FieldType(F32, 1), NumberType(np.dtype(np.int64), False)]
    made = translate(fn, 1, (64,), types, np.int64)
    device_and_host(device, lower(made, unit_strides=unit(made)), made, arrays, (200,), None, parameters={2: number})


def remainder_of_any(idx, out, a, s):
    out[idx] = a[(idx[0] * s // 8) % 16] + a[(idx[0] * s) & 7]


def test_operands_without_influence_add_no_test(device, lower):
    types = [FieldType(F32, 1), FieldType(F32, 1), NumberType(np.dtype(np.int64), False)]
    made = translate(remainder_of_any, 1, (64,), types, np.int64)
    text = body(lower(made, unit_strides=unit(made)))
    tests = [line for line in text.splitlines() if "max(0L" in line]
    assert tests and not any("p0_s" in line for line in tests)
