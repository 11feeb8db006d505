"""Validate a selection's arguments, and find its plan: the call, its operands, the condition and the cached plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import by_key, check_same_shape, integer
from pydp.algorithms.lengths import check_limit, length_of, limit
from pydp.algorithms.lookback import why_two_passes
from pydp.algorithms.operators.predicate import Predicate, nonzero, predicate_of, three_parts
from pydp.algorithms.select.plan import COUNT, Condition, Job, SelectPlan, select_plan
from pydp.dtypes import check_kept_whole, check_supported
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation
from pydp.model.family import Key, Keyed
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.tuning.choose import cached_plan

_COUNTS = (np.dtype(np.int32), np.dtype(np.int64))
INDEXES = ("flatnonzero", "nonzero", "argwhere")


class Request(NamedTuple):
    """The arguments of a call of the function named `which`, other than the device."""

    which: str
    x: Any
    mask: Any
    predicate: Any
    count: Any
    spec: Any
    length: Any = None
    second: Any = None


class Prepared(NamedTuple):
    """A selection that is ready to run. inputs: k, e and s of the plan. x: the elements in C order. already_sorted:
    see `SelectPlan.run`."""

    call: Call
    plan: SelectPlan
    inputs: tuple[Operand | None, Operand | None, Operand | None]
    x: Operand
    shape: tuple[int, ...]
    already_sorted: tuple[Operand, Operand] | None = None


def launched(request: Request, where: dict[str, Any]) -> tuple[Any, ...]:
    """Enqueue a selection. Returns (the result with space for all elements, the number of kept elements); with
    a second condition, the numbers of elements of both parts."""
    ready = prepare(request, where)
    call, n = ready.call, ready.x.size
    steps: Sequence[int] = ()
    if request.which not in INDEXES:
        made = call.output((n,), ready.x.dtype, "elements")
    elif request.which == "nonzero":
        made, steps = call.output((len(ready.shape), n), COUNT, "indexes"), (1, n)
    elif request.which == "argwhere":
        made, steps = call.output((n, len(ready.shape)), COUNT, "indexes"), (len(ready.shape), 1)
    else:
        made = call.output((n,), COUNT, "indexes")
    outputs = [made, call.output((), COUNT, "total")]
    outputs += [call.output((), COUNT, "second")] if request.second is not None else []
    outputs += [given_count(call, ready, request.count)] if request.count is not None else []
    length = limit(call, n) if call.has("length") else None
    inputs = flattened(call, ready.inputs, n)
    if request.which == "partition" and length is not None and call.like is None:
        _copy_rest(call, inputs[1], made, request.length)
    ready.plan.run(call, inputs, outputs, steps, length)
    results: tuple[Any, ...] = call.finish(*outputs)
    return results


def _copy_rest(call: Call, x: Operand | None, made: Operand, length: Any) -> None:
    """Enqueue the copy of the elements beyond a length to a NumPy array, which would contain old memory there. All are
    copied if the length is an array, because a recorded call may be repeated with another one."""
    assert x is not None
    start = 0 if hasattr(length, "dtype") else integer(length)
    rest = (x.size - start,)
    source = x.view(rest, x.strides, x.offset + start * x.strides[0])
    elementwise.copy(call, source, made.view(rest, made.strides, made.offset + start * made.strides[0]))


def given_count(call: Call, ready: Prepared, count: Any) -> Operand:
    """The operand of the caller's count. Raises InvalidArgument if it shares memory with an input."""
    found = call.output(count.shape, count.dtype, "count")
    if any(one is not None and call.overlaps(one, found) for one in ready.inputs):
        raise InvalidArgument("count shares memory with an array that the call reads; a separate array is needed")
    return found


def prepare(request: Request, where: dict[str, Any]) -> Prepared:
    """Do all checks, and find the plan. Nothing is enqueued."""
    which, count = request.which, request.count
    check_choice(request)
    if count is not None:
        check_count(count)
    length = length_of(request.length)
    outputs = 3 if request.second is None else 4
    out = None if count is None else (*[None] * (outputs - 1), count)
    arrays_given = {"x": request.x, "mask": request.mask, "length": length}
    call = Call.begin(arrays_given, out=out, outputs=outputs, out_name="count", **where)
    x = call.input("x")
    shape = x.shape
    if which in ("nonzero", "argwhere") and not shape:
        raise InvalidArgument(f"{which} is given an array of rank 0; arrays of rank 1 and more are accepted")
    mask = call.input("mask") if call.has("mask") else None
    if mask is not None:
        check_mask(mask, x, which)
    check_types(call, x.dtype, request.predicate is None)
    predicate = condition_of(request, x, mask)
    predicate.check(call.device)
    given, x = x, x.flat
    decides, read = given, x
    if mask is not None:
        decides, read = mask, mask.flat
        x = x.view((read.size,), x.strides)
    check_limit(length, x.size, f"the number of elements{' of mask' if which == 'compress' else ''}")
    axes = shape if which in ("nonzero", "argwhere") else (x.size,) if which in INDEXES else ()
    arrays = (x.dtype, x.size, read.strides[0], x.strides[0], axes)
    stored = None if count is None else np.dtype(count.dtype)
    keyed = Keyed(predicate, Key(predicate.key))
    three = request.second is not None
    plan = _plan_of(call.device, which, arrays, keyed, stored, length is not None, three, by_key(request.spec))
    inputs = (decides, None if which in INDEXES else given, None)
    return Prepared(call, plan, inputs, x, shape)


