"""Launches and weak integers: the ranges that a launch gives, how often it is analysed, and numbers that do not fit."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builder import add, array, assign, c, function, group, local, place, read, var

import pydp
from pydp.errors import InvalidArgument
from pydp.lang import ir
from pydp.lang.analysis import launch_integers
from pydp.lang.analysis.integer_widths import fits_32_bits
from pydp.lang.analysis.intervals import Range, limits
from pydp.lang.analysis.launch_integers import LaunchRanges, PromotedNumbers
from pydp.lang.compile import FieldType, NumberType, TupleType, translate

pytestmark = pytest.mark.host

LANES = 6
I32 = np.dtype("i4")
Q = ir.Parameter(I32, "q", 1, weak=True)
PAIR = ir.Parameter(np.dtype("u1"), "p", 2, item=1)
A = array("a", rank=2)


class Analyses(list[Callable[[ir.Expr], Range]]):
    """Stands for `fits_32_bits`: keeps the ranges that it was given, and answers with `answer`."""

    answer = False

    def __call__(self, made: ir.Function, input_range: Callable[[ir.Expr], Range]) -> bool:
        self.append(input_range)
        return self.answer


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> Analyses:
    noted = Analyses()
    monkeypatch.setattr(launch_integers, "fits_32_bits", noted)
    return noted


def launch(
    ranges: LaunchRanges, q: int = 0, *, shape: Any = (3, 17), extent: Any = (10, 20), offset: Any = (0, 0)
) -> Any:
    return ranges.fits([np.zeros(shape, "i1"), q, (5, 7)], [0], extent, offset)


def test_ranges_of_a_launch_in_groups(analyses: Analyses) -> None:
    ranges = LaunchRanges(function([], group=(4, 8), rank=2, arrays=[A], parameters=[Q, PAIR]))
    assert not launch(ranges, 5)
    input_range = analyses[-1]
    assert [input_range(local(axis)) for axis in (0, 1)] == [(0, 3), (0, 7)]
    assert [input_range(group(axis)) for axis in (0, 1)] == [(0, 2), (0, 2)]  # 10 of 4, 20 of 8
    assert [input_range(place(axis)) for axis in (0, 1)] == [(0, 11), (0, 23)]  # the last groups are not full
    assert [input_range(ir.GridExtent(I32, axis)) for axis in (0, 1)] == [(0, 10), (0, 20)]
    assert [input_range(ir.ArrayExtent(I32, A, axis)) for axis in (0, 1)] == [(0, 3), (0, 20)]  # 17 counts as 20
    assert input_range(Q) == (5, 5) and input_range(PAIR) == (7, 7)


def test_ranges_without_groups_and_with_an_offset(analyses: Analyses) -> None:
    ranges = LaunchRanges(function([], rank=2, arrays=[A], parameters=[Q, PAIR]))
    launch(ranges, -300, offset=(5, -5))
    input_range = analyses[-1]
    assert [input_range(place(axis)) for axis in (0, 1)] == [(0, 5 + 9), (-5, 19)]
    low, high = input_range(Q)
    assert low <= -300 <= high < 0 and high - low < 300 / 2


def test_ranges_of_all_launches(analyses: Analyses) -> None:
    LaunchRanges(function([], rank=2, arrays=[A], parameters=[Q, PAIR]))
    (input_range,) = analyses
    assert input_range(ir.GridExtent(I32, 0)) == input_range(ir.ArrayExtent(I32, A, 1)) == (0, 2**30)
    assert input_range(Q) == (-(2**63), 2**63 - 1)  # a Python integer, whatever the type that stands for it
    assert input_range(PAIR) == (0, 255)


def test_no_launch_is_analysed_if_32_bits_are_always_enough(analyses: Analyses) -> None:
    analyses.answer = True
    ranges = LaunchRanges(function([], rank=2, arrays=[A], parameters=[Q, PAIR]))
    assert launch(ranges, 2**40) and len(analyses) == 1
    analyses.answer = False
    assert not launch(ranges, 2**40, offset=(0, 1)) and len(analyses) == 2


def test_launches_of_about_the_same_size_share_an_answer(analyses: Analyses) -> None:
    ranges = LaunchRanges(function([], rank=2, arrays=[A], parameters=[Q, PAIR]))
    before = len(analyses)
    launch(ranges, 1000)
    for more in ({}, {"shape": (3, 18)}, {"extent": (9, 20)}):
        launch(ranges, 1000, **more)
        launch(ranges, 1001, **more)
    assert len(analyses) == before + 1
    for more in ({"shape": (4, 17)}, {"extent": (10, 21)}, {"offset": (0, 1)}):
        before = len(analyses)
        launch(ranges, 1000, **more)
        assert len(analyses) == before + 1, more


def test_a_full_stack_takes_64_bits_this_time(monkeypatch: pytest.MonkeyPatch, analyses: Analyses) -> None:
    ranges = LaunchRanges(function([], rank=2, arrays=[A], parameters=[Q, PAIR]))

    def overflow(*_: Any) -> bool:
        raise RecursionError

    monkeypatch.setattr(launch_integers, "fits_32_bits", overflow)
    assert not launch(ranges)
    monkeypatch.setattr(launch_integers, "fits_32_bits", lambda *_: True)
    assert launch(ranges)


def test_sizes_are_rounded_up_to_three_leading_digits() -> None:
    for size in range(-3, 5000):
        found = launch_integers._rounded_up(size)
        assert found == next(n for n in range(max(size, 0), 9000) if not n or n // (n & -n) < 8), size


def compared_numbers(idx, o, q, r, s, t):
    i = idx[0]
    o[idx] = (q > i) + (r > i) * 2 + (s < t) * 4


def multiplied_numbers(idx, o, q, r, s, t):
    o[idx] = (q * r + s * t + idx[0]) // 3


def sometimes_wide(idx, o, q, r, s, t):
    o[idx] = (q + r + s + t + idx[0]) // 3


@pytest.mark.parametrize(
    ("fn", "most"), [(compared_numbers, 64 + 17), (multiplied_numbers, 3 * 64 + 17), (sometimes_wide, 600 + 17)]
)
def test_numbers_that_change_on_each_call_cost_few_analyses(
    monkeypatch: pytest.MonkeyPatch, fn: Any, most: int
) -> None:
    analyses = 0

    def noted(*args: Any) -> bool:
        nonlocal analyses
        analyses += 1
        return fits_32_bits(*args)

    monkeypatch.setattr(launch_integers, "fits_32_bits", noted)
    rng = random.Random(7)
    o = np.zeros(LANES, np.int64)
    for number in range(600):
        least = 0 if fn is sometimes_wide and number % 2 else 2**27
        numbers = [rng.randrange(least, 2**29 if fn is sometimes_wide and number % 2 else 2**31) for _ in range(4)]
        numbers = [one if rng.random() < 0.5 or fn is not compared_numbers else -one for one in numbers]
        pydp.forall(LANES, fn, o, *numbers, device="host")
        stored: dict[Any, int] = {}
        for lane in range(LANES):
            fn((lane,), stored, *numbers)
        assert o.tolist() == [stored[lane,] for lane in range(LANES)]
    assert analyses <= most


def test_every_number_is_in_its_bucket() -> None:
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
        ends = limits(np.dtype(dtype))
        for k in range(65):
            for value in (2**k - 1, 2**k, 2**k + 1, -(2**k), 1 - 2**k, -1 - 2**k):
                if ends[0] <= value <= ends[1]:
                    for about in (launch_integers._about, launch_integers._wide_bucket):
                        low, high = about(value, ends)
                        assert ends[0] <= low <= value <= high <= ends[1], (dtype, value, about)


# --- numbers that are combined with a typed one


def promoted(fn: Any, dtype: str = "i4", q: Any = None) -> PromotedNumbers:
    q = NumberType(I32, True) if q is None else q
    made = translate(fn, 1, None, [FieldType(np.dtype("i8"), 1), FieldType(np.dtype(dtype), 1), q])
    return PromotedNumbers(made.weak_form or made)


def combined_with_a_sum(i, o, a, q):
    o[i] = a[i] + (q * 2 - 1)


def test_numbers_that_do_not_fit_are_refused() -> None:
    found = promoted(combined_with_a_sum)
    assert found.any and not found.assignments
    for q in (0, 2**30, -(2**30) + 1):
        found.check([None, None, q])
    for q in (2**30 + 1, -(2**30), 2**62):
        text = rf"combined_with_a_sum: .* is {2 * q - 1}, which does not fit int32"
        with pytest.raises(InvalidArgument, match=text) as raised:
            found.check([None, None, q])
        assert "-2147483648 to 2147483647 are accepted" in str(raised.value)


def weak(name: str, left: ir.Expr, right: int) -> ir.Expr:
    return ir.Binary(I32, name, left, c(right), weak=True)


def test_numbers_are_followed_through_variables() -> None:
    t, u, v, out = (ir.Variable(name, I32, weak=True) for name in ("t", "u", "v", "out"))
    x = var("x")
    body = [
        assign(t, weak("mul", Q, 2)),
        assign(v, weak("mul", Q, 3)),
        assign(u, weak("sub", read(t), 1)),
        assign(out, read(v)),
        assign(x, add(read(x), ir.Cast(I32, read(u), promoted=True))),
    ]
    found = PromotedNumbers(function(body, parameters=[Q]))
    assert [one.variable.name for one in found.assignments] == ["t", "u"]
    found.check([None, 2**30])
    with pytest.raises(InvalidArgument, match=rf"f: u is {2**31 + 1}, which does not fit int32"):
        found.check([None, 2**30 + 1])
    # A variable with two assignments, or of a typed integer, may have any value.
    assert not PromotedNumbers(function([*body, assign(t, 0)], parameters=[Q])).any
    typed = [assign(var("t"), weak("mul", Q, 2)), *body[1:]]
    assert not PromotedNumbers(function(typed, parameters=[Q])).any


def test_the_type_of_the_other_operand_decides() -> None:
    for dtype, fitting, wrong in (("u4", [1, 2**31], [0, 2**31 + 1]), ("i8", [2**62], [2**62 + 1])):
        found = promoted(combined_with_a_sum, dtype)
        for q in fitting:
            found.check([None, None, q])
        for q in wrong:
            with pytest.raises(InvalidArgument, match="does not fit"):
                found.check([None, None, q])


def test_numbers_that_depend_on_the_lane_are_not_checked() -> None:
    def by_the_lane(i: Any, o: Any, a: Any, q: Any) -> None:
        o[i] = a[i] + (q + i[0])

    def assigned_twice(i: Any, o: Any, a: Any, q: Any) -> None:
        t = q
        if i[0] > 3:
            t = 5
        o[i] = a[i] + t

    def compared(i: Any, o: Any, a: Any, q: Any) -> None:
        o[i] = a[i] < q

    for fn in (by_the_lane, assigned_twice, compared):
        found = promoted(fn)
        assert not found.any
        found.check([None, None, 2**40])


def test_items_of_tuples() -> None:
    def second(i: Any, o: Any, a: Any, q: Any) -> None:
        o[i] = a[i] * q[1]

    found = promoted(second, q=TupleType((NumberType(I32, True), NumberType(I32, True))))
    found.check([None, None, (2**40, 5)])
    with pytest.raises(InvalidArgument, match=f"is {2**40}"):
        found.check([None, None, (5, 2**40)])


def test_long_sums_that_do_not_fit_are_refused() -> None:
    """They are computed in parts, each in a variable."""
    space: dict[str, Any] = {}
    text = f"def long_sum(idx, o, q, a):\n    o[idx] = a[idx] + ({' + '.join(['q * 3'] * 300)})\n"
    linecache.cache["<long sum>"] = (len(text), None, text.splitlines(True), "<long sum>")
    exec(compile(text, "<long sum>", "exec"), space)
    a, o = np.ones(LANES, np.int32), np.full(LANES, 7, np.int64)
    for q in (2**40, 2**31 // 900 + 1):
        with pytest.raises(InvalidArgument, match=f"long_sum: .* is {900 * q}, which does not fit int32"):
            pydp.forall(LANES, space["long_sum"], o, q, a, device="host")
    assert (o == 7).all()
    for q in (5, 2**31 // 900):
        pydp.forall(LANES, space["long_sum"], o, q, a, device="host")
        assert (o == 900 * q + 1).all()
