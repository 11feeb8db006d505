"""Tiles, sections, projections and read-only views, of NumPy arrays and of fields, in any order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.errors import InvalidArgument
from pydp.runtime.field.field import Field
from pydp.runtime.field.tile_range import TileRange, TileType
from pydp.runtime.field.views import describe
from pydp.space import Grid


def host(x: Any) -> np.ndarray:
    return x.get() if isinstance(x, Field) else np.asarray(x)


def numbered(sizes: list[int]) -> np.ndarray:
    return np.arange(int(np.prod(sizes)), dtype=np.int32).reshape(sizes)


shapes = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(1, 3)), max_size=3)


@pytest.mark.host
@given(shapes)
def test_the_identity_of_tiles(axes: list[tuple[int, int, int]]) -> None:
    data, tile = numbered([n for n, _, _ in axes]), [t for _, t, _ in axes]
    tiled = pydp.tile(data, tile)
    assert tiled.rank == data.ndim and tiled.grid == Grid(tiled.extent) and tiled.element_type.extent == tuple(tile)
    seen = np.zeros(data.shape, int)
    for t in tiled.grid:
        part = tiled[t]
        assert tiled.grid_of(t) == Grid(part.shape, t * pydp.extent(tile))
        for local in itertools.product(*map(range, part.shape)):
            place = t * pydp.extent(tile) + local
            assert part[local] == data[place] == tiled(*t)[local]
            seen[place] += 1
    assert (seen == 1).all()


@pytest.mark.host
@given(shapes)
def test_tiles_of_tiles(axes: list[tuple[int, int, int]]) -> None:
    data = numbered([n for n, _, _ in axes])
    outer, inner = [t for _, t, _ in axes], [t for _, _, t in axes]
    twice = pydp.tile(pydp.tile(data, outer), inner)
    assert twice.tiles == (tuple(outer), tuple(inner)) and twice.extent == pydp.tile(data, outer).extent
    assert twice.element_type == TileType(pydp.extent(outer), TileType(pydp.extent(inner), data.dtype))
    seen = []
    for t in twice.grid:
        again = pydp.tile(pydp.tile(data, outer)[t], inner)
        assert twice[t].extent == again.extent
        for t2 in twice[t].grid:
            part = twice[t][t2]
            np.testing.assert_array_equal(part, again[t2])
            for local in itertools.product(*map(range, part.shape)):
                place = t * pydp.extent(outer) + t2 * pydp.extent(inner) + local
                assert part[local] == data[place]
                seen.append(tuple(place))
    assert sorted(seen) == list(itertools.product(*map(range, data.shape)))


@settings(max_examples=60)
@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_operators_compose(device: Any, data: st.DataObject, sizes: list[int]) -> None:
    values = numbered(sizes)
    view: Any = pydp.field(values) if data.draw(st.booleans()) else values.copy()
    kind = type(view)
    for step in data.draw(st.lists(st.sampled_from(["T", "section", "project", "read_only", "slice"]), max_size=4)):
        shape = values.shape
        if step == "T":
            values, view = values.T, view.T
        elif step == "section":
            low = [data.draw(st.integers(0, n)) for n in shape]
            size = [data.draw(st.integers(0, n - at)) for n, at in zip(shape, low, strict=True)]
            values = values[(*(slice(at, at + n) for at, n in zip(low, size, strict=True)), ...)]
            view = pydp.section(view, low, size)
        elif step == "project" and 0 not in shape and shape:
            axis = data.draw(st.integers(-len(shape), len(shape) - 1))
            at = data.draw(st.integers(0, shape[axis] - 1))
            values, view = np.asarray(values.take(at, axis)), pydp.project(view, axis, at)
        elif step == "read_only":
            view = pydp.read_only(view)
            assert not describe(view).writable
        elif step == "slice":
            values, view = values[..., ::-1] if shape else values, view[..., ::-1] if shape else view
    assert isinstance(view, kind) and view.shape == values.shape
    tile = [data.draw(st.integers(1, 4)) for _ in values.shape]
    tiled, expected = pydp.tile(view, tile), pydp.tile(values, tile)
    if data.draw(st.booleans()):
        tiled, expected = tiled.T, expected.T
    if data.draw(st.booleans()):
        low = [data.draw(st.integers(0, n)) for n in tiled.extent]
        tiled, expected = pydp.section(tiled, low), pydp.section(expected, low)
    assert tiled.extent == expected.extent and isinstance(tiled.base, kind)
    for t in itertools.islice(tiled.grid, 6):
        np.testing.assert_array_equal(host(tiled[t]), host(expected[t]))


def test_writing_through_tiles(device: Any) -> None:
    for make in (np.array, pydp.field):
        data = make(numbered([5, 7]))
        expected = numbered([5, 7])
        tiled = pydp.tile(data, (2, 3))
        tiled[2, 2] = -1
        expected[4:, 6:] = -1
        tiled.T[1, 0] = [[1, 2], [3, 4], [5, 6]]
        expected[0:2, 3:6] = [[1, 3, 5], [2, 4, 6]]
        pydp.tile(tiled, (1, 2))[1, 0] = 5
        expected[2:4, 0:3] = 5
        tiled[0, 0] = pydp.zeros((2, 3), np.int32)
        expected[:2, :3] = 0
        np.testing.assert_array_equal(host(data), expected)
        for locked in (pydp.read_only(tiled), tiled.read_only, pydp.tile(pydp.read_only(data), (2, 3))):
            assert not locked.writable and not describe(locked).writable and not describe(locked[0, 0]).writable
            with pytest.raises(InvalidArgument, match="read-only"):
                locked[0, 0] = 1
        assert tiled.writable and "read-only" in repr(tiled.read_only)


def test_field_methods_and_arrays(device: Any) -> None:
    values = numbered([4, 6])
    field = pydp.field(values)
    assert field.tile(2, 3).extent == field.tile((2, 3)).extent == pydp.tile(field, (2, 3)).extent == (2, 2)
    assert field.tile(2, 3).tile(1, 3).tiles == ((2, 3), (1, 3)) and field.tile(2, 3).device is field.device
    array = cl.array.to_device(device.queue, values)
    tiled = pydp.tile(array, (2, 2))
    np.testing.assert_array_equal(tiled[1, 2].get(), values[2:4, 4:6])
    tiled[1, 2] = 0
    assert array.get()[2:, 4:].sum() == 0
    np.testing.assert_array_equal(pydp.section(array, (1, 1), (2, 2)).get(), values[1:3, 1:3])
    np.testing.assert_array_equal(pydp.project(array, 0, 1).get(), values[1])
    assert not pydp.read_only(array).writable
    view = describe(array)
    assert isinstance(view.base, Field) and view.tiles == () and view.writable


@pytest.mark.host
def test_descriptions() -> None:
    data = np.zeros((5, 6), np.float32)
    view = describe(pydp.tile(pydp.tile(data, (4, 4), fill=7), (2, 2)))
    assert view.base is data and view.tiles == ((4, 4), (2, 2)) and view.writable and view.fill == 7
    assert describe(pydp.tile(data, (4, 4), tail="pad", fill=-1.5)).fill == -1.5
    assert describe(data).tiles == () and not describe(pydp.read_only(data)).writable
    assert describe(pydp.tile(data, (4, 4)).T).base.shape == (6, 5)
    assert pydp.tile(data, (5, 3), tail="exact").tail == "exact"
    turned = pydp.tile(data, (5, 4), tail=("exact", "mask")).T
    assert turned.tail == ("mask", "exact") and [*turned.tiles] == [(4, 5)]
    record = np.dtype([("a", "f4"), ("b", "i4")])
    assert pydp.tile(np.zeros(3, record), 2).fill == 0
    assert pydp.tile(np.zeros(3, record), 2, fill=(1, 2)).fill["b"] == 2


@pytest.mark.host
def test_ranges_of_tiles() -> None:
    data = numbered([7, 9])
    tiled = pydp.tile(data, (2, 2))
    part = tiled[1:3, ...]
    assert part.extent == (2, 5)
    np.testing.assert_array_equal(part[1, 4], tiled[2, 4])
    np.testing.assert_array_equal(pydp.section(tiled, (2, 3), (2, 2)).base, data[4:7, 6:9])
    np.testing.assert_array_equal(tiled[-1, -1], data[6:, 8:])
    thin = pydp.tile(data, (1, 4))
    np.testing.assert_array_equal(pydp.project(thin, 0, 3)[1], data[3, 4:8])
    assert len(tiled) == 4 and repr(tiled) == "<TileRange (4, 5) tiles (2, 2) of int32 (7, 9)>"
    assert pydp.tile(np.array(5), ())[()] == 5
    assert pydp.tile(np.zeros((0, 4)), (2, 2)).extent == (0, 2)


@pytest.mark.host
@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda x: pydp.tile(x, (2,)), "the data has 2"),
        (lambda x: pydp.tile(x, (2, 0)), "1 or more"),
        (lambda x: pydp.tile([1, 2], 1), "not list"),
        (lambda x: pydp.tile(x, (2, 2), tail="wrap"), "'mask', 'pad', 'exact'"),
        (lambda x: pydp.tile(x, (2, 2), tail="exact"), r"does not divide \(4, 5\)"),
        (lambda x: pydp.tile(pydp.tile(x, (4, 5)), (3, 5), tail="exact"), r"does not divide \(4, 5\)"),
        (lambda x: pydp.tile(x, (2, 2), fill="x"), "fill"),
        (lambda x: pydp.tile(x, (2, 2), fill=1.5), "fill"),
        (lambda x: pydp.tile(x, (2, 2), fill=2**40), "fill"),
        (lambda x: pydp.tile(np.zeros((1,) * 7), (1,) * 7), "ranks? 0 to 6"),
        (lambda x: pydp.tile(x, (2, 2))[2, 0], "no tile"),
        (lambda x: pydp.tile(x, (2, 2))[0], "2 integers"),
        (lambda x: pydp.tile(x, (2, 2))[0, "a"], "integers"),
        (lambda x: pydp.tile(x, (2, 2))[0, :], "does not select"),
        (lambda x: pydp.tile(x, (2, 2))[::2, :], "does not select"),
        (lambda x: pydp.section(x, (0, 0), (5, 1)), "not inside"),
        (lambda x: pydp.section(x, (-1, 0), (1, 1)), "not inside"),
        (lambda x: pydp.section(x, (5, 0)), "not inside"),
        (lambda x: pydp.section(x, 1), "the data has 2"),
        (lambda x: pydp.section(pydp.tile(x, (2, 2)), (0, 0), (3, 1)), "not inside"),
        (lambda x: pydp.project(x, 2, 0), "axis 2 is out of range"),
        (lambda x: pydp.project(x, 0, 4), "out of range"),
        (lambda x: pydp.project(x, (0, 1), 4), "one integer"),
        (lambda x: pydp.project(pydp.tile(x, (2, 2)), 0, 0), "size is not 1"),
        (lambda x: pydp.read_only(3), "not int"),
        (lambda x: describe("x"), "not str"),
        (lambda x: pydp.tile(np.ma.masked_array([1]), 1), "mask"),
    ],
)
def test_wrong_values_are_named(act: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        act(numbered([4, 5]))
    for wrong in (lambda: list(pydp.tile(numbered([4]), 2)), lambda: len(pydp.tile(np.array(1), ()))):
        with pytest.raises(TypeError):
            wrong()
    assert TileRange.__array_ufunc__ is None
