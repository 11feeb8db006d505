"""Tiles, sections, projections and transposes in vector functions, against NumPy's own slices."""

from __future__ import annotations

import itertools

import interpreter
import numpy as np
import pytest
from front_check import run_translated
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.lang import ir
from pydp.lang.compile import FieldType, NumberType, translate

pytestmark = pytest.mark.host

I32 = np.dtype("i4")
INT = NumberType(I32, True)
RNG = np.random.default_rng(11)


def run(fn, extent, group, fields, arguments, fill=0, index_dtype=np.int32):
    """`fields` are (array, tiles) or numbers, in the order of the function's arguments."""
    types, arrays = [], []
    for item in fields:
        if isinstance(item, tuple):
            types.append(FieldType(item[0].dtype, item[0].ndim, item[1], True, fill))
            arrays.append(item[0])
        else:
            types.append(INT)
    made = translate(fn, len(extent), group, types, index_dtype)
    interpreter.run(made, extent, None, arrays, {k: item for k, item in enumerate(fields)})
    return made


# --- the two matrix products of S1


def mxm_naive(idx, C, A, B):
    c = 0.0
    for k in range(A.extent(1)):
        c += A(idx[0], k) * B(k, idx[1])
    C[idx] = c


def mxm_tiled(idx, C, A, B):
    sA = pydp.local_field(np.float32, 4, 4)
    sB = pydp.local_field((4, 4), np.float32)
    acc = 0.0
    for i in range(A.extent(1)):
        sA[idx.local] = A(idx.group[0], i)[idx.local]
        sB[idx.local] = B(i, idx.group[1])[idx.local]
        pydp.group_barrier()
        for k in range(4):
            acc += sA(idx.local[0], k) * sB(k, idx.local[1])
        pydp.group_barrier()
    C[idx.global_index] = acc


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (4, 4, 4), (5, 7, 6), (3, 9, 13)])
def test_matrix_products(m, n, k):
    a, b = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    tiles = ((4, 4),)
    for fn, group, tiled in ((mxm_naive, None, ()), (mxm_tiled, (4, 4), tiles)):
        c = np.full((m, n), 7, np.float32)
        run(fn, (m, n), group, [(c, ()), (a, tiled), (b, tiled)], None)
        np.testing.assert_array_equal(c, a @ b)


def times_transposed(idx, C, A, B):
    mxm_naive(idx, C, A, B.T)


def tiled_times_transposed(idx, C, A, B):
    mxm_tiled(idx, C, pydp.read_only(pydp.tile(A, (4, 4))), B.T.tile(4, 4))


def test_transposed_operand():
    a, b = RNG.integers(-4, 5, (5, 6)).astype(np.float32), RNG.integers(-4, 5, (7, 6)).astype(np.float32)
    for fn, group in ((times_transposed, None), (tiled_times_transposed, (4, 4))):
        c = np.zeros((5, 7), np.float32)
        run(fn, (5, 7), group, [(c, ()), (a, ()), (b, ())], None)
        np.testing.assert_array_equal(c, a @ b.T)


# --- every element through every path


def tile_of_two(idx, out, a, ti, tj, li, lj):
    out[0] = a[ti, tj][li, lj]
    out[1] = a.extent[0]
    out[2] = a(ti, tj).extent(1)


