"""Fields against NumPy: indexing, transfers, assignment, arithmetic."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.runtime.call import Call
from pydp.runtime.elementwise import collapse
from pydp.runtime.indexing import IndexOutOfRange
from pydp.runtime.transfer import read

RECORD = np.dtype([("place", "f4", (3,)), ("kind", "u1"), ("count", "i8")])
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", RECORD]


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Arbitrary values of a dtype; floats are whole numbers, so that arithmetic is exact."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.names is not None:
        values = np.zeros(shape, dtype)
        for name in dtype.names:
            values[name] = rng.integers(0, 100, values[name].shape)
        return values
    values = rng.integers(0 if dtype.kind in "?bu" else -40, 2 if dtype.kind == "b" else 40, shape).astype(dtype)
    return values + 1j * rng.integers(-40, 40, shape).astype(dtype) if dtype.kind == "c" else values


def equal(field: Any, expected: np.ndarray) -> None:
    got = field.get()
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A basic index that NumPy accepts for this shape."""
    front = draw(st.integers(0, len(shape)))
    back = draw(st.integers(front, len(shape)))

    room = 6 - len(shape)

    def items(sizes: tuple[int, ...]) -> list[Any]:
        nonlocal room
        found: list[Any] = []
        for size in sizes:
            if room > 0 and draw(st.integers(0, 4)) == 0:
                found.append(None)
                room -= 1
            is_number = size > 0 and draw(st.integers(0, 3)) == 0
            found.append(draw(st.integers(-size, size - 1)) if is_number else draw(st.slices(size)))
        return found

    return tuple(items(shape[:front]) + ([Ellipsis, *items(shape[back:])] if draw(st.booleans()) else []))


@settings(max_examples=50)
@given(st.data(), st.lists(st.integers(0, 5), max_size=4))
def test_views_of_views_are_numpys(device: Any, data: st.DataObject, sizes: list[int]) -> None:
    values = np.arange(int(np.prod(sizes)), dtype=np.int32).reshape(sizes)
    field = pydp.field(values)
    for _ in range(3):
        key = data.draw(keys(values.shape))
        values, field = values[key], field[key]
        if data.draw(st.booleans()):
            values, field = values.T, field.T
        assert field.shape == values.shape
    equal(field, values)
    assert field.is_contiguous == (values.flags.c_contiguous or values.size == 0)


@settings(max_examples=30)
@given(st.data(), st.lists(st.integers(1, 5), max_size=4))
def test_assignment_writes_through_views(device: Any, data: st.DataObject, sizes: list[int]) -> None:
    values = np.arange(int(np.prod(sizes)), dtype=np.int32).reshape(sizes)
    field = pydp.field(values)
    key = data.draw(keys(values.shape))
    part = values[key]
    shape = part.shape[data.draw(st.integers(0, part.ndim)) :]
    shape = tuple(1 if size > 1 and data.draw(st.booleans()) else size for size in shape)
    new = -1 - np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    values[key] = new
    field[key] = new if data.draw(st.booleans()) else pydp.field(new)
    equal(field, values)


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


@pytest.mark.parametrize("rank", range(7))
def test_ranks(device: Any, rank: int) -> None:
    values = sample((2, 3, 1, 2, 2, 3)[:rank], "i4")
    field = pydp.field(values)
    assert field.rank == field.ndim == rank and field.extent == values.shape and field.grid.size == values.size
    assert field.size == values.size and field.nbytes == values.nbytes
    equal(field.T.copy(), values.T)
    equal(field + field.T.copy().T, values + values)


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


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_arithmetic_is_numpys(device: Any, dtype: str) -> None:
    a, b = sample((3, 5), dtype, 1), sample((5,), dtype, 2)
    b[b == 0] = 1
    if (np.dtype(dtype).kind == "f" or np.dtype(dtype).kind == "c") and not _has(device, np.dtype(dtype)):
        with pytest.raises(UnsupportedOnDevice):
            pydp.field(a) + 1
        return
    x, y = pydp.field(a), pydp.field(b)
    equal(x + y, a + b)
    equal(x * y, a * b)
    if dtype == "?":
        with pytest.raises(InvalidArgument, match="not defined"):
            x - y
        return
    equal(x - y, a - b)
    equal(2 * x[:, ::2] - 1, 2 * a[:, ::2] - 1) if np.dtype(dtype).kind != "u" else None
    quotient = a / b
    if _has(device, quotient.dtype):
        np.testing.assert_allclose((x / y).get(), quotient, rtol=1e-6 if dtype != "f2" else 1e-3)
        assert (x / y).dtype == quotient.dtype
    else:
        with pytest.raises(UnsupportedOnDevice):
            x / y


