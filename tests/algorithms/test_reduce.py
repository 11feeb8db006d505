"""pydp.reduce against NumPy and a plain left fold."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest

import pydp

ROWS = (1, 2, 3, 40, 700)


def _data(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(-9 if np.dtype(dtype).kind in "if" else 0, 10, shape).astype(dtype)


@pytest.mark.oclgrind
@pytest.mark.parametrize("op, function", [("+", np.sum), ("max", np.max)])
def test_small(device: Any, op: str, function: Any) -> None:
    x = _data((2, 20, 3), np.int32)
    for axis in (None, 0, 2, (0, 2)):
        result = pydp.reduce(x, op, axis=axis)
        expected = function(x, axis=axis)
        assert result.dtype == expected.dtype and result.shape == np.shape(expected)
        assert np.array_equal(result, expected)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.float32, np.uint64])
@pytest.mark.parametrize("op, function", [("+", np.sum), ("*", np.prod), ("min", np.min), ("max", np.max)])
def test_named(device: Any, dtype: Any, op: str, function: Any) -> None:
    with np.errstate(over="ignore"):
        for shape in ((0, 4), (1,), (100_003,), (5, 20_000), (20_000, 5), (300, 300)):
            x = _data(shape, dtype)
            if op == "*":
                x = np.where(x == 0, 1, np.sign(x)).astype(dtype)
            for axis in range(len(shape)):
                if shape[axis] == 0 and op in ("min", "max"):
                    continue
                result, expected = pydp.reduce(x, op, axis=axis), function(x, axis=axis)
                assert result.dtype == expected.dtype
                assert np.array_equal(result, expected), (shape, axis)


def test_bits_and_bool(device: Any) -> None:
    x = np.random.default_rng(1).integers(0, 2**31, (50, 1000)).astype(np.uint32)
    for op, function in (("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor)):
        assert np.array_equal(pydp.reduce(x, op, axis=1, dtype=np.uint32), function.reduce(x, axis=1))
    flags = x % 3 == 0
    assert pydp.reduce(flags) == flags.sum()
    assert pydp.reduce(flags, "max") == flags.any() and pydp.reduce(flags, "min") == flags.all()


def test_views_and_kinds(device: Any) -> None:
    base = _data((60, 40, 30), np.float32)
    field = pydp.field(base)
    for view in (np.s_[:], np.s_[::2, ::-1], np.s_[5:, :, ::3], np.s_[::-1, 3]):
        for axes in (None, 0, (0, 1)):
            expected = base[view].sum(axis=axes, dtype=np.float64)
            assert np.array_equal(pydp.reduce(base[view], axis=axes), expected)
            result = pydp.reduce(field[view], axis=axes)
            assert isinstance(result, pydp.Field) and np.array_equal(result.get(), expected)
    assert np.array_equal(
        pydp.reduce(base.T, "max", axis=(0, 2), keepdims=True), base.T.max(axis=(0, 2), keepdims=True)
    )


def _after(a: Any, b: Any) -> Any:
    """Affine maps x -> p x + q mod 2^32, composed: associative, does not commute."""
    return a["p"] * b["p"], a["q"] * b["p"] + b["q"]


_LANES = {"mapping": "simt", "lanes": 16, "items": 2, "part": 300, "longest": 2**30, "columns": 1, "busy": 4}


@pytest.mark.parametrize("spec", [None, {**_LANES, "buffers": 1}, {**_LANES, "waves": 3, "buffers": 2}])
def test_order_is_kept(device: Any, spec: Any) -> None:
    affine = np.dtype([("p", np.uint32), ("q", np.uint32)])
    op = {"p": "a.p * b.p", "q": "a.q * b.p + b.q"}
    rng = np.random.default_rng(2)
    for shape, axis in (((5001,), 0), ((7, 300), 1), ((300, 7), 0), ((3, 40, 5), (0, 2)), ((70_000,), None)):
        x = np.zeros(shape, affine)
        x["p"], x["q"] = rng.integers(0, 2**32, (2, *shape), dtype=np.uint64).astype(np.uint32)
        axes = tuple(range(len(shape))) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
        kept = [a for a in range(len(shape)) if a not in axes]
        rows = x.transpose(*kept, *axes).reshape([shape[a] for a in kept] + [-1])
        p = np.ones(rows.shape[:-1], np.uint32)
        q = np.zeros(rows.shape[:-1], np.uint32)
        with np.errstate(over="ignore"):
            for i in range(rows.shape[-1]):
                p, q = p * rows["p"][..., i], q * rows["p"][..., i] + rows["q"][..., i]
        result = pydp.reduce(x, op, axis=axis, spec=spec)
        assert np.array_equal(result["p"], p) and np.array_equal(result["q"], q)


def test_init_and_expression(device: Any) -> None:
    x = _data((4, 100), np.int32)
    # "keep the first non-zero": no identity, does not commute; init stands on the left.
    first = functools.partial(pydp.reduce, op="a != 0 ? a : b", axis=1, dtype=np.int32)
    expected = [next((v for v in row if v), 0) for row in x]
    assert first(x).tolist() == expected
    assert first(x, init=77).tolist() == [77] * 4
    assert first(x, init=pydp.full((), 5, np.int32)).tolist() == [5] * 4
    assert first(x[:, :0], init=3).tolist() == [3] * 4
    with pytest.raises(pydp.InvalidArgument, match="has no result; pass init="):
        first(x[:, :0])
    out = np.full((4,), -1, np.int64)
    assert pydp.reduce(x, axis=1, init=1000, out=out) is out and np.array_equal(out, x.sum(axis=1) + 1000)


def test_nan_and_bits(device: Any) -> None:
    x = np.random.default_rng(3).standard_normal(100_000).astype(np.float32)
    runs = {pydp.reduce(x).tobytes() for _ in range(5)}
    assert len(runs) == 1
    assert abs(float(pydp.reduce(x)) - x.sum(dtype=np.float64)) < 0.05
    x[77_777] = np.nan
    assert np.isnan(pydp.reduce(x, "max")) and np.isnan(pydp.reduce(x, "min"))


def test_out_overlaps_input(device: Any) -> None:
    field = pydp.field(_data((50, 50), np.int64))
    expected = field.get().sum(axis=0)
    result = pydp.reduce(field, axis=0, out=field[0])
    assert np.array_equal(result.get(), expected) and np.array_equal(field.get()[0], expected)


def test_wrong_arguments(device: Any) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    for wrong in (
        {"axis": 2},
        {"axis": (0, 0)},
        {"axis": 1.5},
        {"axis": True},
        {"keepdims": "no"},
        {"op": "a; b"},
        {"op": "mean"},
        {"op": ["+"]},
        {"op": {"a": ["a"], 1: "b"}},
        {"spec": ["width", 4]},
        {"init": [1, 2]},
        {"spec": {"width": 3}},
        {"spec": {"nonsense": 1}},
        {"out": np.zeros(3, np.int64)},
    ):
        with pytest.raises(pydp.InvalidArgument):
            pydp.reduce(x, **{"axis": 1, **wrong})
    with pytest.raises(pydp.InvalidArgument, match="x is None"):
        pydp.reduce(None)


@pytest.mark.parametrize("ops", [("+", np.add, operator.add), ("*", np.multiply, operator.mul)])
def test_functions_that_mean_named_operators_fold_in_their_types(device: Any, ops: Any) -> None:
    small, flags = np.full(40, 3, np.uint8), np.ones(40, bool)
    for x, function in ((small, pydp.reduce), (flags, pydp.reduce), (flags, pydp.scan)):
        want, *others = (function(x, op) for op in ops)
        for got in others:
            assert got.dtype == want.dtype and np.array_equal(got, want)


def test_first_values_on_the_device_are_not_cut_to_integers(device: Any) -> None:
    x = np.ones(4, np.int32)
    assert pydp.reduce(x, init=pydp.field(np.int32(3))) == 7
    with pytest.raises(pydp.InvalidArgument, match="init has dtype float32"):
        pydp.reduce(x, init=pydp.field(np.float32(1.5)))


def test_nothing_to_fold_over_is_a_scalar_too(device: Any) -> None:
    for keepdims in (False, True):
        assert type(pydp.reduce(np.array(5, np.int32), "max", keepdims=keepdims)) is np.int32


def test_explain(device: Any) -> None:
    text = str(pydp.explain(pydp.reduce, np.zeros((10, 100), "f"), axis=1))
    assert "reduce_" in text
    # The passes over parts and over their results are two kernels where types differ.
    x = np.zeros(100_000, np.int32)
    texts = pydp.explain(pydp.reduce, x, "+", spec={"joined": 0}).sources
    assert len(texts) == 2 and len({*texts.values()}) == 2
    joined = pydp.explain(pydp.reduce, x[:4000], "+", spec=JOINED)
    assert len(joined.sources) == 1 and "the last work-item to end folds the parts' results" in str(joined)
    for wrong in ({"axes": 0}, {"out": x}, {"init": "x"}, {"keepdims": 2}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.explain(pydp.reduce, x, **wrong)


@pytest.mark.oclgrind
def test_other_mapping(device: Any) -> None:
    x = _data((3, 5000), np.int32)
    mapping = {"mapping": "simt", "lanes": 16, "items": 2, "part": 64, "longest": 2**30, "columns": 1, "busy": 8}
    small = x[:, :700]
    assert np.array_equal(pydp.reduce(small, axis=1, spec=mapping), small.sum(axis=1))
    assert np.array_equal(pydp.reduce(small, "a - 0 + b", axis=1, dtype=np.int32, spec=mapping), small.sum(axis=1))
    wide = {"mapping": "vector", "width": 4, "unroll": 2, "part": 64, "longest": 2**30, "columns": 16, "busy": 8}
    assert np.array_equal(pydp.reduce(small, axis=1, spec=wide), small.sum(axis=1))
    assert np.array_equal(pydp.reduce(small, axis=0, spec=wide), small.sum(axis=0))


@pytest.mark.oclgrind
@pytest.mark.parametrize(
    ("op", "text"), [("+", "+"), ("min", "min"), ("in order", "a - 0 + b"), ("first", "a != 0 ? a : b")]
)
def test_virtual_wavefronts_and_buffers(device: Any, op: str, text: str) -> None:
    """Lanes that share a register with several wavefronts, and folds in order in one buffer and in two."""
    x = np.random.default_rng(7).integers(-99, 99, (2, 531)).astype(np.int32)
    x[1, :40] = 0  # the first that is not zero is in the second tile: operands that trade places show everywhere
    expected = x.min(1) if op == "min" else x[[0, 1], (x != 0).argmax(1)] if op == "first" else x.sum(1)
    given = {"mapping": "simt", "lanes": 16, "items": 2, "part": 300, "longest": 2**30, "columns": 1, "busy": 4}
    for changed in ({"waves": 1, "buffers": 1}, {"waves": 3, "buffers": 2}):
        got = pydp.reduce(x, text, axis=1, dtype=np.int32, spec={**given, **changed})
        assert np.array_equal(got, expected), changed
    for wrong in ({"waves": 0}, {"buffers": 3}):
        with pytest.raises(pydp.InvalidArgument, match=f"{next(iter(wrong))} is"):
            pydp.reduce(x, spec=wrong)


def test_scalars_as_numpy_gives_them(device: Any) -> None:
    """A NumPy scalar where no axis is left; arrays where `out` or keepdims ask for them; Fields stay Fields."""
    for x in (np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(5, dtype=np.int16), np.array(7, np.uint64)):
        got, wanted = pydp.reduce(x), np.sum(x)
        assert type(got) is type(wanted) and got == wanted
        got = pydp.reduce(x, "max", axis=tuple(range(x.ndim)))
        assert type(got) is x.dtype.type and got == x.max()
    x = np.arange(6, dtype=np.float32)
    assert type(pydp.reduce(x[:0])) is np.float32
    out = np.zeros((), np.float32)
    assert pydp.reduce(x, out=out) is out and out == 15
    assert pydp.reduce(x, keepdims=True).shape == (1,)
    field = pydp.reduce(pydp.field(x))
    assert isinstance(field, pydp.Field) and field.shape == () and float(field) == 15
    record = np.dtype([("a", np.float32), ("b", np.int32)])
    got = pydp.reduce(np.ones(4, record), {"a": "a.a + b.a", "b": "a.b + b.b"})
    assert type(got) is np.void and got.tolist() == (4.0, 4)


def _sum_of_firsts(x, y):
    y.a = x.a + y.a
    return y


@pytest.mark.parametrize("members", ["f4 i2 u8", "i4 u8", "i2 u1", "u1 u1", "i4 i4 i4", "u1 u1 u1"])
def test_records_of_any_size_along_any_axis(device: Any, members: str) -> None:
    dtype = np.dtype([(name, part) for name, part in zip("abc", members.split(), strict=False)])
    x = np.zeros((37, 3), dtype)
    for name in dtype.names or ():
        x[name] = np.random.default_rng(3).integers(0, 3, x.shape)
    if members == "u1 u1 u1" and not device.profile.unaligned_records:
        for algorithm in (lambda v: pydp.reduce(v, _sum_of_firsts), pydp.sort, pydp.argsort):
            with pytest.raises(pydp.UnsupportedOnDevice, match="three bytes"):
                algorithm(x)
        pytest.skip("the driver loses records of three bytes: they are refused")
    for view in (x, x.T, x.reshape(-1, 1)):
        for axis in (0, 1):
            expected = np.take(view, -1, axis)
            expected["a"] = view["a"].sum(axis=axis)
            assert np.array_equal(pydp.reduce(view, _sum_of_firsts, axis=axis), expected)


# --- accuracy, and one element either side of the kernels' limits ---------------------------------------------------


def _error(got: Any, x: np.ndarray, axis: Any = None) -> float:
    exact = x.sum(axis=axis, dtype=np.float64 if x.dtype != np.float64 else np.longdouble)
    return float(np.max(np.abs((got - exact) / exact)))


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 7])
def test_sums_of_floats_are_accurate(device: Any, value: float) -> None:
    """Rounding errors of equal addends do not cancel: a plain loop has a relative error of 1e-2 here."""
    x = np.full(10_000_000, value, np.float32)
    assert _error(pydp.reduce(x), x) <= 2e-7
    short = device.profile.loop_limit is not None  # parts of 64 elements, folded one by one
    assert _error(pydp.reduce(x[::-3]), x[::-3]) <= (1e-6 if short else 3e-7)
    columns = x[: 1 << 23]
    for shape, axis in (((-1, 8), 0), ((1 << 13, -1), 0), ((-1, 1 << 16), 1), ((4, -1, 32), 1), ((-1, 100_000), 0)):
        part = columns[: len(columns) // abs(shape[-1]) * abs(shape[-1])].reshape(shape)
        assert _error(pydp.reduce(part, axis=axis), part, axis) <= 1e-6, (shape, axis)
    if not device.profile.is_simulator and not short:
        column = columns[: 1 << 22].reshape(-1, 2)  # a lane of a GPU adds thousands of elements
        spec = {"mapping": "simt", "busy": 1}
        assert _error(pydp.reduce(column, axis=0, spec=spec), column, 0) <= 1e-6
        assert _error(pydp.reduce(x, spec=spec), x) <= 1e-6


def test_sums_of_other_floats_are_accurate(device: Any) -> None:
    if device.profile.fp64:
        x = np.full(3_000_001, 0.1)
        assert _error(pydp.reduce(x), x) <= 4e-16
        assert _error(pydp.reduce(x[3:].reshape(-1, 2), axis=0), x[3:].reshape(-1, 2), 0) <= 2e-15
    if device.profile.fp16:
        half = np.full(20_000, 0.1, np.float16)  # a plain loop stops growing at 256
        assert _error(pydp.reduce(half), half) <= 2e-3


_LIMITS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 4095, 4096, 4097, 65_537, 131_071)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u1", "i2", "u2", "i4", "i8", "?"])
@pytest.mark.parametrize("op", ["+", "max", "a - 0 + b"])
def test_sizes_either_side_of_every_limit(device: Any, dtype: str, op: str) -> None:
    if dtype == "f8" and not device.profile.fp64:
        pytest.skip("the device has no double")
    rng = np.random.default_rng(11)
    function = np.max if op == "max" else np.sum
    for n in _LIMITS[:-2] if "a" in op else _LIMITS:
        x = rng.integers(0, 2 if dtype == "?" else 90, n).astype(dtype)
        x[-1] = 1  # the last element counts
        expected = function(x)
        got = pydp.reduce(x, op, dtype=None if op == "max" else expected.dtype)
        assert got == expected and got.dtype == expected.dtype, n


def test_extremes_of_small_integers_have_exact_sums(device: Any) -> None:
    """Partial sums are kept in types of twice the width: at both ends of the range they must not wrap."""
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        for extreme in (np.iinfo(dtype).min, np.iinfo(dtype).max):
            x = np.full((300, 1031), extreme, dtype)
            for axis in (None, 0, 1):
                assert np.array_equal(pydp.reduce(x, axis=axis), x.sum(axis=axis)), (dtype, extreme, axis)
            assert pydp.reduce(x, dtype=np.int32) == x.sum(dtype=np.int32)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "i8"])
def test_short_rows_of_every_length(device: Any, dtype: str) -> None:
    """Some are folded several at a time: whole vectors of rows and the rest, in order, and with a first value."""
    rng = np.random.default_rng(17)
    lengths = (*range(1, 11), 12, 15, 16, 17, 23, 24, 25, 31, 32) if dtype == "u1" else (1, 3, 4, 5, 8, 16, 17, 25)
    for n in lengths:
        x = rng.integers(0, 3, (1031, n)).astype(dtype)
        field = pydp.field(x, device=device)
        for first in (None, 40):
            wanted = x.sum(axis=1) + (first or 0)
            assert np.array_equal(pydp.reduce(field, axis=1, init=first).get(), wanted), n
        wanted = np.where(x.any(axis=1), x[np.arange(len(x)), (x != 0).argmax(axis=1)], 0)
        assert np.array_equal(pydp.reduce(field, "a != 0 ? a : b", axis=1, dtype=dtype).get(), wanted), n
    if dtype == "f4":
        x[5, 3] = x[1030, 7] = np.nan
        assert np.array_equal(pydp.reduce(x, "max", axis=1), x.max(axis=1), equal_nan=True)


@pytest.mark.sweep
@pytest.mark.parametrize("op", ["+", "min"])
def test_shapes_either_side_of_every_limit(device: Any, op: str) -> None:
    rng = np.random.default_rng(12)
    function = np.sum if op == "+" else np.min
    lengths = (1, 2, 5, 6, 7, 8, 9, 16, 24, 25, 33)
    shapes: list[tuple[int, ...]] = [(rows, n) for rows in (1023, 1024, 2051) for n in lengths]
    shapes += [(n, count) for n in (7, 8, 9, 255, 256, 257, 2730, 2731) for count in (2, 3, 63, 64, 65, 129)]
    shapes += [(9, 4095), (17, 4097), (3, 30, 5), (40, 9, 17), (2, 4099, 3), (600, 2, 2), (1100, 8, 1), (2, 5000, 16)]
    for shape in shapes:
        x = rng.integers(-90, 90, shape).astype(np.int32)
        field = pydp.field(x, device=device)
        for axis in range(len(shape)):
            expected = function(x, axis=axis)
            assert np.array_equal(pydp.reduce(field, op, axis=axis).get(), expected), (shape, axis)
            first = -1000 + expected if op == "+" else np.minimum(expected, -50)
            init = -1000 if op == "+" else -50
            assert np.array_equal(pydp.reduce(field, op, axis=axis, init=init).get(), first), (shape, axis)


def test_nan_anywhere_is_the_maximum(device: Any) -> None:
    for n in (5, 130, 3000, 70_000):
        for place in (0, n // 2, n - 1):
            x = np.zeros(n, np.float32)
            x[place] = np.nan
            assert np.isnan(pydp.reduce(x, "max")) and np.isnan(pydp.reduce(x, "min")), (n, place)
            assert np.isnan(pydp.reduce(np.stack([x, x], 1), "max", axis=0)).all(), (n, place)
    zeros = np.full(5000, -0.0, np.float32)
    assert np.signbit(pydp.reduce(zeros)) and not np.signbit(pydp.reduce(zeros, init=0.0))


JOINED = {"mapping": "vector", "width": 4, "unroll": 2, "part": 20, "longest": 2**30, "busy": 40, "joined": 100}


@pytest.mark.oclgrind
def test_the_last_work_item_folds_the_parts(device: Any) -> None:
    """Of whole arrays and of a few rows, in order, with a first value, also again and again on other queues."""
    rng = np.random.default_rng(14)
    affine = np.dtype([("p", np.uint32), ("q", np.uint32)])
    x = rng.integers(-9, 9, (3, 511)).astype(np.int32)
    pairs = rng.integers(0, 2**32, 1022, np.uint32).view(affine)
    p, q = 1, 0
    for pair in pairs:
        p, q = p * int(pair["p"]) % 2**32, (q * int(pair["p"]) + int(pair["q"])) % 2**32
    for _ in range(3):
        assert pydp.reduce(x, spec=JOINED) == x.sum() and pydp.reduce(x[0, :25], "max", spec=JOINED) == x[0, :25].max()
        assert np.array_equal(pydp.reduce(x, axis=1, spec=JOINED), x.sum(axis=1))
        assert np.array_equal(pydp.reduce(x, axis=1, spec=JOINED, init=-5), x.sum(axis=1) - 5)
        assert pydp.reduce(x[0], "a != 0 ? a : b", dtype=np.int32, spec=JOINED, init=0) == x[0][x[0] != 0][0]
        composed = pydp.reduce(pairs, {"p": "a.p * b.p", "q": "a.q * b.p + b.q"}, spec=JOINED)
        assert composed.tolist() == (p, q)
    small = rng.random(900, dtype=np.float32)
    assert len({pydp.reduce(small, spec=JOINED).tobytes() for _ in range(20)}) == 1
    words = [np.int64, *([np.float64, np.complex128] if device.profile.fp64 else [])]
    for dtype in words:  # values of more words than one
        large = (rng.integers(-9, 9, 300) * 2**33).astype(dtype)
        assert pydp.reduce(large, spec=JOINED) == large.sum()


@pytest.mark.oclgrind
def test_all_forms_of_the_kernels_of_cpus(device: Any) -> None:
    """Chunks, rests, blocks of columns, wider rows, short rows: each with small limits."""
    given = {"mapping": "vector", "width": 4, "unroll": 2, "part": 64, "longest": 2**30, "columns": 16, "busy": 4}
    x = np.random.default_rng(13).integers(-9, 9, 1031 * 8).astype(np.int32)
    for shape, axis in (((1031 * 8,), 0), ((1031, 8), 0), ((1031, 8), 1), ((8, 1031), 0), ((8, 1031), 1)):
        for height in (5, 2**30):
            spec = {**given, "rows": 4, "height": height}
            part = x.reshape(shape)
            for view in (part, part[1:], part[::-2]):
                assert np.array_equal(pydp.reduce(view, axis=axis, spec=spec), view.sum(axis=axis)), (shape, axis)
    for n in (7, 11):
        part = x[: 1029 * n].reshape(1029, n) if n < 9 else x[: 741 * n].reshape(741, n).repeat(2, 0)
        assert np.array_equal(pydp.reduce(part, axis=1, spec=given), part.sum(axis=1)), n
    first = pydp.reduce(x[:700], "a != 0 ? a : b", dtype=np.int32, spec={**given, "rows": 4})
    assert first == x[x != 0][0]


def test_fields_of_the_other_mapping_have_no_effect(device: Any) -> None:
    x = _data((5000,), np.int32)
    spec = {"mapping": "simt", "lanes": 16, "items": 1, "waves": 1, "part": 64, "joined": 256}
    assert pydp.reduce(x, spec=spec) == x.sum()


def test_short_rows_of_records_larger_than_a_vector(device: Any) -> None:
    names = [f"n{i}" for i in range(33)]
    x = np.zeros((1024, 4), [(name, np.int32) for name in names])
    for i, name in enumerate(names):
        x[name] = np.random.default_rng(i).integers(-9, 9, x.shape)
    found = pydp.reduce(x, {name: f"a.{name} + b.{name}" for name in names}, axis=1)
    assert all(np.array_equal(found[name], x[name].sum(1)) for name in names)


@pytest.mark.huge
def test_more_than_2_to_the_31_elements(device: Any) -> None:
    x = np.ones((1 << 31) + 3, np.uint8)
    x[-1] = 7
    assert pydp.reduce(x, dtype=np.int64) == (1 << 31) + 2 + 7
    assert pydp.reduce(x, "max") == 7
    assert pydp.argmax(x) == (1 << 31) + 2
    rows = x[: 1 << 31].reshape(2, 1 << 30)
    assert pydp.reduce(rows, axis=1, dtype=np.int64).tolist() == [1 << 30] * 2


def test_a_function_is_known_by_what_it_does(device):
    """A sum that is named max is as accurate as a sum; an equal expression is a sum of small integers, too."""

    def max(a, b):
        return a + b

    x = np.full(1 << 20, 0.1, np.float32)
    want = pydp.reduce(x)
    assert pydp.reduce(x, max) == pydp.reduce(x, "a + b") == want
    small = np.full(100_000, 100, np.int8)
    assert pydp.reduce(small, "a + b", dtype=np.int64) == pydp.reduce(small, max, dtype=np.int64) == 10_000_000
    assert pydp.reduce(small[:100]) == 10_000 and pydp.reduce(small[:100], "b + a") == np.int8(16)  # in its own dtype
    assert "b + a (computed as +)" in str(pydp.explain(pydp.reduce, small, "b + a"))
    assert pydp.reduce(x[:0], "a + b") == 0 and pydp.scan(small[:3], "a + b", exclusive=True).tolist() == [0, 100, -56]
