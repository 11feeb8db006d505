"""Arrays whose own elements share memory: which ones they are, and that none of them is ever written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import pydp
from pydp.errors import InvalidArgument
from pydp.runtime.arrays.self_overlap import overlaps_itself
from pydp.runtime.programs.program import Kernel


def _meets(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bool:
    """The same by counting: whether fewer units are touched than the elements have."""
    places = np.zeros(1, np.int64)
    for size, stride in zip(shape, strides, strict=True):
        places = (places[:, None] + np.arange(size) * stride).ravel()
    return len({unit for place in places.tolist() for unit in range(place, place + item)}) < item * len(places)


@pytest.mark.host
@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-40, 40)), max_size=5), st.integers(1, 8))
def test_every_layout(axes: list[tuple[int, int]], item: int) -> None:
    shape, strides = tuple(size for size, _ in axes), tuple(stride for _, stride in axes)
    assert overlaps_itself(shape, strides, item) == _meets(shape, strides, item)


@pytest.mark.host
@pytest.mark.parametrize(
    ("shape", "strides", "item", "expected"),
    [
        ((3, 2), (8, 12), 4, False),
        ((17, 9), (4, 4), 4, True),
        ((1000, 1000), (1001, 1000), 1, False),
        ((1002, 1001), (1001, 1000), 1, False),
        ((1002, 1002), (1001, 1000), 1, True),
        ((2**31, 2**31), (2**31, 1), 1, False),
        ((2**31, 2**31), (2**31 - 1, 1), 1, True),
        ((1 << 40, 1 << 20), ((1 << 20) - 1, (1 << 60) - 1), 1, False),
        ((5,), (0,), 4, True),
        ((1, 0), (0, 0), 4, False),
        ((), (), 4, False),
        ((3,), (2,), 4, True),
        ((3,) * 12, tuple(int(3.1**axis) + 5 for axis in range(12)), 1, True),
    ],
)
def test_known_layouts(shape: tuple[int, ...], strides: tuple[int, ...], item: int, expected: bool) -> None:
    assert overlaps_itself(shape, strides, item) is expected


def _kinds(device: Any, buffer: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Any]:
    """An array of the shape and the strides (in elements) on the elements of `buffer`, of every kind."""
    steps = tuple(stride * buffer.itemsize for stride in strides)
    whole = cl.array.to_device(device.queue, buffer)
    array = cl.array.Array(device.queue, shape, buffer.dtype, data=whole.data, strides=steps)
    return [as_strided(buffer, shape, steps), array, pydp.Field.wrap(array)]


def _fill(i: Any, o: Any) -> None:
    o[i] = 1


def _fill_tile(i: Any, o: Any) -> None:
    o[i.group[0], i.group[1]][i.local] = 1


_WRITES = {
    "matmul": lambda out: pydp.matmul(np.ones((4, 5), "f4"), np.ones((5, 3), "f4"), out=out),
    "scan": lambda out: pydp.scan(np.ones((4, 3), "f4"), axis=1, out=out),
    "scan of columns": lambda out: pydp.scan(np.ones((4, 3), "f4"), axis=0, out=out),
    "reduce": lambda out: pydp.reduce(np.ones((2, 4, 3), "f4"), axis=0, out=out),
    "sort": lambda out: pydp.sort(np.ones((4, 3), "f4"), axis=1, out=out),
    "transpose": lambda out: pydp.transpose(np.ones((3, 4), "f4"), out=out),
    "forall": lambda out: pydp.forall(out.shape, _fill, out),
    "forall on tiles": lambda out: pydp.forall(out.shape, _fill_tile, pydp.tile(out, (2, 3)), group=(2, 3)),
    "forall on the host": lambda out: pydp.forall(out.shape, _fill, out, device="host"),
    "copy_out": lambda out: pydp.zeros((4, 3)).copy_out(out),
    "tile": lambda out: pydp.tile(out, (4, 3)).__setitem__((0, 0), 1),
}
_WRITES_OF_FIELDS = {
    "assignment": lambda out: out.__setitem__(..., 1),
    "assignment of an array": lambda out: out.__setitem__(slice(0, 3), np.ones((3, 3))),
    "assignment of a field": lambda out: out.__setitem__(..., pydp.zeros(3)),
    "copy_in": lambda out: out.copy_in(np.ones((4, 3))),
    "set": lambda out: out.set(np.ones((4, 3))),
    "in place": lambda out: out.__iadd__(1),
}


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (1, 0), (2, 1)])
@pytest.mark.parametrize("write", [*_WRITES, *_WRITES_OF_FIELDS])
def test_nothing_writes_elements_that_share_memory(
    device: Any, monkeypatch: pytest.MonkeyPatch, write: str, strides: tuple[int, int]
) -> None:
    """Refused before anything is enqueued: the elements stay as they are."""
    buffer = np.arange(20, dtype=np.float32)
    for out in _kinds(device, buffer, (4, 3), strides):
        if write in _WRITES_OF_FIELDS and not isinstance(out, pydp.Field):
            continue
        act = {**_WRITES, **_WRITES_OF_FIELDS}[write]
        with monkeypatch.context() as patched:
            patched.setattr(Kernel, "enqueue", lambda *_, **__: pytest.fail("a kernel was enqueued"))
            with pytest.raises(InvalidArgument, match="share memory"):
                act(out)
        base = out.base_data if isinstance(out, cl.array.Array) else None
        if base is not None:
            found = np.empty_like(buffer)
            cl.enqueue_copy(device.queue, found, base)
            np.testing.assert_array_equal(found, np.arange(20))
    np.testing.assert_array_equal(buffer, np.arange(20))


@pytest.mark.parametrize("strides", [(2, 8), (5, 2), (3, 4)])
@pytest.mark.parametrize("write", [*_WRITES, *_WRITES_OF_FIELDS])
def test_elements_that_interleave_are_written(device: Any, write: str, strides: tuple[int, int]) -> None:
    act = {**_WRITES, **_WRITES_OF_FIELDS}[write]
    plain = pydp.zeros((4, 3))
    act(plain)
    for out in _kinds(device, np.zeros(40, np.float32), (4, 3), strides):
        if write not in _WRITES_OF_FIELDS or isinstance(out, pydp.Field):
            act(out)
            found = pydp.Field.wrap(out).get() if isinstance(out, cl.array.Array) else np.asarray(out)
            np.testing.assert_array_equal(found, plain.get())


@pytest.mark.oclgrind
def test_small(device: Any) -> None:
    buffer = np.zeros(20, np.float32)
    out = as_strided(buffer, (3, 2), (8, 12))
    pydp.transpose(np.arange(6, dtype=np.float32).reshape(2, 3), out=out)
    np.testing.assert_array_equal(out, np.arange(6).reshape(2, 3).T)
    with pytest.raises(InvalidArgument, match="share memory"):
        pydp.transpose(np.arange(6, dtype=np.float32).reshape(2, 3), out=as_strided(buffer, (3, 2), (4, 4)))
