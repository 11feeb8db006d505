"""Rates by type, and their way through JSON."""

from __future__ import annotations

import dataclasses
import math

import pytest

from pydp.errors import InvalidArgument
from pydp.model.rates import Rates, from_dict

pytestmark = pytest.mark.host

# Four units of 10 Gop/s; 100 MB/s written, 200 MB/s read, 60 MB/s for a unit alone; round numbers to work with.
RATES = Rates(
    units=4, float32=10e9, float64=5e9, integer=8e9, memory_read=200e6, memory_write=100e6, unit_memory=60e6,
    unit_cache=1e9, launch=1e-5, group=1e-6, barrier=1e-9, lane_slowdown=2.0, signal=1e-6,
)  # fmt: skip


def test_rates_by_type() -> None:
    wanted = {"float32": 10e9, "complex64": 10e9, "float64": 5e9, "complex128": 5e9, "int32": 8e9, "uint64": 4e9}
    assert {name: RATES.operations(name) for name in wanted} == wanted


def test_rates_go_through_json() -> None:
    assert from_dict(RATES.as_dict()) == RATES
    for wrong in ({"float32": "fast"}, {"float32": -1.0}, {"float32": math.nan}, {"units": 2.5}, {"more": 1.0}):
        with pytest.raises(InvalidArgument):
            from_dict({**RATES.as_dict(), **wrong})
    with pytest.raises(InvalidArgument):
        from_dict({})


def test_slowdown_is_relative_to_float32() -> None:
    wanted = {"float32": 1.0, "float64": 2.0, "int32": 1.25, "int64": 2.5, "int32,float64": 2.0}
    assert {name: RATES.slowdown(name) for name in wanted} == wanted


@pytest.mark.parametrize("figure", [0, -1.0, 1e18, math.nan, math.inf])
def test_figures_are_positive_numbers(figure: float) -> None:
    with pytest.raises(InvalidArgument, match=r"launch is .*positive"):
        dataclasses.replace(RATES, launch=figure)
