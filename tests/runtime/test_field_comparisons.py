"""Comparisons of fields against NumPy's: values, types, shapes, kinds of the other side, and what is refused."""

from __future__ import annotations

import array
import ctypes
import itertools
import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest import mock

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.cltypes as cltypes
import pytest
from field_samples import equal, keys
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.errors import InvalidArgument, UnsupportedOnDevice

_OPS = {op: getattr(operator, op) for op in ("eq", "ne", "lt", "le", "gt", "ge")}
_DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
_NAN = float("nan")


def _edges(dtype: Any) -> np.ndarray:
    """The values at which comparisons go wrong: limits, zeros of both signs, NaN, integers that floats round."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wanted = [limits.min, limits.min + 1, -1, 0, 1, limits.max - 1, limits.max, 2**53, 2**53 + 1, 2**24 + 1, 128]
        return np.array([value for value in wanted if limits.min <= value <= limits.max], dtype)
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        near = [_NAN, np.inf, -np.inf, 0.0, -0.0, 1, -1, 128, limits.max, limits.min, limits.eps]
        with np.errstate(over="ignore"):
            return np.array([*near, 2.0**53, 2.0**63, 2.0**64]).astype(dtype)
    parts = _edges(f"f{dtype.itemsize // 2}")[:8]
    values = np.empty((len(parts), len(parts)), dtype)
    values.real, values.imag = parts[:, None], parts
    return values.ravel()


def _pairs() -> list[tuple[str, str, str]]:
    """Every dtype with itself and two operators, others in which both sides change, and all of int64 with uint64."""
    names = list(_OPS)
    same = [(one, one, names[(place + step) % 6]) for place, one in enumerate(_DTYPES) for step in (0, 3)]
    mixed = ["?i4", "i1u1", "i4u4", "i4u8", "i8f4", "f2i2", "u1f2", "f4f8", "?f4", "i4c8", "c8f8", "u8f8"]
    other = [(pair[:-2], pair[-2:], names[place % 6]) for place, pair in enumerate(mixed)]
    return [*same, *other, *((*pair, op) for pair in (("i8", "u8"), ("u8", "i8")) for op in names)]


def _computed(device: Any, left: Any, right: Any) -> bool:
    """Whether the device has the types in which NumPy compares these."""
    return all(needs.has(device, kind) for kind in (left, right, *np.equal.resolve_dtypes((left, right, None))[:2]))


@pytest.mark.parametrize(("left", "right", "op"), _pairs())
def test_dtypes(device: Any, left: str, right: str, op: str) -> None:
    x, y = _edges(left)[:, None], _edges(right)
    if not _computed(device, x.dtype, y.dtype):
        with pytest.raises(UnsupportedOnDevice):
            _OPS[op](pydp.field(x), pydp.field(y))
        pytest.skip("the device lacks a type in which NumPy compares these: it is refused")
    with np.errstate(invalid="ignore"):
        equal(_OPS[op](pydp.field(x), pydp.field(y)), _OPS[op](x, y))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "i4", "f2", "f4", "c8"])
def test_numbers_on_either_side(device: Any, dtype: str) -> None:
    x = _edges(dtype)
    needs.dtype(device, dtype)
    field = pydp.field(x)
    ints = [0, 1, -1, 128, 300, -129, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
    floats = [0.5, -0.0, _NAN, np.inf, 1e300, 16777217.0, 70000.0, 1 + 1j, complex(1, _NAN)]
    strong = [np.int8(1), np.uint64(2**64 - 1), np.int64(-1), np.float32(0.1), np.True_, True]
    for place, number in enumerate([*ints, *floats, *strong]):
        kind = type(number) if type(number) in (int, float, complex) else np.asarray(number).dtype
        compared = np.equal.resolve_dtypes((x.dtype, kind, None))[:2]
        if not all(needs.has(device, one) for one in compared):
            with pytest.raises(UnsupportedOnDevice):
                field == number  # noqa: B015
            continue
        op = list(_OPS.values())[place % 6]
        with np.errstate(invalid="ignore", over="ignore"):
            equal(op(field, number), op(x, number))
            equal(op(number, field), op(number, x))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "i8"])
def test_integers_outside_the_range_of_the_dtype(device: Any, dtype: str) -> None:
    x = _edges(dtype)
    field = pydp.field(x)
    for number, op in itertools.product((300, -129, 2**64, 2**63, -(2**63) - 1, -1, 10**30, -(10**30)), _OPS.values()):
        equal(op(field, number), op(x, number))
        equal(op(number, field), op(number, x))


def test_integers_that_numpy_does_not_compare(device: Any) -> None:
    flags = pydp.field(np.array([False, True]))  # NumPy raises OverflowError here
    assert not (flags == 2**70).get().any() and (flags < 2**70).get().all() and (flags > -(2**70)).get().all()
    with pytest.raises(InvalidArgument, match="does not fit"):
        pydp.zeros(3) < 10**400  # noqa: B015


@settings(max_examples=40)
@given(st.data(), st.lists(st.integers(0, 4), max_size=4))
def test_views_and_shapes(device: Any, data: st.DataObject, sizes: list[int]) -> None:
    values = np.arange(int(np.prod(sizes)), dtype=np.int32).reshape(sizes) % 5
    key = data.draw(keys(values.shape))
    x = values[key]
    shape = x.shape[data.draw(st.integers(0, x.ndim)) :]
    shape = tuple(1 if size > 1 and data.draw(st.booleans()) else size for size in shape)
    y = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape) % 3
    one, other = pydp.field(values)[key], pydp.field(y.T).T
    if data.draw(st.booleans()):
        x, y, one, other = y, x, other, one
    op = data.draw(st.sampled_from(list(_OPS.values())))
    equal(op(one, other), np.asarray(op(x, y)))
    equal(one.T == one.T, np.asarray(x.T == x.T))


def test_nothing_and_one_element(device: Any) -> None:
    nothing = pydp.empty((0, 3), "f4")
    assert (nothing == nothing).shape == (0, 3) and (nothing < 300).dtype == np.bool_
    assert (pydp.empty((0,), "u1") == 300).shape == (0,)
    one = pydp.full((), 3, "i4") == 3
    assert one.shape == () and bool(one) and not bool(pydp.full((1, 1), 3) < 3)
    for many in (pydp.zeros(2) == 0, nothing == nothing):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(many)


def test_fields_have_no_hash(device: Any) -> None:
    field = pydp.zeros(3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(field)
    assert (field == field.copy()).get().all() and (field == field).get().all()
    assert not (field != field.copy()).get().any()
    np.testing.assert_array_equal(np.where(pydp.field([1, 3, 3]) == 3, 1, 0), [0, 1, 1])
    assert np.array_equal(field, field.copy()) and field is not field.copy()


def test_the_other_side_may_be_any_array(device: Any) -> None:
    x, y = np.array([[1, 2, 3], [4, 5, 6]], "i4"), np.array([3, 2, 1], "i4")
    field, array = pydp.field(x), cl.array.to_device(device.queue, x)
    for op in _OPS.values():
        for got in (op(field, y), op(field, [3, 2, 1]), op(field, (3, 2, 1)), op(field, y.astype(">i4"))):
            assert isinstance(got, pydp.Field)
            equal(got, op(x, y))
        equal(op(y, field), op(y, x))
        equal(op([3, 2, 1], field), op(y, x))
        equal(op(np.int32(3), field), op(np.int32(3), x))
        equal(op(np.array(3), field), op(np.array(3), x))
        equal(op(field, array), op(x, x))
        assert isinstance(op(array, field), pydp.Field)
        equal(op(array, field[::-1]), op(x, x[::-1]))
    equal(field == range(1, 4), x == range(1, 4))
    elsewhere = cl.array.to_device(cl.CommandQueue(device.context), x)
    elsewhere += 1
    equal(field < elsewhere, x < x + 1)


def test_what_is_no_number_equals_no_element(device: Any) -> None:
    values = np.arange(6, dtype=np.int32).reshape(2, 3)
    field = pydp.field(values)
    for other in (None, "a", b"a", ..., object(), {}, Held, np.datetime64("2020")):
        equal(field == other, values == other)
        equal(field != other, values != other)
        equal(other != field, other != values)
        with pytest.raises(TypeError):
            field < other  # noqa: B015
    np.testing.assert_array_equal(np.where(field == None, 1, 0), np.zeros((2, 3), int))  # noqa: E711


class Held:
    """An object that NumPy makes an array of."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([1, 2], np.uint8)


