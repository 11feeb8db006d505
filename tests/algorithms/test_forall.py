"""forall: the source's matrix products, tiles, ranks, records, and the same results on the host."""

from __future__ import annotations

import itertools
import zlib

import needs
import numpy as np
import pytest
from forall_kernels import (
    BODY,
    copy,
    copy_tiles,
    escape,
    move_all,
    naive,
    reverse_in_group,
    stencil,
    tiled,
)

import pydp
from pydp.errors import UnsupportedOnDevice

SIZES = (1, 2, 15, 16, 17, 31, 33, 48, 70)


def integers(*shape, seed=0):
    """Floats that hold small integers, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.fixture(params=["default", "simt", "vector"])
def spec(request, device):
    """Every mapping that the device runs."""
    if request.param == "default":
        return None
    needs.vector_mapping(device, request.param)
    return {"mapping": request.param}


@pytest.mark.parametrize("product", [naive, tiled])
def test_matrix_products_of_all_sizes(device, spec, product):
    if product is naive:
        spec = {**(spec or {}), "group": (4, 32)}  # one group for all sizes: one kernel, many data
    rng = np.random.default_rng(3)
    shapes = [tuple(rng.integers(1, 71, 3)) for _ in range(25)]
    for m, k, n in [*zip(SIZES, SIZES[::-1], SIZES, strict=True), *shapes]:
        a, b = integers(m, k, seed=m), integers(k, n, seed=n)
        c = np.full((m, n), np.nan, np.float32)
        assert product(c, a, b, spec=spec) is None
        np.testing.assert_array_equal(c, a @ b)


def test_a_large_tiled_product(device):
    a, b = integers(1000, 500), integers(500, 700, seed=1)
    c = pydp.zeros((1000, 700), np.float32)
    event = tiled(c, pydp.field(a), pydp.field(b))
    event.wait()
    np.testing.assert_array_equal(c.get(), a @ b)


@pytest.mark.parametrize("product", [naive, tiled])
def test_products_with_transposed_views(device, product):
    for m, k, n in ((16, 16, 16), (33, 50, 21)):
        a, b = pydp.field(integers(m, k)), pydp.field(integers(n, k, seed=1))
        c = pydp.empty((m, n), np.float32)
        product(c, a, b.T)
        np.testing.assert_array_equal(c.get(), a.get() @ b.get().T)
        transposed = pydp.empty((n, m), np.float32)
        product(transposed.T, a, b.T)
        np.testing.assert_array_equal(transposed.get(), (a.get() @ b.get().T).T)


def test_float_products_have_the_bits_of_the_host(device, spec):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((37, 45), np.float32), rng.standard_normal((45, 29), np.float32)
    for product in (naive, tiled):
        here, there = np.zeros((37, 29), np.float32), np.zeros((37, 29), np.float32)
        product(here, a, b, spec=spec)
        product(there, a, b, device="host")
        np.testing.assert_array_equal(here, there)


@pytest.mark.oclgrind
def test_small_product_and_stencil(device):
    a, b, c = integers(5, 18), integers(18, 3, seed=1), np.zeros((5, 3), np.float32)
    tiled(c, a, b)
    np.testing.assert_array_equal(c, a @ b)
    out = np.zeros((5, 18), np.float32)
    pydp.forall(out.shape, stencil, out, a)
    p = np.pad(a, 1)
    want = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) - a
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("rank", range(7))
def test_every_rank(device, rank):
    shape = (3, 4, 2, 3, 5, 6)[:rank]
    a = np.random.default_rng(rank).integers(0, 100, shape).astype(np.int32)
    for group in (None, (2,) * rank):
        out = np.zeros(shape, np.int32)
        pydp.forall(shape, copy, out, a, group=group)
        np.testing.assert_array_equal(out, a)


def test_empty_grids_and_arrays(device):
    out = np.zeros((0, 5), np.int32)
    pydp.forall(out.shape, copy, out, out)
    some = np.ones(4, np.int32)
    pydp.forall((0,), copy, some, some)
    pydp.forall((4,), copy, some, np.zeros(0, np.int32))
    assert (some == 0).all()


def test_grids_with_an_offset(device):
    a = np.arange(24, dtype=np.int32).reshape(4, 6)
    for group in (None, (2, 4)):
        out = np.full((4, 6), -1, np.int32)
        pydp.forall(pydp.grid((2, 3), (1, 2)), copy, out, a, group=group)
        want = np.full((4, 6), -1)
        want[1:3, 2:5] = a[1:3, 2:5]
        np.testing.assert_array_equal(out, want)


def test_partial_groups_do_not_write_outside_the_grid(device, spec):
    a = np.arange(20, dtype=np.int32)
    out = np.full(20, -1, np.int32)
    pydp.forall((13,), reverse_in_group, out, a, group=8, spec=spec)
    want = np.concatenate([a[:8][::-1], a[8:16][::-1]])[:13]
    np.testing.assert_array_equal(out[:13], want)
    assert (out[13:] == -1).all()


# --- tiles -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", [0, 7])
def test_partial_tiles(device, fill):
    for shape in ((8, 8), (9, 7), (1, 10), (4, 3)):
        a = np.random.default_rng(1).integers(1, 100, shape).astype(np.int32)
        tiles = pydp.tile(a, (4, 4), fill=fill)
        whole = tuple(4 * count for count in tiles.extent)
        out = np.full(whole, -1, np.int32)
        pydp.forall(whole, copy_tiles, out, tiles, group=(4, 4))
        want = np.full(whole, fill)
        want[: shape[0], : shape[1]] = a
        np.testing.assert_array_equal(out, want)


@pydp.vector
def write_tiles(idx, tiles, value):
    tiles[idx.group][idx.local] = value + idx.local[0]


def test_writes_beyond_a_partial_tile_are_dropped(device):
    a = np.zeros((5, 6), np.int32)
    tiles = pydp.tile(a[:, 1:5], (4, 4))
    pydp.forall((8, 4), write_tiles, tiles, 10, group=(4, 4))
    want = np.zeros((5, 6))
    want[:, 1:5] = (10 + np.arange(5) % 4)[:, None]
    np.testing.assert_array_equal(a, want)


@pydp.vector
def copy_inner_tiles(idx, out, tiles):
    """A device tile of group tiles: 8x8 of 2x4."""
    big = tiles[idx.group]
    small = big[idx.local[0] // 2, idx.local[1] // 4]
    out[idx] = small[idx.local[0] % 2, idx.local[1] % 4]


def test_recursive_tiles(device):
    for shape in ((8, 8), (13, 17), (3, 30)):
        a = np.random.default_rng(2).integers(1, 100, shape).astype(np.int32)
        for data, order in ((a, a), (a.T, a.T)):
            tiles = pydp.tile(pydp.tile(data, (8, 8)), (2, 4))
            whole = tuple(8 * count for count in tiles.extent)
            out = np.full(whole, -1, np.int32)
            pydp.forall(whole, copy_inner_tiles, out, tiles, group=(8, 8))
            want = np.zeros(whole, np.int32)
            want[: order.shape[0], : order.shape[1]] = order
            np.testing.assert_array_equal(out, want)


@pydp.vector
def tile_in_function(idx, out, a):
    """The operators inside the function: a transposed section of tiles."""
    tiles = pydp.tile(a.T, (2, 2))
    out[idx] = tiles[idx[0] // 2, idx[1] // 2][idx[0] % 2, idx[1] % 2]


def test_operators_inside_the_function(device):
    a = np.arange(35, dtype=np.int32).reshape(5, 7)
    out = np.zeros((7, 5), np.int32)
    pydp.forall(out.shape, tile_in_function, out, a)
    np.testing.assert_array_equal(out, a.T)


# --- element types and numbers -----------------------------------------------------------------------------


def test_records(device):
    bodies = np.zeros(21, BODY)
    bodies["x"], bodies["y"], bodies["n"] = np.arange(21), np.arange(21)[::-1], np.arange(21)
    want = bodies.copy()
    want["x"] = want["x"] + np.float32(0.5) * want["y"]
    want["n"] += 1
    want["y"] = np.where(want["n"] % 2 == 0, -want["y"], want["y"])
    there = bodies.copy()
    pydp.forall(bodies.shape, move_all, bodies, 0.5)
    np.testing.assert_array_equal(bodies, want)
    pydp.forall(there.shape, move_all, there, 0.5, device="host")
    np.testing.assert_array_equal(there, want)


@pydp.vector
def numbers(idx, out, a, pair, flag, scale, record):
    out[0] = a
    out[1] = pair[0] + pair[1]
    out[2] = scale * 2
    out[3] = record.x + record.n
    if flag:
        out[4] = 1


def test_numbers_tuples_and_records_as_arguments(device):
    out = np.zeros(5, np.float32)
    record = np.zeros((), BODY)[()]
    record["x"], record["n"] = 1.5, 4
    pydp.forall((1,), numbers, out, 7, (1, 2.5), True, np.float32(0.25), record)
    assert out.tolist() == [7, 3.5, 0.5, 5.5, 1]
    pydp.forall((1,), numbers, out, -7, (1, -2.5), False, np.float32(3), record)
    assert out.tolist() == [-7, -1.5, 6, 5.5, 1]


TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool"]


@pydp.vector
def swap_ends(idx, a, last):
    kept = a[idx]
    a[idx] = a[last - idx[0]]
    a[last - idx[0]] = kept


@pytest.mark.parametrize("name", TYPES)
def test_element_types(device, name):
    if name == "float64" and not device.profile.fp64:
        with pytest.raises(UnsupportedOnDevice, match="float64"):
            pydp.forall((2,), swap_ends, np.zeros(4, name), 3)
    needs.dtype(device, name)
    a = np.random.default_rng(0).integers(0, 2 if name == "bool" else 100, 10).astype(name)
    want = a[::-1].copy()
    pydp.forall((5,), swap_ends, a, 9)
    np.testing.assert_array_equal(a, want)


def test_lanes_that_loop_for_different_times(device, spec):
    here, there = np.zeros((20, 30), np.int32), np.zeros((20, 30), np.int32)
    arguments = ((-2.0, -1.0), 0.1, 60)
    pydp.forall(here.shape, escape, here, *arguments, spec=spec)
    pydp.forall(there.shape, escape, there, *arguments, device="host")
    np.testing.assert_array_equal(here, there)
    assert len(np.unique(here)) > 10 and zlib.crc32(here.tobytes()) == zlib.crc32(there.tobytes())


@pydp.vector
def far(idx, out, a, start):
    out[idx] = a[idx[0] + start]


def test_indexes_beyond_32_bits(device):
    """A stride of 0 makes an axis long without memory: indexes are of 64 bits then."""
    value = np.array([5], np.int32)
    long = np.lib.stride_tricks.as_strided(value, (2**32 + 8,), (0,), writeable=False)
    out = np.zeros(16, np.int32)
    pydp.forall(out.shape, far, out, long, 2**32)
    np.testing.assert_array_equal(out, [5] * 8 + [0] * 8)


def test_all_groups_shapes_give_the_same(device):
    a = np.arange(7 * 9, dtype=np.int32).reshape(7, 9)
    for group in itertools.chain([None], [(1, 1), (3, 2), (4, 4), (1, 16)]):
        out = np.zeros((7, 9), np.int32)
        pydp.forall(out.shape, copy, out, a, group=group)
        np.testing.assert_array_equal(out, a)
