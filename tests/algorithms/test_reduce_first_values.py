"""reduce's first value: a value of the fold's type, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp

PAIR = np.dtype([("x", "f4"), ("n", "i4")])


@pytest.mark.parametrize(("dtype", "init"), [("i1", 300), ("i8", 2.5), ("u1", -1), ("i4", np.nan)])
def test_first_values_that_the_type_does_not_hold_are_refused(device: Any, dtype: str, init: Any) -> None:
    with pytest.raises(pydp.InvalidArgument, match="is not a value of dtype"):
        pydp.reduce(np.arange(5, dtype=dtype), "max", init=init, device=device)


def test_first_values_that_are_records(device: Any) -> None:
    x = np.zeros(5, PAIR)
    x["x"], x["n"] = 0.5, np.arange(5)

    def add(a: Any, b: Any) -> Any:
        return pydp.record(PAIR, x=a.x + b.x, n=a.n + b.n)

    for init in ((1.5, 7), np.array((1.5, 7), PAIR), np.array((1.5, 7), PAIR)[()]):
        assert pydp.reduce(x, add, init=init, device=device).tolist() == (4.0, 17)


def test_there_is_no_least_of_nothing(device: Any) -> None:
    for op in ("min", "max"):
        with pytest.raises(pydp.InvalidArgument, match="has no result; pass init="):
            pydp.reduce(np.zeros((3, 0), np.int32), op, axis=1, device=device)
        assert pydp.reduce(np.zeros((3, 0), np.int32), op, axis=1, init=4, device=device).tolist() == [4, 4, 4]
    for function, wanted in ((pydp.min, np.min), (pydp.max, np.max)):
        with pytest.raises(pydp.InvalidArgument, match="or initial= to min or max"):
            function(np.zeros(0, np.float32), device=device)
        empty = np.zeros(0, np.float32)
        assert function(empty, initial=4, device=device) == wanted(empty, initial=4)
    assert pydp.reduce(np.zeros(0, np.float32), "logaddexp", device=device) == -np.inf


@pytest.mark.parametrize("place", [0, 1500])
def test_first_values_that_are_elements_of_out(device: Any, place: int) -> None:
    """Every row reads init, also after other rows have stored their results; also in a recorded call."""
    x = np.random.default_rng(0).integers(-9, 9, (2000, 3))
    for values in (x, x[:, :0]):
        for _ in range(3):
            out = pydp.field(np.arange(2000) + 7, device=device)
            pydp.reduce(pydp.field(values, device=device), axis=1, init=out[place : place + 1], out=out)
            assert np.array_equal(out.get(), values.sum(1) + place + 7)
