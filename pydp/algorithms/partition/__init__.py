"""``pydp.partition`` and ``argpartition``: parts of an array by conditions, or by positions in its sorted order.

Partitions by conditions run the kernels of `select`. For one position, radix select finds the element that a sort would
put there (`ranks`), and the kernels of `select` store the smaller, the equal and the larger elements. Partitions at
several positions, and of elements whose bits do not order them, sort all elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, integer
from pydp.algorithms.composed import axis_last, delivered_rows, rows_of_result
from pydp.algorithms.partition.policy import FAMILY, PartitionProblem, PartitionSpec
from pydp.algorithms.partition.ranks import RankSelect
from pydp.algorithms.pieces import needed
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.select import divided, explain_selection, kept_by
from pydp.algorithms.sort import argsort, sort
from pydp.dtypes import check_kept_whole, check_supported, dtype_text
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given, given
from pydp.runtime.arrays.data import Array, FieldData
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.reference import Expected, host

__all__ = ["PartitionSpec", "argpartition", "partition"]

_INDEX = np.dtype(np.int64)


def partition(
    x: Any,
    predicate: Any = None,
    axis: int | None = -1,
    *,
    kth: Any = None,
    mask: Any = None,
    second: Any = None,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return (the elements of `x` that meet a condition, followed by the others; the number of the former).

    Both parts keep their order (``cub::DevicePartition`` reverses the second one). The array has rank 1 and the size,
    kind and dtype (in native byte order) of `x`. The number is an int for NumPy arrays, else a Field or pyopencl Array
    of rank 0 and dtype int64; the call then does not wait.

    second: another predicate, in the form of the first. The result is then (the elements that meet `predicate`, those
    that meet only `second`, the others; the number of the first ones; the number of the second ones), as of
    ``cub::DevicePartition::If`` with two conditions. It cannot be combined with mask.

    The arguments and errors are as for `select`. A part begins where the previous one ends, so its position depends on
    all elements: they are counted first, then stored. With two and with three parts, they are read twice and written
    once. With `length`, the result still has the size of `x`. Its elements from `length` on are copied from `x` (NumPy
    arrays) or uninitialized (Fields, pyopencl Arrays).

    kth: an integer or a sequence of integers; the second argument may be one, too. The result is then a copy of `x`
    that is partitioned along `axis` at its k-th smallest elements, as ``numpy.partition`` (axis=None: the elements in C
    order): the element at each position is the one that a sort would put there, no element before it is larger, and
    none after it is smaller.
    axis applies to such calls only; mask, second, count and length apply to the others.
    spec: a :class:`pydp.algorithms.select.policy.SelectSpec` for conditions, a
    :class:`pydp.algorithms.partition.policy.PartitionSpec` for positions, or a mapping of some of its fields.
    For one position, the smaller, the equal and the larger elements keep their order. For several positions, and for
    dtypes that are not bool, integers or floats, all elements are sorted, which is a partition at every position.

    >>> pydp.partition(np.array([3, -1, 4, 0, 5]), "x > 0")
    (array([ 3,  4,  5, -1,  0]), 3)
    >>> pydp.partition(np.array([3, -1, 4, 0, 5]), "x > 3", second="x < 0")
    (array([ 4,  5, -1,  3,  0]), 2, 1)
    >>> pydp.partition(np.array([3, -1, 4, 0, 5]), 2)
    array([-1,  0,  3,  4,  5])

    Sources: by conditions, see `select`; at a position: J. Zhang et al., Parallel Top-K Algorithms on GPU: A
    Comprehensive Study and New Methods (2023), section 3.
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    predicate = _one_of(predicate, kth)
    wait_on_host(wait_for, predicate)
    if not _is_position(predicate):
        if not (isinstance(axis, (int, np.integer)) and axis == -1):
            raise InvalidArgument(f"axis is {shown(axis)}; with a predicate or a mask, partition accepts no axis")
        return divided(x, predicate, mask, second, count, length, {**where, "spec": spec})
    return _partitioned(False, _at_positions(x, predicate, mask, count, length, second), predicate, axis, spec, where)


def argpartition(
    x: Any,
    kth: Any,
    axis: int | None = -1,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return indexes (int64) that partition `x` along an axis at its k-th smallest elements, as ``numpy.argpartition``.

    x: array of any shape, strides and dtype that `sort` accepts. kth: an integer or a sequence of integers, the
    positions of elements in the sorted array; negative ones count from the end. axis: None partitions the elements in C
    order.
    spec: a :class:`pydp.algorithms.partition.policy.PartitionSpec`, or a mapping of some of its fields.

    The indexes of the smaller, of the equal and of the larger elements are each in ascending order. For several
    positions, and for dtypes that are not bool, integers or floats, the result is that of `argsort`. Raises
    InvalidArgument for positions out of range, and the errors of `argsort`. Source: see `partition`.

    >>> pydp.argpartition(np.array([3, 1, 2]), 1)
    array([1, 2, 0])
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    wait_on_host(wait_for, kth)
    return _partitioned(True, normal_input("x", x), kth, axis, spec, where)


def _one_of(predicate: Any, kth: Any) -> Any:
    """The predicate, or the position, which may be given by its name in NumPy."""
    if kth is None:
        return predicate
    if predicate is not None:
        raise InvalidArgument(
            f"partition is given the predicate {shown(predicate)} and kth={shown(kth)}; one of them is accepted"
        )
    if not _is_position(kth):
        raise InvalidArgument(f"kth is {shown(kth)}; an integer or a sequence of integers is accepted")
    return kth


def _is_position(predicate: Any) -> bool:
    """Whether the argument is one or several positions of ``numpy.partition``."""
    if isinstance(predicate, (list, tuple, np.ndarray)):
        return True
    if isinstance(predicate, (FieldData, Array)):
        raise InvalidArgument(
            f"the second argument is a {type(predicate).__name__}; a predicate is accepted, or an integer, a "
            "sequence or a NumPy array of integers (positions on the host)"
        )
    try:
        integer(predicate)
    except TypeError:
        return False
    return True


def _at_positions(x: Any, kth: Any, mask: Any, count: Any, length: Any, second: Any) -> Any:
    """x as an array, if the arguments of a partition at positions are right."""
    if any(one is not None for one in (mask, count, length, second)):
        raise InvalidArgument(
            f"mask, second, count and length cannot be combined with the position {shown(kth)}; None is accepted "
            "with it"
        )
    return normal_input("x", x)


def _positions_of(kth: Any, x: Any, axis: Any) -> tuple[int, ...]:
    """The positions where `x` is partitioned along an axis; none if `x` is empty. Raises InvalidArgument for positions
    out of range."""
    n = x.size if axis is None else x.shape[axis_of(axis, x.ndim)]
    given = kth.reshape(-1).tolist() if isinstance(kth, np.ndarray) else kth
    try:
        found = tuple(map(integer, given if isinstance(given, (list, tuple)) else [given]))
    except TypeError:
        raise InvalidArgument(f"kth is {shown(kth)}; an integer or a sequence of integers is accepted") from None
    if not x.size:  # as in NumPy, any position
        return ()
    for one in found:
        if not -n <= one < n:
            raise InvalidArgument(f"kth is {one}; {-n} to {n - 1} are accepted for {n} elements along the axis")
    return found


# --- positions -----------------------------------------------------------------------------------------------


class _Request(NamedTuple):
    """Checked arguments. k: the position, if there is only one. axis None: all elements are one row."""

    x: Any
    k: int
    axis: int | None
    dtype: np.dtype
    problem: PartitionProblem


def _request(indexes: bool, x: Any, kth: Any, axis: Any) -> _Request:
    positions = _positions_of(kth, x, axis)
    axis = None if axis is None else axis_of(axis, x.ndim)
    n = x.size if axis is None else x.shape[axis]
    found = sorted({one % n for one in positions}) if n else []
    dtype = np.dtype(x.dtype).newbyteorder("=")
    numbers = dtype.kind in "biuf" and dtype.itemsize <= 8
    rows = x.size // n if n else 0
    problem = PartitionProblem(dtype_text(dtype), n, rows, len(found), numbers, indexes)
    return _Request(x, found[0] if found else 0, axis, dtype, problem)


def _partitioned(indexes: bool, x: Any, kth: Any, axis: Any, spec: Any, where: dict[str, Any]) -> Any:
    """The elements of `x`, or their indexes, partitioned at positions."""
    request = _request(indexes, x, kth, axis)
    if not _in_pieces(request, where):
        place = {name: where[name] for name in ("device", "queue")} | {"wait_for": None}
        device = Call.begin({"x": x}, **place).device
        if _plan_of(device, request.dtype, request.problem, by_key(spec)).parts is not None:
            return _divided_rows(indexes, x, kth, axis, **where, spec=spec)
    return (argsort if indexes else sort)(x, axis=axis, **where)


def _in_pieces(request: _Request, where: dict[str, Any]) -> bool:
    """Whether the array is larger, or has a larger result, than the device's largest buffer: it is sorted in pieces."""
    x = request.x
    result = x.size * _INDEX.itemsize if request.problem.indexes and isinstance(x, np.ndarray) else 0
    return needed(where, x, result=result)


