"""Arrays of np.record (np.recarray among them): NumPy's values, and a result of the argument's own dtype."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.dtypes import dtype_text, is_aligned
from pydp.errors import InvalidArgument, UnsupportedOnDevice

_numbers = itertools.count()
_ORDERS = [("recarray", "plain"), ("plain", "recarray"), ("dtype", "plain")]  # caches know the first one's dtype


def _pair() -> np.dtype:
    """A plain record dtype that no cache has met: its members' names are new."""
    number = next(_numbers)
    return np.dtype([(f"key{number}", "i4"), (f"value{number}", "f4")])


def _records(count: int, plain: np.dtype) -> np.ndarray:
    assert plain.names is not None
    values = np.zeros(count, plain)
    values[plain.names[0]] = np.random.default_rng(3).permutation(count)
    values[plain.names[1]] = np.arange(count) % 7
    return values


def _as_record(plain: np.ndarray, kind: str) -> np.ndarray:
    if kind == "plain":
        return plain
    found = plain.view(np.recarray)
    return found if kind == "recarray" else found.view(np.ndarray)


def _is_of(got: Any, given: np.ndarray) -> None:
    assert got.dtype == given.dtype and got.dtype.type is given.dtype.type


@pytest.mark.parametrize("kinds", _ORDERS)
@pytest.mark.parametrize("axis", [None, 0])
def test_reduce_with_a_function(device: Any, kinds: tuple[str, ...], axis: int | None) -> None:
    plain = _records(40, _pair())
    key, value = plain.dtype.names

    def combine(a: Any, b: Any) -> Any:
        a[key] = max(a[key], b[key])
        a[value] += b[value]
        return a

    for kind in kinds:
        x = _as_record(plain, kind)
        found = pydp.reduce(x, combine, axis=axis, device=device)
        _is_of(found, x)
        assert found[key] == 39 and found[value] == plain[value].sum()


@pytest.mark.parametrize("kinds", _ORDERS)
def test_scan_and_sort(device: Any, kinds: tuple[str, ...]) -> None:
    plain = _records(40, _pair())
    key, value = plain.dtype.names
    for kind in kinds:
        x = _as_record(plain, kind)
        sums = pydp.scan(x, {key: f"max(a.{key}, b.{key})", value: f"a.{value} + b.{value}"}, device=device)
        np.testing.assert_array_equal(sums[key], np.maximum.accumulate(plain[key]))
        np.testing.assert_array_equal(sums[value], np.cumsum(plain[value]))
        in_order = pydp.sort(x, key=value, device=device)
        np.testing.assert_array_equal(in_order, np.sort(plain, order=value))
        np.testing.assert_array_equal(pydp.argsort(x, key=key, device=device), np.argsort(plain[key]))
        keys, values = pydp.sort_by_key(plain[key], x, device=device)
        np.testing.assert_array_equal(keys, np.arange(40))
        np.testing.assert_array_equal(values, plain[np.argsort(plain[key])])
        for found in (sums, in_order, values):
            _is_of(found, x)


@pytest.mark.parametrize("kinds", _ORDERS)
def test_copies_and_fields(device: Any, kinds: tuple[str, ...]) -> None:
    plain = _records(40, _pair())
    for kind in kinds:
        x = _as_record(plain, kind)
        turned = pydp.transpose(x.reshape(5, 8), device=device)
        np.testing.assert_array_equal(turned, plain.reshape(5, 8).T)
        field = pydp.field(x, device=device)
        strided = field[::3].copy().get()
        np.testing.assert_array_equal(strided, plain[::3])
        for found in (turned, field, strided, pydp.sort(field, key=plain.dtype.names[0])):
            _is_of(found, x)


def test_forall(device: Any) -> None:
    plain = _records(40, np.dtype([("key", "i4"), ("value", "f4")]))
    x = plain.view(np.recarray)
    out = np.zeros(40, plain.dtype).view(np.recarray)

    @pydp.vector
    def doubled(i: Any, o: Any, x: Any) -> None:
        o[i].key = x[i].key * 2
        o[i].value = x[i].value

    pydp.forall(x.shape, doubled, out, x, device=device)
    np.testing.assert_array_equal(out.key, 2 * plain["key"])
    np.testing.assert_array_equal(out.value, plain["value"])


def test_what_takes_no_records_refuses_them(device: Any) -> None:
    x = _records(4, _pair()).view(np.recarray)
    for call in (
        lambda: pydp.matmul(x.reshape(2, 2), x.reshape(2, 2), device=device),
        lambda: pydp.histogram(x, device=device),
        lambda: pydp.bincount(x, device=device),
    ):
        with pytest.raises(InvalidArgument, match=r"has .*dtype"):
            call()


