"""pydp.sort, argsort and sort_by_key against NumPy and Python's own stable sort."""

from __future__ import annotations

import math
import re
from typing import Any

import needs
import numpy as np
import pytest
from banked import banked
from made_up import profile

import pydp
from pydp.algorithms.sort.policy import FAMILY, SortProblem, SortSpec

SIMT = {"mapping": "simt", "run": 64, "small": 4, "lanes": 16, "items": 4, "stretch": 8, "chains": 1}
VECTOR = {
    "mapping": "vector",
    "strategy": "merge",
    "run": 64,
    "small": 8,
    "lanes": 1,
    "items": 1,
    "stretch": 32,
    "chains": 4,
}


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [SIMT, VECTOR], ids=["simt", "vector"])
def test_every_length(device: Any, spec: Any) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 63, 64, 65, 129, 300):
        x = rng.integers(-20, 20, n).astype(np.int32)
        assert _same(pydp.sort(x, spec=spec), np.sort(x))
        assert np.array_equal(pydp.argsort(x, spec=spec), np.argsort(x, kind="stable"))


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [np.int16, np.int64])
def test_runs_in_local_memory_with_banks(device: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the layout for 32 banks, accesses of lanes to their own items have no conflicts; the results are the same."""
    x = np.random.default_rng(7).integers(-99, 99, (2, 301)).astype(dtype)
    with banked(device, monkeypatch):
        for items in (4, 8):
            spec = {**SIMT, "items": items, "run": 16 * items, "small": items}
            assert _same(pydp.sort(x, spec=spec), np.sort(x))
            assert np.array_equal(pydp.argsort(x, spec=spec), np.argsort(x, kind="stable"))
            told = str(pydp.explain(pydp.sort, x, spec=spec))
            assert dtype is np.int16 or "conflict degree 1 on 32 banks" in told


def test_lengths_around_the_runs(device: Any) -> None:
    rng = np.random.default_rng(1)
    for n in (1023, 1024, 1025, 2047, 4097, 30_001, 1 << 17, 300_007):
        x = rng.integers(0, n, n).astype(np.int32)
        assert _same(pydp.sort(x), np.sort(x))
        assert np.array_equal(pydp.argsort(x, descending=True), _stable(x, descending=True))


def _stable(x: np.ndarray, descending: bool = False) -> np.ndarray:
    """Positions by Python's own sort, which is stable, also with reverse=True."""
    return np.array(sorted(range(len(x)), key=x.tolist().__getitem__, reverse=descending), np.int64)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.int64, np.uint64, np.float32, np.complex64])
def test_types(device: Any, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (3, 777)).astype(np.uint8).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.integers(-3, 3, x.shape).astype(np.float32)
        x[0, ::7] = complex(math.nan, 1)
        x[0, 1::9] = complex(2, math.nan)
    if np.dtype(dtype).kind == "f":
        x = x / 7 - 10
        x[1, ::5], x[1, 1::5], x[2, ::11] = math.nan, -math.inf, math.inf
    x = x.astype(dtype)
    for axis in (0, 1, None):
        assert _same(pydp.sort(x, axis=axis), np.sort(x, axis=axis)), axis
    assert np.array_equal(pydp.argsort(x, axis=1), np.argsort(x, axis=1, kind="stable"))


def test_axes_views_and_kinds(device: Any) -> None:
    base = np.random.default_rng(3).integers(0, 50, (20, 30, 17)).astype(np.int32)
    field = pydp.field(base)
    for view in (np.s_[:], np.s_[::2, ::-1], np.s_[:, 4, ::2], np.s_[3:4]):
        for axis in range(base[view].ndim):
            assert _same(pydp.sort(base[view], axis=axis), np.sort(base[view], axis=axis))
            result = pydp.argsort(field[view], axis=axis)
            assert isinstance(result, pydp.Field)
            assert np.array_equal(result.get(), np.argsort(base[view], axis=axis, kind="stable"))
    again = field.T[::-1]
    assert pydp.sort(again, axis=1, out=again) is not None
    expected = np.sort(base.T[::-1], axis=1)
    assert np.array_equal(again.get(), expected)


