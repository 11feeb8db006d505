"""``pydp.sort``, ``pydp.argsort``, ``pydp.sort_by_key``: stable merge sorts of any length and dtype, along any axis.

First, a work-item, or a work-group in local memory, sorts each tile. Then passes merge adjacent runs. Each work-item
writes one stretch of the result, and finds its start by binary search (merge path: Green, McColl, Bader 2012).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.algorithms.arguments import by_key
from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.sort.order import Order, order_of, ordering
from pydp.algorithms.sort.policy import FAMILY, SortProblem, SortSpec, needs, passes, skewed
from pydp.dtypes import (
    c_declarations,
    c_name,
    check_computed,
    check_kept_whole,
    check_supported,
    dtype_text,
    is_record,
    lost_in_arrays,
    movable,
)
from pydp.errors import InvalidArgument
from pydp.groups.barrier_plan import build_kernel, describe_barriers
from pydp.model.explanation import Explanation, Given, sources_of
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.reference import Expected, host
from pydp.tuning.shape_class import size_class

__all__ = ["SortSpec", "argsort", "sort", "sort_by_key"]

_POSITION = np.dtype(np.int64)


@recorded
def sort(
    x: Any,
    *,
    axis: int | None = -1,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return a sorted copy of `x`. The sort is stable.

    x: array of any shape, strides and dtype (NumPy, Field or pyopencl array). The result has the same kind.
    axis: the axis to sort along. None sorts the flattened array.
    key: a Python function of one element. The returned values are compared; tuples are compared item by item. For
    records, key may also be the name of a member or a list of names, as NumPy's ``order=``: these members are compared
    first, then the others in their order.
    less: a Python function of two elements (or keys) that returns a bool: True if the first one must come first. It
    must be a strict weak order.
    Without key and less, numbers are sorted as in NumPy (NaN last, complex numbers by real part first), and records are
    compared member by member.
    descending: reverse the order. out: output array of the result's shape and dtype; may be `x` itself. spec: a
    SortSpec, or a mapping of some of its fields.

    Invalid axes, dtypes and functions raise InvalidArgument. Dtypes that the device does not support raise
    UnsupportedOnDevice. All errors are raised before anything is enqueued.

    >>> pydp.sort(np.array([3, 1, 2]))
    array([1, 2, 3])
    >>> pydp.sort(np.array([13, 21, 11]), key=lambda v: (v % 10, -v))
    array([21, 11, 13])

    Source: O. Green, R. McColl and D. Bader, GPU Merge Path (2012).
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    return _single(None, x, axis, key, less, descending, spec, where)


@recorded
def argsort(
    x: Any,
    *,
    axis: int | None = -1,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the indices (int64) that sort `x` along an axis. The sort is stable.

    Arguments and errors are as for `sort`. The result has the shape of the sorted copy; `out` has dtype int64.

    >>> pydp.argsort(np.array([3, 1, 2]))
    array([1, 2, 0])
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    return _single(_POSITION, x, axis, key, less, descending, spec, where)


def _single(
    carried: np.dtype | None, x: Any, axis: Any, key: Any, less: Any, descending: Any, spec: Any, where: dict[str, Any]
) -> Any:
    """Sort `x`, or return the sorting indices if `carried` is their dtype."""
    call, source, _, plan = _prepare({"x": x}, carried, axis, key, less, descending, spec, where)
    result = call.output(plan.order.result_shape, carried or source.dtype)
    _run(call, plan, source, None, *((None, result) if carried else (result, None)))
    return call.finish(result)


@recorded
def sort_by_key(
    keys: Any,
    values: Any,
    *,
    axis: int | None = -1,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, Any]:
    """Sort `keys` and reorder `values` in the same way. Returns (sorted keys, reordered values), both new arrays.

    `values` has the shape of `keys` and any dtype; other shapes raise InvalidArgument. The other arguments and errors
    are as for `sort`.

    >>> pydp.sort_by_key(np.array([3, 1, 2]), np.array([30., 10., 20.]))
    (array([1, 2, 3]), array([10., 20., 30.]))
    """
    arrays, where = {"keys": keys, "values": values}, {"device": device, "queue": queue, "wait_for": wait_for}
    call, source, carried, plan = _prepare(arrays, None, axis, key, less, descending, spec, where)
    assert carried is not None
    sorted_keys = call.output(plan.order.result_shape, source.dtype)
    sorted_values = call.output(plan.order.result_shape, carried.dtype)
    _run(call, plan, source, carried, sorted_keys, sorted_values)
    return call.finish(sorted_keys, sorted_values)


def _prepare(
    arrays: dict[str, Any],
    carried: np.dtype | None,
    axis: Any,
    key: Any,
    less: Any,
    descending: Any,
    spec: Any,
    where: dict[str, Any],
) -> tuple[Call, Operand, Operand | None, _Plan]:
    """Prepare a call or explanation: the call, the elements to sort, the values to reorder, and the plan.

    arrays: x, or keys and values. carried: the dtype of the elements' indices if they are the result.
    """
    call = Call.begin(arrays, **where)
    source, *others = (call.input(name) for name in arrays)
    values = others[0] if others else None
    if values is not None and values.shape != source.shape:
        raise InvalidArgument(f"values has shape {values.shape}; it must have the shape of keys, {source.shape}")
    order, functions = order_of(axis, source, key, less, descending)
    carried = carried if values is None else values.dtype
    plan = _plan(call.device, source.dtype, carried, order, *functions, by_key(spec), values is None)
    return call, source, values, plan


# --- plan ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    order: Order
    dtype: np.dtype
    carried: np.dtype | None
    tile: Kernel | None
    merge: Kernel | None
    choice: Choice | None


@cached_plan
def _plan(
    device: Any,
    dtype: np.dtype,
    carried: np.dtype | None,
    order: Order,
    key: Any,
    less: Any,
    spec: Any,
    positions: bool,
) -> _Plan:
    """key, less and spec come from `by_key`. positions: the carried values are the elements' indices, not an array."""
    check_supported(dtype, device, "sort")
    check_kept_whole(dtype, device)
    if carried is not None:
        check_supported(carried, device, "sort_by_key", storage_only=True)
    how, used, iterations = ordering(dtype, key, less, order.descending)
    check_computed(used, device, "a comparison by key and less")
    call_budget(device.profile.loop_limit, iterations, "a comparison by key and less")
    if not order.n or not order.rows:
        return _Plan(order, dtype, carried, None, None, None)
    words = movable(carried) if carried else None
    problem = SortProblem(
        dtype_text(dtype),
        size_class(order.n),
        size_class(order.rows),
        dtype.itemsize + (carried.itemsize if carried else 0),
        records_lost_in_arrays=any(one is not None and lost_in_arrays(one, device) for one in (dtype, words)),
        iterations=iterations if iterations and device.profile.loop_limit is not None else 0,
    )
    choice = choose(FAMILY, device, problem, spec)
    chosen: SortSpec = choice.spec
    params: dict[str, object] = {
        "declarations": c_declarations([*sorted(used, key=str), *([words] if words else [])]),
        "key": c_name(dtype),
        "ordering": how,
        "carried": c_name(words) if words else None,
        "chains": chosen.chains,
        "scalar": not is_record(dtype),
    }
    tile: dict[str, object] = {**params, "positions": positions}
    if chosen.mapping == "vector":
        tile |= {"run": chosen.run, "small": chosen.small}
        first = kernel(device, "sort_tile_vector.mako", "sort_tile", tile)
    else:
        lanes, items = chosen.lanes, chosen.items
        tile |= {"lanes": lanes, "items": items, "key_skew": skewed(device.profile, chosen, dtype.itemsize).every}
        tile["carried_skew"] = skewed(device.profile, chosen, carried.itemsize).every if carried else 0
        first = build_kernel(
            device,
            "sort_tile_simt.mako",
            "sort_tile",
            tile,
            needs(lanes, items),
            lanes=lanes,
            choice=chosen.barriers,
            subgroup=chosen.subgroup,
        )
    merge = kernel(device, "sort_merge.mako", "sort_merge", params) if order.n > chosen.run else None
    return _Plan(order, dtype, carried, first, merge, choice)


