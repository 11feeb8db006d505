"""Checked mode: what it reports, with lanes, elements and lines, and that right programs pass with the same results."""

from __future__ import annotations

import inspect
import random
import threading

import interpreter
import numpy as np
import pytest
from builder import barrier, c, function, load, local, shared, store, sub
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import pattern
from programs import random_program

import pydp
from pydp.lang import checked, ir
from pydp.lang.front import FieldType, NumberType, translate

pytestmark = pytest.mark.host

I1 = FieldType(np.dtype(np.int32), 1)
N = NumberType(np.dtype(np.int32), True)


def test_races_are_reported_where_an_interpreter_sees_them_and_nowhere_else():
    @settings(max_examples=100)
    @given(st.integers(0, 10**9))
    def check(seed):
        made = pattern(seed)
        log = []
        interpreter.run(made, made.group, None, [np.zeros(64, np.int32)], (), seed, log)
        real = any(True for _ in interpreter.races(log))
        try:
            checked.run(made, made.group, None, [np.zeros(64, np.int32)])
            said = False
        except checked.CheckFailed as error:
            said = "Race" in str(error)
        assert said == real

    check()


def without_a_barrier(program, seed):
    """The program's function with one barrier taken out."""
    places = []

    def look(body):
        for number, statement in enumerate(body):
            if isinstance(statement, ir.Barrier):
                places.append((body, number))
            for block in ir.blocks(statement):
                look(block)

    look(program.function.body)
    if places:
        body, number = random.Random(seed).choice(places)
        del body[number]


def test_random_programs_pass_and_those_without_a_barrier_do_not():
    racing = 0
    for seed in range(50):
        program = random_program(seed)
        ours, theirs = program.fresh(), program.fresh()
        checked.run(program.function, program.extent, program.offset, ours, program.parameters)
        interpreter.run(program.function, program.extent, program.offset, theirs, program.parameters)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
        without_a_barrier(program, seed)
        log = []
        interpreter.run(program.function, program.extent, program.offset, theirs, program.parameters, None, log)
        if len(log) > 4000:
            continue
        if any(True for _ in interpreter.races(log)):
            racing += 1
            with pytest.raises(checked.CheckFailed):
                checked.run(program.function, program.extent, program.offset, ours, program.parameters)
    assert racing


def failure(fn, types, arrays, grid, group=None, parameters=()):
    made = translate(fn, len(grid), group, types)
    with pytest.raises(checked.CheckFailed) as caught:
        checked.run(made, grid, None, arrays, parameters)
    return caught.value


