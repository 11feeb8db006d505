"""pydp.transpose against NumPy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from banked import banked

import pydp

SIMT = {"mapping": "simt", "block": 16, "rows": 4}
VECTOR = {"mapping": "vector", "block": 8, "chunk": 2}


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [None, SIMT, VECTOR], ids=["default", "simt", "vector"])
def test_small(device: Any, spec: Any) -> None:
    x = np.arange(19 * 37, dtype=np.int32).reshape(19, 37)
    result = pydp.transpose(x, spec=spec)
    assert result.flags.c_contiguous and np.array_equal(result, x.T)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64, np.complex128])
def test_exchanges_in_local_memory(device: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By lanes, laid out for a device without banks and for one with 32; whole blocks and edges."""
    x = (np.arange(2 * 70 * 67) % 251).astype(dtype).reshape(2, 70, 67)
    with banked(device, monkeypatch):
        for spec in ({"mapping": "simt", "block": 32, "rows": 8}, SIMT):
            assert np.array_equal(pydp.transpose(x, (0, 2, 1), spec=spec), x.transpose(0, 2, 1))
        told = str(pydp.explain(pydp.transpose, x, (0, 2, 1), spec={**SIMT, "rows": 8}))
        assert "conflict-free on 32 banks" in told
    assert np.array_equal(pydp.transpose(x, (0, 2, 1), spec=SIMT), x.transpose(0, 2, 1))


def test_every_order_of_axes(device: Any) -> None:
    x = np.arange(3 * 17 * 5 * 33).reshape(3, 17, 5, 33).astype(np.int16)
    field = pydp.field(x)
    for axes in itertools.permutations(range(4)):
        assert np.array_equal(pydp.transpose(x, axes), x.transpose(axes))
        assert np.array_equal(pydp.transpose(field[:, ::2, :, ::-1], axes).get(), x[:, ::2, :, ::-1].transpose(axes))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64, np.complex64, [("a", np.int16), ("b", np.uint8)]])
def test_types_and_sizes(device: Any, dtype: Any) -> None:
    for shape in ((0, 3), (1, 1), (64, 64), (129, 200), (3, 1000)):
        x = np.zeros(shape, dtype)
        raw = x.reshape(-1).view(np.uint8)
        raw[:] = np.arange(raw.size) % 126
        assert pydp.transpose(x).tobytes() == np.ascontiguousarray(x.T).tobytes()


def test_out_and_overlap(device: Any) -> None:
    x = np.arange(40 * 40, dtype=np.float32).reshape(40, 40)
    expected = x.T.copy()
    assert pydp.transpose(x, out=x) is x and np.array_equal(x, expected)
    wide = np.zeros((40, 80), np.float32)
    pydp.transpose(x, out=wide[:, ::2])
    assert np.array_equal(wide[:, ::2], x.T) and not wide[:, 1::2].any()


def test_plain_copies_have_nothing_to_tune(device: Any) -> None:
    for x in (np.zeros(70, np.int32), np.zeros((30, 20)).T, np.zeros((0, 3)), np.zeros((1, 9))):
        with pytest.raises(pydp.errors.InvalidArgument, match="this call of transpose cannot be tuned"):
            pydp.tune(pydp.transpose, x, device=device)


def test_wrong_arguments(device: Any) -> None:
    x = np.zeros((2, 3), np.float32)
    for axes in ((0,), (0, 0), (0, 2), 5, ("a", "b"), (True, False)):
        with pytest.raises(pydp.InvalidArgument):
            pydp.transpose(x, axes)
    wrong_specs = [{"tile": 3}, {"block": 3}, {"rows": 3}, {"mapping": "simd"}, {"mapping": "simt", "block": 128}]
    for named in ({"out": np.zeros((2, 3), np.float32)}, *({"spec": spec} for spec in wrong_specs)):
        with pytest.raises(pydp.InvalidArgument):
            pydp.transpose(x, **named)
    assert "tiles" in str(pydp.explain(pydp.transpose, np.zeros((20, 30), np.float32)))
    assert "elementwise_copy" in pydp.explain(pydp.transpose, x, (0, 1)).sources
    for named in ({"axis": 0}, {"out": x}, {"axes": (0, 1), "spec": {"block": 3}}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.explain(pydp.transpose, x, **named)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_larger_than_the_caches(device: Any, dtype: Any) -> None:
    """Results that go round the caches, lines of them whole and not, at the beginning of a cache line and not."""
    x = np.arange(1040 * 784).reshape(1040, 784).astype(dtype)
    field = pydp.field(x)
    for rows, columns in ((1040, 784), (1024, 768), (1031, 777)):
        expected = x[:rows, :columns].T
        assert np.array_equal(pydp.transpose(field[:rows, :columns]).get(), expected)
        for start in (0, 3, 32 // np.dtype(dtype).itemsize):
            out = pydp.zeros((columns + 2, 1056), dtype)
            pydp.transpose(field[:rows, :columns], out=out[1 : columns + 1, start : start + rows])
            whole = out.get()
            assert np.array_equal(whole[1 : columns + 1, start : start + rows], expected)
            whole[1 : columns + 1, start : start + rows] = 0
            assert not whole.any()
