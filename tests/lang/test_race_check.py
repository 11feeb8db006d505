"""Races on arrays are rejected before the launch with the line of the second access; similar kernels without a race are
accepted (race_cases.py)."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from counted import calls
from race_cases import (
    RIGHT,
    WRONG,
    shifts_into_another,
    transposes_in_place,
    what_depends_on_data_is_left_alone,
    what_does_not_exist_does_not_race,
)

import pydp
from pydp.lang.analysis.launch_check import LaunchCheck
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host


def ints(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def made(args):
    return [
        np.zeros(20, arg) if isinstance(arg, np.dtype) else ints(*arg) if type(arg) is tuple else arg for arg in args
    ]


def lines_here(fn):
    lines, first = inspect.getsourcelines(fn)
    return {first + n for n, line in enumerate(lines) if line.rstrip().endswith("# here")}


def test_there_are_enough():
    assert len(WRONG) >= 12 and len(RIGHT) >= 12


@pytest.mark.parametrize("fn, says, grid, args, group", WRONG, ids=lambda item: getattr(item, "__name__", ""))
def test_refused(fn, says, grid, args, group):
    args = made(args)
    before = [np.copy(arg) for arg in args]
    for _ in range(2):
        with pytest.raises(VectorError) as caught:
            pydp.forall(grid, fn, *args, group=group, device="host")
        assert "race: " in caught.value.message and says in caught.value.message
        assert caught.value.line in lines_here(fn), str(caught.value)
    for one, other in zip(args, before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("fn, grid, args, group", RIGHT, ids=lambda item: getattr(item, "__name__", ""))
def test_accepted(fn, grid, args, group):
    pydp.forall(grid, fn, *made(args), group=group, device="host")
    with pydp.checked():
        if fn not in (what_depends_on_data_is_left_alone, what_does_not_exist_does_not_race, *BEYOND):
            pydp.forall(grid, fn, *made(args), group=group)


BEYOND = (shifts_into_another,)  # reads outside an array, which checked mode reports


def test_one_array_given_twice(device):
    a, b = ints(40), ints(40)
    pydp.forall(40, shifts_into_another, a, b, device="host")
    with pytest.raises(VectorError, match=r"reads a\[1\] .* writes out\[1\], the same element, in line"):
        pydp.forall(40, shifts_into_another, b, b, device="host")
    f, g = pydp.field(ints(40), device=device), pydp.field(ints(40), device=device)
    pydp.forall(40, shifts_into_another, f, g)
    with pytest.raises(VectorError, match="the same element"):
        pydp.forall(40, shifts_into_another, f, f)
    with pytest.raises(VectorError, match="the same element"):
        pydp.forall(30, shifts_into_another, f[:30], f[:30])
    with pytest.raises(VectorError, match="the same element"):
        pydp.forall(30, shifts_into_another, f.array, f.array)


def test_ranks_of_none_and_of_six():
    def nothing(idx, o):
        o[()] = 1

    pydp.forall((), nothing, np.zeros((), np.int32), device="host")

    def six(idx, o):
        i, j, k, m, n, p = idx
        o[i, j, k, m, p, n] = o[idx] + 1

    with pytest.raises(VectorError, match=r"race: lane \[0, 0, 0, 0, [01], [01]\]"):
        pydp.forall((3, 3, 3, 4, 5, 5), six, ints(3, 3, 3, 4, 5, 5), device="host")
    pydp.forall((0, 4), transposes_in_place, ints(4, 4), device="host")


def test_the_work_is_bounded():
    def sums(idx, o, a):
        total = 0
        for i in range(100_000):
            for k in range(64):
                total += a[k] * i
                o[0] = 7
        o[idx] = total

    function = pydp.lang.compile.translate(sums, 1, None, [pydp.lang.compile.FieldType(np.dtype("i4"), 1)] * 2)

    def check():
        with pytest.raises(VectorError, match="race:"):  # o[0] is also one lane's own
            LaunchCheck(function, False).check((10**6,), (0,), ((10**6,), (64,)), (), {})

    assert calls(check) < 500_000  # 128,000 here


def copies(idx, a, b):
    a[idx] = b[idx]


def swaps_first(idx, a, b):
    x, y = a[idx], b[idx]
    a[idx] = y
    b[idx] = x


@pytest.mark.parametrize("make", [np.array, pydp.field])
def test_arguments_that_overlap(device, make):
    whole = make(np.arange(40, dtype=np.int32))
    pydp.forall(20, copies, whole[:20], whole[20:])  # what passed once says nothing of other places
    shared = [
        (copies, (whole[1:], whole[:39]), r"reads b\[1\] in line .* writes a\[0\], the same element"),
        (copies, (whole[:20], whole[19::-1]), "the same element"),
        (copies, (whole[:20], whole[:40:2]), "the same element"),
        (swaps_first, (whole[:20], whole[19::-1]), "the same element"),
    ]
    for fn, arguments, message in shared:
        for where in ({"device": "host"}, {}):
            with pytest.raises(VectorError, match=message):
                pydp.forall(20, fn, *arguments, **where)


def test_arguments_that_share_memory_but_no_elements(device):
    whole = np.arange(40, dtype=np.int32)
    pydp.forall(20, copies, whole[::2], whole[1::2])
    assert whole.tolist() == [n | 1 for n in range(40)]
    pydp.forall(20, swaps_first, whole[:20], whole[39:19:-1])
    assert whole.tolist() == [n | 1 for n in range(39, -1, -1)]
    square = np.arange(36, dtype=np.int32).reshape(6, 6)
    pydp.forall((3, 6), copies, square[:3], square[3:])
    assert np.array_equal(square[:3], square[3:])
    with pytest.raises(VectorError, match="the same element"):
        pydp.forall((6, 6), copies, square, square.T)
    members = np.zeros(8, [("x", "i4"), ("y", "i4")])
    pydp.forall(8, copies, members["x"], members["y"])


def shifts_by(idx, a, by):
    a[idx] = a[idx[0] + by] + 1


def test_what_passed_with_one_number_or_offset_says_nothing_of_others():
    a = ints(64)
    pydp.forall(64, shifts_by, a, 0, device="host")
    pydp.forall(64, shifts_by, a, 64, device="host")
    for by in (1, -1, 32):
        with pytest.raises(VectorError, match="lanes run in no particular order"):
            pydp.forall(64, shifts_by, a, by, device="host")


def reads_up_to_40(idx, a):
    a[idx] = a[min(idx[0], 40)] + 1


def test_what_passed_in_one_place_of_a_grid_says_nothing_of_others():
    a = ints(128)
    pydp.forall(32, reads_up_to_40, a, device="host")
    wrong = r"lane \[41\] reads .*a\[40\].* and lane \[40\] writes .*: lanes run in no particular order"
    with pytest.raises(VectorError, match=wrong):
        pydp.forall(pydp.grid(32, offset=32), reads_up_to_40, a, device="host")
    with pydp.checked(), pytest.raises(VectorError, match=r"lane \[40\] writes 41 to .* and lane \[63\] reads 40"):
        pydp.forall(pydp.grid(32, offset=32), reads_up_to_40, a, device="host")


def wraps_round(idx, out):
    out[idx[0] % out.shape[0]] = idx[0]


def half_behind(idx, w):
    w[idx] = w[idx[0] + 50]


def test_what_passed_with_one_shape_says_nothing_of_others():
    for fn, right, wrong in ((wraps_round, 100, 50), (wraps_round, 100, 70), (half_behind, 50, 100)):
        out = np.zeros(right, np.int32)
        pydp.forall(100, fn, out, device="host")
        for _ in range(2):
            with pytest.raises(VectorError, match="race: "):
                pydp.forall(100, fn, np.zeros(wrong, np.int32), device="host")
            pydp.forall(100, fn, out, device="host")