def _has(device: Any, dtype: np.dtype) -> bool:
    base = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if dtype.kind not in "fc" or base == 4:
        return True
    return bool(device.profile.fp64 if base == 8 else device.profile.fp16)


def test_arithmetic_mixes_kinds_and_types(device: Any) -> None:
    a, b = sample((4, 3), "i4", 1), sample((4, 3), "f4", 2)
    x = pydp.field(b)
    equal(b + x, b + b)
    equal(x + cl.array.to_device(device.queue, b), b + b)
    assert (x + 1).dtype == (1.5 * x).dtype == np.float32
    equal(pydp.field(a).astype("f4") * x, a.astype("f4") * b)
    equal(pydp.field(a).astype("i1"), a.astype("i1"))
    equal((x + 0.5).astype(bool), (b + np.float32(0.5)).astype(bool))
    equal(np.int16(3) * pydp.field(a), np.int16(3) * a)
    equal(-pydp.field(a), -a)
    equal(+x, b)
    x /= 2
    equal(x, b / 2)
    with pytest.raises(InvalidArgument, match="cannot be kept"):
        y = pydp.field(a)
        y += 0.5
    with pytest.raises(InvalidArgument, match="do not fit"):
        x + pydp.zeros((2, 2))
    with pytest.raises(TypeError):
        x + "1"
    with pytest.raises(InvalidArgument, match="does not fit"):
        pydp.field(np.zeros(3, np.uint8)) + 300


def test_as_numpy_and_as_a_number(device: Any) -> None:
    values = sample((3, 4), "f4")
    field = pydp.field(values)
    assert type(np.asarray(field)) is np.ndarray
    np.testing.assert_array_equal(np.asarray(field, dtype="f8"), values.astype("f8"))
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(field, copy=False)
    assert float(field[1, 2]) == values[1, 2] and field(1, 2).item() == values[1, 2] and field[1, 2].shape == ()
    assert int(pydp.full((), 7)) == 7 and [10, 11, 12][pydp.full((), 2, "i4")] == 12 and bool(pydp.full((1,), 3))
    assert complex(pydp.full((), 2.0, "f4")) == 2
    assert len(field) == 3 and "(3, 4) float32" in repr(field) and "read-only" in repr(field.read_only)
    for wrong in (lambda: list(field), lambda: 3 in field, lambda: len(field[0, 0]), lambda: [1][field[0, 0]]):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(InvalidArgument, match="ambiguous"):
        bool(field)


def test_the_pyopencl_array_is_the_same_memory(device: Any) -> None:
    values = sample((4, 6), "f4")
    field = pydp.field(values)
    np.testing.assert_array_equal(field.array.get(), values)
    field.array.fill(3)
    equal(field, np.full((4, 6), 3, np.float32))
    view = field[1:3, ::2]
    assert view.array.shape == (2, 3) and view.array.offset == 24 and view.array.strides == (24, 8)
    array = cl.array.to_device(device.queue, values)
    wrapped = pydp.Field.wrap(array)
    wrapped[0] = 1
    values[0] = 1
    np.testing.assert_array_equal(array.get(), values)
    assert wrapped.array is array and array.events