def test_in_a_fresh_process(device: Any) -> None:
    text = (
        "import numpy as np, pydp\n"
        "x = np.zeros(5, [('n', 'i4'), ('v', 'f4')]).view(np.recarray)\n"
        "x.n, x.v = range(5), 1\n"
        "op = {'n': 'max(a.n, b.n)', 'v': 'a.v + b.v'}\n"
        f"print(pydp.reduce(x, op, device={device.driver!r}))\n"
    )
    got = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert got.returncode == 0 and got.stdout.split() == ["(4,", "5.0)"], got.stderr


@pytest.mark.parametrize("align", [False, True])
def test_equal_dtypes_have_one_text(align: bool) -> None:
    inner = np.dtype([("a", "u1"), ("b", "f8", (2, 3))], align=align)
    outer = np.dtype([("x", inner, (2,)), ("y", "i8")], align=align)
    of_records = np.dtype(
        (
            np.record,
            np.dtype(
                {
                    "names": ["x", "y"],
                    "formats": [((np.record, inner), (2,)), "i8"],
                    "offsets": [outer.fields[name][1] for name in ("x", "y")],
                    "itemsize": outer.itemsize,
                },
                align=align,
            ),
        )
    )
    assert of_records == outer and "numpy.record" in str(of_records)
    assert dtype_text(of_records) == dtype_text(outer) == str(outer)


def test_names_of_operators_for_fields(device: Any) -> None:
    """Each field is folded as an array of its type is, with NumPy's NaN."""
    dtype = np.dtype(
        [("n", "i2"), ("low", "f4"), ("high", "f4"), ("bits", "u8"), ("all", "?"), ("z", "c8"), ("own", "i4")],
        align=True,
    )
    rng = np.random.default_rng(5)
    x = np.zeros(1500, dtype)
    for name in dtype.names or ():
        x[name] = rng.integers(1, 5, x.size)
    x["low"][700] = x["high"][900] = np.nan
    x["all"][1200] = False
    op = {"n": "+", "low": min, "high": np.maximum, "bits": "^", "all": "&", "z": "+", "own": "max(a.own, b.own)"}
    plain = {"n": "+", "low": "min", "high": "max", "bits": "^", "all": "&", "z": "+", "own": "max"}
    scanned, reduced = pydp.scan(x, op, device=device), pydp.reduce(x, op, device=device)
    for name, one in plain.items():
        want = pydp.scan(np.ascontiguousarray(x[name]), one, device=device)
        np.testing.assert_array_equal(scanned[name], want)
        np.testing.assert_array_equal(reduced[name], want[-1])


def test_names_that_a_field_does_not_have(device: Any) -> None:
    x = np.zeros(3, [("f", "f4"), ("i", "i4")])
    with pytest.raises(InvalidArgument, match="op '&' is not defined on float32"):
        pydp.reduce(x, {"f": "&", "i": "+"}, device=device)
    with pytest.raises(InvalidArgument, match="the name of an operator or an OpenCL C expression"):
        pydp.reduce(x, {"f": abs, "i": "+"}, device=device)


@pytest.mark.parametrize("offsets, itemsize", [([3, 4], 12), ([1, 5], 9), ([4, 0], 8)])
def test_records_with_gaps_keep_their_layout(device: Any, offsets: list[int], itemsize: int) -> None:
    """NumPy's common dtype of two such dtypes has no gaps."""
    gaps = np.dtype({"names": ["a", "b"], "formats": ["u1", "i4"], "offsets": offsets, "itemsize": itemsize})
    both = np.zeros((2, 20), gaps)
    x, y = both
    x["a"], x["b"], y["b"] = np.arange(20), np.arange(20) * 1000, 7
    places = np.arange(20) % 3 == 0
    if is_aligned(gaps) or device.profile.unaligned_records:
        for no in (y, y[3]):
            got = pydp.where(places, x, no, device=device)
            assert got.dtype == gaps
            np.testing.assert_array_equal(got, np.where(places, x, no))
    else:
        for no, message in ((y, "corrupts records"), (y[3], "corrupts records|cannot pass a record with misaligned")):
            with pytest.raises(UnsupportedOnDevice, match=message):
                pydp.where(places, x, no, device=device)
    for got, want in (
        (pydp.concatenate([x, y], device=device), np.concatenate([x, y])),
        (pydp.concatenate(both, device=device), np.concatenate([x, y])),
        (pydp.stack([x, y], axis=1, device=device), np.stack([x, y], axis=1)),
    ):
        assert got.dtype == gaps
        np.testing.assert_array_equal(got, want)
    packed = x.astype([("a", "u1"), ("b", "i4")])
    for call in (lambda: pydp.where(places, x, packed, device=device), lambda: pydp.concatenate([x, packed])):
        with pytest.raises(InvalidArgument, match="no common dtype; dtypes that NumPy combines and records"):
            call()
