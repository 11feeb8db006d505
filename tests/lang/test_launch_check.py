"""Which launches are checked: each kind once, a bounded number of similar ones, with one trace for all checks."""

from __future__ import annotations

import numpy as np
import pytest

import pydp
from pydp import group_barrier, local_field
from pydp.lang.analysis import barrier_check, launch_check
from pydp.lang.analysis.barrier_check import BarrierCheck
from pydp.lang.analysis.launch_check import MAX_SIMILAR_LAUNCHES, LaunchCheck, control_inputs
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.execute.launch_lanes import LaunchValues, trace_launch
from pydp.lang.execute.symbolic_run import Tracer, trace_group
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host
I1, N = FieldType(np.dtype(np.int32), 1), NumberType(np.dtype(np.int32), True)


@pytest.fixture
def traced(monkeypatch):
    """The extents of the traced launches."""
    seen = []
    trace = launch_check.trace_launch
    monkeypatch.setattr(launch_check, "trace_launch", lambda *given: (seen.append(given[1].extent), trace(*given))[1])
    return seen


def ints(size):
    return np.arange(size, dtype=np.int32)


def test_similar_launches_share_one_check(traced):
    def double_last(idx, a):
        a[99 - idx[0]] = 2 * a[99 - idx[0]]

    for size in (40, 40, 41, 63, 64, 65, 40):
        pydp.forall(size, double_last, ints(100), device="host")
    assert traced == [(40,), (64,)]


def test_functions_whose_lanes_access_their_own_elements_are_not_traced(traced):
    def double(idx, a, b):
        a[idx] = 2 * a[idx] + b[idx[0] ^ 1]

    pydp.forall(40, double, ints(100), ints(100), device="host")
    assert not traced
    a = ints(100)
    with pytest.raises(VectorError, match="race:"):
        pydp.forall(40, double, a, a, device="host")
    assert traced == [(40,)]


def test_local_fields_are_checked_once_if_no_launch_can_change_the_result(traced):
    def total(idx, a):
        s = local_field(np.int32, 16)
        s[idx.local[0]] = a[idx]
        step = 8
        while step:
            group_barrier()
            if idx.local[0] < step:
                s[idx.local[0]] += s[idx.local[0] + step]
            step = step // 2
        a[idx] = s[idx.local[0]]

    a = np.ones(32, np.int32)
    pydp.forall(32, total, a, group=16, device="host")
    assert (a[::16] == 16).all() and not traced


def test_sizes_on_which_an_index_depends_are_checked(traced):
    def last(idx, a):
        p = pydp.private_field(np.int32, 64)
        p[a.shape[0] - 1] = 1
        a[idx] = p[a.shape[0] - 1]

    for size in (40, 41, 40):
        pydp.forall(size, last, ints(size), device="host")
    assert traced == [(40,), (41,)]
    with pytest.raises(VectorError, match="index 64 of axis 0"):
        pydp.forall(65, last, ints(65), device="host")


def by_a_number(idx, out, n):
    s = local_field(np.int32, 16)
    s[idx.local[0]] = idx.local[0]
    group_barrier(4)
    out[idx] = s[idx.local[0] ^ 1] if idx.local[0] < n else n


def test_numbers_of_one_magnitude_are_checked_a_bounded_number_of_times(traced):
    for n in range(1 << 10, (1 << 10) + 200):
        pydp.forall(32, by_a_number, ints(32), n, group=16, device="host")
    assert len(traced) == MAX_SIMILAR_LAUNCHES


def by_a_width(idx, out, n):
    s = local_field(np.int32, 16)
    width = 16
    for k in range(2):
        s[idx.local[0]] = out[idx] + k
        if n == 1100 + k:
            width = 15 - k
        for _ in range(3):
            out[idx] = k
        group_barrier(width)


def test_computed_widths_are_checked_for_every_launch(traced):
    for n in range(1 << 10, (1 << 10) + MAX_SIMILAR_LAUNCHES + 3):
        pydp.forall(32, by_a_width, ints(32), n, group=16, device="host")
    assert len(traced) == MAX_SIMILAR_LAUNCHES
    for n, width in ((1100, 15), (1101, 14)):
        with pytest.raises(VectorError, match=f"width is {width};"):
            pydp.forall(32, by_a_width, ints(32), n, group=16, device="host")
    assert len(traced) == MAX_SIMILAR_LAUNCHES


def test_computed_widths_are_checked_in_all_groups():
    def by_a_group(idx, a, special, n):
        width = 16
        if idx.group[0] == special:
            width = n
        group_barrier(width)
        a[idx] = a[idx] + 1

    a = ints(160_000)
    pydp.forall(a.shape, by_a_group, a, 5000, 8, group=16, device="host")
    with pytest.raises(VectorError, match="width is 15;"):
        pydp.forall(a.shape, by_a_group, a, 5000, 15, group=16, device="host")
    assert (a == ints(160_000) + 1).all()