def line_of(fn, text):
    lines, first = inspect.getsourcelines(fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


def ints(*values):
    return np.array(values, np.int32)


def test_a_data_dependent_race_between_lanes_of_a_group():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        s[x[idx]] = idx.local[0]
        pydp.group_barrier()
        out[idx] = s[x[idx]]

    error = failure(f, [I1, I1], [np.zeros(8, np.int32), ints(0, 1, 2, 3, 3, 5, 6, 7)], (8,), (8,))
    assert "lane [3] of group [0] writes 3 to s[3] and lane [4] of group [0] writes 4 to it" in error.message
    assert error.line == line_of(f, "s[x[idx]] = idx")


def test_a_race_across_a_missing_barrier_names_both_lines():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        s[idx.local[0]] = x[idx]
        out[idx] = s[x[idx]]

    data = ints(0, 1, 2, 4, 4, 5, 6, 7)
    made = translate(f, 1, (8,), [I1, I1])
    with pytest.raises(checked.CheckFailed) as caught:
        checked.run(made, (8,), None, [np.zeros(8, np.int32), data])
    message = caught.value.message
    assert "lane [4] of group [0] writes 4 to s[4]" in message and "lane [3] of group [0] reads 4 from it" in message
    assert f"(line {line_of(f, '= x[idx]')})" in message and f"(line {line_of(f, 'out[idx]')})" in message
    assert "no barrier between them" in message
    checked.run(made, (8,), None, [np.zeros(8, np.int32), np.arange(8, dtype=np.int32)])


def test_lanes_without_groups_race_on_an_array():
    def histogram(idx, counts, x):
        counts[x[idx]] += 1

    error = failure(histogram, [I1, I1], [np.zeros(4, np.int32), ints(0, 1, 2, 1)], (4,))
    assert "counts[1]" in error.message and "lane [1]" in error.message and "lane [3]" in error.message
    assert "different lanes are never ordered" in error.message


def test_races_tell_what_both_lanes_read_and_wrote():
    def shift(idx, a, b):
        a[idx] = b[idx[0] + 1 if idx[0] < 3 else 0] * 10

    data = ints(5, 6, 7, 8)
    error = failure(shift, [I1, I1], [data, data], (4,))
    assert "lane [0] writes 60 to a[0] (line" in error.message and "lane [3] reads 5 from it (line" in error.message

    def count(idx, bins, x):
        pydp.atomic_add(bins, 0, x[idx])
        x[idx] = bins[0]

    error = failure(count, [I1, I1], [ints(0, 0), ints(1, 2)], (2,))
    assert "updates bins[0] with" in error.message and "reads 3 from it" in error.message

    def between(idx, total, x):
        if idx.local[0] == 0:
            total[0] = total[0] + x[idx]
        pydp.group_barrier()

    error = failure(between, [I1, I1], [ints(0), np.arange(16, dtype=np.int32)], (16,), (8,))
    assert "lane [0] of group [0] writes 0 to total[0]" in error.message or "reads 0" in error.message

    pair = np.dtype([("a", np.int32), ("b", np.int32)])

    def member(idx, r):
        r[idx].b = 4 + idx[0]
        r[idx].a = r[(idx[0] + 1) % 2].b

    error = failure(member, [FieldType(pair, 1)], [np.zeros(2, pair)], (2,))
    assert "writes 4 to r[0]" in error.message and "reads 4 from it" in error.message


def test_atomics_on_an_array_pass():
    def histogram(idx, counts, x):
        pydp.atomic_add(counts, x[idx], 1)

    counts = np.zeros(4, np.int32)
    made = translate(histogram, 1, None, [I1, I1])
    checked.run(made, (4,), None, [counts, ints(0, 1, 2, 1)])
    assert counts.tolist() == [1, 2, 1, 0]


def test_groups_race_where_lanes_of_one_would_not():
    def f(idx, total, x):
        if idx.local[0] == 0:
            total[0] = total[0] + x[idx]
        pydp.group_barrier()

    error = failure(f, [I1, I1], [np.zeros(1, np.int32), np.ones(16, np.int32)], (16,), (8,))
    assert "no barrier holds between groups" in error.message
    assert "of group [0]" in error.message and "of group [1]" in error.message
    made = translate(f, 1, (8,), [I1, I1])
    checked.run(made, (8,), None, [np.zeros(1, np.int32), np.ones(8, np.int32)])


def test_lanes_of_a_group_race_on_an_array_between_barriers():
    def f(idx, x):
        x[idx] = x[idx] + 1
        x[idx.group[0] * 4 + (idx.local[0] + 1) % 4] = 5
        pydp.group_barrier()

    error = failure(f, [I1], [np.zeros(8, np.int32)], (8,), (4,))
    assert "no barrier between them" in error.message

    def right(idx, x):
        x[idx] = x[idx] + 1
        pydp.group_barrier()
        x[idx.group[0] * 4 + (idx.local[0] + 1) % 4] = 5

    checked.run(translate(right, 1, (4,), [I1]), (8,), None, [np.zeros(8, np.int32)])


def test_views_of_one_memory_race():
    def shift(idx, to, source):
        to[idx] = source[idx]

    data = np.arange(10, dtype=np.int32)
    error = failure(shift, [I1, I1], [data[1:], data[:-1]], (9,))
    assert "Race" in error.message and "to[" in error.message
    checked.run(translate(shift, 1, None, [I1, I1]), (5,), None, [data[5:], data[:5]])
    interleaved = np.arange(10, dtype=np.int32)
    checked.run(translate(shift, 1, None, [I1, I1]), (5,), None, [interleaved[::2], interleaved[1::2]])


def test_members_of_one_record_are_apart():
    kind = np.dtype([("a", np.int32), ("b", np.int32)])

    def apart(idx, r):
        if idx[0] % 2 == 0:
            r[idx[0] // 2].a = 1
        else:
            r[idx[0] // 2].b = 2

    def together(idx, r):
        r[idx[0] // 2].a = idx[0]

    R = FieldType(kind, 1)
    data = np.zeros(2, kind)
    checked.run(translate(apart, 1, None, [R]), (4,), None, [data])
    assert data.tolist() == [(1, 2), (1, 2)]
    assert "Race" in failure(together, [R], [data], (4,)).message


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
        assert error.message.startswith("Lane [2] ")
        assert does in error.message
        assert f" at index {place} of its {size} items: indexes 0 to {size - 1} exist there" in error.message
        assert error.where.line == line_of(fn, line)


def test_a_tuple_of_one_has_only_that_item():
    def one(idx, out, r, k):
        few = (r[idx].v[k[idx]],)
        out[idx] = few[k[idx] - 1]

    types = [I1, FieldType(BAG, 1), I1]
    checked.run(translate(one, 1, None, types), (2,), None, [ints(1, 2), np.zeros(2, BAG), ints(1, 1)])
    error = failure(one, types, [ints(1, 2), np.zeros(2, BAG), ints(1, 2)], (2,))
    assert error.message == "Lane [1] reads a tuple at index 1 of its 1 items: indexes 0 to 0 exist there"
    error = failure(one, types, [ints(1, 2), np.zeros(2, BAG), ints(3, 1)], (2,))
    assert "member 'v' at index 3" in error.message


def test_items_that_no_lane_asks_for_may_be_outside():
    def guarded(idx, out, r, k):
        out[idx] = r[idx].v[k[idx]] if k[idx] < 3 else 7
        if k[idx] < 3 and r[idx].v[k[idx]] == 0:
            r[idx].v[k[idx]] = 2

    data, out = np.zeros(3, BAG), ints(1, 1, 1)
    checked.run(translate(guarded, 1, None, [I1, FieldType(BAG, 1), I1]), (3,), None, [out, data, ints(2, 5, 0)])
    assert out.tolist() == [0, 7, 0]
    assert data["v"].tolist() == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]


def test_lanes_outside_the_grid_may_ask_for_any_item():
    def grouped(idx, out, r):
        found = r[idx].v[idx.local[0]]
        pydp.group_barrier()
        out[idx] = found

    data, out = np.zeros(6, BAG), np.zeros(6, np.float32)
    data["v"] = np.arange(18).reshape(6, 3)
    made = translate(grouped, 1, (4,), [FieldType(np.dtype(np.float32), 1), FieldType(BAG, 1)])
    checked.run(made, (3,), None, [out[:3], data[:3]])
    assert out[:3].tolist() == [0, 4, 8]
    with pytest.raises(checked.CheckFailed, match=r"Lane \[3\] of group \[0\] reads member 'v' at index 3"):
        checked.run(made, (6,), None, [out, data])


def test_one_value_by_one_statement_is_no_race():
    def flag(idx, out, x):
        if x[idx] > 2:
            out[0] = 1

    out = np.zeros(1, np.int32)
    made = translate(flag, 1, None, [I1, I1])
    checked.run(made, (5,), None, [out, ints(1, 3, 5, 0, 9)])
    assert out[0] == 1

    def flag_and_look(idx, out, x):
        if x[idx] > 2:
            out[0] = 1
        if out[0] == 1:
            x[idx] = 0

    assert "Race" in failure(flag_and_look, [I1, I1], [out, ints(1, 3, 5, 0, 9)], (5,)).message


def test_a_plain_index_outside_an_array():
    def f(idx, out, x):
        out[idx] = x[idx[0] + 2]

    error = failure(f, [I1, I1], [np.zeros(4, np.int32), np.zeros(4, np.int32)], (4,))
    assert error.message == "Lane [2] reads x at index 4 of axis 0: indexes 0 to 3 exist there"
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
    assert "index 4 of a tile's axis: indexes 0 to 3" in error.message


def test_partial_tiles_are_the_librarys_business():
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
    assert "Lane [2] of group [0] reads s at index -1 of axis 0: indexes 0 to 3" in error.message


def test_a_data_dependent_read_of_nothing():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 4)
        s[x[idx]] = 1
        pydp.group_barrier()
        out[idx] = s[idx.local[0]]

    error = failure(f, [I1, I1], [np.zeros(4, np.int32), ints(0, 1, 1, 3)], (4,), (4,))
    assert error.message == "Lane [2] of group [0] reads s[2], which no lane has written yet"

    def private(idx, out, x):
        p = pydp.private_field(np.int32, 4)
        p[x[idx]] = 1
        out[idx] = p[0]

    error = failure(private, [I1, I1], [np.zeros(4, np.int32), ints(0, 0, 0, 2)], (4,))
    assert error.message == "Lane [3] reads p[0], which no lane has written yet"


def narrow(width, reach):
    """Lanes write their slot, meet in runs of `width` lanes, and read the slot `reach` further, in xor order."""
    slots, kept = shared("s", 16), ir.Variable("v", np.dtype(np.int32))
    read = load(slots, ir.Binary(np.dtype(np.int32), "xor", local(), c(reach)), line=5)
    body = [store(slots, [local()], local(), line=3), barrier(0, 4, c(width)), ir.Assign(ir.NOWHERE, kept, read)]
    return function(body, group=(16,), locals=[slots])


NARROW = [(2, 1, True), (4, 3, True), (4, 4, False), (8, 4, True), (1, 1, False)]


@pytest.mark.parametrize(("width", "reach", "fits"), NARROW)
def test_a_barrier_of_narrow_width_orders_its_lanes_only(width, reach, fits):
    made = narrow(width, reach)
    if fits:
        checked.run(made, (16,), None, [])
    else:
        with pytest.raises(checked.CheckFailed, match=f"Race.*s\\[.*width {width} between" if width > 1 else "Race"):
            checked.run(made, (16,), None, [])


def test_a_wider_barrier_later_orders_what_a_narrow_one_did_not():
    slots, kept = shared("s", 16), ir.Variable("v", np.dtype(np.int32))
    first = [store(slots, [local()], local()), barrier(0, 0, c(2))]
    last = ir.Assign(ir.NOWHERE, kept, load(slots, sub(15, local())))
    checked.run(function([*first, barrier(1), last], group=(16,), locals=[slots]), (16,), None, [])
    with pytest.raises(checked.CheckFailed, match="width 4 between"):
        checked.run(function([*first, barrier(1, 0, c(4)), last], group=(16,), locals=[slots]), (16,), None, [])


def test_forall_in_checked_mode(device):
    def neighbours(idx, out, x):
        out[idx] = x[idx[0] + 1]

    x, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    field = pydp.field(x, device=device)
    with pydp.checked():
        assert checked.is_checked()
        with pytest.raises(pydp.InvalidArgument, match="Lane \\[4\\] reads x at index 5"):
            pydp.forall(5, neighbours, out, x)
        target = pydp.zeros((4,), np.int32, device=device)
        pydp.forall(4, neighbours, target, field)
    assert not checked.is_checked()
    assert np.asarray(target).tolist() == [1, 2, 3, 4]


def test_the_environment_turns_checked_mode_on(monkeypatch):
    monkeypatch.setenv("PYDP_CHECK", "1")
    assert checked.is_checked()
    monkeypatch.setenv("PYDP_CHECK", "0")
    assert not checked.is_checked()


def test_checked_mode_is_of_one_thread():
    seen = []
    with pydp.checked():
        other = threading.Thread(target=lambda: seen.append(checked.is_checked()))
        other.start()
        other.join()
        with pydp.checked():
            pass
        assert checked.is_checked()
    assert seen == [False]
