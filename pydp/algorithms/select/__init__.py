"""``pydp.select``, ``flatnonzero``, ``nonzero`` and ``argwhere``: the elements of an array that meet a condition, or
their indexes, in order; also the partition by conditions of ``pydp.partition``, and ``pydp.compress`` without an axis.

All are one kernel with other hooks: which elements are kept (a predicate, a mask, nonzero elements), and what is stored
for a kept element. Only the device knows how many elements are kept; see `results`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.lengths import whole
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.select.policy import SelectSpec
from pydp.algorithms.select.request import Request, check_choice, explained, launched
from pydp.algorithms.select.results import columns, counted, counted_twice, rows, trimmed
from pydp.algorithms.select.stream import select_in_pieces, too_large
from pydp.errors import OutOfResources
from pydp.model.explanation import Explanation, Given
from pydp.runtime.recording import recorded
from pydp.tuning.reference import Expected, host

__all__ = ["SelectSpec", "argwhere", "flatnonzero", "nonzero", "select"]


def select(
    x: Any,
    predicate: Any = None,
    *,
    mask: Any = None,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the elements of `x` that meet a condition, in order, as an array of rank 1.

    x: NumPy array, Field or pyopencl Array of any shape, strides and dtype; its elements are taken in C order, as in
    ``x[x > 0]``. The result has the same kind, and the dtype in native byte order.

    predicate: an OpenCL C expression in the element ``x``, such as ``"x > 0"`` or ``"x.key % 2 == 0"``, or a Python
    function of one element. mask: instead of a predicate, an array of bools or numbers (flags) in the shape of x;
    elements where it is not zero are kept.

    The call does not wait. The length of a Field is known when it is asked for: ``len(r)``, ``r.shape``, ``r.get()``
    and the use of `r` in another call wait for it. A Field keeps the memory of as many elements as `x` has. Calls on
    NumPy arrays and pyopencl Arrays wait and return arrays of the exact length.

    count: a device scalar (Field or pyopencl Array of one int32 or int64) that receives the number of kept elements.
    length: only the first `length` elements count: an integer, or a Field or pyopencl Array of one integer, such as the
    `count` of another call. The kernels read it on the device, so the call does not wait for it. If `x` is a result
    whose length only the device knows, the call does not wait for that either. On the device, a negative length counts
    as 0; a length larger than the array counts as the array's size.
    spec: a :class:`pydp.algorithms.select.policy.SelectSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for an invalid predicate, mask, count or spec, and UnsupportedOnDevice for dtypes that the
    device does not support, before anything is enqueued.

    >>> pydp.select(np.array([3, -1, 4, 0, 5]), "x > 0")
    array([3, 4, 5])

    Source: D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back (2016), section 5;
    ``cub::DeviceSelect``.
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return _found(trimmed, "select", x, mask, predicate, count, length, where)


def selected(x: Any, predicate: Any, count: Any, **where: Any) -> Any:
    """`select` for a device array that fits one buffer. Returns an array with space for all elements, without waiting;
    the kept elements come first, and `count` receives their number. where: queue, wait_for."""
    return _launched("select", x, None, predicate, count, None, **{"device": None, "spec": None, **where})[0]


def flatnonzero(
    x: Any, *, count: Any = None, length: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
    spec: Any = None,
) -> Any:  # fmt: skip
    """Return the indexes (int64) of the elements of `x` in C order that are not zero, as ``numpy.flatnonzero``.

    x: array of numbers or bools of any shape; NaN is not zero. count, length, the length of the result, errors and
    source: see `select`.

    >>> pydp.flatnonzero(np.array([0, 7, 0, 9]))
    array([1, 3])
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return _found(trimmed, "flatnonzero", x, None, None, count, length, where)


