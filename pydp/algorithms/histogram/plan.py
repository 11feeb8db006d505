"""Plans of histograms (cached), and the launches that fill the bins."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms.arguments import by_key
from pydp.algorithms.histogram.edges import thresholds
from pydp.algorithms.histogram.policy import FAMILY, HistogramProblem, HistogramSpec, local_bytes
from pydp.algorithms.reduce import fold
from pydp.algorithms.reduce.passes import collapse
from pydp.dtypes import c_declarations, c_name, check_supported
from pydp.errors import InvalidArgument
from pydp.groups.barrier_plan import build_kernel
from pydp.local_memory import banks_of, exchange
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.shape_class import size_class

COUNT = np.dtype(np.int64)
_MOST_SHARED = 1 << 15


@dataclass(frozen=True)
class Plan:
    """The kernel of a histogram and its parameters.

    value, edge, guess: dtypes of a bin, of the edges, and of the first guess of a bin. local: bins are in local memory.
    clears: the kernel clears the bins. longest: maximum elements of a part.
    """

    kernel: Kernel | None
    spec: HistogramSpec
    choice: Choice
    bins: int
    value: np.dtype
    edge: np.dtype | None
    guess: np.dtype | None
    local: bool
    clears: bool
    longest: int


@cached_plan
def plan_of(
    device: Any,
    dtype: np.dtype,
    weights: np.dtype | None,
    result: np.dtype,
    bins: int,
    even: bool | None,
    n: int,
    spec: Any,
) -> Plan:
    """even: all bins have the same size; None: the bin index is the value itself."""
    check_supported(dtype, device, "histogram")
    check_supported(result, device, "histogram")
    problem = HistogramProblem(
        str(dtype), size_class(n), bins, values=even is None, uneven=even is False, weights=weights is not None
    )
    choice = choose(FAMILY, device, problem, spec)
    chosen: HistogramSpec = choice.spec
    edge = guess = None
    if even is not None:
        # Integers are compared as integers, half precision as float, other dtypes as they are.
        edge = np.dtype(np.float64 if dtype == np.float64 else np.float32)
        if dtype.kind != "f":
            edge = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
        # Loops with a data-dependent trip count correct a guess. Drivers that limit loops were seen to end them early.
        guessed = even and device.profile.loop_limit is None
        guess = np.dtype(np.float64 if dtype == np.float64 else np.float32) if guessed else None
    value = np.dtype(np.uint32) if weights is None else result
    local = chosen.mapping == "simt" and weights is None and local_bytes(device.profile, chosen, bins) is not None
    params: dict[str, object] = {
        "declarations": c_declarations([dtype, value, *([edge] if edge else []), *([weights] if weights else [])]),
        "source": c_name(dtype),
        "direct": even is None,
        "edge": c_name(edge) if edge else None,
        "guess": c_name(guess) if guess else None,
    }
    limit = device.profile.loop_limit
    clears = limit is None or bins * chosen.copies < limit // 4
    # A part's counters have 32 bits. A driver that limits loops also counts the iterations of a value's bin search.
    longest = 2**31 if limit is None else max(1, limit // 2 // (2 if even is None else 3 + bins.bit_length()))
    if n == 0:
        return Plan(None, chosen, choice, bins, value, edge, guess, local, clears, longest)
    if local:
        ready = _local(device, chosen, bins, params)
    else:
        params |= {
            "clears": clears,
            "value": c_name(value),
            "weights": c_name(weights) if weights else None,
            "copies": chosen.copies if bins <= 4096 else 1,
            "bytes": even is None and dtype in (np.uint8, np.bool_),
            "eight": even is not None and dtype not in (np.float16, np.bool_) and bins < 2**31,
        }
        ready = kernel(device, "histogram_parts.mako", "histogram_parts", params)
    return Plan(ready, chosen, choice, bins, value, edge, guess, local, clears, longest)


def shared_plan(
    device: Any, source: Operand, given: Operand | None, result: np.dtype, bins: int, least: int, spec: Any
) -> Plan:
    """The plan of a bincount with at least `bins` bins.

    Kernels with bins in local memory are compiled for a number of bins. If the maximum of the values sets this number
    (bins > least), it is rounded up by at most an eighth: calls with similar maxima share a kernel. It is not rounded
    if there are too many bins for local memory, or if `spec` does not allow more bins."""
    kinds = device, source.dtype, None if given is None else given.dtype, result
    of_call = None, source.size, by_key(spec)
    step = 1 << max(0, bins.bit_length() - 4)
    if least < bins <= _MOST_SHARED and bins % step:
        with suppress(InvalidArgument):
            return plan_of(*kinds, -(-bins // step) * step, *of_call)
    return plan_of(*kinds, bins, *of_call)


def _local(device: Any, spec: HistogramSpec, bins: int, params: dict[str, object]) -> Kernel:
    """The kernel that counts in the local memory or registers of a work-group."""
    profile = device.profile
    own = None
    if spec.counters == "own":
        own = exchange(banks_of(profile.banks, profile.bank_bytes), spec.lanes, bins, 4).params()
    given = {"lanes": spec.lanes, "waves": spec.waves, "bins": bins, "counters": spec.counters, "sets": spec.sets,
             "pad": spec.pad, "x": own, "constants": spec.constants}  # fmt: skip
    needs = {"cleared": spec.lanes, "counted": spec.lanes}  # any lane clears, counts and folds any bin
    return build_kernel(device, "histogram_local.mako", "histogram_local", {**params, **given}, needs,
                 lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup)  # fmt: skip


def count(
    call: Call, plan: Plan, source: Operand, weights: Operand | None, edges: np.ndarray | None, result: Operand,
    ends: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Enqueue the histogram. ends: integers that replace the first and the last edge."""
    n = source.size
    if plan.kernel is None:
        fold(call, call.temporary((0, plan.bins), plan.value), "+", (0,), result)
        return
    x, step = _line(call, source)
    if weights is None and step != 1 and source.dtype.itemsize == 1:
        x, step = call.contiguous(source), 1
    parts, part, copies = division(plan, n)
    sums = call.temporary((parts * copies, plan.bins), plan.value)
    group = plan.spec.lanes if plan.local else 1
    arguments: list[Any] = [x, np.uint64(x.offset), np.int64(step), np.uint64(n), np.uint64(part), sums]
    if not plan.local:
        arguments.append(np.uint64(plan.bins))
    if weights is not None:
        w, w_step = _line(call, weights)
        arguments += [w, np.uint64(w.offset), np.int64(w_step)]
    if edges is not None:
        arguments += _thresholds(call, plan, edges, ends)
    if not plan.local and not plan.clears:
        zero = call.temporary((), plan.value)
        call.enqueue(cl.enqueue_copy, zero, np.zeros(1, plan.value), is_blocking=False)
        call.copy(zero, sums)
    call.launch(plan.kernel, (parts * group,), (group,), *arguments)
    fold(call, sums, "+", (0,), result)