class _Plan(NamedTuple):
    """parts: None if all elements are sorted."""

    choice: Choice
    parts: RankSelect | None


@cached_plan
def _plan_of(device: Any, dtype: np.dtype, problem: PartitionProblem, spec: Any) -> _Plan:
    check_supported(dtype, device, "x")
    check_kept_whole(dtype, device)
    choice = choose(FAMILY, device, problem, spec)
    if choice.spec.strategy == "sort" or not problem.n or not problem.rows:
        return _Plan(choice, None)
    shape, indexes = (problem.rows, problem.n), problem.indexes
    return _Plan(choice, RankSelect(device, choice.spec, dtype, shape, elements=not indexes, indexes=indexes))


@recorded
def _divided_rows(indexes: bool, x: Any, kth: Any, axis: int | None, *, spec: Any, **where: Any) -> Any:
    """Enqueue radix select and the selection of the three parts."""
    request = _request(indexes, x, kth, axis)
    call = Call.begin({"x": x}, **where)
    source = call.input("x")
    plan = _plan_of(call.device, request.dtype, request.problem, by_key(spec))
    assert plan.parts is not None
    rows = call.contiguous(axis_last(source, request.axis))
    dtype = _INDEX if indexes else request.dtype
    result, target = rows_of_result(call, source.shape, request.axis, request.problem.n, dtype)
    plan.parts.run(call, request.k, rows, target)
    delivered_rows(call, target, result, request.axis)
    return call.finish(result)


