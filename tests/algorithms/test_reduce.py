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
    with pytest.raises(pydp.InvalidArgument, match="needs init"):
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
    texts = pydp.explain(pydp.reduce, x, "+").sources
    assert len(texts) == 2 and len({*texts.values()}) == 2
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