def test_by_key_with_values_of_any_type(device: Any) -> None:
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 100, (4, 2500)).astype(np.uint8)
    record = np.dtype([("a", np.int16), ("b", np.float32), ("c", np.int8, 3)])
    values = np.zeros(keys.shape, record)
    values["a"], values["b"] = np.arange(keys.size).reshape(keys.shape) % 30_000, rng.random(keys.shape)
    for axis in (0, 1):
        order = np.argsort(keys, axis=axis, kind="stable")
        got_keys, got = pydp.sort_by_key(keys, values, axis=axis)
        assert np.array_equal(got_keys, np.take_along_axis(keys, order, axis))
        assert np.array_equal(got["a"], np.take_along_axis(values["a"], order, axis))
        assert np.array_equal(got["b"], np.take_along_axis(values["b"], order, axis))


@pytest.mark.sweep
@pytest.mark.parametrize("carried", ["u1", "u2", "i4", [("w", "u1", 3)], [("w", "i4", 5)]])
def test_records_of_any_size_with_values_of_any_size(device: Any, carried: Any) -> None:
    """Some drivers lose records of some sizes in arrays: keys and values are checked one by one."""
    rng = np.random.default_rng(9)
    values = np.frombuffer(rng.bytes(300 * np.dtype(carried).itemsize), carried)
    for members in ("f4 i2", "i4 u8", "i2 u1", "f4 i2 u8", "i4 i4 i4"):
        keys = np.zeros(300, members.replace(" ", ","))
        for name in keys.dtype.names or ():
            keys[name] = rng.integers(0, 4, 300)
        order = np.argsort(keys, kind="stable", order=keys.dtype.names)
        got_keys, got = pydp.sort_by_key(keys, values)
        assert got_keys.tobytes() == keys[order].tobytes() and got.tobytes() == values[order].tobytes()


