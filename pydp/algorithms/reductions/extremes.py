"""Extreme values and their positions: ``argmin``, ``argmax``, ``min_max``, ``min``, ``max`` and forms that skip NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.reduce import reduce
from pydp.algorithms.reduce.hooks import Hooks
from pydp.algorithms.reductions.run import Request, check_kind, limited, mask_of, perform
from pydp.algorithms.reductions.sums import check_first, check_initial, fold_request, identity, masked_fold
from pydp.model.explanation import Given


def position(name: str, sign: str, nan: str) -> Any:
    """Builds requests for the index of an extreme value. nan: "first" or "last" (see reduce_hooks.mako)."""

    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        dtype = dtypes[0]
        check_kind(name, dtype, "biufc", "numbers")
        members = (("value", dtype, True), ("index", np.dtype(np.int64), True))
        floats = dtype.kind in "fc"
        finish = "index of number" if floats and nan == "last" else "index"
        # In vectors, the number of an element in its run has as many bytes as the element.
        chain = 64 if dtype.itemsize == 1 else 1024
        result = (np.dtype(np.int64),)
        return Hooks(
            name,
            "position",
            members,
            result,
            finish,
            chain=chain,
            sign=sign,
            nan=nan if floats else "",
            unknown_empty=(-1,),
        )

    return lambda g: Request.of(g, name, {"x": g.x}, hooks)


argmin_request = position("argmin", "<", "first")
argmax_request = position("argmax", ">", "first")
nanargmin_request = position("nanargmin", "<", "last")
nanargmax_request = position("nanargmax", ">", "last")


@limited
def argmin(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Index of the minimum along an axis, as ``numpy.argmin``. Of equal values it is the first; NaN is the minimum.

    x: numbers or bools, of any shape and strides. axis: an integer, or None for the index in C order of all
    elements. keepdims: keep the reduced axes, with size 1. out: int64 array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`. The index of no elements is -1.

    The result has dtype int64. Raises InvalidArgument for other dtypes, for invalid axes, and, without `length`, if
    there are no elements.

    >>> pydp.argmin(np.array([[3, 1], [0, 2]]), axis=1)
    array([1, 0])
    """
    return perform(argmin_request(Given(**locals())))