def division(plan: Plan, n: int) -> tuple[int, int, int]:
    """Returns (number of parts, maximum elements of a part, sets of bins of a part in memory).

    The specialized number of parts is reduced if parts have too few elements for their bins or need too much memory,
    and increased if a part exceeds plan.longest. n: number of elements, at least 1."""
    copies = 1 if plan.local or plan.bins > 4096 else plan.spec.copies
    worth = max(1, n // max(1024, plan.bins))
    most = max(1, 2**26 // max(1, plan.bins * copies * plan.value.itemsize))
    part = -(-n // max(min(plan.spec.parts, worth, most), -(-n // plan.longest), 1))
    return -(-n // part), part, copies


def _line(call: Call, operand: Operand) -> tuple[Operand, int]:
    """The elements as one row: the operand (or a contiguous copy) and the stride between its elements."""
    flat = collapse(list(zip(operand.shape, operand.strides, strict=True)))
    if len(flat) <= 1:
        return operand, flat[0][1] if flat else 1
    return call.contiguous(operand), 1


def _thresholds(call: Call, plan: Plan, edges: np.ndarray, ends: tuple[int, int] | None) -> list[Any]:
    """Kernel arguments: the thresholds in device memory, and the coefficients of the first guess."""
    assert plan.edge is not None
    values = thresholds(edges, plan.edge)
    if ends is not None and plan.edge.kind != "f":
        least, most = int(np.iinfo(plan.edge).min), int(np.iinfo(plan.edge).max)
        if ends[0] <= most and ends[1] >= least:  # else no value is in range, and the thresholds are already right
            values[[0, -1]] = max(ends[0], least), min(ends[1], most)
    place = call.temporary(values.shape, values.dtype)
    call.enqueue(cl.enqueue_copy, place, values, is_blocking=False)
    if plan.guess is None:
        return [place]
    width = float(edges[-1]) - float(edges[0])
    first = edges[0] if plan.edge.kind == "f" else float(edges[0]) - int(values[0])
    with np.errstate(over="ignore"):  # the guess may be infinite: comparisons correct it
        return [place, plan.guess.type(first), plan.guess.type(plan.bins / width if width else 0.0)]
