"""Checked mode: indexes outside arrays, tiles, members and local fields, and reads of uninitialized elements."""

from __future__ import annotations

import numpy as np
import pytest
from checked_run import I1, failure, ints, line_of

import pydp
from pydp.lang.compile import FieldType, translate
from pydp.lang.execute import checked

pytestmark = pytest.mark.host


def test_an_index_outside_an_array():
    def f(idx, out, x):
        out[idx] = x[idx[0] + 2]

    error = failure(f, [I1, I1], [np.zeros(4, np.int32), np.zeros(4, np.int32)], (4,))
    assert error.message == "lane [2] reads x at index 4 of axis 0; indexes 0 to 3 are valid"
    assert error.line == line_of(f, "x[idx[0] + 2]")


def test_lanes_that_a_condition_keeps_inside_pass():
    def f(idx, out, x):
        out[idx] = x[idx[0] + 2] if idx[0] < 2 else 0
        if idx[0] >= 2 and x[idx[0] - 2] == 7:
            out[idx] = 9

    out = np.zeros(4, np.int32)
    checked.run(translate(f, 1, None, [I1, I1]), (4,), None, [out, ints(7, 8, 1, 2)])
    assert out.tolist() == [1, 2, 9, 0]


def test_an_index_outside_a_tile_though_inside_the_array():
    tiled = FieldType(np.dtype(np.int32), 1, ((4,),), writable=False)

    def f(idx, out, x):
        out[idx] = x[idx.group[0]][idx.local[0] + 1]

    error = failure(f, [I1, tiled], [np.zeros(8, np.int32), np.arange(8, dtype=np.int32)], (8,), (4,))
    assert "index 4 of a tile's axis; indexes 0 to 3" in error.message


def test_partial_tiles_are_not_errors():
    tiled = FieldType(np.dtype(np.int32), 1, ((4,),), writable=False)

    def f(idx, out, x):
        out[idx] = x[idx.group[0]][idx.local[0]]

    out = np.zeros(6, np.int32)
    checked.run(translate(f, 1, (4,), [I1, tiled]), (6,), None, [out, np.arange(6, dtype=np.int32)])
    assert out.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_data_dependent_index_outside_a_local_field():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 4)
        if idx.local[0] < 4:
            s[idx.local[0]] = 0
        pydp.group_barrier()
        out[idx] = s[x[idx]]

    error = failure(f, [I1, I1], [np.zeros(4, np.int32), ints(0, 1, -1, 2)], (4,), (4,))
    assert "lane [2] of group [0] reads s at index -1 of axis 0; indexes 0 to 3" in error.message


def test_a_data_dependent_read_of_an_uninitialized_element():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 4)
        s[x[idx]] = 1
        pydp.group_barrier()
        out[idx] = s[idx.local[0]]

    error = failure(f, [I1, I1], [np.zeros(4, np.int32), ints(0, 1, 1, 3)], (4,), (4,))
    assert error.message == "lane [2] of group [0] reads s[2] before any lane has written it"

    def private(idx, out, x):
        p = pydp.private_field(np.int32, 4)
        p[x[idx]] = 1
        out[idx] = p[0]

    error = failure(private, [I1, I1], [np.zeros(4, np.int32), ints(0, 0, 0, 2)], (4,))
    assert error.message == "lane [3] reads p[0] before any lane has written it"


# --- items of members and tuples

BAG = np.dtype([("v", "f4", 3), ("m", "i4", (2, 3)), ("tag", "i4")], align=True)


def read_item(idx, out, r, k):
    out[idx] = r[idx].v[k[idx]]


def read_item_of_two_axes(idx, out, r, k):
    bag = r[idx]
    out[idx] = bag.m[1, k[idx]]


def write_item(idx, out, r, k):
    r[idx].v[k[idx]] = out[idx]


def write_item_of_two_axes(idx, out, r, k):
    r[idx].m[k[idx], 1] = out[idx]


