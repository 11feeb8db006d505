"""Plans of reductions: the passes with their kernels. Plans are cached."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.operators import Operator, operator_text, outgrows
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.reduce.passes import Pass, by_columns, passes
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
from pydp.dtypes import c_declarations, c_name, check_kept_whole, check_supported, dtype_text, is_record, vector_parts
from pydp.errors import InvalidArgument
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.shape_class import size_class

_CHAIN = 16  # elements that are added one by one: rounding errors stay below the errors of NumPy's sums
_LONG_CHAIN = 1024  # elements that are added one by one if the result is exact
_NARROW_SUM = 256  # so many elements of one byte have a sum of two bytes
_FEW_ELEMENTS = 8  # rows of up to this many adjacent elements are folded by one loop, without vectors


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
    bounded: bool,
    spec: Any,
) -> Plan:
    """The plan for reducing `axes`. source, accumulator: dtypes of the input and the fold. initial: with init or not.
    bounded: the kernels read the number of elements; there is one axis.

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
    start = None if operator.operation in ("min", "max") else operator.start  # as NumPy: no minimum of an empty array
    if bounded and start is None and not initial:
        raise InvalidArgument(
            f"a reduction with op {operator.title} and length= may have no elements; pass {_parameter_text(operator)}, "
            "the result without elements"
        )
    if n == 0:
        if start is None and not initial:
            raise InvalidArgument(
                f"an empty reduction with op {operator.title} has no result; pass {_parameter_text(operator)}, "
                "the result without elements"
            )
        return Plan(accumulator, operator, (), True, start, None)
    count = int(np.prod([size for size, _ in kept], dtype=object))
    problem = ReduceProblem(
        dtype_text(accumulator),
        size_class(n),
        size_class(count),
        None if accumulator.names is None else accumulator.itemsize,
        commutes=not operator.operands_in_order,
        columns=by_columns(kept, reduced, device.profile.mapping),
    )
    choice = choose(FAMILY, device, problem, spec)
    steps: list[Step] = []
    given = source
    limit = device.profile.loop_limit
    choice = within_loops(limit, call_budget(limit, operator.iterations, f"op {operator.title}"), choice)
    unit = 1
    for action in passes(kept, reduced, choice.spec, not operator.operands_in_order):
        text = convert if not steps else "x"
        limits = UNBOUNDED
        if bounded:
            empty = "" if not action.last else "initial[initial_offset]" if initial else operator.start_text
            limits = {"bounded": True, "empty": empty}
        params = _params(device, action, choice.spec, operator, given, text, initial and action.last, limits)
        steps.append(make_step(device, action, choice.spec, params, accumulator.itemsize, unit))
        given = accumulator
        unit *= action.part
    return Plan(accumulator, operator, tuple(steps), False, None, choice)


def _parameter_text(operator: Operator) -> str:
    """The name of the first value, for messages."""
    return "init= to reduce, or initial= to min or max" if operator.operation in ("min", "max") else "init="