def test_key_and_less_expressions(device: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-50, 50, (3, 300)).astype(np.int32)

    def by(keys: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x, np.argsort(keys, axis=-1, kind="stable"), -1)

    assert np.array_equal(pydp.sort(x, key="-x"), by(-x))
    assert np.array_equal(pydp.sort(x, key="x % 7"), by(np.fmod(x, 7)))  # C's remainder has the sign of x
    assert np.array_equal(pydp.sort(x, key="abs(x)", descending=True), by(-np.abs(x)))
    assert np.array_equal(pydp.sort(x, less="a > b"), by(-x))
    tens = np.sign(x) * (np.abs(x) // 10)
    assert np.array_equal(pydp.sort(x, key="x / 10", less="a % 3 > b % 3"), by(-np.fmod(tens, 3)))
    assert np.array_equal(pydp.sort(x, key=lambda v: v * v, less="a > b"), by(-x * x))
    assert np.array_equal(pydp.sort(x, axis=0, key="-x"), -np.sort(-x, axis=0))
    assert np.array_equal(pydp.argsort(x[0], key="-x"), np.argsort(-x[0], kind="stable"))
    field = pydp.sort(pydp.field(x), less="abs(a) < abs(b)")
    assert np.array_equal(field.get(), by(np.abs(x)))
    complexes = (rng.random(90) + 1j * rng.random(90)).astype(np.complex64)
    assert np.array_equal(pydp.sort(complexes, key="-x.x"), complexes[np.argsort(-complexes.real, kind="stable")])
    if needs.has(device, np.dtype(np.float64)):  # the literal is a double
        floats = x[0].astype(np.float32) / 7
        order = np.argsort(np.abs(floats) * 0.1, kind="stable")
        assert np.array_equal(pydp.argsort(floats, key="fabs(x) * 0.1"), order)


def test_expressions_of_records(device: Any) -> None:
    rng = np.random.default_rng(4)
    x = np.zeros(400, [("group", np.int32), ("size", np.float32)])
    x["group"], x["size"] = rng.integers(0, 9, 400), rng.random(400)
    assert np.array_equal(pydp.sort(x, key="-x.group"), x[np.argsort(-x["group"], kind="stable")])
    got = pydp.sort(x, less="a.group != b.group ? a.group < b.group : a.size > b.size")
    assert np.array_equal(got, x[np.lexsort((-x["size"], x["group"]))])
    got = pydp.sort(x, less="(a.group < b.group) | (a.group == b.group) & isgreater(a.size, b.size)")
    assert np.array_equal(got, x[np.lexsort((-x["size"], x["group"]))])
    assert np.array_equal(pydp.sort(x, key="x"), np.sort(x))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"key": "x +"}, "key 'x +', column 4"),
        ({"key": "nosuch"}, "'nosuch', which is not a member of int32.*expressions in x for all dtypes"),
        ({"key": "*x"}, "column 1"),
        ({"less": "a - b"}, "less 'a - b' is not a condition; a comparison such as 'a > b'"),
        ({"less": "a < b ? a : b < a"}, "is not a condition"),
        ({"less": "(a < b) & a"}, "is not a condition"),
        ({"less": "x < 3"}, "the name 'x' is unknown"),
        ({"less": 3}, "less is 3; a Python function of two elements, an OpenCL C expression"),
    ],
)
def test_wrong_expressions(device: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(pydp.InvalidArgument, match=re.escape(message) if ".*" not in message else message):
        pydp.sort(np.arange(5, dtype=np.int32), **wrong)


def test_key_and_less_functions(device: Any) -> None:
    x = np.random.default_rng(5).integers(-500, 500, 5000).astype(np.int32)
    by_magnitude = np.array(sorted(x.tolist(), key=abs), np.int32)
    assert np.array_equal(pydp.sort(x, key=lambda v: abs(v)), by_magnitude)
    odd_first = np.array(sorted(x.tolist(), key=lambda v: v % 2 == 0), np.int32)
    assert np.array_equal(pydp.sort(x, less=lambda a, b: (a % 2 != 0) and (b % 2 == 0)), odd_first)
    point = np.dtype([("x", np.float32), ("y", np.float32)])
    p = np.zeros(3000, point)
    p["x"], p["y"] = np.random.default_rng(6).integers(0, 40, (2, 3000))
    assert np.array_equal(pydp.sort(p), np.sort(p))
    far = pydp.sort(p, key=lambda q: q.x * q.x + q.y * q.y, descending=True)
    squares = (p["x"] ** 2 + p["y"] ** 2).tolist()
    expected = p[np.array(sorted(range(len(p)), key=squares.__getitem__, reverse=True))]
    assert np.array_equal(far, expected)


MIXED = np.dtype([("a", np.int16), ("b", np.float32), ("c", np.uint8), ("v", np.int8, 2)], align=True)


def _records(n: int, seed: int = 7) -> np.ndarray:
    """Records with many equal members, and NaN among the floats."""
    rng = np.random.default_rng(seed)
    made = np.zeros(n, MIXED)
    made["a"], made["c"] = rng.integers(-3, 4, n), rng.integers(0, 3, n)
    made["b"] = rng.integers(-2, 3, n) / 2
    made["b"][::7] = math.nan
    made["v"] = rng.integers(-2, 3, (n, 2))
    return made


def _number(value: float) -> tuple[bool, float]:
    """A number as a key of Python's sort, NaN after the others."""
    return (math.isnan(value), 0.0 if math.isnan(value) else float(value))


def _equal_records(left: np.ndarray, right: np.ndarray) -> bool:
    return all(np.array_equal(left[name], right[name], equal_nan=left[name].dtype.kind == "f") for name in MIXED.names)


def test_names_of_members_order_as_in_numpy(device: Any) -> None:
    three = np.dtype([("a", np.int16), ("b", np.float32), ("c", np.uint8)], align=True)
    x = _records(700)[["a", "b", "c"]].astype(three)
    for key in ("b", ["c", "a"]):
        assert np.array_equal(pydp.argsort(x, key=key), np.argsort(x, order=key, kind="stable")), key
    got, wanted = pydp.sort(x, key=("c", "a")), np.sort(x, order=["c", "a"], kind="stable")
    assert all(np.array_equal(got[name], wanted[name], equal_nan=name == "b") for name in "abc")
    assert np.array_equal(pydp.sort_by_key(x, np.arange(700), key=["c", "a"])[1], pydp.argsort(x, key=["c", "a"]))
    field = pydp.sort(pydp.field(x), key="b")
    assert isinstance(field, pydp.Field) and np.array_equal(field.get()["b"], np.sort(x["b"]), equal_nan=True)


def _windowed(x: np.ndarray, low: int, end: int, descending: bool) -> np.ndarray:
    """The indexes that sort integers by their bits low .. end - 1 with Python's stable sort; sign bits are flipped."""
    width = 8 * x.dtype.itemsize
    flip = 1 << width - 1 if x.dtype.kind == "i" else 0
    keys = [((value % (1 << width)) ^ flip) >> low & (1 << end - low) - 1 for value in x.tolist()]
    return np.array(sorted(range(len(x)), key=keys.__getitem__, reverse=descending), np.int64)


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [SIMT, VECTOR, None], ids=["simt", "vector", "default"])
def test_windows_of_bits(device: Any, spec: Any) -> None:
    values = np.arange(150, dtype=np.int16)
    for place, (dtype, low, end) in enumerate(
        (("i1", 7, 8), ("u1", 0, 0), ("u2", 9, 16), ("i4", 1, 31), ("u4", 32, 32), ("i8", 32, 64), ("u8", 0, 63))
    ):
        x = np.frombuffer(np.random.default_rng(place).bytes(150 * np.dtype(dtype).itemsize), dtype)
        named: dict[str, Any] = {"bits": (low, end), "descending": bool(place % 2), "spec": spec}
        order = _windowed(x, low, end, bool(place % 2))
        for _ in range(3):  # the second call is recorded, the third one repeats it
            assert np.array_equal(pydp.sort(x, **named), x[order]), (dtype, low, end)
        if place % 2:
            assert np.array_equal(pydp.argsort(x, **named), order), (dtype, low, end)
        else:
            assert np.array_equal(pydp.sort_by_key(x, values, **named)[1], values[order]), (dtype, low, end)


