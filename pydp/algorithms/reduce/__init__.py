"""``pydp.reduce``: bitwise reproducible reductions over any axes, with any associative operator and dtype.

The elements are folded in C order, in parts of a fixed size. The parts' results are folded in a fixed order, on CPUs by
the last work-item to end: the result does not depend on timing. Named operators commute, and may be interleaved within
a part. Other operators always receive their operands in order. Operators only receive actual elements (SPEC S2: no
padding, no identity needed). On CPUs, sums of floats are as accurate as NumPy's pairwise sums, along every axis.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms.arguments import axis_of, by_key, is_only_axis, scalar_of, switch
from pydp.algorithms.lengths import check_limit, length_of, limit, whole
from pydp.algorithms.lookback import descriptors
from pydp.algorithms.operators import operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.pieces import after_events, buffer_limit, explaining_pieces, needed, on_host, unallocated
from pydp.algorithms.reduce.passes import Pass
from pydp.algorithms.reduce.plan import Plan, result_dtype
from pydp.algorithms.reduce.plan import plan as plan_of
from pydp.algorithms.reduce.policy import ReduceSpec
from pydp.algorithms.reduce.stream import PiecewiseReduction
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.scan.arguments import host_init, is_device_init
from pydp.dtypes import is_record, native
from pydp.errors import InvalidArgument, OutOfResources, shown
from pydp.groups.barrier_plan import describe_barriers
from pydp.model.explanation import Explanation, Given, sources_of
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.placement import wait_on_host
from pydp.runtime.recording import recorded
from pydp.tuning.reference import UFUNCS, Expected, host, rounding, wide

__all__ = ["ReduceSpec", "reduce"]


def reduce(
    x: Any,
    op: Any = "+",
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    init: Any = None,
    length: Any = None,
    dtype: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Reduce `x` over some axes with an associative operator.

    x: array of any shape and strides (NumPy, Field or pyopencl array). The result has the same kind. A NumPy array
        reduced over all axes gives a NumPy scalar.
    op: ``+ * min max & | ^ logaddexp``, an OpenCL C expression in ``a`` and ``b``, a dict of names and expressions for
        the fields of a record, or a Python function of two values. It must be associative. It need not commute:
        elements are folded in C order of the reduced axes.
    axis: an axis, a tuple of axes, or None for all. keepdims: keep the reduced axes, with size 1.
    init: the left operand of the first operation: a value, or a Field or pyopencl Array of one element that is read
        on the device.
    length: only the first `length` elements count, in C order; `axis` must then reduce all axes. An integer, or a Field
        or pyopencl Array of one integer, such as the `count` of `select`: the kernels read it on the device, so the
        call does not wait for it. If `x` is a result whose length only the device knows, the call does not wait for
        that either. On the device, a negative length counts as 0; a length larger than the array counts as the
        array's size. With `length`, "min", "max" and operators without a known identity need init, because the length
        may be 0.
    dtype: dtype of the reduction and the result. The default is the dtype of `x`, or int64 or uint64 for sums and
        products of smaller integers and bools, as in NumPy.
    spec: a :class:`pydp.algorithms.reduce.policy.ReduceSpec`, or a mapping of some of its fields.
    out: output array of the result's shape and dtype. It may overlap `x` and `init`.

    An empty reduction returns `init`, or the value that NumPy returns (0 for a sum). It raises InvalidArgument for
    operators without such a value. Invalid axes, dtypes and operators raise InvalidArgument. Dtypes that the device
    does not support raise UnsupportedOnDevice. All errors are raised before anything is enqueued.

    >>> pydp.reduce(np.arange(6).reshape(2, 3), "max", axis=1)
    array([2, 5])
    >>> pydp.reduce(np.arange(4, dtype=np.float32))
    np.float32(6.0)
    >>> count = pydp.zeros((), np.int64)
    >>> kept = pydp.select(pydp.field(np.array([3, -1, 4])), "x > 0", count=count)
    >>> pydp.reduce(kept, length=count).get()  # the host waits here, not before
    array(7)
    """
    named = {"out": out, "device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    return _reduced(whole(x, length), op, axis, keepdims, init, length, dtype, **named)


@recorded
def _reduced(
    x: Any, op: Any, axis: Any, keepdims: Any, init: Any, length: Any, dtype: Any,
    *, out: Any, device: Any, queue: Any, wait_for: Any, spec: Any,
) -> Any:  # fmt: skip
    wait_on_host(wait_for, init)
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    if needed(where, x, result=_result_bytes(x, op, axis, dtype)):
        if length is not None:
            raise OutOfResources(f"length= needs an array that fits the largest buffer; x has {x.nbytes} bytes")
        return _in_pieces(x, op, axis, keepdims, init, dtype, spec, where)
    found = _reduce(x, op, axis, keepdims, init, dtype, spec, where, length)
    return scalar_of(found, out)


def _reduce(
    x: Any, op: Any, axis: Any, keepdims: Any, init: Any, dtype: Any, spec: Any, where: dict[str, Any],
    length: Any = None,
) -> Any:  # fmt: skip
    """Reduce an array that fits the device."""
    call, source, axes, kind, plan = _prepare(x, op, axis, init, dtype, spec, where, length)
    value = _first_value(call, init, plan.dtype)
    result = call.output(_shape(source, axes, keepdims), kind)
    seed = None if init is None else _seed(call, value, plan.dtype)
    if length is None:
        _run(call, plan, source, seed, result)
    else:
        limited = limit(call, source.size) if plan.steps else None
        _run(call, plan, call.flat(source) if plan.steps else source, seed, result, limited)
    return call.finish(result)


def _in_pieces(
    x: np.ndarray, op: Any, axis: Any, keepdims: Any, init: Any, dtype: Any, spec: Any, where: dict[str, Any]
) -> Any:
    """Reduce a NumPy array that is larger than the device's largest buffer."""
    axes, accumulator, where = axes_of(axis, x.ndim), _accumulator(x.dtype, op, dtype), after_events(where)
    if init is not None and is_device_init(init):
        _check_device_init(init, accumulator)
    elif init is not None:
        init = host_init(init, accumulator)
    in_order = operator_text(op, accumulator).operands_in_order

    def run(piece: np.ndarray, init: Any, target: np.ndarray) -> None:
        _reduce(piece, op, axes, True, init, accumulator, spec, {**where, "out": target})

    reduction = PiecewiseReduction(run, axes, in_order, accumulator, buffer_limit(where))
    found = reduction(np.asarray(x), init, switch(keepdims, "keepdims"), where["out"])
    return scalar_of(found, where["out"])


def _accumulator(source: np.dtype, op: Any, dtype: Any) -> np.dtype:
    """The dtype of the fold and its result."""
    return result_dtype(native(source), op) if dtype is None else native(dtype)


def _result_bytes(x: Any, op: Any, axis: Any, dtype: Any) -> int:
    """The bytes of the reduction of a NumPy array; 0 for other inputs."""
    if not on_host(x):
        return 0
    axes = axes_of(axis, x.ndim)
    kept = math.prod(size for k, size in enumerate(x.shape) if k not in axes)
    return kept * _accumulator(x.dtype, op, dtype).itemsize


def _empty_result(given: Given) -> np.ndarray:
    """The layout of the result, broadcast to the shape of x."""
    axes = axes_of(given.axis, given.x.ndim)
    shape = tuple(1 if k in axes else size for k, size in enumerate(given.x.shape))
    return np.broadcast_to(unallocated(shape, _accumulator(given.x.dtype, given.op, given.dtype)), given.x.shape)


def _prepare(
    x: Any, op: Any, axis: Any, init: Any, dtype: Any, spec: Any, where: dict[str, Any], length: Any = None
) -> tuple[Call, Operand, tuple[int, ...], np.dtype, Plan]:
    """Prepare a call or explanation: the call, its operand, the axes to reduce, the result's dtype and the plan.

    The returned dtype may be an ``np.record`` dtype; the cached plan may hold the equal plain dtype.
    """
    first = init if init is not None and is_device_init(init) else None
    length = length_of(length)
    call = Call.begin({"x": x, "init": first, "length": length}, **where)
    source = call.input("x")
    axes = axes_of(axis, len(source.shape))
    accumulator = _accumulator(source.dtype, op, dtype)
    shape, strides, reduced = source.shape, source.strides, axes
    if length is not None:
        check_limit(length, source.size)
        if len(axes) != len(shape):
            raise InvalidArgument(
                f"axis is {shown(axis)}, but length= needs a reduction over all axes; None is accepted"
            )
        shape, strides, reduced = (source.size,), source.flat.strides, (0,)
    described = (source.dtype, shape, strides, by_key(op), reduced, init is not None, accumulator, length is not None)
    plan = plan_of(call.device, *described, by_key(spec))
    return call, source, axes, accumulator, plan


def _shape(source: Operand, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The result's shape."""
    keepdims = switch(keepdims, "keepdims")
    return tuple(1 if a in axes else size for a, size in enumerate(source.shape) if keepdims or a not in axes)


def _first_value(call: Call, init: Any, dtype: np.dtype) -> np.ndarray | None:
    """The validated host value of init; None without init or if init is a device array."""
    return None if init is None or call.has("init") else host_init(init, dtype)


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes of the argument `axis` (an integer, a tuple of integers or None), sorted. A number may be reduced over
    axis 0, as in NumPy."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    if not rank and not isinstance(axis, tuple) and is_only_axis(axis):
        return ()
    axes = [axis_of(item, rank, "an integer, a tuple of integers or None") for item in given]
    if len(set(axes)) != len(axes):
        raise InvalidArgument(f"axis {shown(axis)} contains an axis twice; each axis may be given once")
    return tuple(sorted(axes))


def fold(call: Call, source: Operand, op: Any, axes: tuple[int, ...], result: Operand) -> None:
    """Reduce an operand within another algorithm's call, in the result's dtype."""
    plan = plan_of(call.device, source.dtype, source.shape, source.strides, op, axes, False, result.dtype, False, None)
    _run(call, plan, source, None, result)


def _run(
    call: Call, plan: Plan, source: Operand, seed: Operand | None, result: Operand, length: Operand | None = None
) -> None:
    """Enqueue the launches. length: the number of elements, of a bounded plan."""
    if plan.empty:
        call.copy(seed if seed is not None else _constant(call, plan), result)
        return
    if not plan.steps:
        return
    inputs = (source,) if seed is None else (source, seed)
    direct = result.is_contiguous and result.offset == 0 and not any(call.overlaps(one, result) for one in inputs)
    last = result if direct else call.temporary(result.shape, plan.dtype)
    given = source
    for step in plan.steps:
        to = last if step is plan.steps[-1] else call.temporary((step.action.results,), plan.dtype)
        action = step.action
        joined = descriptors(call, action.parts * action.rows, plan.dtype.itemsize) if action.joins else ()
        seeds = (seed, np.uint64(seed.offset)) if seed is not None and action.last else ()
        call.launch(
            step.kernel,
            step.global_size,
            step.local_size,
            given,
            np.uint64(given.offset),
            *step.before,
            to,
            *step.after,
            *joined,
            *step.dims,
            *seeds,
            *(() if length is None else (length, np.uint64(step.unit))),
        )
        given = to
    if not direct:
        call.copy(last, result)


def _constant(call: Call, plan: Plan) -> Operand:
    """The value of an empty reduction, in scratch memory."""
    place = call.temporary((), plan.dtype)
    value = np.asarray(plan.start).astype(plan.dtype).reshape(1)
    call.enqueue(cl.enqueue_fill_buffer, place, pattern=value, offset=0, size=plan.dtype.itemsize)
    return place


def _seed(call: Call, value: np.ndarray | None, dtype: np.dtype) -> Operand:
    """The first value as one element of dtype `dtype`: from the host value, or from the device array `init`."""
    if value is not None:
        place = call.temporary((), dtype, "init")
        call.enqueue(cl.enqueue_copy, place, value.reshape(1), is_blocking=False)
        return place
    given = call.input("init")
    _check_device_init(given, dtype)
    return call.contiguous(given, dtype)


def _check_device_init(given: Any, dtype: np.dtype) -> None:
    """Check a device array `init`."""
    if math.prod(given.shape) != 1:
        raise InvalidArgument(f"init has shape {given.shape}; one value of dtype {dtype} is accepted")
    conversion(given.dtype, dtype, "init")
    if not is_record(dtype) and not np.can_cast(given.dtype, dtype, "same_kind"):
        raise InvalidArgument(f"init has dtype {given.dtype}; one value of dtype {dtype} is accepted")


def described_pass(action: Pass) -> str:
    """One line on a pass, for explanations."""
    return (
        f"{action.kernel}: folds {action.n} elements with stride {action.step}, in {action.parts} part(s) of "
        f"{action.part}, for {action.rows} row(s)"
        + (f" of {action.columns[0]} columns" if action.columns else "")
        + (f", {action.each} row(s) by each work-item" if action.each > 1 else "")
        + (f", then one more element of {action.ragged} columns" if action.ragged else "")
        + ("; the last work-item to end folds the parts' results" if action.joins else "")
    )


def _explain(given: Given) -> Explanation:
    """Explain ``reduce(x, op, ...)`` on this device."""
    x, length = whole(given.x, given.length), given.length
    call, source, axes, _, plan = _prepare(
        x, given.op, given.axis, given.init, given.dtype, given.spec, given.where, length
    )
    _first_value(call, given.init, plan.dtype)
    shape = _shape(source, axes, given.keepdims)
    if given.out is not None:
        call.output(shape, plan.dtype)  # validates out
    facts: dict[str, object] = {
        "device": call.device.name,
        "shape": source.shape,
        "axes": axes,
        "types": f"{source.dtype} -> {plan.dtype}",
        "operator": plan.operator.name + plan.operator.computed_as,
        "specialization": plan.choice.spec if plan.choice else "none: nothing to reduce",
    }
    choices = [plan.choice.reason] if plan.choice else []
    for step in plan.steps:
        choices.append(described_pass(step.action))
        choices += describe_barriers(step.kernel)
    return Explanation("reduce", facts, choices, sources_of(step.kernel for step in plan.steps))


def _reference(x: Any, op: Any = "+", *, axis: Any = None, keepdims: bool = False) -> list[Expected] | None:
    ufunc = UFUNCS[op]
    x = host(x)
    axes = tuple(range(x.ndim)) if axis is None else axis
    right = np.asarray(ufunc.reduce(wide(x), axis=axes, keepdims=keepdims))
    dtype = right.dtype if x.dtype.kind not in "fc" else x.dtype
    if dtype.kind not in "fc" or op != "+":
        return [Expected(right.astype(dtype))]
    axes = axes if isinstance(axes, tuple) else (axes,)
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(right.size, -1) if x.size else np.zeros((right.size, 1))
    return [Expected(right.astype(dtype), rounding(rows)[:, -1].reshape(right.shape))]


register(
    Algorithm(
        reduce,
        explaining_pieces(_explain, "x", result=_empty_result),
        _reference,
        sizes=("1048576", "16777216", "2048x2048"),
        benchmark="pydp.bench.bench_reduce",
    )
)
