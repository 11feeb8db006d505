"""Reductions of segments: the call, its operands, the kernels and their launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import by_key, refuse_shared
from pydp.algorithms.composed import launch_elements
from pydp.algorithms.operators import Operator, operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.reduce.plan import result_dtype
from pydp.algorithms.scan.arguments import host_init
from pydp.algorithms.scan.plan import Arrays
from pydp.algorithms.scan.request import plan_by_flags
from pydp.algorithms.segments.policy import FAMILY, SegmentProblem, part_size
from pydp.dtypes import c_declarations, c_name, check_kept_whole, check_supported, dtype_text, native, vector_parts
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.model.family import Key, Keyed
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.placement import Converted, normal_input
from pydp.runtime.programs.program import Kernel, kernel
from pydp.tuning.choose import Choice, cached_plan, choose

OFFSET = np.dtype(np.int64)


@dataclass(frozen=True)
class ReducePlan:
    """The kernels of a call. scan: of mapping "simt"."""

    kernels: dict[str, Kernel]
    choice: Choice
    part: int
    scan: Any


class Prepared(NamedTuple):
    """A call that is ready to run. init: an operand or None."""

    call: Call
    x: Operand
    offsets: Operand
    init: Operand | None
    operator: Operator
    plan: ReducePlan | None


def check_offsets(offsets: Any, n: int, whole: bool) -> Any:
    """Check offsets of segments, whose values are read only on the host. whole: all elements belong to segments."""
    offsets = normal_input("offsets", offsets)
    if offsets.dtype.kind not in "iu" or offsets.dtype == np.uint64:
        raise InvalidArgument(f"offsets has dtype {offsets.dtype}; integer dtypes except uint64 are accepted")
    if offsets.ndim != 1 or not offsets.size:
        raise InvalidArgument(f"offsets has shape {offsets.shape}; rank 1 and at least one element are accepted")
    if isinstance(offsets, np.ndarray):
        first, last = int(offsets[0]), int(offsets[-1])
        if (offsets[1:] < offsets[:-1]).any() or first < 0 or last > n:
            wrong = (offsets < 0) | (offsets > n)
            wrong[1:] |= offsets[1:] < offsets[:-1]
            at = int(wrong.argmax())
            raise InvalidArgument(
                f"offsets[{at}] is {offsets[at]}; ascending integers from 0 to {n} (all elements) are accepted"
            )
        if whole and (first or last != n):
            raise InvalidArgument(
                f"offsets begins with {first} and ends with {last}; 0 and {n} (all elements) are accepted"
            )
    return offsets


def check(x: Any, offsets: Any) -> tuple[Any, Any]:
    """Check the arrays of a reduction of segments."""
    x = normal_input("x", x)
    if x.ndim != 1:
        raise InvalidArgument(f"x has shape {x.shape}; an array of rank 1 is accepted")
    return x, check_offsets(offsets, x.size, False)


def prepare(x: Any, offsets: Any, op: Any, init: Any, dtype: Any, spec: Any, where: dict[str, Any]) -> Prepared:
    """Check a call, and find its plan."""
    x, offsets = check(x, offsets)
    source = native(x.dtype)
    operator = operator_text(op, native(dtype) if dtype is not None else result_dtype(source, op))
    conversion(source, operator.dtype)
    initial = None if init is None else host_init(init, operator.dtype).reshape(1).view(Converted)
    if initial is None and operator.start is None:
        raise InvalidArgument(f"op {operator.title} has no known identity; init= gives the result of empty segments")
    call = Call.begin({"x": x, "offsets": offsets, "init": initial}, **where)
    operator.check(call.device)
    for one in (source, operator.dtype):
        check_supported(one, call.device, "x")
        check_kept_whole(one, call.device)
    if operator.iterations is None and call.device.profile.loop_limit is not None:
        raise UnsupportedOnDevice(
            f"op {operator.title} contains a loop whose trip count depends on data; this driver ends long loops"
        )
    source_in, offsets_in = call.input("x"), call.input("offsets")
    start = call.input("init") if call.has("init") else None
    keyed = Keyed(operator, Key(operator.key))
    plan = _plan_of(call.device, source, keyed, x.size, init is not None, by_key(spec))
    return Prepared(call, source_in, offsets_in, start, operator, plan if offsets_in.size > 1 else None)


@cached_plan
def _plan_of(device: Any, source: np.dtype, operator: Any, n: int, initial: bool, spec: Any) -> ReducePlan:
    problem = SegmentProblem(dtype_text(source), max(0, n - 1).bit_length(), reduces=True)
    choice = choose(FAMILY, device, problem, spec)
    value = operator.dtype
    part = part_size(choice.spec, n, device.profile.compute_units)
    scalar, vector = conversion(source, value)
    vectors = (
        bool(vector)
        and not operator.operands_in_order
        and operator.vector_body is not None
        and not vector_parts(value)
        and value.kind in "iuf"
        and value.itemsize > 1
        and source.kind in "iuf"
    )
    params = {
        "declarations": c_declarations([source, value]) + operator.declarations,
        "source": c_name(source),
        "value": c_name(value),
        "combine": operator.function(),
        "convert": scalar,
        "start": "" if initial else operator.start_text,
        "initial": initial,
        "part": part,
        "vector": vectors,
        "combine_vector": operator.vector_function(16) if vectors else "",
        "convert_vector": vector,
    }
    names = ("reduce_parts", "join_pieces") if choice.spec.mapping == "vector" else ("segment_marks", "segment_ends")
    kernels = {name: kernel(device, "segmented_reduce.mako", name, params) for name in names}
    scan = None
    if choice.spec.mapping == "simt" and n:
        scan = plan_by_flags(device, source, operator, n)
    return ReducePlan(kernels, choice, part, scan)


def run(ready: Prepared) -> Any:
    """Enqueue a reduction; returns its result."""
    call, x, offsets, init, operator, plan = ready
    segments, n = offsets.size - 1, x.size
    result = call.output((segments,), operator.dtype)
    refuse_shared(call, result, x, offsets)
    if plan is None:
        return call.finish(result)
    x, offsets = call.contiguous(x), call.contiguous(offsets, OFFSET)
    out = result if result.is_contiguous else call.temporary(result.shape, result.dtype)
    places: list[Any] = [offsets, np.int64(offsets.offset)]
    sizes = [np.int64(n), np.int64(segments)]
    start = init if init is not None else offsets  # not read then
    if plan.choice.spec.mapping == "vector":
        parts = max(1, -(-(n + segments) // plan.part))
        pieces = call.scratch(2 * parts * operator.dtype.itemsize)
        found = call.scratch(3 * 8 * parts)
        args = [x, np.int64(x.offset), *places, out, np.int64(out.offset), *sizes, start, pieces, found]
        call.launch(plan.kernels["reduce_parts"], (parts,), (1,), *args)
        call.launch(plan.kernels["join_pieces"], (parts,), (1,), out, np.int64(out.offset), start, pieces, found)
    else:
        sums = call.temporary((max(n, 1),), operator.dtype)
        if plan.scan is not None:
            flags = call.temporary((n,), np.uint8)
            elementwise.apply(call, "copy", [np.uint8(0)], flags)
            launch_elements(call, plan.kernels["segment_marks"], segments, *places, flags, *sizes)
            plan.scan.run(call, Arrays(x.buffer, x.offset, sums.buffer, 0, flags.buffer, 0, None, None, None))
        launch_elements(
            call, plan.kernels["segment_ends"], segments, sums, np.int64(0), *places, out, np.int64(out.offset),
            *sizes, start,
        )  # fmt: skip
    if out is not result:
        call.copy(out, result)
    return call.finish(result)
