"""Wrong names, indexes, groups and types are refused with the line that is wrong; right ones near them are not."""

# ruff: noqa: F821, F841, RUF005, SIM108

from __future__ import annotations

import numpy as np
import pytest
from reject_cases import INT, REAL, U64, A, C, Cases, L, R, T, V, name_of

import pydp
from pydp.lang.compile import FieldType

pytestmark = pytest.mark.host

CASES = Cases()
wrong, right = CASES.wrong, CASES.right

WEIGHTS = (1.0, 2.0, 3.0)


# --- names and assignment


@wrong("'missing' is not defined", C)
def unknown_name(idx, out):
    out[idx] = missing  # here


@right(C)
def known_name(idx, out):
    out[idx] = WEIGHTS[0]


@wrong("'x' may be unassigned", C)
def unassigned_in_branch(idx, out):
    if idx[0] > 2:
        x = 1.0
    out[idx] = x  # here


@right(C)
def assigned_in_both(idx, out):
    if idx[0] > 2:
        x = 1.0
    else:
        x = 2.0
    out[idx] = x


@wrong("'x' may be unassigned", C, INT)
def unassigned_in_loop(idx, out, n):
    for k in range(n):
        x = k * 2.0
    out[idx] = x  # here


@right(C)
def assigned_in_a_known_loop(idx, out):
    for k in range(4):
        x = k * 2.0
    out[idx] = x


@wrong("'x' may be unassigned", C)
def assigned_too_late(idx, out):
    for k in range(4):
        if k > 0:
            out[idx] = x  # here
        x = 1.0


@wrong("'x' may be unassigned", C, INT)
def unassigned_after_break(idx, out, n):
    for k in range(4):
        if k == n:
            break
        x = 1.0
    out[idx] = x  # here


@right(C, INT)
def assigned_where_it_goes_on(idx, out, n):
    if n > 3:
        x = 1.0
    else:
        return
    out[idx] = x


@right(C, INT)
def assigned_in_endless_loop(idx, out, n):
    while True:
        x = n * 2.0
        if x > 7:
            break
    out[idx] = x


@wrong("'x' has type float32 at line", C, R)
def record_and_number(idx, out, r):
    x = out[idx]
    if idx[0] > 2:
        x = r[0]  # here
    out[idx] = x


@wrong("use another name", C, A)
def array_and_number(idx, out, a):
    t = 1.0
    if idx[0] > 2:
        t = a  # here
    out[idx] = t


@right(C, A)
def int_and_float(idx, out, a):
    t = 1
    if idx[0] > 2:
        t = a[idx]
    out[idx] = t


@wrong("cannot unpack 3 values into 2 names", C)
def wrong_count(idx, out):
    i, j = (1, 2, 3)  # here
    out[idx] = i + j


@wrong("only tuples can be unpacked", C)
def take_a_number_apart(idx, out):
    i, j = out[idx]  # here
    out[idx] = i + j


# --- indexing


@wrong("the array 'a' of rank 2 needs 2 indexes, not 1", C, A)
def too_few_indexes(idx, out, a):
    out[idx] = a[idx[0]]  # here


@wrong("the array 'a' of rank 2 needs 2 indexes, not 3", C, A)
def too_many_indexes(idx, out, a):
    out[idx] = a(idx[0], idx[1], 0)  # here


@wrong("an index must be an integer, not float32", C, A)
def float_index(idx, out, a):
    out[idx] = a[a[idx], 0]  # here


@right(C, A)
def cast_index(idx, out, a):
    out[idx] = a[int(a[idx]), 0]


@wrong("index -1 of axis 0 is negative; count from the start: a.T.extent(0) - 1", C, A)
def negative_index(idx, out, a):
    out[idx] = a.T[-1, idx[1]]  # here


@wrong("needs 1 index, not 2", C, V)
def index_of_a_row(idx, out, row):
    out[idx] = row[0, 1]  # here


@right(C, A)
def last_index(idx, out, a):
    out[idx] = a[a.extent(0) - 1, idx[1]] + a[idx[0] - 1, idx[1]]


@wrong("out of bounds for a tile", C, T, group=(16, 16))
def outside_a_tile(idx, out, t):
    out[idx] = t[idx.group][16, 0]  # here


@right(C, T, group=(16, 16))
def inside_a_tile(idx, out, t):
    out[idx] = t[idx.group][15, 0]


@wrong("out of bounds", C, group=(8, 8))
def outside_a_local_field(idx, out):
    s = pydp.local_field(np.float32, 8, 8)
    s[0, 8] = 1.0  # here


@wrong("cannot be assigned as a whole", C, T, group=(16, 16))
def assign_a_tile(idx, out, t):
    t[idx.group] = 1.0  # here


@wrong("a number is needed here, not a tile", C, T, group=(16, 16))
def compute_with_a_tile(idx, out, t):
    out[idx] = t[idx.group] + 1.0  # here


@wrong("a number is needed here, not the array 'a' of rank 2; index it", C, A)
def compute_with_an_array(idx, out, a):
    out[idx] = a * 2.0  # here


