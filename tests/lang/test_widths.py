"""Inferred widths of barriers, compared with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from builder import add, barrier, c, div, function, load, local, mod, mul, op, shared, store, sub, var
from shown_widths import I1, shown

import pydp
from pydp.lang import ir
from pydp.lang.barriers import widths
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host

N = NumberType(np.dtype(np.int32), True)


def xor(left, right):
    return op("xor", left, right)


L = local(0)
EXCHANGES = [
    # write s[...], barrier, read s[...], of 64 lanes
    ("own slot", L, L, 1),
    ("neighbour in a pair", L, xor(L, 1), 2),
    ("two apart", L, xor(L, 2), 4),
    ("three apart", L, xor(L, 3), 4),
    ("four apart", L, xor(L, 4), 8),
    ("mirror of 8", L, xor(L, 7), 8),
    ("eight apart", L, xor(L, 8), 16),
    ("mirror of 16", L, xor(L, 15), 16),
    ("sixteen apart", L, xor(L, 16), 32),
    ("mirror of 32", L, xor(L, 31), 32),
    ("half a group apart", L, xor(L, 32), 64),
    ("mirror of the group", L, sub(63, L), 64),
    ("next", L, mod(add(L, 1), 64), 64),
    ("first of a pair", L, mul(div(L, 2), 2), 2),
    ("first of four", L, mul(div(L, 4), 4), 4),
    ("first of eight", L, mul(div(L, 8), 8), 8),
    ("first of a subgroup", L, mul(div(L, 32), 32), 32),
    ("first of the group", L, c(0), 64),
    ("last of a subgroup", L, op("or", L, 31), 32),
    ("next in a subgroup", L, add(mul(div(L, 32), 32), mod(add(L, 1), 32)), 32),
    ("next in four", L, add(mul(div(L, 4), 4), mod(add(L, 1), 4)), 4),
    ("the other of a pair, by arithmetic", L, sub(add(mul(div(L, 2), 4), 1), L), 2),
    ("everybody writes s[tid % 32] and reads its neighbour", mod(L, 32), mod(add(L, 1), 32), 32),
    ("everybody writes s[tid % 32] and reads the mirror", mod(L, 32), sub(31, mod(L, 32)), 32),
    ("everybody writes s[tid % 8] and reads the neighbour", mod(L, 8), mod(add(L, 1), 8), 8),
    ("everybody writes s[tid % 32] and reads it", mod(L, 32), mod(L, 32), 1),
    ("one row each", mul(L, 2), mul(L, 2), 1),
    ("bits reversed in four", L, add(mul(div(L, 4), 4), add(mul(mod(L, 2), 2), mod(div(L, 2), 2))), 4),
    ("transposed 8 by 8", L, add(mul(mod(L, 8), 8), div(L, 8)), 64),
    ("transposed 2 by 2", L, add(mul(div(L, 4), 4), add(mul(mod(L, 2), 2), div(mod(L, 4), 2))), 4),
    ("nobody reads", L, c(127), 1),
]


@pytest.mark.parametrize(("write", "read", "width"), [e[1:] for e in EXCHANGES], ids=[e[0] for e in EXCHANGES])
def test_one_exchange(write, read, width):
    slots = shared("s", 128)
    assign = ir.Assign(ir.NOWHERE, var("v"), load(slots, read))
    made = function([store(slots, [write], 1), barrier(3), assign], group=(64,), locals=[slots])
    assert widths.infer(made) == {3: widths.Width((width,))}


@pytest.mark.parametrize(("write", "read", "width"), [e[1:] for e in EXCHANGES], ids=[e[0] for e in EXCHANGES])
def test_the_next_narrower_width_is_rejected(write, read, width):
    """The width that an exchange needs is accepted, and every wider one; the next narrower one lets lanes race."""
    slots = shared("s", 128)
    assign = ir.Assign(ir.NOWHERE, var("v"), load(slots, read))
    for given in (1, 2, 4, 8, 16, 32, 64):
        body = [store(slots, [write], 1), barrier(0, width=c(given)), assign]
        made = function(body, group=(64,), locals=[slots])
        if given >= width:
            widths.check_given(made)
        else:
            with pytest.raises(VectorError, match=rf"width {given} is too narrow: lane .* writes s .* lane .* reads"):
                widths.check_given(made)


def test_a_reduction_of_eight_by_four_lanes():
    def total(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        i = idx.local[0]
        s[i] = x[i]
        s[i + 4] = x[i + 4]
        pydp.group_barrier()
        step = 4
        while step > 0:
            if i < step:
                s[i] = s[i] + s[i + step]
            pydp.group_barrier()
            step //= 2
        if i == 0:
            out[0] = s[0]

    assert shown(total, [I1, I1], (4,)) == ["none", "4, 2, none"]


def test_a_reduction_of_sixteen_by_sixteen_lanes():
    def total(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[i]
        pydp.group_barrier()
        for k in range(4):
            step = 8 >> k
            if i < step:
                s[i] = s[i] + s[i + step]
            pydp.group_barrier()
        if i == 0:
            out[0] = s[0]

    assert shown(total, [I1, I1], (16,)) == ["16", "8, 4, 2, none"]


def test_a_reduction_upwards_widens():
    def total(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[i]
        step = 1
        while step < 16:
            pydp.group_barrier()
            if i % (2 * step) == 0:
                s[i] = s[i] + s[i + step]
            step *= 2
        if i == 0:
            out[0] = s[0]

    assert shown(total, [I1, I1], (16,)) == ["2, 4, 8, 16"]


def test_butterfly_exchanges_double():
    def butterfly(idx, out, x):
        s = pydp.local_field(np.int32, 2, 16)
        i = idx.local[0]
        value = x[i]
        for k in range(4):
            s[k % 2, i] = value
            pydp.group_barrier()
            value += s[k % 2, i ^ (1 << k)]
        out[i] = value

    assert shown(butterfly, [I1, I1], (16,)) == ["2, 4, 8, 16"]


def test_an_inclusive_scan_needs_the_whole_group():
    def scan(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[i]
        pydp.group_barrier()
        for k in range(4):
            left = s[i - (1 << k)] if i >= 1 << k else 0
            pydp.group_barrier()
            s[i] = s[i] + left
            pydp.group_barrier()
        out[i] = s[i]

    # after the last iteration, every lane reads only its own slot
    assert shown(scan, [I1, I1], (16,)) == ["16", "16", "16, 16, 16, none"]


def test_a_tiled_product_in_a_loop_of_unknown_length():
    tiles = FieldType(np.dtype(np.float32), 2, ((8, 8),), writable=False)

    def mxm(idx, C, A, B):
        sA = pydp.local_field(np.float32, 8, 8)
        sB = pydp.local_field(np.float32, 8, 8)
        acc = 0.0
        for i in range(A.extent[1]):
            sA[idx.local] = A[idx.group[0], i][idx.local]
            sB[idx.local] = B[i, idx.group[1]][idx.local]
            pydp.group_barrier()
            for k in range(8):
                acc += sA[idx.local[0], k] * sB[k, idx.local[1]]
            pydp.group_barrier()
        C[idx] = acc

    assert shown(mxm, [FieldType(np.dtype(np.float32), 2), tiles, tiles], (8, 8)) == ["64", "64"]


def test_rows_of_a_group_exchange_within_their_row():
    def rows(idx, out, x):
        s = pydp.local_field(np.int32, 4, 16)
        s[idx.local] = x[idx]
        pydp.group_barrier()
        out[idx] = s[idx.local[0], 15 - idx.local[1]]

    def columns(idx, out, x):
        s = pydp.local_field(np.int32, 4, 16)
        s[idx.local] = x[idx]
        pydp.group_barrier()
        out[idx] = s[3 - idx.local[0], idx.local[1]]

    two = FieldType(np.dtype(np.int32), 2)
    assert shown(rows, [two, two], (4, 16)) == ["16"]
    assert shown(columns, [two, two], (4, 16)) == ["64"]


def test_unknown_iterations_use_the_widest_width():
    def rows(idx, out, x, n):
        s = pydp.local_field(np.int32, 32)
        i = idx.local[0]
        value = x[i]
        for _ in range(n):
            s[i] = value
            pydp.group_barrier()
            value += s[i ^ 3]
            pydp.group_barrier()
        out[i] = value

    assert shown(rows, [I1, I1, N], (32,)) == ["4", "4"]


def test_indexes_that_depend_on_an_unknown_iteration_need_the_whole_group():
    def moving(idx, out, n):
        s = pydp.local_field(np.int32, 256)
        i = idx.local[0]
        value = 0
        for k in range(n):
            s[4 * i + k] = k
            pydp.group_barrier()
            value += s[4 * i + k]
        out[i] = value

    assert shown(moving, [I1, N], (32,)) == ["32"]


def test_a_uniform_offset_cancels_out():
    def shifted(idx, out, x, first):
        s = pydp.local_field(np.int32, 128)
        s[first + idx.local[0]] = x[idx]
        pydp.group_barrier()
        out[idx] = s[first + (idx.local[0] ^ 1)]

    assert shown(shifted, [I1, I1, N], (32,)) == ["2"]


def test_data_dependent_elements_need_the_whole_group():
    def gathered(idx, out, x):
        s = pydp.local_field(np.int32, 32)
        s[idx.local[0]] = x[idx]
        pydp.group_barrier()
        out[idx] = s[x[idx]]

    assert shown(gathered, [I1, I1], (32,)) == ["32"]


def test_arrays_count_too_and_may_share_memory():
    def pairs(idx, out, x):
        out[idx] = x[idx]
        pydp.group_barrier()
        out[idx] = out[idx.group[0] * 32 + (idx.local[0] ^ 1)]

    def apart(idx, out, x):
        value = x[idx]
        pydp.group_barrier()
        out[idx] = value

    made = translate(pairs, 1, (32,), [I1, I1])
    assert [w.widest for w in widths.infer(made).values()] in ([2], [32])
    made = translate(apart, 1, (32,), [I1, I1])
    assert widths.infer(made)[0].widest == 1
    assert widths.infer(made, sharing=[("out", "x")])[0].widest == 32


def test_many_repeated_iterations_have_different_widths():
    """A sorting network of 1024 lanes (56 barriers), and a tree in a loop of 16 iterations (145 barriers)."""

    def sorted_(idx, x):
        s = pydp.local_field(np.int32, 1024)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier()
        for k in range(10):
            for j in range(k + 1):
                d = 1 << (k - j)
                if i & d == 0:
                    low, high = min(s[i], s[i + d]), max(s[i], s[i + d])
                    upwards = i & (2 << k) == 0
                    s[i] = low if upwards else high
                    s[i + d] = high if upwards else low
                pydp.group_barrier()
        x[idx] = s[i]

    def sums(idx, out):
        s = pydp.local_field(np.int32, 256)
        i = idx.local[0]
        for k in range(16):
            s[i] = k
            pydp.group_barrier()
            n = 128
            while n > 0:
                if i < n:
                    s[i] += s[i + n]
                pydp.group_barrier()
                n //= 2
            if i == 0:
                out[k] = s[0]

    network = widths.infer(translate(sorted_, 1, (1024,), [I1]), max_intervals=40)
    steps = [1 << (k - j) for k in range(10) for j in range(k + 1)]
    wanted = [2 * max(pair) for pair in zip(steps, [*steps[1:], 0.5], strict=True)]
    assert network[0].per_iteration == (2,) and network[1].per_iteration == tuple(wanted)
    tree = widths.infer(translate(sums, 1, (256,), [I1]), max_intervals=40)
    assert tree[1].per_iteration[:7] == (128, 64, 32, 16, 8, 4, 2) and all(one.inferred for one in tree.values())


def test_unknown_numbers_of_narrow_types_may_wrap_around():
    byte = NumberType(np.dtype(np.uint8), False)

    def compared(idx, out, n):  # with n = 250 lanes 6 to 15 write as well
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        if np.uint8(i) + n < np.uint8(4) + n:
            s[i] = 1
        pydp.group_barrier()
        out[idx] = s[(i + 12) % 16] if i < 4 else 0

    def converted(idx, out, n):  # lane 0 writes what lane 15 reads, where n is not 0
        s = pydp.local_field(np.int32, 512)
        i = idx.local[0]
        s[int(np.uint8(i) - np.uint8(1) + n)] = 1
        pydp.group_barrier()
        out[idx] = s[int(n) + (i - 1 if i < 15 else -1)]

    for fn in (compared, converted):
        assert widths.infer(translate(fn, 1, (16,), [I1, byte]))[0].per_iteration == (16,), fn


def test_widths_that_are_not_inferred_are_marked():
    def distances(idx, out):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        for k in range(60):
            s[i] = k
            pydp.group_barrier()
            out[idx] += s[(i + k) % 64]
            pydp.group_barrier()

    found = widths.infer(translate(distances, 1, (64,), [I1]), max_intervals=40)
    assert [(one.per_iteration, one.inferred) for one in found.values()] == [((64,), False)] * 2


def test_group_sizes_that_are_not_powers_of_two():
    slots = shared("s", 12)
    made = [
        function([store(slots, [L], 1), barrier(0), ir.Assign(ir.NOWHERE, var("v"), load(slots, read))], group=(12,))
        for read in (xor(L, 1), mul(div(L, 4), 4), mul(div(L, 8), 8), mul(div(L, 3), 3))
    ]
    assert [widths.infer(f)[0].widest for f in made] == [2, 4, 12, 12]


def test_one_of_three_barriers_satisfies_a_dependency():
    slots = shared("s", 64)
    body = [store(slots, [L], 1), barrier(0), barrier(1), barrier(2)]
    body.append(ir.Assign(ir.NOWHERE, var("v"), load(slots, xor(L, 4))))
    found = widths.infer(function(body, group=(64,), locals=[slots]))
    assert sorted(width.widest for width in found.values()) == [1, 1, 8]
