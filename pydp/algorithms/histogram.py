"""``pydp.histogram`` and ``pydp.bincount``: counts of bins, exact and the same every time.

Each part of the input is counted in bins of its own, the parts are folded in order: no global atomics, and no atomics
on floats. On CPUs neighbours go to different copies of the bins, so that equal ones do not wait for one another; on
GPUs a group counts in local memory or in registers, which lanes and virtual wavefronts share (SPEC S3).
"""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms._axis import integer, switch
from pydp.algorithms._histogram_edges import are_values, edges_of, ends_of, no_values, reached, thresholds
from pydp.algorithms._histogram_family import FAMILY, local_bytes
from pydp.algorithms._histogram_spec import HistogramSpec
from pydp.algorithms._keys import by_key, unkeyed
from pydp.algorithms._reduce_passes import collapse
from pydp.algorithms.reduce import fold, reduce
from pydp.dtypes import c_declarations, c_name, check_supported
from pydp.errors import InvalidArgument, OutOfResources
from pydp.exchange import exchange
from pydp.groups.meetings import built, told
from pydp.lds import banks_of
from pydp.runtime.call import Call
from pydp.runtime.construct import field
from pydp.runtime.field import Field
from pydp.runtime.operand import Operand
from pydp.runtime.program import Kernel, kernel
from pydp.specialize.choose import Choice, choose, rests_on_choices
from pydp.specialize.explanation import Explanation, Given, explained_by
from pydp.specialize.family import Problem
from pydp.specialize.shape_class import size_class

__all__ = ["HistogramSpec", "bincount", "histogram"]

_COUNT = np.dtype(np.int64)
_MOST_SHARED = 1 << 15


def histogram(
    x: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    weights: Any = None,
    density: bool = False,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, np.ndarray]:
    """(counts, edges) of the values of `x`, as ``numpy.histogram``; edges are a NumPy array.

    x: integers or floats of any shape. bins: a number of equal bins, or increasing edges. range: of equal bins; by
    default the least and the greatest value. weights: of the shape of `x`; then counts are sums of weights, in their
    dtype and always in the same order. density: counts become a density (float64). Values outside are not counted.

    Raises InvalidArgument for wrong bins (no NaN is an edge), ranges, weights and types. Without a range the values
    are read once more, and the call waits for them.

    >>> pydp.histogram(np.array([1, 2, 1]), bins=[0, 1, 2, 3])[0]
    array([0, 2, 1])
    """
    density = switch(density, "density")
    call = Call.begin({"x": x, "weights": weights}, device=device, queue=queue, wait_for=wait_for)
    source = _numbers(call)
    given = _weights(call, source)
    sample = no_values(source.dtype)
    edges = edges_of(sample, bins, range)
    if np.ndim(bins) == 0 and range is None and source.size:
        named = {"device": call.device, "queue": call.queue, "wait_for": wait_for}
        ends = [np.asarray(_host(reduce(x, op, **named))) for op in ("min", "max")]
        sample = np.array([end.reshape(()) for end in ends], sample.dtype)
        edges = edges_of(sample, bins, range)
    dtype = _COUNT if given is None else given.dtype
    even = None if are_values(source.dtype, edges) else np.ndim(bins) == 0
    result = call.output((len(edges) - 1,), dtype)
    within = reached(source.dtype, edges)
    counted = result if len(within) == len(edges) else call.temporary((len(within) - 1,), dtype)
    if len(within) > 1:
        plan = _plan(call.device, source.dtype, None if given is None else given.dtype, dtype, len(within) - 1, even,
                     source.size, by_key(spec))  # fmt: skip
        _count(call, plan, source, given, None if even is None else within, counted, ends_of(sample, bins, range))
    if counted is not result:
        zero = call.temporary((), dtype)
        call.enqueue(cl.enqueue_copy, zero, np.zeros(1, dtype), is_blocking=False)
        call.copy(zero, result)
        call.copy(counted, result.view(counted.shape, result.strides))
    counts = call.finish(result)
    if density:
        values = np.asarray(counts.get() if hasattr(counts, "get") else counts, np.float64)
        values = values / np.diff(edges) / values.sum()
        return _like(counts, values), edges
    return counts, edges


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int = 0,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """How often each value 0, 1, ... occurs in `x`, as ``numpy.bincount``.

    x: one axis of integers, none of them negative. weights: of the shape of `x`; then the result are sums of weights
    (float64). minlength: the least number of bins. The result (int64) has max(x) + 1 bins, so the call waits for the
    values.

    Raises InvalidArgument for negative values, other types and shapes, OutOfResources for more bins than the device's
    memory holds.

    >>> pydp.bincount(np.array([1, 3, 1]))
    array([0, 2, 0, 1])
    """
    x = _integers(x)
    call = Call.begin({"x": x, "weights": weights}, device=device, queue=queue, wait_for=wait_for)
    source, least = _counted(call), _least(minlength)
    given = _weights(call, source, "biuf")
    dtype = _COUNT if given is None else np.dtype(np.float64)
    few = _few(source.dtype)
    used = 256 if few else _largest(x, source, call, wait_for) + 1
    bins = max(used, least)
    if bins * dtype.itemsize > call.device.profile.global_bytes:
        raise OutOfResources(f"{bins} bins of {dtype} are more than {call.device.name} has memory for")
    plan = _shared_plan(call.device, source, given, dtype, bins, least, spec)
    result = call.output((plan.bins,), dtype)
    _count(call, plan, source, given, None, result)
    counts = call.finish(result)
    if few and given is None:
        seen = np.flatnonzero(counts.get() if hasattr(counts, "get") else counts)
        used = int(seen[-1]) + 1 if seen.size else 0
    elif few:
        used = _largest(x, source, call, None) + 1
    wanted = max(used, least)
    return counts if wanted == plan.bins else counts[:wanted]


