"""``pydp.histogram`` and ``pydp.bincount``: exact, reproducible counts per bin.

Each part of the input has its own bins. The parts are then added in order: there are no global atomics, and no atomics
on floats. On CPUs, adjacent elements use different copies of the bins, because repeated updates of one bin would wait
for each other. On GPUs, a work-group counts in local memory or in registers, which lanes and virtual wavefronts share
(SPEC S3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms.arguments import by_key, integer, switch
from pydp.algorithms.histogram.edges import are_values, edges_of, ends_of, no_values, reached
from pydp.algorithms.histogram.plan import COUNT, count, division, plan_of, shared_plan
from pydp.algorithms.histogram.policy import HistogramSpec
from pydp.algorithms.reduce import reduce
from pydp.algorithms.registry import Algorithm, Shape, register
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument, OutOfResources
from pydp.groups.barrier_plan import describe_barriers
from pydp.model.explanation import Explanation, Given
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.field.construct import field
from pydp.runtime.field.field import Field
from pydp.runtime.memory.host_memory import host_allocation
from pydp.tuning.reference import Expected, host

__all__ = ["HistogramSpec", "bincount", "histogram"]


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
    """Histogram of `x`, as ``numpy.histogram``. Returns (counts, edges); edges is a NumPy array.

    x: integers, bools or floats of any shape. bins: the number of equal bins, or increasing edges. range: (lowest,
    highest) edge of equal bins; the default is the minimum and maximum of x. Values outside are not counted. weights:
    numbers of the shape of `x`; the result is then the sums of weights, in their dtype, added in a fixed order.
    density: return a probability density (float64) instead of counts.

    The edges are bitwise equal to NumPy's, and values are compared with them exactly. NumPy rounds 64-bit integers to
    float64 before it compares them with float edges (equal bins have float edges) or with 64-bit integer edges of the
    other signedness. Its counts of values beyond 2**53 next to an edge may therefore differ from the exact counts
    returned here. Integer ends of a range are used exactly, even if the float edges round them.

    Raises InvalidArgument for invalid bins (such as NaN edges), ranges, weights and dtypes. Without range, the call
    reads the values twice and waits for their minimum and maximum.

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
    dtype = COUNT if given is None else given.dtype
    even = None if are_values(source.dtype, edges) else np.ndim(bins) == 0
    result = call.output((len(edges) - 1,), dtype)
    within = reached(source.dtype, edges)
    counted = result if len(within) == len(edges) else call.temporary((len(within) - 1,), dtype)
    if len(within) > 1:
        plan = plan_of(call.device, source.dtype, None if given is None else given.dtype, dtype, len(within) - 1, even,
                     source.size, by_key(spec))  # fmt: skip
        count(call, plan, source, given, None if even is None else within, counted, ends_of(sample, bins, range))
    if counted is not result:
        zero = call.temporary((), dtype)
        call.enqueue(cl.enqueue_copy, zero, np.zeros(1, dtype), is_blocking=False)
        call.copy(zero, result)
        call.copy(counted, result.view(counted.shape, result.strides))
    counts = call.finish(result)
    if density:
        with host_allocation():
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
    """Count the occurrences of each value 0, 1, ... in `x`, as ``numpy.bincount``.

    x: non-negative integers, of rank 1. weights: numbers of the shape of `x`; the result is then the sums of weights
    (float64). minlength: minimum number of bins. The result (int64) has max(x) + 1 bins, therefore the call waits for
    the values.

    Raises InvalidArgument for negative values and other dtypes and shapes, and OutOfResources if the bins do not fit
    into device memory.

    >>> pydp.bincount(np.array([1, 3, 1]))
    array([0, 2, 0, 1])
    """
    x = _integers(x)
    call = Call.begin({"x": x, "weights": weights}, device=device, queue=queue, wait_for=wait_for)
    source, least = _counted(call), _least(minlength)
    given = _weights(call, source, "biuf")
    dtype = COUNT if given is None else np.dtype(np.float64)
    few = _few(source.dtype)
    used = 256 if few else _largest(x, source, call, wait_for) + 1
    bins = max(used, least)
    if bins * dtype.itemsize > call.device.profile.global_bytes:
        raise OutOfResources(f"{bins} bins of {dtype} do not fit into the memory of {call.device.name}")
    plan = shared_plan(call.device, source, given, dtype, bins, least, spec)
    result = call.output((plan.bins,), dtype)
    count(call, plan, source, given, None, result)
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
    """The validated input of histogram."""
    source = call.input("x")
    if source.dtype.kind not in "iufb":
        raise InvalidArgument(f"x has dtype {source.dtype}; bools, integers and floats are accepted")
    check_supported(source.dtype, call.device, "histogram")
    return source


