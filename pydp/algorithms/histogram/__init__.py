"""``pydp.histogram`` and ``pydp.bincount``: exact, reproducible counts per bin.

Each part of the input has its own bins. The parts are then added in order: there are no atomics on floats. On CPUs,
vectors guess the bins of values, a comparison with the exact edges corrects the guess, and adjacent elements use
different copies of the bins, because repeated updates of one bin would wait for each other. On GPUs, a work-group
counts in local memory or in registers, which lanes and virtual wavefronts share (SPEC S3); bins that exceed local
memory, and sums of weights, are in global memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms.arguments import by_key, integer, switch
from pydp.algorithms.histogram.edges import Binning, binning, no_values
from pydp.algorithms.histogram.plan import COUNT, count, division, plan_of, shared_plan
from pydp.algorithms.histogram.policy import HistogramSpec
from pydp.algorithms.pieces import after_events, buffer_limit, explaining_pieces, needed, pieces
from pydp.algorithms.reduce import reduce
from pydp.algorithms.registry import Algorithm, Shape, register
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument, OutOfResources, shown
from pydp.groups.barrier_plan import describe_barriers
from pydp.model.explanation import Explanation, Given
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.field.construct import field
from pydp.runtime.field.field import Field
from pydp.runtime.memory.host_memory import host_allocation
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.recording import check_memory, recorded
from pydp.tuning.reference import Expected, host

__all__ = ["HistogramSpec", "bincount", "histogram"]


def histogram(
    x: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: Any = None,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, np.ndarray]:
    """Histogram of `x`, as ``numpy.histogram``. Returns (counts, edges).

    x: integers, bools or floats of any shape and strides (NumPy, Field or pyopencl Array). bins: the number of equal
    bins, or increasing edges. range: (lowest, highest) edge of equal bins; the default is the minimum and maximum of x.
    Values outside are not counted. weights: numbers in an array of the shape of `x`; the result is then the sums of the
    weights, in their dtype, added in a fixed order (on CPUs, floats are added as float64). density: return a
    probability density (float64, or complex128 for complex weights) instead of counts. counts has
    the kind of `x` and one element fewer than edges, which is a NumPy array. Without weights and density, its dtype is
    int64.
    spec: a :class:`pydp.algorithms.histogram.policy.HistogramSpec`, or a mapping of some of its fields.

    The edges are bitwise equal to NumPy's, and values are compared with them exactly. NumPy rounds 64-bit integers to
    float64 before it compares them with float edges (equal bins have float edges) or with 64-bit integer edges of the
    other signedness. Its counts of values beyond 2**53 next to an edge may therefore differ from the exact counts
    returned here. Integer ends of a range are used exactly, even if the float edges round them.

    Raises InvalidArgument for invalid bins (such as NaN edges), ranges, weights and dtypes. Without range, the call
    reads the values twice and waits for their minimum and maximum.

    >>> pydp.histogram(np.array([1, 2, 1]), bins=[0, 1, 2, 3])[0]
    array([0, 2, 1])
    """
    density = density is not None and switch(density, "density")
    check_memory({"bins": bins, "range": range})
    x = normal_input("x", x)
    wait_on_host(wait_for, bins, range)
    dtype, named = _accepted(x.dtype), {"device": device, "queue": queue, "wait_for": wait_for}
    found = binning(no_values(dtype), bins, range)
    if np.ndim(bins) == 0 and range is None and x.size:
        ends = [np.asarray(_host(reduce(x, op, **named))) for op in ("min", "max")]
        found = binning(np.array([end.reshape(()) for end in ends], no_values(dtype).dtype), bins, range)
    counts, edges = _histogram(x, found, weights, **named, spec=spec), found.edges.copy()
    if density:
        with host_allocation():
            values = np.asarray(counts.get() if hasattr(counts, "get") else counts)
            values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
            values = values / np.diff(edges) / values.sum()
        return _like(counts, values), edges
    return counts, edges


def _content(value: Any) -> tuple[Hashable, tuple[Any, ...]] | None:
    """The key of the bins in recordings of calls."""
    return ((Binning, value.key), ()) if type(value) is Binning and value.key is not None else None


@recorded(content=_content)
def _histogram(x: Any, given: Binning, weights: Any, **named: Any) -> Any:
    """The counts or sums of a histogram."""
    if needed(named, x, weights):
        named = after_events(named)
        return _summed(lambda part, weight: _counts(part, given, weight, **named), x, weights, named)
    return _counts(x, given, weights, **named)


def _counts(x: Any, given: Binning, weights: Any, *, spec: Any, **where: Any) -> Any:
    """The counts or sums of a histogram of arrays that fit the device."""
    call = Call.begin({"x": x, "weights": weights}, **where)
    source = _numbers(call)
    weighed = _weights(call, source)
    dtype = COUNT if weighed is None else weighed.dtype
    result = call.output((len(given.edges) - 1,), dtype)
    bins = len(given.within) - 1
    counted = result if bins == result.size else call.temporary((max(bins, 0),), dtype)
    if bins > 0:
        plan = plan_of(call.device, source.dtype, None if weighed is None else dtype, dtype, bins, given.even,
                       source.size, by_key(spec))  # fmt: skip
        count(call, plan, source, weighed, given.search, counted)
    if counted is not result:
        zero = call.temporary((), dtype)
        call.enqueue(cl.enqueue_copy, zero, np.zeros(1, dtype), is_blocking=False)
        call.copy(zero, result)
        call.copy(counted, result.view(counted.shape, result.strides))
    return call.finish(result)


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

    x: non-negative integers, of rank 1. weights: numbers in an array of the shape of `x`; the result is then the
    sums of the weights (float64), else the counts (int64). minlength: minimum number of bins. spec: see `histogram`.
    The result has max(x) + 1 bins, so the call waits until it has read the maximum.

    Raises InvalidArgument for negative values and other dtypes and shapes, and OutOfResources if the bins do not fit
    into device memory.

    >>> pydp.bincount(np.array([1, 3, 1]))
    array([0, 2, 0, 1])
    """
    x, least = normal_input("x", _integers(x)), _least(minlength)
    named = {"device": device, "queue": queue, "wait_for": wait_for}
    _check_counted(x.shape, x.dtype)
    few = _few(x.dtype)
    used = 256 if few else _largest(x, named) + 1
    counts = _bincount(x, weights, max(used, least), least, **named, spec=spec)
    if few and weights is None:
        seen = np.flatnonzero(counts.get() if hasattr(counts, "get") else counts)
        used = int(seen[-1]) + 1 if seen.size else 0
    elif few:
        used = _largest(x, named) + 1
    wanted = max(used, least)
    return counts if wanted == counts.size else counts[:wanted]