def nonzero(
    x: Any, *, count: Any = None, length: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the indexes of the elements of `x` that are not zero, one array (int64) per axis, as ``numpy.nonzero``.

    x: array of numbers or bools of rank 1 or more; the elements are visited in C order. count, length, the length of
    the results, errors and source: see `select`.

    >>> pydp.nonzero(np.array([[0, 7], [9, 0]]))
    (array([0, 1]), array([1, 0]))
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return _found(columns, "nonzero", x, None, None, count, length, where)


def argwhere(
    x: Any, *, count: Any = None, length: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
    spec: Any = None,
) -> Any:  # fmt: skip
    """Return the indexes of the elements of `x` that are not zero as rows (int64) of a matrix, as ``numpy.argwhere``.

    x: array of numbers or bools of rank 1 or more. count, length, the number of rows, errors and source: see `select`.

    >>> pydp.argwhere(np.array([[0, 7], [9, 0]]))
    array([[0, 1],
           [1, 0]])
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return _found(rows, "argwhere", x, None, None, count, length, where)


def masked(mask: Any, x: Any, count: Any, length: Any, where: dict[str, Any]) -> Any:
    """The result of ``pydp.compress`` without an axis."""
    return _found(trimmed, "compress", x, mask, None, count, length, where)


def divided(
    x: Any, predicate: Any, mask: Any, second: Any, count: Any, length: Any, where: dict[str, Any]
) -> tuple[Any, ...]:
    """The result of ``pydp.partition`` by conditions."""
    finished = counted if second is None else counted_twice
    found: tuple[Any, ...] = _found(finished, "partition", x, mask, predicate, count, length, where, second)
    return found


def _found(
    finished: Callable[..., Any],
    which: str,
    x: Any,
    mask: Any,
    predicate: Any,
    count: Any,
    length: Any,
    where: dict[str, Any],
    second: Any = None,
) -> Any:
    """The results of a call. finished: gives them their length."""
    x, mask = whole(x, length), whole(mask, length)
    if not too_large(which, x, mask, where):
        return finished(*_launched(which, x, mask, predicate, count, length, second, **where))
    if length is not None:
        raise OutOfResources(f"length= needs an array that fits the device's largest buffer; x has {x.nbytes} bytes")

    def run(which: str, part: Any, flags: Any) -> Any:
        results = _launched(which, part, flags, predicate, None, None, second, **{**where, "wait_for": None})
        return (finished if which == "partition" else trimmed)(*results)

    check_choice(Request(which, x, mask, predicate, count, where["spec"], None, second))
    return select_in_pieces(run, which, x, mask, count, where)


@recorded
def _launched(
    which: str,
    x: Any,
    mask: Any,
    predicate: Any,
    count: Any,
    length: Any,
    second: Any = None,
    *,
    spec: Any,
    **where: Any,
) -> Any:
    """The results of a call with space for all elements, and the number of kept elements."""
    return launched(Request(which, x, mask, predicate, count, spec, length, second), where)


# --- explanations and references -----------------------------------------------------------------------------


def explain_selection(which: str, given: Given) -> Explanation:
    """Explain a call of the function named `which`."""
    mask, predicate, second = (getattr(given, name, None) for name in ("mask", "predicate", "second"))
    mask, x = whole(mask, given.length), whole(given.x, given.length)
    request = Request(which, x, mask, predicate, given.count, given.spec, given.length, second)
    return explained(request, given.where)


def kept_by(x: np.ndarray, predicate: Any, mask: Any) -> np.ndarray | None:
    """Which elements of a flat array are kept; None for a predicate that NumPy does not evaluate."""
    if mask is not None:
        return host(mask).reshape(-1) != 0
    return x > 0 if predicate == "x > 0" else None


def _select_reference(x: Any, predicate: Any = "x > 0", *, mask: Any = None) -> list[Expected] | None:
    x = host(x).reshape(-1)
    kept = kept_by(x, predicate, mask)
    return None if kept is None else [Expected(x[kept])]


def _indexes_reference(function: Callable[[np.ndarray], Any], x: Any) -> list[Expected]:
    found = function(host(x))
    return [Expected(one.astype(np.int64)) for one in (found if isinstance(found, tuple) else (found,))]


for _function, _reference, _options in (
    (select, _select_reference, {"predicate": "x > 0"}),
    (flatnonzero, functools.partial(_indexes_reference, np.flatnonzero), {}),
    (nonzero, functools.partial(_indexes_reference, np.nonzero), {}),
    (argwhere, functools.partial(_indexes_reference, np.argwhere), {}),
):
    register(
        Algorithm(
            _function,
            functools.partial(explain_selection, _function.__name__),
            _reference,
            sizes=("65536", "1048576", "16777216") if _function is select else ("1048576",),
            dtypes="biuf" if _options else "biufc",
            options=_options,
            benchmark="pydp.bench.bench_select",
        )
    )
