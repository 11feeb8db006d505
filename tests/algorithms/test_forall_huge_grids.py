"""Grids that a launch, or 64-bit indexes, cannot hold are refused before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.space import Grid


def ones(index: Any, o: Any) -> None:
    o[index] = 1


@pytest.mark.parametrize("call", [pydp.forall, lambda *args: pydp.explain(pydp.forall, *args)])
def test_work_items_that_64_bits_do_not_count(device: Any, call: Any) -> None:
    x = pydp.zeros((3, 3), np.int32, device=device)
    with pytest.raises(UnsupportedOnDevice, match=r"the grid \(1099511627776, 1099511627776\) has .* 2\*\*63 - 1 w"):
        call((1 << 40, 1 << 40), ones, x)
    assert not x.get().any()


GRIDS = [(1 << 63,), Grid(4, 1 << 63), Grid(4, -(1 << 63) - 1), Grid(1 << 62, (1 << 62) + 1)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("call", [pydp.forall, lambda *args: pydp.explain(pydp.forall, *args)])
def test_indexes_beyond_64_bits(device: Any, call: Any, grid: Any) -> None:
    with pytest.raises(InvalidArgument, match="sizes and indexes that fit int64 are accepted"):
        call(grid, ones, pydp.zeros(4, device=device))


def test_more_groups_than_the_driver_counts(device: Any) -> None:
    if device.quirks.most_groups >= 1 << 62:
        pytest.skip("the driver counts work-groups with 64 bits")
    x = pydp.zeros(4, np.int32, device=device)
    for grid in (1 << 48, 1 << 62):
        with pytest.raises(UnsupportedOnDevice, match=f"at most {device.quirks.most_groups} work-groups and"):
            pydp.forall((grid,), ones, x)
    assert not x.get().any()
    text = str(pydp.explain(pydp.forall, (1 << 36,), ones, x))
    assert "work-items" in text
