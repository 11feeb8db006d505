"""pydp.scan against plain loops and NumPy: lengths, strategies, operators, types, axes."""

from __future__ import annotations

import itertools

import needs
import numpy as np
import pyopencl.cltypes as cltypes
import pytest
from banked import banked
from waiting import skip_where_refused

import pydp
from pydp.algorithms.lookback import STRATEGIES

VECTOR = {"mapping": "vector", "part": 24, "vector": 0}
SIMT = {"mapping": "simt", "lanes": 8, "columns": 4, "items": 3}
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT], ids=["vector", "simt"])


def running(values, combine, exclusive=False, init=None, start=None):
    """The scan of a list by a plain loop."""
    results, before = [], init
    for value in values:
        after = value if before is None else combine(before, value)
        results.append((start if before is None else before) if exclusive else after)
        before = after
    return results


def integers(n, seed=0, low=-1000, high=1000, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_length_around_the_partition(device, mapping, strategy):
    skip_where_refused(device, strategy, mapping)
    x = integers(130)
    for n in [*range(50), 71, 72, 73, 119, 120, 121, 130]:
        got = pydp.scan(x[:n], strategy=strategy, spec=mapping)
        assert got.dtype == np.int32 and np.array_equal(got, np.cumsum(x[:n], dtype=np.int32)), n


@MAPPINGS
def test_every_length_exclusive_and_reversed(device, mapping):
    x = integers(60)
    for n in range(50):
        want = running(list(x[:n][::-1]), lambda a, b: a + b, exclusive=True, start=0)[::-1]
        got = pydp.scan(x[:n], exclusive=True, reverse=True, spec=mapping)
        assert np.array_equal(got, np.array(want, np.int32)), n


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("exclusive", [False, True])
def test_operators_that_do_not_commute(device, mapping, strategy, exclusive):
    """Affine maps x -> m x + c, composed from left to right, modulo 2**32."""
    skip_where_refused(device, strategy, mapping)
    x = np.zeros(97, cltypes.uint2)
    x["s0"], x["s1"] = integers(97, 1, 1, 9, np.uint32), integers(97, 2, 0, 99, np.uint32)
    init = np.zeros((), cltypes.uint2)
    init["s0"], init["s1"] = 3, 5
    pairs = [(int(a), int(b)) for a, b in zip(x["s0"], x["s1"], strict=True)]
    mask = (1 << 32) - 1

    def compose(f, g):
        return (f[0] * g[0] & mask, (f[1] * g[0] + g[1]) & mask)

    want = running(pairs, compose, exclusive, (3, 5))
    got = pydp.scan(
        x, "(uint2)(a.x * b.x, a.y * b.x + b.y)", exclusive=exclusive, init=init, strategy=strategy, spec=mapping
    )
    assert [(int(a), int(b)) for a, b in zip(got["s0"], got["s1"], strict=True)] == want


@MAPPINGS
def test_matrices_modulo_a_prime(device, mapping):
    x = np.zeros(500, cltypes.uint4)
    for k, name in enumerate(("s0", "s1", "s2", "s3")):
        x[name] = integers(500, k, 0, 10007, np.uint32)
    op = (
        "((uint4)(a.x * b.x + a.y * b.z, a.x * b.y + a.y * b.w, a.z * b.x + a.w * b.z, a.z * b.y + a.w * b.w))"
        " % (uint4)(10007)"
    )
    matrices = [np.array([[int(row[name]) for name in pair] for pair in (("s0", "s1"), ("s2", "s3"))]) for row in x]
    want = running(matrices, lambda a, b: a @ b % 10007)
    got = pydp.scan(x, op, spec=mapping)
    assert all(
        [int(g[name]) for name in ("s0", "s1", "s2", "s3")] == list(w.ravel()) for g, w in zip(got, want, strict=True)
    )


@MAPPINGS
def test_the_last_number_that_is_not_zero(device, mapping):
    x = integers(1000, 3, -2, 3)
    got = pydp.scan(x, "b != 0 ? b : a", spec=mapping)
    assert np.array_equal(got, running(list(x), lambda a, b: b if b else a))


@MAPPINGS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_operators_see_real_elements_only(device, mapping, strategy):
    """An operator that a zero, the usual padding, would spoil for good."""
    skip_where_refused(device, strategy, mapping)
    x = integers(200, 4, 1, 1000)
    for n in (1, 23, 24, 25, 73, 200):
        got = pydp.scan(x[:n], "(a <= 0 || b <= 0) ? -1 : max(a, b)", strategy=strategy, spec=mapping)
        assert np.array_equal(got, np.maximum.accumulate(x[:n]))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "dtype",
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split(),
)
def test_all_scalar_types(device, dtype):
    dtype = np.dtype(dtype)
    x = np.random.default_rng(5).integers(0, 2, 5000).astype(dtype)
    if not needs.has(device, dtype):
        with pytest.raises(pydp.UnsupportedOnDevice):
            pydp.scan(x)
    needs.dtype(device, dtype)
    if dtype == np.float16:
        x[300:] = 0  # sums stay exact
    want = np.cumsum(x, dtype=np.int64 if dtype.kind == "b" else dtype)
    for spec in (None, {"part": 300}, {**SIMT, "lanes": 32}):
        got = pydp.scan(x, spec=spec)
        assert got.dtype == want.dtype and np.array_equal(got, want)
    if dtype.kind != "c":
        got = pydp.scan(x[::-1], "max", spec={"part": 300})
        assert got.dtype == dtype and np.array_equal(got, np.maximum.accumulate(x[::-1]))


