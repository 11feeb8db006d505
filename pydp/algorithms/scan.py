"""Prefix scans along any axis: inclusive, exclusive, reversed, segmented, with any associative operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pydp.algorithms import _scan_arguments as arguments
from pydp.algorithms import _scan_stream as stream
from pydp.algorithms._scan_layout import layout_of
from pydp.algorithms._scan_plan import Arrays, ColumnsPlan, Job, WalkPlan, make_plan
from pydp.algorithms._scan_spec import FAMILY, STRATEGIES, ScanSpec, problem_of
from pydp.algorithms.operators import Operator, operator_text
from pydp.dtypes import check_supported, vector_parts
from pydp.errors import InvalidArgument
from pydp.runtime.call import Call, Operand
from pydp.runtime.field import Field
from pydp.specialize.choose import choose
from pydp.specialize.explanation import Explanation

__all__ = ["ScanSpec", "scan"]

_MAX_PLANS = 512


def scan(
    x: Any,
    op: Any = "+",
    *,
    axis: int | None = -1,
    exclusive: bool = False,
    reverse: bool = False,
    init: Any = None,
    segments: Any = None,
    dtype: Any = None,
    strategy: str | None = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """The running folds of `x` along `axis`: element k of the result is ``x[0] op x[1] op ... op x[k]``.

    x: NumPy array, Field or pyopencl Array of any rank, strides and dtype (bool, integers, floats, complex numbers,
    OpenCL vectors, records); the result is of the same kind and shape. axis=None scans the elements in C order and
    gives a result of rank 1.

    op: any associative operator, commutative or not: ``+ * min max & | ^ logaddexp``, an OpenCL C expression in a and
    b, a dict of such expressions for the fields of a record, or a Python function. It is called with real elements
    only, earlier ones as `a`, and the bracketing depends on the sizes and the device alone: float results are the same
    bits run after run.

    exclusive: element k is the fold of what lies before k; element 0 is `init`, else what the operator's identity is
    (an operator without a known one needs an init). reverse: the same as ``scan(x[::-1], ...)[::-1]``. init: a value
    (or a Field or pyopencl Array of one element, read on the device) that every scan begins with, each segment too.
    segments: head flags (bool or uint8, nonzero begins a segment) or keys (other integers; a run of equal neighbours
    is a segment), of x's shape, or ("flags", array) or ("keys", array) to say which. A flag marks the first element
    in the order of the scan.

    dtype: what to compute in and return; by default that of x (as CUB and pyopencl have it, not NumPy), and int64 for
    sums and products of bools. out: where the result goes; it may be x. strategy: "lookback" (one pass, the default),
    "chained" or "reduce_then_scan". spec: a ScanSpec, or a mapping of some of its fields.

    Raises InvalidArgument for what is not accepted and UnsupportedOnDevice for dtypes that the device lacks, both
    before anything is enqueued.

    >>> pydp.scan(np.array([3, 1, 4], np.int32))          # doctest: +SKIP
    array([3, 4, 8], dtype=int32)

    Source: D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back (2016); the fallback
    follows T. Smith, R. Levien and J. Owens, Decoupled Fallback (2025).
    """
    request = _Request(op, axis, exclusive, reverse, init, segments, dtype, strategy, spec)
    if type(x) is np.ndarray and x.nbytes >= stream.ALWAYS_FITS and stream.too_large(x, device, queue, dtype):
        return stream.scan_in_pieces(_scan, x, request, out, {"device": device, "queue": queue, "wait_for": wait_for})
    return _scan(x, request, out, device, queue, wait_for)


class _Request:
    """The arguments of a scan other than arrays' places; `kind` and `heads` are those of the segments."""

    __slots__ = ("axis", "dtype", "exclusive", "heads", "init", "kind", "op", "reverse", "spec", "strategy")

    def __init__(
        self, op: Any, axis: Any, exclusive: Any, reverse: Any, init: Any, segments: Any, dtype: Any, strategy: Any, spec: Any
    ) -> None:
        if strategy is not None and strategy not in STRATEGIES:
            raise InvalidArgument(f"strategy={strategy!r} is not one of {', '.join(STRATEGIES)}")
        self.op, self.axis, self.init, self.dtype = op, axis, init, dtype
        self.exclusive, self.reverse = bool(exclusive), bool(reverse)
        self.kind, self.heads = arguments.segments_of(segments) if segments is not None else ("none", None)
        self.strategy, self.spec = strategy, spec

    def replaced(self, **values: Any) -> _Request:
        """A copy with other values."""
        copy = _Request.__new__(_Request)
        for name in self.__slots__:
            setattr(copy, name, values.get(name, getattr(self, name)))
        return copy


