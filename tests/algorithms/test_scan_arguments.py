"""Arguments that scan refuses, its explanation, and arrays larger than a device's largest buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.algorithms import pieces
from pydp.algorithms.scan.policy import ScanSpec
from pydp.algorithms.scan.request import resolve_aliasing
from pydp.runtime.call import Call

INTS = np.arange(10, dtype=np.int32)
RECORD = np.zeros(4, [("a", "i4"), ("b", "f4")])

WRONG = {
    "unknown operator": ((INTS, "plus"), {}, "plus"),
    "no operator": ((INTS, 3), {}, "3"),
    "statement": ((INTS, "a + b; b"), {}, "';'"),
    "comment": ((INTS, "a + b // b"), {}, "comment"),
    "line break": ((INTS, "a +\n b"), {}, "line break"),
    "preprocessor": ((INTS, "#a"), {}, "'#'"),
    "square brackets": ((INTS, "a + b[0]"), {}, r"'\['"),
    "open bracket": ((INTS, "(a + b"), {}, "bracket"),
    "closing bracket": ((INTS, "a + b)("), {}, "bracket"),
    "unknown name": ((INTS, "a + c"), {}, "'c'"),
    "assignment": ((INTS, "a = b"), {}, "'='"),
    "increment": ((INTS, "a++ + b"), {}, r"'\+\+'"),
    "unknown ufunc": ((INTS, np.subtract), {}, "subtract"),
    "bits of floats": ((INTS.astype(np.float32), "&"), {}, "float32"),
    "named on records": ((RECORD, "+"), {}, "records"),
    "missing fields": ((RECORD, {"a": "a.a + b.a"}), {}, "fields"),
    "unknown field": ((RECORD, {"a": "a.a + b.q", "b": "a.b"}), {}, "'q'"),
    "axis out of range": ((INTS,), {"axis": 1}, "axis=1"),
    "axis no number": ((INTS,), {"axis": "x"}, "axis='x'"),
    "axis no integer": ((INTS,), {"axis": False}, "axis=False"),
    "exclusive no switch": ((INTS,), {"exclusive": "yes"}, "exclusive is 'yes'"),
    "reverse no switch": ((INTS,), {"reverse": 2}, "reverse is 2"),
    "no axes": ((np.array(1, np.int32),), {}, "rank"),
    "strategy": ((INTS,), {"strategy": "fast"}, "fast"),
    "init too large": ((INTS,), {"init": 2**40}, str(2**40)),
    "init not whole": ((INTS,), {"init": 1.5}, "1.5"),
    "init of many": ((INTS,), {"init": [1, 2]}, r"\(2,\)"),
    "init text": ((INTS,), {"init": "x"}, "x"),
    "exclusive without identity": ((INTS, "a + b - a * b"), {"exclusive": True}, "init="),
    "segments' shape": ((INTS,), {"segments": np.zeros(9, bool)}, r"\(9,\)"),
    "segments' dtype": ((INTS,), {"segments": np.zeros(10)}, "float64"),
    "segments' kind": ((INTS,), {"segments": ("heads", INTS)}, "heads"),
    "conversion": ((RECORD, "+"), {"dtype": np.int32}, "converted"),
    "out's shape": ((INTS,), {"out": np.zeros(9, np.int32)}, "out"),
    "out's dtype": ((INTS,), {"out": np.zeros(10, np.int64)}, "out"),
    "spec's name": ((INTS,), {"spec": {"parts": 3}}, "parts"),
    "spec's value": ((INTS,), {"spec": {"part": 0}}, "part is 0"),
    "spec's type": ((INTS,), {"spec": 7}, "7"),
    "vectors of records": ((RECORD, {"a": "a.a", "b": "a.b"}), {"spec": {"vector": 4}}, "vector 4"),
    "lists among fields": ((RECORD, {"a": ["a.a"], "b": "a.b"}), {}, r"\['a.a'\]"),
    "fields by numbers": ((RECORD, {1: "a.a", "b": "a.b"}), {}, "fields"),
    "complex init": ((INTS.astype(np.float32),), {"init": 1j}, "complex"),
    "uneven lists": (([[1], [1, 2]],), {}, "x cannot be converted to an array"),
    "uneven segments": ((INTS,), {"segments": [[1], [1, 2]]}, "segments cannot be converted to an array"),
    "objects": ((np.array([None, 1]),), {}, "object"),
    "as many partitions as elements": (
        (INTS,),
        {"spec": {"mapping": "vector", "part": 1, "strategy": "reduce_then_scan"}},
        "at least 2 elements",
    ),
    "lanes of one element": (
        (INTS,),
        {"spec": {"mapping": "simt", "lanes": 1, "columns": 1, "items": 1, "pad": 0, "strategy": "reduce_then_scan"}},
        "at least 2 elements",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(device, name):
    args, keywords, words = WRONG[name]
    with pytest.raises(pydp.InvalidArgument, match=words):
        pydp.scan(*args, **keywords)


def test_a_refused_call_leaves_out_untouched(device):
    out = np.full(10, 7, np.int32)
    for keywords in ({"init": 0.5}, {"segments": np.zeros(3, bool)}, {"axis": 4}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.scan(INTS, out=out, **keywords)
    assert (out == 7).all()


def test_out_is_looked_at_before_elements_are_flattened(device, monkeypatch):
    x = pydp.field(INTS.reshape(2, 5)).T
    monkeypatch.setattr(Call, "launch", lambda *_: pytest.fail("something was enqueued"))
    with pytest.raises(pydp.InvalidArgument, match=r"out has shape \(2, 5\); \(10,\)"):
        pydp.scan(x, axis=None, out=pydp.zeros((2, 5), np.int32))


def test_two_buffers_over_the_same_memory_are_one_array(device):
    whole = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4 << 17)
    x, y = (cl.array.Array(device.queue, (1 << 17,), np.int32, data=whole.get_sub_region(0, 4 << 17)) for _ in range(2))
    x.fill(1)
    call = Call.begin({"x": x}, out=y)
    result = call.output((1 << 17,), np.int32)
    # A kernel that gets one array under two names may read an element again after it has overwritten it.
    assert resolve_aliasing(call, call.input("x"), None, None, result)[0].buffer is result.buffer
    pydp.scan(x, out=y)
    assert np.array_equal(x.get(), np.arange(1, (1 << 17) + 1))


def test_explain_names_the_choices_without_running(device):
    x = pydp.field(INTS)
    told = pydp.explain(pydp.scan, x, "max", exclusive=True)
    text = str(told)
    assert "scan of (10,) int32 with 'max'" in text and "strategy" in text and "ScanSpec(" in text
    assert all("kernel" in source for source in told.sources.values()) and told.sources
    with pytest.raises(pydp.InvalidArgument, match="axes"):
        pydp.explain(pydp.scan, x, axes=1)


def test_explain_tells_the_kernels_of_the_call_and_launches_none(device, monkeypatch):
    launched = []
    launch = Call.launch
    monkeypatch.setattr(
        Call, "launch", lambda call, kernel, *rest: launched.append(kernel) or launch(call, kernel, *rest)
    )
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for args, named in (
        ((x.T,), {"axis": None}),
        ((x.transpose(2, 0, 1),), {"axis": 1}),
        ((x,), {"axis": 1, "out": np.empty((4, 3, 2), np.int32).T}),
        ((x[0],), {"out": np.empty((3, 5), np.int32)[:, 1:]}),
    ):
        told = pydp.explain(pydp.scan, *args, **named)
        assert not launched
        pydp.scan(*args, **named)
        assert set(told.sources.values()) == {one.source for one in launched if one.name == "scan"}
        launched.clear()
    with pytest.raises(pydp.InvalidArgument, match="out has shape"):
        pydp.explain(pydp.scan, x, out=x[0])


@pytest.fixture
def small_buffers(monkeypatch):
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 8192)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_pieces_carry_their_prefix_on(device, small_buffers, exclusive, reverse):
    x = np.random.default_rng(1).integers(-99, 99, 9001).astype(np.int32)
    line = x[::-1] if reverse else x
    want = np.cumsum(line, dtype=np.int32)
    want = np.concatenate([[0], want[:-1]]).astype(np.int32) if exclusive else want
    got = pydp.scan(x, exclusive=exclusive, reverse=reverse)
    assert np.array_equal(got, want[::-1] if reverse else want)
    got = pydp.scan(x, exclusive=exclusive, reverse=reverse, init=5)
    assert np.array_equal(got, (want[::-1] if reverse else want) + 5)
    y = x.copy()
    assert pydp.scan(y, exclusive=exclusive, reverse=reverse, out=y) is y
    assert np.array_equal(y, want[::-1] if reverse else want)


def test_pieces_with_segments(device, small_buffers):
    x = np.random.default_rng(2).integers(-99, 99, 9001).astype(np.int32)
    keys = np.arange(9001) // 2048  # some segments begin where pieces do, others go on
    flags = np.concatenate([[False], keys[1:] != keys[:-1]])
    want = np.concatenate([np.cumsum(part, dtype=np.int32) for part in np.split(x, np.flatnonzero(flags))])
    for segments in (keys, flags):
        assert np.array_equal(pydp.scan(x, segments=segments), want)
        assert np.array_equal(pydp.scan(x, segments=segments, init=3), want + 3)
    tails = np.concatenate([flags[1:], [True]])
    back = np.concatenate([np.cumsum(part[::-1], dtype=np.int32)[::-1] for part in np.split(x, np.flatnonzero(flags))])
    assert np.array_equal(pydp.scan(x, segments=keys, reverse=True), back)
    assert np.array_equal(pydp.scan(x, segments=tails, reverse=True), back)


@pytest.mark.sweep
def test_pieces_of_arrays_of_any_rank(device, small_buffers):
    x = np.random.default_rng(3).integers(-99, 99, (7, 30, 50)).astype(np.int32)
    for view, axes in ((x, (0, 1, 2)), (x.transpose(2, 0, 1)[:, ::-1, ::2], (0, 1))):
        for axis in axes:
            assert np.array_equal(pydp.scan(view, axis=axis), np.cumsum(view, axis=axis, dtype=np.int32))
        assert np.array_equal(pydp.scan(view, axis=None), np.cumsum(view, dtype=np.int32))
    assert np.array_equal(pydp.scan(x.astype(np.uint8), dtype=np.int64), np.cumsum(x.astype(np.uint8), -1, np.int64))


@pytest.mark.huge
def test_more_than_two_to_the_32_elements(device):
    n = (1 << 32) + 1000
    x = np.ones(n, np.uint8)
    x[::2] = 3
    pydp.scan(x, out=x)
    for start in (0, (1 << 31) - 7, (1 << 32) - 7, n - 500):
        k = np.arange(start, start + 400, dtype=np.int64)
        assert np.array_equal(x[start : start + 400], (2 * k + 3 - (k & 1)).astype(np.uint8))


@pytest.mark.parametrize("fold", [pydp.reduce, pydp.scan])
def test_arrays_are_neither_operators_nor_strategies(device: Any, fold: Any) -> None:
    for x in (np.ones(4, np.int32), np.ones(4, bool)):
        with pytest.raises(pydp.InvalidArgument, match=r"op array.* is not an operator"):
            fold(x, np.zeros(2), device=device)
    with pytest.raises(pydp.InvalidArgument, match=r"strategy=array.* is not one of"):
        pydp.scan(x, strategy=np.arange(2), device=device)


def test_values_of_a_specialization_that_are_no_keys_are_refused_as_others_are(device: Any) -> None:
    given: tuple[Any, ...] = ([16], {}, np.array(16))
    for value in given:
        with pytest.raises(pydp.InvalidArgument, match=r"part is .*; int is accepted"):
            pydp.scan(np.ones(10, np.int32), device=device, spec=ScanSpec("vector", "lookback", part=value))
