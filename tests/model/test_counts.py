"""Counts of candidates against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pydp.errors import InvalidArgument
from pydp.model.architectures import by_target, rates_of
from pydp.model.counts import Counts, Phase, efficiency, operations_per_cycle, spread

pytestmark = pytest.mark.host


def test_totals() -> None:
    first = Phase("read", groups=8, operations=100.0, read=640.0, local_bytes=32, registers=20)
    second = Phase("write", groups=2, lanes=64, operations=300.0, written=64.0, launches=0, registers=40)
    found = Counts("float32", (first, second))
    assert (found.registers, found.main.name) == (40, "write")
    assert (second.work_items, first.bytes) == (128, 640.0)


@pytest.mark.parametrize(
    "wrong",
    [{"operations": -1.0}, {"groups": 0}, {"lanes": 0}, {"efficiency": 0.0}, {"efficiency": 1.5}, {"balance": 0.5}],
)
def test_counts_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Counts("float32", (Phase("wrong", **wrong),))
    with pytest.raises(InvalidArgument):
        Counts("float32", ())


def test_the_busiest_unit() -> None:
    assert spread(4, 4) == 1.0
    assert spread(5, 4) == pytest.approx(8 / 5)  # one unit has two pieces of five: 2 / (5 / 4)
    assert spread(1, 4) == 4.0
    with pytest.raises(InvalidArgument):
        spread(0, 4)


def test_operations_of_a_cycle() -> None:
    profile, _ = by_target("avx512")
    rates = {name: operations_per_cycle(profile, name) for name in ("float32", "float64", "int32", "uint64")}
    assert rates == {"float32": 64.0, "float64": 32.0, "int32": 32.0, "uint64": 16.0}
    assert efficiency(profile, "float32", 32.0, 1.0) == 0.5
    assert efficiency(profile, "float32", 32.0, 0.1) == 1.0
    # The same as the rates' operations over the clock.
    table = rates_of(profile)
    for name, each in rates.items():
        assert table.operations(name) == pytest.approx(each * 3e9)
