"""Reductions with hooks: a load of one or two inputs, accumulators that are tuples, and a finish of the accumulator.

`Hooks` describes such a reduction; ``kernels_cl/reduce_hooks.mako`` has its C text. The passes, launch shapes and
specializations are those of ``pydp.reduce``. The first pass loads elements, later passes merge accumulators, and the
last one stores the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.operators import Operator, complex_before, complex_nan, operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.reduce.passes import Pass, by_columns, passes
from pydp.algorithms.reduce.plan import within_loops
from pydp.algorithms.reduce.policy import FAMILY, ReduceProblem, ReduceSpec, loads_early
from pydp.algorithms.reduce.steps import (
    MANY_ROWS,
    UNBOUNDED,
    WITHOUT_HOOKS,
    Step,
    at_most,
    make_step,
    reads_on,
    rows_ahead,
)
from pydp.dtypes import c_declarations, c_literal, c_name, c_struct, check_kept_whole, check_supported, dtype_text
from pydp.errors import InvalidArgument
from pydp.model.family import cached_plan
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.tuning.choose import Choice, choose
from pydp.tuning.shape_class import size_class


@dataclass(frozen=True)
class Hooks:
    """A reduction for reduce_hooks.mako, which explains the fields.

    name: the public function, for messages. kind: the def of the template. members: (name, dtype, one for each lane) of
    the accumulator. results: their dtypes. empty: the values of an empty fold; None: it raises InvalidArgument.
    unknown_empty: these values if the number of elements is only on the device; None: `empty`. run: the dtype of the
    values in a run. chain: the maximum elements of a run. operator: a named operator, or "nanmin" or "nanmax". The
    other fields are parameters of the kind.
    """

    name: str
    kind: str
    members: tuple[tuple[str, np.dtype, bool], ...]
    results: tuple[np.dtype, ...]
    finish: str
    empty: tuple[Any, ...] | None = None
    run: np.dtype | None = None
    chain: int = 1024
    operator: str = "+"
    load: str = "own"
    skips: tuple[str, ...] = ()
    start: Any = 0
    counted: bool = False
    sign: str = ""
    nan: str = ""
    ddof: float = 0.0
    power: float = 1.0
    unknown_empty: tuple[Any, ...] | None = None

    @property
    def accumulator(self) -> np.dtype:
        """The record of one accumulator in memory."""
        return c_struct((name, dtype) for name, dtype, _ in self.members)

    @property
    def indexed(self) -> bool:
        """The accumulator has the index of an element."""
        return self.kind == "position"


@dataclass(frozen=True)
class HookedPlan:
    """The launches of a reduction with hooks. steps: empty if there are no results or no elements to fold. values: of
    the results without elements."""

    hooks: Hooks
    elements: int
    steps: tuple[Step, ...]
    empty: bool
    choice: Choice | None
    values: tuple[Any, ...] = ()


@cached_plan
def plan(
    device: Any,
    source: np.dtype,
    second: np.dtype | None,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    axes: tuple[int, ...],
    hooks: Hooks,
    bounded: bool,
    spec: Any,
) -> HookedPlan:
    """The plan for reducing `axes` of one input, or of two with the same shape and strides. bounded: the kernels read
    the number of elements; there is one axis."""
    for dtype in (source, *(() if second is None else (second,)), *hooks.results):
        check_supported(dtype, device, hooks.name)
    check_kept_whole(hooks.accumulator, device)
    reduced = [(shape[a], strides[a]) for a in axes]
    kept = [(shape[a], strides[a]) for a in range(len(shape)) if a not in axes]
    n, count = (int(np.prod([size for size, _ in dims], dtype=object)) for dims in (reduced, kept))
    values = hooks.unknown_empty if bounded and hooks.unknown_empty is not None else hooks.empty
    need = "pass initial=" if hooks.kind == "value" and hooks.load == "own" else "at least one element is needed"
    if bounded and values is None:
        raise InvalidArgument(
            f"{hooks.name} with length= may have no elements; pass initial=, the result without elements"
        )
    if count == 0 or n == 0:
        if n == 0 and (count or hooks.indexed) and values is None:
            raise InvalidArgument(f"{hooks.name} of an empty array has no result; {need}")
        return HookedPlan(hooks, n, (), n == 0 and count > 0, None, values or ())
    problem = ReduceProblem(
        dtype_text(source),
        size_class(n),
        size_class(count),
        hooks.accumulator.itemsize,
        commutes=True,
        columns=by_columns(kept, reduced, device.profile.mapping),
        hooks=hooks.kind,
    )
    limit = device.profile.loop_limit
    choice = within_loops(limit, call_budget(limit, 0, hooks.name), choose(FAMILY, device, problem, spec))
    actions = list(passes(kept, reduced, choice.spec, not hooks.indexed))
    steps, unit = [], 1
    for action in actions:
        one, other = (source, second) if action is actions[0] else (None, None)
        params = _params(device, action, choice.spec, hooks, one, other, bounded)
        steps.append(make_step(device, action, choice.spec, params, hooks.accumulator.itemsize, unit))
        unit *= action.part
    return HookedPlan(hooks, n, tuple(steps), False, choice, values or ())


def _params(
    device: Any,
    action: Pass,
    spec: ReduceSpec,
    hooks: Hooks,
    source: np.dtype | None,
    second: np.dtype | None,
    bounded: bool,
) -> dict[str, object]:
    """The parameters of the kernel of one pass; without `source`, it merges accumulators."""
    width = _width(action, spec, hooks, source, second)
    params: dict[str, object] = {
        **WITHOUT_HOOKS,
        **UNBOUNDED,
        "bounded": bounded,
        "declarations": c_declarations([*_dtypes(hooks), *(d for d in (source, second) if d is not None)]),
        "operator": _operator_text(hooks, width),
        "source": "tuple1" if source is None else c_name(source),
        "accumulator": "tuple1",
        "convert": "x",
        "initial": False,
        "hook": _hook(hooks, source, second),
        "prefetch": source is not None and _prefetches(device, action, spec, hooks, width * source.itemsize, source),
        "source_bytes": 0 if source is None else source.itemsize,
        "second_bytes": 0 if second is None else second.itemsize,
        "last": action.last,
        "target": c_name(hooks.results[0]) if action.last else "tuple1",
    }
    few = min(16, hooks.chain)
    if spec.mapping == "simt":
        early = loads_early(spec, source, *(() if second is None else (second,)))
        return params | ({"chain": few} if action.columns else {"buffers": 1, "commutes": True, "early": early})
    params |= {"width": width, "narrow": "", "narrow_convert": "", "wide": "", "wide_convert": ""}
    if action.columns:
        return params | {"unroll": min(spec.rows, hooks.chain), "most": spec.columns}
    chain = hooks.chain if width else few
    short = action.rows >= MANY_ROWS and action.part < spec.unroll * (width or chain)
    # Some drivers lose records in private arrays: these are folded one by one.
    chunks = device.profile.unaligned_records and not short
    widths = [1 << log for log in range(1, width.bit_length())]
    return params | {"unroll": spec.unroll if chunks else 0, "chain": chain, "fixed": 0, "widths": widths}


def _width(action: Pass, spec: ReduceSpec, hooks: Hooks, source: np.dtype | None, second: np.dtype | None) -> int:
    """The elements of the vectors of one pass; 0: none."""
    if spec.mapping != "vector" or source is None or not _has_vectors(hooks, source, second):
        return 0
    if action.columns:
        return spec.width if action.columns[1] == 1 and min(spec.columns, action.columns[0]) >= spec.width else 0
    if action.step != 1:
        return 0
    return at_most(spec.width, action.part) if action.rows >= MANY_ROWS else spec.width


def _prefetches(device: Any, action: Pass, spec: ReduceSpec, hooks: Hooks, vector: int, source: np.dtype) -> bool:
    if action.columns:
        return rows_ahead(device, action, min(spec.rows, hooks.chain), vector)
    return bool(device.profile.prefetches_beside_work and reads_on(action, source))


def _has_vectors(hooks: Hooks, source: np.dtype, second: np.dtype | None) -> bool:
    computed = (source, second, hooks.run, *(dtype for _, dtype, _ in hooks.members))
    return all(dtype is None or dtype.kind in "biuf" for dtype in computed)


def _dtypes(hooks: Hooks) -> list[np.dtype]:
    """The dtypes that the C text uses, except the dtypes of the inputs."""
    return [*(dtype for _, dtype, _ in hooks.members), *hooks.results, *([] if hooks.run is None else [hooks.run])]


def _hook(hooks: Hooks, source: np.dtype | None, second: np.dtype | None) -> dict[str, object]:
    """The parameters of reduce_hooks.mako. Without `source`, accumulators are merged."""
    own = hooks.members[0][1]
    run = hooks.run or own
    powers = hooks.load == "power"
    plain = hooks.kind == "value" and hooks.load == "own"
    return {
        "kind": "merged" if source is None else hooks.kind,
        "first_kind": hooks.kind,
        "source": "tuple1" if source is None else c_name(source),
        "second": "" if second is None else c_name(second),
        "members": [(name, c_name(dtype), each) for name, dtype, each in hooks.members],
        "results": [c_name(dtype) for dtype in hooks.results],
        "result_kind": c_name(hooks.results[0]),
        "run": c_name(run),
        "convert": conversion(source, run)[0] if source is not None and plain else "x",
        "start": c_literal(hooks.start, run) if hooks.kind == "value" else "",
        "load": hooks.load,
        "skips": hooks.skips,
        "counted": hooks.counted,
        "sign": hooks.sign,
        "nan": hooks.nan,
        "finish": hooks.finish,
        "power": c_literal(_rounded(hooks.power, run), run) if powers else "",
        "root": c_literal(_rounded(1 / hooks.power, own), own) if powers else "",
        "ddof": repr(float(hooks.ddof)) + ("f" if hooks.members[0][1] in (np.float32, np.complex64) else ""),
    }


def _rounded(value: float, dtype: np.dtype) -> Any:
    """A number as a float of `dtype`, which may be infinite."""
    with np.errstate(over="ignore"):
        return np.float64(value).astype(dtype)


def _operator_text(hooks: Hooks, width: int) -> str:
    """The functions fold_runW and foldW of the kind "value"."""
    if hooks.kind != "value":
        return ""
    own, run = hooks.members[0][1], hooks.run or hooks.members[0][1]
    text = ""
    for name, dtype in (("fold", own), ("fold_run", run)):
        operator = named_operator(hooks.operator, dtype)
        text += operator.function(f"{name}1")
        text += "".join(operator.vector_function(1 << log, f"{name}{1 << log}") for log in range(1, width.bit_length()))
    return text


def named_operator(name: str, dtype: np.dtype) -> Operator:
    """A named operator, or "nanmin" or "nanmax": the extreme value of the operands that are not NaN."""
    if name not in ("nanmin", "nanmax"):
        return operator_text(name, dtype)
    if dtype.kind == "c":
        body = (
            f"if ({complex_nan('b')} || {complex_before('a', 'b', name.removeprefix('nan'), True)}) return a; return b;"
        )
        return Operator(name, dtype, body)
    sign = "<" if name == "nanmin" else ">"
    scalar, vector = f"return (b {sign} a || a != a) ? b : a;", f"return select(a, b, (b {sign} a) | (a != a));"
    return Operator(name, dtype, scalar, vector, operands_in_order=False)


def run(
    call: Call,
    plan: HookedPlan,
    sources: Sequence[Operand],
    results: Sequence[Operand],
    length: Operand | None = None,
) -> None:
    """Enqueue the launches of a plan. The sources have the same strides. length: the number of elements, of a bounded
    plan."""
    if plan.empty:
        for result, value in zip(results, plan.values, strict=True):
            place = call.temporary((), result.dtype)
            _fill(call, place, value)
            call.copy(place, result)
        return
    if not plan.steps:
        return
    targets = [
        one
        if one.is_contiguous and one.offset == 0 and not any(call.overlaps(source, one) for source in sources)
        else call.temporary(one.shape, one.dtype)
        for one in results
    ]
    if length is not None:  # the kernels store no results if there are no elements
        for target, value in zip(targets, plan.values, strict=True):
            _fill(call, target, value)
    given, *others = sources
    more: tuple[Any, ...] = tuple(value for one in others for value in (one, np.uint64(one.offset)))
    for step in plan.steps:
        action = step.action
        to = targets[0] if action.last else call.temporary((action.results,), plan.hooks.accumulator)
        end = (np.int64(plan.elements), *targets[1:]) if action.last else ()
        call.launch(
            step.kernel,
            step.global_size,
            step.local_size,
            given,
            np.uint64(given.offset),
            *step.before,
            to,
            *step.after,
            *step.dims,
            *more,
            *end,
            *(() if length is None else (length, np.uint64(step.unit))),
        )
        given, more = to, ()
    for target, result in zip(targets, results, strict=True):
        if target is not result:
            call.copy(target, result)


def _fill(call: Call, place: Operand, value: Any) -> None:
    """Enqueue the store of one value."""
    pattern = np.asarray(value).astype(place.dtype).reshape(1)
    call.enqueue(cl.enqueue_fill_buffer, place, pattern=pattern, offset=0, size=place.dtype.itemsize)
