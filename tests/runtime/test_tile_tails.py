"""The treatment of tiles that reach over the end of the data can be chosen for each axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp


def _read(idx: Any, tiles: Any, out: Any) -> None:
    i, j = idx
    out[idx] = tiles[i // 4, j // 2][i % 4, j % 2]


def test_policies_by_axis(device: Any) -> None:
    a = np.arange(10, dtype=np.int32).reshape(5, 2)
    tiles = pydp.tile(a, (4, 2), tail=("pad", "exact"), fill=-1)
    assert tiles.tail == ("pad", "exact") and "tail=('pad', 'exact')" in repr(tiles)
    for where in (device, "host"):
        out = np.zeros((8, 2), np.int32)
        pydp.forall(out.shape, _read, tiles, out, device=where)
        assert np.array_equal(out, np.pad(a, ((0, 3), (0, 0)), constant_values=-1))


@pytest.mark.host
def test_policies_follow_their_axes() -> None:
    a = np.zeros((5, 4), np.int32)
    tiles = pydp.tile(a, (2, 1), tail=["mask", "exact"])
    assert tiles.T.tail == ("exact", "mask")
    assert pydp.section(tiles, (1, 1), (1, 2)).tail == ("mask", "exact")
    assert pydp.project(pydp.tile(a, (2, 1), tail=("mask", "exact")), 1, 0).tail == "mask"
    assert pydp.tile(a, (5, 2), tail=("exact", "exact")).tail == "exact"
    assert pydp.tile(tiles, (1, 1)).tail == ("mask", "exact")


@pytest.mark.host
@pytest.mark.parametrize("tail", ["round", ("mask",), ("mask", "round"), (), 3, ("mask",) * 3, ("exact", "mask")])
def test_what_is_refused(tail: Any) -> None:
    with pytest.raises(pydp.InvalidArgument, match="tail"):
        pydp.tile(np.zeros((5, 4)), (4, 4), tail=tail)