def test_what_holds_elements_is_compared_with_each(device: Any) -> None:
    values = np.array([1, 3], np.uint8)
    field = pydp.field(values)
    for other in (
        array.array("B", [1, 2]),
        (ctypes.c_uint8 * 2)(1, 2),
        bytearray([1, 2]),
        memoryview(b"\x01\x02"),
        Held(),
    ):
        for op in (operator.eq, operator.ne, operator.lt):
            equal(op(field, other), op(values, np.asarray(other)))
    for other in (array.array("u", "ab"), (ctypes.c_char * 2)(), memoryview(np.array([1, 3], object))):
        for op in (operator.eq, operator.ne):
            with pytest.raises(InvalidArgument, match="the other side of a comparison has dtype"):
                op(field, other)
    for other in (Decimal(1), Fraction(1)):
        for op in (operator.eq, operator.ge):
            with pytest.raises(InvalidArgument, match=r"a Field is compared with (Decimal|Fraction)"):
                op(field, other)


class Deciding(Held):
    __array_priority__ = 1000

    def __eq__(self, other: object) -> Any:
        return "decided"

    __hash__ = None  # type: ignore[assignment]


class DecidingBuffer(bytearray):
    __array_ufunc__ = None

    def __eq__(self, other: object) -> Any:
        return "decided"

    __hash__ = None  # type: ignore[assignment]


def test_objects_that_compare_themselves_with_fields_decide(device: Any) -> None:
    field = pydp.field(np.arange(3, dtype=np.int32))
    assert (field == DecidingBuffer(3)) == "decided"
    assert (field == Deciding()) == "decided"
    assert (field == mock.ANY) is True and (field != mock.ANY) is False


