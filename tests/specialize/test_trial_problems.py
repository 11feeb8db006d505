"""What tuning holds apart: calls of one function that suit different specializations are different problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
from pydp.specialize.trial import Subject, WrongResult
from pydp.specialize.untuned import untuned

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
    assert _flags(pydp.histogram, X, 7, (0, 99), X, device=device) == ("weights",)


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