# --- arguments -------------------------------------------------------------------------------------------


def _numbers(call: Call) -> Operand:
    """What histogram counts."""
    source = call.input("x")
    if source.dtype.kind not in "iufb":
        raise InvalidArgument(f"x has dtype {source.dtype}; integers and floats are accepted")
    check_supported(source.dtype, call.device, "histogram")
    return source


def _counted(call: Call) -> Operand:
    """What bincount counts."""
    source = call.input("x")
    if len(source.shape) != 1 or source.dtype.kind not in "iub":
        raise InvalidArgument(
            f"x has {len(source.shape)} axes and dtype {source.dtype}; one axis of integers is accepted"
        )
    return source


def _integers(x: Any) -> Any:
    """`x`; an empty list, which has no type, is one of integers."""
    return np.zeros(0, np.int64) if isinstance(x, (list, tuple)) and not x else x


def _least(minlength: Any) -> int:
    """The least number of bins."""
    try:
        least = integer(minlength)
    except TypeError:
        least = -1
    if least < 0:
        raise InvalidArgument(f"minlength is {minlength!r}; an integer of at least 0 is accepted")
    return least


def _few(dtype: np.dtype) -> bool:
    """Whether a bin for each value of the type costs less than looking for the greatest value first."""
    return dtype.itemsize == 1 and dtype.kind in "ub"


def _weights(call: Call, source: Operand, kinds: str = "iuf") -> Operand | None:
    if not call.has("weights"):
        return None
    given = call.input("weights")
    if given.shape != source.shape or given.dtype.kind not in kinds:
        raise InvalidArgument(
            f"weights have shape {given.shape}, dtype {given.dtype}; numbers of x's shape {source.shape} are accepted"
        )
    return given


def _largest(x: Any, source: Operand, call: Call, wait_for: Any) -> int:
    """The greatest value, -1 for none; refuses negative ones."""
    if not source.size:
        return -1
    named = {"device": call.device, "queue": call.queue, "wait_for": wait_for}
    if source.dtype.kind == "i" and int(_host(reduce(x, "min", **named))) < 0:
        raise InvalidArgument("x has negative values; integers of at least 0 are accepted")
    return int(_host(reduce(x, "max", **named)))


def _host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value


def _like(counts: Any, values: np.ndarray) -> Any:
    """Host values as an array of the kind and on the device of `counts`."""
    if isinstance(counts, np.ndarray):
        return values
    if isinstance(counts, Field):
        return field(values, device=counts.device)
    import pyopencl.array

    return pyopencl.array.to_device(counts.queue, values)


# --- the plan of a description, and its run ----------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
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