# --- explanations and references -----------------------------------------------------------------------------


def _explain_partition(g: Given) -> Explanation:
    predicate = _one_of(g.predicate, g.kth)
    if not _is_position(predicate):
        return explain_selection("partition", g)
    x = _at_positions(g.x, predicate, g.mask, g.count, g.length, g.second)
    return _explain(False, x, predicate, g)


def _explain_indexes(g: Given) -> Explanation:
    return _explain(True, normal_input("x", g.x), g.kth, g)


def _explain(indexes: bool, x: Any, kth: Any, g: Given) -> Explanation:
    request, name = _request(indexes, x, kth, g.axis), "argpartition" if indexes else "partition"
    where = {"device": g.device, "queue": g.queue, "wait_for": g.wait_for}
    plan = None
    if not _in_pieces(request, where):
        device = Call.begin({"x": x}, **where).device
        plan = _plan_of(device, request.dtype, request.problem, by_key(g.spec))
        if plan.parts is not None:
            facts = {"device": device.name, "specialization": plan.choice.spec}
            title = (
                f"{name}: position {request.k} of {request.problem.n} {request.dtype} in {request.problem.rows} row(s)"
            )
            choices = [f"{plan.choice.source}: {plan.choice.reason}", *plan.parts.describe()]
            sources = {purpose: one.source for purpose, one in plan.parts.all_kernels().items()}
            return Explanation(f"{title} on {device.name}", facts, choices, sources)
    sorts = argsort if indexes else sort
    found: Explanation = sorts.__pydp_explain__(given(sorts, (x,), {"axis": g.axis, **where}))
    found.choices.insert(0, "all elements are sorted, which is a partition at every position")
    if plan is not None:
        found.choices.insert(0, f"{plan.choice.source}: {plan.choice.reason}")
    return found


def _partition_reference(x: Any, predicate: Any = "x > 0", *, mask: Any = None) -> list[Expected] | None:
    x = host(x).reshape(-1)
    kept = kept_by(x, predicate, mask)
    if kept is None:
        return None
    return [Expected(np.concatenate([x[kept], x[~kept]])), Expected(np.array(np.count_nonzero(kept)))]


def _indexes_reference(x: Any, kth: Any = 0, axis: Any = -1) -> list[Expected] | None:
    x = host(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    if x.dtype.kind not in "biuf" or np.ndim(kth):
        return None
    order = np.argsort(x, axis=axis, kind="stable")
    at = np.take_along_axis(x, np.take(order, [int(kth)], axis), axis)
    smaller = (x < at) | ((x == x) & (at != at))
    larger = (x > at) | ((x != x) & (at == at))
    places = np.moveaxis(np.broadcast_to(np.arange(x.shape[axis]), np.moveaxis(x, axis, -1).shape), -1, axis)
    k = range(x.shape[axis])[int(kth)]

    def wrong(indexes: np.ndarray) -> np.ndarray:
        if not np.array_equal(np.sort(indexes, axis=axis), places):
            return np.ones(indexes.shape, bool)
        before, after = (np.take_along_axis(one, indexes, axis) for one in (smaller, larger))
        found: np.ndarray = ((places >= k) & before) | ((places <= k) & after)
        return found

    return [Expected(order.astype(np.int64), wrong=wrong)]


register(
    Algorithm(
        partition,
        _explain_partition,
        _partition_reference,
        sizes=("1048576",),
        dtypes="biuf",
        options={"predicate": "x > 0"},
        benchmark="pydp.bench.bench_select",
    )
)
register(
    Algorithm(
        argpartition,
        _explain_indexes,
        _indexes_reference,
        sizes=("1048576",),
        dtype="int32",
        dtypes="biuf",
        numbers="spread",
        options={"kth": 30},
        benchmark="pydp.bench.bench_top_k",
    )
)