def test_the_caches_are_bounded(monkeypatch):
    kept = []
    check = LaunchCheck.check

    def small(self, *given, **named):
        monkeypatch.setattr(self._passed, "bound", 8)
        monkeypatch.setattr(self._checked_by_magnitude, "bound", 8)
        kept.append(self)
        check(self, *given, **named)

    monkeypatch.setattr(LaunchCheck, "check", small)
    for size in range(30):
        pydp.forall(32, by_a_number, ints(32), 1 << size, group=16, device="host")
    assert len(kept) == 30
    assert max(len(kept[-1]._passed), len(kept[-1]._checked_by_magnitude)) <= 8


def test_a_first_call_traces_a_function_and_its_launch_once(monkeypatch, device):
    seen = []
    start = Tracer.__init__
    monkeypatch.setattr(Tracer, "__init__", lambda self, *given: (seen.append(1), start(self, *given))[1])

    def exchange(idx, x, out, n):
        s = local_field(np.int32, 16)
        s[idx.local[0]] = x[idx]
        group_barrier(8)
        out[idx] = s[(idx.local[0] ^ 7) + n - n]

    pydp.forall(32, exchange, ints(32), ints(32), 3, group=16, spec={"mapping": "simt"})
    assert len(seen) == 2
    pydp.forall(32, exchange, ints(32), ints(32), 3, group=16, spec={"mapping": "simt"})
    assert len(seen) == 2


def test_a_trace_is_made_again_only_if_it_was_cut():
    def sums(idx, out):
        total = 0
        for k in range(50):
            total += out[k]
        out[idx] = total

    function = translate(sums, 1, None, [I1])
    cut = trace_group(function, 60)
    whole = trace_group(function, 1000)
    assert len(cut) < 50 < len(whole)
    assert trace_group(function, 60) is whole and trace_group(function, 10_000) is whole


def in_a_branch_that_no_lane_reaches(idx, x, out, n, width):
    s = local_field(np.int32, 8)
    s[idx.local[0]] = x[idx]
    if n == 1:
        out[idx] = 0
    else:
        if n == 1:
            group_barrier(width)
    out[idx] = s[idx.local[0] ^ 7]


def in_a_group_that_the_grid_lacks(idx, x, out, n, width):
    s = local_field(np.int32, 8)
    s[idx.local[0]] = x[idx]
    if idx.group[0] >= n:
        group_barrier(width)
    out[idx] = s[idx.local[0] ^ 7]


def in_a_loop_without_iterations(idx, x, out, n, width):
    s = local_field(np.int32, 8)
    s[idx.local[0]] = x[idx]
    for _ in range(n, 2):
        group_barrier(width)
    out[idx] = s[idx.local[0] ^ 7]


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize(
    "fn", [in_a_branch_that_no_lane_reaches, in_a_group_that_the_grid_lacks, in_a_loop_without_iterations]
)
def test_a_barrier_that_a_launch_does_not_reach_orders_no_lanes(fn, width):
    with pytest.raises(VectorError, match=r"race: .* s\[0\] .* there is no group_barrier\(\) between them"):
        pydp.forall(32, fn, ints(32), ints(32), 4, width, group=8, device="host")


def test_local_fields_are_accepted_if_the_launch_reaches_the_barrier():
    for fn in (in_a_group_that_the_grid_lacks, in_a_loop_without_iterations):
        out = ints(29)
        pydp.forall(29, fn, ints(32), out, 0, 8, group=8, device="host")
        assert out[:24].tolist() == [k ^ 7 for k in range(24)]


def test_loops_with_empty_bodies_are_cut():
    def empty(idx, out, n):
        for _ in range(n):
            for _ in range(n):
                pass
        out[idx] = n

    function, size = translate(empty, 1, None, [I1, N]), 20_000
    trace = trace_launch(function, LaunchValues((4,), (0,), {0: (4,)}, {1: size}), {"out"})
    assert trace.is_cut


def test_loops_that_only_sum_are_cut_in_the_check_of_widths(monkeypatch):
    def summed(idx, x, out, n, width):
        s = local_field(np.int32, 8)
        total = 0
        for k in range(n):
            total += x[k]
        s[idx.local[0]] = total
        group_barrier(width)
        out[idx] = s[idx.local[0] ^ 7]

    function = translate(summed, 1, (8,), [I1, I1, N, N])
    check = BarrierCheck(function, *control_inputs(function.body))
    seen = []

    def seen_trace(*given, **named):
        seen.append(trace_launch(*given, **named))
        return seen[-1]

    monkeypatch.setattr(barrier_check, "trace_launch", seen_trace)
    with pytest.raises(VectorError, match="width is 3;"):
        check.check_values(LaunchValues((8,), (0,), {0: (4,), 1: (8,)}, {2: 30_000, 3: 3}))
    assert seen[0].is_cut


def test_control_inputs():
    def mixed(idx, out, first, second, third):
        limit = 3
        if out[idx] > 2:
            limit = first + 1
        for _ in range(limit):
            out[idx] = second
        if third > 2:
            out[idx] = out.shape[0]

    inputs, variables = control_inputs(translate(mixed, 1, None, [I1, N, N, N]).body)
    assert {getattr(one, "name", "an extent") for one in inputs} == {"first", "third"}
    assert "limit" in variables