NAMED = [
    ("+", np.add, 0),
    ("*", np.multiply, 1),
    ("min", np.minimum, np.iinfo(np.int32).max),
    ("max", np.maximum, np.iinfo(np.int32).min),
    ("&", np.bitwise_and, -1),
    ("|", np.bitwise_or, 0),
    ("^", np.bitwise_xor, 0),
]


@pytest.mark.parametrize(("op", "ufunc", "start"), NAMED, ids=[name for name, _, _ in NAMED])
def test_named_operators(device, op, ufunc, start):
    x = integers(3000, 6, -(2**31), 2**31 - 1)
    x |= op == "*"  # products of odd integers are not zero
    with np.errstate(over="ignore"):
        want = ufunc.accumulate(x, dtype=np.int32)
    assert np.array_equal(pydp.scan(x, op, spec={"part": 500}), want)
    assert np.array_equal(pydp.scan(x, ufunc, spec={"part": 500}), want)
    got = pydp.scan(x, op, exclusive=True, spec={"part": 500})
    assert got[0] == start and np.array_equal(got[1:], want[:-1])


def test_minimum_and_maximum_pass_nan_on_as_numpy_does(device):
    x = np.random.default_rng(7).standard_normal(3000).astype(np.float32)
    x[1500] = np.nan
    for op, ufunc in (("min", np.minimum), ("max", np.maximum)):
        assert np.array_equal(pydp.scan(x, op, spec={"part": 400}), ufunc.accumulate(x), equal_nan=True)


def test_logaddexp(device):
    x = np.random.default_rng(8).uniform(-90, 90, 3000).astype(np.float32)
    x[:3] = -np.inf
    want = np.logaddexp.accumulate(x.astype(np.float64))
    np.testing.assert_allclose(pydp.scan(x, "logaddexp", spec={"part": 400}), want, rtol=2e-5)
    assert pydp.scan(np.array([np.inf, 1, np.inf], np.float32), "logaddexp").tolist() == [np.inf] * 3


def test_float_sums_are_as_accurate_as_they_should_be(device):
    x = np.random.default_rng(9).random(300_000).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64))
    np.testing.assert_allclose(pydp.scan(x), exact, rtol=2e-5)
    assert not np.signbit(pydp.scan(x, exclusive=True)[0])
    assert np.signbit(pydp.scan(np.array([-0.0], np.float32))[0])


