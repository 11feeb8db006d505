"""NumPy's reductions, on the kernels of ``pydp.reduce`` with hooks (:mod:`pydp.algorithms.reduce.hooks`).

A hook loads an element, a mask or the elements of two arrays; accumulators are tuples, such as (value, index) for
``argmax`` or (count, mean, squared deviations) for ``var``; another hook makes the result of the accumulator. Every
function reads its input once, gives the same bits in every run, and reduces over any axes of arrays with any strides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.reductions import extremes, logical, moments, products, sums
from pydp.algorithms.reductions.extremes import argmax, argmin, max, min, min_max, nanargmax, nanargmin, nanmax, nanmin
from pydp.algorithms.reductions.logical import all, any, count_nonzero
from pydp.algorithms.reductions.moments import mean, mean_var, nanmean, nanstd, nanvar, std, var
from pydp.algorithms.reductions.products import dot, explain_norm, explaining_product, inner, norm, vdot
from pydp.algorithms.reductions.run import explaining
from pydp.algorithms.reductions.sums import explaining_fold, logsumexp, nanprod, nansum, prod, sum
from pydp.algorithms.registry import Algorithm, register, vectors
from pydp.model.explanation import Explanation, Given
from pydp.tuning.reference import Expected, host

__all__ = """
    all any argmax argmin count_nonzero dot inner logsumexp max mean mean_var min min_max nanargmax nanargmin nanmax
    nanmean nanmin nanprod nanstd nansum nanvar norm prod std sum var vdot
""".split()

_BENCHMARK = "pydp.bench.bench_reductions"


def _reference(function: Callable[..., Any], rounded: bool = False) -> Callable[..., list[Expected]]:
    """The reference by a function of NumPy.

    rounded: results are within some units of the input's finite magnitudes.
    """

    def reference(*arrays: Any, **named: Any) -> list[Expected]:
        given = [host(one) for one in arrays]
        found = function(*given, **named)
        values = [np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))]
        if not rounded or values[0].dtype.kind not in "fc":
            return [Expected(one) for one in values]
        least = np.finfo(values[0].dtype).eps
        scale = np.prod([float(np.max(np.abs(one[np.isfinite(one)]), initial=1)) for one in given])
        return [Expected(one, 64 * least * (scale * scale + np.abs(np.nan_to_num(one)))) for one in values]

    return reference


def _exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that computes in float64 or complex128; the result keeps its dtype."""

    def wide(*arrays: np.ndarray, **named: Any) -> Any:
        dtype = function(*(one.reshape(-1)[:1] for one in arrays), **{**named, "axis": None} if named else {}).dtype
        given = [one.astype({"f": np.float64, "c": np.complex128}.get(one.dtype.kind, one.dtype)) for one in arrays]
        return np.asarray(function(*given, **named)).astype(dtype)

    return wide


def _both(x: np.ndarray, **named: Any) -> tuple[Any, Any]:
    return np.min(x, **named), np.max(x, **named)


def _mean_and_variance(x: Any, **named: Any) -> list[Expected]:
    variance = _reference(_exact(np.var), True)(x, **named)
    (mean,) = _reference(_exact(np.mean), True)(x, **{name: v for name, v in named.items() if name != "ddof"})
    return [Expected(np.where(np.isfinite(mean.values), mean.values, np.nan), mean.tolerance), *variance]


def _count(x: np.ndarray, **named: Any) -> np.ndarray:
    return np.asarray(np.count_nonzero(x, **named), np.int64)


def _log_sum(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    wide = x.astype(np.float64)
    top = np.max(wide, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    found = np.log(np.sum(np.exp(wide - top), axis=axis, keepdims=True)) + top
    axes = tuple(range(x.ndim)) if axis is None else axis
    return (found if keepdims else np.squeeze(found, axes)).astype(x.dtype if x.dtype.kind == "f" else np.float64)


def _declare(
    function: Callable[..., Any],
    explain: Callable[[Given], Explanation],
    reference: Callable[..., list[Expected]],
    kinds: str = "biuf",
    **more: Any,
) -> None:
    register(Algorithm(function, explain, reference, ("16777216",), dtypes=kinds, benchmark=_BENCHMARK, **more))


_function: Callable[..., Any]
_numpy: Callable[..., Any]
for _function, _request, _numpy in (
    (argmin, extremes.argmin_request, np.argmin),
    (argmax, extremes.argmax_request, np.argmax),
    (nanargmin, extremes.nanargmin_request, np.nanargmin),
    (nanargmax, extremes.nanargmax_request, np.nanargmax),
    (nanmin, extremes.nanmin_request, np.nanmin),
    (nanmax, extremes.nanmax_request, np.nanmax),
    (min_max, extremes.min_max_request, _both),
):
    _declare(_function, explaining(_request), _reference(_numpy), "biufc")
for _function, _request, _numpy in (
    (any, logical.any_request, np.any),
    (all, logical.all_request, np.all),
    (count_nonzero, logical.count_nonzero_request, _count),
):
    _declare(_function, explaining(_request), _reference(_numpy), "biufc")
for _function, _request, _numpy, _kinds in (
    (mean, moments.mean_request, np.mean, "biufc"),
    (nanmean, moments.nanmean_request, np.nanmean, "biufc"),
    (var, moments.var_request, np.var, "biufc"),
    (std, moments.std_request, np.std, "biufc"),
    (nanvar, moments.nanvar_request, np.nanvar, "biufc"),
    (nanstd, moments.nanstd_request, np.nanstd, "biufc"),
):
    _declare(_function, explaining(_request), _reference(_exact(_numpy), True), _kinds)
_declare(mean_var, explaining(moments.mean_var_request), _mean_and_variance, "biufc")
_declare(norm, explain_norm, _reference(_exact(np.linalg.norm), True), "biufc")
for _function, _operator, _masked, _numpy in (
    (sum, "+", explaining(sums.sum_request), np.sum),
    (prod, "*", explaining(sums.prod_request), np.prod),
    (min, "min", explaining(extremes.min_request), np.min),
    (max, "max", explaining(extremes.max_request), np.max),
):
    _sums = _operator in "+*"
    _wide = _exact(_numpy) if _sums else _numpy
    _numbers = "factors" if _operator == "*" else "small"
    _declare(_function, explaining_fold(_operator, _masked), _reference(_wide, True), "biufc", numbers=_numbers)
_declare(nansum, explaining(sums.nansum_request), _reference(_exact(np.nansum), True), "biufc")
_declare(nanprod, explaining(sums.nanprod_request), _reference(_exact(np.nanprod), True), "biufc", numbers="factors")
_declare(logsumexp, explaining(sums.logsumexp_request), _reference(_log_sum, True))
for _function, _explain, _numpy in (
    (dot, explaining_product("dot"), np.dot),
    (inner, explaining_product("inner"), np.inner),
    (vdot, explaining(products.vdot_request), np.vdot),
):
    _declare(
        _function,
        _explain,
        _reference(_exact(_numpy), True),
        "biufc",
        shapes=vectors(2),
        accepted=("N",),
        operands=2,
    )