def test_windows_of_bits_along_an_axis_and_in_place(device: Any) -> None:
    x = np.random.default_rng(3).integers(-(1 << 40), 1 << 40, (7, 90))
    wanted = np.stack([column[_windowed(column, 32, 64, False)] for column in x.T], 1)
    field = pydp.field(x)
    for _ in range(3):
        assert np.array_equal(pydp.sort(field, axis=0, bits=[32, np.int8(64)]).get(), wanted)
    assert pydp.sort(field, axis=0, bits=(32, 64), out=field) is field and np.array_equal(field.get(), wanted)
    for bits, says in (((3, 60), "bits 3 to 59 of the keys are compared"), ((9, 9), "no bits are compared")):
        assert says in str(pydp.explain(pydp.argsort, x, bits=bits))
    assert pydp.explain(pydp.sort, x, bits=(0, 64)).sources == pydp.explain(pydp.sort, x).sources


def test_wrong_windows_of_bits(device: Any) -> None:
    x = np.arange(9, dtype=np.uint16)
    for bits in ((0, 17), (3, 2), (-1, 2), 5, (1,), (1, 2, 3), (1.0, 2), (True, 3), (0, None), "ab"):
        with pytest.raises(pydp.InvalidArgument, match="0 <= low <= end <= 16 is accepted for uint16 keys"):
            pydp.sort(x, bits=bits)
    for function in (pydp.argsort, lambda keys, bits: pydp.sort_by_key(keys, keys, bits=bits)):
        for other in (np.float32, bool, np.complex64):
            with pytest.raises(pydp.InvalidArgument, match="accepted for integers only"):
                function(x.astype(other), bits=(0, 1))
    for named in ({"key": abs}, {"less": lambda a, b: a < b}):
        with pytest.raises(pydp.InvalidArgument, match="cannot be combined with key or less"):
            pydp.sort(x, bits=(0, 1), **named)


def _by_three(r: Any) -> Any:
    first = r.c
    if r.a < 0:
        return (first, r.b, r.v)
    return (first, -r.b, r["v"])


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [SIMT, {**VECTOR, "chains": 1}], ids=["simt", "vector"])
def test_keys_that_are_tuples(device: Any, spec: Any) -> None:
    x = _records(90)

    def wanted(row: Any) -> Any:
        return (row["c"], _number(row["b"] if row["a"] < 0 else -row["b"]), tuple(row["v"]))

    order = np.array(sorted(range(len(x)), key=lambda place: wanted(x[place])))
    assert np.array_equal(pydp.argsort(x, key=_by_three, spec=spec), order)
    assert _equal_records(pydp.sort(x, key=_by_three, spec=spec), x[order])


