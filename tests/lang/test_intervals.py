"""Operations on intervals, against all pairs of values in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from pydp.lang.analysis.intervals import (
    INT32_RANGE,
    OPERATIONS,
    UNBOUNDED,
    Range,
    bounded,
    common_part,
    counter_range,
    hull,
    limits,
    trip_count,
    within,
    wrapped,
)

pytestmark = pytest.mark.host

SMALL = [(low, high) for low in range(-5, 6) for high in range(low, 6)]
COUNTS = [one for one in SMALL if one[0] >= 0]
TRUE: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "pow": lambda a, b: a**b,
}
TIGHT = ("add", "sub", "mul", "floordiv", "shl", "shr")  # the others may give more values than there are


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_holds_the_values_of_all_pairs(name: str) -> None:
    rights = COUNTS if name in ("shl", "shr", "pow") else SMALL
    for left, right in itertools.product(SMALL, rights):
        pairs = itertools.product(range(left[0], left[1] + 1), range(right[0], right[1] + 1))
        values = [TRUE[name](*pair) for pair in pairs]
        found, least = OPERATIONS[name](left, right), (min(values), max(values))
        assert within(least, found), (left, right)
        if name in TIGHT:
            assert found == least, (left, right)


@pytest.mark.parametrize(
    ("name", "left", "right", "wanted"),
    [
        ("mod", (0, 100), (1, 8), (0, 7)),
        ("mod", (0, 3), (8, 8), (0, 3)),  # no more than the dividend
        ("mod", (-3, 100), (8, 8), (0, 7)),
        ("mod", (0, 100), (-8, -1), (-7, 0)),
        ("and", (-9, 100), (0, 7), (0, 7)),
        ("and", (0, 3), (0, 7), (0, 3)),
        ("or", (0, 4), (0, 8), (0, 15)),
        ("xor", (-3, 4), (0, 3), (-8, 7)),
        ("xor", (-8, 7), (0, 0), (-8, 7)),
        ("pow", (-3, 2), (0, 3), (-27, 27)),
        ("pow", (2, 3), (1, 4), (0, 81)),
        ("pow", (2, 3), (-1, 4), UNBOUNDED),
        ("shl", (1, 1), (0, 65), UNBOUNDED),
        ("shl", (1, 1), (-1, 3), UNBOUNDED),
        ("shr", (-9, 1000), (70, 80), (-1, 0)),
        ("shr", (16, 64), (-1, 2), (0, 64)),  # the count may be any, as an unsigned number
        ("floordiv", (10, 20), (0, 0), (0, 0)),
        ("floordiv", (10, 20), (0, 5), (0, 20)),
    ],
)
def test_ranges_of_results(name: str, left: Range, right: Range, wanted: Range) -> None:
    assert OPERATIONS[name](left, right) == wanted


def test_ends_that_are_too_large_are_none() -> None:
    assert bounded((-5, 7)) == (-5, 7) and bounded(UNBOUNDED) == UNBOUNDED
    assert bounded((3, 1 << 100)) == (3, UNBOUNDED[1]) and bounded((-(1 << 100), 3)) == (UNBOUNDED[0], 3)
    assert bounded((3, (1 << 100) - 1)) == (3, (1 << 100) - 1)
    assert bounded(OPERATIONS["floordiv"](UNBOUNDED, (2, 2**63))) == UNBOUNDED
    assert bounded(OPERATIONS["sub"]((0, 9), UNBOUNDED)) == UNBOUNDED
    assert bounded(OPERATIONS["shr"](UNBOUNDED, (0, 64))) == UNBOUNDED


@pytest.mark.parametrize("name", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_ranges_of_types(name: str) -> None:
    info = np.iinfo(name)
    assert limits(np.dtype(name)) == (info.min, info.max)
    assert wrapped((info.min, info.max), np.dtype(name)) == (info.min, info.max)
    for outside in ((info.min - 1, 0), (0, info.max + 1)):
        assert wrapped(outside, np.dtype(name)) == (info.min, info.max)
    assert wrapped((3, 5), np.dtype(name)) == (3, 5)


def test_parts_of_ranges() -> None:
    assert INT32_RANGE == (-(2**31), 2**31 - 1)
    assert within((2, 3), (2, 3)) and not within((1, 3), (2, 3)) and not within((2, 4), (2, 3))
    assert hull([(3, 4), (-1, 0), (2, 9)]) == (-1, 9)
    assert common_part((0, 5), (3, 9)) == (3, 5) and common_part((0, 5), (1, 2)) == (1, 2)
    assert common_part((0, 5), (5, 9)) == (5, 5) and common_part((0, 5), (6, 9)) == (0, 5)


def test_the_counter_and_the_trip_count_of_a_loop() -> None:
    ends = [one for one in SMALL if one[0] >= -3 and one[1] <= 3]
    for start, stop, step in itertools.product(ends, ends, [*ends, (-3, -2), (2, 3)]):
        every = itertools.product(*(range(low, high + 1) for low, high in (start, stop, step)))
        loops = [range(*one) for one in every if one[2]]
        counters = [value for one in loops for value in one]
        if counters:
            found = counter_range(start, stop, step)
            assert within((min(counters), max(counters)), found), (start, stop, step)
        if not loops:
            continue
        trips = [len(one) for one in loops]
        found = trip_count((stop[0] - start[1], stop[1] - start[0]), step)
        assert within((min(trips), max(trips)), found), (start, stop, step)
        if not step[0] <= 0 <= step[1]:
            assert found == (min(trips), max(trips)), (start, stop, step)
    assert counter_range((0, 2), (5, 9), (2, 2)) == (0, 8) and counter_range((5, 9), (0, 2), (-1, -1)) == (1, 9)
    assert trip_count((-4, 10), (3, 3)) == (0, 4) and trip_count((-4, 10), (-3, -3)) == (0, 2)
    assert trip_count((-4, 10), (-1, 1)) == (0, 10)
