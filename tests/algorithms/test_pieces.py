"""NumPy arrays larger than the device's largest buffer: every algorithm works on pieces that fit."""

from __future__ import annotations

import importlib
import threading
import traceback
from typing import Any

import needs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pydp
from pydp.algorithms import pieces
from pydp.runtime import call as call_module
from pydp.runtime.arrays import host_arguments
from pydp.runtime.call import Call
from pydp.runtime.memory import host_memory, scratch
from pydp.runtime.memory.scratch import size_class

LIMIT = 1 << 16


@pytest.fixture
def small(device: Any, monkeypatch: Any) -> Any:
    """The device with buffers of at most 64 KiB for arguments."""
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: LIMIT)
    return device


def values(shape: Any, dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        made = rng.standard_normal(shape).astype(kind)
        made.reshape(-1)[:: 1 + made.size // 7] = np.nan
        made.reshape(-1)[1 :: 1 + made.size // 5] = -0.0
        return made
    low, high = (0, 2) if kind.kind == "b" else (max(np.iinfo(kind).min, -(2**40)), min(np.iinfo(kind).max, 2**40))
    return rng.integers(low, high, shape).astype(kind)


LAYOUTS = {
    "line": ((50001,), None),
    "rows": ((7, 9001), None),
    "columns": ((30001, 3), None),
    "F order": ((301, 211), (1, 0)),
    "three axes": ((5, 70, 90), (2, 0, 1)),
    "one long axis": ((1, 40000, 1), None),
}


def arranged(name: str, dtype: Any) -> np.ndarray:
    shape, axes = LAYOUTS[name]
    made = values(shape, dtype)
    return made if axes is None else made.transpose(axes)


# --- reduce ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_reductions(small: Any, name: str) -> None:
    x = arranged(name, np.int32)
    for axis in (None, *range(x.ndim), tuple(range(x.ndim))):
        for keepdims in (False, True):
            got = pydp.reduce(x, axis=axis, keepdims=keepdims)
            want = np.sum(x, axis=axis, keepdims=keepdims, dtype=np.int64)
            assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want)
        assert np.array_equal(pydp.reduce(x, "max", axis=axis), np.max(x, axis=axis))
        assert np.array_equal(pydp.reduce(x, axis=axis, init=5), np.sum(x, axis=axis, dtype=np.int64) + 5)
    assert isinstance(pydp.reduce(x), np.int64)


@pytest.mark.parametrize("name", LAYOUTS)
def test_operators_that_do_not_commute(small: Any, name: str) -> None:
    """Compositions of the affine maps v -> m * v + c, modulo 2**32, in C order."""
    x = arranged(name, np.uint32)
    maps = np.zeros(x.shape, [("m", "u4"), ("c", "u4")])
    maps["m"], maps["c"] = 2 * x + 1, np.arange(x.size).reshape(x.shape)
    if not x.flags.c_contiguous:
        maps = np.asfortranarray(maps)
    op = {"m": "a.m * b.m", "c": "a.c * b.m + b.c"}
    for axis in (None, 0, x.ndim - 1):
        lines = maps.reshape(1, -1) if axis is None else np.moveaxis(maps, axis, -1)
        m, c = np.ones(lines.shape[:-1], np.uint32), np.zeros(lines.shape[:-1], np.uint32)
        for k in range(lines.shape[-1]):
            m, c = m * lines["m"][..., k], c * lines["m"][..., k] + lines["c"][..., k]
        got = pydp.reduce(maps, op, axis=axis)
        assert np.array_equal(np.reshape(got["m"], m.shape), m) and np.array_equal(np.reshape(got["c"], c.shape), c)


def test_reductions_into_out(small: Any) -> None:
    x = values((3, 40000), np.int32)
    out = np.full((3, 5), -1, np.int64)
    assert pydp.reduce(x, axis=1, out=out[:, 2]).base is out
    assert np.array_equal(out[:, 2], np.sum(x, 1, dtype=np.int64)) and (np.delete(out, 2, 1) == -1).all()
    wide = values((40000, 3), np.int64)
    got = pydp.reduce(wide, "max", axis=0, out=wide[7])  # shares memory with x
    assert np.array_equal(got, wide[7]) and np.array_equal(np.max(wide, 0), got)
    y = values((2, 30000), np.int32)
    want = np.sum(y, 0, dtype=np.int64)
    assert np.array_equal(pydp.reduce(y, axis=0), want)  # the result exceeds the limit, too
    for wrong, message in ((np.empty((4,), np.int64), "out has shape"), (np.empty(3, np.int32), "out has dtype")):
        with pytest.raises(pydp.InvalidArgument, match=message):
            pydp.reduce(x, axis=1, out=wrong)
    with pytest.raises(pydp.InvalidArgument, match="out is a Field"):
        pydp.reduce(x, axis=1, out=pydp.empty((3,), np.int64))
    with pytest.raises(pydp.InvalidArgument, match="init"):
        pydp.reduce(x, axis=1, init="a", out=out[:, 1])
    with pytest.raises(pydp.InvalidArgument, match="op"):
        pydp.reduce(x, "no such", axis=1)


# --- sort ------------------------------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("dtype", "pattern"),
    [("i4", "random"), ("u1", "random"), ("f4", "random"), ("f8", "random"), ("?", "random"), ("i4", "few"),
     ("i4", "equal"), ("f4", "sorted"), ("i8", "reversed")],
)  # fmt: skip
def test_sorts_of_a_long_row(small: Any, dtype: str, pattern: str) -> None:
    needs.dtype(small, dtype)
    x = values(70001, dtype)
    if pattern == "few":
        x = np.resize(x[:3], x.shape)
    elif pattern == "equal":
        x[:] = x[0]
    elif pattern != "random":
        x = np.sort(x)[:: 1 if pattern == "sorted" else -1]
    want = np.argsort(x, kind="stable")
    assert pydp.sort(x).tobytes() == x[want].tobytes()
    got = pydp.argsort(x)
    assert got.dtype == np.int64 and np.array_equal(got, want)


@pytest.mark.sweep
def test_descending_and_keys(small: Any) -> None:
    x = values(40001, "i4") % 1000
    want = np.argsort(-x, kind="stable")
    assert np.array_equal(pydp.argsort(x, descending=True), want)
    assert np.array_equal(pydp.argsort(x, key=lambda v: v % 10), np.argsort(x % 10, kind="stable"))
    assert np.array_equal(pydp.argsort(x, less=lambda a, b: a > b), want)
    pairs = np.zeros(20001, [("a", "i4"), ("b", "i4")])
    pairs["a"], pairs["b"] = x[:20001] % 7, x[20000:]
    assert np.array_equal(pydp.sort(pairs), np.sort(pairs, kind="stable"))


@given(st.data())
def test_values_follow_their_keys(small: Any, data: Any) -> None:
    n = data.draw(st.sampled_from([8192, 8193, 16384, 16385, 50001]))
    keys = np.random.default_rng(n).integers(0, data.draw(st.sampled_from([2, 50, 1 << 30])), n).astype(np.int32)
    carried = np.arange(n).astype(data.draw(st.sampled_from(["i2", "f8", "i4,u1"])))
    if carried.dtype == np.float64:
        needs.dtype(small, "f8")
    order = np.argsort(keys, kind="stable")
    got_keys, got = pydp.sort_by_key(keys, carried)
    assert np.array_equal(got_keys, keys[order]) and np.array_equal(got, carried[order])


@pytest.mark.parametrize("name", ["F order", "one long axis"])
def test_sorts_along_every_axis(small: Any, name: str) -> None:
    x = arranged(name, np.int32) % 100
    for axis in (None, *range(x.ndim)):
        assert np.array_equal(pydp.argsort(x, axis=axis), np.argsort(x, axis=axis, kind="stable"))


def test_sorts_into_out(small: Any) -> None:
    x = values(40001, np.int32)
    want = np.sort(x)
    wide = np.zeros((40001, 2), np.int32)
    pydp.sort(x, out=wide[:, 1])
    assert np.array_equal(wide[:, 1], want) and not wide[:, 0].any()
    assert pydp.sort(x, out=x) is x and np.array_equal(x, want)
    for axis in (0, 1, None):
        y = values((300, 200) if axis is not None else 60000, np.int32)
        want = np.sort(y, axis)
        assert pydp.sort(y, axis=axis, out=y) is y and np.array_equal(y, want)
    y = values((300, 200), np.int32)
    want = np.sort(y[::-1], 0)
    assert np.array_equal(pydp.sort(y[::-1], axis=0, out=y), want)  # the same memory in another order
    with pytest.raises(pydp.InvalidArgument, match="values has shape"):
        pydp.sort_by_key(x, x[1:])
    with pytest.raises(pydp.InvalidArgument, match="out has dtype"):
        pydp.argsort(x, out=x)


# --- histogram, transpose, matmul ------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_histograms(small: Any, name: str) -> None:
    x = arranged(name, np.int32) % 1000
    for arguments in ((10,), (7, (-5, 700)), ([0, 1, 10, 500, 999],)):
        got, edges = pydp.histogram(x, *arguments)
        want, right = np.histogram(x, *arguments)
        assert np.array_equal(got, want) and np.array_equal(edges, right)
    weights = arranged(name, np.int32) % 5
    assert np.array_equal(pydp.histogram(x, 10, weights=weights)[0], np.histogram(x, 10, weights=weights)[0])
    line = np.ascontiguousarray(abs(x)).reshape(-1)
    assert np.array_equal(pydp.bincount(line), np.bincount(line))
    bytes_ = np.resize(line.astype(np.uint8), 100001)
    assert np.array_equal(pydp.bincount(bytes_, minlength=300), np.bincount(bytes_, minlength=300))
    with pytest.raises(pydp.InvalidArgument, match="weights has shape"):
        pydp.histogram(x, 10, weights=line[1:])


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", ["u1", "i4"])
def test_transposes(small: Any, name: str, dtype: str) -> None:
    x = arranged(name, dtype)
    got = pydp.transpose(x)
    assert got.flags.c_contiguous and got.tobytes() == np.ascontiguousarray(x.T).tobytes()
    if x.ndim == 3:
        assert np.array_equal(pydp.transpose(x, (1, -1, 0)), x.transpose(1, 2, 0))
    if x.ndim == 2 and x.shape[0] == x.shape[1]:
        want = x.T.copy()
        assert pydp.transpose(x, out=x) is x and np.array_equal(x, want)
    with pytest.raises(pydp.InvalidArgument, match="permutation"):
        pydp.transpose(x, (0,) * x.ndim + (1,))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((300, 200), (200, 250)),
        ((20, 9001), (9001, 30)),
        ((40000,), (40000,)),
        ((40000,), (40000, 2)),
        ((2, 40000), (40000,)),
        ((30, 50, 40), (40, 60)),
        ((4, 1, 70, 80), (3, 80, 90)),
        ((1, 4), (4, 50000)),
    ],
)
def test_products(small: Any, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = (values(shape, np.int32, seed) % 100 for seed, shape in enumerate((a, b)))
    want = np.matmul(left, right)
    got = pydp.matmul(left, right)
    assert got.shape == want.shape and got.dtype == want.dtype and np.array_equal(got, want)
    assert np.array_equal(pydp.matmul(np.asfortranarray(left), right, alpha=3), 3 * want)
    if want.ndim:
        out = np.full_like(want, 7)
        assert pydp.matmul(left, right, beta=2, out=out) is out and np.array_equal(out, want + 14)
    square = values((200, 200), np.int32, 3) % 10
    product = square @ square
    assert pydp.matmul(square, square, beta=1, out=square) is square
    assert np.array_equal(square, product + values((200, 200), np.int32, 3) % 10)


def test_wrong_products_are_refused(small: Any) -> None:
    x = np.ones((200, 200), np.int32)
    for arguments, named, message in (
        ((x, x[1:]), {}, "200 columns"),
        ((x, x), {"beta": 2}, "needs out="),
        ((x, x), {"alpha": 1.5}, "alpha"),
        ((x, x), {"out": x[1:]}, "out has shape"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=message):
            pydp.matmul(*arguments, **named)


# --- tests of all algorithms -----------------------------------------------------------------------------


def test_no_buffer_exceeds_the_limit(small: Any, monkeypatch: Any) -> None:
    made = []
    for module in (host_memory, host_arguments):
        for name in ("create", "buffer_over"):
            if hasattr(module, name):
                original = getattr(module, name)
                monkeypatch.setattr(module, name, lambda *given, call=original: made.append(call(*given)) or made[-1])
    x = values((250, 200), np.int32) % 50
    y = values((200, 170), np.int32) % 50
    pydp.reduce(x.T, axis=0)
    pydp.reduce(x, "b", axis=1)
    pydp.reduce(values((2, 30000), np.int32), axis=0)
    pydp.sort(x, axis=0)
    pydp.argsort(x, axis=None)
    pydp.histogram(x, 10)
    pydp.transpose(x)
    pydp.matmul(x, y)
    assert made and all(one.size <= LIMIT for one in made)


def test_scratch_memory_of_sorts_is_within_the_limit(small: Any, monkeypatch: Any) -> None:
    sizes = []
    original = scratch.take
    monkeypatch.setattr(call_module, "take", lambda *given: sizes.append(size_class(given[-1])) or original(*given))
    limit = 1 << 22
    monkeypatch.setattr(pieces, "limit_of", lambda device: limit)
    x, y = values((6, 1 << 17), np.int32) % 100, values((6, 1 << 17), np.int64)
    order = np.argsort(x, 1, kind="stable")
    for rows in (6, 3):  # the scratch memory of 3 rows exceeds the limit
        moved = pydp.sort_by_key(x[:rows], y[:rows])[1]
        assert np.array_equal(moved, np.take_along_axis(y[:rows], order[:rows], 1))
    assert np.array_equal(pydp.argsort(x), order)
    nearly = values(limit // 4 - 100, np.int32)
    assert np.array_equal(pydp.sort(nearly), np.sort(nearly))
    assert sizes and max(sizes) <= limit


def test_repeated_calls_are_not_recorded_as_one_piece(small: Any) -> None:
    for seed in range(4):
        x = values(40001, np.int32, seed)
        assert pydp.reduce(x, "max") == x.max()
        assert np.array_equal(pydp.sort(x), np.sort(x))
        assert np.array_equal(pydp.histogram(x, 8, (0, 1 << 30))[0], np.histogram(x, 8, (0, 1 << 30))[0])


def test_explanations_describe_a_piece(small: Any) -> None:
    x, y = values((250, 200), np.int32) % 50, values((200, 170), np.int32) % 50
    calls = [(pydp.matmul, x, y)]
    calls += [(one, x) for one in (pydp.reduce, pydp.scan, pydp.sort, pydp.argsort, pydp.histogram, pydp.transpose)]
    calls += [(pydp.sort_by_key, x, x), (pydp.bincount, x.reshape(-1))]
    for function, *arrays in calls:
        assert "this describes a piece" in str(pydp.explain(function, *arrays)), function
        few = pydp.explain(function, *(one[..., :8] if one.ndim < 2 else one[:8, :8] for one in arrays))
        assert "piece" not in str(few)


def test_explanations_of_arrays_beyond_the_hosts_memory(small: Any) -> None:
    x = np.broadcast_to(np.uint8(1), 1 << 45)
    calls = [(function, (x,), {}) for function in (pydp.scan, pydp.sort, pydp.argsort, pydp.transpose)]
    calls += [(pydp.sort_by_key, (x, x), {}), (pydp.reduce, (x[:, None],), {"axis": 1})]
    for function, arrays, named in calls:
        assert "this describes a piece" in str(pydp.explain(function, *arrays, **named)), function
    for function, named in ((pydp.scan, {"dtype": np.int64}), (pydp.argsort, {})):
        with pytest.raises(pydp.OutOfResources, match="no host can hold"):
            pydp.explain(function, np.broadcast_to(np.uint8(1), 1 << 60), **named)
    if small.kind == "cpu":  # drivers of GPUs allocate a buffer at its first use
        with pytest.raises(pydp.OutOfResources, match="cannot allocate"):
            pydp.explain(pydp.matmul, x.reshape(1 << 22, -1), x.reshape(-1, 1 << 22))


def test_an_array_beyond_the_real_limit(device: Any) -> None:
    """An explanation needs a buffer for its array; this one's memory is never touched."""
    if device.profile.max_allocation > 1 << 34:
        pytest.skip("the device's largest buffer exceeds 16 GiB")
    x = np.empty(device.profile.max_allocation + 4096, np.uint8)
    for function in (pydp.reduce, pydp.scan, pydp.sort, pydp.bincount, pydp.transpose):
        assert "this describes a piece" in str(pydp.explain(function, x))


def test_arrays_on_the_device_are_not_cut(small: Any) -> None:
    x = values(1000, np.int32)
    assert np.array_equal(pydp.sort(pydp.field(x)).get(), np.sort(x))


@pytest.mark.parametrize("dtype", [">i4", ">f4"])
def test_other_byte_orders(small: Any, dtype: str) -> None:
    x = values(40001, np.dtype(dtype).newbyteorder("=")).astype(dtype)
    want = np.argsort(x, kind="stable")
    assert np.array_equal(pydp.sort(x), x[want], equal_nan=True) and pydp.sort(x).dtype.isnative
    assert np.array_equal(pydp.argsort(x), want)
    keys, moved = pydp.sort_by_key(x, x)
    assert np.array_equal(keys, x[want], equal_nan=True) and np.array_equal(moved, x[want], equal_nan=True)
    assert np.array_equal(pydp.transpose(x.reshape(1, -1)), x.reshape(-1, 1), equal_nan=True)
    assert np.array_equal(pydp.reduce(x, "max"), np.fmax.reduce(x)) or np.isnan(pydp.reduce(x, "max"))


def test_results_larger_than_their_inputs(cut: Any) -> None:
    """Repeated elements, and sums of small integers, which have 64 bits."""
    x = np.broadcast_to(np.arange(4, dtype=np.int32), (10000, 4))
    assert np.array_equal(pydp.sort(x, axis=0), x) and np.array_equal(pydp.transpose(x), x.T)
    assert np.array_equal(pydp.sort_by_key(x, x, axis=0)[1], x)
    assert np.array_equal(pydp.scan(x, axis=0), np.cumsum(x, 0))
    flags = np.ones(20000, bool)
    assert np.array_equal(pydp.scan(flags), np.cumsum(flags))
    small = np.ones((1, 20000), np.int8)
    assert np.array_equal(pydp.reduce(small, axis=0), np.ones(20000))
    assert np.array_equal(pydp.reduce(small, "max", axis=0, dtype=np.int32), np.ones(20000))
    one = np.ones((200, 1), np.int32)
    assert np.array_equal(pydp.matmul(one, one.T), one @ one.T)
    assert np.array_equal(pydp.argsort(x[:, 0]), np.arange(10000))
    assert cut == ["sort", "transpose", "sort_by_key", "scan", "scan", "reduce", "reduce", "matmul", "argsort"]


@pytest.fixture
def cut(small: Any, monkeypatch: Any) -> Any:
    """The names of the functions that worked on pieces."""
    names: list[str] = []
    original = pieces.after_events

    def noted(where: Any) -> Any:
        public = {"sort", "argsort", "sort_by_key", "scan", "reduce", "transpose", "matmul"}
        frames = [one.name for one in reversed(traceback.extract_stack())]
        names.append(next(one for one in frames if one in public))
        return original(where)

    for module in ("sort", "transpose", "reduce", "matmul", "scan.stream"):
        monkeypatch.setattr(importlib.import_module(f"pydp.algorithms.{module}"), "after_events", noted)
    return names


def test_events_come_before_the_host_reads(small: Any) -> None:
    """The elements are written by another thread, which then completes the event."""
    import pyopencl as cl

    for which in range(3):
        event = cl.UserEvent(small.context)
        x = np.zeros(80002, np.int32)[::2]  # strided: the host copies its pieces

        def write(event: Any = event, x: Any = x) -> None:
            x[:] = values(40001, np.int32)
            event.set_status(cl.command_execution_status.COMPLETE)

        timer = threading.Timer(0.3, write)
        timer.start()
        call = (pydp.sort, pydp.reduce, pydp.scan)[which]
        got = call(x, wait_for=[event], **({"axis": None} if which == 2 else {}))
        timer.join()
        assert np.array_equal(got, call(values(40001, np.int32)))


def test_subclasses_are_cut(cut: Any) -> None:
    class Other(np.ndarray):
        pass

    x = values((200, 200), np.int32) % 100
    given = x.view(Other)
    assert np.array_equal(pydp.sort(given), np.sort(x))
    assert np.array_equal(pydp.transpose(x.view(np.matrix)), x.T)
    assert np.array_equal(pydp.matmul(given, x), x @ x)
    assert np.array_equal(pydp.reduce(given, axis=0), x.sum(0))
    out = np.zeros((200, 200), np.int32).view(np.matrix)
    assert pydp.sort(given, out=out) is out and np.array_equal(out, np.sort(x))
    assert cut == ["sort", "transpose", "matmul", "reduce", "sort"]
    for call in (pydp.sort, pydp.reduce, pydp.scan, pydp.transpose):
        with pytest.raises(pydp.InvalidArgument, match="masked"):
            call(np.ma.masked_array(x))
        with pytest.raises(pydp.InvalidArgument, match="dtype object"):
            call(x.astype(object))


def test_float16_products_keep_partial_sums_in_float32(small: Any) -> None:
    """The sum of the first half exceeds the range of float16."""
    a = np.ones((3, 80000), np.float16)
    b = np.repeat(np.array([2, -2], np.float16), 40000)
    out = np.full(3, 7, np.float16)
    assert np.array_equal(pydp.matmul(a, b, beta=3, out=out), np.full(3, 21))
    out = np.full((2, 3), np.nan, np.float16)
    pair = np.broadcast_to(b[:, None], (2, 80000, 1))
    assert np.array_equal(
        pydp.matmul(np.broadcast_to(a, (2, 3, 80000)), pair, out=out[..., None])[..., 0], np.zeros((2, 3))
    )


def test_nan_in_out_is_not_read_without_beta(small: Any) -> None:
    a, b = np.ones((20, 9001), np.float32), np.ones((9001, 30), np.float32)
    out = np.full((20, 30), np.nan, np.float32)
    assert np.array_equal(pydp.matmul(a, b, out=out), np.full((20, 30), 9001))


@pytest.mark.parametrize("kind", ["keys", "flags"])
def test_segments_of_large_scans(small: Any, kind: str) -> None:
    """Segments that share memory with out, and segments that alone exceed the limit."""
    keys = np.repeat(np.arange(40), 1000)
    heads = keys if kind == "keys" else (np.arange(40000) % 1000 == 0).astype(np.int64)
    want = np.tile(np.arange(1, 1001), 40)
    out = heads.copy()
    assert pydp.scan(np.ones(40000, np.int64), segments=(kind, out), out=out) is out and np.array_equal(out, want)
    x = np.ones(40000, np.int8)
    assert np.array_equal(pydp.scan(x, segments=(kind, heads)), want.astype(np.int8))
    assert "this describes a piece" in str(pydp.explain(pydp.scan, x, segments=(kind, heads)))


def test_explanations_count_the_result(small: Any) -> None:
    x = values(12000, np.int32)
    assert "piece" not in str(pydp.explain(pydp.sort, x)) and "piece" in str(pydp.explain(pydp.argsort, x))
    assert "piece" in str(pydp.explain(pydp.reduce, np.ones((1, 20000), np.int8), axis=0))
    assert "piece" in str(pydp.explain(pydp.scan, np.ones(20000, bool)))
    assert "piece" in str(pydp.explain(pydp.transpose, np.ones((3, 20, 2000), np.int8), (1, 0, 2)))
    y = values((200, 200), np.int32)
    assert "piece" in str(pydp.explain(pydp.matmul, y, y, beta=2, out=y))
    assert "piece" in str(pydp.explain(pydp.matmul, y[:, :1], y[:1]))


def test_wrong_arguments_are_refused_before_work(small: Any, monkeypatch: Any) -> None:
    launched: list[Any] = []
    monkeypatch.setattr(Call, "launch", lambda *given: launched.append(given))
    x = values(40001, np.int32)
    with pytest.raises(pydp.InvalidArgument, match="init has shape"):
        pydp.reduce(x, init=pydp.field(x[:2]))
    for dtype in ("zz", object):
        with pytest.raises(pydp.InvalidArgument, match="dtype"):
            pydp.scan(x, dtype=dtype)
    with pytest.raises(pydp.InvalidArgument, match="queue"):
        pydp.explain(pydp.sort, x, queue=3)
    assert not launched