@rests_on_choices
@functools.lru_cache(maxsize=256)
def _plan(
    device: Any,
    dtype: np.dtype,
    weights: np.dtype | None,
    result: np.dtype,
    bins: int,
    even: bool | None,
    n: int,
    spec: Any,
) -> _Plan:
    """even: bins of one size; None: the bin is the value itself."""
    check_supported(dtype, device, "histogram")
    check_supported(result, device, "histogram")
    flags = {"values": even is None, "uneven": even is False, "weights": weights is not None}
    words = tuple(word for word, holds in flags.items() if holds)
    choice = choose(FAMILY, device, Problem("histogram", str(dtype), (size_class(n), bins), words), unkeyed(spec))
    chosen: HistogramSpec = choice.spec
    edge = guess = None
    if even is not None:
        # Integers are compared with integers, half precision is compared as float, others in their own type.
        edge = np.dtype(np.float64 if dtype == np.float64 else np.float32)
        if dtype.kind != "f":
            edge = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
        # A first guess is mended by loops of unknown length, which drivers with a limit of loops were seen to end.
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
    # 32 bits count a part; a driver that ends long loops counts the turns of a value's look-up as well.
    longest = 2**31 if limit is None else max(1, limit // 2 // (2 if even is None else 3 + bins.bit_length()))
    if n == 0:
        return _Plan(None, chosen, choice, bins, value, edge, guess, local, clears, longest)
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
    return _Plan(ready, chosen, choice, bins, value, edge, guess, local, clears, longest)


def _shared_plan(
    device: Any, source: Operand, given: Operand | None, result: np.dtype, bins: int, least: int, spec: Any
) -> _Plan:
    """The plan of the bins that the values ask for (more than `least`), or of at most an eighth more: calls whose
    greatest values differ a little share it, as local memory's kernels are built for a number of bins. Bins that no
    local memory holds stay as many, as do those for which a `spec` has no room."""
    kinds = device, source.dtype, None if given is None else given.dtype, result
    of_call = None, source.size, by_key(spec)
    step = 1 << max(0, bins.bit_length() - 4)
    if least < bins <= _MOST_SHARED and bins % step:
        with suppress(InvalidArgument):
            return _plan(*kinds, -(-bins // step) * step, *of_call)
    return _plan(*kinds, bins, *of_call)


def _local(device: Any, spec: HistogramSpec, bins: int, params: dict[str, object]) -> Kernel:
    """The kernel that counts in groups of lanes."""
    profile = device.profile
    own = None
    if spec.counters == "own":
        own = exchange(banks_of(profile.banks, profile.bank_bytes), spec.lanes, bins, 4).params()
    given = {"lanes": spec.lanes, "waves": spec.waves, "bins": bins, "counters": spec.counters, "sets": spec.sets,
             "pad": spec.pad, "x": own, "constants": spec.constants}  # fmt: skip
    needs = {"cleared": spec.lanes, "counted": spec.lanes}  # any lane clears, counts and folds any bin
    return built(device, "histogram_local.mako", "histogram_local", {**params, **given}, needs,
                 lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup)  # fmt: skip


def _count(
    call: Call, plan: _Plan, source: Operand, weights: Operand | None, edges: np.ndarray | None, result: Operand,
    ends: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """ends: integers that stand for the first and the last edge."""
    n = source.size
    if plan.kernel is None:
        fold(call, call.temporary((0, plan.bins), plan.value), "+", (0,), result)
        return
    x, step = _line(call, source)
    copies = 1 if plan.local or plan.bins > 4096 else plan.spec.copies
    if weights is None and step != 1 and source.dtype.itemsize == 1:
        x, step = call.contiguous(source), 1
    parts = _parts(plan, n, copies)
    part = -(-n // parts)
    parts = -(-n // part)
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


def _parts(plan: _Plan, n: int, copies: int) -> int:
    """Parts of the input: as specialized, but worth their bins, of sizes that the kernel counts, in bounded memory."""
    worth = max(1, n // max(1024, plan.bins))
    room = max(1, 2**26 // (plan.bins * copies * plan.value.itemsize))
    return max(min(plan.spec.parts, worth, room), -(-n // plan.longest), 1)


def _line(call: Call, operand: Operand) -> tuple[Operand, int]:
    """The elements as one row: the operand and the step between its elements, or a copy."""
    flat = collapse(list(zip(operand.shape, operand.strides, strict=True)))
    if len(flat) <= 1:
        return operand, flat[0][1] if flat else 1
    return call.contiguous(operand), 1


def _thresholds(call: Call, plan: _Plan, edges: np.ndarray, ends: tuple[int, int] | None) -> list[Any]:
    """The edges as the kernel compares them, in device memory, with the first guess's numbers."""
    assert plan.edge is not None
    values = thresholds(edges, plan.edge)
    if ends is not None and plan.edge.kind != "f":
        least, most = int(np.iinfo(plan.edge).min), int(np.iinfo(plan.edge).max)
        if ends[0] <= most and ends[1] >= least:  # else there is no such value, which the thresholds hold already
            values[[0, -1]] = max(ends[0], least), min(ends[1], most)
    place = call.temporary(values.shape, values.dtype)
    call.enqueue(cl.enqueue_copy, place, values, is_blocking=False)
    if plan.guess is None:
        return [place]
    width = float(edges[-1]) - float(edges[0])
    first = edges[0] if plan.edge.kind == "f" else float(edges[0]) - int(values[0])
    with np.errstate(over="ignore"):  # the guess may be infinite, comparisons mend it
        return [place, plan.guess.type(first), plan.guess.type(plan.bins / width if width else 0.0)]


_COUNTED = {
    "sets": "a group's {} set(s) of bins fit local memory: local atomics",
    "own": "every lane's bins fit local memory, in slots of its own: no atomics, no bank conflicts",
    "registers": "so few bins that every lane counts in registers",
}


def _explain_histogram(given: Given) -> Explanation:
    """Values are not read: of a range that follows from them, nothing but the number of bins is told."""
    switch(given.density, "density")
    bins, arrays = given.bins, {"x": given.x, "weights": given.weights}
    call = Call.begin(arrays, device=given.device, queue=given.queue, wait_for=given.wait_for)
    source = _numbers(call)
    weights = _weights(call, source)
    edges = edges_of(no_values(source.dtype), bins, given.range)
    exact = np.ndim(bins) + (given.range is not None) and are_values(source.dtype, edges)
    edges = reached(source.dtype, edges)
    return _explained("histogram", call, source, weights, None if weights is None else weights.dtype, len(edges) - 1,
                      None if exact else np.ndim(bins) == 0, given.spec, {"bins": len(edges) - 1})  # fmt: skip


def _explain_bincount(given: Given) -> Explanation:
    """Values are not read: the plan of 256 bins stands for those of any number."""
    arrays = {"x": _integers(given.x), "weights": given.weights}
    call = Call.begin(arrays, device=given.device, queue=given.queue, wait_for=given.wait_for)
    source, least = _counted(call), _least(given.minlength)
    weights = _weights(call, source, "biuf")
    bins = max(256, least)
    told_bins = bins if _few(source.dtype) else f"as many as the values ask for; what follows is that of {bins}"
    return _explained("bincount", call, source, weights, None if weights is None else np.dtype(np.float64), bins, None,
                      given.spec, {"bins": told_bins})  # fmt: skip


def _explained(
    which: str, call: Call, source: Operand, weights: Operand | None, sums: np.dtype | None, bins: int,
    even: bool | None, spec: Any, told_bins: dict[str, object],
) -> Explanation:  # fmt: skip
    """What both tell of a plan; sums: the type of the weights' sums."""
    plan = _plan(call.device, source.dtype, None if weights is None else weights.dtype, sums or _COUNT, bins, even,
                 source.size, by_key(spec))  # fmt: skip
    facts: dict[str, object] = {"device": call.device.name, "elements": source.size, **told_bins,
                                "specialization": plan.spec}  # fmt: skip
    choices = [plan.choice.reason]
    if plan.local:
        assert plan.kernel is not None
        choices += [_COUNTED[plan.spec.counters].format(plan.spec.sets), *told(plan.kernel)]
        choices.append(f"{plan.spec.waves} virtual wavefront(s) a turn" + ", edges in registers" * plan.spec.constants)
    else:
        copies = plan.spec.copies if plan.bins <= 4096 else 1
        choices.append(f"every part has {copies} set(s) of bins of its own: no atomics")
    return Explanation(which, facts, choices, {plan.kernel.name: plan.kernel.source} if plan.kernel else {})


explained_by(histogram, _explain_histogram)
explained_by(bincount, _explain_bincount)