def _counted(call: Call) -> Operand:
    """The validated input of bincount."""
    source = call.input("x")
    if len(source.shape) != 1 or source.dtype.kind not in "iub":
        raise InvalidArgument(
            f"x has rank {len(source.shape)} and dtype {source.dtype}; an array of integers of rank 1 is accepted"
        )
    return source


def _integers(x: Any) -> Any:
    """`x`; an empty list or tuple becomes an empty int64 array, as it has no dtype."""
    return np.zeros(0, np.int64) if isinstance(x, (list, tuple)) and not x else x


def _least(minlength: Any) -> int:
    """The validated minimum number of bins."""
    try:
        least = integer(minlength)
    except TypeError:
        least = -1
    if least < 0:
        raise InvalidArgument(f"minlength is {minlength!r}; an integer of at least 0 is accepted")
    return least


def _few(dtype: np.dtype) -> bool:
    """Whether one bin for each value of the dtype costs less than first finding the maximum."""
    return dtype.itemsize == 1 and dtype.kind in "ub"


def _weights(call: Call, source: Operand, kinds: str = "iuf") -> Operand | None:
    if not call.has("weights"):
        return None
    given = call.input("weights")
    if given.shape != source.shape or given.dtype.kind not in kinds:
        raise InvalidArgument(
            f"weights has shape {given.shape} and dtype {given.dtype}; numbers of x's shape {source.shape} are accepted"
        )
    return given


def _largest(x: Any, source: Operand, call: Call, wait_for: Any) -> int:
    """The maximum, or -1 for an empty array; raises InvalidArgument for negative values."""
    if not source.size:
        return -1
    named = {"device": call.device, "queue": call.queue, "wait_for": wait_for}
    if source.dtype.kind == "i" and int(_host(reduce(x, "min", **named))) < 0:
        raise InvalidArgument("x has negative values; integers of at least 0 are accepted")
    return int(_host(reduce(x, "max", **named)))


def _host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value


def _like(counts: Any, values: np.ndarray) -> Any:
    """Host values as an array of the same kind and device as `counts`."""
    if isinstance(counts, np.ndarray):
        return values
    if isinstance(counts, Field):
        return field(values, device=counts.device)
    import pyopencl.array

    return pyopencl.array.to_device(counts.queue, values)


_COUNTED = {
    "sets": "a work-group's {} set(s) of bins fit into local memory: local atomics",
    "own": "each lane has its own bins in local memory: no atomics, no bank conflicts",
    "registers": "few bins: every lane counts in registers",
}


def _explain_histogram(given: Given) -> Explanation:
    """Explain ``histogram(x, ...)``. Values are not read: without range, the edges are unknown."""
    switch(given.density, "density")
    bins, arrays = given.bins, {"x": given.x, "weights": given.weights}
    call = Call.begin(arrays, **given.where)
    source = _numbers(call)
    weights = _weights(call, source)
    edges = edges_of(no_values(source.dtype), bins, given.range)
    exact = np.ndim(bins) + (given.range is not None) and are_values(source.dtype, edges)
    edges = reached(source.dtype, edges)
    found = _explained("histogram", call, source, weights, None if weights is None else weights.dtype, len(edges) - 1,
                       None if exact else np.ndim(bins) == 0, given.spec, len(edges) - 1)  # fmt: skip
    if np.ndim(bins) == 0 and given.range is None and source.size:
        found.choices.append("no range given: reductions first find the minimum and the maximum")
    return found


