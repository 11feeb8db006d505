"""Checked mode: its reports with lanes, elements and lines; correct programs pass with the same results."""

from __future__ import annotations

import random
import threading

import interpreter
import numpy as np
import pytest
from builder import barrier, c, function, load, local, shared, store, sub
from checked_run import I1, failure, ints, line_of
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import pattern
from programs import random_program

import pydp
from pydp.lang import ir
from pydp.lang.compile import FieldType, translate
from pydp.lang.execute import checked

pytestmark = pytest.mark.host


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
            said = "race:" in str(error)
        assert said == real

    check()


def without_a_barrier(program, seed):
    """The program's function with one barrier removed."""
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
    assert "there is no group_barrier() between them" in message
    checked.run(made, (8,), None, [np.zeros(8, np.int32), np.arange(8, dtype=np.int32)])


def test_lanes_without_groups_race_on_an_array():
    def histogram(idx, counts, x):
        counts[x[idx]] += 1

    error = failure(histogram, [I1, I1], [np.zeros(4, np.int32), ints(0, 1, 2, 1)], (4,))
    assert "counts[1]" in error.message and "lane [1]" in error.message and "lane [3]" in error.message
    assert "lanes run in no particular order" in error.message


def test_race_messages_have_the_values_of_both_lanes():
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


def test_groups_race_where_lanes_of_one_group_do_not():
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
    assert "there is no group_barrier() between them" in error.message

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
    assert "race:" in error.message and "to[" in error.message
    checked.run(translate(shift, 1, None, [I1, I1]), (5,), None, [data[5:], data[:5]])
    interleaved = np.arange(10, dtype=np.int32)
    checked.run(translate(shift, 1, None, [I1, I1]), (5,), None, [interleaved[::2], interleaved[1::2]])


def test_different_members_of_one_record_do_not_race():
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
    assert "race:" in failure(together, [R], [data], (4,)).message


def test_equal_values_from_one_statement_do_not_race():
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

    assert "race:" in failure(flag_and_look, [I1, I1], [out, ints(1, 3, 5, 0, 9)], (5,)).message


def narrow(width, reach):
    """Each lane writes its slot, passes a barrier of `width`, and reads the slot whose index is `lane ^ reach`."""
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
        with pytest.raises(checked.CheckFailed, match=f"race.*s\\[.*width {width} between" if width > 1 else "race:"):
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
        with pytest.raises(pydp.InvalidArgument, match="lane \\[4\\] reads x at index 5"):
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


def test_checked_mode_applies_to_one_thread():
    seen = []
    with pydp.checked():
        other = threading.Thread(target=lambda: seen.append(checked.is_checked()))
        other.start()
        other.join()
        with pydp.checked():
            pass
        assert checked.is_checked()
    assert seen == [False]
