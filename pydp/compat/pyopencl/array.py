"""``pyopencl.array``: its reductions and scans, on the kernels of this package. Everything else is pyopencl's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl.array as original

from pydp.compat.pyopencl.devices import check_process
from pydp.compat.pyopencl.rebind import public_names
from pydp.compat.pyopencl.reduction import (
    get_all_kernel,
    get_any_kernel,
    get_dot_kernel,
    get_minmax_kernel,
    get_subset_dot_kernel,
    get_subset_minmax_kernel,
    get_sum_kernel,
)
from pydp.compat.pyopencl.scan import get_cumsum_kernel

OWN = ["all", "any", "cumsum", "dot", "max", "min", "subset_dot", "subset_max", "subset_min", "sum", "vdot"]
__all__ = public_names(OWN, original)

_NONE: Any = original._NoValue
_SCALARS = (int, float, complex, np.generic)


def __getattr__(name: str) -> Any:
    return getattr(original, name)


def _dtype(dtype: Any) -> Any:
    return None if dtype is None else np.dtype(dtype)


def _run(kernel: Any, *arrays: Any, **options: Any) -> Any:
    waits = [*(options.pop("wait_for", None) or ()), *(event for one in arrays for event in one.events)]
    return kernel(*arrays, wait_for=waits, **options)


def _check_initial(initial: Any) -> None:
    if initial is not _NONE and not isinstance(initial, _SCALARS):
        raise ValueError("'initial' is not a scalar")


def sum(a: Any, dtype: Any = None, queue: Any = None, slice: Any = None, initial: Any = _NONE) -> Any:
    """The sum of an array's elements."""
    _check_initial(initial)
    result = _run(get_sum_kernel(a.context, _dtype(dtype), a.dtype), a, queue=queue, slice=slice)
    if initial is not _NONE:
        result += a.dtype.type(initial)
    return result


def any(a: Any, queue: Any = None, wait_for: Any = None) -> Any:
    """Whether an element is not zero."""
    if not len(a):
        return np.int8(0)
    return _run(get_any_kernel(a.context, a.dtype), a, queue=queue, wait_for=wait_for)


def all(a: Any, queue: Any = None, wait_for: Any = None) -> Any:
    """Whether no element is zero."""
    if not len(a):
        return np.int8(1)
    return _run(get_all_kernel(a.context, a.dtype), a, queue=queue, wait_for=wait_for)


def dot(a: Any, b: Any, dtype: Any = None, queue: Any = None, slice: Any = None) -> Any:
    """The sum of the products of two arrays' elements."""
    return _run(get_dot_kernel(a.context, _dtype(dtype), a.dtype, b.dtype), a, b, queue=queue, slice=slice)


def vdot(a: Any, b: Any, dtype: Any = None, queue: Any = None, slice: Any = None) -> Any:
    """As :func:`dot`, with the conjugate of `a`."""
    kernel = get_dot_kernel(a.context, _dtype(dtype), a.dtype, b.dtype, conjugate_first=True)
    return _run(kernel, a, b, queue=queue, slice=slice)


def subset_dot(subset: Any, a: Any, b: Any, dtype: Any = None, queue: Any = None, slice: Any = None) -> Any:
    """As :func:`dot`, of the elements whose indexes are in `subset`."""
    kernel = get_subset_dot_kernel(a.context, _dtype(dtype), subset.dtype, a.dtype, b.dtype)
    return _run(kernel, subset, a, b, queue=queue, slice=slice)


def _extreme(what: str, better: Any, a: Any, queue: Any, initial: Any) -> Any:
    if isinstance(a, _SCALARS):
        return np.array(a).dtype.type(a)
    if not len(a):
        if initial is _NONE:
            raise ValueError(f"zero-size array to reduction '{what}' which has no identity")
        return initial
    _check_initial(initial)
    result = _run(get_minmax_kernel(a.context, what, a.dtype), a, queue=queue)
    return result if initial is _NONE else better(result, a.dtype.type(initial), queue=queue)


def min(a: Any, queue: Any = None, initial: Any = _NONE) -> Any:
    """The smallest element."""
    return _extreme("min", original.minimum, a, queue, initial)


def max(a: Any, queue: Any = None, initial: Any = _NONE) -> Any:
    """The largest element."""
    return _extreme("max", original.maximum, a, queue, initial)


def subset_min(subset: Any, a: Any, queue: Any = None, slice: Any = None) -> Any:
    """The smallest of the elements whose indexes are in `subset`."""
    kernel = get_subset_minmax_kernel(a.context, "min", a.dtype, subset.dtype)
    return _run(kernel, subset, a, queue=queue, slice=slice)


def subset_max(subset: Any, a: Any, queue: Any = None, slice: Any = None) -> Any:
    """The largest of the elements whose indexes are in `subset`."""
    kernel = get_subset_minmax_kernel(a.context, "max", a.dtype, subset.dtype)
    return _run(kernel, subset, a, queue=queue, slice=slice)


def cumsum(
    a: Any, output_dtype: Any = None, queue: Any = None, wait_for: Any = None, *, return_event: bool = False
) -> Any:
    """The inclusive sums of an array's elements."""
    check_process(a.context)
    dtype = a.dtype if output_dtype is None else np.dtype(output_dtype)
    result = a._new_like_me(dtype)
    kernel = get_cumsum_kernel(a.context, a.dtype, dtype)
    event = kernel(a, result, queue=queue, wait_for=[*(wait_for or ()), *a.events])
    result.add_event(event)
    return (event, result) if return_event else result