def _scan(
    x: Any,
    request: _Request,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    carry: Any = None,
    total: Any = None,
) -> Any:
    """One scan whose arrays fit the device. `carry` (a buffer of one value) stands before the first element instead of
    init; the last inclusive value goes to the buffer `total`."""
    call, arrays, value, operator = _opened(x, request, out, device, queue, wait_for)
    x_in, h_in, init = arrays
    y = call.output(x_in.shape, value)
    if x_in.size == 0:
        return call.finish(y)
    x_at, h_at, y_at = _untangled(call, x_in, h_in, y, operator)
    plan = _plan(call.device, request, operator, x_at, h_at, y_at, init, carry is not None, total is not None)
    if plan is None:  # axes that no two steps can walk: go through contiguous copies
        x_at = call.contiguous(x_at)
        h_at = call.contiguous(h_at) if h_at is not None else None
        y_at = y if y.is_contiguous else call.temporary(y.shape, value, "result")
        plan = _plan(call.device, request, operator, x_at, h_at, y_at, init, carry is not None, total is not None)
        assert plan is not None
    if getattr(plan, "apart", False):  # a fallback would read what the scan has overwritten
        x_at = _copied(call, x_at)
    init_argument = (init.buffer, init.offset) if type(init) is Operand else init
    heads = (h_at.buffer, h_at.offset) if h_at is not None else (None, 0)
    plan.run(call, Arrays(x_at.buffer, x_at.offset, y_at.buffer, y_at.offset, *heads, init_argument, carry, total))
    if y_at is not y:
        call.copy(y_at, y)
    return call.finish(y)


_Opened = tuple[Call, tuple[Operand, "Operand | None", Any], np.dtype, Operator]


def _opened(x: Any, request: _Request, out: Any, device: Any, queue: Any, wait_for: Any) -> _Opened:
    """The call with its inputs checked: (call, (x, heads or None, init: None, a scalar or an Operand), dtype, op)."""
    source_dtype = getattr(x, "dtype", None)
    if source_dtype is None:
        x = np.asarray(x)
        source_dtype = x.dtype
    source = np.dtype(source_dtype)
    value = arguments.value_dtype(source if source.isnative else source.newbyteorder("="), request.dtype, request.op)
    operator = operator_text(request.op, value)
    if request.exclusive and request.init is None and operator.start is None:
        raise InvalidArgument(f"an exclusive scan with op {request.op!r} needs init=, as it has no known identity")
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
    if not _is_known(call.device, source, value):
        check_supported(source, call.device, "x")
        check_supported(value, call.device, "dtype")
        call.device.kernels[("scan dtypes", source, value)] = True
    x_in = call.input("x")
    arguments.conversion(x_in.dtype, value)
    h_in = None
    if request.heads is not None:
        h_in = call.input("segments")
        if h_in.shape != x_in.shape:
            raise InvalidArgument(f"segments have shape {h_in.shape}; that of x, {x_in.shape}, is accepted")
    if request.axis is None:
        x_in = _flat(call, x_in)
        h_in = _flat(call, h_in) if h_in is not None else None
    else:
        arguments.checked_axis(request.axis, len(x_in.shape))
    return call, (x_in, h_in, call.input("init") if "init" in inputs else init), value, operator


def _is_known(device: Any, source: np.dtype, value: np.dtype) -> bool:
    return ("scan dtypes", source, value) in device.kernels


def _flat(call: Call, operand: Operand) -> Operand:
    operand = call.contiguous(operand)
    return operand.view((operand.size,), (1,))


def _copied(call: Call, operand: Operand) -> Operand:
    copy = call.temporary(operand.shape, operand.dtype, operand.name)
    call.copy(operand, copy)
    return copy


def _untangled(
    call: Call, x: Operand, h: Operand | None, y: Operand, operator: Operator
) -> tuple[Operand, Operand | None, Operand]:
    """The arrays with copies in place of inputs that the results would overwrite while they are still needed."""
    if call.overlaps(x, y) and not call.same(x, y):
        x = _copied(call, x)
    if h is not None and call.overlaps(h, y):
        h = _copied(call, h)
    return x, h, y


def _plan(
    device: Any,
    request: _Request,
    operator: Operator,
    x: Operand,
    h: Operand | None,
    y: Operand,
    init: Any,
    carry: bool,
    total: bool,
) -> WalkPlan | ColumnsPlan | None:
    """The kept plan of this description; None where the arrays' axes cannot be walked as they are."""
    spec = request.spec
    in_place = x.buffer is y.buffer
    key = (
        "choice",  # forgotten together with the choices that plans are made from
        "scan plan",
        operator.key,
        x.dtype,
        x.shape,
        x.strides,
        y.strides,
        None if h is None else (request.kind, h.dtype, h.strides),
        request.axis,
        request.exclusive,
        request.reverse,
        "none" if init is None else "buffer" if type(init) is Operand else "value",
        carry,
        total,
        in_place,
        request.strategy,
        spec if spec is None or isinstance(spec, ScanSpec) else repr(spec),
    )
    plans = device.kernels
    found = plans.get(key)
    if found is None:
        found = _new_plan(device, request, operator, x, h, y, key[11], carry, total, in_place)
        if found is not None:
            kept = [one for one in list(plans) if one[:2] == key[:2]]
            for old in kept[: len(kept) - _MAX_PLANS + 1] if len(kept) >= _MAX_PLANS else ():
                plans.pop(old, None)
            plans[key] = found
    return found


