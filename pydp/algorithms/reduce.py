"""``pydp.reduce``: folds over any axes, with any associative operator and any type, the same bits every time.

The fold is that of the elements in C order, cut into parts of a fixed size: no atomics, so nothing depends on
timing. Named operators, which also commute, may be interleaved within a part; any other operator never has its
operands exchanged, and every operator only sees real elements (SPEC S2: no padding, no identity needed).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms._conversion import conversion
from pydp.algorithms._keys import by_key, unkeyed
from pydp.algorithms._reduce_counts import counts
from pydp.algorithms._reduce_plan import Pass, ReduceSpec, passes
from pydp.algorithms._scan_arguments import host_init, is_device_init
from pydp.algorithms.operators import Operator, operator_text
from pydp.dtypes import c_declarations, c_name, check_supported, is_record, native, vector_parts
from pydp.errors import InvalidArgument
from pydp.groups.barrier import why_not
from pydp.groups.meetings import built, told, tree
from pydp.runtime.call import Call
from pydp.runtime.operand import Operand
from pydp.runtime.profile import Profile
from pydp.runtime.program import Kernel, kernel
from pydp.specialize.choose import Choice, choose, rests_on_choices
from pydp.specialize.explanation import Explanation, explained_by
from pydp.specialize.family import Family, Problem

__all__ = ["ReduceSpec", "reduce"]


def reduce(
    x: Any,
    op: Any = "+",
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    init: Any = None,
    dtype: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Folds `x` over some axes with an associative operator.

    x: array of any shape and strides (NumPy, Field or pyopencl array); the result is of its kind, of NumPy arrays a
        NumPy scalar where no axis is left.
    op: ``+ * min max & | ^ logaddexp``, an OpenCL C expression in ``a`` and ``b``, or a Python function of two values;
        it must be associative, it need not commute: elements are folded in C order of the reduced axes.
    axis: an axis, a tuple of axes, or None for all. keepdims: reduced axes stay, with extent 1.
    init: a first value, folded in on the left. dtype: type of the fold and the result; by default that of `x`, but
        int64 or uint64 for the sum and product of smaller integers (bool counts as one), as NumPy has it.
    out: where the result is written (its shape and dtype must fit), also overlapping `x`.

    Nothing to fold gives `init`, else what NumPy gives (0 for a sum); operators without such a value raise
    InvalidArgument. Wrong axes, types and operators raise InvalidArgument, types that the device lacks
    UnsupportedOnDevice, before anything is enqueued.

    >>> pydp.reduce(np.arange(6).reshape(2, 3), "max", axis=1)
    array([2, 5])
    >>> pydp.reduce(np.arange(4, dtype=np.float32))
    np.float32(6.0)
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    call, source, axes, plan = _planned(x, op, axis, init, dtype, spec, where)
    shape = tuple(1 if a in axes else size for a, size in enumerate(source.shape) if keepdims or a not in axes)
    value = None if init is None or call.has("init") else host_init(init, plan.dtype)
    result = call.output(shape, plan.dtype)
    seed = None if init is None else _seed(call, value, plan.dtype)
    _run(call, plan, source, seed, result)
    found = call.finish(result)
    return found[()] if out is None and not keepdims and isinstance(found, np.ndarray) and not found.ndim else found


def _planned(
    x: Any, op: Any, axis: Any, init: Any, dtype: Any, spec: Any, where: dict[str, Any]
) -> tuple[Call, Operand, tuple[int, ...], _Plan]:
    """What a call and its explanation begin with: the call, its operand, the axes to fold and the plan."""
    first = init if init is not None and is_device_init(init) else None
    call = Call.begin({"x": x, "init": first}, **where)
    source = call.input("x")
    axes = _axes(axis, len(source.shape))
    described = (source.dtype, source.shape, source.strides, by_key(op), axes, init is not None)
    plan = _plan(call.device, *described, None if dtype is None else native(dtype), by_key(spec))
    return call, source, axes, plan


# --- the plan of a description ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """A pass with its kernel and its whole launch but for the buffers."""

    action: Pass
    kernel: Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    before: tuple[Any, ...]
    after: tuple[Any, ...]


@dataclass(frozen=True)
class _Plan:
    """What a description (device, types, shape, strides, operator, axes) needs; `start` is for empty folds."""

    dtype: np.dtype
    operator: Operator
    steps: tuple[_Step, ...]
    empty: bool
    start: Any
    choice: Choice | None


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = []
    for item in given:
        try:
            place = int(item.__index__())
        except (AttributeError, TypeError):
            raise InvalidArgument(f"axis {item!r} is not an integer; None, an axis or a tuple is accepted") from None
        if not -rank <= place < rank:
            raise InvalidArgument(f"axis {place} is out of range for {rank} axes; -{rank} to {rank - 1} are accepted")
        axes.append(place % rank)
    if len(set(axes)) != len(axes):
        raise InvalidArgument(f"axis {axis!r} names an axis twice; each may be given once")
    return tuple(sorted(axes))


def result_dtype(dtype: np.dtype, op: Any) -> np.dtype:
    """The type of a fold where none is asked for: `dtype`, but 64 bits for sums and products of smaller integers."""
    if op in ("+", "*", np.add, np.multiply) and not is_record(dtype) and dtype.itemsize < 8:
        if dtype.kind in "bi":
            return np.dtype(np.int64)
        if dtype.kind == "u":
            return np.dtype(np.uint64)
    return dtype


@rests_on_choices
@functools.lru_cache(maxsize=256)
def _plan(
    device: Any,
    source: np.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    op: Any,
    axes: tuple[int, ...],
    initial: bool,
    dtype: np.dtype | None,
    spec: Any,
) -> _Plan:
    op, spec = unkeyed(op), unkeyed(spec)
    accumulator = result_dtype(source, op) if dtype is None else dtype
    check_supported(source, device, "reduce")
    check_supported(accumulator, device, "reduce")
    convert = conversion(source, accumulator)
    operator = operator_text(op, accumulator)
    reduced = [(shape[a], strides[a]) for a in axes]
    kept = [(shape[a], strides[a]) for a in range(len(shape)) if a not in axes]
    if any(size == 0 for size, _ in kept):
        return _Plan(accumulator, operator, (), False, None, None)
    n = int(np.prod([size for size, _ in reduced], dtype=object))
    if n == 0:
        start = None if operator.name in ("min", "max") else operator.start  # NumPy knows no least of nothing either
        if start is None and not initial:
            raise InvalidArgument(f"reduce of no elements with op {operator.name!r} needs init: it has no first value")
        return _Plan(accumulator, operator, (), True, start, None)
    count = int(np.prod([size for size, _ in kept], dtype=object))
    problem = Problem("reduce", str(accumulator), (n, count), (("commutes",) if not operator.operands_in_order else ()))
    choice = choose(FAMILY, device, problem, spec)
    steps: list[_Step] = []
    given = source
    for action in passes(kept, reduced, choice.spec):
        text = convert if not steps else "x"
        steps.append(_step(device, action, choice.spec, operator, given, text, initial and action.last))
        given = accumulator
    return _Plan(accumulator, operator, tuple(steps), False, None, choice)


def _step(
    device: Any, action: Pass, spec: ReduceSpec, operator: Operator, source: np.dtype, convert: str, initial: bool
) -> _Step:
    """The kernel of one pass, and its arguments before and after the buffers' places."""
    outer = action.outer or ((1, 0),)
    rows = action.rows
    accumulator = operator.dtype
    params: dict[str, object] = {
        "declarations": c_declarations([source, accumulator]) + operator.declarations,
        "source": c_name(source),
        "accumulator": c_name(accumulator),
        "convert": convert,
        "outer_dims": len(outer),
        "initial": initial,
    }
    dims = tuple(np.int64(value) if i else np.uint64(value) for dim in outer for i, value in enumerate(dim))
    shared = (np.int64(action.step), np.uint64(action.n), np.uint64(action.part), np.uint64(rows))
    if action.columns:
        count, column_step = action.columns
        width = _columns(count, spec)
        work = action.parts * rows * -(-count // width)
        wide = _wide(spec.width if column_step == 1 and width % 16 == 0 else 0, operator, source)
        params |= {**wide, "width": width, "unit": column_step == 1}
        ready = kernel(device, "reduce_columns.mako", "reduce_columns", params)
        lanes = 1 if spec.mapping == "vector" else spec.lanes
        after = (np.uint64(count), np.int64(column_step), np.uint64(work), *dims)
        return _Step(action, ready, (-(-work // lanes) * lanes,), (lanes,), shared, after)
    work = action.parts * rows
    if spec.mapping == "simt":
        params |= {
            "operator": operator.function("combine"),
            "lanes": spec.lanes,
            "items": spec.items,
            "waves": spec.waves,
            "buffers": spec.buffers,
            "commutes": not operator.operands_in_order,
        }
        ready = built(
            device,
            "reduce_rows_simt.mako",
            "reduce_rows",
            params,
            tree(spec.lanes),
            lanes=spec.lanes,
            choice=spec.barriers,
            subgroup=spec.subgroup,
        )
        return _Step(action, ready, (work * spec.lanes,), (spec.lanes,), shared, dims)
    in_order = action.step != 1 or operator.operands_in_order
    wide = _wide(0 if in_order else spec.width, operator, source)
    params |= {**wide, "width": wide["lanes"], "unroll": spec.unroll}
    ready = kernel(device, "reduce_rows_vector.mako", "reduce_rows", params)
    return _Step(action, ready, (work,), (1,), shared, dims)


def _columns(count: int, spec: ReduceSpec) -> int:
    """Columns of a work-item: few different values, so that few kernels are built."""
    fitting = [width for width in (1, 16, 128, 1024, spec.columns) if width <= min(count, spec.columns)]
    return max(fitting)


def _wide(width: int, operator: Operator, source: np.dtype) -> dict[str, Any]:
    """The operator's functions, on vectors too where both types have them (`lanes` is 0 where not)."""
    text = operator.function("combine")
    plain = all(d.kind in "iuf" and vector_parts(d) is None and not is_record(d) for d in (source, operator.dtype))
    if not width or not plain or operator.vector_body is None:
        return {"operator": text, "lanes": 0, "wide": "", "wide_convert": ""}
    wide = c_name(operator.dtype) + str(width)
    return {
        "operator": text + operator.vector_function(width, "wide_combine"),
        "lanes": width,
        "wide": wide,
        "wide_convert": "" if source == operator.dtype else f"convert_{wide}",
    }


def fold(call: Call, source: Operand, op: Any, axes: tuple[int, ...], result: Operand) -> None:
    """Folds an operand over axes within another algorithm's call, in the result's dtype."""
    plan = _plan(call.device, source.dtype, source.shape, source.strides, op, axes, False, result.dtype, None)
    _run(call, plan, source, None, result)


# --- running it ------------------------------------------------------------------------------------------


def _run(call: Call, plan: _Plan, source: Operand, seed: Operand | None, result: Operand) -> None:
    if plan.empty:
        call.copy(seed if seed is not None else _constant(call, plan), result)
        return
    if not plan.steps:
        return
    direct = result.is_contiguous and result.offset == 0 and not call.overlaps(source, result)
    last = result if direct else call.temporary(result.shape, plan.dtype)
    given = source
    for step in plan.steps:
        to = last if step is plan.steps[-1] else call.temporary((step.action.results,), plan.dtype)
        seeds = (seed, np.uint64(seed.offset)) if seed is not None and step.action.last else ()
        call.launch(
            step.kernel,
            step.global_size,
            step.local_size,
            given,
            np.uint64(given.offset),
            *step.before,
            to,
            *step.after,
            *seeds,
        )
        given = to
    if not direct:
        call.copy(last, result)


def _constant(call: Call, plan: _Plan) -> Operand:
    """The value of an empty fold, in scratch memory."""
    place = call.temporary((), plan.dtype)
    value = np.asarray(plan.start).astype(plan.dtype).reshape(1)
    call.enqueue(cl.enqueue_fill_buffer, place, pattern=value, offset=0, size=plan.dtype.itemsize)
    return place


def _seed(call: Call, value: np.ndarray | None, dtype: np.dtype) -> Operand:
    """The first value as one element of the fold's type: a host's value, or what the argument `init` holds."""
    if value is not None:
        place = call.temporary((), dtype, "init")
        call.enqueue(cl.enqueue_copy, place, value.reshape(1), is_blocking=False)
        return place
    given = call.input("init")
    if int(np.prod(given.shape, dtype=object)) != 1:
        raise InvalidArgument(f"init has shape {given.shape}; one value of dtype {dtype} is accepted")
    conversion(given.dtype, dtype, "init")
    return call.contiguous(given, dtype)


# --- specialization --------------------------------------------------------------------------------------


def _default(profile: Profile, problem: Problem) -> ReduceSpec:
    size = np.dtype(problem.dtype).itemsize if problem.dtype[0] not in "[{" else 8
    if profile.mapping == "vector":
        # The widest OpenCL vector (16) times 4 hides the latency of the operator; a work-item's columns stay in L1.
        # Where loops are cut short by the driver, a work-item's share of elements stays well below that number.
        longest = 2**40 if profile.loop_limit is None else 64
        columns = max((16384 if profile.loop_limit is None else 2048) // size, 16)
        return ReduceSpec(
            "vector",
            16,
            4,
            1,
            1,
            columns,
            16384 if profile.loop_limit is None else 32,
            longest,
            4 * profile.compute_units,
        )
    lanes = min(256, profile.max_group_size)
    base = ReduceSpec("simt", 0, 1, lanes, 4, 1, 8 * lanes, 2**30, 8 * profile.compute_units)
    # Side by side lanes read side by side elements, a wavefront ahead of the other, where the order leaves it open.
    return replace(base, items=1, waves=8) if "commutes" in problem.flags else base


def _lane_candidates(profile: Profile, base: ReduceSpec, commutes: bool) -> list[ReduceSpec]:
    """Groups of lanes: of wavefronts in turn where the operator commutes, else of runs in one or two buffers."""
    shapes = [(items, waves, 2) for items in (1, 2, 4) for waves in (1, 4, 8)]
    if not commutes:
        shapes = [(items, 1, buffers) for items in (1, 2, 4, 8, 16) for buffers in (1, 2)]
    return [
        replace(base, lanes=lanes, part=8 * lanes, items=items, waves=waves, buffers=buffers)
        for lanes in (64, 128, 256, 512)
        if lanes <= profile.max_group_size
        for items, waves, buffers in shapes
    ]


def _candidates(profile: Profile, problem: Problem) -> list[ReduceSpec]:
    base = _default(profile, problem)
    if base.mapping == "simt":
        return _lane_candidates(profile, base, "commutes" in problem.flags)
    return [
        ReduceSpec("vector", width, unroll, 1, 1, base.columns, base.part, base.longest, base.busy)
        for width in (4, 8, 16)
        for unroll in (1, 2, 4, 8)
    ]


def _check(profile: Profile, problem: Problem, spec: ReduceSpec) -> str | None:
    if spec.mapping not in ("vector", "simt"):
        return f"mapping is {spec.mapping!r}; 'vector' and 'simt' are accepted"
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    if spec.width not in (0, 2, 4, 8, 16):
        return f"width is {spec.width}; 0, 2, 4, 8 and 16 are accepted"
    if spec.lanes < 1 or spec.lanes & (spec.lanes - 1) or spec.lanes > profile.max_group_size:
        return f"lanes is {spec.lanes}; powers of two up to {profile.max_group_size} are accepted"
    if min(spec.unroll, spec.items, spec.columns, spec.busy) < 1 or min(spec.part, spec.longest) < 2:
        return "unroll, items, columns and busy must be at least 1, part and longest at least 2"
    if not 1 <= spec.waves <= 64 or spec.buffers not in (1, 2):
        return f"waves is {spec.waves} and buffers {spec.buffers}; 1 to 64, and 1 or 2, are accepted"
    return None


FAMILY = Family("reduce", ReduceSpec, _default, _candidates, _check, counts)


def _explain(
    x: Any,
    op: Any = "+",
    *,
    axis: Any = None,
    init: Any = None,
    dtype: Any = None,
    device: Any = None,
    queue: Any = None,
    spec: Any = None,
    **_: Any,
) -> Explanation:
    call, source, axes, plan = _planned(x, op, axis, init, dtype, spec, {"device": device, "queue": queue})
    facts: dict[str, object] = {
        "device": call.device.name,
        "shape": source.shape,
        "axes": axes,
        "types": f"{source.dtype} -> {plan.dtype}",
        "operator": plan.operator.name,
        "specialization": plan.choice.spec if plan.choice else "none: nothing to fold",
    }
    choices = [plan.choice.reason] if plan.choice else []
    for step in plan.steps:
        action = step.action
        choices.append(
            f"{action.kernel}: folds {action.n} elements {action.step} apart, in {action.parts} part(s) of "
            f"{action.part}, for {action.rows} row(s)" + (f" of {action.columns[0]} columns" if action.columns else "")
        )
        choices += told(step.kernel)
    return Explanation("reduce", facts, choices, {step.kernel.name: step.kernel.source for step in plan.steps})


explained_by(reduce, _explain)
