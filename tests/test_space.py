"""Extents, indexes, grids and the arithmetic of tiles."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pydp
from pydp.errors import InvalidArgument
from pydp.space import Extent, Grid, Index, tile_count, tile_grid

pytestmark = pytest.mark.host


@st.composite
def places_and_tiles(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    rank = draw(st.integers(0, 6))
    places = draw(st.lists(st.integers(-(2**40), 2**40), min_size=rank, max_size=rank))
    tiles = draw(st.lists(st.integers(1, 2**20), min_size=rank, max_size=rank))
    return places, tiles


@given(places_and_tiles())
def test_every_place_has_one_tile_and_one_local(case: tuple[list[int], list[int]]) -> None:
    place, tile = case
    t, local = Index(place) // Extent(tile), Index(place) % Extent(tile)
    assert t * Extent(tile) + local == tuple(place)
    assert all(0 <= at < size for at, size in zip(local, tile, strict=True))
    for axis in range(len(place)):
        assert t[axis] * tile[axis] + local[axis] == place[axis]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5)), max_size=4))
def test_tiles_partition_the_extent(axes: list[tuple[int, int]]) -> None:
    sizes, tile = [size for size, _ in axes], [size for _, size in axes]
    seen: list[tuple[int, ...]] = []
    for t in Grid(tile_count(sizes, tile)):
        seen += [tuple(place) for place in tile_grid(sizes, t, tile)]
    assert sorted(seen) == list(itertools.product(*map(range, sizes)))


def test_counts_of_tiles_round_up() -> None:
    assert tile_count((4, 4), (2, 2)) == (2, 2)
    assert tile_count((5, 7), (4, 4)) == (2, 2)
    assert tile_count((10**7, 10**7), (64, 64)) == (156250, 156250)
    assert tile_count((0, 3), (8, 8)) == (0, 1)
    assert tile_count((), ()) == ()
    assert tile_count(2**40 + 1, 2**20) == (2**20 + 1,)


def test_edge_tiles_are_cut_off() -> None:
    assert tile_grid((5, 7), (1, 1), (4, 4)) == Grid((1, 3), (4, 4))
    assert tile_grid((5, 7), (0, 0), (4, 4)) == Grid((4, 4))
    with pytest.raises(InvalidArgument, match=r"no tile \(2, 0\)"):
        tile_grid((5, 7), (2, 0), (4, 4))
    with pytest.raises(InvalidArgument, match="no tile"):
        tile_grid((5, 7), (0, -1), (4, 4))


def test_arithmetic_goes_axis_by_axis() -> None:
    a, b, ones = pydp.index(5, -3), pydp.index(2, 2), (1, 1)
    assert a + b == (7, -1) and a - b == (3, -5) and a * b == (10, -6)
    assert a // b == (2, -2) and a % b == (1, 1)
    assert a + 1 == (6, -2) and 1 - a == (-4, 4) and ones + a == (6, -2) and [2, 2] * a == (10, -6)
    assert 7 // b == (3, 3) and 7 % b == (1, 1) and np.int64(2) * b == (4, 4)
    assert -a == (-5, 3) and isinstance(-pydp.extent(4), Index) and a + (2 > 1) == (6, -2)
    assert isinstance(a + b, Index) and isinstance(pydp.extent(4, 6) // 2, Extent)
    assert isinstance(pydp.extent(4, 6) - pydp.index(5, 0), Index)
    assert pydp.extent(4, 6).size == 24 and pydp.extent().size == 1 and pydp.extent(3, 5)(1) == 5
    assert a.rank == 2 and pydp.extent().rank == 0


def test_arithmetic_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InvalidArgument, match="differ in rank"):
        pydp.index(1, 2) + pydp.index(1, 2, 3)
    with pytest.raises(InvalidArgument, match="0 or more"):
        pydp.extent(1, 2) - 2
    with pytest.raises(InvalidArgument, match="zero"):
        pydp.index(1, 2) // (1, 0)
    with pytest.raises(TypeError):
        pydp.index(1) + "x"


def test_constructors() -> None:
    assert pydp.extent(2, 3) == pydp.extent((2, 3)) == pydp.extent([2, 3]) == (2, 3)
    assert pydp.extent(np.int32(4)) == (4,) and pydp.index() == () and pydp.index(-1) == (-1,)
    assert pydp.grid(2, 3) == pydp.grid((2, 3)) == Grid((2, 3), (0, 0))
    assert pydp.grid((2, 3), offset=(1, 1)) == pydp.grid((2, 3), (1, 1)) == Grid((2, 3), (1, 1))
    assert pydp.grid(np.zeros((4, 5))) == Grid((4, 5))
    assert pydp.grid(Grid((2,), (1,))) == Grid((2,), (1,)) and pydp.grid(4) == Grid((4,))
    assert pydp.extent(Grid((2, 3))) == (2, 3)
    assert pydp.grid() == Grid(()) and Grid(()).size == 1 and list(Grid(())) == [()]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pydp.extent(1, 2, 3, 4, 5, 6, 7), "ranks 0 to 6"),
        (lambda: pydp.extent(2, -1), "0 or more"),
        (lambda: pydp.extent(2.5), "integers"),
        (lambda: pydp.index("abc"), "integers"),
        (lambda: pydp.index(None), "integers"),
        (lambda: pydp.extent(True), "integers, not True"),
        (lambda: pydp.grid((True, 3)), "integers"),
        (lambda: pydp.grid((2, 3), offset=(1,)), "differ in rank"),
        (lambda: tile_count((2, 3), (1,)), "the data has 2"),
        (lambda: tile_count((2, 3), (1, 0)), "1 or more"),
        (lambda: (1, 2, 3) in Grid((2, 2)), "the grid has 2"),
    ],
)
def test_wrong_values_are_named(make: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()  # type: ignore[operator]


def test_grids() -> None:
    g = Grid((2, 3), (10, -1))
    assert g.rank == 2 and g.size == 6 and len(g) == 6 and g.stop == (12, 2)
    assert (10, -1) in g and (11, 1) in g and (12, 0) not in g and (10, 2) not in g
    assert [tuple(i) for i in g][:4] == [(10, -1), (10, 0), (10, 1), (11, -1)]
    assert g.tiles((2, 2)) == Grid((1, 2)) and not Grid((0, 3)) and hash(g) == hash(Grid((2, 3), (10, -1)))
    assert repr(g) == "Grid((2, 3), offset=(10, -1))" and repr(Grid((2,))) == "Grid((2,))"
    assert g != 3
    with pytest.raises(AttributeError):
        g.extent = Extent((1, 1))  # type: ignore[misc]


def test_they_travel_between_processes() -> None:
    for value in (Extent((2, 3)), Index((-1, 2)), Grid((2, 3), (1, 1))):
        again = pickle.loads(pickle.dumps(value))
        assert again == value and type(again) is type(value)