@wrong("'a' is read-only", C, A)
def write_read_only(idx, out, a):
    a[idx] = 1.0  # here


@wrong("'a' is read-only", C, C)
def write_through_read_only(idx, out, a):
    b = pydp.read_only(a)
    out[idx] = b[idx]
    b[idx] = 1.0  # here


@wrong("a slice cannot be used", C, A)
def slices(idx, out, a):
    out[idx] = a[0:2, 1]  # here


@wrong("has no 'size'", C, A)
def unknown_attribute(idx, out, a):
    out[idx] = a.size  # here


@wrong("the index has no 'lane'", C, group=(8, 8))
def unknown_index_part(idx, out):
    out[idx] = idx.lane  # here


@wrong("different ranks", C)
def ranks_do_not_fit(idx, out):
    out[idx + (1, 2, 3)] = 1.0  # here


@right(C)
def ranks_fit(idx, out):
    out[(idx + 1) * (1, 2)] = 1.0


@wrong("index 2 is out of bounds for a tuple of 2", C)
def no_third_index(idx, out):
    out[idx] = idx[2]  # here


@wrong("cannot be indexed by a variable", C)
def empty_table(idx, out):
    t = ()
    out[idx] = t[idx[0]]  # here


# --- groups


@wrong("needs a group", C)
def local_without_group(idx, out):
    out[idx.local] = 1.0  # here


@wrong("needs a group", C)
def barrier_without_group(idx, out):
    pydp.group_barrier()  # here


@wrong("must be constants", C, INT, group=(8, 8))
def run_time_local_field(idx, out, n):
    s = pydp.local_field(np.float32, n)  # here
    s[0] = 1.0


@right(C, group=(8, 8))
def known_local_field(idx, out):
    s = pydp.local_field((idx.group_extent[0], 4), np.float32)
    s[idx.local[0], 0] = 1.0


@wrong("1 or more", C, group=(8, 8))
def empty_local_field(idx, out):
    s = pydp.local_field(np.float32, 0)  # here
    s[0] = 1.0


@wrong("1 or more is accepted", C)
def empty_tile(idx, out):
    out[idx] = pydp.tile(out, (0, 4)).extent[0]  # here


@wrong("needs 2 extents, not 3", C)
def tile_of_another_rank(idx, out):
    out[idx] = out.tile(4, 4, 4).extent[0]  # here


# --- types


@wrong("uint64 and int64 have no common integer type", FieldType(U64, 1), L, rank=1)
def unsigned_with_signed(idx, u, a):
    u[idx] = u[idx] + a[idx]  # here


@right(FieldType(U64, 1), L, rank=1)
def unsigned_with_cast(idx, u, a):
    u[idx] = u[idx] + np.uint64(a[idx]) + 1


@wrong("300 does not fit uint8", FieldType(np.dtype("u1"), 1), rank=1)
def literal_too_large(idx, u):
    u[idx] = u[idx] + 300  # here


@wrong("write 4294967295 for the same bits", FieldType(np.dtype("u4"), 1), rank=1)
def negative_as_unsigned(idx, u):
    u[idx] = np.uint32(-1)  # here


@wrong("-1 does not fit uint64 (0 to", FieldType(U64, 1), rank=1)
def less_than_nothing(idx, u):
    u[idx] = -1  # here


@wrong("9223372036854775808 does not fit int64", L, rank=1)
def beyond_64_bits(idx, a):
    a[idx] = np.int64(2**63)  # here


@right(FieldType(np.dtype("u4"), 1), rank=1)
def all_bits_of_unsigned(idx, u):
    u[idx] = np.uint32(4294967295) ^ ~np.uint32(0) ^ np.uint32(np.int32(-1))


@right(FieldType(np.dtype("u1"), 1), rank=1)
def literal_fits(idx, u):
    u[idx] = np.int32(u[idx]) + 300 if u[idx] < 300 else 255


@wrong("needs integers", C, A)
def shift_a_float(idx, out, a):
    out[idx] = a[idx] << 1  # here


@wrong("exponent of an integer is negative", V, rank=1)
def negative_power(idx, out):
    out[idx] = out[idx] ** -1  # here


@right(C, rank=2)
def real_negative_power(idx, out):
    out[idx] = float(idx[0]) ** -1


@wrong("cannot be computed", C)
def divides_by_zero(idx, out):
    out[idx] = 1 / 0  # here


@wrong("range takes integers", C, REAL)
def float_range(idx, out, x):
    for k in range(x):  # here
        out[idx] = k


@wrong("range is 0", C)
def range_without_step(idx, out):
    for k in range(0, 4, 0):  # here
        out[idx] = k


@wrong("complex numbers cannot", C)
def complex_number(idx, out):
    out[idx] = 2j  # here


@pytest.mark.parametrize("fn, says, types, rank, group", CASES.refused, ids=name_of)
def test_refused(fn, says, types, rank, group):
    CASES.check_wrong(fn, says, types, rank, group)


@pytest.mark.parametrize("fn, types, rank, group", CASES.accepted, ids=name_of)
def test_accepted(fn, types, rank, group):
    CASES.check_right(fn, types, rank, group)