@recorded
def _bincount(x: Any, weights: Any, bins: int, least: int, **named: Any) -> Any:
    """The counts or sums of a bincount, for at least `bins` bins; see `shared_plan`."""
    if needed(named, x, weights):
        named = after_events(named)
        return _summed(lambda part, weight: _occurrences(part, weight, bins, bins, **named), x, weights, named)
    return _occurrences(x, weights, bins, least, **named)


def _occurrences(x: Any, weights: Any, bins: int, least: int, *, spec: Any, **where: Any) -> Any:
    """The counts or sums of a bincount of arrays that fit the device."""
    call = Call.begin({"x": x, "weights": weights}, **where)
    source = _counted(call)
    given = _weights(call, source, "biuf")
    dtype = COUNT if given is None else np.dtype(np.float64)
    if bins * dtype.itemsize > call.device.profile.global_bytes:
        raise OutOfResources(f"{bins} bins of {dtype} do not fit into the memory of {call.device.name}")
    plan = shared_plan(call.device, source, given, dtype, bins, least, spec)
    result = call.output((plan.bins,), dtype)
    count(call, plan, source, given, None, result)
    return call.finish(result)


def _summed(count: Callable[[Any, Any], Any], x: np.ndarray, weights: Any, named: dict[str, Any]) -> np.ndarray:
    """The sum of the counts of pieces that fit the device, in the order of the pieces."""
    if weights is not None and weights.shape != x.shape:
        raise InvalidArgument(f"weights has shape {weights.shape}; numbers of x's shape {x.shape} are accepted")
    arrays = [np.asarray(one) for one in (x, weights) if one is not None]
    parts = (count(part[0], part[1] if len(part) > 1 else None) for part in pieces(buffer_limit(named), *arrays))
    return functools.reduce(np.add, parts)


