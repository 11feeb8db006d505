"""The operators ``// % << >> **``, ``divmod`` and ``abs`` of fields against NumPy's."""

from __future__ import annotations

import operator
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.errors import InvalidArgument

OPERATORS = {name: getattr(operator, name) for name in ("floordiv", "mod", "lshift", "rshift", "pow")}
DTYPES = ["?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
PAIRS = [
    *((one, one) for one in DTYPES),
    ("i1", "u1"),
    ("i4", "u4"),
    ("i2", "f4"),
    ("?", "i4"),
    ("i8", "u8"),
    ("f4", "u1"),
]
NUMBERS = [3, 2, 0, -2, -1, 2.5, 0.5, 2.0, -1.0, True, np.int8(3), np.int8(-1), np.float32(-0.5), np.float32(0.5)]


def values(dtype: str, seed: int, least: int = -9) -> np.ndarray:
    kind = np.dtype(dtype).kind
    found = np.random.default_rng(seed).integers(0 if kind in "ub" else least, 9, 60).astype(dtype)
    if kind == "i" and least:
        found[:4] = [np.iinfo(dtype).min, -1, 0, np.iinfo(dtype).max]
    if kind == "f":
        found[:7] = [np.inf, -np.inf, np.nan, -0.0, 0.5, -2.5, 0.0]
    return found


def computed(work: Any) -> Any:
    """The result, or the kind of error."""
    with np.errstate(all="ignore"):
        try:
            found = work()
        except (TypeError, ValueError, OverflowError, InvalidArgument):  # ValueError: an integer to a negative power
            return "refused"
    return found.get() if isinstance(found, pydp.Field) else found


def same(got: Any, want: Any) -> None:
    if isinstance(want, str):
        assert isinstance(got, str)
        return
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        assert np.array_equal(got, want)
        return
    rounding = 8 * float(np.finfo(want.dtype).eps)  # pow
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rounding, float(np.finfo(want.dtype).tiny))
        assert np.array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def has(device: Any, *kinds: Any) -> bool:
    return all(needs.has(device, kind) for kind in kinds)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("left, right", PAIRS)
def test_of_arrays(device, name, left, right):
    op = OPERATORS[name]
    a, b = values(left, 1), values(right, 2, 0 if name == "pow" else -9)
    want = computed(lambda: op(a, b))
    if not has(device, a.dtype, b.dtype, *([] if isinstance(want, str) else [want.dtype])):
        pytest.skip("the device lacks float16 or float64, which an operand or NumPy's result has")
    f, g = pydp.field(a), pydp.field(b)
    for call in (lambda: op(f, g), lambda: op(a, g), lambda: op(f, b), lambda: op(f[::-1], g[::-1])[::-1]):
        same(computed(call), want)
    for call in (lambda: op(f, g), lambda: op(a, g)):
        assert isinstance(want, str) or isinstance(call(), pydp.Field)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_numbers(device, name, dtype):
    op, a = OPERATORS[name], values(dtype, 3)
    for number in NUMBERS:
        pairs = [(a, number)] if name == "pow" else [(a, number), (number, a)]
        for pair in pairs:
            want = computed(lambda pair=pair: op(*pair))
            if has(device, a.dtype, *([] if isinstance(want, str) else [want.dtype])):
                fields = [pydp.field(one) if one is a else one for one in pair]
                same(computed(lambda fields=fields: op(*fields)), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_abs(device, dtype):
    needs.dtype(device, dtype)
    a = values(dtype, 4)
    same(computed(lambda: abs(pydp.field(a))), computed(lambda: abs(a)))


@pytest.mark.oclgrind
def test_divmod_in_place_and_broadcasting(device):
    a, row = values("i4", 5), np.arange(1, 5, dtype=np.int32)
    f, column = pydp.field(a), pydp.field(a[:, None])
    for got, want in zip(divmod(f, 7), divmod(a, 7), strict=True):
        same(got.get(), want)
    for got, want in zip(divmod(100, pydp.field(row)), divmod(100, row), strict=True):
        same(got.get(), want)
    with np.errstate(all="ignore"):
        same((column % row).get(), a[:, None] % row)
        same((row // column).get(), row // a[:, None])
    view = f[1::2]
    view %= 5
    view **= 2
    a[1::2] %= 5
    a[1::2] **= 2
    same(f.get(), a)
    kept = f
    f <<= pydp.field(np.full(60, 2, np.int32))
    f >>= np.int32(1)
    f //= 3
    assert f is kept
    with np.errstate(all="ignore"):
        same(f.get(), ((a << 2) >> 1) // 3)
    array = pyopencl.array.to_device(device.queue, a)
    same((pydp.field(row[:1]) % array).get(), row[:1] % np.where(a, a, 1) * (a != 0))


def test_complex_numbers(device):
    z = (values("f4", 1)[7:] + 1j * values("f4", 2)[7:]).astype(np.complex64)
    z[z == 0] = 1
    f = pydp.field(z)
    for got, want in ((f**2, z**2), (f**-1, z**-1), (abs(f[::2]), abs(z[::2]))):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.get(), want, 1e-5, 1e-6)
    f **= 2
    np.testing.assert_allclose(f.get(), z**2, 1e-5, 1e-6)


def test_arrays_of_another_context_are_refused(device):
    context = cl.Context([device.context.devices[0]])
    other = pyopencl.array.to_device(cl.CommandQueue(context), np.arange(1, 5, dtype=np.int32))
    f = pydp.field(np.arange(1, 5, dtype=np.int32))
    for call in (lambda: f % other, lambda: divmod(other, f), lambda: operator.ipow(f, other)):
        with pytest.raises(InvalidArgument, match="in another context"):
            call()


def test_integers_to_negative_powers_are_one(device):
    assert (pydp.field(np.array([0, 2, -3], np.int32)) ** np.array([-1, -5, -2], np.int32)).get().tolist() == [1, 1, 1]


def test_what_is_refused(device):
    whole, real = pydp.field(np.arange(1, 5, dtype=np.int32)), pydp.field(np.ones(4, np.float32))
    small = pydp.field(np.arange(4, dtype=np.int8))
    for call in (lambda: whole % "a", lambda: None // whole, lambda: divmod(whole, "a"), lambda: [1] << whole):
        with pytest.raises(TypeError, match="unsupported operand"):
            call()
    for call, message in (
        (lambda: operator.imod(small, real), "cannot be stored in a field of dtype int8"),
        (lambda: real << 1, "<< is not defined for float32 and int; booleans, and integers"),
        (lambda: whole >> 1.5, ">> is not defined for int32 and float"),
        (lambda: pydp.field(np.ones(3, np.complex64)) % 2, "% is not defined for complex64 and int"),
        (lambda: whole**1j, "is not defined for int32 and complex; booleans, integers and floats are accepted"),
        (lambda: whole**-2, "the exponent of integers is -2; exponents of at least 0"),
        (lambda: pow(whole, 2, 5), "a modulus"),
        (lambda: whole % np.ones(3, np.int32), "do not match"),
        (lambda: operator.imod(whole[:1], np.ones(3, np.int32)), "out has shape"),
        (lambda: operator.ifloordiv(whole[:1], np.ones(3, np.int8)), "out has shape"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            call()
    assert whole.get().tolist() == [1, 2, 3, 4] and small.get().tolist() == [0, 1, 2, 3]
