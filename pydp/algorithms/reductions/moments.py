"""Means, variances and standard deviations, in one pass: ``mean``, ``var``, ``std``, ``mean_var``, and the forms that
skip NaN."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from pydp.algorithms.reduce.hooks import Hooks
from pydp.algorithms.reductions.run import Request, float_result, limited, mask_of, perform, widest_float
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Given

# Elements that are added before the sum goes into an accumulator: in their own precision, and in float64.
_RUN, _WIDE_RUN = 16, 128
_BOTH = "mean and variance"


def mean_request(g: Given) -> Request:
    """The request of :func:`mean`."""
    return _mean("mean", g, False)


def nanmean_request(g: Given) -> Request:
    """The request of :func:`nanmean`."""
    return _mean("nanmean", g, True)


def _mean(name: str, g: Given, nan: bool) -> Request:
    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        source = dtypes[0]
        result = float_result(name, source, g.dtype, True)
        run, own = _types(device, source, result)
        skips = _skips(source, nan, len(dtypes) > 1)
        members = (("value", own, True), *((("count", np.dtype(np.int64), True),) if skips else ()))
        finish = "mean of counted" if skips else "mean"
        chain = _chain(source, run)
        more: dict[str, Any] = {"run": run, "chain": chain, "skips": skips, "counted": bool(skips)}
        return Hooks(name, "value", members, (result,), finish, (_nan(result),), **more)

    return Request.of(g, name, _inputs(g), hooks)


def _types(device: Any, source: np.dtype, result: np.dtype) -> tuple[np.dtype, np.dtype]:
    """The dtypes of the sums of a run and of an accumulator."""
    if result.kind == "c":
        return result, result
    wide = widest_float(device)
    slow_float64 = device.profile.mapping != "vector"  # most GPUs compute few float64 per clock
    narrow = result.itemsize < 8 and source.kind == "f" and source.itemsize <= 4
    return np.dtype(np.float32) if narrow and slow_float64 else wide, wide


def _chain(source: np.dtype, run: np.dtype) -> int:
    """The elements of a run. Closing one takes as long as tens of elements; a wider dtype keeps a long one accurate."""
    wider = run.itemsize > source.itemsize or source.kind in "biu"
    return _WIDE_RUN if wider and run == np.float64 else _RUN


def _skips(source: np.dtype, nan: bool, masked: bool) -> tuple[str, ...]:
    return (*(("nan",) if nan and source.kind in "fc" else ()), *(("masked",) if masked else ()))


def _inputs(g: Given) -> dict[str, Any]:
    return {"x": g.x, "where": mask_of(vars(g).get("where"))}


def _nan(dtype: np.dtype) -> Any:
    """The result of no elements."""
    return complex(np.nan, np.nan) if dtype.kind == "c" else np.nan


def _spread(name: str, finish: str, nan: bool) -> Any:
    """Builds requests for a variance or a standard deviation."""

    def build(g: Given) -> Request:
        ddof = _degrees(g)

        def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
            source = dtypes[0]
            means = (_mean_of_both(name, source, g.dtype),) if finish == _BOTH else ()
            result = _spread_result(name, source, g.dtype)
            results = (*means, result)
            run, wide = _types(device, _real(source), result)
            own = wide
            if source.kind == "c":
                run, own = np.dtype(f"c{2 * run.itemsize}"), np.dtype(f"c{2 * wide.itemsize}")
            skips = _skips(source, nan, len(dtypes) > 1)
            count = ("count", wide, True) if skips else ("count", np.dtype(np.int64), False)
            low = (("low", own, True),) if wide == np.float32 else ()
            members = (("mean", own, True), *low, ("square", wide, True), count)
            chain = _chain(source, run)
            more: dict[str, Any] = {"run": run, "chain": chain, "skips": skips, "ddof": ddof}
            return Hooks(name, "moments", members, results, finish, tuple(map(_nan, results)), **more)

        return Request.of(g, name, _inputs(g), hooks, outputs=2 if finish == _BOTH else 1)

    return build


def _mean_of_both(name: str, source: np.dtype, dtype: Any) -> np.dtype:
    """The dtype of the mean that `mean_var` returns beside the variance."""
    if source.kind == "c" and dtype is not None:
        raise InvalidArgument(f"{name} of {source} is given dtype={shown(dtype)}; None is accepted for complex numbers")
    return float_result(name, source, dtype, True)


def _real(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers; any other dtype itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _spread_result(name: str, source: np.dtype, dtype: Any) -> np.dtype:
    """The dtype of a variance, which is real: `dtype`, or that of the parts of complex numbers."""
    if source.kind != "c":
        return float_result(name, source, dtype, False)
    return float_result(name, _real(source), dtype, False)


def _degrees(g: Given) -> float:
    """The number that is subtracted from the number of elements: ddof, or correction."""
    correction = vars(g).get("correction")
    name, given = ("ddof", g.ddof) if correction is None else ("correction", correction)
    if correction is not None and g.ddof != 0:
        raise InvalidArgument(f"ddof is {shown(g.ddof)} and correction {shown(correction)}; one of them is accepted")
    if isinstance(given, (int, float, np.integer, np.floating)):
        with contextlib.suppress(OverflowError):  # of a Python integer
            value = float(given)
            if abs(value) < 2**53:
                return value
    raise InvalidArgument(f"{name} is {shown(given)}; a finite number is accepted")


var_request = _spread("var", "variance", False)
std_request = _spread("std", "deviation", False)
nanvar_request = _spread("nanvar", "variance", True)
nanstd_request = _spread("nanstd", "deviation", True)
mean_var_request = _spread("mean_var", _BOTH, False)


@limited
def mean(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
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
    """Arithmetic mean along some axes, as ``numpy.mean``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the result; the default is the dtype of `x` if it is a float, else float64. keepdims: keep the reduced
    axes, with size 1. where: bools that broadcast to `x`; only elements where they are true count. out: array for the
    result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    Elements are added as float64, complex numbers in the dtype of the result. On GPUs, float32 and float16 are added as
    float32 in runs of 16 elements, and the sums of runs as float64 (on devices without float64, as float32). It is NaN
    if there are no elements, without a warning. Raises InvalidArgument for other dtypes and for invalid axes, and
    UnsupportedOnDevice if the device lacks float64 and the result has this dtype.

    >>> pydp.mean(np.array([[1, 2], [4, 6]], np.float32), axis=1)
    array([1.5, 5. ], dtype=float32)
    """
    return perform(mean_request(Given(**locals())))


@limited
def var(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Variance along some axes, as ``numpy.var``: the mean of ``abs(x - mean(x)) ** 2``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the result, a float; the default is the dtype of `x` if it is a float, of its parts if it is complex,
    else float64. keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where
    they are true count. ddof: the divisor is n - ddof for n elements; a result with n <= ddof is NaN or infinite.
    correction: another name of ddof. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    One pass: means and squared deviations of runs of 16 elements are merged (Chan, Golub, LeVeque: Updating formulae
    and a pairwise algorithm for computing sample variances, 1979), so a large mean does not cancel digits. The dtypes
    of the sums are those of :func:`mean`. On GPUs and without float64, the relative error is up to 1.5e-5. The result
    is infinite if the square of the difference of two elements overflows. It is NaN if there are no elements, without a
    warning. Raises InvalidArgument for other dtypes and for invalid axes, and UnsupportedOnDevice if the device lacks
    float64 and the result has this dtype.

    >>> pydp.var(np.array([1, 2, 3, 4], np.float32))
    np.float32(1.25)
    """
    return perform(var_request(Given(**locals())))


