"""Races, indexes out of bounds and reads of uninitialized elements that are found before a launch."""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from counted import calls
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import pattern
from programs import random_program

import pydp
from pydp.lang.analysis import static_checks
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host

F2 = FieldType(np.dtype(np.float32), 2)
I1 = FieldType(np.dtype(np.int32), 1)
N = NumberType(np.dtype(np.int32), True)


def test_races_are_found_where_an_interpreter_sees_them_and_nowhere_else():
    @settings(max_examples=150)
    @given(st.integers(0, 10**9))
    def check(seed):
        function = pattern(seed)
        log = []
        interpreter.run(function, function.group, None, [np.zeros(64, np.int32)], (), seed, log)
        real = any(one[0].startswith("local") for one, _, _ in interpreter.races(log))
        try:
            static_checks.check(function)
            said = False
        except VectorError as error:
            said = "race:" in str(error)
        assert said == real

    check()


def test_random_race_free_programs_pass():
    for seed in range(60):
        static_checks.check(random_program(seed, True).function)


def refused(fn, types, group, rank=None):
    function = translate(fn, rank or len(group), group, types)
    with pytest.raises(VectorError) as caught:
        static_checks.check(function)
    return caught.value


def line_of(fn, text):
    import inspect

    lines, first = inspect.getsourcelines(fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


def test_the_tiled_product_without_its_second_barrier():
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
        C[idx] = acc

    tiles = FieldType(np.dtype(np.float32), 2, ((8, 8),), writable=False)
    error = refused(mxm, [F2, tiles, tiles], (8, 8))
    assert error.line == line_of(mxm, "sA[idx.local] =")
    assert "race:" in str(error) and f"line {line_of(mxm, 'acc +=')}" in str(error)


def test_the_tiled_product_as_it_should_be():
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

    tiles = FieldType(np.dtype(np.float32), 2, ((8, 8),), writable=False)
    static_checks.check(translate(mxm, 2, (8, 8), [F2, tiles, tiles]))


def test_a_reduction_without_a_barrier_in_its_loop():
    def total(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier()
        step = 8
        while step > 0:
            if i < step:
                s[i] = s[i] + s[i + step]
            step //= 2
        if i == 0:
            out[idx.group[0]] = s[0]

    error = refused(total, [I1, I1], (16,))
    assert "race:" in str(error) and error.line == line_of(total, "s[i] + s[i + step]")


@pytest.mark.parametrize("steps", [4, 8])
def test_a_reduction_starting_at_the_wrong_width_leaves_the_field(steps):
    def total(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier()
        step = steps
        while step > 0:
            if i < step:
                s[i] = s[i] + s[i + step]
            pydp.group_barrier()
            step //= 2
        out[idx.group[0]] = s[0]

    if steps == 4:
        static_checks.check(translate(total, 1, (8,), [I1, I1]))
    else:
        message = str(refused(total, [I1, I1], (8,)))
        assert "index 8 of axis 0" in message and "indexes 0 to 7" in message


def test_an_index_outside_a_field_names_lane_and_value():
    def f(idx, out):
        s = pydp.local_field(np.int32, 8)
        s[idx.local[0] + 1] = 1
        pydp.group_barrier()
        out[idx] = s[0]

    error = refused(f, [I1], (8,))
    assert "lane [7]" in str(error) and "index 8 of axis 0" in str(error) and error.line == line_of(f, "] = 1")


def test_an_index_outside_a_private_field():
    def f(idx, out):
        p = pydp.private_field(np.int32, 4)
        for k in range(5):
            p[k] = k
        out[idx] = p[0]

    error = refused(f, [I1], (8,))
    assert "private_field" in str(error) and "index 4" in str(error)


def test_a_read_of_what_nobody_wrote():
    def f(idx, out):
        s = pydp.local_field(np.int32, 9)
        s[idx.local[0]] = 1
        pydp.group_barrier()
        out[idx] = s[idx.local[0] + 1]

    error = refused(f, [I1], (8,))
    assert "reads s[8] before any lane has written it" in str(error) and "lane [7]" in str(error)


def test_two_lanes_write_different_values_to_one_element():
    def f(idx, out):
        s = pydp.local_field(np.int32, 1)
        s[0] = idx.local[0]
        pydp.group_barrier()
        out[idx] = s[0]

    assert "lane [0] writes s[0]" in str(refused(f, [I1], (8,)))


def test_lanes_that_write_one_value_do_not_race():
    def f(idx, out):
        s = pydp.local_field(np.int32, 1)
        s[0] = 7
        pydp.group_barrier()
        out[idx] = s[0]

    static_checks.check(translate(f, 1, (8,), [I1]))


def test_lanes_that_write_nan_do_not_race():
    nothing = float("nan")

    def f(idx, out):
        s = pydp.local_field(np.float32, 1)
        s[0] = nothing
        pydp.group_barrier()
        out[idx] = s[0]

    static_checks.check(translate(f, 1, (8,), [FieldType(np.dtype(np.float32), 1)]))

    def wrong(idx, out):
        s = pydp.local_field(np.float32, 1)
        s[0] = nothing if idx.local[0] < 3 else 1.0
        pydp.group_barrier()
        out[idx] = s[0]

    assert "writes s[0]" in str(refused(wrong, [FieldType(np.dtype(np.float32), 1)], (8,)))


def test_a_shift_by_a_parameter_cancels_out():
    def right(idx, out, x, first):
        s = pydp.local_field(np.int32, 64)
        s[first + idx.local[0]] = x[idx]
        out[idx] = s[first + idx.local[0]]

    def wrong(idx, out, x, first):
        s = pydp.local_field(np.int32, 64)
        s[first + idx.local[0]] = x[idx]
        out[idx] = s[first + idx.local[0] + 1]

    static_checks.check(translate(right, 1, (8,), [I1, I1, N]))
    assert "race:" in str(refused(wrong, [I1, I1, N], (8,)))


def test_accesses_of_two_branches_never_meet():
    def f(idx, out, x, first):
        s = pydp.local_field(np.int32, 8)
        s[idx.local[0]] = 0
        pydp.group_barrier()
        if first > 3:
            s[idx.local[0]] = x[idx]
        else:
            out[idx] = s[7 - idx.local[0]]

    static_checks.check(translate(f, 1, (8,), [I1, I1, N]))


def test_what_depends_on_data_is_left_alone():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        s[idx.local[0]] = 0
        pydp.group_barrier()
        s[x[idx]] = 1
        if x[idx] > 3:
            out[idx] = s[idx.local[0] + 100]

    static_checks.check(translate(f, 1, (8,), [I1, I1]))


def test_atomics_meet_but_a_plain_read_beside_them_races():
    def right(idx, out, x):
        s = pydp.local_field(np.int32, 4)
        if idx.local[0] < 4:
            s[idx.local[0]] = 0
        pydp.group_barrier()
        pydp.atomic_add(s, idx.local[0] % 4, 1)
        pydp.group_barrier()
        out[idx] = s[idx.local[0] % 4]

    def wrong(idx, out, x):
        s = pydp.local_field(np.int32, 4)
        if idx.local[0] < 4:
            s[idx.local[0]] = 0
        pydp.group_barrier()
        pydp.atomic_add(s, idx.local[0] % 4, 1)
        out[idx] = s[idx.local[0] % 4]

    static_checks.check(translate(right, 1, (8,), [I1, I1]))
    assert "updates" in str(refused(wrong, [I1, I1], (8,)))


def test_long_loops_are_bounded_work():
    def f(idx, out):
        s = pydp.local_field(np.int32, 64)
        s[idx.local[0]] = 0
        pydp.group_barrier()
        total = 0
        for i in range(100000):
            for k in range(64):
                total += s[k] * i
        out[idx] = total

    function = translate(f, 1, (64,), [I1])
    assert calls(lambda: static_checks.check(function)) < 500_000  # 143,000 here


def test_a_barrier_narrower_than_its_dependencies():
    def f(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        s[idx.local[0]] = x[idx]
        pydp.group_barrier(4)
        out[idx] = s[15 - idx.local[0]]

    error = refused(f, [I1, I1], (16,))
    assert "width 4 is too narrow" in str(error) and error.line == line_of(f, "group_barrier(4)")


def test_staging_that_clamps_its_index_writes_one_value():
    def right(idx, out, x):
        s = pydp.local_field(np.int32, 12)
        at = min(2 * idx.local[0], 11)
        value = x[idx.group[0] * 12 + at] * 2 + 1
        s[at] = value
        pydp.group_barrier()
        out[idx] = s[2 * (idx.local[0] % 6)]

    def wrong(idx, out, x):
        s = pydp.local_field(np.int32, 12)
        at = min(2 * idx.local[0], 11)
        value = x[idx] * 2 + 1
        s[at] = value
        pydp.group_barrier()
        out[idx] = s[2 * (idx.local[0] % 6)]

    reading = FieldType(np.dtype(np.int32), 1, (), False)
    static_checks.check(translate(right, 1, (8,), [I1, reading]))
    error = refused(wrong, [I1, reading], (8,))
    assert "lane [6] writes s[11]" in str(error) and error.line == line_of(wrong, "s[at] = value")


def test_lanes_that_leave_a_loop_early_keep_their_values():
    def left(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        at = idx.local[0]
        for k in range(4):
            if x[idx] > k:
                break
            at = 0
        s[at] = idx.local[0]
        out[idx] = s[at]

    def went_on(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        at = idx.local[0]
        for k in range(4):
            if x[idx] > k:
                continue
            at = 0
        s[at] = idx.local[0]
        out[idx] = s[at]

    def neither(idx, out, x):
        s = pydp.local_field(np.int32, 8)
        at = idx.local[0]
        for k in range(4):
            out[idx] = x[idx] + k
            at = 0
        s[at] = idx.local[0]
        out[idx] = s[at]

    static_checks.check(translate(left, 1, (8,), [I1, I1]))
    static_checks.check(translate(went_on, 1, (8,), [I1, I1]))
    assert "race:" in str(refused(neither, [I1, I1], (8,)))
