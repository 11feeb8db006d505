"""pydp.take, put, where, roll, flip, concatenate, stack, tile_array, pad, diff and others against NumPy."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl.array
import pytest

import pydp
from pydp.algorithms.moves import gather

MAPPINGS = pytest.mark.parametrize("mapping", ["vector", "simt"])


@pytest.fixture
def mapped(device, monkeypatch, mapping):
    if mapping == "vector":
        needs.endless_loops(device)
    monkeypatch.setattr(gather, "mapping_of", lambda profile: mapping)
    device.recordings.clear()
    yield mapping
    device.recordings.clear()


def numbers(*shape, seed=0, dtype=np.int32, low=-50, high=50):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def same(got, want):
    got = got.get() if hasattr(got, "get") else got
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


# --- take and put --------------------------------------------------------------------------------------------------


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_of_elements(device, mapped, mode):
    a = numbers(300, dtype=np.float32)
    a[:3] = np.nan, -0.0, np.inf
    for n in (0, 1, 300, 5000):
        span = 300 if mode == "raise" else 1000
        indexes = numbers(n, seed=n, low=-span, high=span)
        same(pydp.take(a, indexes, mode=mode), np.take(a, indexes, mode=mode))
        same(pydp.take(a[::-2], indexes // 2, mode=mode), np.take(a[::-2], indexes // 2, mode=mode))
    if mode == "wrap":  # np.take takes the least index for 0
        far = np.array([-(2**63), 2**63 - 1, 1 - 2**63])
        same(pydp.take(a, far, mode=mode), a[[int(one) % 300 for one in far]])


def test_take_at_uint64_indexes(device):
    a = numbers(300, dtype=np.int32)
    indexes = numbers(5000, low=0, high=300).astype(np.uint64)
    for make in (lambda x: x, pydp.field):
        for mode in ("raise", "wrap", "clip"):
            same(np.asarray(pydp.take(make(a), make(indexes), mode=mode)), np.take(a, indexes, mode=mode))
        with pytest.raises(IndexError, match="index 18446744073709551615 is out of bounds"):
            pydp.take(make(a), make(np.array([2**64 - 1, 0], np.uint64)))
    same(pydp.take(a, np.array([2**64 - 1, 301], np.uint64), mode="wrap"), a[[-1, 1]])


@pytest.mark.oclgrind
@MAPPINGS
def test_take_along_axes(device, mapped):
    a = numbers(6, 20, 35, dtype=np.int32)
    for axis in (0, 1, 2, -1, None):
        indexes = numbers(3, 4, seed=2, low=-6, high=6, dtype=np.int64)
        same(pydp.take(a, indexes, axis), np.take(a, indexes, axis))
    views = [a.T, a[:, ::-2], a[::2, 3:9, ::3], np.broadcast_to(a[:1], (4, 20, 35))]
    for view in views:
        for axis in (0, 1, 2):
            same(pydp.take(view, [1, 0, 2], axis), np.take(view, [1, 0, 2], axis))
    same(pydp.take(a, 3, 1), np.take(a, 3, 1))
    same(pydp.take(a, [True, False], 0), np.take(a, np.array([1, 0]), 0))


def test_take_of_other_types(device):
    for dtype in (
        np.int8,
        np.float16,
        np.complex64,
        np.float64,
        np.complex128,
        [("a", "u1"), ("b", "<i4"), ("c", "<i8")],
    ):
        a = np.zeros((40, 3), dtype)
        a.view(np.uint8)[...] = numbers(*a.view(np.uint8).shape, low=0, high=60, dtype=np.uint8)
        for index in (np.uint8, np.int64):
            indexes = numbers(57, seed=3, low=0, high=40, dtype=index)
            assert pydp.take(a, indexes, 0).tobytes() == np.take(a, indexes, 0).tobytes()
            assert pydp.take(a, indexes).tobytes() == np.take(a, indexes).tobytes()


def test_take_raises_before_it_writes(device):
    a = numbers(100)
    for n in (5, 5000):
        for wrong in (100, -101):
            indexes = numbers(n, low=-100, high=100)
            indexes[n // 2] = wrong
            for make in (lambda x: x, pydp.field):
                out = make(np.full(n, 7, np.int32))
                with pytest.raises(IndexError, match=f"index {wrong} is out of bounds") as caught:
                    pydp.take(make(a), make(indexes), out=out)
                assert isinstance(caught.value, pydp.InvalidArgument)
                assert (np.asarray(out) == 7).all()
                target = make(a.copy())
                with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
                    pydp.put(target, make(indexes), 1)
                same(np.asarray(target), a)
    with pytest.raises(IndexError):
        pydp.take(np.zeros((3, 0), np.int32), [0], 1)
    same(pydp.take(np.zeros((3, 0), np.int32), [], 1), np.zeros((3, 0), np.int32))


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put(device, mapped, mode):
    for n, size in ((0, 10), (1, 10), (40, 10), (5000, 300), (5000, 70000)):
        span = size if mode == "raise" else 3 * size
        indexes = numbers(n, seed=n, low=-span, high=span)
        for count in (n, 7):
            values = numbers(count, seed=1)
            if not count:
                continue
            got, want = numbers(size, seed=2), numbers(size, seed=2)
            pydp.put(got, indexes, values, mode)
            np.put(want, indexes, values, mode)
            same(got, want)
    if mode == "wrap":
        got, want = numbers(300, seed=2), numbers(300, seed=2)
        pydp.put(got, np.array([-(2**63), 2**63 - 1]), np.array([77, 78], np.int32), mode)
        want[[-(2**63) % 300, (2**63 - 1) % 300]] = 77, 78
        same(got, want)


def test_put_into_other_arrays(device):
    indexes = numbers(900, low=0, high=600)
    values = numbers(30, 30, seed=1)
    for make in (np.array, pydp.field, lambda x: pyopencl.array.to_device(device.queue, x)):
        target = make(np.zeros((20, 30), np.float32))
        want = np.zeros((20, 30), np.float32)
        assert pydp.put(target, indexes, values) is None
        np.put(want, indexes, values)
        same(target, want)
    guarded, want = np.zeros((20, 64), np.int32), np.zeros((20, 64), np.int32)
    pydp.put(guarded[:, 60:0:-2], indexes, values)
    part = np.zeros((20, 30), np.int32)
    np.put(part, indexes, values)
    want[:, 60:0:-2] = part
    same(guarded, want)
    records = np.zeros(40, [("a", "u1"), ("b", "<i4")])
    news = np.ones(2, records.dtype)
    pydp.put(records, [3, 5, 3], news)
    assert records[[3, 5]].tolist() == [(1, 1), (1, 1)] and not records[[0, 4, 6]]["b"].any()
    a, places = numbers(10), pydp.zeros(10, np.int32)
    pydp.put(a, 2, 5.7)
    assert a[2] == 5
    with pytest.raises(pydp.InvalidArgument, match="v has no elements"):
        pydp.put(a, [1], [])
    with pytest.raises(pydp.InvalidArgument, match="shares memory"):
        pydp.put(places, places, 1)


# --- where ---------------------------------------------------------------------------------------------------------


@pytest.mark.oclgrind
def test_where(device):
    condition, x, y = numbers(40, 50, low=0, high=2), numbers(40, 50, seed=1), numbers(50, seed=2)
    same(pydp.where(condition, x, y), np.where(condition, x, y))
    same(pydp.where(condition > 0, x, 7), np.where(condition > 0, x, 7))
    same(pydp.where(condition[:, :1] > 0, 3, y), np.where(condition[:, :1] > 0, 3, y))
    same(
        pydp.where(condition[::-1, ::2].T, x[:, 1::2].T, y[:40]), np.where(condition[::-1, ::2].T, x[:, 1::2].T, y[:40])
    )
    field = pydp.where(pydp.field(condition), pydp.field(x), 0)
    assert isinstance(field, pydp.Field)
    same(field, np.where(condition, x, 0))
    for got, want in zip(pydp.where(x), np.where(x), strict=True):
        same(got, want)
    z = numbers(300, dtype=np.float32)
    z[::7] = np.nan
    same(pydp.where(z == z, z, np.float32(-1)), np.where(z == z, z, np.float32(-1)))
    out = z.copy()
    assert pydp.where(np.isnan(z), 0.0, out, out=out) is out
    same(out, np.where(np.isnan(z), np.float32(0), z))
    same(pydp.where(x[0], x[0].astype(np.int8), np.float32(2)), np.where(x[0], x[0].astype(np.int8), np.float32(2)))
    c = (x[0] + 1j * y).astype(np.complex64)
    same(pydp.where(c, c, x[0].astype(np.float32)), np.where(c, c, x[0].astype(np.float32)))
    same(pydp.where(np.zeros((0, 3), bool), 1, np.zeros(3, np.int32)), np.zeros((0, 3), np.int32))


def test_where_of_one_value(device):
    assert pydp.where(True, 3, 4) == 3 and pydp.where(np.float32(0), "a", "b") == "b"

    def pick(idx, out, x):
        out[idx] = pydp.where(x[idx] > 0, x[idx], 0)

    x = numbers(100)
    out = np.zeros_like(x)
    pydp.forall(100, pick, out, x)
    same(out, np.maximum(x, 0))
    pair = numbers(2), numbers(2, seed=1)
    same(pydp.where((True, False), *pair), np.where((True, False), *pair))
    same(pydp.where(True, (1, 2), pair[0]), np.where(True, (1, 2), pair[0]))
    out = np.zeros((), np.int64)
    assert pydp.where(False, 3, 4, out=out) is out and out == 4
    wrongs = [lambda: pydp.where(x, 1), lambda: pydp.where(x, x[:5], 1), lambda: pydp.where(None, 1, 2)]
    wrongs += [lambda: pydp.where(x, x, 1 << 31), lambda: pydp.where(x, -1, x.astype(np.uint8))]
    for wrong in wrongs:
        with pytest.raises(pydp.InvalidArgument):
            wrong()


# --- blocks --------------------------------------------------------------------------------------------------------


@pytest.mark.oclgrind
def test_flip_and_roll(device):
    x = numbers(7, 9, 5)
    for view in (x, x.T, x[:, ::2], x[:0]):
        for axis in (None, 0, -1, (0, 2)):
            same(pydp.flip(view, axis), np.flip(view, axis))
        for shift, axis in (
            (3, None),
            (-4, None),
            (3, 0),
            (-2, 1),
            (100, 2),
            ((1, 2), (0, 2)),
            ((1, 2), (1, 1)),
            (2, (0, 1)),
        ):
            same(pydp.roll(view, shift, axis), np.roll(view, shift, axis))
    field = pydp.field(x)
    same(pydp.roll(field, 4), np.roll(x, 4))
    same(pydp.flip(field), np.flip(x))
    y = x.copy()
    assert pydp.flip(y, 1, out=y) is y
    same(y, np.flip(x, 1))
    out = np.zeros((7, 9, 10), np.int32)
    pydp.roll(x, 11, out=out[:, :, ::2])
    same(out[:, :, ::2], np.roll(x, 11))
    assert not out[:, :, 1::2].any()
    for wrong in (
        lambda: pydp.flip(x, (0, 0)),
        lambda: pydp.flip(x, 3),
        lambda: pydp.roll(x, 1.5),
        lambda: pydp.roll(x, (1, 2, 3), (0, 1)),
        lambda: pydp.roll(field, 1, out=field),
    ):
        with pytest.raises(pydp.InvalidArgument):
            wrong()


@pytest.mark.oclgrind
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_concatenate_of_one_array(device, axis):
    """Its slices are joined by one copy, however many they are."""
    a = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    for x in (a, a[::-1], a.T, a.astype(">i4"), a[:, ::2], a[..., None], a[:, :0]):
        same(pydp.concatenate(x, axis), np.concatenate(x, axis))
        made = pydp.concatenate(pydp.field(x), axis, dtype=np.float32)
        same(made, np.concatenate(x, axis, dtype=np.float32))
        if axis is not None:
            same(pydp.stack(x, axis), np.stack(x, axis))
    assert pydp.concatenate(np.empty((1 << 40, 0, 3)), axis).shape == {0: (0, 3), None: (0,)}.get(axis, (0, 3 << 40))
    want = np.concatenate(a, axis)
    out = np.zeros((2 * want.shape[0], *want.shape[1:]), np.int32)
    pydp.concatenate(a, axis, out[::-2])
    assert np.array_equal(out[::-2], want) and not out[::2].any()
    for wrong, arguments in ((a[:0], (0,)), (a, (2,)), (a, ("x",)), (a[0, 0], (0,)), (np.array(1), (None,))):
        with pytest.raises(pydp.InvalidArgument):
            pydp.concatenate(wrong, *arguments)


def test_concatenate_and_stack(device):
    x, y, z = numbers(4, 6), numbers(4, 3, seed=1), numbers(4, 6, seed=2)
    same(pydp.concatenate([x, y, z[:, ::2]], 1), np.concatenate([x, y, z[:, ::2]], 1))
    same(pydp.concatenate((x, z[::-1])), np.concatenate((x, z[::-1])))
    same(pydp.concatenate([x, y.T], None), np.concatenate([x, y.T], None))
    same(pydp.concatenate([x[:0], z]), np.concatenate([x[:0], z]))
    same(pydp.concatenate([x, z.astype(np.int8)], -1), np.concatenate([x, z.astype(np.int8)], -1))
    same(pydp.concatenate([x.astype(np.int8), z], dtype=np.float32), np.concatenate([x, z]).astype(np.float32))
    for axis in (0, 1, 2, -1):
        same(pydp.stack([x, z, x.T.reshape(4, 6)], axis), np.stack([x, z, x.T.reshape(4, 6)], axis))
    field = pydp.concatenate([pydp.field(x), pydp.field(z)])
    assert isinstance(field, pydp.Field)
    same(field, np.concatenate([x, z]))
    for wrong in (
        lambda: pydp.concatenate([]),
        lambda: pydp.concatenate([x, y]),
        lambda: pydp.concatenate(x[0, 0]),
        lambda: pydp.concatenate([np.int32(1), np.int32(2)]),
        lambda: pydp.concatenate([x, z], out=np.zeros((3, 3), np.int32)),
        lambda: pydp.stack([x, y]),
        lambda: pydp.stack([x, z], 4),
    ):
        with pytest.raises(pydp.InvalidArgument):
            wrong()


@pytest.mark.oclgrind
def test_tile_array_and_axes(device):
    x = numbers(3, 5)
    for reps in (1, 3, (2, 1), (2, 3), (2, 1, 4), 0, (0, 2), ()):
        same(pydp.tile_array(x, reps), np.tile(x, reps))
        same(pydp.tile_array(x.T[::2], reps), np.tile(x.T[::2], reps))
    same(pydp.tile_array(np.int32(7), 5), np.tile(np.int32(7), 5))
    y = numbers(2, 3, 4)
    for source, destination in ((0, -1), ((0, 1), (2, 0)), (2, 0)):
        same(pydp.moveaxis(y, source, destination), np.moveaxis(y, source, destination))
    same(pydp.swapaxes(y, 0, -1), np.swapaxes(y, 0, -1))
    for wrong in (
        lambda: pydp.tile_array(x, -1),
        lambda: pydp.tile_array(x, 1.5),
        lambda: pydp.moveaxis(y, (0, 1), 0),
        lambda: pydp.swapaxes(y, 0, 3),
    ):
        with pytest.raises(pydp.InvalidArgument):
            wrong()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_pad(device, mode):
    x = numbers(4, 7)
    widths = [0, 2, (1, 3), ((1, 0), (2, 5)), ((0, 0), (0, 40)), ((30, 1), (60, 60))]
    for width in widths:
        for view in (x, x[::-1, ::2], x[:1], x[:, :2]):
            same(pydp.pad(view, width, mode), np.pad(view, width, mode))
    cube = numbers(3, 4, 5)
    same(pydp.pad(cube, ((1, 2), (0, 3), (2, 2)), mode), np.pad(cube, ((1, 2), (0, 3), (2, 2)), mode))
    for width in ({}, {0: (1, 2)}, {-1: 2}, {0: 1, -1: (0, 1)}):
        same(pydp.pad(x, width, mode), np.pad(x, width, mode))
        same(pydp.pad(pydp.field(x), width, mode), np.pad(x, width, mode))
    same(pydp.pad(pydp.field(x[0]), 3, mode), np.pad(x[0], 3, mode))
    if mode == "constant":
        same(pydp.pad(x, 2, mode, ((1, 2), (3, 4))), np.pad(x, 2, mode, constant_values=((1, 2), (3, 4))))
        same(pydp.pad(x[:0], 2, mode, 9), np.pad(x[:0], 2, mode, constant_values=9))
    else:
        with pytest.raises(pydp.InvalidArgument, match="is empty"):
            pydp.pad(x[:0], 1, mode)
    for wrong in (
        lambda: pydp.pad(x, -1, mode),
        lambda: pydp.pad(x, 1.5, mode),
        lambda: pydp.pad(x, (1, 2, 3), mode),
        lambda: pydp.pad(x, {2: 1}, mode),
        lambda: pydp.pad(x, {"a": 1}, mode),
        lambda: pydp.pad(x, {0: -1}, mode),
        lambda: pydp.pad(x, {0: (1.5, 2)}, mode),
        lambda: pydp.pad(x, {0: (1, 2, 3)}, mode),
        lambda: pydp.pad(x, 1, "mean"),
        lambda: pydp.pad(x, 1, "constant", (0, 1 << 31)),
        lambda: pydp.pad(x.astype(np.uint8), 1, constant_values=-1),
    ):
        with pytest.raises(pydp.InvalidArgument):
            wrong()


# --- differences ---------------------------------------------------------------------------------------------------


@pytest.mark.oclgrind
def test_diff(device):
    x = numbers(6, 9)
    for n in (0, 1, 2, 3, 9, 12):
        for axis in (0, 1):
            same(pydp.diff(x, n, axis), np.diff(x, n, axis))
    same(pydp.diff(x[::-1, ::2].T), np.diff(x[::-1, ::2].T))
    same(pydp.diff(x[0].astype(np.uint8)), np.diff(x[0].astype(np.uint8)))
    same(pydp.diff(x[0] > 0), np.diff(x[0] > 0))
    same(pydp.diff(x, prepend=x[:, :2], append=np.int32(5)), np.diff(x, prepend=x[:, :2], append=np.int32(5)))
    same(pydp.diff(x, 0, prepend=9), x)
    same(pydp.diff(pydp.field(x), axis=0), np.diff(x, axis=0))
    same(pydp.diff(x[:0]), np.diff(x[:0]))
    z = np.array([1, np.inf, np.inf, np.nan, -0.0, 0.0], np.float32)
    with np.errstate(invalid="ignore"):
        same(pydp.diff(z), np.diff(z))
    for axis in (0, -1):
        first = np.take(x, [0], axis)
        same(pydp.adjacent_difference(x, axis), np.concatenate([first, np.diff(x, axis=axis)], axis))
    same(pydp.scan(pydp.adjacent_difference(x[0])), x[0])
    same(pydp.adjacent_difference(x[:, :0]), x[:, :0])
    field = pydp.field(x)
    for wrong in (
        lambda: pydp.diff(x, -1),
        lambda: pydp.diff(np.int32(3)),
        lambda: pydp.diff(x, prepend=x[:2]),
        lambda: pydp.diff(x, axis=2),
        lambda: pydp.diff(x, out=np.zeros((6, 9), np.int32)),
        lambda: pydp.adjacent_difference(field, out=field),
    ):
        with pytest.raises(pydp.InvalidArgument):
            wrong()


# --- arguments -----------------------------------------------------------------------------------------------------


def test_nothing_is_written_outside_of_results(device):
    x = numbers(1001)
    guarded = np.full(1200, 7, np.int32)
    for call, n in (
        (lambda out: pydp.take(x, np.arange(1000, -1, -1), out=out), 1001),
        (lambda out: pydp.roll(x, 3, out=out), 1001),
        (lambda out: pydp.concatenate([x, x[:99]], out=out), 1100),
        (lambda out: pydp.pad(x, 50, "wrap", out=out), 1101),
        (lambda out: pydp.diff(x, out=out), 1000),
        (lambda out: pydp.where(x, x, 1, out=out), 1001),
        (lambda out: pydp.tile_array(x[:100], 11, out=out), 1100),
    ):
        guarded[...] = 7
        call(guarded[33 : 33 + n])
        assert (guarded[:33] == 7).all() and (guarded[33 + n :] == 7).all()


def test_repeated_calls_on_fields(device):
    x, indexes = numbers(500), numbers(500, low=0, high=500, seed=1)
    field, places = pydp.field(x), pydp.field(indexes)
    for n in range(4):  # later calls are recorded
        field[...] = x + n
        same(pydp.take(field, places, mode="wrap"), np.take(x + n, indexes))
        same(pydp.take(field, places), np.take(x + n, indexes))
        same(pydp.pad(field, 3, "reflect"), np.pad(x + n, 3, "reflect"))
        same(pydp.where(field, places, 3), np.where(x + n, indexes, 3).astype(np.int32))
        same(pydp.diff(field), np.diff(x + n))


def test_wrong_arguments(device):
    x = numbers(10)
    field = pydp.field(x)
    for call, match in [
        (lambda: pydp.take(x, [0.5]), "dtype float64"),
        (lambda: pydp.put(np.zeros(4), np.array([1], np.uint64), 1), "ind has dtype uint64; bool and integers except"),
        (lambda: pydp.take(x, np.array([1.0])), "indices has dtype float64; bool and integers are accepted"),
        (lambda: pydp.take(x, None), "None"),
        (lambda: pydp.take(x, [1], 1), "axis=1"),
        (lambda: pydp.take(x, [1], mode="none"), "'clip'"),
        (lambda: pydp.take(field, x % 10, out=field), "shares memory"),
        (lambda: pydp.take(x, [1, 2], out=np.zeros(3, np.int32)), "shape"),
        (lambda: pydp.put([1, 2], [0], 1), "a is a list"),
        (lambda: pydp.put(np.zeros(4), [0], 2j), "v has dtype complex128, but a has dtype float64"),
        (lambda: pydp.put(pydp.zeros(4), [0], 2j), "v has dtype complex128, but a has dtype float32"),
        (lambda: pydp.put(np.zeros(4, np.int32), [0], np.ones(1, np.complex64)), "real values are accepted"),
        (lambda: pydp.put(np.broadcast_to(np.int32(1), 4), [0], 1), "read-only"),
    ]:
        with pytest.raises(pydp.InvalidArgument, match=match):
            call()
    assert "take" in str(pydp.explain(pydp.take, x, [1, 2]))