@limited
def argmax(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Index of the maximum along an axis, as ``numpy.argmax``. Of equal values it is the first; NaN is the maximum.

    x: numbers or bools, of any shape and strides. axis: an integer, or None for the index in C order of all
    elements. keepdims: keep the reduced axes, with size 1. out: int64 array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`. The index of no elements is -1.

    The result has dtype int64. Raises InvalidArgument for other dtypes, for invalid axes, and, without `length`, if
    there are no elements.

    >>> pydp.argmax(np.array([[3, 1], [0, 2]]))
    np.int64(0)
    """
    return perform(argmax_request(Given(**locals())))


@limited
def nanargmin(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Index of the minimum of the elements that are not NaN, as ``numpy.nanargmin``.

    Arguments, results and errors are those of :func:`argmin`. If all elements are NaN, the index is -1: the call does
    not wait for the values, so it cannot raise NumPy's error.

    >>> pydp.nanargmin(np.array([np.nan, 2, 1], np.float32))
    np.int64(2)
    """
    return perform(nanargmin_request(Given(**locals())))


@limited
def nanargmax(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Index of the maximum of the elements that are not NaN, as ``numpy.nanargmax``.

    Arguments, results and errors are those of :func:`argmax`. If all elements are NaN, the index is -1: the call does
    not wait for the values, so it cannot raise NumPy's error.

    >>> pydp.nanargmax(np.array([np.nan, 2, 1], np.float32))
    np.int64(1)
    """
    return perform(nanargmax_request(Given(**locals())))


def min_max_request(g: Given) -> Request:
    """The request of :func:`min_max`."""

    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        dtype = dtypes[0]
        check_kind("min_max", dtype, "biufc", "numbers")
        members = (("low", dtype, True), ("high", dtype, True))
        nan = "first" if dtype.kind in "fc" else ""
        ends = identity("min", dtype), identity("max", dtype)
        return Hooks("min_max", "bounds", members, (dtype, dtype), "both", nan=nan, unknown_empty=ends)

    return Request.of(g, "min_max", {"x": g.x}, hooks, outputs=2)


@limited
def min_max(
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
    """Minimum and maximum along some axes, in one pass over `x`. Both are NaN if an element is NaN.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    keepdims: keep the reduced axes, with size 1. out: a tuple of two arrays of the dtype of `x` for the results.
    length: only the first `length` elements count, see :func:`pydp.reduce`. With a length of 0,
    the results are inf and -inf, or the largest and the smallest integer.

    Returns (minimum, maximum), of the dtype of `x`. Raises InvalidArgument for other dtypes, for invalid axes, and,
    without `length`, if there are no elements.

    >>> pydp.min_max(np.array([[3, 1], [0, 2]]), axis=0)
    (array([0, 1]), array([3, 2]))
    """
    return perform(min_max_request(Given(**locals())))


def skipping_request(name: str) -> Any:
    """Builds requests for the extreme value of the elements that are not NaN."""

    def build(g: Given) -> Request:
        mask, initial = mask_of(vars(g).get("where")), vars(g).get("initial")
        check_initial(name, mask, initial)

        def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
            dtype = dtypes[0]
            check_kind(name, dtype, "biufc", "numbers")
            plain = name.removeprefix("nan")
            operator, start = (name, np.nan) if dtype.kind in "fc" else (plain, identity(plain, dtype))
            empty = None if initial is None else (start,)
            skips = ("masked",) if mask is not None else ()
            members = (("value", dtype, True),)
            return Hooks(name, "value", members, (dtype,), "own", empty, operator=operator, skips=skips, start=start)

        return Request.of(g, name, {"x": g.x, "where": mask}, hooks, initial=initial)

    return build


nanmin_request = skipping_request("nanmin")
nanmax_request = skipping_request("nanmax")


@limited
def nanmin(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Minimum of the elements that are not NaN, as ``numpy.nanmin``. It is NaN if all elements are NaN.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    initial: the first value, see `init` of :func:`pydp.reduce`. It is the result if there are no elements that are not
    NaN. where: bools that broadcast to `x`; only elements where they are true count. It needs `initial`. keepdims: keep
    the reduced axes, with size 1. out: array of the dtype of `x` for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`. It needs `initial`.

    Raises InvalidArgument for other dtypes, for invalid axes, and if there are no elements and no `initial`.

    >>> pydp.nanmin(np.array([np.nan, 2, 1], np.float32))
    np.float32(1.0)
    """
    return perform(nanmin_request(Given(**locals())))


@limited
def nanmax(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Maximum of the elements that are not NaN, as ``numpy.nanmax``. It is NaN if all elements are NaN.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    initial: the first value, see `init` of :func:`pydp.reduce`. It is the result if there are no elements that are not
    NaN. where: bools that broadcast to `x`; only elements where they are true count. It needs `initial`. keepdims: keep
    the reduced axes, with size 1. out: array of the dtype of `x` for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`. It needs `initial`.

    Raises InvalidArgument for other dtypes, for invalid axes, and if there are no elements and no `initial`.

    >>> pydp.nanmax(np.array([np.nan, 2, 1], np.float32))
    np.float32(2.0)
    """
    return perform(nanmax_request(Given(**locals())))


min_request, max_request = fold_request("min", "min", False), fold_request("max", "max", False)
_masked_min, _masked_max = masked_fold(min_request), masked_fold(max_request)


def min(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Minimum along some axes, as ``numpy.min``: ``pydp.reduce(x, "min")``. It is NaN if an element is NaN.

    initial: the first value, see `init` of :func:`pydp.reduce`. It is the result if there are no elements. where: bools
    that broadcast to `x`; only elements where they are true count. It needs `initial`.
    x, axis, keepdims, out, spec, errors: see :func:`pydp.reduce`.
    length: only the first `length` elements count, see :func:`pydp.reduce`. It needs `initial`.

    >>> pydp.min(np.array([[3, 1], [0, 2]]), axis=1)
    array([1, 0])
    """
    check_first(initial, x, "min")
    if mask_of(where) is not None:
        return _masked_min(**locals())
    named = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return reduce(x, "min", axis=axis, keepdims=keepdims, init=initial, length=length, out=out, **named)


def max(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Maximum along some axes, as ``numpy.max``: ``pydp.reduce(x, "max")``. It is NaN if an element is NaN.

    initial: the first value, see `init` of :func:`pydp.reduce`. It is the result if there are no elements. where: bools
    that broadcast to `x`; only elements where they are true count. It needs `initial`.
    x, axis, keepdims, out, spec, errors: see :func:`pydp.reduce`.
    length: only the first `length` elements count, see :func:`pydp.reduce`. It needs `initial`.

    >>> pydp.max(np.array([[3, 1], [0, 2]]), axis=1)
    array([3, 2])
    """
    check_first(initial, x, "max")
    if mask_of(where) is not None:
        return _masked_max(**locals())
    named = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return reduce(x, "max", axis=axis, keepdims=keepdims, init=initial, length=length, out=out, **named)
