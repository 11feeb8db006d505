"""What tuning holds apart: calls of one function that suit different specializations are different problems."""

from __future__ import annotations

from typing import Any

import numpy as np

import pydp
from pydp.specialize.trial import Subject

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
