"""Fields' data on its way: every type to the device and back, strided copies, queues, threads, memory used again."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from field_samples import DTYPES, equal, sample

import pydp
from pydp.errors import InvalidArgument
from pydp.runtime.arrays.elementwise import collapse
from pydp.runtime.call import Call
from pydp.runtime.field.transfer import read


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_moves(device: Any, dtype: Any) -> None:
    values = sample((3, 4, 5), dtype)
    field = pydp.field(values)
    assert field.dtype == field.element_type == np.dtype(dtype)
    equal(field, values)
    equal(field[::2, ::-1, 1:], values[::2, ::-1, 1:])
    equal(field.T.copy(), values.T)
    one = sample((), dtype, 7)
    field[:, 1] = one
    values[:, 1] = one
    field[0] = field[2]
    values[0] = values[2]
    equal(field, values)
    equal(pydp.zeros((2, 3), dtype), np.zeros((2, 3), dtype))
    equal(pydp.full((7,), one), np.full((7,), one))


def test_packed_odd_records_move(device: Any) -> None:
    odd = np.dtype([("a", "u1"), ("b", "<u2")])
    values = sample((4, 5), odd)
    field = pydp.field(values)
    equal(field[::-1, 1::2].copy(), values[::-1, 1::2])
    vectors = np.zeros(5, cl.cltypes.float4)
    vectors["x"] = np.arange(5)
    equal(pydp.field(vectors)[::2].copy(), vectors[::2])
    wide = np.zeros((9, 10), cl.cltypes.double8)
    wide["s7"] = np.arange(90).reshape(9, 10)
    equal(pydp.field(wide).T[::2].copy(), wide.T[::2])


def test_device_side_reads_of_strided_views(device: Any) -> None:
    # The way for devices with their own memory, which `get` takes only there.
    values = sample((6, 7), "f4")
    field = pydp.field(values)[::-2, 1::3]
    target = np.empty(field.shape, field.dtype)
    read(field, target, blocking=False).wait()
    np.testing.assert_array_equal(target, values[::-2, 1::3])


def test_copies_in_and_out(device: Any) -> None:
    values = sample((4, 6), "f4")
    field = pydp.empty((4, 6))
    field.copy_in(values)
    target = np.empty_like(values)
    field.copy_out(target)
    np.testing.assert_array_equal(target, values)
    wide = np.zeros((8, 12), np.float32)
    field.copy_out(wide[::2, ::2])
    np.testing.assert_array_equal(wide[::2, ::2], values)
    assert wide.sum() == values.sum()
    swapped = np.empty((4, 6), ">f4")
    field.copy_out(swapped)
    np.testing.assert_array_equal(swapped, values)
    event = field.copy_in(2 * values, blocking=False)
    assert event is not None
    done = field.copy_out(target, blocking=False)
    done.wait()
    np.testing.assert_array_equal(target, 2 * values)
    other = pydp.empty((6, 4))
    field.T.copy_out(other)
    equal(other, (2 * values).T)
    field[:, ::2].copy_in(values[:, :3], blocking=False)
    expected = 2 * values
    expected[:, ::2] = values[:, :3]
    equal(field, expected)
    field.set(np.arange(24, dtype=">i8").reshape(4, 6))
    equal(field, np.arange(24, dtype=np.float32).reshape(4, 6))
    assert pydp.empty((0, 3)).copy_in(np.zeros((0, 3))) is None


def test_overlapping_assignment_reads_before_it_writes(device: Any) -> None:
    values = np.arange(40, dtype=np.int32)
    field = pydp.field(values)
    field[3:] = field[:-3]
    values[3:] = values[:-3].copy()
    equal(field, values)
    field[...] = field[::-1]
    equal(field, values[::-1])
    square = pydp.field(np.arange(16, dtype=np.int16).reshape(4, 4))
    square[...] = square.T
    equal(square, np.arange(16, dtype=np.int16).reshape(4, 4).T)
    square += square.T
    expected = np.arange(16, dtype=np.int16).reshape(4, 4).T
    equal(square, expected + expected.T)


def test_a_copy_out_into_a_read_only_array_is_refused(device: Any) -> None:
    target = np.zeros(3, np.float32)
    target.flags.writeable = False
    with pytest.raises(InvalidArgument, match="read-only"):
        pydp.zeros(3).copy_out(target)


def test_order_between_queues(device: Any) -> None:
    other = cl.CommandQueue(device.context)
    values = np.arange(1 << 16, dtype=np.int32)
    field = pydp.zeros(values.shape, np.int32)
    array = cl.array.to_device(other, values)
    for _ in range(5):
        field[...] = array
        array += 1
        field += 1
    equal(field, values + 5)
    on_own_queue = field.array  # pyopencl's work on it is waited for as well
    for _ in range(5):
        on_own_queue += 1
        array += field.array.with_queue(other)
        call = Call.begin({"field": field}, queue=other)
        held = call.output(field.shape, field.dtype)
        call.copy(call.input("field"), held)
        result = call.finish(held)
        on_own_queue += 1
        equal(result, field.get() - 1)
    equal(field, values + 15)


@pytest.mark.host
@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((4, 5), [(5, 1), (5, 1)], ([20], [[1], [1]])),
        ((4, 5), [(5, 1), (1, 4)], ([4, 5], [[5, 1], [1, 4]])),
        ((4, 1, 5), [(5, 5, 1), (10, 3, 2)], ([20], [[1], [2]])),
        ((4, 5), [(1, 4), (1, 4)], ([20], [[1], [1]])),
        ((), [(), ()], ([1], [[1], [1]])),
        ((1, 1), [(9, 9), (0, 0)], ([1], [[1], [1]])),
        ((2, 3, 4), [(12, 4, 1), (0, 4, 1)], ([2, 12], [[12, 1], [0, 1]])),
    ],
)
def test_axes_are_joined(shape: Any, strides: Any, expected: Any) -> None:
    assert collapse(shape, strides) == expected


@pytest.mark.oclgrind
@pytest.mark.parametrize("mapping", ["vector", "simt"])
def test_transposed_copies(device: Any, mapping: str) -> None:
    before = device.profile
    device._profile = dataclasses.replace(before, mapping=mapping)
    try:
        for dtype in ("u1", "f4", "c8", "c16") if not before.is_simulator else ("i2",):
            for shape in ((9, 8), (33, 40), (8, 9, 2, 3), (1, 34, 17)):
                values = sample(shape, dtype)
                field = pydp.field(values)
                equal(field.T.copy(), values.T)
                equal(field[:, 1:].T[::-1].copy(), values[:, 1:].T[::-1])
                wide = pydp.zeros((shape[1] + 2, shape[0] + 1), dtype)
                part = values.reshape(*shape[:2], -1)[:, :, 0]
                wide[1:-1, 1:] = field.reshape(*shape[:2], -1)[:, :, 0].T
                expected = np.zeros(wide.shape, dtype)
                expected[1:-1, 1:] = part.T
                equal(wide, expected)
    finally:
        device._profile = before
        device.plans.clear()
        device.recordings.clear()


@pytest.mark.parametrize("apart", [False, True])
def test_between_devices(device: Any, apart: bool) -> None:
    other = needs.another_device(device) if apart else device
    values = sample((3, 4), "f4")
    there = pydp.field(values, device=other)
    here = pydp.empty((4, 3))
    here.T.copy_in(there)
    equal(here, values.T)
    (here + 1).T.copy_out(there)
    equal(there, values + 1)
    assert pydp.field(there, device=device).device is device


def test_threads(device: Any) -> None:
    values = np.arange(1 << 14, dtype=np.int32)
    shared = pydp.field(values)

    def work(number: int) -> bool:
        own = pydp.field(values + number)
        for _ in range(10):
            own = own + shared
            own += shared
        return bool((own.get() == values * 21 + number).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_memory_that_is_used_again_keeps_its_order(device: Any) -> None:
    # Fields of this size come from a pool: one that is dropped while kernels still use it goes to the next.
    values = np.arange(1 << 18, dtype=np.int32)
    field = pydp.field(values)
    results = []
    for number in range(40):
        temporary = field + number
        results.append((temporary * 2)[:: 1 << 10].copy())
    for number, result in enumerate(results):
        equal(result, ((values + number) * 2)[:: 1 << 10])
    kept = field.array
    del field
    np.testing.assert_array_equal((kept + 0).get(), values)


@pytest.mark.huge
def test_more_than_32_bits_of_elements(device: Any) -> None:
    count = (1 << 32) + 1000
    if device.profile.max_allocation < count:
        pytest.skip(f"{device.name} gives {device.profile.max_allocation} bytes at once, the test needs {count}")
    field = pydp.zeros(count, np.uint8)
    field[-3:] = [1, 2, 3]
    field[1 << 31] = 9
    equal(field[-4:], np.array([0, 1, 2, 3], np.uint8))
    equal(field[:: 1 << 31].copy(), np.array([0, 9, 0], np.uint8))
    backwards = field[::-1].copy()
    equal(backwards[:4], np.array([3, 2, 1, 0], np.uint8))
    assert int(backwards[count - 1 - (1 << 31)]) == 9


@pytest.mark.parametrize("dtype", ["i1", "u2", "f2", "i4", "f4", "i8", "c8", "c16", "?", "i4,i4", "i1,i2,f4"])
@pytest.mark.parametrize("stores", [None, "nontemporal"])
def test_large_fills(device: Any, request: pytest.FixtureRequest, dtype: str, stores: str | None) -> None:
    """Elements before and after the filled ones keep their values."""
    if stores:
        request.getfixturevalue(stores)
    n = (1 << 18) // np.dtype(dtype).itemsize + 5
    for value in (np.ones((), dtype), np.zeros((), dtype)):
        want = np.random.default_rng(0).integers(0, 99, (2, n)).astype(dtype)
        field = pydp.field(want, device=device)
        field[1, 1:-1] = value
        want[1, 1:-1] = value
        assert np.array_equal(field.get(), want)
        field[:, ::2] = value
        want[:, ::2] = value
        assert np.array_equal(field.get(), want)
        assert np.array_equal(pydp.full(n, value, device=device).get(), np.full(n, value))


def test_cpu_drivers_fill_little(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = []

    def fill(*args: Any, **options: Any) -> Any:
        filled.append(args)
        return original(*args, **options)

    original = cl.enqueue_fill_buffer
    monkeypatch.setattr(cl, "enqueue_fill_buffer", fill)
    pydp.zeros(1 << 16, np.float32, device=device)
    assert len(filled) == 1
    pydp.zeros((1 << 16) + 1, np.float32, device=device)
    assert len(filled) == (1 if device.profile.mapping == "vector" else 2)
