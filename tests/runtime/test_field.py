"""Fields against NumPy: indexing, transfers, assignment, arithmetic."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from field_samples import RECORD, equal, keys, sample
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.runtime.arrays.indexing import IndexOutOfRange


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


@pytest.mark.parametrize("rank", range(7))
def test_ranks(device: Any, rank: int) -> None:
    values = sample((2, 3, 1, 2, 2, 3)[:rank], "i4")
    field = pydp.field(values)
    assert field.rank == field.ndim == rank and field.extent == values.shape and field.grid.size == values.size
    assert field.size == values.size and field.nbytes == values.nbytes
    equal(field.T.copy(), values.T)
    equal(field + field.T.copy().T, values + values)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_arithmetic_is_numpys(device: Any, dtype: str) -> None:
    a, b = sample((3, 5), dtype, 1), sample((5,), dtype, 2)
    b[b == 0] = 1
    if (np.dtype(dtype).kind == "f" or np.dtype(dtype).kind == "c") and not needs.has(device, np.dtype(dtype)):
        with pytest.raises(UnsupportedOnDevice):
            pydp.field(a) + 1
    needs.dtype(device, dtype)
    x, y = pydp.field(a), pydp.field(b)
    equal(x + y, a + b)
    equal(x * y, a * b)
    if dtype == "?":
        with pytest.raises(InvalidArgument, match="not defined"):
            x - y
    else:
        equal(x - y, a - b)
    if dtype not in ("?", "u2", "u8"):
        equal(2 * x[:, ::2] - 1, 2 * a[:, ::2] - 1)
    quotient = a / b
    if needs.has(device, quotient.dtype):
        np.testing.assert_allclose((x / y).get(), quotient, rtol=1e-6 if dtype != "f2" else 1e-3)
        assert (x / y).dtype == quotient.dtype
    else:
        with pytest.raises(UnsupportedOnDevice):
            x / y


def test_complex_numbers_that_are_not_zero_are_true(device: Any) -> None:
    values = np.array([0, 1, 1j, -1j, 1 + 1j, -0.0, np.nan, complex(0, np.nan)], np.complex64)
    flags = pydp.zeros(len(values), np.bool_, device=device)
    flags[...] = pydp.field(values, device=device)
    np.testing.assert_array_equal(flags.get(), values.astype(np.bool_))


def test_complex_numbers_by_zero(device: Any) -> None:
    a = np.array([1 + 1j, -2, 0, 3 - 4j], np.complex64)
    with np.errstate(all="ignore"):
        expected = a / np.zeros(4, np.complex64)
    got = (pydp.field(a) / pydp.zeros(4, np.complex64)).get()
    np.testing.assert_array_equal(got.view(np.float32), expected.view(np.float32))


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
    with pytest.raises(InvalidArgument, match="cannot be stored"):
        y = pydp.field(a)
        y += 0.5
    with pytest.raises(InvalidArgument, match="cannot be broadcast"):
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
    with pytest.raises(TypeError, match=r"a Field of shape \(3, 4\) and dtype bool cannot be an index; .* pydp.select"):
        field[field > 1]
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
    with pytest.raises(InvalidArgument, match="cannot be reshaped"):
        field.reshape(5, 5)
    with pytest.raises(InvalidArgument, match="is not a permutation"):
        field.transpose(0, 0)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda f: f[4], "out of range"),
        (lambda f: f[0, 0, 0], "too many"),
        (lambda f: f[[1, 2]], "not accepted"),
        (lambda f: f[np.array([1, 2])], r"shape \(2,\) and dtype int64 is not accepted; .* pydp.take\(x, indexes\)"),
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
        (lambda f: f.astype("no such"), "not a dtype"),
        (lambda f: f.transpose("a", "b"), "takes integers"),
        (lambda f: f.transpose(0, 2), "is not a permutation of 2 axes; each axis must occur once"),
        (lambda f: f.read_only.__setitem__(0, 1), "read-only"),
        (lambda f: f.read_only.set(np.zeros((4, 5))), "read-only"),
        (lambda f: f.copy_in(np.zeros((5, 4))), r"the shape of the field, \(4, 5\)"),
        (lambda f: f.copy_out(np.zeros((4, 5))), "has dtype float64"),
        (lambda f: f.copy_out(np.zeros((5, 4), "f4")), "shape"),
        (lambda f: f.copy_out([0]), "list"),
        (lambda f: f.copy_out(np.zeros((5, 4), "f4").T, blocking=False), "C-contiguous"),
        (lambda f: f.item(), "20 elements"),
        (lambda f: pydp.field(np.array(["a"])), "dtype"),
        (lambda f: pydp.field([object()]), "dtype"),
        (lambda f: pydp.field([[1], [1, 2]]), "converted to an array"),
        (lambda f: pydp.field([300], "u1"), "300 out of bounds for uint8"),
        (lambda f: pydp.full(3, -1, "u1"), "-1 out of bounds for uint8"),
        (lambda f: pydp.zeros(3, "i4").set([0, 1 << 40, 2]), "out of bounds for int32"),
        (lambda f: pydp.zeros(3, "i4").__setitem__(1, 1 << 40), "out of bounds for int32"),
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


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f4", "f8", "c8"])
def test_every_operation_small(device: Any, dtype: str) -> None:
    a, b = sample((2, 3), dtype, 1), sample((3,), dtype, 2)
    b[b == 0] = 1
    needs.dtype(device, dtype, (a / b).dtype)  # what these devices refuse is tested above
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


def test_integers_and_records_as_numpy_makes_them(device: Any) -> None:
    small = pydp.zeros(4, "u1", device=device)
    small[:2] = [1, 255]
    small[2] = np.int64(300)
    small[3] = True
    equal(small, np.array([1, 255, 44, 1], "u1"))
    equal(pydp.field(np.array([300, -1]), "u1"), np.array([44, 255], "u1"))
    equal(pydp.field([1, 0, 5], bool), np.array([True, False, True]))
    record = np.dtype([("n", "i4"), ("x", "f4")])
    equal(pydp.field([(1, 2.5), (3, 4.5)], record), np.array([(1, 2.5), (3, 4.5)], record))


def test_copies_are_not_pickled(device: Any) -> None:
    values = np.arange(12, dtype="i4").reshape(3, 4)
    field = pydp.field(values, device=device)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(field)
    for made in (copy.copy(field.T[::-1]), copy.deepcopy({"f": field.T[::-1]})["f"]):
        equal(made, values.T[::-1])
        made[0] = 99
    equal(field, values)
