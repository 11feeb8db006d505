"""A call of a reduction with hooks: its arrays, its plan, its results, and its explanation."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, is_only_axis, scalar_of, switch
from pydp.algorithms.lengths import check_limit, length_of, limit, whole
from pydp.algorithms.pieces import needed
from pydp.algorithms.reduce import axes_of, described_pass
from pydp.algorithms.reduce.hooks import HookedPlan, Hooks, named_operator, plan, run
from pydp.algorithms.reduce.passes import collapse
from pydp.algorithms.scan.arguments import check_device_init, host_init, is_device_init
from pydp.errors import InvalidArgument, OutOfResources, shown
from pydp.groups.barrier_plan import describe_barriers
from pydp.model.explanation import Explanation, Given, sources_of
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.recording import recorded

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Request:
    """The arguments of a reduction. inputs: one or two arrays by name; a second one is broadcast to the first.

    hooks: makes the hooks from the device and the dtypes of the inputs. flat: fold all elements of both arrays in C
    order, whatever their shapes are. initial: a first value that the operator of the hooks combines with each
    result: a value, or a Field or pyopencl Array of one element; None for no such value. length: see
    :mod:`pydp.algorithms.lengths`.
    """

    name: str
    inputs: Mapping[str, Any]
    hooks: Callable[[Any, tuple[np.dtype, ...]], Hooks]
    axis: Any
    keepdims: Any
    where: dict[str, Any]
    spec: Any
    outputs: int = 1
    flat: bool = False
    initial: Any = None
    length: Any = None

    @classmethod
    def of(cls, g: Given, name: str, inputs: Mapping[str, Any], hooks: Any, **more: Any) -> Request:
        """The request of a call with the arguments axis, keepdims, length and spec."""
        inputs = {which: whole(one, g.length) for which, one in inputs.items()}  # `explain` has no `limited`
        return cls(name, inputs, hooks, g.axis, g.keepdims, g.where, g.spec, length=g.length, **more)


def _whole(name: str | None, value: Any) -> Any:
    """An argument of a call with a length."""
    return whole(value, True) if name in ("x", "where") else value


def limited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of functions with the arguments `x` and ``length=``: calls are recorded, and a call with a length takes
    all memory of a result whose length only the device knows, so that it does not wait for it."""
    ready = recorded(function)
    positional = inspect.getfullargspec(function).args

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if named.get("length") is not None:
            args = tuple(_whole(name, one) for name, one in zip_longest(positional[: len(args)], args))
            named = {name: _whole(name, one) for name, one in named.items()}
        return ready(*args, **named)

    return call


@dataclass(frozen=True)
class _Prepared:
    """A call before its launches. inputs: as given. sources: as the plan folds them, all with the same strides; an
    input with another layout is copied first. shape: of the results. initial: the first value as an argument of a
    kernel."""

    call: Call
    inputs: list[Operand]
    sources: list[Operand]
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    plan: HookedPlan
    initial: Any = None


def _prepare(request: Request) -> _Prepared:
    first, *others = (value for name, value in request.inputs.items() if value is not None or name == "x")
    length = length_of(request.length)
    if needed(request.where, first, *others):
        raise OutOfResources(
            f"{request.name} is given {first.nbytes} bytes, more than the device's largest buffer; reduce parts of x"
        )
    device_initial = request.initial if request.initial is not None and is_device_init(request.initial) else None
    arrays = {**request.inputs, "initial": device_initial, "length": length}
    call = Call.begin(arrays, outputs=request.outputs, **request.where)
    inputs = [call.input(name) for name, value in request.inputs.items() if value is not None or name == "x"]
    keepdims = switch(request.keepdims, "keepdims")
    hooks = request.hooks(call.device, tuple(one.dtype for one in inputs))
    x = inputs[0]
    if hooks.indexed and request.axis is not None and (x.shape or not is_only_axis(request.axis)):
        axis_of(request.axis, len(x.shape))  # one axis or None
    axes = axes_of(request.axis, len(x.shape))
    shape = tuple(1 if k in axes else size for k, size in enumerate(x.shape) if keepdims or k not in axes)
    if len(inputs) > 1 and not request.flat:
        inputs = [x, _broadcast(inputs[1], x)]
    if length is not None:
        check_limit(length, x.size)
        if len(axes) != len(x.shape):
            raise InvalidArgument(
                f"axis is {shown(request.axis)}, but length= needs a reduction over all axes; None is accepted"
            )
    sources = _aligned(inputs, axes, hooks.indexed, length is not None)
    if len(sources[0].shape) != len(x.shape) or length is not None:
        axes = (0,)
    second = sources[1].dtype if len(sources) > 1 else None
    x = sources[0]
    described = (x.dtype, second, x.shape, x.strides, axes, hooks, length is not None)
    found = plan(call.device, *described, by_key(request.spec))
    initial: Any = None
    if device_initial is not None:
        given = call.input("initial")
        check_device_init(given, hooks.results[0], "initial")
        initial = given.view((), ())
    elif request.initial is not None:
        initial = host_init(request.initial, hooks.results[0], "initial")[()]
    return _Prepared(call, inputs, sources, axes, shape, found, initial)


