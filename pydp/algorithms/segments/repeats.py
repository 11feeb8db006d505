"""Repeat elements: the inclusive sums of the repeats, then one kernel that expands them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, integer
from pydp.algorithms.composed import launch_elements, placed
from pydp.algorithms.scan import scan
from pydp.algorithms.segments.policy import FAMILY, SegmentProblem, part_size
from pydp.dtypes import c_declarations, c_name, check_supported, dtype_text, movable
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.placement import check_events, normal_input, wait_for_all
from pydp.runtime.programs.program import Kernel, kernel
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, cached_plan, choose

_INDEX = np.dtype(np.int32)


@dataclass(frozen=True)
class RepeatPlan:
    """A kernel and its launch."""

    kernel: Kernel
    choice: Choice
    part: int
    uniform: bool


class Repeats(NamedTuple):
    """Checked arguments. counts: an array, or None if every element is repeated `each` times. sizes: elements before,
    along and behind the axis. length: of the result, if the caller gives it."""

    x: Any
    counts: Any
    each: int
    axis: int | None
    sizes: tuple[int, int, int]
    length: int | None


def check(x: Any, repeats: Any, axis: Any, length: Any, wait_for: Any = None) -> Repeats:
    """Check the arguments of a call. One number of repeats on the device is read after the events `wait_for`."""
    x = normal_input("x", x)
    if axis is not None:
        axis = axis_of(axis, x.ndim)
    shape = (x.size,) if axis is None else x.shape
    at = axis or 0
    sizes = (int(np.prod(shape[:at], dtype=object)), shape[at], int(np.prod(shape[at + 1 :], dtype=object)))
    counts, each = _counts(repeats, sizes[1], wait_for)
    if length is not None:
        try:
            total = integer(length)
        except TypeError:
            total = -1
        if total < 0 or (total and not sizes[1]):
            raise InvalidArgument(
                f"total_repeat_length is {shown(length)}; None or an integer of at least 0 is accepted (only 0 if "
                "x has no elements)"
            )
        length = total
    return Repeats(x, counts, each, axis, sizes, length)


def _counts(repeats: Any, n: int, wait_for: Any) -> tuple[Any, int]:
    """(an array of repeats or None, the repeats of every element)."""
    counts = normal_input("repeats", repeats)
    if counts.dtype.kind not in "biu" or counts.dtype == np.uint64:
        raise InvalidArgument(f"repeats has dtype {counts.dtype}; integers that int64 can hold are accepted")
    if counts.ndim > 1 or (counts.size != 1 and counts.shape != (n,)):
        raise InvalidArgument(f"repeats has shape {counts.shape}; an integer or shape ({n},) is accepted")
    if counts.size == 1 and not isinstance(counts, np.ndarray) and n != 1:
        wait_for_all(check_events(wait_for))
        counts = counts.get()
    if not isinstance(counts, np.ndarray):
        return counts.reshape(-1) if not counts.ndim else counts, 0
    if counts.size and counts.min() < 0:
        raise InvalidArgument(f"repeats has the negative value {counts.min()}; values of at least 0 are accepted")
    if counts.size == 1:
        _check_total(n * int(counts.reshape(())))
        return None, int(counts.reshape(()))
    _check_total(sum(counts.tolist()))
    return counts, 0


def _check_total(total: int) -> None:
    if total >= 1 << 63:
        raise InvalidArgument(f"the repeats add up to {total}; up to 2**63 - 1 is accepted")


def repeated(given: Repeats, spec: Any, device: Any, queue: Any, wait_for: Any) -> Any:
    """The result of ``pydp.repeat``."""
    arrays = {"x": given.x} if given.counts is None else {"x": given.x, "repeats": given.counts}
    place = placed(arrays, device, queue)
    n = given.sizes[1]
    check_supported(given.x.dtype, place.device, "x", storage_only=True)
    plan_of(place.device, given.x.dtype, given.counts is None, n, given.sizes[0] * given.sizes[2] == 1, by_key(spec))
    if given.counts is None:
        total = n * given.each if given.length is None else given.length
        return _expanded(
            given.x, None, given.each, given.axis, given.sizes, total, **place.where, wait_for=wait_for, spec=spec
        )
    place.after(wait_for)
    ends = scan(place.field(given.counts), dtype=np.int64, **place.where, wait_for=wait_for)
    total = given.length if given.length is not None else int(ends[n - 1].get()) if n else 0
    if total < 0:
        raise InvalidArgument(f"the repeats add up to {total}; non-negative values with a sum in int64 are accepted")
    return _expanded(given.x, ends, 0, given.axis, given.sizes, total, **place.where, wait_for=None, spec=spec)


@recorded
def _expanded(
    x: Any,
    ends: Any,
    each: int,
    axis: int | None,
    sizes: tuple[int, int, int],
    total: int,
    *,
    spec: Any,
    **where: Any,
) -> Any:
    call = Call.begin({"x": x, "ends": ends}, **where)
    source = call.input("x")
    counted = call.input("ends") if call.has("ends") else None
    outer, n, inner = sizes
    shape = (total,) if axis is None else (*source.shape[:axis], total, *source.shape[axis + 1 :])
    result = call.output(shape, source.dtype)
    if result.size:
        plan = plan_of(call.device, source.dtype, counted is None, n, outer * inner == 1, by_key(spec))
        expand(call, plan, call.contiguous(source), counted, each, result, (outer, n, total, inner))
    return call.finish(result)


def expand(
    call: Call,
    plan: RepeatPlan,
    source: Operand | None,
    ends: Operand | None,
    each: int,
    out: Operand,
    sizes: tuple[int, int, int, int],
) -> None:
    """Enqueue the kernel. source: contiguous, None to store indexes. sizes: outer, n, total, inner."""
    outer, n, total, inner = sizes
    args: list[Any] = [] if source is None else [source, np.int64(source.offset)]
    args += [np.int64(each)] if ends is None else [ends, np.int64(ends.offset)]
    args += [out, np.int64(out.offset), *map(np.int64, (n, total, outer, inner))]
    if plan.choice.spec.mapping == "simt":
        launch_elements(call, plan.kernel, out.size, *args)
        return
    work = total if plan.uniform else n + total
    call.launch(plan.kernel, (max(1, -(-work // plan.part)),), (1,), *args)


@cached_plan
def plan_of(device: Any, dtype: np.dtype | None, uniform: bool, n: int, flat: bool, spec: Any) -> RepeatPlan:
    """The plan for elements of `dtype`; None: their indexes are stored."""
    words = None if dtype is None else movable(dtype)
    problem = SegmentProblem(dtype_text(dtype or _INDEX), max(0, n - 1).bit_length())
    choice = choose(FAMILY, device, problem, spec)
    part = part_size(choice.spec, n, device.profile.compute_units)
    params = {
        "mapping": choice.spec.mapping,
        "declarations": "" if words is None else c_declarations([words]),
        "word": None if words is None else c_name(words),
        "uniform": uniform,
        "flat": flat,
        "part": part,
        "wide": flat and words is not None and words.kind == "u" and words.itemsize <= 8,
    }
    return RepeatPlan(kernel(device, "repeat.mako", "repeat_elements", params), choice, part, uniform)
