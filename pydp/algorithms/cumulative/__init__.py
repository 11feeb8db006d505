"""``pydp.cumsum`` and ``pydp.cumprod``: scans with NumPy's names, defaults and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import is_only_axis
from pydp.algorithms.composed import explanation_of
from pydp.algorithms.lengths import whole
from pydp.algorithms.reduce.plan import result_dtype
from pydp.algorithms.reductions.run import check_kind
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.scan import ScanSpec, scan
from pydp.dtypes import native
from pydp.errors import InvalidArgument
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
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Cumulative sum along an axis, as ``numpy.cumsum``: a :func:`pydp.scan` with NumPy's defaults.

    x: numbers or bools, of any shape and strides (NumPy array, Field or pyopencl Array). The result has its kind and
    shape. axis: an integer; None takes the elements in C order, and the result has rank 1.
    dtype: dtype of the computation and the result. The default is the dtype of `out` if NumPy's rule "same_kind"
    converts the dtype of `x` to it, else the dtype of `x`, or int64 or uint64 for smaller integers and bools.
    out: array of the result's shape and, unlike in NumPy, of exactly this dtype; may be `x`.
    length: only the first `length` elements count, see :func:`pydp.scan`.
    spec: a :class:`pydp.algorithms.scan.policy.ScanSpec`, or a mapping of some of its fields.

    NumPy adds one element after the other; here, sums of parts of the elements are added. Sums of floats are therefore
    rounded differently, usually with a smaller error. The sums of non-negative floats may decrease by a rounding error
    (``pydp.scan(c, "max", out=c)`` makes them non-decreasing), and the sum of a part may overflow where NumPy's sums
    do not.

    `scan` has more: exclusive and reversed sums, segments, a first value. Raises InvalidArgument for other dtypes and
    invalid axes, and UnsupportedOnDevice for dtypes that the device does not support, before anything is enqueued.

    >>> pydp.cumsum(np.array([[1, 2], [3, 4]]), axis=0)
    array([[1, 2],
           [4, 6]])
    >>> pydp.cumsum(np.array([[1, 2], [3, 4]], np.int8))
    array([ 1,  3,  6, 10])

    Source: see :func:`pydp.scan`.
    """
    x, named = _scanned("cumsum", Given(**locals()))
    return scan(x, "+", **named)


def cumprod(
    x: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Cumulative product along an axis, as ``numpy.cumprod``: a :func:`pydp.scan` with NumPy's defaults.

    The arguments, dtypes and errors are those of :func:`cumsum`, and so is the order of operations: if the product of
    one part overflows and that of another is zero, the result is NaN where NumPy's is zero.

    >>> pydp.cumprod(np.array([1, 2, 3, 4]))
    array([ 1,  2,  6, 24])

    Source: see :func:`pydp.scan`.
    """
    x, named = _scanned("cumprod", Given(**locals()))
    return scan(x, "*", **named)


def _scanned(name: str, g: Given) -> tuple[Any, dict[str, Any]]:
    """The array and the named arguments for `scan`. name: the function's name, for messages."""
    x = normal_input("x", whole(g.x, g.length))
    check_kind(name, x.dtype, "biufc", "numbers")
    dtype = native(_default_dtype(x.dtype, g.out) if g.dtype is None else g.dtype)
    if dtype.kind not in "biufc":
        raise InvalidArgument(f"dtype is {dtype}; numbers and bools are accepted")
    axis = None if not x.ndim and is_only_axis(g.axis) else g.axis
    return x, {"axis": axis, "dtype": dtype, "length": g.length, "spec": g.spec, **g.where}


def _default_dtype(dtype: np.dtype, out: Any) -> np.dtype:
    given = getattr(out, "dtype", None)
    if given is not None and np.can_cast(dtype, given, "same_kind"):
        return np.dtype(given)
    return result_dtype(native(dtype), "+")


# --- explanation and reference -----------------------------------------------------------------------------------


def _explained(name: str, op: str, g: Given) -> Explanation:
    x, named = _scanned(name, g)
    found = explanation_of(scan, x, op, **named)
    found.title = found.title.replace("scan", name, 1)
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


for _function, _explain, _reference, _numbers in (
    (cumsum, _explain_sum, _sum_reference, "small"),
    (cumprod, _explain_product, _product_reference, "factors"),
):
    register(
        Algorithm(
            _function,
            _explain,
            _reference,
            sizes=("65536", "1048576", "16777216", "2048x2048"),
            dtype="int32",
            numbers=_numbers,
            benchmark="pydp.bench.bench_scan",
        )
    )
