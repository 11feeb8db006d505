"""Plans of reductions: the passes with their kernels. Plans are cached."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.operators import Operator, operator_text, outgrows
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.reduce.passes import Pass, by_columns, passes
from pydp.algorithms.reduce.policy import FAMILY, ReduceProblem, ReduceSpec
from pydp.dtypes import c_declarations, c_name, check_kept_whole, check_supported, dtype_text, is_record, vector_parts
from pydp.errors import InvalidArgument
from pydp.groups.barrier_plan import build_kernel, tree
from pydp.runtime.programs.program import Kernel, kernel
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.shape_class import size_class


@dataclass(frozen=True)
class Step:
    """A pass with its kernel, its launch size and all arguments except the buffers."""

    action: Pass
    kernel: Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    before: tuple[Any, ...]
    after: tuple[Any, ...]


@dataclass(frozen=True)
class Plan:
    """The launches of a reduction. empty: there are no elements to fold; the result is then init or `start`."""

    dtype: np.dtype
    operator: Operator
    steps: tuple[Step, ...]
    empty: bool
    start: Any
    choice: Choice | None


def result_dtype(dtype: np.dtype, op: Any) -> np.dtype:
    """The default dtype of a reduction: `dtype`, or 64 bits for sums and products of smaller integers."""
    if outgrows(op) and not is_record(dtype) and dtype.itemsize < 8:
        if dtype.kind in "bi":
            return np.dtype(np.int64)
        if dtype.kind == "u":
            return np.dtype(np.uint64)
    return dtype


@cached_plan
def plan(
    device: Any,
    source: np.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    op: Any,
    axes: tuple[int, ...],
    initial: bool,
    accumulator: np.dtype,
    spec: Any,
) -> Plan:
    """The plan for reducing `axes`. source, accumulator: dtypes of the input and the fold. initial: with init or not.

    `op` and `spec` come from `by_key` (:mod:`pydp.algorithms.arguments`). Raises InvalidArgument for an empty
    reduction without a first value, and the errors of invalid dtypes, operators and specializations.
    """
    check_supported(source, device, "reduce")
    check_supported(accumulator, device, "reduce")
    check_kept_whole(accumulator, device)
    convert, _ = conversion(source, accumulator)
    operator = operator_text(op, accumulator)
    operator.check(device)
    reduced = [(shape[a], strides[a]) for a in axes]
    kept = [(shape[a], strides[a]) for a in range(len(shape)) if a not in axes]
    if any(size == 0 for size, _ in kept):
        return Plan(accumulator, operator, (), False, None, None)
    n = int(np.prod([size for size, _ in reduced], dtype=object))
    if n == 0:
        start = None if operator.name in ("min", "max") else operator.start  # as NumPy: no minimum of an empty array
        if start is None and not initial:
            raise InvalidArgument(f"an empty reduction with op {operator.title} needs init: op has no identity")
        return Plan(accumulator, operator, (), True, start, None)
    count = int(np.prod([size for size, _ in kept], dtype=object))
    problem = ReduceProblem(
        dtype_text(accumulator),
        size_class(n),
        size_class(count),
        None if accumulator.names is None else accumulator.itemsize,
        commutes=not operator.operands_in_order,
        columns=by_columns(kept, reduced),
    )
    choice = choose(FAMILY, device, problem, spec)
    steps: list[Step] = []
    given = source
    limit = device.profile.loop_limit
    choice = _within_loops(limit, call_budget(limit, operator.iterations, f"op {operator.title}"), choice)
    for action in passes(kept, reduced, choice.spec):
        text = convert if not steps else "x"
        steps.append(_step(device, action, choice.spec, operator, given, text, initial and action.last))
        given = accumulator
    return Plan(accumulator, operator, tuple(steps), False, None, choice)


def _within_loops(limit: int | None, calls: int | None, choice: Choice) -> Choice:
    """Limit the parts to half of `calls`, the operator calls that the driver's loop limit allows."""
    spec: ReduceSpec = choice.spec
    if calls is None:
        return choice
    columns = min(spec.columns, 4096, calls // 8)
    cut = replace(spec, columns=columns, longest=min(spec.longest, -(-calls // 2) // columns))
    if cut == spec:
        return choice
    why = f"columns {columns} and longest {cut.longest} stay within the driver's limit of {limit} loop iterations"
    return Choice(cut, choice.source, f"{choice.reason}; {why}")


def _step(
    device: Any, action: Pass, spec: ReduceSpec, operator: Operator, source: np.dtype, convert: str, initial: bool
) -> Step:
    """The kernel of one pass, and its arguments before and after the output buffer."""
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
        # Several columns need private arrays, and some drivers lose records in private arrays.
        alone = is_record(accumulator) and not device.profile.unaligned_records
        width = 1 if alone else _columns(count, spec)
        work = action.parts * rows * -(-count // width)
        wide = _wide(spec.width if column_step == 1 and width % 16 == 0 else 0, operator, source)
        params |= {**wide, "width": width, "unit": column_step == 1}
        ready = kernel(device, "reduce_columns.mako", "reduce_columns", params)
        lanes = 1 if spec.mapping == "vector" else spec.lanes
        after = (np.uint64(count), np.int64(column_step), np.uint64(work), *dims)
        return Step(action, ready, (-(-work // lanes) * lanes,), (lanes,), shared, after)
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
        ready = build_kernel(
            device,
            "reduce_rows_simt.mako",
            "reduce_rows",
            params,
            tree(spec.lanes),
            lanes=spec.lanes,
            choice=spec.barriers,
            subgroup=spec.subgroup,
        )
        return Step(action, ready, (work * spec.lanes,), (spec.lanes,), shared, dims)
    in_order = action.step != 1 or operator.operands_in_order
    wide = _wide(0 if in_order else spec.width, operator, source)
    params |= {**wide, "width": wide["lanes"], "unroll": spec.unroll}
    ready = kernel(device, "reduce_rows_vector.mako", "reduce_rows", params)
    return Step(action, ready, (work,), (1,), shared, dims)


def _columns(count: int, spec: ReduceSpec) -> int:
    """Columns of a work-item, rounded down to one of a few values: this limits the number of kernels."""
    fitting = [width for width in (1, 16, 128, 1024, spec.columns) if width <= min(count, spec.columns)]
    return max(fitting)


def _wide(width: int, operator: Operator, source: np.dtype) -> dict[str, Any]:
    """The operator's functions. Includes the vector form if both dtypes have one; otherwise `lanes` is 0."""
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
