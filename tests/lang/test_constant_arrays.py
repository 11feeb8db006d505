"""Small NumPy arrays from around a vector function are constants; dtypes may be named by strings."""

from __future__ import annotations

import types

import numpy as np
import pytest

import pydp
from pydp.lang.ir.diagnostics import VectorError

TABLE = np.array([3, 1, 2], np.int32)
MATRIX = np.array([[1, 2], [3, 4.5]], np.float32)
LONG = np.arange(64, dtype=np.float64).astype(np.float32)
SCALAR = np.array(2.5, np.float32)
ODD = np.array([np.nan, -0.0, np.inf], np.float32)
SWAPPED = np.array([1, 2, 300], ">i4")
RECORDS = np.array([(1, 2.5), (3, 4.5)], [("n", "i4"), ("x", "f4")])
INSIDE = types.SimpleNamespace(weights=TABLE[::-1])
TOO_LONG = np.zeros(65)
EMPTY = np.zeros(0)
MASKED = np.ma.masked_array([1, 2], [True, False])
KIND = "f4"


def reads(idx, out):
    i = idx[0]
    out[i] = TABLE[i % 3] + MATRIX[i % 2, (i // 2) % 2] + LONG[i] + LONG[-1] + MATRIX[1][0] + SCALAR


def walks(idx, out):
    total = 0.0
    for i in range(2):
        for j in range(2):
            total += MATRIX[i, j] * (i + 1)
    for weight in TABLE:
        total += weight
    out[idx] = total + len(TABLE) + MATRIX.shape[1] + MATRIX.ndim + INSIDE.weights[0] + SWAPPED[2]


def special(idx, out):
    out[idx] = ODD[idx[0] % 3]


def of_records(idx, out):
    out[idx] = RECORDS[idx[0] % 2].x + RECORDS[1].n


def expected(fn, count):
    out = np.zeros(count, np.float32)
    for i in range(count):
        fn((i,), out)
    return out


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [None, {"mapping": "simt"}])
def test_constant_arrays_on_devices(device, spec):
    for fn in (reads, walks, special):
        out = np.zeros(24, np.float32)
        pydp.forall(24, fn, out, spec=spec)
        np.testing.assert_array_equal(out, expected(fn, 24))
    out = np.zeros(24, np.float32)
    pydp.forall(24, of_records, out, spec=spec)
    np.testing.assert_array_equal(out, RECORDS["x"][np.arange(24) % 2] + 3)


def test_constant_arrays_on_the_host():
    for fn in (reads, walks, special):
        out = np.zeros(64, np.float32)
        pydp.forall(64, fn, out, device="host")
        np.testing.assert_array_equal(out, expected(fn, 64))


def look_up(idx, out, at):
    out[idx] = TABLE[at[idx]]


def test_outside_a_constant_array(device):
    at = np.array([-1, 0, 2, 3, 1 << 30], np.int32)
    out = np.ones(5, np.int32)
    pydp.forall(5, look_up, out, at)
    np.testing.assert_array_equal(out, [0, 3, 2, 0, 0])
    with pydp.checked(), pytest.raises(pydp.PydpError, match="reads constant array 'TABLE' at index -1 of its 3 items"):
        pydp.forall(5, look_up, out, at)


def test_an_array_changed_in_place_is_seen(device, monkeypatch):
    at, out = np.arange(3, dtype=np.int32), np.zeros(3, np.int32)
    table = TABLE.copy()
    monkeypatch.setattr(f"{__name__}.TABLE", table)
    pydp.forall(3, look_up, out, at)
    np.testing.assert_array_equal(out, [3, 1, 2])
    table[1] = 7
    pydp.forall(3, look_up, out, at)
    np.testing.assert_array_equal(out, [3, 7, 2])
    with pydp.checked():
        table[2] = 9
        pydp.forall(3, look_up, out, at)
    np.testing.assert_array_equal(out, [3, 7, 9])


def test_constant_arrays_in_operators(device, monkeypatch):
    table = TABLE.copy()
    monkeypatch.setattr(f"{__name__}.TABLE", table)
    x = np.arange(5, dtype=np.int32)
    for modulus in (3, 4):
        table[0] = modulus
        found = pydp.scan(x, lambda a, b: (a + b) % TABLE[0])
        np.testing.assert_array_equal(found[1:], (np.cumsum(x) % modulus)[1:])
    np.testing.assert_array_equal(pydp.sort(np.array([2, 0, 1], np.int32), key=lambda v: TABLE[v]), [1, 2, 0])


STEP = pydp.record(np.dtype([("size", "i4")]), 3)


def test_a_record_changed_in_place_is_seen(device):
    """A NumPy record is a scalar, yet its members can be assigned."""

    def steps(idx, out):
        out[idx] = STEP["size"]

    for size in (3, 8):
        STEP["size"] = size
        out = np.zeros(4, np.int32)
        pydp.forall(4, steps, out)
        assert out.tolist() == [size] * 4
        assert pydp.reduce(np.zeros(4, np.int32), lambda a, b: a + b + STEP["size"]) == 3 * size


def write(idx, out):
    TABLE[0] = 1


def too_long(idx, out):
    out[idx] = TOO_LONG[idx[0]]


def empty(idx, out):
    out[idx] = EMPTY[0]


def masked(idx, out):
    out[idx] = MASKED[0]


def beyond(idx, out):
    out[idx] = TABLE[3]


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (write, "cannot be assigned; make a new tuple, or pass an array as an argument"),
        (too_long, "NumPy arrays of 1 to 64 elements"),
        (empty, "NumPy arrays of 1 to 64 elements"),
        (masked, "NumPy arrays of 1 to 64 elements"),
        (beyond, "index 3 is out of bounds for a constant array 'TABLE' of 3"),
    ],
)
def test_refused(fn, says):
    with pytest.raises(VectorError, match=says):
        pydp.forall(4, fn, np.zeros(4, np.float32), device="host")


