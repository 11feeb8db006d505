"""``pydp.cumsum`` and ``pydp.cumprod``: scans with NumPy's names, defaults and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import is_only_axis
from pydp.algorithms.composed import explanation_of
from pydp.algorithms.reduce.plan import result_dtype
from pydp.algorithms.reductions.run import check_kind
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.scan import ScanSpec, scan
from pydp.dtypes import native
from pydp.model.explanation import Explanation, Given
from pydp.runtime.placement import normal_input
from pydp.tuning.reference import Expected, eps, expected, host, wide

__all__ = ["ScanSpec", "cumprod", "cumsum"]


def cumsum(
    x: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Cumulative sum along an axis, as ``numpy.cumsum``: a :func:`pydp.scan` with NumPy's defaults.

    x: numbers or bools, of any shape and strides (NumPy array, Field or pyopencl Array). The result has its kind and
    shape. axis: an integer; None takes the elements in C order, and the result has rank 1.
    dtype: dtype of the computation and the result. The default is the dtype of `x`, or int64 or uint64 for smaller
    integers and bools. out: array of the result's shape and dtype; may be `x`.
    spec: a :class:`pydp.algorithms.scan.policy.ScanSpec`, or a mapping of some of its fields.

    `scan` has more: exclusive and reversed sums, segments, a first value, a length that only the device knows.
    Raises InvalidArgument for other dtypes and invalid axes, and UnsupportedOnDevice for dtypes that the device does
    not support, before anything is enqueued.

    >>> pydp.cumsum(np.array([[1, 2], [3, 4]]), axis=0)
    array([[1, 2],
           [4, 6]])
    >>> pydp.cumsum(np.array([[1, 2], [3, 4]], np.int8))
    array([ 1,  3,  6, 10])

    Source: see :func:`pydp.scan`.
    """
    x, axis, dtype = _checked("cumsum", x, axis, dtype)
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    return scan(x, "+", axis=axis, dtype=dtype, spec=spec, **where)


def cumprod(
    x: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Cumulative product along an axis, as ``numpy.cumprod``: a :func:`pydp.scan` with NumPy's defaults.

    The arguments, dtypes and errors are those of :func:`cumsum`.

    >>> pydp.cumprod(np.array([1, 2, 3, 4]))
    array([ 1,  2,  6, 24])

    Source: see :func:`pydp.scan`.
    """
    x, axis, dtype = _checked("cumprod", x, axis, dtype)
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    return scan(x, "*", axis=axis, dtype=dtype, spec=spec, **where)


def _checked(name: str, x: Any, axis: Any, dtype: Any) -> tuple[Any, Any, np.dtype]:
    """The arguments x, axis and dtype of the scan; name: of the function, for messages."""
    x = normal_input("x", x)
    dtype = result_dtype(native(x.dtype), "+") if dtype is None else native(dtype)
    check_kind(name, x.dtype, "biufc", "numbers")
    check_kind(f"{name} with dtype={dtype}", dtype, "biufc", "numbers")
    return x, None if not x.ndim and is_only_axis(axis) else axis, dtype


# --- explanation and reference -----------------------------------------------------------------------------------


def _explained(name: str, op: str, g: Given) -> Explanation:
    x, axis, dtype = _checked(name, g.x, g.axis, g.dtype)
    found = explanation_of(scan, x, op, axis=axis, dtype=dtype, spec=g.spec, **g.where)
    found.choices.insert(0, f"{name} is a scan with the operator {op!r}")
    return found


def _explain_sum(g: Given) -> Explanation:
    return _explained("cumsum", "+", g)


def _explain_product(g: Given) -> Explanation:
    return _explained("cumprod", "*", g)


def _sum_reference(x: Any, axis: Any = None) -> list[Expected] | None:
    x = host(x)
    return expected(scan, (x.astype(result_dtype(x.dtype, "+")),), {"axis": axis})


def _product_reference(x: Any, axis: Any = None) -> list[Expected]:
    x = host(x)
    dtype, factors = result_dtype(x.dtype, "*"), x.size if axis is None else x.shape[axis]
    want = np.cumprod(wide(x), axis).astype(dtype)
    return [Expected(want, 4 * factors * eps(dtype) * np.abs(np.nan_to_num(want)) if dtype.kind in "fc" else 0)]


for _function, _explain, _reference in (
    (cumsum, _explain_sum, _sum_reference),
    (cumprod, _explain_product, _product_reference),
):
    register(
        Algorithm(
            _function,
            _explain,
            _reference,
            sizes=("65536", "1048576", "16777216", "2048x2048"),
            dtype="int32",
            benchmark="pydp.bench.bench_scan",
        )
    )