def _broadcast(y: Operand, x: Operand) -> Operand:
    """y with the shape of x."""
    added = len(x.shape) - len(y.shape)
    if added < 0 or any(size not in (1, whole) for size, whole in zip(y.shape, x.shape[added:], strict=True)):
        raise InvalidArgument(
            f"{y.name} has shape {y.shape}; a shape that broadcasts to the shape {x.shape} of {x.name} is accepted"
        )
    steps = zip(y.shape, y.strides, x.shape[added:], strict=True)
    return y.view(x.shape, (0,) * added + tuple(step if size == whole else 0 for size, step, whole in steps))


def _aligned(inputs: list[Operand], axes: tuple[int, ...], indexed: bool, bounded: bool) -> list[Operand]:
    """The inputs with equal strides: as they are, or as if copied to C order. An index counts elements in C order, so
    the axes of a fold with an index must be one axis in memory. bounded: the first elements in C order count, so all
    axes become one."""
    x = inputs[0]
    alike = all(
        one.shape == x.shape
        and all(a == b or size == 1 for a, b, size in zip(one.strides, x.strides, x.shape, strict=True))
        for one in inputs
    )
    merged = collapse([(x.shape[a], x.strides[a]) for a in axes])
    if bounded:
        step = merged[0][1] if merged and alike else 1
        if alike and len(merged) < 2:
            return [one.view((x.size,), (step,)) for one in inputs]
        return [one.view((x.size,), (1,)) for one in inputs]
    if alike and not (indexed and len(merged) > 1):
        return [one.view(x.shape, x.strides) for one in inputs]
    shape = x.shape if all(one.shape == x.shape for one in inputs) else (x.size,)
    return [one.view(shape, c_strides(shape)) for one in inputs]


def _share_host_memory(a: Operand, b: Operand) -> bool:
    """Whether two results are NumPy arrays that share memory; a GPU has a buffer for each of them."""
    one, other = a.result, b.result
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(one, other)


def perform(request: Request) -> Any:
    """Run a reduction. A NumPy array reduced over all axes gives a NumPy scalar."""
    wait_on_host(request.where["wait_for"], request.initial)
    ready = _prepare(request)
    call, dtypes = ready.call, ready.plan.hooks.results
    names = ["out"] if request.outputs == 1 else [f"out[{k}]" for k in range(request.outputs)]
    results = [call.output(ready.shape, dtype, name) for dtype, name in zip(dtypes, names, strict=True)]
    if len(results) > 1 and (call.overlaps(*results) or _share_host_memory(*results)):
        raise InvalidArgument(f"{' and '.join(names)} share memory; separate arrays are needed")
    sources = ready.sources
    if ready.plan.steps:
        pairs = zip(ready.inputs, sources, strict=True)
        sources = [call.contiguous(one).view(to.shape, to.strides) if _moved(one, to) else to for one, to in pairs]
    length = limit(call, ready.inputs[0].size) if request.length is not None and ready.plan.steps else None
    folded = results
    if isinstance(ready.initial, Operand) and call.overlaps(ready.initial, results[0]):
        folded = [call.temporary(results[0].shape, results[0].dtype)]  # the first value is read after the fold
    run(call, ready.plan, sources, folded, length)
    if ready.initial is not None:
        combine = named_operator(ready.plan.hooks.operator, results[0].dtype).function("evaluate")
        elementwise.apply(call, "call", [ready.initial, folded[0]], results[0], function=combine)
    found = call.finish(*results)
    if request.where["out"] is not None:
        return found
    if not isinstance(found, tuple):
        return scalar_of(found)
    return tuple(map(scalar_of, found)) if any(scalar_of(one) is not one for one in found) else found