def _explain_bincount(given: Given) -> Explanation:
    """Explain ``bincount(x, ...)``. Values are not read: a plan of at least 256 bins serves as an example."""
    arrays = {"x": _integers(given.x), "weights": given.weights}
    call = Call.begin(arrays, **given.where)
    source, least = _counted(call), _least(given.minlength)
    weights = _weights(call, source, "biuf")
    bins = max(256, least)
    bins_text = bins if _few(source.dtype) else f"max(x) + 1; this explanation assumes {bins}"
    found = _explained("bincount", call, source, weights, None if weights is None else np.dtype(np.float64), bins, None,
                       given.spec, bins_text)  # fmt: skip
    if source.size and not _few(source.dtype):
        found.choices.append("a reduction first finds the maximum; signed dtypes need another one for the minimum")
    return found


def _explained(
    which: str, call: Call, source: Operand, weights: Operand | None, sums: np.dtype | None, bins: int,
    even: bool | None, spec: Any, bins_text: object,
) -> Explanation:  # fmt: skip
    """The common part of both explanations. sums: dtype of the sums of weights."""
    plan = plan_of(call.device, source.dtype, None if weights is None else weights.dtype, sums or COUNT, bins, even,
                 source.size, by_key(spec))  # fmt: skip
    facts: dict[str, object] = {"device": call.device.name, "elements": source.size, "bins": bins_text,
                                "specialization": plan.spec}  # fmt: skip
    if plan.kernel is None:
        return Explanation(which, facts, [plan.choice.reason, "nothing to count: all bins are 0"])
    choices = [plan.choice.reason]
    parts, part, copies = division(plan, source.size)
    if plan.local:
        choices += [_COUNTED[plan.spec.counters].format(plan.spec.sets), *describe_barriers(plan.kernel)]
        waves = f"{plan.spec.waves} virtual wavefront(s) in each iteration"
        choices.append(waves + ", edges in registers" * plan.spec.constants)
    else:
        choices.append(f"every part has its own {copies} set(s) of bins: no atomics")
    choices.append(f"{parts} part(s) of at most {part} elements; a reduction adds their bins")
    return Explanation(which, facts, choices, {plan.kernel.name: plan.kernel.source})


def _histogram_reference(x: Any, bins: Any = 10, range: Any = None) -> list[Expected] | None:
    x = host(x)
    if x.dtype in (np.int64, np.uint64) and x.size and max(-int(x.min()), int(x.max())) > 2**53:
        return None  # NumPy rounds such values before it compares them with the edges
    counts, edges = np.histogram(x.view(np.uint8) if x.dtype.kind == "b" else x, bins, range)  # NumPy warns for bools
    return [Expected(counts.astype(np.int64)), Expected(edges)]


def _bincount_reference(x: Any, *, minlength: int = 0) -> list[Expected]:
    return [Expected(np.bincount(host(x), minlength=minlength).astype(np.int64))]


def _flat(size: Shape) -> list[Shape] | None:
    return [size] if len(size) == 1 else None


register(
    Algorithm(
        histogram,
        _explain_histogram,
        _histogram_reference,
        sizes=("4194304",),
        numbers="spread",
        options={"bins": 256, "range": (-4.0, 4.0)},
        benchmark="pydp.bench.bench_histogram",
    )
)
register(
    Algorithm(
        bincount,
        _explain_bincount,
        _bincount_reference,
        sizes=("16777216",),
        shapes=_flat,
        accepted=("N",),
        dtype="uint8",
        dtypes="biu",
        numbers="counts",
    )
)