def within_loops(limit: int | None, calls: int | None, choice: Choice) -> Choice:
    """Limit the parts to half of `calls`, the operator calls that the driver's loop limit allows."""
    spec: ReduceSpec = choice.spec
    if calls is None:
        return choice
    columns = min(spec.columns, 4096, calls // 8)
    longest = min(spec.longest, -(-calls // 2) // columns)
    joined = min(spec.joined, calls // 8)  # each part is also polled and carried
    cut = replace(spec, columns=columns, longest=longest, part=min(spec.part, calls // 2), joined=joined)
    if cut == spec:
        return choice
    why = (
        f"columns {columns}, longest {longest}, part {cut.part} and joined {joined} stay within the driver's limit of "
        f"{limit} loop iterations"
    )
    return Choice(cut, choice.source, f"{choice.reason}; {why}")


def _params(
    device: Any,
    action: Pass,
    spec: ReduceSpec,
    operator: Operator,
    source: np.dtype,
    convert: str,
    initial: bool,
    limits: dict[str, object],
) -> dict[str, object]:
    """The parameters of the kernel of one pass. limits: see UNBOUNDED."""
    accumulator = operator.dtype
    params: dict[str, object] = {
        "declarations": c_declarations([source, accumulator]) + operator.declarations,
        "source": c_name(source),
        "accumulator": c_name(accumulator),
        "convert": convert,
        "initial": initial,
        **WITHOUT_HOOKS,
        **limits,
    }
    if spec.mapping == "vector":
        columns = _columns_on_cpu if action.columns else _rows_on_cpu
        return params | columns(device, action, spec, operator, source)
    params["operator"] = operator.function("combine")
    if action.columns:
        return params
    larger = max(source, accumulator, key=lambda dtype: dtype.itemsize)
    commutes = not operator.operands_in_order
    params |= {"buffers": spec.buffers, "commutes": commutes, "early": commutes and loads_early(spec, larger)}
    return params


def _columns_on_cpu(
    device: Any, action: Pass, spec: ReduceSpec, operator: Operator, source: np.dtype
) -> dict[str, object]:
    """The parameters of reduce_columns_vector.mako."""
    count, column_step = action.columns or (1, 1)
    width = at_most(spec.width if column_step == 1 else 0, min(spec.columns, count))
    ahead = rows_ahead(device, action, spec.rows, width * source.itemsize)
    vectors = _vectors(width, operator, source)
    return vectors | {"unroll": spec.rows, "prefetch": ahead, "source_bytes": source.itemsize}


def _rows_on_cpu(
    device: Any, action: Pass, spec: ReduceSpec, operator: Operator, source: np.dtype
) -> dict[str, object]:
    """The parameters of reduce_rows_vector.mako."""
    profile, rows = device.profile, action.rows
    many = rows >= MANY_ROWS
    adjacent = many and action.parts == action.step == 1 and action.outer == ((rows, action.n),)
    in_order = action.step != 1 or operator.operands_in_order
    # Few rows, such as the results of parts, use the same kernel for all lengths: it is often built already.
    width = at_most(spec.width, action.part) if many else spec.width
    transposed = adjacent and action.n in _transposed(source, operator.dtype)
    if transposed:
        in_order, width = False, at_most(spec.width, 64 // operator.dtype.itemsize)
    vectors = _vectors(0 if in_order else width, operator, source)
    fixed = action.n if adjacent and ((transposed and vectors["width"]) or action.n <= _FEW_ELEMENTS) else 0
    if fixed and not transposed:
        vectors = _vectors(0, operator, source)
    chain = _chain(spec, operator, source) if vectors["width"] else _CHAIN
    # Some drivers lose records in private arrays: these are folded one by one.
    chunks = profile.unaligned_records or not is_record(operator.dtype)
    chunks = chunks and not (many and action.part < spec.unroll * (vectors["width"] or chain))
    prefetches = profile.prefetches if operator.operation == "+" else profile.prefetches_beside_work
    return vectors | {
        "unroll": spec.unroll if chunks else 0,
        "chain": chain,
        "fixed": fixed,
        "prefetch": prefetches and reads_on(action, source),
        "source_bytes": source.itemsize,
        "second_bytes": 0,
    }


def _transposed(source: np.dtype, accumulator: np.dtype) -> range:
    """The lengths of adjacent rows that vectors of pieces of rows fold fastest.

    Measured on two compilers: a loop over shorter rows becomes good vectors, but on one of them it is up to 15 times
    slower at the first of these lengths. Longer rows have a vector of their own.
    """
    if source.itemsize >= 8:
        return range(3, 9)
    return range(7 if source.itemsize == 4 else 9, 25 if accumulator.itemsize == 8 else 32)


def _vectors(width: int, operator: Operator, source: np.dtype) -> dict[str, Any]:
    """The operator's functions and the types of vectors, as reduce_parts.mako describes them."""
    text, own = operator.function("combine"), operator.dtype
    plain = all(vector_parts(d) is None and not is_record(d) for d in (source, own))
    plain = plain and own.kind in "iuf" and source.kind in "biuf"
    if not width or not plain or operator.vector_body is None:
        return {"operator": text, "width": 0, "narrow": "", "narrow_convert": "", "wide": "", "wide_convert": ""}
    narrow = _narrow(operator, source)
    widths = [1 << log for log in range(1, width.bit_length())]
    text += "".join(operator.vector_function(w, f"wide_combine{w}") for w in widths)
    if narrow == own:
        text += f"#define narrow_combine{width} wide_combine{width}\n"
    else:
        text += operator_text(operator.operation, narrow).vector_function(width, f"narrow_combine{width}")
    source_c, narrow_c, wide_c = (f"{c_name(dtype)}{width}" for dtype in (source, narrow, own))
    return {
        "operator": text,
        "width": width,
        "narrow": narrow_c,
        "narrow_convert": "" if narrow_c == source_c else f"convert_{narrow_c}",
        "wide": wide_c,
        "wide_convert": "" if wide_c == narrow_c else f"convert_{wide_c}",
    }


def _chain(spec: ReduceSpec, operator: Operator, source: np.dtype) -> int:
    """The elements that one accumulator of vectors takes between carries: few if results are rounded."""
    if operator.dtype.kind in "fc" and operator.operation not in ("min", "max"):
        return _CHAIN
    return _NARROW_SUM // spec.unroll if _narrow(operator, source).itemsize == 2 else _LONG_CHAIN


def _narrow(operator: Operator, source: np.dtype) -> np.dtype:
    """The dtype of sums of a few elements: twice the bytes of small integers, if the sum has more; else the sum's."""
    own = operator.dtype
    if (
        operator.operation != "+"
        or own.kind not in "iu"
        or source.kind not in "biu"
        or own.itemsize <= 2 * source.itemsize
    ):
        return own
    return np.dtype(f"{'i' if source.kind == 'i' else 'u'}{2 * source.itemsize}")
