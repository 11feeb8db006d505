"""``pydp.sort``, ``pydp.argsort``, ``pydp.sort_by_key``: stable sorts of any length and dtype, along any axis.

Keys of up to 64 bits are sorted by radix: on CPUs by `radix`, on GPUs by `onesweep`. Other keys, and short rows on
GPUs, are sorted by merging (`merge`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, is_only_axis, switch
from pydp.algorithms.pieces import (
    after_events,
    buffer_limit,
    contiguous,
    delivered,
    explaining_pieces,
    needed,
    on_host,
    target_of,
    unallocated,
)
from pydp.algorithms.registry import Algorithm, alike, register
from pydp.algorithms.sort.merge import Merge, merging
from pydp.algorithms.sort.onesweep import Onesweep, onesweep
from pydp.algorithms.sort.onesweep_policy import STRATEGIES
from pydp.algorithms.sort.order import Comparison, Order, order_of, ordering
from pydp.algorithms.sort.policy import FAMILY
from pydp.algorithms.sort.radix import STATE_WORDS, Radix, element_bytes, radix
from pydp.algorithms.sort.radix_policy import RADIX_ELEMENTS
from pydp.algorithms.sort.spec import SortProblem, SortSpec
from pydp.algorithms.sort.stream import Sorters, scratch_bytes, sort_in_pieces
from pydp.dtypes import check_kept_whole, check_supported, dtype_text, lost_in_arrays, movable, native
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given, sources_of
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.reference import Expected, host
from pydp.tuning.shape_class import size_class

__all__ = ["SortSpec", "argsort", "sort", "sort_by_key"]

_POSITION = np.dtype(np.int64)
_KINDS = ("quicksort", "mergesort", "heapsort", "stable")  # values of NumPy's kind=


class Request(NamedTuple):
    """The arguments of a sort other than the arrays and the device."""

    axis: Any
    key: Any = None
    less: Any = None
    descending: Any = False
    bits: Any = None
    spec: Any = None


@recorded
def sort(
    x: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    bits: tuple[int, int] | None = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return a sorted copy of `x`. The sort is stable.

    x: array of any shape, strides and dtype (NumPy, Field or pyopencl array). The result has the same kind.
    axis: the axis to sort along. None sorts the flattened array. kind, stable: NumPy's names of algorithms, and a bool;
    they change nothing, because all sorts are stable.
    key: a Python function of one element, or an OpenCL C expression in ``x``, such as "-x" or "x.re". Its values are
    compared; tuples are compared item by item. For records, key may also be the name of a member or a list of names, as
    NumPy's ``order=``: these members are compared first, then the others in their order.
    less: a Python function of two elements (or keys) that returns a bool, or an expression in ``a`` and ``b`` that is a
    comparison ("a > b"), comparisons joined by ``&& || !``, or a choice between such conditions by ``?:``. True if the
    first one must come first. It must be a strict weak order.
    Without key and less, numbers are sorted as in NumPy (NaN last, complex numbers by real part first), and records are
    compared member by member.
    descending: the largest element first, NaN before it; equal elements keep their order.
    bits: (low, end): compare the bits low .. end - 1 of integer keys only, as CUB's begin_bit and end_bit. Bit 0 is the
    lowest. The sign bit of signed integers is inverted before the comparison, so negative numbers come first.
    Elements with equal bits keep their order. None: all bits. Keys of other dtypes, key= and less= are not accepted.
    out: output array of the result's shape and dtype; may be `x` itself.
    spec: a :class:`pydp.algorithms.sort.spec.SortSpec`, or a mapping of some of its fields.

    Invalid axes, dtypes, functions and bits raise InvalidArgument. Dtypes that the device does not support raise
    UnsupportedOnDevice. All errors are raised before anything is enqueued.

    >>> pydp.sort(np.array([3, 1, 2]))
    array([1, 2, 3])
    >>> pydp.sort(np.array([13, 21, 11]), key=lambda v: (v % 10, -v))
    array([21, 11, 13])
    >>> pydp.sort(np.array([-3, 1, 2]), key="abs(x)")
    array([ 1,  2, -3])
    >>> pydp.sort(np.array([0x31, 0x12, 0x21, 0x02]), bits=(0, 4))
    array([49, 33, 18,  2])

    Sources: O. Green, R. McColl and D. Bader, GPU Merge Path (2012); O. Polychroniou and K. Ross, A Comprehensive Study
    of Main-Memory Partitioning and its Application to Large-Scale Comparison- and Radix-Sort (2014); A. Adinets and
    D. Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for GPUs (2022).
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    _check_kind(kind, stable)
    return _single(None, x, Request(axis, key, less, descending, bits, spec), where)


@recorded
def argsort(
    x: Any,
    axis: int | None = -1,
    kind: str | None = None,
    *,
    stable: bool | None = None,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    bits: tuple[int, int] | None = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the indexes (int64) that sort `x` along an axis. The sort is stable.

    Arguments and errors are as for `sort`. The result has the shape of the sorted copy; `out` has dtype int64.

    >>> pydp.argsort(np.array([3, 1, 2]))
    array([1, 2, 0])
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    _check_kind(kind, stable)
    return _single(_POSITION, x, Request(axis, key, less, descending, bits, spec), where)


def _check_kind(kind: Any, stable: Any) -> None:
    if kind is not None and not (isinstance(kind, str) and kind in _KINDS):
        raise InvalidArgument(f"kind is {shown(kind)}; {', '.join(_KINDS)} and None are accepted")
    if stable is not None:
        switch(stable, "stable")


def _single(carried: np.dtype | None, x: Any, request: Request, where: dict[str, Any]) -> Any:
    """Sort `x`, or return the sorting indexes if `carried` is their dtype."""
    if on_host(x) and needed(where, x, result=scratch_bytes(x.size, x.dtype, carried, True)):
        return _in_pieces(x, None, carried is not None, request, where)
    call, source, _, plan = _prepare({"x": x}, carried, request, where)
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
    bits: tuple[int, int] | None = None,
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
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    request = Request(axis, key, less, descending, bits, spec)
    scratch = scratch_bytes(keys.size, keys.dtype, values.dtype, False) if on_host(keys, values) else 0
    if needed(where, keys, values, result=scratch):
        return _in_pieces(keys, values, True, request, where)
    return _pairs(keys, values, request, where)


def _pairs(keys: Any, values: Any, request: Request, where: dict[str, Any]) -> tuple[Any, Any]:
    """Sort keys and reorder values that fit the device."""
    call, source, carried, plan = _prepare({"keys": keys, "values": values}, None, request, where)
    assert carried is not None
    sorted_keys = call.output(plan.order.result_shape, source.dtype)
    sorted_values = call.output(plan.order.result_shape, carried.dtype)
    _run(call, plan, source, carried, sorted_keys, sorted_values)
    return call.finish(sorted_keys, sorted_values)


@recorded
def sort_with_order(x: Any, *, device: Any, queue: Any, wait_for: Any) -> tuple[Any, Any]:
    """The sorted elements of `x` in C order, and their indexes (int64), from one sort."""
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    call, source, _, plan = _prepare({"x": x}, _POSITION, Request(None), where, both=True)
    results = [call.output(plan.order.result_shape, dtype) for dtype in (source.dtype, _POSITION)]
    _run(call, plan, source, None, *results)
    found: tuple[Any, Any] = call.finish(*results)
    return found


def finds_sorted(x: Any, *, device: Any, queue: Any) -> bool:
    """Whether `sort_unless_sorted` takes `x`: the sort first finds out whether the elements are in order."""
    where = {"device": device, "queue": queue, "wait_for": None}
    if x.size <= 1 << 16 or (on_host(x) and needed(where, x, result=scratch_bytes(x.size, x.dtype, None, True))):
        return False
    _, source, _, plan = _prepare({"x": x}, None, Request(None), where)
    return source.is_contiguous and isinstance(plan.kernels, Radix) and plan.kernels.rounds is not None


@recorded
def sort_unless_sorted(x: Any, *, device: Any, queue: Any, wait_for: Any) -> tuple[Any, Any]:
    """(The sorted elements of `x` in C order, counters). If the counter `KEPT` is not 0, the elements of `x` are in
    order already, and the first result is not written."""
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    call, source, _, plan = _prepare({"x": x}, None, Request(None), where)
    assert isinstance(plan.kernels, Radix) and plan.choice is not None
    result = call.output(plan.order.result_shape, source.dtype)
    counters = call.output((STATE_WORDS,), np.uint32)
    plan.kernels.run(call, plan.choice.spec, plan.order, source, (1, 0), None, result, None, counters)
    found: tuple[Any, Any] = call.finish(result, counters)
    return found


def _in_pieces(x: np.ndarray, values: np.ndarray | None, moves: bool, request: Request, where: dict[str, Any]) -> Any:
    """Sort NumPy arrays that are larger, or have larger results, than the device's largest buffer.

    moves: the values, or the indexes without values, are reordered. Only sort_by_key then returns the keys, too.
    """
    if values is not None and values.shape != x.shape:
        raise InvalidArgument(f"values has shape {values.shape}; it must have the shape of keys, {x.shape}")
    axis = request.axis
    along = -1 if axis is None else axis_of(axis, x.ndim)
    where, out = after_events(where), where.get("out")
    in_place = x is out and not moves and axis is not None
    x, values = np.asarray(x), None if values is None else np.asarray(values)
    if axis is None:
        x, values = contiguous(x).reshape(-1), None if values is None else contiguous(values).reshape(-1)
    dtypes = [native(x.dtype)] if not moves or values is not None else []
    dtypes += [_POSITION if values is None else native(values.dtype)] if moves else []
    given = [] if in_place else [x] if values is None else [x, values]
    targets = [target_of(out, x.shape, dtype, *given) for dtype in dtypes]
    places = [np.moveaxis(target, along, -1) for target, _ in targets]
    request = request._replace(axis=-1)
    sorters = Sorters(
        lambda part, out: _single(None, part, request, {**where, "out": out}),
        lambda part, moved: _pairs(part, moved, request, where),
        lambda part, out: _single(_POSITION, part, request, {**where, "out": out}),
    )
    sort_in_pieces(
        sorters,
        buffer_limit(where),
        np.moveaxis(x, along, -1),
        None if values is None else np.moveaxis(values, along, -1),
        places[0] if not moves or values is not None else None,
        places[-1] if moves else None,
    )
    found = [delivered(*one) for one in targets]
    return found[0] if len(found) == 1 else tuple(found)


def _prepare(
    arrays: dict[str, Any],
    carried: np.dtype | None,
    request: Request,
    where: dict[str, Any],
    both: bool = False,
) -> tuple[Call, Operand, Operand | None, _Plan]:
    """Prepare a call or explanation: the call, the elements to sort, the values to reorder, and the plan.

    arrays: x, or keys and values. carried: the dtype of the elements' indexes if they are the result. both: the sorted
    elements are a result, too.
    """
    call = Call.begin(arrays, **where)
    source, *others = (call.input(name) for name in arrays)
    values = others[0] if others else None
    if values is not None and values.shape != source.shape:
        raise InvalidArgument(f"values has shape {values.shape}; it must have the shape of keys, {source.shape}")
    if carried is not None and values is None and not source.shape and is_only_axis(request.axis):
        request = request._replace(axis=None)  # argsort of a number, as in NumPy
    axis, key, less, descending, bits, spec = request
    order, functions = order_of(axis, source, key, less, descending, bits)
    sorts = carried is None or both
    carried = carried if values is None else values.dtype
    plan = _plan(call.device, source.dtype, carried, order, *functions, by_key(spec), values is None, sorts)
    return call, source, values, plan


# --- plan ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """kernels: None if there is nothing to sort."""

    order: Order
    dtype: np.dtype
    carried: np.dtype | None
    kernels: Merge | Radix | Onesweep | None
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
    sorts: bool,
) -> _Plan:
    """key, less and spec come from `by_key`. positions: the carried values are the elements' indexes, not an array.
    sorts: the sorted keys are a result."""
    check_supported(dtype, device, "sort")
    check_kept_whole(dtype, device)
    if carried is not None:
        check_supported(carried, device, "sort_by_key", storage_only=True)
    how, used, iterations = ordering(device, dtype, Comparison(key, less, order.descending), order.bits)
    if not order.n or not order.rows:
        return _Plan(order, dtype, carried, None, None)
    words = movable(carried) if carried else None
    by_bits = key is None and less is None and dtype.kind in "biuf" and order.n * order.rows < RADIX_ELEMENTS
    problem = SortProblem(
        dtype_text(dtype),
        size_class(order.n),
        size_class(order.rows),
        dtype.itemsize + (carried.itemsize if carried else 0),
        records_lost_in_arrays=any(one is not None and lost_in_arrays(one, device) for one in (dtype, words)),
        iterations=iterations,
        element_bytes=element_bytes(dtype, carried, positions) if by_bits else 0,
    )
    choice = choose(FAMILY, device, problem, spec)
    if choice.spec.strategy == "radix":
        return _Plan(order, dtype, carried, radix(device, choice.spec, dtype, carried, order, positions, sorts), choice)
    if choice.spec.strategy in STRATEGIES:
        passes = onesweep(device, choice.spec, dtype, carried, order, positions, sorts)
        return _Plan(order, dtype, carried, passes, choice)
    return _Plan(order, dtype, carried, merging(device, choice.spec, dtype, words, order, how, used, positions), choice)


# --- launches --------------------------------------------------------------------------------------------


def _run(
    call: Call, plan: _Plan, source: Operand, values: Operand | None, result: Operand | None, moved: Operand | None
) -> None:
    """Write the sorted keys to `result` and the carried values to `moved`. Either may be None."""
    order = plan.order
    if plan.choice is None or plan.kernels is None:
        return
    steps, start = order.row_step, source
    if steps is None or not plan.kernels.reads(steps[0]):
        start, steps = _rows_of(call, source, order), (1, order.n)
    taken = None if values is None else _rows_of(call, values, order)
    given = [values] if plan.kernels.reads_first else [source, values]
    places = [None if target is None else _place(call, target, order, given) for target in (result, moved)]
    plan.kernels.run(call, plan.choice.spec, order, start, steps, taken, *places)
    for target, place in zip((result, moved), places, strict=True):
        if target is not None and place is not None and place.buffer is not target.buffer:
            to = _moved(target, order)
            call.copy(place.view(to.shape, c_strides(to.shape)), to)


def _place(call: Call, result: Operand, order: Order, inputs: list[Operand | None]) -> Operand:
    """The buffer that the kernels write contiguous rows to: the result itself if its layout allows it."""
    direct = (
        order.rows_in_place
        and result.is_contiguous
        and result.offset == 0
        and not any(call.overlaps(given, result) for given in inputs if given is not None)
    )
    return result if direct else call.temporary((order.rows * order.n,), result.dtype)


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
    if which != "sort_by_key":
        _check_kind(given.kind, given.stable)
    arrays = {name: value for name, value in vars(given).items() if name in ("x", "keys", "values")}
    carried = _POSITION if which == "argsort" else None
    request = Request(*(getattr(given, name) for name in Request._fields))
    call, source, values, plan = _prepare(arrays, carried, request, given.where)
    order = plan.order
    if which != "sort_by_key" and given.out is not None:
        call.output(order.result_shape, carried or source.dtype)  # validates out
    facts: dict[str, object] = {
        "device": call.device.name,
        "rows": order.rows,
        "elements of a row": order.n,
        "type": str(source.dtype),
    }
    if plan.choice is None or plan.kernels is None:
        return Explanation(which, facts, ["nothing to sort: no kernel"], {})
    chosen = plan.choice.spec
    facts["specialization"] = chosen
    choices = [plan.choice.reason, *plan.kernels.describe(call.device, chosen, order)]
    if order.bits is not None:
        low, end = order.bits
        choices.append(f"bits {low} to {end - 1} of the keys are compared" if low < end else "no bits are compared")
    if order.row_step is not None and not plan.kernels.reads(order.row_step[0]):
        choices.append("the keys of a row are not adjacent: they are first copied to a contiguous array")
    if order.row_step is None:
        choices.append("the rows have no single stride: they are first copied to a contiguous array")
    if values is not None and not _moved(values, order).is_contiguous:
        choices.append("the values are first copied to contiguous rows")
    if not order.rows_in_place:
        choices.append("the sorted axis is not the last one: sorted rows are copied to the result")
    return Explanation(which, facts, choices, sources_of(plan.kernels.all_kernels()))


def _sort_reference(x: Any, *, axis: Any = -1, descending: Any = False) -> list[Expected]:
    x = host(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return [Expected(np.take_along_axis(x, _order(x, axis, descending), axis))]


def _argsort_reference(x: Any, *, axis: Any = -1, descending: Any = False) -> list[Expected]:
    x = host(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return [Expected(_order(x, axis, descending).astype(np.int64))]


def _sort_by_key_reference(keys: Any, values: Any, *, axis: Any = -1, descending: Any = False) -> list[Expected]:
    keys, values = host(keys), host(values)
    if axis is None:
        keys, values, axis = keys.reshape(-1), values.reshape(-1), 0
    order = _order(keys, axis, descending)
    return [Expected(np.take_along_axis(one, order, axis)) for one in (keys, values)]


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The order of a stable sort: descending, it is that of the reversed elements, reversed."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def _scratch_layout(shape: tuple[int, ...], dtype: np.dtype, carried: np.dtype | None, positions: bool) -> np.ndarray:
    """The layout of an array of the shape of the keys that is as large as the scratch memory."""
    return unallocated(shape, np.dtype((np.void, scratch_bytes(1 << 20, dtype, carried, positions) >> 20)))


register(
    Algorithm(
        sort,
        explaining_pieces(
            functools.partial(_explain, "sort"),
            "x",
            result=lambda given: _scratch_layout(given.x.shape, given.x.dtype, None, True),
        ),
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
        explaining_pieces(
            functools.partial(_explain, "argsort"),
            "x",
            result=lambda given: _scratch_layout(given.x.shape, given.x.dtype, _POSITION, True),
        ),
        _argsort_reference,
        sizes=("1048576",),
        dtype="int32",
        numbers="spread",
        benchmark="pydp.bench.bench_sort",
    )
)
register(
    Algorithm(
        sort_by_key,
        explaining_pieces(
            functools.partial(_explain, "sort_by_key"),
            "keys",
            "values",
            result=lambda given: _scratch_layout(given.keys.shape, given.keys.dtype, given.values.dtype, False),
        ),
        _sort_by_key_reference,
        sizes=("1048576",),
        shapes=alike(2),
        operands=2,
        dtype="int32",
        numbers="spread",
        benchmark="pydp.bench.bench_sort",
    )
)
