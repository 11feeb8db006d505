"""Tests and counts of elements that are not zero: ``any``, ``all``, ``count_nonzero``."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.reduce.hooks import Hooks
from pydp.algorithms.reductions.run import Request, check_kind, limited, mask_of, perform
from pydp.model.explanation import Given

_INT = np.dtype(np.int32)


def _request(name: str, operator: str, member: Any, finish: str, result: Any, empty: Any) -> Any:
    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        check_kind(name, dtypes[0], "biufc", "numbers")
        return Hooks(
            name,
            "value",
            (("value", np.dtype(member), True),),
            (np.dtype(result),),
            finish,
            (empty,),
            run=_INT,
            operator=operator,
            load="nonzero",
            skips=("masked",) if len(dtypes) > 1 else (),
            start=int(operator == "&"),
        )

    def build(g: Given) -> Request:
        inputs = {"x": g.x, "where": mask_of(vars(g).get("where"))}
        return Request.of(g, name, inputs, hooks)

    return build


any_request = _request("any", "|", _INT, "test", np.bool_, False)
all_request = _request("all", "&", _INT, "test", np.bool_, True)
count_nonzero_request = _request("count_nonzero", "+", np.int64, "own", np.int64, 0)


@limited
def any(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Whether an element is not zero along some axes, as ``numpy.any``. NaN is not zero.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where they are true
    count. out: bool array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    The result has dtype bool; it is False if there are no elements. Raises InvalidArgument for other dtypes and for
    invalid axes. All elements are read.

    >>> pydp.any(np.array([[0, 1], [0, 0]]), axis=1)
    array([ True, False])
    """
    return perform(any_request(Given(**locals())))


@limited
def all(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Whether no element is zero along some axes, as ``numpy.all``. NaN is not zero.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where they are true
    count. out: bool array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    The result has dtype bool; it is True if there are no elements. Raises InvalidArgument for other dtypes and for
    invalid axes. All elements are read.

    >>> pydp.all(np.array([[1, 1], [0, 1]]), axis=1)
    array([ True, False])
    """
    return perform(all_request(Given(**locals())))


@limited
def count_nonzero(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    length: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Count the elements that are not zero along some axes, as ``numpy.count_nonzero``. NaN is not zero.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    keepdims: keep the reduced axes, with size 1. out: int64 array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    The result has dtype int64. Raises InvalidArgument for other dtypes and for invalid axes.

    >>> pydp.count_nonzero(np.array([[3, 0], [0, 0]]), axis=0)
    array([1, 0])
    """
    return perform(count_nonzero_request(Given(**locals())))
