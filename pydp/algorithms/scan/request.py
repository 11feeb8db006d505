"""Validate a scan's arguments and find its plan: the call, its operands, the operator and the cached plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, switch
from pydp.algorithms.lengths import check_limit, length_of
from pydp.algorithms.lookback import STRATEGIES
from pydp.algorithms.operators import Operator, operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.scan import arguments
from pydp.algorithms.scan.layout import Layout, layout_of
from pydp.algorithms.scan.plan import ColumnsPlan, Job, WalkPlan, make_plan
from pydp.algorithms.scan.policy import FAMILY, ScanProblem
from pydp.dtypes import check_kept_whole, check_supported, dtype_text, is_record, vector_parts
from pydp.errors import InvalidArgument, shown
from pydp.model.family import Key, Keyed
from pydp.runtime.call import Call, Operand
from pydp.runtime.placement import check_out, normal_input
from pydp.tuning.choose import cached_plan, choose


class Request(NamedTuple):
    """The arguments of a scan other than x, out and the device. segments: the result of `segments_of`."""

    op: Any
    axis: Any
    exclusive: bool
    reverse: bool
    init: Any
    segments: tuple[str, Any]
    dtype: Any
    strategy: Any
    spec: Any
    length: Any = None


def request_of(
    op: Any, axis: Any, exclusive: Any, reverse: Any, init: Any, segments: Any, dtype: Any, strategy: Any, spec: Any,
    length: Any = None,
) -> Request:  # fmt: skip
    """The request of a call. Raises InvalidArgument for an invalid strategy, segments and switches."""
    if strategy is not None and not (isinstance(strategy, str) and strategy in STRATEGIES):
        raise InvalidArgument(f"strategy={shown(strategy)} is not one of {', '.join(STRATEGIES)}")
    exclusive, reverse = switch(exclusive, "exclusive"), switch(reverse, "reverse")
    if length is not None and reverse:
        raise InvalidArgument(
            "length= and reverse= are both given; length= is accepted for scans from the first element"
        )
    found = arguments.segments_of(segments)
    return Request(op, axis, exclusive, reverse, init, found, dtype, strategy, spec, length_of(length))


def copied(call: Call, operand: Operand, run: bool = True) -> Operand:
    """A contiguous copy of the operand in scratch memory. run: enqueue it; False for explanations."""
    copy = call.temporary(operand.shape, operand.dtype, operand.name)
    if run:
        call.copy(operand, copy)
    return copy


class Prepared(NamedTuple):
    """A scan that is ready to run.

    x, heads, y: what the plan reads and writes; `result` is the call's result, which differs from y if the result is
    copied. init: None, a scalar or an Operand. plan: None if there are no elements. copies: whether the layout needs
    contiguous copies.
    """

    call: Call
    operator: Operator
    x: Operand
    heads: Operand | None
    y: Operand
    result: Operand
    init: Any
    plan: WalkPlan | ColumnsPlan | None
    copies: bool = False


def prepare(
    x: Any, request: Request, where: dict[str, Any], carry: bool = False, total: bool = False, run: bool = True
) -> Prepared:
    """Do all steps of a scan before its launches, for `scan` and its explanation.

    where: out, device, queue and wait_for. carry, total: see `Job`. run: enqueue the contiguous copies that the scan
    needs.
    """
    call, (source, heads, init), value, operator = _resolved(x, request, where, run)
    y = result = call.output(source.shape, value)
    if source.size == 0:
        return Prepared(call, operator, source, heads, y, result, init, None)
    source, heads, init = resolve_aliasing(call, source, heads, init, y, run)
    plan = _plan(call.device, request, operator, source, heads, y, init, carry, total)
    copies = plan is None
    if copies:  # the kernels have at most two strides for the other axes
        source = _contiguous(call, source, run)
        heads = None if heads is None else _contiguous(call, heads, run)
        y = result if result.is_contiguous else call.temporary(result.shape, value, "result")
        plan = _plan(call.device, request, operator, source, heads, y, init, carry, total)
        assert plan is not None
    return Prepared(call, operator, source, heads, y, result, init, plan, copies)


def _contiguous(call: Call, operand: Operand, run: bool) -> Operand:
    return operand if operand.is_contiguous else copied(call, operand, run)


def _resolved(
    x: Any, request: Request, where: dict[str, Any], run: bool
) -> tuple[Call, tuple[Operand, Operand | None, Any], np.dtype, Operator]:
    """Validate the inputs. Returns (call, (x, heads or None, init: None, a scalar or an Operand), dtype, op)."""
    source_dtype = getattr(x, "dtype", None)
    if source_dtype is None:
        x = normal_input("x", x)
        source_dtype = x.dtype
    source = np.dtype(source_dtype)
    value = arguments.value_dtype(source if source.isnative else source.newbyteorder("="), request.dtype, request.op)
    operator = operator_text(request.op, value)
    if request.exclusive and request.init is None and operator.start is None:
        raise InvalidArgument(f"an exclusive scan with op {operator.title} needs init=: op has no known identity")
    inputs = {"x": x, "segments": request.segments[1]}
    if request.length is not None:
        inputs["length"] = request.length
    init = request.init
    if init is not None:
        if arguments.is_device_init(init):
            arguments.check_device_init(init, value)
            inputs["init"] = init
        else:
            init = arguments.host_init(init, value)
            if arguments.by_value(value):
                init = arguments.as_argument(init)
            else:
                inputs["init"] = init
    call = Call.begin(inputs, **where)
    operator.check(call.device)
    types = "scan dtypes", source, value
    if call.device.plans.get(types) is None:
        call.device.plans.make(types, _check_types, call.device, source, value)
    x_in = call.input("x")
    conversion(x_in.dtype, value)
    h_in = None
    if call.has("segments"):
        h_in = call.input("segments")
        if h_in.shape != x_in.shape:
            raise InvalidArgument(f"segments has shape {h_in.shape}; it must have the shape of x, {x_in.shape}")
    if request.axis is None:
        out = where.get("out")
        if out is not None and type(out) is not tuple:  # validate before anything is copied
            check_out(out, (x_in.size,), value, "out")
        x_in = _flat(_contiguous(call, x_in, run))
        h_in = _flat(_contiguous(call, h_in, run)) if h_in is not None else None
    else:
        axis_of(request.axis, len(x_in.shape))
    if request.length is not None:
        check_limit(request.length, x_in.size)
        if len(x_in.shape) != 1:
            raise InvalidArgument(
                f"length= is given for an array of shape {x_in.shape}; rank 1 or axis=None is accepted"
            )
    return call, (x_in, h_in, call.input("init") if "init" in inputs else init), value, operator


def _check_types(device: Any, source: np.dtype, value: np.dtype) -> bool:
    check_supported(source, device, "x")
    check_supported(value, device, "dtype")
    check_kept_whole(value, device)
    return True


def _flat(operand: Operand) -> Operand:
    return operand.view((operand.size,), (1,))


def resolve_aliasing(
    call: Call, x: Operand, h: Operand | None, init: Any, y: Operand, run: bool = True
) -> tuple[Operand, Operand | None, Any]:
    """Copy the inputs that the results would overwrite too early. Returns (x, h, init)."""
    if call.overlaps(x, y):  # two buffers may be views of the same third buffer: use one buffer for an in-place scan
        x = y if call.same(x, y) else copied(call, x, run)
    if h is not None and call.overlaps(h, y):
        h = copied(call, h, run)
    if type(init) is Operand and call.overlaps(init, y):  # every head reads init, after results were stored
        init = copied(call, init, run)
    return x, h, init


def _plan(
    device: Any,
    request: Request,
    operator: Operator,
    x: Operand,
    h: Operand | None,
    y: Operand,
    init: Any,
    carry: bool,
    total: bool,
) -> WalkPlan | ColumnsPlan | None:
    """The plan of this scan; None if the arrays need contiguous copies (see `layout_of`)."""
    heads = None if h is None else (request.segments[0], h.dtype, h.strides)
    options = (request.axis, request.exclusive, request.reverse, request.strategy)
    start = "none" if init is None else "buffer" if type(init) is Operand else "value"
    arrays = (x.dtype, x.shape, x.strides, y.strides)
    in_place = x.buffer is y.buffer and x.offset == y.offset  # arrays that overlap otherwise have been copied
    keyed = Keyed(operator, Key(operator.key))
    bounded = request.length is not None
    return _plan_of(device, options, keyed, arrays, heads, start, carry, total, in_place, bounded, by_key(request.spec))


@cached_plan
def _plan_of(
    device: Any,
    options: tuple[Any, bool, bool, Any],
    operator: Any,
    arrays: tuple[np.dtype, tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    heads: tuple[str, np.dtype, tuple[int, ...]] | None,
    init: str,
    carry: bool,
    total: bool,
    in_place: bool,
    bounded: bool,
    spec: Any,
) -> WalkPlan | ColumnsPlan | None:
    axis, exclusive, reverse, strategy = options
    source, shape, *strides = arrays
    kind, head_dtype = ("none", None) if heads is None else heads[:2]
    axis = 0 if axis is None else axis_of(axis, len(shape))
    layout = layout_of(shape, strides if heads is None else [*strides, heads[2]], axis, reverse)
    if layout is None:
        return None
    problem = _problem(operator, source, layout, exclusive, heads is not None, in_place)
    if strategy is not None:
        fields = spec if isinstance(spec, Mapping) else vars(choose(FAMILY, device, problem, spec).spec)
        spec = {**fields, "strategy": strategy}
    choice = choose(FAMILY, device, problem, spec)
    start = "carry" if carry else "init" if init != "none" and layout.rows == 1 else "none"
    how = (exclusive, init, init != "none", start, total, in_place, bounded)
    job = Job(source, operator, layout, kind, head_dtype, *how)
    plan = make_plan(device, job, choice.spec)
    plan.why = f"{choice.source}: {choice.reason}"
    return plan


def plan_by_flags(device: Any, source: np.dtype, operator: Operator, n: int) -> WalkPlan | ColumnsPlan:
    """The plan of an inclusive scan of `n` contiguous elements with contiguous head flags (uint8)."""
    arrays = (source, (n,), (1,), (1,))
    flags = ("flags", np.dtype(np.uint8), (1,))
    keyed = Keyed(operator, Key(operator.key))
    plan = _plan_of(device, (0, False, False, None), keyed, arrays, flags, "none", False, False, False, False, None)
    assert plan is not None
    return plan


def _problem(
    operator: Operator, source: np.dtype, layout: Layout, exclusive: bool, heads: bool, in_place: bool
) -> ScanProblem:
    value = operator.dtype
    return ScanProblem(
        dtype_text(value) if source == value else f"{dtype_text(source)},{dtype_text(value)}",
        max(0, layout.rows - 1).bit_length(),
        max(0, layout.n - 1).bit_length(),
        value.itemsize,
        layout.columns,
        exclusive=exclusive,
        segments=heads,
        in_place=in_place,
        record=is_record(value),
        vectors=operator.vector_body is not None and vector_parts(value) is None,
    )