# --- launches --------------------------------------------------------------------------------------------


def _run(
    call: Call, plan: _Plan, source: Operand, values: Operand | None, result: Operand | None, moved: Operand | None
) -> None:
    """Write the sorted keys to `result` and the carried values to `moved`. Either may be None."""
    order = plan.order
    if plan.choice is None or plan.tile is None:
        return
    spec: SortSpec = plan.choice.spec
    widths = passes(order.n, spec.run)
    steps = order.row_step
    start = source
    if steps is None:
        start, steps = _rows_of(call, source, order), (1, order.n)
    given = [source, values]
    keys = _places(call, plan.dtype, len(widths), result, order, given)
    carried = _places(call, plan.carried, len(widths), moved, order, given) if plan.carried else []
    taken = [_rows_of(call, values, order)] if values is not None else []
    offsets = [np.uint64(one.offset) for one in taken]
    per_row = -(-order.n // spec.run)
    lanes = spec.lanes
    call.launch(
        plan.tile,
        (per_row * order.rows * lanes,),
        (lanes,),
        start,
        np.uint64(start.offset),
        np.int64(steps[0]),
        np.int64(steps[1]),
        keys[0],
        np.uint64(order.n),
        np.uint64(per_row),
        *taken,
        *offsets,
        *carried[:1],
    )
    for place, width in enumerate(widths):
        assert plan.merge is not None
        stretch = min(spec.stretch, 2 * width)
        per_row = -(-order.n // stretch)
        work = per_row * order.rows
        tail = [carried[place], carried[place + 1]] if carried else []
        call.launch(
            plan.merge,
            (-(-work // lanes) * lanes,),
            (lanes,),
            keys[place],
            keys[place + 1],
            np.uint64(order.n),
            np.uint64(width),
            np.uint64(stretch),
            np.uint64(per_row),
            np.uint64(work),
            *tail,
        )
    for target, places in ((result, keys), (moved, carried)):
        if target is not None and places[-1].buffer is not target.buffer:
            to = _moved(target, order)
            call.copy(places[-1].view(to.shape, c_strides(to.shape)), to)


def _places(
    call: Call, dtype: np.dtype, merges: int, result: Operand | None, order: Order, inputs: list[Operand | None]
) -> list[Operand]:
    """The buffer that each pass writes. The last one is the result itself if its layout allows it."""
    direct = (
        result is not None
        and order.rows_in_place
        and result.is_contiguous
        and result.offset == 0
        and not any(call.overlaps(given, result) for given in inputs if given is not None)
    )
    shape = (order.rows * order.n,)
    last = result if direct and result is not None else call.temporary(shape, dtype)
    other = call.temporary(shape, dtype) if merges else last
    return [last if (merges - place) % 2 == 0 else other for place in range(merges + 1)]


def _rows_of(call: Call, values: Operand, order: Order) -> Operand:
    """The elements with contiguous rows."""
    return call.contiguous(_moved(values, order))


def _moved(operand: Operand, order: Order) -> Operand:
    """The same elements with the sorted axis last."""
    if order.axis is None or order.rows_in_place:
        return operand
    axes = [a for a in range(len(order.shape)) if a != order.axis] + [order.axis]
    shape, strides = (tuple(given[a] for a in axes) for given in (operand.shape, operand.strides))
    return operand.view(shape, strides)


def _explain(which: str, given: Given) -> Explanation:
    """Explain a call of the function named `which`."""
    arrays = {name: value for name, value in vars(given).items() if name in ("x", "keys", "values")}
    carried = _POSITION if which == "argsort" else None
    call, source, _, plan = _prepare(
        arrays, carried, given.axis, given.key, given.less, given.descending, given.spec, given.where
    )
    order = plan.order
    if which != "sort_by_key" and given.out is not None:
        call.output(order.result_shape, carried or source.dtype)  # validates out
    facts: dict[str, object] = {
        "device": call.device.name,
        "rows": order.rows,
        "elements of a row": order.n,
        "type": str(source.dtype),
    }
    if plan.choice is None or plan.tile is None:
        return Explanation(which, facts, ["nothing to sort: no kernel"], {})
    chosen = plan.choice.spec
    facts["specialization"] = chosen
    merges = len(passes(order.n, chosen.run))
    choices = [plan.choice.reason, f"runs of {chosen.run} are sorted first, then {merges} pass(es) merge them"]
    if chosen.mapping == "simt":
        choices.append(f"keys in local memory: {skewed(call.device.profile, chosen, source.dtype.itemsize).reason}")
    choices += describe_barriers(plan.tile)
    if order.row_step is None:
        choices.append("the rows have no single stride: they are first copied to a contiguous array")
    if not order.rows_in_place:
        choices.append("the sorted axis is not the last one: sorted rows are copied to the result")
    kernels = [plan.tile, *([plan.merge] if plan.merge else [])]
    return Explanation(which, facts, choices, sources_of(kernels))


def _sort_reference(x: Any, *, axis: Any = -1) -> list[Expected]:
    return [Expected(np.sort(host(x), axis=axis, kind="stable"))]


def _argsort_reference(x: Any, *, axis: Any = -1) -> list[Expected]:
    return [Expected(np.argsort(host(x), axis=axis, kind="stable").astype(np.int64))]


def _sort_by_key_reference(keys: Any, values: Any, *, axis: Any = -1) -> list[Expected]:
    keys, values = host(keys), host(values)
    if axis is None:
        keys, values, axis = keys.reshape(-1), values.reshape(-1), 0
    order = np.argsort(keys, axis=axis, kind="stable")
    return [Expected(np.take_along_axis(one, order, axis)) for one in (keys, values)]


register(
    Algorithm(
        sort,
        functools.partial(_explain, "sort"),
        _sort_reference,
        sizes=("65536", "1048576"),
        dtype="int32",
        numbers="spread",
        benchmark="pydp.bench.bench_sort",
    )
)
register(
    Algorithm(
        argsort,
        functools.partial(_explain, "argsort"),
        _argsort_reference,
        sizes=("1048576",),
        dtype="int32",
        numbers="spread",
    )
)
register(
    Algorithm(
        sort_by_key,
        functools.partial(_explain, "sort_by_key"),
        _sort_by_key_reference,
        sizes=("1048576",),
        shapes=lambda size: [size, size],
        operands=2,
        dtype="int32",
        numbers="spread",
    )
)
