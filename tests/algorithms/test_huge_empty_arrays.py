"""Arrays without elements whose other axes are huge: calls end at once, with a result or an error of pydp."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import pydp
from pydp.errors import InvalidArgument, OutOfResources, PydpError

SHAPES = [(1 << 40, 0), (0, 1 << 61), (1 << 20, 0, 1 << 20)]
CALLS = [
    name
    for name in pydp.__all__
    if inspect.isroutine(getattr(pydp, name))
    and inspect.signature(getattr(pydp, name)).parameters.keys() & {"x", "a", "keys", "arrays", "condition"}
]


def empty(shape: tuple[int, ...]) -> np.ndarray:
    return as_strided(np.zeros(1, np.bool_), shape, (0,) * len(shape))


@pytest.mark.parametrize("name", CALLS)
def test_calls_end_with_a_result_or_an_error_of_pydp(device: Any, name: str) -> None:
    function = getattr(pydp, name)
    accepts_axis = "axis" in inspect.signature(function).parameters
    for shape in SHAPES:
        x = empty(shape)
        for arguments in ((x,), (x, x), ([x, x],), (x, True), (x, True, True, True)):
            for named in ({}, *({"axis": axis} for axis in (0, 1, -1) if accepts_axis)):
                try:
                    function(*arguments, **named)
                except PydpError:
                    pass
                except TypeError as error:
                    assert "argument" in str(error), error  # another number of arguments


def test_results_that_numpy_cannot_hold(device: Any) -> None:
    for call in (pydp.argsort, lambda x: pydp.cumsum(x, 1), lambda x: pydp.unique(x, return_inverse=True)):
        with pytest.raises(OutOfResources):
            call(empty((0, 1 << 61)))
    with pytest.raises(OutOfResources):
        pydp.unique(empty((1 << 40, 0)), axis=0)


@pytest.mark.parametrize("shape", [(0, 1 << 62), (0, 1 << 63), (1 << 62, 1 << 62)])
@pytest.mark.parametrize("make", [pydp.empty, pydp.zeros, lambda shape, **named: pydp.full(shape, 7, **named)])
def test_fields_that_no_array_can_be(device: Any, shape: tuple[int, ...], make: Any) -> None:
    with pytest.raises(OutOfResources, match="is too large for any array"):
        make(shape, dtype=np.float32, device=device)


def test_errors_show_arrays_on_one_line(device: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"ord is array\(\[\[0., 0.\], \[0., 0.\]\]\); None, 'fro', 1, -1, inf"):
        pydp.norm(np.ones((3, 4)), ord=np.zeros((2, 2)))