def test_tuples_of_other_elements(device: Any) -> None:
    x = np.random.default_rng(8).integers(-300, 300, (3, 900)).astype(np.int32)
    wanted = [sorted(row, key=lambda v: (v % 7, -v)) for row in x.tolist()]
    assert np.array_equal(pydp.sort(x, key=lambda v: (v % 7, -v)), wanted)
    wanted = [sorted(row, key=lambda v: (v % 7, -v), reverse=True) for row in x.tolist()]
    assert np.array_equal(pydp.sort(x, key=lambda v: (v % 7, -v), descending=True), wanted)
    by_second = pydp.sort(x[0], key=lambda v: (v, v % 5), less=lambda a, b: a.f1 < b.f1)
    assert np.array_equal(by_second, sorted(x[0].tolist(), key=lambda v: v % 5))


def test_keys_that_are_python_integers_have_64_bits(device: Any) -> None:
    x = np.array([3, 5, 1, 4, 2], np.int32)
    for key in (
        lambda a: int(a) * 2000000000,
        lambda a: (a > 2) * 2000000000 + (a > 3) * 2000000000,
        lambda a: (int(a) * -1500000000, a),
    ):
        assert pydp.sort(x, key=key, device=device).tolist() == sorted(x.tolist(), key=key)


def test_wrong_keys(device: Any) -> None:
    x = _records(9)
    for key, says in (
        ("w", "contains 'w', which is not a member of .*; its members are a, b, c, v"),
        (["a", "a"], "twice"),
        ([], "a member name or a list of names is accepted"),
        (["a", 1], "a list of names is accepted"),
        (lambda r: (), "empty tuple"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=says):
            pydp.sort(x, key=key)
    with pytest.raises(pydp.InvalidArgument, match="names are accepted for records"):
        pydp.sort(x["a"], key="a")
    with pytest.raises(pydp.InvalidArgument, match="less cannot be combined with key"):
        pydp.sort(x, key="a", less=lambda a, b: a.a < b.a)
    with pytest.raises(pydp.InvalidArgument, match="less returns int32; a bool is required"):
        pydp.sort(x["a"].astype(np.int32), less=lambda a, b: a - b)


def test_indexes_of_a_number(device: Any) -> None:
    for axis in (-1, 0, None):
        found = pydp.argsort(np.float32(3), axis=axis)
        assert found.shape == (1,) and found.dtype == np.int64 and found[0] == 0
    with pytest.raises(pydp.InvalidArgument, match="axis=1"):
        pydp.argsort(np.float32(3), axis=1)


def test_wrong_arguments(device: Any) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    for wrong in (
        {"axis": 2},
        {"axis": "x"},
        {"axis": True},
        {"descending": "no"},
        {"key": 3},
        {"less": "a - b"},
        {"spec": {"run": 48}},
        {"spec": {"lane": 1}},
        {"spec": ["run", 64]},
        {"out": np.zeros(3, np.int32)},
        {"out": np.zeros((3, 4), np.int64)},
    ):
        with pytest.raises(pydp.InvalidArgument):
            pydp.sort(x, **wrong)
    with pytest.raises(pydp.InvalidArgument, match="shape"):
        pydp.sort_by_key(x, x[:2])
    empty = np.zeros(x.shape, [])  # records without members
    for call in (lambda: pydp.sort(empty), lambda: pydp.sort_by_key(x, empty), lambda: pydp.transpose(empty)):
        with pytest.raises(pydp.InvalidArgument, match=r"has dtype \[\]"):
            call()
    for function in (pydp.sort, lambda values: pydp.sort_by_key(x, values)):
        with pytest.raises(pydp.InvalidArgument, match="is None"):
            function(None)


def test_explain(device: Any) -> None:
    x = pydp.zeros((4, 10_000), np.float32)
    for function in (pydp.sort, pydp.argsort):
        assert "merge" in str(pydp.explain(function, x))
    assert "run" in str(pydp.explain(pydp.sort_by_key, x, x))
    assert "copied to the result" in str(pydp.explain(pydp.sort, x, axis=0))
    for other, axis in ((x[:, ::-1], -1), (x, 0)):
        assert "values are first copied" in str(pydp.explain(pydp.sort_by_key, x, other, axis=axis))
    assert "values are first copied" not in str(pydp.explain(pydp.sort_by_key, x[:, ::-1], x))
    # Values are also found among positional arguments.
    values = x.astype(np.uint8)
    told = [pydp.explain(pydp.sort_by_key, keys=x, values=values), pydp.explain(pydp.sort_by_key, x, values)]
    assert told[0].sources == told[1].sources != pydp.explain(pydp.sort, x).sources
    for wrong in ((x, x[:2]), (x, x, x)):
        with pytest.raises(pydp.InvalidArgument):
            pydp.explain(pydp.sort_by_key, *wrong)
    for named in ({"out": x[:2]}, {"axes": 0}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.explain(pydp.sort, x, **named)


def test_runs_as_long_as_the_drivers_loops_take(device: Any) -> None:
    """On drivers that end long loops, the longest accepted runs are sorted completely, for random and reversed keys."""
    limit = device.profile.loop_limit
    n = 8192
    rng = np.random.default_rng(8)
    arrays = [rng.integers(-(1 << 30), 1 << 30, n).astype(np.int32), np.arange(n, dtype=np.int32)[::-1].copy()]
    refused = 0
    for run, small, chains in ((4096, 1, 1), (4096, 4, 4), (2048, 1, 4), (2048, 1, 16), (2048, 32, 1)):
        spec = {"mapping": "vector", "strategy": "merge", "run": run, "small": small, "chains": chains}
        for x in arrays:
            try:
                assert np.array_equal(pydp.sort(x, spec=spec, device=device), np.sort(x)), spec
            except pydp.InvalidArgument as error:
                refused += 1
                if device.kind == "gpu":  # a run and its copy exceed the private memory that a work-item may have
                    assert 2 * x.itemsize * run > device.profile.most_private_bytes
                    continue
                assert limit is not None and "exceed the loop iterations that this driver allows" in str(error)
    assert refused == (4 if device.kind == "gpu" else 0 if limit is None else 6)


@pytest.mark.host
def test_lanes_sort_no_more_elements_than_the_drivers_loops_take() -> None:
    """The sort of a lane's 512 elements takes 131,584 iterations; llvmpipe ends loops after half of them."""
    short = profile(mapping="vector", loop_limit=65535, local_bytes=32 << 10)
    problem = SortProblem("int32", 4096, 1, 4)
    for items, lanes, right in ((512, 1, False), (512, 8, False), (256, 1, True), (256, 16, True), (16, 256, True)):
        why = FAMILY.check(short, problem, SortSpec("simt", lanes * items, 1, lanes, items, 16, 1))
        assert (why is None) == right and (right or "items 512" in str(why)), why


@pytest.mark.host
def test_drivers_that_lose_records_or_compile_large_ones_slowly_merge_alone() -> None:
    careful = profile(mapping="vector", loop_limit=65535, l1_bytes=32 << 10, compute_units=2)
    for size, lost in ((244, False), (256, False), (8, True), (16, True)):
        problem = SortProblem("record", 10, 0, size, records_lost_in_arrays=lost)
        assert FAMILY.default(careful, problem).run == 1
    assert FAMILY.default(careful, SortProblem("int32", 10, 0, 4)).run > 1
    problem = SortProblem("record", 10, 0, 8, records_lost_in_arrays=True)
    assert all((spec.mapping, spec.run) == ("vector", 1) for spec in FAMILY.candidates(careful, problem))


def test_types_of_numbers_are_keys(device: Any) -> None:
    x = np.array([3.5, -1.25, 300.0, 0.5, -0.5, 2.0], np.float32)
    for key, values in ((float, x), (int, x.astype(int)), (np.int8, x.astype(int).astype(np.int8)), (bool, x != 0)):
        expected = np.argsort(values, kind="stable")
        assert np.array_equal(pydp.argsort(x, key=key, device=device), expected), key