def write_item_of_a_variable(idx, out, r, k):
    bag = r[idx]
    bag.v[k[idx]] = 1
    out[idx] = bag.v[0]


def change_item(idx, out, r, k):
    r[idx].v[k[idx]] += out[idx]


def read_tuple(idx, out, r, k):
    few = (2, 3, out[idx])
    out[idx] = few[k[idx]]


@pytest.mark.parametrize("place", [3, -1])
@pytest.mark.parametrize(
    ("fn", "does", "line"),
    [
        (read_item, "reads member 'v'", "out[idx] = r"),
        (read_item_of_two_axes, "reads member 'm'", "out[idx] = bag"),
        (write_item, "writes member 'v'", "r[idx].v"),
        (write_item_of_two_axes, "writes member 'm'", "r[idx].m"),
        (write_item_of_a_variable, "writes member 'v'", "bag.v[k"),
        (change_item, " member 'v'", "r[idx].v"),
        (read_tuple, "reads a tuple", "out[idx] = few"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_items_outside_an_array_member_are_reported(fn, does, line, place):
    size = 2 if fn is write_item_of_two_axes else 3
    for bad in (True, False):
        arrays = [ints(1, 2, 3, 4), np.zeros(4, BAG), ints(0, 1, place if bad else 1, 1)]
        types = [I1, FieldType(BAG, 1), I1]
        if not bad:
            checked.run(translate(fn, 1, None, types), (4,), None, arrays)
            continue
        error = failure(fn, types, arrays, (4,))
        assert error.message.startswith("lane [2] ")
        assert does in error.message
        assert f" at index {place} of its {size} items; indexes 0 to {size - 1} are valid" in error.message
        assert error.where.line == line_of(fn, line)


def test_a_tuple_of_one_has_only_that_item():
    def one(idx, out, r, k):
        few = (r[idx].v[k[idx]],)
        out[idx] = few[k[idx] - 1]

    types = [I1, FieldType(BAG, 1), I1]
    checked.run(translate(one, 1, None, types), (2,), None, [ints(1, 2), np.zeros(2, BAG), ints(1, 1)])
    error = failure(one, types, [ints(1, 2), np.zeros(2, BAG), ints(1, 2)], (2,))
    assert error.message == "lane [1] reads a tuple at index 1 of its 1 items; indexes 0 to 0 are valid"
    error = failure(one, types, [ints(1, 2), np.zeros(2, BAG), ints(3, 1)], (2,))
    assert "member 'v' at index 3" in error.message


def test_unused_items_may_be_out_of_bounds():
    def guarded(idx, out, r, k):
        out[idx] = r[idx].v[k[idx]] if k[idx] < 3 else 7
        if k[idx] < 3 and r[idx].v[k[idx]] == 0:
            r[idx].v[k[idx]] = 2

    data, out = np.zeros(3, BAG), ints(1, 1, 1)
    checked.run(translate(guarded, 1, None, [I1, FieldType(BAG, 1), I1]), (3,), None, [out, data, ints(2, 5, 0)])
    assert out.tolist() == [0, 7, 0]
    assert data["v"].tolist() == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]


def test_lanes_outside_the_grid_may_use_any_item():
    def grouped(idx, out, r):
        found = r[idx].v[idx.local[0]]
        pydp.group_barrier()
        out[idx] = found

    data, out = np.zeros(6, BAG), np.zeros(6, np.float32)
    data["v"] = np.arange(18).reshape(6, 3)
    made = translate(grouped, 1, (4,), [FieldType(np.dtype(np.float32), 1), FieldType(BAG, 1)])
    checked.run(made, (3,), None, [out[:3], data[:3]])
    assert out[:3].tolist() == [0, 4, 8]
    with pytest.raises(checked.CheckFailed, match=r"lane \[3\] of group \[0\] reads member 'v' at index 3"):
        checked.run(made, (6,), None, [out, data])