def test_reshape(device: Any) -> None:
    values = sample((4, 6), "i4")
    field = pydp.field(values)
    equal(field.reshape(3, -1), values.reshape(3, -1))
    equal(field.T.reshape((24,)), values.T.reshape(24))
    equal(field.transpose(1, 0), values.T)
    equal(pydp.field(sample((2, 3, 4), "i4")).transpose(2, -3, 1), sample((2, 3, 4), "i4").transpose(2, 0, 1))
    view = field.reshape(24)
    view[0] = 99
    assert int(field[0, 0]) == 99
    with pytest.raises(InvalidArgument, match="do not make"):
        field.reshape(5, 5)
    with pytest.raises(InvalidArgument, match="order"):
        field.transpose(0, 0)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda f: f[4], "out of range"),
        (lambda f: f[0, 0, 0], "too many"),
        (lambda f: f[[1, 2]], "not accepted"),
        (lambda f: f[np.array([1, 2])], "not accepted"),
        (lambda f: f[True], "not accepted"),
        (lambda f: f[1.5], "not accepted"),
        (lambda f: f["a"], "not accepted"),
        (lambda f: f[..., ...], "one ellipsis"),
        (lambda f: f[::0], "slice"),
        (lambda f: f[None, None, None, None, None], "7 axes"),
        (lambda f: f.__setitem__(0, np.zeros(7)), "does not fit"),
        (lambda f: f.__setitem__(0, pydp.zeros(7)), "does not fit"),
        (lambda f: f.__setitem__(0, "text"), "accepted|does not fit"),
        (lambda f: f.__setitem__(0, 1j), "complex"),
        (lambda f: f.__setitem__(0, pydp.zeros(5, "c8")), "imaginary"),
        (lambda f: pydp.zeros(5, "c8").astype("f4"), "imaginary"),
        (lambda f: pydp.zeros(5, RECORD).astype("f4"), "same dtype"),
        (lambda f: f.read_only.__setitem__(0, 1), "read-only"),
        (lambda f: f.read_only.set(np.zeros((4, 5))), "read-only"),
        (lambda f: f.copy_in(np.zeros((5, 4))), r"the field's shape \(4, 5\)"),
        (lambda f: f.copy_out(np.zeros((4, 5))), "has dtype float64"),
        (lambda f: f.copy_out(np.zeros((5, 4), "f4")), "shape"),
        (lambda f: f.copy_out([0]), "list"),
        (lambda f: f.copy_out(np.zeros((5, 4), "f4").T, blocking=False), "C-contiguous"),
        (lambda f: f.item(), "20 elements"),
        (lambda f: pydp.field(np.array(["a"])), "dtype"),
        (lambda f: pydp.field([object()]), "dtype"),
        (lambda f: pydp.field([[1], [1, 2]]), "no array"),
        (lambda f: pydp.field(np.ma.masked_array([1])), "mask"),
        (lambda f: pydp.empty((2, -1)), "0 or more"),
        (lambda f: pydp.empty((1,) * 7), "ranks 0 to 6"),
        (lambda f: pydp.empty(3, "no such"), "not a dtype"),
        (lambda f: pydp.empty(3, "M8[s]"), "dtype"),
    ],
)
def test_wrong_values_are_named(device: Any, act: Any, message: str) -> None:
    values = sample((4, 5), "f4")
    field = pydp.field(values)
    with pytest.raises(InvalidArgument, match=message):
        act(field)
    equal(field, values)
    assert issubclass(IndexOutOfRange, IndexError)


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
        for key in [key for key in device.kernels if key[0] == "elementwise"]:
            del device.kernels[key]


def test_between_devices(device: Any) -> None:
    other = next((one for one in pydp.devices() if one.cl != device.cl and one.driver != "oclgrind"), None)
    values = sample((3, 4), "f4")
    there = pydp.field(values, device=other)  # the same device where there is no other
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


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f4", "f8", "c8"])
def test_every_operation_small(device: Any, dtype: str) -> None:
    a, b = sample((2, 3), dtype, 1), sample((3,), dtype, 2)
    b[b == 0] = 1
    if not _has(device, np.dtype(dtype)) or not _has(device, (a / b).dtype):
        return  # what these devices refuse is tested above
    x, y = pydp.field(a), pydp.field(b)
    equal(x.T + y.reshape(3, 1), a.T + b.reshape(3, 1))
    equal(x * y, a * b)
    np.testing.assert_allclose((x / y).get(), a / b, rtol=1e-6)
    equal(x.astype("i4" if dtype != "c8" else "c8"), a.astype("i4" if dtype != "c8" else "c8"))
    if dtype != "?":
        equal(x - y, a - b)
        equal(x * 3, a * 3)


@pytest.mark.oclgrind
def test_small(device: Any) -> None:
    values = sample((3, 4), "i4")
    field = pydp.field(values)
    field[1:, ::2] = field[:2, 1::2].copy()
    values[1:, ::2] = values[:2, 1::2].copy()
    equal(field * 2 + field.T.copy().T, values * 3)
