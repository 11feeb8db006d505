"""Calls of one function that suit different specializations are different problems for the tuner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.model.modelled import untuned
from pydp.tuning import reference
from pydp.tuning.trial import Subject, WrongResult, resized

X = np.arange(4096, dtype=np.float32).reshape(64, 64)
WHOLE = np.arange(4096, dtype=np.int32)


def _flags(fn: Any, *args: Any, **options: Any) -> tuple[str, ...]:
    return Subject(fn, args, options).problem.flags


def test_reductions_along_rows_and_down_columns(device: Any) -> None:
    rows = _flags(pydp.reduce, X, axis=1, device=device)
    assert _flags(pydp.reduce, X, device=device) == _flags(pydp.reduce, X.T, axis=0, device=device) == rows
    columns = _flags(pydp.reduce, X, axis=0, device=device)
    assert columns == _flags(pydp.reduce, X.T, axis=1, device=device) == (*rows, "columns")


def test_ways_of_counting(device: Any) -> None:
    edges = np.array([0, 3, 50, 700.5], np.float32)
    assert _flags(pydp.bincount, WHOLE, device=device) == ("values",)
    assert _flags(pydp.histogram, X, 7, (0, 99), device=device) == ()
    assert _flags(pydp.histogram, X, edges, device=device) == ("uneven",)
    assert _flags(pydp.histogram, X, 7, (0, 99), weights=X, device=device) == ("weights",)


@pytest.mark.parametrize("kind", [np.array, pydp.field])
def test_who_writes_nothing_is_found_out(device: Any, kind: Any) -> None:
    """The caller's `out` may hold the right result from before."""
    with pydp.using(device):
        x, out = kind(WHOLE), kind(np.zeros_like(WHOLE))
        pydp.scan(x, out=out)
        subject = Subject(pydp.scan, (x,), {"out": out, "device": device})
        spec = untuned(subject.family, device, subject.problem).spec
        subject.prepare(spec)
        subject.verify(spec)
        subject.fn = lambda *given, **options: options["out"]
        with pytest.raises(WrongResult):
            subject.verify(spec)
        subject.restore()
        assert np.array_equal(np.asarray(out), np.cumsum(WHOLE))


@pytest.mark.parametrize("kind", [np.array, pydp.field])
def test_what_is_computed_in_place_keeps_its_values(device: Any, kind: Any) -> None:
    with pydp.using(device):
        for by_name in (False, True):
            x = kind(WHOLE)
            given, options = ((), {"x": x}) if by_name else ((x,), {})
            subject = Subject(pydp.scan, given, {**options, "out": x, "device": device})
            spec = untuned(subject.family, device, subject.problem).spec
            subject.prepare(spec)
            assert np.array_equal(subject.values(spec)[0], np.cumsum(WHOLE))
            subject.restore()
            assert np.array_equal(np.asarray(x), WHOLE)


def _prepared(fn: Any, args: tuple[Any, ...], **options: Any) -> tuple[Subject, Any]:
    """A subject whose untuned call gave the right result, and the untuned choice."""
    subject = Subject(fn, args, options)
    spec = untuned(subject.family, subject.device, subject.problem).spec
    subject.prepare(spec)
    return subject, spec


@pytest.mark.parametrize("kind", [np.array, pydp.field])
def test_results_that_any_byte_passes_for(device: Any, kind: Any) -> None:
    """Bytes that are not 0 are True, so the fill value of an unwritten `out` must be False where the result is True."""
    with pydp.using(device):
        x = np.ones(3000, bool)
        x[:5] = False
        subject, spec = _prepared(pydp.scan, (kind(x), "|"), out=kind(x), device=device)
        subject.verify(spec)
        subject.fn = lambda *given, **options: options["out"]
        with pytest.raises(WrongResult, match="3000 of 3000"):
            subject.verify(spec)


@pytest.mark.host
def test_no_value_passes_for_the_one_in_its_place() -> None:
    record = np.dtype([("a", np.int32), ("b", np.float64), ("c", bool)])
    rng = np.random.default_rng(4)
    for dtype in (bool, np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64, np.complex64, record):
        for shape in ((300,), (), (0,), (3, 0), (4, 5)):
            made = rng.integers(0, 3, (*shape, np.dtype(dtype).itemsize), np.uint8)
            if np.dtype(dtype).kind == "b":
                made &= 1
            right = made.view(dtype).reshape(shape)
            got = reference.unlike(right)
            assert (got.shape, got.dtype) == (right.shape, right.dtype)
            assert (got != right).all()
            if np.dtype(dtype).kind in "fc":
                right.reshape(-1)[:1] = np.nan
                assert not (np.isnan(right) & np.isnan(reference.unlike(right))).any()


@pytest.mark.parametrize("order", ["F", "slice"])
def test_pyopencl_arrays_of_any_strides(device: Any, order: str) -> None:
    """Their own `get` and `set` take contiguous elements in order alone."""
    x = np.arange(60 * 70, dtype=np.int32)[::-1].reshape(60, 70).copy()
    given = cl.array.to_device(device.queue, np.repeat(x, 2, 1))[:, ::2]
    if order == "F":
        out = cl.array.to_device(device.queue, np.asfortranarray(x))
    else:
        out = cl.array.to_device(device.queue, np.repeat(x, 2, 1))[:, ::2]
    subject, spec = _prepared(pydp.sort, (given,), out=out)
    subject.verify(spec)
    subject.restore()
    assert np.array_equal(reference.host(out), x)
    subject.fn = lambda *of, **options: options["out"]
    with pytest.raises(WrongResult, match="4200 of 4200"):
        subject.verify(spec)


def test_inputs_that_share_memory_in_other_ways(device: Any) -> None:
    """Views through the buffer protocol, and sub-buffers."""
    values = WHOLE.copy()
    pairs: list[Any] = [(memoryview(values), values)]
    whole = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, WHOLE.nbytes)
    cl.enqueue_copy(device.queue, whole, WHOLE)
    part = [cl.array.Array(device.queue, WHOLE.shape, WHOLE.dtype, data=whole.get_sub_region(0, WHOLE.nbytes)),
            cl.array.Array(device.queue, WHOLE.shape, WHOLE.dtype, data=whole)]  # fmt: skip
    for x, out in (*pairs, part, part[::-1]):
        subject, spec = _prepared(pydp.scan, (x,), out=out, device=device)
        subject.verify(spec)
        subject.restore()
        assert np.array_equal(reference.host(out), WHOLE)


@pytest.mark.parametrize("kinds", [(np.array, pydp.field), (pydp.field, np.array)])
def test_inputs_and_results_of_different_kinds(device: Any, kinds: Any) -> None:
    with pydp.using(device):
        x, out = (kind(WHOLE) for kind in kinds)
        subject, spec = _prepared(pydp.scan, (x,), out=out, device=device)
        subject.verify(spec)
        subject.fn = lambda *of, **options: options["out"]
        with pytest.raises(WrongResult, match="wrong result"):
            subject.verify(spec)


def test_other_sizes_of_what_is_computed_in_place(device: Any) -> None:
    """They are made of the caller's values, not of the values that hundreds of runs have left."""
    x = np.linspace(-1, 2, 4096, dtype=np.float32)
    subject, spec = _prepared(pydp.scan, (x,), out=x, device=device)
    for _ in range(30):
        subject.run(spec)
    other = resized(subject, 0.8)
    assert other is not None and other.kw["out"] is other.args[0] is not x
    assert np.abs(other.args[0]).max() <= 2
    other.prepare(spec)
    other.verify(spec)
