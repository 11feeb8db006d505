"""``pydp.top_k``: the largest or smallest elements along an axis.

On CPUs, it reads its input once: each work-item takes a threshold from a sample of its part and keeps candidates that
may be among the k best; the candidates are sorted. On GPUs, radix select finds the k-th best element (see
`pydp.algorithms.partition.ranks`), one more pass selects the k best ones, and these are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, integer, switch
from pydp.algorithms.composed import axis_last, delivered_rows, explanation_of, placed, rows_of_result, take_rows
from pydp.algorithms.partition.policy import PartitionProblem
from pydp.algorithms.partition.policy import default as default_partition
from pydp.algorithms.partition.ranks import RankSelect
from pydp.algorithms.registry import Algorithm, Shape, register
from pydp.algorithms.sort import argsort
from pydp.algorithms.top_k.policy import FAMILY, TopKProblem, TopKSpec, capacity_of, parts_of, sample_of
from pydp.dtypes import c_declarations, c_name, check_kept_whole, check_supported, dtype_text
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input
from pydp.runtime.programs.program import Kernel, kernel
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.reference import Expected, host

__all__ = ["TopKSpec", "top_k"]


def top_k(
    x: Any,
    k: int,
    axis: int | None = -1,
    largest: bool = True,
    *,
    key: Any = None,
    less: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, Any]:
    """Return (the k largest elements along an axis, their indexes), the largest first.

    x: array of any shape, strides and dtype that `sort` accepts (NumPy, Field or pyopencl Array). Both results have the
    shape of `x` with k elements along the axis, and its kind; the indexes have dtype int64.
    axis: with None, the results have shape (k,) and the indexes are those of the flattened array. largest: False
    returns the smallest elements, the smallest first. Elements are ordered as by `sort`: NaN is the largest. Of equal
    elements (-0.0 equals 0.0), those of lower indexes come first and are preferred.
    key, less: another order, as for `sort`; all elements are then sorted.
    spec: a :class:`pydp.algorithms.top_k.policy.TopKSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for k below 0 or above the length of the axis and for an invalid axis or function, and
    UnsupportedOnDevice for dtypes and functions that the device does not support, before anything is enqueued.

    >>> pydp.top_k(np.array([3, 9, 1, 9, 4]), 3)
    (array([9, 9, 4]), array([1, 3, 4]))
    >>> pydp.top_k(np.array([3, 9, 1, 9, 4]), 2, largest=False)
    (array([1, 3]), array([2, 0]))
    >>> pydp.top_k(np.array([3, -9, 1, 8]), 2, key="abs(x)")
    (array([-9,  8]), array([1, 3]))

    Sources: ``torch.topk``, ``jax.lax.top_k`` and ``cub::DeviceTopK`` (the function); radix select on GPUs: J. Zhang et
    al., Parallel Top-K Algorithms on GPU: A Comprehensive Study and New Methods (2023), section 3.
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    request = _request(x, k, axis, largest, key, less)
    place = placed({"x": request.x}, device, queue)
    plan = _plan_of(place.device, request.dtype, request.problem, request.largest, by_key(spec))
    how = {"axis": request.axis, "descending": request.largest, **request.order}
    if request.order:
        explanation_of(argsort, request.x, **how, device=place.device)  # raises its errors
    later = {**where, "wait_for": None}
    place.after(wait_for)
    if plan.ranks is not None:
        keys, indexes = _selected(request.x, request.k, request.axis, request.largest, **where, spec=spec)
        order = argsort(keys, descending=request.largest, **later)
        found = _best(keys, indexes, order, request.k, request.x.shape, request.axis, **later)
    elif plan.kernel is None:
        source = place.field(request.x)
        order = argsort(source, **how, **place.where, wait_for=wait_for)
        found = place.returned(*_first(source, order, request.k, request.axis, **place.where, wait_for=None))
    else:
        ranks, indexes, keys = _candidates(request.x, request.k, request.axis, request.largest, **where, spec=spec)
        order = argsort(ranks, descending=True, **later)
        found = _best(keys, indexes, order, request.k, request.x.shape, request.axis, **later)
    values, places = found
    return values, places


class _Request(NamedTuple):
    """Checked arguments; axis None: all elements are one row. order: key and less, if any is given."""

    x: Any
    k: int
    axis: int | None
    largest: bool
    dtype: np.dtype
    problem: TopKProblem
    order: dict[str, Any]


def _request(x: Any, k: Any, axis: Any, largest: Any, key: Any = None, less: Any = None) -> _Request:
    x = normal_input("x", x)
    if axis is not None:
        axis = axis_of(axis, x.ndim)
    n = x.size if axis is None else x.shape[axis]
    try:
        wanted = integer(k)
    except TypeError:
        wanted = -1
    if not 0 <= wanted <= n:
        raise InvalidArgument(
            f"k is {shown(k)}; integers from 0 to {n}, the number of elements along the axis, are accepted"
        )
    dtype = np.dtype(x.dtype).newbyteorder("=")
    order = {} if key is None is less else {"key": key, "less": less}
    numbers = dtype.kind in "biuf" and not order
    problem = TopKProblem(dtype_text(dtype), n, wanted, x.size // n if n else 0, numbers)
    return _Request(x, wanted, axis, switch(largest, "largest"), dtype, problem, order)


@dataclass(frozen=True)
class _Plan:
    """kernel: of the filter. ranks: the kernels of radix select. Neither: all elements are sorted. rank: dtype of the
    ranks (filter)."""

    kernel: Kernel | None
    choice: Choice
    parts: int
    capacity: int
    rank: np.dtype
    ranks: RankSelect | None = None


@cached_plan
def _plan_of(device: Any, dtype: np.dtype, problem: TopKProblem, largest: bool, spec: Any) -> _Plan:
    check_supported(dtype, device, "x")
    check_kept_whole(dtype, device)
    choice = choose(FAMILY, device, problem, spec)
    bits = 8 * dtype.itemsize
    rank = np.dtype(np.uint64 if bits == 64 else np.uint32)
    if choice.spec.strategy == "sort" or not problem.k or not problem.rows:
        return _Plan(None, choice, 1, 0, rank)
    if choice.spec.strategy == "select":
        part = PartitionProblem(problem.dtype, problem.n, problem.rows)
        select = replace(
            default_partition(device.profile, part), strategy="select", mapping=choice.spec.mapping,
            barriers=choice.spec.barriers, subgroup=choice.spec.subgroup,
        )  # fmt: skip
        ranks = RankSelect(
            device, select, dtype, (problem.rows, problem.n), descending=largest, kept=problem.k, indexes=True,
        )  # fmt: skip
        return _Plan(None, choice, 1, 0, rank, ranks)
    params = {
        "key": c_name(np.dtype(f"u{dtype.itemsize}")),
        "kind": "u" if dtype.kind == "b" else dtype.kind,
        "key_bits": bits,
        "descending": not largest,
        "rank_window": None,
        "index": "uint" if problem.n < 1 << 31 else "ulong",
        "block": choice.spec.block,
        "native": None if dtype == np.float16 else c_name(dtype),
        "mask_words": 2 * dtype.itemsize,
        "prefetch": device.profile.prefetches_beside_work,
    }
    params["declarations"] = c_declarations([dtype])
    made = kernel(device, "top_k_vector.mako", "top_k_candidates", params)
    parts = parts_of(choice.spec, problem, device.profile.compute_units)
    return _Plan(made, choice, parts, capacity_of(choice.spec, problem, parts), rank)


@recorded
def _candidates(x: Any, k: int, axis: int | None, largest: bool, *, spec: Any, **where: Any) -> Any:
    """(ranks, indexes, elements) of the k best elements of each part, as matrices with a row for each row of x."""
    request = _request(x, k, axis, largest)
    call = Call.begin({"x": x}, outputs=3, **where)
    source = call.input("x")
    plan = _plan_of(call.device, request.dtype, request.problem, largest, by_key(spec))
    n, rows, parts = request.problem.n, request.problem.rows, plan.parts
    shape = (rows, parts * k)
    ranks, indexes = call.output(shape, plan.rank), call.output(shape, np.int64)
    keys = call.output(shape, request.dtype)
    source = call.contiguous(axis_last(source, axis))
    items = rows * parts
    buffers = [call.scratch(items * plan.capacity * size) for size in (plan.rank.itemsize, 4 if n < 1 << 31 else 8)]
    call.launch(
        plan.kernel, (items,), (1,), source, np.int64(source.offset), np.int64(n), np.int64(n), np.int32(parts),
        np.int32(k), np.int32(plan.capacity), np.int32(sample_of(request.problem, parts)), *buffers,
        ranks, np.int64(ranks.offset), indexes,
        np.int64(indexes.offset), keys, np.int64(keys.offset),
    )  # fmt: skip
    return call.finish(ranks, indexes, keys)


@recorded
def _selected(x: Any, k: int, axis: int | None, largest: bool, *, spec: Any, **where: Any) -> Any:
    """(elements, indexes) of the k best elements of each row of x: first those that are better than the k-th best, then
    those that are equal to it, each in the order of their indexes."""
    request = _request(x, k, axis, largest)
    call = Call.begin({"x": x}, outputs=2, **where)
    source = call.input("x")
    plan = _plan_of(call.device, request.dtype, request.problem, largest, by_key(spec))
    assert plan.ranks is not None
    shape = (request.problem.rows, k)
    keys, indexes = call.output(shape, request.dtype, "elements"), call.output(shape, np.int64, "indexes")
    plan.ranks.run(call, k - 1, call.contiguous(axis_last(source, axis)), keys, indexes)
    return call.finish(keys, indexes)


@recorded
def _best(keys: Any, indexes: Any, order: Any, k: int, shape: tuple[int, ...], axis: int | None, **where: Any) -> Any:
    """The k best candidates of each row: the elements and their indexes."""
    call = Call.begin({"keys": keys, "indexes": indexes, "order": order}, outputs=2, **where)
    places = call.input("order")
    results = []
    for name in ("keys", "indexes"):
        source = call.input(name)
        result, rows = rows_of_result(call, shape, axis, k, source.dtype)
        take_rows(call, source, places, rows)
        delivered_rows(call, rows, result, axis)
        results.append(result)
    return call.finish(*results)


@recorded
def _first(x: Any, order: Any, k: int, axis: int | None, **where: Any) -> Any:
    """The first k elements of each row of x in an order, and their indexes."""
    call = Call.begin({"x": x, "order": order}, outputs=2, **where)
    source, places = call.input("x"), call.input("order")
    shape = source.shape
    rows = []
    for one in (source, places):
        moved = call.contiguous(axis_last(one, axis if one is source or axis is not None else None))
        n = moved.size if axis is None else shape[axis]
        rows.append(moved.view((moved.size // n if n else 0, n), (n, 1)))
    results = []
    for one in (source, places):
        result, target = rows_of_result(call, shape, axis, k, one.dtype)
        if one is source:
            take_rows(call, rows[0], rows[1], target)
        elif target.size:
            call.copy(rows[1].view(target.shape, rows[1].strides), target)
        delivered_rows(call, target, result, axis)
        results.append(result)
    return call.finish(*results)


def _explain_top(g: Given) -> Explanation:
    request = _request(g.x, g.k, g.axis, g.largest, g.key, g.less)
    place = placed({"x": request.x}, g.device, g.queue)
    plan = _plan_of(place.device, request.dtype, request.problem, request.largest, by_key(g.spec))
    spec, problem = plan.choice.spec, request.problem
    title = f"top_k: {request.k} of {problem.n} {request.dtype} in {problem.rows} row(s) on {place.device.name}"
    choices = [f"{plan.choice.source}: {plan.choice.reason}"]
    facts: dict[str, object] = {"device": place.device.name, "specialization": spec}
    if plan.ranks is not None:
        choices += [*plan.ranks.describe(), "argsort sorts the selected elements"]
        kernels = plan.ranks.all_kernels()
        return Explanation(title, facts, choices, {purpose: one.source for purpose, one in kernels.items()})
    if plan.kernel is None:
        how = {"axis": request.axis, "descending": request.largest, **request.order}
        by_sort = explanation_of(argsort, request.x, **how, device=place.device, queue=g.queue)
        choices += ["all elements are sorted by argsort; the first ones are the result", *by_sort.choices]
        return Explanation(title, facts, choices, by_sort.sources)
    choices.append(
        f"each row has {plan.parts} part(s); a work-item reads a sample of a part, then the part once, and keeps "
        f"the {request.k} best elements; "
        "argsort sorts the elements of all parts"
    )
    return Explanation(title, facts, choices, {plan.kernel.name: plan.kernel.source})


def _top_reference(x: Any, k: Any = 1, axis: Any = -1, largest: Any = True) -> list[Expected]:
    x = host(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    if largest:  # the last of equal elements of the reversed array is the first one
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(int(k)), axis).astype(np.int64)
    return [Expected(np.take_along_axis(x, order, axis)), Expected(order)]


def _any_size(size: Shape) -> list[Shape] | None:
    return [size]


register(
    Algorithm(
        top_k,
        _explain_top,
        _top_reference,
        sizes=("16777216",),
        shapes=_any_size,
        dtypes="biuf",
        numbers="spread",
        options={"k": 32},
        benchmark="pydp.bench.bench_top_k",
    )
)