def condition_of(request: Request, x: Operand, mask: Operand | None) -> Predicate:
    """The predicate on the elements of the array that decides."""
    if mask is not None:
        return nonzero(mask.dtype)
    if request.which in INDEXES:
        return nonzero(x.dtype)
    if request.second is None:
        return predicate_of(request.predicate, x.dtype)
    return three_parts(request.predicate, request.second, x.dtype)


def check_choice(request: Request) -> None:
    """Raise InvalidArgument unless select and partition get a predicate or a mask, and not both."""
    if request.which not in ("select", "partition"):
        return
    if request.predicate is None and request.mask is None:
        raise InvalidArgument(
            f"{request.which} is given no condition; a predicate, such as 'x > 0', or mask= is needed"
        )
    if request.predicate is not None and request.mask is not None:
        raise InvalidArgument(f"{request.which} is given both a predicate and mask; one of them is accepted")
    if request.second is not None and request.mask is not None:
        raise InvalidArgument(
            f"{request.which} is given both mask and second; second needs a predicate instead of a mask"
        )


def check_count(count: Any) -> None:
    """Raise InvalidArgument unless `count` is an array of one int32 or int64."""
    if not hasattr(count, "dtype") or not hasattr(count, "shape") or isinstance(count, np.generic):
        raise InvalidArgument(f"count is {shown(count)}; an array of one int32 or int64 is accepted")
    if count.dtype not in _COUNTS or count.shape not in ((), (1,)):
        raise InvalidArgument(
            f"count has shape {count.shape} and dtype {count.dtype}; one int32 or int64 of shape () or (1,) is accepted"
        )


def check_mask(mask: Operand, x: Operand, which: str) -> None:
    """Raise InvalidArgument for a mask of another dtype or shape."""
    if which == "compress":
        check_flat_mask(mask, x.size, "x")
        return
    _check_mask_dtype(mask)
    check_same_shape("mask", mask, "x", x)


def _check_mask_dtype(mask: Any) -> None:
    if mask.dtype.kind not in "biufc":
        raise InvalidArgument(f"mask has dtype {mask.dtype}; bool and numbers are accepted")


def check_flat_mask(mask: Any, most: int, what: str) -> None:
    """Raise InvalidArgument unless `mask` is an array of rank 1 with at most as many numbers as `what`."""
    _check_mask_dtype(mask)
    if len(mask.shape) != 1 or mask.size > most:
        raise InvalidArgument(
            f"mask has shape {mask.shape}; rank 1 and at most as many elements as {what}, {most}, are accepted"
        )


def check_types(call: Call, dtype: np.dtype, moved: bool) -> None:
    """Raise UnsupportedOnDevice if the device cannot read elements of `dtype`. moved: they are only copied."""
    check_supported(dtype, call.device, "x", storage_only=moved)
    check_kept_whole(dtype, call.device)


def flattened(call: Call, inputs: Sequence[Operand | None], n: int) -> tuple[Operand | None, ...]:
    """The first `n` elements of each input in C order, as operands of one axis; enqueues the copies that this needs."""
    made: dict[int, Operand] = {}
    for one in inputs:
        if one is not None and id(one) not in made:
            made[id(one)] = call.flat(one)
    flat = [None if one is None else made[id(one)] for one in inputs]
    return tuple(None if one is None else one.view((n,), one.strides) for one in flat)


@cached_plan
def _plan_of(
    device: Any,
    which: str,
    arrays: tuple[np.dtype, int, int, int, tuple[int, ...]],
    predicate: Any,
    count: np.dtype | None,
    bounded: bool,
    three: bool,
    spec: Any,
) -> SelectPlan:
    dtype, n, read_step, step, shape = arrays
    condition = Condition(
        predicate.title, predicate.dtype, predicate.function(), predicate.declarations, False, predicate.iterations,
        vector=predicate.vector, vector_functions=predicate.vector_functions, three=three,
    )  # fmt: skip
    stores = which not in INDEXES
    job = Job(
        condition,
        n,
        (read_step, step, 1),
        element=dtype.itemsize if stores else 0,
        shape=shape,
        rest=which == "partition",
        count=count,
        bounded=bounded,
    )
    return select_plan(device, job, spec)


def explained(request: Request, where: dict[str, Any]) -> Explanation:
    """Describe a selection without enqueuing anything."""
    ready = prepare(request, where)
    device, plan = ready.call.device, ready.plan
    return explanation(request.which, device, plan, f"{ready.shape} {ready.x.dtype}")


def explanation(which: str, device: Any, plan: SelectPlan, what: str) -> Explanation:
    """The explanation of a plan."""
    spec = plan.spec
    choices = [f"{plan.choice.source}: {plan.choice.reason}", *plan.describe()]
    choices.append(f"mapping {spec.mapping!r}: the device is a {device.profile.kind}")
    if spec.strategy == "reduce_then_scan" and not plan.job.rest:
        choices.append(f"strategy 'reduce_then_scan': {why_two_passes(device.profile)}")
    choices.append("only the device knows the length of the result: the host waits for it when it is asked for")
    facts = {
        "device": device.name,
        "specialization": spec,
        "groups": plan.parts,
        "group": plan.group,
    }
    return Explanation(f"{which} of {what} on {device.name}", facts, choices,
                       {name: one.source for name, one in plan.all_kernels().items()})  # fmt: skip