# --- arguments -------------------------------------------------------------------------------------------


def _numbers(call: Call) -> Operand:
    """The validated input of histogram."""
    source = call.input("x")
    check_supported(_accepted(source.dtype), call.device, "histogram")
    return source


def _accepted(dtype: np.dtype) -> np.dtype:
    """The validated dtype of the input of histogram, in native byte order."""
    if dtype.kind not in "iufb":
        raise InvalidArgument(f"x has dtype {dtype}; bools, integers and floats are accepted")
    return dtype.newbyteorder("=")


def _counted(call: Call) -> Operand:
    """The validated input of bincount."""
    source = call.input("x")
    _check_counted(source.shape, source.dtype)
    return source


def _check_counted(shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Check the input of bincount."""
    if len(shape) != 1 or dtype.kind not in "iub":
        raise InvalidArgument(f"x has rank {len(shape)} and dtype {dtype}; an array of integers of rank 1 is accepted")


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
        raise InvalidArgument(f"minlength is {shown(minlength)}; an integer of at least 0 is accepted")
    return least


def _few(dtype: np.dtype) -> bool:
    """Whether one bin for each value of the dtype costs less than first finding the maximum."""
    return dtype.itemsize == 1 and dtype.kind in "ub"


def _weights(call: Call, source: Operand, kinds: str = "iufc") -> Operand | None:
    if not call.has("weights"):
        return None
    given = call.input("weights")
    if given.shape != source.shape or given.dtype.kind not in kinds:
        raise InvalidArgument(
            f"weights has shape {given.shape} and dtype {given.dtype}; numbers of x's shape {source.shape} are accepted"
        )
    return given


def _largest(x: Any, named: dict[str, Any]) -> int:
    """The maximum, or -1 for an empty array; raises InvalidArgument for negative values. named: where and when."""
    if not x.size:
        return -1
    if x.dtype.kind == "i" and int(_host(reduce(x, "min", **named))) < 0:
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
    switch(given.density is not None and given.density, "density")
    bins, arrays = given.bins, {"x": given.x, "weights": given.weights}
    call = Call.begin(arrays, **given.where)
    source = _numbers(call)
    weights = _weights(call, source)
    known = binning(no_values(source.dtype), bins, given.range)
    ranged = np.ndim(bins) == 0 and given.range is None  # the edges depend on the values
    used = len(known.within) - 1
    found = _explained("histogram", call, source, weights, None if weights is None else weights.dtype, used,
                       True if ranged else known.even, given.spec, used)  # fmt: skip
    if ranged and source.size:
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
    divided = division(plan, source.size)
    if plan.place == "local":
        choices += [_COUNTED[plan.spec.counters].format(plan.spec.sets), *describe_barriers(plan.kernel)]
        waves = f"{plan.spec.waves} virtual wavefront(s) in each iteration"
        choices.append(waves + ", edges in registers" * plan.spec.constants)
    elif plan.place == "items":
        choices.append(f"every part has its own {divided.sets // divided.parts} set(s) of bins: no atomics")
    elif plan.place == "tiles":
        choices.append(
            f"each work-group has its own bins in global memory; {divided.lanes} lanes add the weights of equal bins "
            "in order: no atomics"
        )
    else:
        choices.append(f"bins exceed local memory: {divided.sets} set(s) in global memory, counted with atomics")
    if plan.search:
        how = "a product guesses the bin and one comparison corrects it"
        choices.append(how if even else "a table guesses the bin and comparisons refine it")
    choices.append(f"{divided.parts} part(s) of at most {divided.part} elements; a reduction adds their bins")
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
        explaining_pieces(_explain_histogram, "x", "weights"),
        _histogram_reference,
        sizes=("4194304",),
        dtypes="biuf",
        numbers="spread",
        options={"bins": 256, "range": (-4.0, 4.0)},
        benchmark="pydp.bench.bench_histogram",
    )
)
register(
    Algorithm(
        bincount,
        explaining_pieces(_explain_bincount, "x", "weights"),
        _bincount_reference,
        sizes=("16777216",),
        shapes=_flat,
        accepted=("N",),
        dtype="uint8",
        dtypes="biu",
        numbers="counts",
        benchmark="pydp.bench.bench_histogram",
    )
)