@settings(max_examples=60)
@given(st.data())
def test_tiles_are_slices(data):
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    tile = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    a = RNG.integers(1, 100, shape).astype(np.int32)
    counts = [-(-n // t) for n, t in zip(shape, tile, strict=True)]
    t = [data.draw(st.integers(0, n - 1)) for n in counts]
    at = [data.draw(st.integers(0, n - 1)) for n in tile]
    out = np.zeros(3, np.int32)
    run(tile_of_two, (1,), None, [(out, ()), (a, (tile,)), *t, *at], None, fill=-1)
    part = a[t[0] * tile[0] : (t[0] + 1) * tile[0], t[1] * tile[1] : (t[1] + 1) * tile[1]]
    inside = at[0] < part.shape[0] and at[1] < part.shape[1]
    assert list(out) == [part[tuple(at)] if inside else -1, counts[0], tile[1]]


def through_two_levels(idx, out, a):
    outer, inner = a.extent[0], a[0].extent[0]
    n = 0
    for t in range(outer):
        for u in range(inner):
            for k in range(a[t][u].extent[0]):
                out[n] = a[t][u][k]
                n += 1


def tiled_in_the_function(idx, out, a, size):
    through_two_levels(idx, out, a.tile(7).tile(3))
    del_ = size
    out[out.extent[0] - 1] += del_ * 0


def test_recursive_tiles_partition():
    """Tiles of 3 in tiles of 7: every element once, and what is outside the tile or the array is the fill value."""
    a = np.arange(1, 18, dtype=np.int32)
    wanted = []
    for t in range(0, 17, 7):
        whole = a[t : t + 7]
        for u in range(0, 7, 3):
            wanted += [*whole[u : u + 3], *[-5] * (3 - len(whole[u : u + 3]))]
    for fn, tiles, extra in ((through_two_levels, ((7,), (3,)), []), (tiled_in_the_function, (), [1])):
        out = np.zeros(len(wanted), np.int32)
        run(fn, (1,), None, [(out, ()), (a, tiles), *extra], None, fill=-5)
        assert list(out) == wanted


def writes_through_tiles(idx, out):
    t = out[idx.group][idx.local]
    out[idx.group][idx.local] = idx[0] * 10 + idx[1] + t


def writes_through_partial(idx, out):
    for k in range(out.tile(5)[0].tile(2).extent[0]):
        out.tile(5)[idx[0]].tile(2)[k][0] += 1
        out.tile(5)[idx[0]].tile(2)[k][1] += 1


def test_writes_through_tiles():
    out = np.zeros((6, 7), np.int32)
    run(writes_through_tiles, (6, 7), (2, 3), [(out, ((2, 3),))], None)
    np.testing.assert_array_equal(out, np.add.outer(np.arange(6) * 10, np.arange(7)))
    out = np.zeros(13, np.int32)
    run(writes_through_partial, (3,), None, [(out, ())], None)
    assert (out == 1).all()


# --- views of views

STEPS = st.lists(st.sampled_from(["T", "section", "project", "tile"]), max_size=4)


def _plan(data, array):
    """A chain of view operations as source text, and the same done by NumPy; element reads outside give 0."""
    text, tiled = "a", False
    for step in data.draw(STEPS):
        if step == "T":
            text, array = f"{text}.T", array.T
        elif step == "section" and array.ndim:
            start = [data.draw(st.integers(0, n - 1)) for n in array.shape]
            size = [data.draw(st.integers(1, n - s)) for n, s in zip(array.shape, start, strict=True)]
            text = f"pydp.section({text}, {tuple(start)}, {tuple(size)})"
            array = array[tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))]
        elif step == "project" and array.ndim > 1:
            axis = data.draw(st.integers(0, array.ndim - 1))
            place = data.draw(st.integers(0, array.shape[axis] - 1))
            text, array = f"pydp.project({text}, {axis}, {place})", array.take(place, axis)
        elif step == "tile":
            tile = tuple(data.draw(st.integers(1, 3)) for _ in array.shape)
            t = [data.draw(st.integers(0, -(-n // k) - 1)) for n, k in zip(array.shape, tile, strict=True)]
            text = f"pydp.tile({text}, {tile})[{', '.join(map(str, t))}]"
            array = array[tuple(slice(k * n, (k + 1) * n) for k, n in zip(t, tile, strict=True))]
            whole = np.zeros(tile, array.dtype)
            whole[tuple(slice(0, n) for n in array.shape)] = array
            array, tiled = whole, True
    return text, array, tiled


@settings(max_examples=80)
@given(st.data())
def test_views_of_views(tmp_path_factory, data):
    """Every chain of views gives NumPy's elements; outside the array, it gives the fill value."""
    base = RNG.integers(1, 1000, (4, 5, 3)).astype(np.int32)
    text, array, _ = _plan(data, base)
    places = ", ".join(f"idx[{k}]" for k in range(array.ndim))
    source = f"def f(idx, out, a):\n    v = {text}\n    out[idx] = v[{places}]\n"
    path = tmp_path_factory.mktemp("views") / "module.py"
    path.write_text(source)
    space = {"pydp": pydp}
    exec(compile(source, str(path), "exec"), space)
    extent = tuple(n + 1 for n in array.shape)
    out = np.full(extent, -1, np.int32)
    types = [FieldType(I32, len(extent)), FieldType(I32, 3)]
    made = translate(space["f"], len(extent), None, types)
    interpreter.run(made, extent, None, [out, base], {})
    inside = tuple(slice(0, n) for n in array.shape)
    np.testing.assert_array_equal(out[inside], array)
    if "section" in text:
        for place in itertools.product(*map(range, extent)):
            if any(p >= n for p, n in zip(place, array.shape, strict=True)) and text.startswith("pydp.section"):
                assert out[place] == 0


# --- guarantees of the typed form about a place


def plain_and_tiled(idx, out, a):
    out[idx] = a[idx] + a.tile(4)[idx[0]][2]


def test_exact_and_bounds():
    """A field without tiles has strict bounds; an index within a tile has a bound for checked mode."""
    made = translate(plain_and_tiled, 1, None, [FieldType(I32, 1), FieldType(I32, 1)])
    (store,) = made.body
    assert isinstance(store, ir.Store) and store.strict_bounds
    loads = [item for item in ir.walk(store.value) if isinstance(item, ir.Load)]
    assert [item.strict_bounds for item in loads] == [True, False]
    assert [[bound.size for bound in item.bounds] for item in loads] == [[], [4]]
    assert loads[0].where.line == store.where.line and loads[0].where.text.strip().startswith("out[idx]")


# --- integers of any type as indexes


def gather(idx, out, a, where):
    out[idx] = a[where[idx]]


@pytest.mark.parametrize("name", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_index_of_any_integer_type(name):
    """An index that does not fit the index type is outside; it does not wrap into the array."""
    limits = np.iinfo(name)
    where = np.array([0, 3, 4, 5, 100, limits.min, limits.max, limits.max - 1, limits.max // 2 + 1, 2], name)
    if np.dtype(name).itemsize == 8:
        where[4] = 2**32 + 1
    a = np.array([10, 11, 12, 13, 14], np.int32)
    wanted = [a[int(n)] if 0 <= int(n) < 5 else 0 for n in where]
    for index in (np.int32, np.int64):
        out = np.full(len(where), -1, np.int32)
        run_translated(gather, (len(where),), None, [out, a, where], index_dtype=index)
        assert list(out) == wanted


# --- private fields, atomics


def small_sort(idx, out, a):
    (i,) = idx
    own = pydp.private_field(np.int32, 5)
    for k in range(5):
        own[k] = a[i + k]
    for k in range(1, 5):
        m = k
        while m > 0 and own[m - 1] > own[m]:
            own[m], own[m - 1] = own[m - 1], own[m]
            m -= 1
    for k in range(5):
        out[i, k] = own[k]


def counts(idx, out, a):
    s = pydp.local_field((4,), np.int32)
    if idx.local[0] < 4:
        s[idx.local] = 0
    pydp.group_barrier()
    if a[idx] > 0:
        pydp.atomic_add(s, a[idx] % 4, 1)
    pydp.atomic_min(out, 4, a[idx])
    pydp.atomic_max(out[5], a[idx])
    pydp.group_barrier()
    if idx.local[0] < 4:
        pydp.atomic_add(out, idx.local[0], s[idx.local])


def test_private_and_atomic():
    a = RNG.integers(-50, 50, 24).astype(np.int32)
    out = np.zeros((20, 5), np.int32)
    run_translated(small_sort, (20,), None, [out, a])
    np.testing.assert_array_equal(out, [sorted(a[i : i + 5]) for i in range(20)])
    a = abs(a) + 1
    out = np.array([0, 0, 0, 0, 99, 0], np.int32)
    run_translated(counts, (24,), (8,), [out, a])
    assert list(out) == [*np.bincount(a % 4, minlength=4), a.min(), a.max()]