def _moved(given: Operand, source: Operand) -> bool:
    """Whether an input must be copied: it is not in C order, but its source is."""
    same = given.shape == source.shape and given.strides == source.strides
    return not same and source.is_contiguous and not given.is_contiguous


def describe(request: Request) -> Explanation:
    """Explain a reduction on this device."""
    ready = _prepare(request)
    call, hooks = ready.call, ready.plan.hooks
    if request.where["out"] is not None:
        for k, dtype in enumerate(hooks.results):
            call.output(ready.shape, dtype, "out" if len(hooks.results) == 1 else f"out[{k}]")  # validates out
    facts: dict[str, object] = {
        "device": call.device.name,
        "shape": ready.sources[0].shape,
        "axes": ready.axes,
        "types": f"{', '.join(str(one.dtype) for one in ready.sources)} -> {', '.join(map(str, hooks.results))}",
        "accumulator": ", ".join(f"{name} ({dtype})" for name, dtype, _ in hooks.members),
        "specialization": ready.plan.choice.spec if ready.plan.choice else "none: nothing to reduce",
    }
    choices = [ready.plan.choice.reason] if ready.plan.choice else []
    for given, source in zip(ready.inputs, ready.sources, strict=True):
        if _moved(given, source):
            choices.append(f"{given.name} is first copied to C order")
    for step in ready.plan.steps:
        choices += [described_pass(step.action), *describe_barriers(step.kernel)]
    if ready.initial is not None:
        choices.append("another kernel combines the results with the first value")
    return Explanation(request.name, facts, choices, sources_of(step.kernel for step in ready.plan.steps))


def explaining(build: Callable[[Given], Request]) -> Callable[[Given], Explanation]:
    """The explanation of a function whose calls `build` describes."""
    return lambda given: describe(build(given))


def check_kind(name: str, dtype: np.dtype, kinds: str, accepted: str) -> None:
    """Raise InvalidArgument if a function is not defined on elements of `dtype`."""
    if dtype.names is not None or dtype.kind not in kinds:
        raise InvalidArgument(f"{name} is not defined on elements of dtype {dtype}; {accepted} are accepted")


def widest_float(device: Any) -> np.dtype:
    """float64, or float32 on a device without float64."""
    return np.dtype(np.float64 if device.profile.fp64 else np.float32)


def float_result(name: str, source: np.dtype, dtype: Any, complex_too: bool) -> np.dtype:
    """The dtype of a mean or a norm: `dtype`, or the input's if it is a float, or float64."""
    kinds, accepted = ("biufc", "numbers") if complex_too else ("biuf", "bool, integers and floats")
    check_kind(name, source, kinds, accepted)
    if dtype is None:
        return source if source.kind in "fc" else np.dtype(np.float64)
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise InvalidArgument(f"dtype is {shown(dtype)}; float16, float32 and float64 are accepted") from None
    if found not in FLOATS and not (complex_too and found.kind == "c" and found.itemsize <= 16):
        raise InvalidArgument(f"dtype is {found}; float16, float32 and float64 are accepted")
    if source.kind == "c" and found.kind != "c":
        raise InvalidArgument(f"dtype is {found}, but x is complex; complex64 and complex128 are accepted")
    return found


def mask_of(where: Any) -> Any:
    """The argument where: None, or an array of bools. True stands for None."""
    if where is None or where is True:
        return None
    found = where if hasattr(where, "dtype") else normal_input("where", where)
    if found.dtype != np.bool_:
        raise InvalidArgument(f"where has dtype {found.dtype}; an array of bool is accepted")
    return found