def test_what_cannot_be_compared_is_named(device: Any) -> None:
    field, pairs = pydp.zeros((2, 3)), pydp.zeros(2, [("a", "i4"), ("b", "f4")])
    for wrong, message in (
        (lambda: field == np.zeros(4), "cannot be broadcast together"),
        (lambda: field == np.array(["a"]), "is not defined"),
        (lambda: field == [1, None, 2], "dtype object"),
        (lambda: field == np.ma.masked_array([1]), "mask"),
        (lambda: pairs < pairs, "is not defined"),
        (lambda: pairs == 3, "is not defined"),
        (lambda: field[0, 0] == pairs, "is not defined"),
        (lambda: pairs == pydp.zeros(2, [("b", "f4"), ("a", "i4")]), "is not defined"),
        (lambda: pairs == pydp.zeros(2, [("a", "i4")]), "is not defined"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            wrong()


_INNER = np.dtype([("u", "f4"), ("v", "i8")], align=True)
_RECORDS = [
    np.dtype([("n", "i4"), ("x", "f4")]),
    np.dtype([("kind", "u1"), ("at", "f4", (2, 3)), ("count", "u8")], align=True),
    np.dtype([("inner", _INNER, (2,)), ("flag", "?"), ("z", "c8")], align=True),
    np.dtype({"names": ["b", "a"], "formats": ["f4", "i2"], "offsets": [4, 0], "itemsize": 12}),
]


def _filled(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    values = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()
    _fill(values, rng)
    return values


def _fill(values: np.ndarray, rng: np.random.Generator) -> None:
    for name in values.dtype.names or ():
        if values[name].dtype.names:
            _fill(values[name], rng)
        else:
            values[name] = rng.integers(0, 2, values[name].shape)


@pytest.mark.parametrize("dtype", _RECORDS, ids=str)
def test_records(device: Any, dtype: np.dtype) -> None:
    """Members decide, not the bytes between them; a NaN in one member is unequal to itself."""
    rng = np.random.default_rng(1)
    x = _filled((50, 1), dtype, rng)
    y = np.concatenate([x[::2, 0], _filled((20,), dtype, rng)])
    for name in dtype.names or ():
        if dtype[name].kind == "f":
            x[name][3] = np.nan
    one, other = pydp.field(x), pydp.field(y)
    for op in (operator.eq, operator.ne):
        expected = op(x, y)
        assert expected.any() and not expected.all()
        equal(op(one, other), expected)
        equal(op(one.T[:, ::2], x.T[:, ::2]), op(x.T[:, ::2], x.T[:, ::2]))
        equal(op(one[:, 0], y[5]), op(x[:, 0], y[5]))
        equal(op(y[5], one[:, 0]), op(x[:, 0], y[5]))


def test_records_of_other_member_types(device: Any) -> None:
    left = np.array([(1, 2**63 - 1, 0.5), (1, -1, 1), (2, 7, 1)], [("a", "i4"), ("b", "i8"), ("c", "f4")])
    right = np.array([(1, 2**63, 0.5), (1, 2**64 - 1, 1), (2, 7, 1)], [("a", "u2"), ("b", "u8"), ("c", "f4")])
    equal(pydp.field(left) == pydp.field(right), np.array([False, False, True]))
    equal(pydp.field(left) != right, left != right)


@pytest.mark.parametrize("kind", ["float2", "float3", "int4", "uchar16"])
def test_vectors(device: Any, kind: str) -> None:
    dtype = getattr(cltypes, kind)
    x = _filled((40,), np.dtype(dtype), np.random.default_rng(2))
    y = x.copy()
    for name in [name for name in dtype.names if name.startswith("padding")]:
        y[name] += 1  # the unused component of a vector of three does not count
    last = [name for name in dtype.names if not name.startswith("padding")][-1]
    y[last][::3] = 2
    expected = np.arange(40) % 3 != 0
    equal(pydp.field(x) == pydp.field(y), expected)
    equal(pydp.field(x) != y, ~expected)


@pytest.mark.oclgrind
@pytest.mark.parametrize(("left", "right"), [("i4", "f4"), ("i8", "u8"), ("c8", "c8"), ("?", "u1")])
def test_small(device: Any, left: str, right: str) -> None:
    if not _computed(device, np.dtype(left), np.dtype(right)):
        pytest.skip(f"the device does not compare {left} with {right}")
    x, y = _edges(left)[:3, None], _edges(right)[:3]
    equal(pydp.field(y)[:, None][::-1] == pydp.field(x).T, y[:, None][::-1] == x.T)
    with np.errstate(invalid="ignore"):
        equal(pydp.field(x) <= 1, x <= 1)


@pytest.mark.oclgrind
def test_small_records(device: Any) -> None:
    x = _filled((4,), _RECORDS[2], np.random.default_rng(1))
    equal(pydp.field(x) == pydp.field(x[::-1].copy())[::-1], np.ones(4, bool))