def _new_plan(
    device: Any,
    request: _Request,
    operator: Operator,
    x: Operand,
    h: Operand | None,
    y: Operand,
    init: Any,
    carry: bool,
    total: bool,
    in_place: bool,
) -> WalkPlan | ColumnsPlan | None:
    axis = 0 if request.axis is None else arguments.checked_axis(request.axis, len(x.shape))
    strides = [x.strides, y.strides] if h is None else [x.strides, y.strides, h.strides]
    layout = layout_of(x.shape, strides, axis, request.reverse)
    if layout is None:
        return None
    spec = _chosen(device, request, operator, x.dtype, layout, h is not None, in_place)
    start = "carry" if carry else "init" if init != "none" and layout.rows == 1 else "none"
    job = Job(
        source=x.dtype,
        operator=operator,
        layout=layout,
        heads=request.kind,
        head_dtype=None if h is None else h.dtype,
        exclusive=request.exclusive,
        init=init,
        heads_init=init != "none",
        start=start,
        total=total,
        in_place=in_place,
    )
    profile = device.profile
    fallback = profile.loop_limit is not None or not profile.group_progress or spec.order != "ticket" or spec.suppress
    apart = in_place and bool(fallback)
    if apart:
        job = job.apart()
    plan = make_plan(device, job, spec)
    plan.apart = apart and isinstance(plan, WalkPlan) and plan.phase == "single"
    return plan


def _chosen(
    device: Any, request: _Request, operator: Operator, source: np.dtype, layout: Any, heads: bool, in_place: bool
) -> ScanSpec:
    value = operator.dtype
    vectors = operator.vector_body is not None and vector_parts(value) is None
    words = tuple(
        word
        for word, there in (("exclusive", request.exclusive), ("segments", heads), ("in_place", in_place))
        if there
    )
    names = str(value) if source == value else f"{source},{value}"
    problem = problem_of(names, layout.rows, layout.n, value.itemsize, vectors, words, layout.columns)
    spec = request.spec
    if request.strategy is not None:
        base = choose(FAMILY, device, problem, spec).spec
        spec = {**vars(base), "strategy": request.strategy} if not isinstance(spec, Mapping) else {**spec, "strategy": request.strategy}
    return choose(FAMILY, device, problem, spec).spec


def _explain(x: Any, op: Any = "+", **keywords: Any) -> Explanation:
    """What ``scan(x, op, ...)`` would run here."""
    names = dict.fromkeys(("init", "segments", "dtype", "strategy", "out", "device", "queue", "wait_for", "spec"))
    given: dict[str, Any] = {**names, "axis": -1, "exclusive": False, "reverse": False}
    unknown = set(keywords) - set(given)
    if unknown:
        raise InvalidArgument(f"scan has no argument {sorted(unknown)[0]!r}; {', '.join(sorted(given))} are accepted")
    given.update(keywords)
    request = _Request(op, *(given[name] for name in ("axis", "exclusive", "reverse", "init", "segments", "dtype", "strategy", "spec")))
    call, (x_in, h_in, init), value, operator = _opened(x, request, given["out"], *(given[n] for n in ("device", "queue", "wait_for")))
    title = f"scan of {x_in.shape} {x_in.dtype} with {operator.name!r} along axis {request.axis} on {call.device.name}"
    if x_in.size == 0:
        return Explanation(title, {"result": "nothing to do"})
    y = call.temporary(x_in.shape, value)
    x_at, h_at = x_in, h_in
    plan = _plan(call.device, request, operator, x_at, h_at, y, init, False, False)
    choices = []
    if plan is None:
        choices.append("the other axes need more than two steps: the scan works on contiguous copies")
        x_at, h_at = call.contiguous(x_at), call.contiguous(h_at) if h_at is not None else None
        plan = _plan(call.device, request, operator, x_at, h_at, y, init, False, False)
    assert plan is not None
    profile = call.device.profile
    choices += plan.describe()
    choices.append(f"mapping {plan.spec.mapping!r}: the device is a {profile.kind}")
    choices.append(_why_strategy(profile, plan.spec))
    kernels = plan.all_kernels()
    facts = {"device": call.device.name, "dtype": str(value), "specialization": plan.spec, "groups": plan.grid[0] // plan.group[0], "group": plan.group}
    return Explanation(title, facts, choices, {name: one.source for name, one in kernels.items()})


def _why_strategy(profile: Any, spec: ScanSpec) -> str:
    if spec.strategy != "reduce_then_scan":
        return f"strategy {spec.strategy!r}: started groups of this driver keep running, so one pass over memory is safe"
    if profile.loop_limit is not None:
        return f"strategy {spec.strategy!r}: this driver ends loops after {profile.loop_limit} iterations, so none may wait"
    return f"strategy {spec.strategy!r}: asked for, or this driver promises no progress between groups"


scan.__pydp_explain__ = _explain  # type: ignore[attr-defined]
