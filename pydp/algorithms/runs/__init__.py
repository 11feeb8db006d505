"""``pydp.unique``, ``run_length_encode`` and ``reduce_by_key``: runs of equal elements.

The kernels of :mod:`pydp.algorithms.select` select the heads of runs: an element is kept if it differs from its
predecessor. The same pass stores the lengths of the runs, or reduces values within them.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pydp.algorithms import reductions
from pydp.algorithms.arguments import axis_of, switch
from pydp.algorithms.composed import Place, explanation_of, placed, refuse_count
from pydp.algorithms.lengths import on_host as length_on_host
from pydp.algorithms.lengths import whole
from pydp.algorithms.lexsort import lexsort
from pydp.algorithms.moves import concatenate, take
from pydp.algorithms.pieces import needed, on_host, unallocated
from pydp.algorithms.registry import Algorithm, alike, register
from pydp.algorithms.runs.request import Heads, explained, launched, prepare, runs_are_counted_first
from pydp.algorithms.scan import scan
from pydp.algorithms.select.policy import SelectSpec
from pydp.algorithms.select.results import trimmed_alike
from pydp.algorithms.sort import argsort, finds_sorted, sort, sort_unless_sorted, sort_with_order
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.data import Array
from pydp.runtime.call import Call
from pydp.runtime.field.construct import field, zeros
from pydp.runtime.memory.host_memory import host_allocation
from pydp.runtime.placement import check_events, normal_input, wait_for_all
from pydp.runtime.recording import recorded
from pydp.tuning.reference import UFUNCS, Expected, host, rounding, wide

__all__ = ["SelectSpec", "reduce_by_key", "run_length_encode", "unique"]


def run_length_encode(
    x: Any,
    *,
    starts: bool = False,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, ...]:
    """Return (values, lengths) of the runs of equal adjacent elements of `x`; with `starts`, also their first indexes.

    x: array of any shape, strides and dtype (NumPy, Field or pyopencl Array); its elements are taken in C order. values
    has the dtype of x (native byte order), lengths and starts have dtype int64. All have rank 1 and the kind of `x`.
    Elements are compared by ``==``: each NaN is a run of its own, and 0.0 equals -0.0. The value is the first element
    of the run.

    count: a device scalar (one int32 or int64) that receives the number of runs. length: only the first `length`
    elements count, see `select`. The length of the results: see `select`. If results for as many runs as elements would
    exceed the device's largest buffer, NumPy arrays are read twice, first to count the runs.
    spec: a :class:`pydp.algorithms.select.policy.SelectSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for invalid arguments, and UnsupportedOnDevice for dtypes that the device does not support,
    before anything is enqueued.

    >>> pydp.run_length_encode(np.array([7, 7, 3, 3, 3, 7]))
    (array([7, 3, 7]), array([2, 3, 1]))

    Source: ``cub::DeviceRunLengthEncode``; D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with Decoupled
    Look-back (2016).
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    results = ("values", "starts", "lengths") if switch(starts, "starts") else ("values", "lengths")
    x = whole(x, length)
    values, *found, total = _with_space_for_runs(x, None, None, None, results, False, count, length, **where)
    return trimmed_alike([values, *reversed(found)], total)


def reduce_by_key(
    keys: Any,
    values: Any,
    op: Any = "+",
    *,
    dtype: Any = None,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, Any]:
    """Reduce `values` within each run of equal adjacent `keys`. Returns (the key of each run, its reduced value).

    keys: array of any shape, strides and dtype; elements are compared by ``==`` and taken in C order. values: array of
    the same shape. Both results have rank 1 and the kind of `keys`. op, dtype: the operator and the dtype of the
    computation and the result, as for `scan`: any associative operator, commutative or not. The bracketing depends only
    on the sizes, the device and the specialization, so float results are bitwise reproducible until the call is tuned.

    count, length, spec, the length of the results, and errors: as for `run_length_encode`.

    >>> pydp.reduce_by_key(np.array([7, 7, 3, 7]), np.array([1, 2, 5, 9]))
    (array([7, 3, 7]), array([3, 5, 9]))

    The first value of each key (``cub::DeviceSelect::UniqueByKey``):

    >>> pydp.reduce_by_key(np.array([7, 7, 3, 7]), np.array([1, 2, 5, 9]), "a")
    (array([7, 3, 7]), array([1, 5, 9]))

    Source: ``cub::DeviceReduce::ReduceByKey``; D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with
    Decoupled Look-back (2016).
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    keys, values = whole(keys, length), whole(values, length)
    results = ("values", "sums")
    unique_keys, sums, total = _with_space_for_runs(keys, values, op, dtype, results, False, count, length, **where)
    found: tuple[Any, Any] = trimmed_alike([unique_keys, sums], total)
    return found


def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the sorted distinct elements of `x`, as ``numpy.unique``.

    x: array of any shape, strides and dtype that `sort` accepts (NumPy, Field or pyopencl Array). The result has rank 1
    and the kind and dtype of `x`. return_index: also the index of the first occurrence of each value. return_inverse:
    also the index into the result for each element, in the shape of `x`. return_counts: also the number of occurrences.
    These have dtype int64, and the result is a tuple in this order. equal_nan: all NaNs count as one value. count:
    a device scalar (one int32 or int64) that receives the number of distinct elements. length: only the first `length`
    elements count, see `select`; the call waits for it, because the sort needs their number, and the inverse has shape
    (length,).

    axis: of an array of rank 2 and more: the distinct slices of `x` along this axis, in lexicographic order. The result
    has the shape of `x` except along the axis, and the other results have rank 1. As in NumPy, a slice with a NaN
    equals no other, and `equal_nan` has no effect. The call sorts once for each element of a slice. Calls on Fields
    wait for the number of slices. `length` is not accepted.

    The length of the results, spec and errors: as for `run_length_encode`. The elements are sorted, and the first
    of each run of equal elements is kept; with return_index or return_inverse, their indexes are sorted, too. On CPUs,
    elements that are sorted already are found by reading them once, and are not sorted again.

    >>> pydp.unique(np.array([3, 1, 3, 2]), return_counts=True)
    (array([1, 2, 3]), array([1, 1, 2]))
    >>> pydp.unique(np.array([[1, 2], [0, 5], [1, 2]]), axis=0)
    array([[0, 5],
           [1, 2]])
    """
    wanted = _wanted(return_index, return_inverse, return_counts)
    index, inverse, _ = wanted
    equal_nan = switch(equal_nan, "equal_nan")
    axis = _axis_of_slices(x, axis)
    if axis is not None:
        return _unique_slices(x, axis, wanted, count, length, wait_for, device, queue, spec)
    x = normal_input("x", whole(x, length))
    if length is not None:
        wait_for_all(check_events(wait_for))
        x = _leading(x, length, device, queue)
    place = {"device": device, "queue": queue}
    where = {**place, "wait_for": None, "spec": spec}
    if spec is not None or count is not None:  # check them before the sort is enqueued
        prepare(Heads(x, None, None, None, ("values",), equal_nan, count, spec), {**place, "wait_for": None})
        refuse_count(placed({"x": x}, device, queue), count)
    if inverse:
        unallocated(x.shape, np.dtype(np.int64))  # raises OutOfResources
    order, unsorted, counters = None, None, None
    sorted_found = not (index or inverse) and finds_sorted(x, **place)
    if sorted_found:
        ordered, counters = sort_unless_sorted(x, wait_for=wait_for, **place)
        unsorted = x
    elif not (index or inverse) or (on_host(x) and needed({**where, "out": None}, x, result=x.size * 24)):
        ordered = sort(x, axis=None, wait_for=wait_for, **place)
        order = argsort(x, axis=None, wait_for=wait_for, **place) if index or inverse else None
    else:
        ordered, order = sort_with_order(x, wait_for=wait_for, **place)
    presorted = (sorted_found, unsorted, counters)
    made = _found_in_order(ordered, order, wanted, equal_nan, count, *presorted, **where)
    if inverse:
        made[1 + index] = made[1 + index].reshape(x.shape)
    return made[0] if len(made) == 1 else tuple(made)


def _axis_of_slices(x: Any, axis: Any) -> int | None:
    """The axis; None for the only one, along which the slices are the elements."""
    if axis is None:
        return None
    rank = normal_input("x", x).ndim
    found = axis_of(axis, rank)
    return None if rank == 1 else found


def _wanted(*options: Any) -> tuple[bool, ...]:
    """The options return_index, return_inverse and return_counts."""
    names = ("return_index", "return_inverse", "return_counts")
    return tuple(switch(value, name) for value, name in zip(options, names, strict=True))


def _found_in_order(
    ordered: Any, order: Any, wanted: tuple[bool, ...], equal_nan: bool, count: Any, *presorted: Any, **where: Any
) -> list[Any]:
    """The results of `unique` from the sorted elements, and from their indexes `order` if wanted results need them."""
    index, inverse, counts = wanted
    results = ("values", "lengths") if counts else ("values",)
    values, *found, total = _with_space_for_runs(
        ordered, None, None, None, results, equal_nan, count, None, *presorted, **where
    )
    if index:
        first = (ordered, order, None, None, ("first values",), equal_nan, None, None)
        firsts, _ = _launched(*first, space=values.size, **where)
        found.insert(0, firsts)
    made = list(trimmed_alike([values, *found], total))
    if inverse:
        ranks, _ = _launched(ordered, order, None, None, ("ranks",), equal_nan, None, None, **where)
        made.insert(1 + index, ranks)
    return made


def _unique_slices(
    x: Any,
    axis: Any,
    wanted: tuple[bool, ...],
    count: Any,
    length: Any,
    wait_for: Any,
    device: Any,
    queue: Any,
    spec: Any,
) -> Any:
    """The result of `unique` along an axis. The slices are sorted as the rows of a matrix; then the distinct ones are
    numbered, and the numbers are runs."""
    place, at, _ = _checked_slices(x, axis, count, length, spec, device, queue)
    where = place.where
    place.after(wait_for)
    (source,) = place.fields()
    axes = (at, *(a for a in range(source.ndim) if a != at))
    n = source.shape[at]
    rows = source.transpose(*axes).reshape(n, source.size // n if n else 0)
    columns = rows.transpose(1, 0).copy()
    keys = [columns[k] for k in reversed(range(columns.shape[0]))]
    with host_allocation():
        order = lexsort(keys, **where) if keys else field(np.arange(n), device=place.device)
    ordered = take(rows, order, axis=0, mode="clip", **where) if n else rows
    differs = reductions.any(ordered[1:] != ordered[:-1], axis=1, **where)
    numbers = concatenate([zeros(min(n, 1), np.int64, device=place.device), scan(differs, "+", **where)], **where)
    how = {**where, "wait_for": None, "spec": spec}
    _, first, *others = _found_in_order(numbers, order, (True, *wanted[1:]), False, count, **how)
    found = take(source, first, axis=at, mode="clip", **where) if n else source.copy()
    return place.returned(found, *([first] if wanted[0] else []), *others)


def _checked_slices(
    x: Any, axis: Any, count: Any, length: Any, spec: Any, device: Any, queue: Any
) -> tuple[Place, int, Heads]:
    """(Where the call runs, the axis, the selection of numbered slices); raises errors before the first launch."""
    if length is not None:
        raise InvalidArgument(f"unique is given axis={shown(axis)} and length; length needs axis=None")
    place = placed({"x": x}, device, queue)
    (array,) = place.arrays
    at = axis_of(axis, len(array.shape))
    explanation_of(sort, unallocated(array.shape[at : at + 1], array.dtype), device=place.device)
    numbers = unallocated(array.shape[at : at + 1], np.dtype(np.int64))
    request = Heads(numbers, None, None, None, ("values",), False, count, spec)
    prepare(request, {**place.where, "wait_for": None})
    refuse_count(place, count)
    return place, at, request


def _with_space_for_runs(
    keys: Any, values: Any, op: Any, dtype: Any, results: tuple[str, ...], equal_nan: bool, *given: Any, **where: Any
) -> Any:
    """The results, and the number of runs. Results have space for as many runs as elements; if that would exceed the
    device's largest buffer, the runs are counted first, and results have space for these."""
    count, length, *ordered = given
    spec, place = where["spec"], {name: value for name, value in where.items() if name != "spec"}
    request = Heads(keys, values, op, dtype, results, equal_nan, count, spec, length, *ordered)
    if not runs_are_counted_first(request, place):
        return _launched(keys, values, op, dtype, results, equal_nan, *given, **where)
    prepare(request, place)  # all checks, before the runs are counted
    (total,) = launched(request._replace(values=None, results=(), count=None), place)
    return launched(request._replace(space=int(total)), place)


@recorded
def _launched(
    keys: Any,
    values: Any,
    op: Any,
    dtype: Any,
    results: tuple[str, ...],
    equal_nan: bool,
    count: Any,
    length: Any,
    sorted_found: bool = False,
    unsorted: Any = None,
    counters: Any = None,
    *,
    space: int | None = None,
    spec: Any,
    **where: Any,
) -> Any:
    """The results, and the number of runs."""
    given = (count, spec, length, sorted_found, unsorted, counters, space)
    return launched(Heads(keys, values, op, dtype, results, equal_nan, *given), where)


def _leading(x: Any, length: Any, device: Any, queue: Any) -> Any:
    """The first `length` elements in C order; waits for a length on the device."""
    if length is None:
        return x
    n = length_on_host(length, x.size)
    if isinstance(x, Array) and not x.flags.c_contiguous:  # pyopencl does not reshape such arrays
        call = Call.begin({"x": x}, device=device, queue=queue)
        source = call.input("x")
        made = call.output(source.shape, source.dtype, "x")
        elementwise.copy(call, source, made)
        x = call.finish(made)
    return x.reshape(x.size)[:n]


# --- explanations and references -----------------------------------------------------------------------------


def _explain_encode(given: Given) -> Explanation:
    results = ("values", "starts", "lengths") if switch(given.starts, "starts") else ("values", "lengths")
    x = whole(given.x, given.length)
    request = Heads(x, None, None, None, results, False, given.count, given.spec, given.length)
    return explained("run_length_encode", request, given.where)


def _explain_reduce(given: Given) -> Explanation:
    results = ("values", "sums")
    keys, values = whole(given.keys, given.length), whole(given.values, given.length)
    how = (given.count, given.spec, given.length)
    request = Heads(keys, values, given.op, given.dtype, results, False, *how)
    return explained("reduce_by_key", request, given.where)


def _explain_unique(given: Given) -> Explanation:
    if _axis_of_slices(given.x, given.axis) is not None:
        return _explain_slices(given)
    results = ("values", "lengths") if switch(given.return_counts, "return_counts") else ("values",)
    equal_nan = switch(given.equal_nan, "equal_nan")
    x = _leading(normal_input("x", whole(given.x, given.length)), given.length, given.device, given.queue)
    moves = given.return_index or given.return_inverse
    sorted_found = not moves and finds_sorted(x, device=given.device, queue=given.queue)
    request = Heads(x, None, None, None, results, equal_nan, given.count, given.spec, finds_sorted=sorted_found)
    found = explained("unique", request, given.where)
    found.choices.insert(0, "the elements are sorted first, see the explanation of sort")
    if sorted_found:
        found.choices.insert(1, "if they are in order already, the selection reads them instead of a sorted copy")
    if moves:
        found.choices.insert(1, "the same sort moves their indexes; other passes select the first ones and the inverse")
    return found


def _explain_slices(given: Given) -> Explanation:
    how = (given.count, given.length, given.spec, given.device, given.queue)
    place, at, request = _checked_slices(given.x, given.axis, *how)
    found = explained("unique", request, {**place.where, "wait_for": None})
    shape = place.arrays[0].shape
    found.title = f"unique of {tuple(shape)} {place.arrays[0].dtype} along axis {at} on {place.device.name}"
    slices, size = shape[at], prod(shape[:at]) * prod(shape[at + 1 :])
    found.choices.insert(0, f"lexsort sorts {slices} slices along axis {at} by their {size} element(s)")
    found.choices.insert(1, "equal neighbours get the same number; the specialization is that of runs of these numbers")
    return found


def _heads(x: np.ndarray) -> np.ndarray:
    """The indexes of the heads of runs."""
    different = np.ones(len(x), bool)
    different[1:] = x[1:] != x[:-1]
    return np.flatnonzero(different)


def _encode_reference(x: Any, *, starts: Any = False) -> list[Expected]:
    x = host(x).reshape(-1)
    heads = _heads(x).astype(np.int64)
    found = [Expected(x[heads]), Expected(np.diff(heads, append=len(x)).astype(np.int64))]
    return [*found, Expected(heads)] if starts else found


def _reduce_reference(keys: Any, values: Any, op: Any = "+") -> list[Expected] | None:
    keys, values = host(keys).reshape(-1), host(values).reshape(-1)
    dtype = np.dtype(np.int64) if values.dtype.kind == "b" and op == "+" else values.dtype
    heads = _heads(keys)
    if not len(keys):
        return [Expected(keys), Expected(values.astype(dtype))]
    right = UFUNCS[op].reduceat(wide(values.astype(dtype)), heads)
    if dtype.kind in "fc" and op == "+":
        return [Expected(keys[heads]), Expected(right.astype(dtype), float(np.max(rounding(values))))]
    return [Expected(keys[heads]), Expected(right.astype(dtype))]


def _unique_reference(
    x: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
) -> list[Expected]:
    x = host(x)
    made = np.unique(x, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    values, *found = made if isinstance(made, tuple) else (made,)
    if return_inverse:
        at = 1 if return_index else 0
        found[at] = found[at].reshape(x.shape if axis is None else -1)
    return [Expected(values), *(Expected(one.astype(np.int64)) for one in found)]


for _function, _explanation, _reference in (
    (run_length_encode, _explain_encode, _encode_reference),
    (unique, _explain_unique, _unique_reference),
):
    register(
        Algorithm(
            _function,
            _explanation,
            _reference,
            sizes=("1048576",),
            dtype="int32",
            dtypes="biufc",
            benchmark="pydp.bench.bench_select",
        )
    )
register(
    Algorithm(
        reduce_by_key,
        _explain_reduce,
        _reduce_reference,
        sizes=("1048576",),
        shapes=alike(2),
        operands=2,
        dtype="int32",
        benchmark="pydp.bench.bench_select",
    )
)