def named_kinds(idx, out):
    shared = pydp.local_field("float32", 4)
    own = pydp.private_field((2,), dtype=KIND)
    own[0] = shared.extent[0] + 0.5
    shared[idx.local] = own[0] + idx.local[0]
    out[idx] = shared[idx.local]


def test_dtypes_named_by_strings(device):
    out = np.zeros(8, np.float32)
    pydp.forall(8, named_kinds, out, group=4)
    np.testing.assert_array_equal(out, np.tile(np.arange(4) + 4.5, 2))


def no_kind(idx, out):
    pydp.local_field("flat32", 4)


def half_an_extent(idx, out):
    pydp.local_field(np.float32, 1.5)


def zeros_of_its_own(idx, out):
    own = np.zeros(3)
    out[idx] = own[0]


def starred(idx, out):
    first, *_rest = (1, 2, 3)
    out[idx] = first


def two_names(idx, out):
    i, j = idx
    out[i] = j


def halved(idx, out):
    out[idx[0] / 2] = 1


def half_an_item(idx, out):
    pydp.atomic_add(out, 0, 1.5)


async def later(idx, out):
    out[idx] = 1


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (no_kind, "'flat32' is not the name of a dtype; np.float32, 'float32' or 'f4' are accepted"),
        (half_an_extent, "an extent of a local_field must be an integer"),
        (
            zeros_of_its_own,
            "zeros is not supported in a vector function; use pydp.private_field for an array of one lane",
        ),
        (starred, "a starred target is not supported; name every item"),
        (two_names, "cannot unpack 1 value into 2 names; name every item, or index the tuple"),
        (halved, "use a // b for integer division"),
        (
            half_an_item,
            "atomic_add cannot combine an array of int32 with Python float, because the fraction would be lost",
        ),
        (later, "later is an async function"),
    ],
)
def test_mistakes_say_what_to_write(fn, says):
    with pytest.raises(VectorError) as caught:
        pydp.forall(4, fn, np.zeros(4, np.int32), group=4, device="host")
    assert says in caught.value.message


def test_a_group_of_no_integers():
    with pytest.raises(pydp.InvalidArgument, match="one positive integer per axis of the grid"):
        pydp.forall(4, two_names, np.zeros(4, np.int32), group=1.5, device="host")
