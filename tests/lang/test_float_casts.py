"""Floats that no integer of the target holds: the same integers on every device and on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp

VALUES = [0.0, -0.5, 2.75, -2.75, 300.0, -300.0, 3e9, -3e9, 1e19, 1e20, -1e20, np.inf, -np.inf, np.nan]


def every(idx: Any, x: Any, bytes_: Any, words: Any, longs: Any) -> None:
    i = idx[0]
    bytes_[i, 0] = np.int8(x[i])
    bytes_[i, 1] = np.int8(np.uint8(x[i]))
    words[i, 0] = np.int32(x[i])
    words[i, 1] = np.uint32(x[i])
    longs[i, 0] = np.int64(x[i])
    longs[i, 1] = np.uint64(x[i])


def expected(x: float, kind: str) -> int:
    """The whole part in 32 bits or 64, the smallest integer where that does not hold it; then its low bits."""
    bits = 8 * np.dtype(kind).itemsize
    middle = 32 if kind in ("i1", "u1", "u2", "i4") else 64
    low = -(1 << middle - 1)
    whole = int(x) if np.isfinite(x) else low
    if not (kind == "u8" and 0 <= whole < 1 << 64) and not low <= whole < -low:
        whole = low
    return int(np.uint64(whole % (1 << bits)))


@pytest.mark.parametrize("where", ["simt", "default", "host"])
def test_casts_of_floats(device: Any, where: str) -> None:
    x = np.array(VALUES, np.float32)
    shape = (len(x), 2)
    results = [np.zeros(shape, np.uint8), np.zeros(shape, np.uint32), np.zeros(shape, np.uint64)]
    views = [results[0].view(np.int8), results[1], results[2]]
    how: dict[str, Any] = {"host": {"device": "host"}, "default": {}, "simt": {"spec": {"mapping": "simt"}}}[where]
    pydp.forall(len(x), every, x, *views, **how)
    for result, kinds in zip(results, (("i1", "u1"), ("i4", "u4"), ("i8", "u8")), strict=True):
        for column, kind in enumerate(kinds):
            assert result[:, column].tolist() == [expected(float(v), kind) for v in x], kind


def rounded(idx: Any, x: Any, y: Any) -> None:
    i = idx[0]
    unknown = x[i] * np.float32(0) + np.float32(np.nan)
    y[i, 0] = np.rint(x[i])
    y[i, 1] = np.rint(unknown)
    y[i, 2] = np.rint(np.float32(2.5) + np.float32(i) * np.float32(0))


@pytest.mark.parametrize("mapping", ["simt", "default"])
def test_rint_of_constants_is_stored(device: Any, mapping: str) -> None:
    """One compiler makes no value at all of its own rint of NaN, and stores nothing."""
    edges = [0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 4194304.5, 8388609.0, 1e9]
    x = np.array([*VALUES, *edges], np.float32)
    y = np.full((len(x), 3), 7, np.float32)
    pydp.forall(len(x), rounded, x, y, spec={"mapping": mapping} if mapping == "simt" else None)
    np.testing.assert_array_equal(y[:, 0], np.rint(x))
    assert np.isnan(y[:, 1]).all() and (y[:, 2] == 2).all()


def not_a_number(a: Any, b: Any) -> Any:
    return np.rint((a - a) * np.float32(0) + np.float32(np.nan)) + b * np.float32(0)


def test_rint_in_an_operator_is_stored(device: Any) -> None:
    out = np.full(4, 7, np.float32)
    pydp.scan(np.ones(4, np.float32), not_a_number, out=out)
    assert np.isnan(out[1:]).all()


@pytest.mark.host
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_one_lane_and_many_are_cast_alike(kind: str) -> None:
    from pydp.lang.numpy_math import cast

    with np.errstate(over="ignore"):
        x = np.array(VALUES, kind)
    for name in ("i1", "u2", "i4", "u4", "i8", "u8"):
        many = cast(x, np.dtype(name))
        assert many.dtype == name and many.tolist() == [cast(one, np.dtype(name)) for one in x]
        assert many.astype(f"u{many.itemsize}").tolist() == [expected(float(v), name) for v in x]