@limited
def std(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Standard deviation along some axes, as ``numpy.std``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the result, a float; the default is the dtype of `x` if it is a float, of its parts if it is complex,
    else float64. keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where
    they are true count. ddof: the divisor is n - ddof for n elements; a result with n <= ddof is NaN or infinite.
    correction: another name of ddof. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    It is the square root of :func:`var`. It is NaN if there are no elements, without a warning. Raises InvalidArgument
    for other dtypes and for invalid axes, and UnsupportedOnDevice if the device lacks float64 and the result has this
    dtype.

    >>> pydp.std(np.array([1, 2, 3, 4], np.float32), ddof=1)
    np.float32(1.2909944)
    """
    return perform(std_request(Given(**locals())))


@limited
def mean_var(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Mean and variance along some axes, in one pass over `x`, for example for a normalization.

    Returns (mean, variance); both are NaN if an element is infinite or if the difference of two elements overflows. The
    arguments, the accuracy and the errors are those of :func:`var`; for complex numbers, dtype must be None. out: a
    tuple of two arrays for the results.

    >>> x = np.array([[1, 3], [4, 4]], np.float32)
    >>> m, v = pydp.mean_var(x, axis=1, keepdims=True)
    >>> pydp.evaluate("(x - m) / sqrt(v + 1e-5f)")
    array([[-0.999995,  0.999995],
           [ 0.      ,  0.      ]], dtype=float32)
    """
    return perform(mean_var_request(Given(**locals())))


@limited
def nanmean(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
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
    """Arithmetic mean of the elements that are not NaN, as ``numpy.nanmean``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the result; the default is the dtype of `x` if it is a float, else float64. keepdims: keep the reduced
    axes, with size 1. where: bools that broadcast to `x`; only elements where they are true count. out: array for the
    result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    See :func:`mean` for the accuracy. It is NaN if there are no elements that are not NaN, without a warning. Raises
    InvalidArgument for other dtypes and for invalid axes, and UnsupportedOnDevice if the device lacks float64 and the
    result has this dtype.

    >>> pydp.nanmean(np.array([1, np.nan, 4], np.float32))
    np.float32(2.5)
    """
    return perform(nanmean_request(Given(**locals())))


@limited
def nanvar(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Variance of the elements that are not NaN, as ``numpy.nanvar``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the result, a float; the default is the dtype of `x` if it is a float, of its parts if it is complex,
    else float64. keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where
    they are true count. ddof: the divisor is n - ddof for n elements; a result with n <= ddof is NaN for
    floats, and NaN or infinite for other dtypes, as in NumPy.
    correction: another name of ddof. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    See :func:`var` for the accuracy. It is NaN if there are no elements that are not NaN, without a warning. Raises
    InvalidArgument for other dtypes and for invalid axes, and UnsupportedOnDevice if the device lacks float64 and the
    result has this dtype.

    >>> pydp.nanvar(np.array([1, np.nan, 4], np.float32))
    np.float32(2.25)
    """
    return perform(nanvar_request(Given(**locals())))


@limited
def nanstd(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Standard deviation of the elements that are not NaN, as ``numpy.nanstd``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the result, a float; the default is the dtype of `x` if it is a float, of its parts if it is complex,
    else float64. keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where
    they are true count. ddof: the divisor is n - ddof for n elements; a result with n <= ddof is NaN for
    floats, and NaN or infinite for other dtypes, as in NumPy.
    correction: another name of ddof. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    It is the square root of :func:`nanvar`. It is NaN if there are no elements that are not NaN, without a warning.
    Raises InvalidArgument for other dtypes and for invalid axes, and UnsupportedOnDevice if the device lacks float64
    and the result has this dtype.

    >>> pydp.nanstd(np.array([1, np.nan, 4], np.float32))
    np.float32(1.5)
    """
    return perform(nanstd_request(Given(**locals())))