RECORDS = {
    "3 bytes": [("r", "u1"), ("g", "u1"), ("b", "u1")],
    "7 bytes": [("count", "<i4"), ("mark", "<u2"), ("last", "u1")],
    "20 bytes": [("a", "<i4"), ("b", "<i4"), ("c", "<f4"), ("d", "<u2"), ("e", "<u2"), ("f", "<i4")],
    "84 bytes": [(f"v{k}", "<i4") for k in range(21)],
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", RECORDS)
def test_records_of_any_size(device, name):
    dtype = np.dtype(RECORDS[name])
    x = np.zeros(301, dtype)
    for k, field in enumerate(dtype.names):
        x[field] = integers(301, k, 0, 100)
    last = dtype.names[-1]
    odd = device.profile.loop_limit is not None and dtype.itemsize % 4 != 0
    op = {field: f"b.{field}" if field == last else f"a.{field} + b.{field}" for field in dtype.names}
    if odd:  # llvmpipe loses such records: refused, never wrong
        with pytest.raises((pydp.InvalidArgument, pydp.UnsupportedOnDevice), match=r"(loses|corrupts) records"):
            pydp.scan(x, op, spec=SIMT)
    if odd and dtype.itemsize == 3:
        with pytest.raises(pydp.UnsupportedOnDevice, match="three bytes"):
            pydp.scan(x, op)
        pytest.skip("the driver loses records of three bytes: they are refused")
    for spec in (VECTOR | {"part": 50}, *([] if odd else [SIMT])):
        got = pydp.scan(x, op, spec=spec)
        for field in dtype.names:
            want = x[field] if field == last else np.cumsum(x[field], dtype=x[field].dtype)
            assert np.array_equal(got[field], want), field


def test_accumulates_in_another_type(device):
    x = integers(5000, 10, 0, 255, np.uint8)
    assert np.array_equal(pydp.scan(x, dtype=np.int32, spec={"part": 700}), np.cumsum(x, dtype=np.int32))
    assert np.array_equal(pydp.scan(x, dtype=np.uint64), np.cumsum(x, dtype=np.uint64))
    assert np.array_equal(pydp.scan(x, dtype=np.float32), np.cumsum(x, dtype=np.float32))
    assert np.array_equal(pydp.scan(x, "max", dtype=bool), np.maximum.accumulate(x != 0))
    floats = x.astype(np.float32) + np.float32(0.5)
    assert np.array_equal(pydp.scan(floats, dtype=np.int32), np.cumsum(floats.astype(np.int32), dtype=np.int32))


SHAPES = [(7,), (40, 50), (3, 2000), (2000, 3), (5, 6, 7), (2, 3, 40, 5), (1, 9, 1), (64, 33)]


@pytest.mark.sweep
@pytest.mark.parametrize("spec", [None, VECTOR, SIMT], ids=["default", "vector", "simt"])
def test_every_axis_of_every_shape(device, spec):
    for shape in SHAPES:
        x = integers(shape, 11)
        for axis, reverse in itertools.product(range(-len(shape), len(shape)), (False, True)):
            back = np.flip(x, axis) if reverse else x
            want = np.cumsum(back, axis=axis, dtype=np.int32)
            got = pydp.scan(x, axis=axis, reverse=reverse, spec=spec)
            assert np.array_equal(got, np.flip(want, axis) if reverse else want), (shape, axis, reverse)


@pytest.mark.oclgrind
@pytest.mark.parametrize("pad", [0, 4])
@pytest.mark.parametrize("columns", [7, 8, 9, 24, 40])
def test_a_work_group_scans_a_row(device, columns, pad):
    """Rows that fit into local memory: their own items, no heads, no look-back."""
    spec = SIMT | {"pad": pad}
    x = integers((5, columns), columns)
    for axis in (0, 1):
        for reverse in (False, True):
            back = np.flip(x.T if axis == 0 else x, axis) if reverse else x.T if axis == 0 else x
            want = np.cumsum(back, axis, dtype=np.int32)
            got = pydp.scan(x.T if axis == 0 else x, axis=axis, reverse=reverse, spec=spec)
            assert np.array_equal(got, np.flip(want, axis) if reverse else want)
    nested = integers((2, 3, columns, 2), 3)
    assert np.array_equal(pydp.scan(nested, axis=2, spec=spec), np.cumsum(nested, axis=2, dtype=np.int32))
    last = "b % 2 ? b : a"  # the last odd value: an operator that does not commute
    for op, exclusive, init in (("+", True, None), (last, True, 5), (last, False, 5), ("+", False, 5)):
        got = pydp.scan(x, op, axis=1, exclusive=exclusive, init=init, spec=spec)
        combine = (lambda a, b: a + b) if op == "+" else (lambda a, b: b if b % 2 else a)
        rows = [running(row.tolist(), combine, exclusive, init, start=0) for row in x]
        assert np.array_equal(got, np.array(rows, np.int32)), (op, exclusive, init)
    field = pydp.field(x)
    pydp.scan(field, axis=1, out=field, spec=spec)
    assert np.array_equal(field.get(), np.cumsum(x, axis=1, dtype=np.int32))
    told = pydp.explain(pydp.scan, x, axis=1, spec=spec)
    if device.profile.loop_limit is None:
        assert f"partition(s) of {columns} elements, {-(-columns // 8) | 1} for each lane" in str(told)
    chosen = told.facts["specialization"]
    assert (chosen.items, chosen.pad) == (3, pad) and np.array_equal(
        pydp.scan(x, axis=1, spec=chosen), np.cumsum(x, axis=1, dtype=np.int32)
    )


def test_long_rows_of_an_operator_with_many_iterations(device):
    """Rows that fit into local memory, and whose elements need more iterations than some drivers run."""
    spec = {"mapping": "simt", "lanes": 8, "columns": 4, "items": 3, "strategy": "reduce_then_scan"}

    def add_in_a_loop(a, b):
        s = a
        for i in range(590):
            if i == (b & 255):
                s = s + b
        return s

    x = np.ones((3, 440), np.int32)
    assert np.array_equal(pydp.scan(x, add_in_a_loop, axis=1, spec=spec), np.cumsum(x, 1, dtype=np.int32))


@pytest.mark.oclgrind
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_rows_of_one_lane(device, lanes):
    """One compiler miscompiles stores of lanes to every second place."""
    x = integers(150, 1)
    for barriers in ("auto", "group"):
        spec = {"mapping": "simt", "lanes": lanes, "columns": 1, "items": 2, "barriers": barriers}
        for strategy in STRATEGIES if device.profile.loop_limit is None else ("reduce_then_scan",):
            assert np.array_equal(pydp.scan(x, strategy=strategy, spec=spec), np.cumsum(x, dtype=np.int32))


@MAPPINGS
def test_inputs_and_outputs_with_any_strides(device, mapping):
    base = integers((6, 10, 8, 9), 12)
    views = [
        base[::2, ::-1, 1:7, ::3],
        base.transpose(2, 0, 3, 1),
        base[:, :, 3, :],
        np.broadcast_to(base[0, 0, 0], (5, 4, 9)),
        base[1:, 2:, ::-2, 1:-1].swapaxes(0, 3),
    ]
    for x in views:
        for axis in range(x.ndim):
            want = np.cumsum(x, axis=axis, dtype=np.int32)
            assert np.array_equal(pydp.scan(x, axis=axis, spec=mapping), want)
            frame = np.full((*x.shape[:-1], x.shape[-1] * 2 + 1), -7, np.int32)
            result = pydp.scan(x, axis=axis, out=frame[..., 1::2], spec=mapping)
            assert result.base is not None and np.array_equal(frame[..., 1::2], want)
            assert (frame[..., ::2] == -7).all()
    assert np.array_equal(pydp.scan(views[1], axis=None, spec=mapping), np.cumsum(views[1], dtype=np.int32))


def test_foreign_byte_order_and_unaligned_data(device):
    x = integers(1000, 13)
    assert np.array_equal(pydp.scan(x.astype(">i4")), np.cumsum(x, dtype=np.int32))
    raw = np.zeros(4001, np.uint8)
    raw[1:] = x.view(np.uint8)
    assert np.array_equal(pydp.scan(raw[1:].view(np.int32)), np.cumsum(x, dtype=np.int32))


@pytest.mark.oclgrind
@pytest.mark.parametrize("lanes, window", [(4, 1), (8, 2), (16, 16), (64, 32), (8, 32), (24, 32)])
def test_lanes_that_look_back_together(device, lanes, window):
    """More predecessors than one window holds; segments; records; the order of an operator that does not commute."""
    skip_where_refused(device, "lookback", SIMT)
    spec = {"mapping": "simt", "lanes": lanes, "columns": 4, "items": 1, "strategy": "lookback", "window": window}
    # More partitions than a lane of the window reads at once, four for values of up to 8 bytes.
    x = integers(lanes * (2 if window > 2 else 19) * window + 5, window)
    flags = x % 101 == 0
    wanted = np.cumsum(x, dtype=np.int32)
    assert np.array_equal(pydp.scan(x, spec=spec), wanted)
    # Published late or not at all: a work-group adds up the aggregates of several windows.
    assert np.array_equal(pydp.scan(x, spec={**spec, "order": "reversed", "polls": 1}), wanted)
    field = pydp.field(x)
    # In place, the simulator reports reads that the owner overwrites meanwhile as races; their value is discarded.
    out = pydp.zeros(x.shape, x.dtype) if device.profile.is_simulator else field
    pydp.scan(field, out=out, spec={**spec, "suppress": 1, "polls": 2})
    assert np.array_equal(out.get(), wanted)
    start = np.maximum.accumulate(np.where(flags, np.arange(x.size), 0))
    before = np.concatenate([[0], wanted[:-1]])
    assert np.array_equal(pydp.scan(x, segments=flags, spec=spec), wanted - before[start])
    affine = np.zeros(x.size, [("a", np.int32), ("b", np.int32)])
    affine["a"], affine["b"] = x % 3, x % 5
    got = pydp.scan(affine, {"a": "a.a * b.a", "b": "a.b * b.a + b.b"}, spec=spec)
    pairs = list(zip(affine["a"].tolist(), affine["b"].tolist(), strict=True))
    want = running(pairs, lambda a, b: (_wrapped(a[0] * b[0]), _wrapped(a[1] * b[0] + b[1])))
    assert got.tolist() == want


def _wrapped(value):
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_what_is_put_between_for_banks(device, dtype, monkeypatch):
    """Laid out for 32 banks, with the pads that the model asks for and with others: the results are the same."""
    x = integers(700, 3, dtype=dtype)
    with banked(device, monkeypatch):
        for items, pad in ((3, 0), (4, 16)):
            spec = {**SIMT, "items": items, "pad": pad}
            got = pydp.scan(x, dtype=dtype, strategy="reduce_then_scan", spec=spec)
            np.testing.assert_array_equal(got, np.cumsum(x, dtype=dtype))
        told = str(pydp.explain(pydp.scan, x, strategy="reduce_then_scan", spec={**SIMT, "lanes": 32, "items": 3}))
    assert "on 32 banks" in told


AHEAD = "next_k"  # in kernels that reduce a later partition while they scan one


@pytest.mark.oclgrind
@pytest.mark.parametrize("part", [65, 97, 200])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_partitions_that_are_reduced_ahead(device, part, exclusive, dtype):
    """Their results have the bits of scans in place, where each work-group reduces its own partition."""
    # Oclgrind 21.10 takes element 11 of a vector for uninitialized wherever a swizzle moves it: its check for undefined
    # elements compares their index with the wrong constant.
    spec = {"mapping": "vector", "part": part, "vector": 8 if device.profile.is_simulator else 16}
    skip_where_refused(device, "lookback", spec)
    units = device.profile.compute_units
    for n in (part * (units + 1), part * (units + 2) + 1, part * (2 * units + 3) - 1, part * 9):
        x = integers(n, seed=n).astype(dtype) * np.dtype(dtype).type(0.37 if dtype == "float32" else 1)
        field = pydp.field(np.pad(x, 40, constant_values=7), device=device)
        out = pydp.full(n + 80, 7, dtype, device=device)
        pydp.scan(field[40:-40], out=out[40:-40], exclusive=exclusive, spec=spec)
        pydp.scan(field[40:-40], out=field[40:-40], exclusive=exclusive, spec=spec)
        assert out.get().tobytes() == field.get().tobytes(), n
        if dtype == "int32":
            want = np.cumsum(np.append(0, x), dtype=np.int32)
            assert np.array_equal(out.get()[40:-40], want[:-1] if exclusive else want[1:]), n


@pytest.mark.parametrize("change", ["nothing", "in place", "chained", "segments", "rows"])
def test_partitions_are_reduced_ahead_only_if_they_cannot_be_overwritten(device, change):
    spec = {"mapping": "vector", "part": 200, "vector": 16}
    skip_where_refused(device, "lookback", spec)
    x, out = pydp.zeros(2000, np.int32, device=device), pydp.zeros(2000, np.int32, device=device)
    options = {"segments": pydp.zeros(2000, np.uint8, device=device)} if change == "segments" else {}
    if change == "rows":
        x, out = x.reshape(4, 500), out.reshape(4, 500)
    spec |= {"strategy": "chained"} if change == "chained" else {}
    made = pydp.explain(pydp.scan, x, out=x if change == "in place" else out, spec=spec, **options)
    assert any(AHEAD in one for one in made.sources.values()) is (change == "nothing")
