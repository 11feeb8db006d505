"""Validate a scan's arguments and find its plan: the call, its operands, the operator and the cached plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, key_alone, switch
from pydp.algorithms.operators import Operator, operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.scan import arguments
from pydp.algorithms.scan.layout import layout_of
from pydp.algorithms.scan.plan import ColumnsPlan, Job, WalkPlan, make_plan
from pydp.algorithms.scan.policy import FAMILY, STRATEGIES, ScanProblem, ScanSpec
from pydp.dtypes import check_kept_whole, check_supported, dtype_text, is_record, vector_parts
from pydp.errors import InvalidArgument
from pydp.runtime.bounded import ABSENT
from pydp.runtime.call import Call, Operand
from pydp.runtime.placement import check_out, normal_input
from pydp.tuning.choose import Choice, choose


class Request:
    """The arguments of a scan other than x, out and the device; `kind` and `heads` come from segments."""

    __slots__ = ("axis", "dtype", "exclusive", "heads", "init", "kind", "op", "reverse", "spec", "strategy")

    heads: Any

    def __init__(
        self,
        op: Any,
        axis: Any,
        exclusive: Any,
        reverse: Any,
        init: Any,
        segments: Any,
        dtype: Any,
        strategy: Any,
        spec: Any,
    ) -> None:
        if strategy is not None and not (isinstance(strategy, str) and strategy in STRATEGIES):
            raise InvalidArgument(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}")
        self.op, self.axis, self.init, self.dtype = op, axis, init, dtype
        self.exclusive, self.reverse = switch(exclusive, "exclusive"), switch(reverse, "reverse")
        self.kind, self.heads = arguments.segments_of(segments) if segments is not None else ("none", None)
        self.strategy, self.spec = strategy, spec

    def replaced(self, **values: Any) -> Request:
        """A copy with some attributes replaced."""
        copy = Request.__new__(Request)
        for name in self.__slots__:
            setattr(copy, name, values.get(name, getattr(self, name)))
        return copy


Copy = Callable[[Call, Operand], Operand]
"""A function that returns the operand of a contiguous copy."""


def copied(call: Call, operand: Operand) -> Operand:
    """A contiguous copy of the operand in scratch memory."""
    copy = place_of_copy(call, operand)
    call.copy(operand, copy)
    return copy


def place_of_copy(call: Call, operand: Operand) -> Operand:
    """The operand that a contiguous copy would have; nothing is copied."""
    return call.temporary(operand.shape, operand.dtype, operand.name)


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
    x: Any,
    request: Request,
    out: Any,
    device: Any,
    queue: Any,
    wait_for: Any,
    copy: Copy,
    carry: bool = False,
    total: bool = False,
) -> Prepared:
    """Do all steps of a scan before its launches, for `scan` and its explanation.

    copy: makes the contiguous copies that the scan needs. carry, total: see `Job`.
    """
    call, (source, heads, init), value, operator = _resolved(x, request, out, device, queue, wait_for, copy)
    y = result = call.output(source.shape, value)
    if source.size == 0:
        return Prepared(call, operator, source, heads, y, result, init, None)
    source, heads, init = resolve_aliasing(call, source, heads, init, y, copy)
    plan = plan_of(call.device, request, operator, source, heads, y, init, carry, total)
    copies = plan is None
    if plan is None:  # the kernels have at most two strides for the other axes
        source = _contiguous(call, source, copy)
        heads = None if heads is None else _contiguous(call, heads, copy)
        y = result if result.is_contiguous else call.temporary(result.shape, value, "result")
        plan = plan_of(call.device, request, operator, source, heads, y, init, carry, total)
        assert plan is not None
    return Prepared(call, operator, source, heads, y, result, init, plan, copies)


def _contiguous(call: Call, operand: Operand, copy: Copy) -> Operand:
    return operand if operand.is_contiguous else copy(call, operand)


def _resolved(
    x: Any, request: Request, out: Any, device: Any, queue: Any, wait_for: Any, copy: Copy
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
    inputs = {"x": x, "segments": request.heads}
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
    call = Call.begin(inputs, device=device, queue=queue, wait_for=wait_for, out=out)
    operator.check(call.device)
    types = "scan dtypes", source, value
    if call.device.plans.get(types) is None:
        call.device.plans.make(types, _check_types, call.device, source, value)
    x_in = call.input("x")
    conversion(x_in.dtype, value)
    h_in = None
    if request.heads is not None:
        h_in = call.input("segments")
        if h_in.shape != x_in.shape:
            raise InvalidArgument(f"segments has shape {h_in.shape}; it must have the shape of x, {x_in.shape}")
    if request.axis is None:
        if out is not None and type(out) is not tuple:  # validate before anything is copied
            check_out(out, (x_in.size,), value, "out")
        x_in = _flat(_contiguous(call, x_in, copy))
        h_in = _flat(_contiguous(call, h_in, copy)) if h_in is not None else None
    else:
        axis_of(request.axis, len(x_in.shape))
    return call, (x_in, h_in, call.input("init") if "init" in inputs else init), value, operator


def _check_types(device: Any, source: np.dtype, value: np.dtype) -> bool:
    check_supported(source, device, "x")
    check_supported(value, device, "dtype")
    check_kept_whole(value, device)
    return True


def _flat(operand: Operand) -> Operand:
    return operand.view((operand.size,), (1,))


def resolve_aliasing(
    call: Call, x: Operand, h: Operand | None, init: Any, y: Operand, copy: Copy
) -> tuple[Operand, Operand | None, Any]:
    """Copy the inputs that the results would overwrite too early. Returns (x, h, init)."""
    if call.overlaps(x, y):  # two buffers may be views of the same third buffer: use one buffer for an in-place scan
        x = y if call.same(x, y) else copy(call, x)
    if h is not None and call.overlaps(h, y):
        h = copy(call, h)
    if type(init) is Operand and call.overlaps(init, y):  # every head reads init, after results were stored
        init = copy(call, init)
    return x, h, init


def plan_of(
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
    """The cached plan of this scan; None if the arrays need contiguous copies (see `layout_of`)."""
    in_place = x.buffer is y.buffer
    init_kind = "none" if init is None else "buffer" if type(init) is Operand else "value"
    key = (
        "scan",
        operator.key,
        x.dtype,
        x.shape,
        x.strides,
        y.strides,
        None if h is None else (request.kind, h.dtype, h.strides),
        request.axis,
        request.exclusive,
        request.reverse,
        init_kind,
        carry,
        total,
        in_place,
        request.strategy,
        key_alone(request.spec),
    )
    found: WalkPlan | ColumnsPlan | None = device.plans.get(key, ABSENT)
    if found is ABSENT:
        found = device.plans.make(key, _new_plan, device, request, operator, x, h, y, init_kind, carry, total, in_place)
    return found


def _new_plan(
    device: Any,
    request: Request,
    operator: Operator,
    x: Operand,
    h: Operand | None,
    y: Operand,
    init_kind: str,
    carry: bool,
    total: bool,
    in_place: bool,
) -> WalkPlan | ColumnsPlan | None:
    axis = 0 if request.axis is None else axis_of(request.axis, len(x.shape))
    strides = [x.strides, y.strides] if h is None else [x.strides, y.strides, h.strides]
    layout = layout_of(x.shape, strides, axis, request.reverse)
    if layout is None:
        return None
    choice = _chosen(device, request, operator, x.dtype, layout, h is not None, in_place)
    spec: ScanSpec = choice.spec
    start = "carry" if carry else "init" if init_kind != "none" and layout.rows == 1 else "none"
    job = Job(
        source=x.dtype,
        operator=operator,
        layout=layout,
        heads=request.kind,
        head_dtype=None if h is None else h.dtype,
        exclusive=request.exclusive,
        init=init_kind,
        heads_init=init_kind != "none",
        start=start,
        total=total,
        in_place=in_place,
    )
    plan = make_plan(device, job, spec)
    plan.why = f"{choice.source}: {choice.reason}"
    return plan


def _chosen(
    device: Any, request: Request, operator: Operator, source: np.dtype, layout: Any, heads: bool, in_place: bool
) -> Choice:
    value = operator.dtype
    vectors = operator.vector_body is not None and vector_parts(value) is None
    names = dtype_text(value) if source == value else f"{dtype_text(source)},{dtype_text(value)}"
    problem = ScanProblem(
        names,
        max(0, layout.rows - 1).bit_length(),
        max(0, layout.n - 1).bit_length(),
        value.itemsize,
        layout.columns,
        exclusive=request.exclusive,
        segments=heads,
        in_place=in_place,
        record=is_record(value),
        vectors=vectors,
    )
    spec = request.spec
    if request.strategy is not None:
        base = choose(FAMILY, device, problem, spec).spec
        spec = (
            {**vars(base), "strategy": request.strategy}
            if not isinstance(spec, Mapping)
            else {**spec, "strategy": request.strategy}
        )
    return choose(FAMILY, device, problem, spec)
