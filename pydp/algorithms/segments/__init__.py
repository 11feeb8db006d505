"""Segments of an array, by keys, counts or offsets: ``scan_by_key``, ``repeat``, ``run_length_decode``,
``segmented_reduce``, ``segmented_sort`` and ``segmented_argsort``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pydp.algorithms.arguments import check_same_shape, switch
from pydp.algorithms.composed import explanation_of, placed
from pydp.algorithms.registry import Algorithm, Shape, register, vectors
from pydp.algorithms.scan import scan
from pydp.algorithms.segments import reduction, sorts
from pydp.algorithms.segments import repeats as repeats_module
from pydp.algorithms.segments.policy import SegmentSpec
from pydp.algorithms.sort import argsort, sort_by_key
from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, Given
from pydp.runtime.memory.host_memory import host_allocation
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.recording import recorded
from pydp.tuning.reference import UFUNCS, Expected, host, identity

__all__ = [
    "SegmentSpec",
    "repeat",
    "run_length_decode",
    "scan_by_key",
    "segmented_argsort",
    "segmented_reduce",
    "segmented_sort",
]


def scan_by_key(
    keys: Any,
    values: Any,
    op: Any = "+",
    *,
    axis: int | None = -1,
    exclusive: bool = False,
    reverse: bool = False,
    init: Any = None,
    dtype: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Scan `values` within each run of equal adjacent `keys` along an axis.

    keys: array of any dtype (NumPy, Field or pyopencl Array); elements are compared by ``==``, therefore each NaN is a
    run of its own. values: array of the same shape. The result has the shape and kind of `values`.
    op, axis, exclusive, reverse, init, dtype, out, spec and errors: as for `scan`. init is the first value of each run.

    The scan kernel compares integer keys itself. For other keys, another kernel first computes flags of the first
    elements of the runs.

    >>> pydp.scan_by_key(np.array([7, 7, 3, 7]), np.array([1, 2, 5, 9]))
    array([1, 3, 5, 9])

    Source: ``cub::DeviceScan::InclusiveSumByKey``; see `scan`.
    """
    how: dict[str, Any] = {
        "axis": axis, "exclusive": exclusive, "reverse": reverse, "init": init, "dtype": dtype, "out": out,
        "spec": spec, "queue": queue,
    }  # fmt: skip
    keys, values = _checked_keys(keys, values)
    if keys.dtype.kind in "iu":
        return scan(values, op, segments=("keys", keys), device=device, wait_for=wait_for, **how)
    place = placed({"keys": keys, "values": values}, device, queue)
    wait_on_host(wait_for, init)
    described = {**how, "segments": _flags_like(keys), "device": place.device}
    explanation_of(scan, values, op, **described)  # raises its errors before anything is enqueued
    place.after(wait_for)
    flags = sorts.head_flags(place.field(keys), axis, switch(reverse, "reverse"), place.where, wait_for)
    return scan(values, op, segments=("flags", flags), device=place.device, **how)


def _checked_keys(keys: Any, values: Any) -> tuple[Any, Any]:
    keys, values = normal_input("keys", keys), normal_input("values", values)
    check_same_shape("values", values, "keys", keys)
    return keys, values


def _flags_like(keys: Any) -> tuple[str, Any]:
    return "flags", np.broadcast_to(np.uint8(0), keys.shape)


def repeat(
    x: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Repeat each element of `x`, as ``numpy.repeat``.

    x: array of any shape, strides and dtype (NumPy, Field or pyopencl Array). The result has the same kind and dtype.
    repeats: an integer, or an array of integers, one for each element along the axis. They must not be negative, and
    their sum must be below 2**63. Values in a NumPy array are checked; for wrong values in a Field or pyopencl Array,
    the result is unspecified.
    axis: the axis to repeat along; None repeats the elements in C order and returns an array of rank 1.
    total_repeat_length: the length of the result along the axis, as in ``jax.numpy.repeat``: the result is cut off, or
    the last element is repeated more often. With it, a call on Fields does not wait, unless `repeats` is a device array
    of one element, or a NumPy array, which is read after the events in `wait_for`; without it, a call with an array of
    repeats waits for their sum.
    spec: a :class:`pydp.algorithms.segments.policy.SegmentSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for other repeats, axes and lengths, before anything is enqueued.

    >>> pydp.repeat(np.array([3, 1, 4]), np.array([2, 0, 3]))
    array([3, 3, 4, 4, 4])

    Source: the inclusive sums of the repeats, then the merge path of the sums and the positions (Green, McColl, Bader
    2012).
    """
    wait_on_host(wait_for, repeats)
    return repeats_module.repeated(
        repeats_module.check(x, repeats, axis, total_repeat_length, wait_for), spec, device, queue, wait_for
    )


def run_length_decode(
    values: Any,
    counts: Any,
    *,
    total_repeat_length: int | None = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return each value as often as its count says: the inverse of `run_length_encode`.

    values: array of rank 1 of any dtype. counts: integers of the same shape. It is ``repeat(values, counts)``; for
    `total_repeat_length`, with which the call does not wait for the counts, and for the errors see `repeat`.

    >>> pydp.run_length_decode(np.array([7, 3]), np.array([2, 3]))
    array([7, 7, 3, 3, 3])

    Source: ``cub::BlockRunLengthDecode``.
    """
    checked = _decoded(values, counts, total_repeat_length, wait_for)
    return repeats_module.repeated(checked, spec, device, queue, wait_for)


def _decoded(values: Any, counts: Any, length: Any, wait_for: Any = None) -> repeats_module.Repeats:
    wait_on_host(wait_for, counts)
    values, counts = normal_input("values", values), normal_input("counts", counts)
    if values.ndim != 1 or counts.shape != values.shape:
        raise InvalidArgument(
            f"values has shape {values.shape} and counts {counts.shape}; two arrays of rank 1 and equal length are "
            "accepted"
        )
    return repeats_module.check(values, counts, None, length, wait_for)


def segmented_reduce(
    x: Any,
    offsets: Any,
    op: Any = "+",
    *,
    init: Any = None,
    dtype: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Reduce each segment of `x`: element s of the result is the reduction of ``x[offsets[s] : offsets[s + 1]]``.

    x: array of rank 1 of any dtype and stride (NumPy, Field or pyopencl Array). offsets: ascending integers, one more
    than there are segments (the row pointers of the CSR format). Elements before the first and from the last offset on
    belong to no segment. Offsets in a NumPy array are checked; wrong ones in a Field or pyopencl Array are clipped.
    op: any associative operator, commutative or not, see `scan`. init: a value that begins every segment. An empty
    segment gives `init`, or the identity of the operator (0 for a sum; an operator without one needs init).
    dtype: the dtype of the computation and the result, by default as for `reduce`. out: array for the result.
    spec: a :class:`pydp.algorithms.segments.policy.SegmentSpec`, or a mapping of some of its fields.

    Each work-item gets the same number of segments and elements together, so both one long segment and many short ones
    use all cores. The bracketing depends only on the sizes, the offsets, the device and the specialization, so float
    results are bitwise reproducible until the call is tuned.

    Raises InvalidArgument for invalid arguments and UnsupportedOnDevice for dtypes that the device does not support,
    before anything is enqueued.

    >>> pydp.segmented_reduce(np.array([1, 2, 5, 9]), np.array([0, 2, 2, 4]))
    array([ 3,  0, 14])

    The smallest element of each segment and its index (``cub::DeviceSegmentedReduce::ArgMin``):

    >>> x = np.zeros(4, [("value", "f4"), ("index", "i8")])
    >>> x["value"], x["index"] = [5, 2, 7, 1], np.arange(4)
    >>> smaller = lambda a, b: a if a["value"] <= b["value"] else b
    >>> pydp.segmented_reduce(x, np.array([0, 2, 4]), smaller, init=(np.inf, -1)).tolist()
    [(2.0, 1), (1.0, 3)]

    Source: D. Merrill and M. Garland, Merge-based Parallel Sparse Matrix-Vector Multiplication (2016);
    ``cub::DeviceSegmentedReduce``.
    """
    wait_on_host(wait_for, offsets, init)
    x, offsets = reduction.check(x, offsets)  # in each call: recordings do not read the offsets
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    return _reduced(x, offsets, op, init, dtype, spec, **where)


@recorded
def _reduced(x: Any, offsets: Any, op: Any, init: Any, dtype: Any, spec: Any, **where: Any) -> Any:
    return reduction.run(reduction.prepare(x, offsets, op, init, dtype, spec, where))


def segmented_sort(
    x: Any,
    offsets: Any,
    *,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    bits: tuple[int, int] | None = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Sort each segment ``x[offsets[s] : offsets[s + 1]]`` of `x`. The sort is stable.

    x: array of rank 1 of any dtype that `sort` accepts (NumPy, Field or pyopencl Array). offsets: ascending integers
    from 0 to the number of elements, one more than there are segments. Offsets in a NumPy array are checked; for wrong
    ones in a Field or pyopencl Array, the result is unspecified.
    key, less, descending, bits: as for `sort`.
    spec: a :class:`pydp.algorithms.sort.spec.SortSpec`, or a mapping of some of its fields.

    All elements are sorted in this order, and then, with a radix sort of few bits, by the number of their segment: the
    time does not depend on the lengths of the segments. Errors: as for `sort`.

    >>> pydp.segmented_sort(np.array([3, 1, 9, 7, 8]), np.array([0, 2, 5]))
    array([1, 3, 7, 8, 9])

    Source: ``cub::DeviceSegmentedSort`` (the function, not the method).
    """
    how = {"key": key, "less": less, "descending": descending, "bits": bits, "spec": spec}
    return sorts.sorted_segments(False, x, offsets, how, device, queue, wait_for)


def segmented_argsort(
    x: Any,
    offsets: Any,
    *,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    bits: tuple[int, int] | None = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the indexes (int64) that sort each segment of `x`: ``x[result]`` is ``segmented_sort(x, offsets)``.

    The indexes count from the beginning of `x`, not of the segment. Arguments and errors: as for `segmented_sort`.

    >>> pydp.segmented_argsort(np.array([3, 1, 9, 7, 8]), np.array([0, 2, 5]))
    array([1, 0, 3, 4, 2])
    """
    how = {"key": key, "less": less, "descending": descending, "bits": bits, "spec": spec}
    return sorts.sorted_segments(True, x, offsets, how, device, queue, wait_for)


# --- explanations and references -----------------------------------------------------------------------------


def _explain_scan(g: Given) -> Explanation:
    keys, values = _checked_keys(g.keys, g.values)
    how = {name: value for name, value in vars(g).items() if name not in ("keys", "values", "op")}
    integers = keys.dtype.kind in "iu"
    segments = ("keys", keys) if integers else _flags_like(keys)
    found = explanation_of(scan, values, g.op, **{**how, "segments": segments})
    found.choices.insert(
        0,
        "the scan kernel compares the integer keys itself"
        if integers
        else f"keys have dtype {keys.dtype}: a kernel before the scan computes flags of the first elements of the runs",
    )
    return found


def _explain_repeat(g: Given) -> Explanation:
    if hasattr(g, "counts"):
        checked = _decoded(g.values, g.counts, g.total_repeat_length)
    else:
        checked = repeats_module.check(g.x, g.repeats, g.axis, g.total_repeat_length)
    place = placed({"x": checked.x}, g.device, g.queue)
    outer, n, inner = checked.sizes
    plan = repeats_module.plan_of(
        place.device, checked.x.dtype, checked.counts is None, n, outer * inner == 1, reduction.by_key(g.spec)
    )
    spec = plan.choice.spec
    choices = [f"{plan.choice.source}: {plan.choice.reason}"]
    if checked.counts is None:
        choices.append(f"each element is repeated {checked.each} times: its position needs no search")
    else:
        choices.append("a scan adds the repeats up; then one kernel finds the element of each position")
    facts = {"device": place.device.name, "specialization": spec}
    title = f"repeat of {checked.x.shape} {checked.x.dtype} on {place.device.name}"
    return Explanation(title, facts, choices, {plan.kernel.name: plan.kernel.source})


def _explain_reduce(g: Given) -> Explanation:
    ready = reduction.prepare(g.x, g.offsets, g.op, g.init, g.dtype, g.spec, g.where)
    device, plan, segments = ready.call.device, ready.plan, ready.offsets.size - 1
    if g.out is not None:
        ready.call.output((segments,), ready.operator.dtype)  # validates out
    title = f"segmented_reduce of {ready.x.size} {ready.x.dtype} in {segments} segments on {device.name}"
    if plan is None:
        return Explanation(title, {"device": device.name}, ["there are no segments: no kernel"])
    choices = [f"{plan.choice.source}: {plan.choice.reason}"]
    if plan.choice.spec.mapping == "vector":
        choices.append(f"each work-item has {plan.part} segments and elements together; a second kernel joins pieces")
    else:
        choices.append("a segmented scan, then the last element of each segment")
        choices += [] if plan.scan is None else plan.scan.describe()
    facts = {"device": device.name, "specialization": plan.choice.spec}
    return Explanation(title, facts, choices, {name: one.source for name, one in plan.kernels.items()})


def _explain_sort(indexes: bool, g: Given) -> Explanation:
    x, offsets = sorts.check(g.x, g.offsets)
    place = placed({"x": x, "offsets": g.offsets}, g.device, g.queue)
    how = {name: value for name, value in vars(g).items() if name not in ("x", "offsets", "device", "queue")}
    with host_allocation():  # the arrays are not touched, so they take address space, but no memory
        keys, numbers, indices = (np.zeros(x.shape, kind) for kind in (x.dtype, np.int32, np.int64))
    if indexes:
        first = explanation_of(argsort, keys, **how, device=place.device)
    else:
        first = explanation_of(sort_by_key, keys, numbers, **how, device=place.device)
    function, segments = "segmented_argsort" if indexes else "segmented_sort", offsets.size - 1
    title = f"{function} of {x.size} {x.dtype} in {segments} segments on {place.device.name}"
    if not x.size:
        return Explanation(title, {"device": place.device.name}, ["there are no elements: no kernel"])
    moved = indices if indexes else keys
    last = explanation_of(sort_by_key, numbers, moved, bits=sorts.bits_of(segments), device=place.device)
    facts: dict[str, object] = {"device": place.device.name}
    choices = ["a stable sort by the elements, then one by the numbers of the segments, which compares few bits"]
    sources: dict[str, str] = {}
    for name, one in (("first sort", first), ("second sort", last)):
        facts[name] = one.facts["specialization"]
        choices += [f"{name}: {sentence}" for sentence in one.choices]
        sources.update({f"{kernel}, {name}": text for kernel, text in one.sources.items()})
    return Explanation(title, facts, choices, sources)


def _scan_reference(
    keys: Any, values: Any, op: Any = "+", *, exclusive: Any = False, reverse: Any = False
) -> list[Expected] | None:
    keys, values = host(keys), host(values)
    if keys.ndim != 1 or values.dtype.kind not in "biu":
        return None
    if reverse:
        keys, values = keys[::-1], values[::-1]
    dtype = np.dtype(np.int64) if values.dtype.kind == "b" and op == "+" else values.dtype
    heads = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))[: keys.size]
    found = np.empty(values.shape, dtype)
    for run in map(slice, heads, [*heads[1:], keys.size]):
        UFUNCS[op].accumulate(values[run], dtype=dtype, out=found[run])
    if exclusive and found.size:
        found[1:] = found[:-1].copy()
        found[heads] = identity(op, dtype)
    return [Expected(found[::-1] if reverse else found)]


def _repeat_reference(x: Any, repeats: Any = 1, axis: Any = None) -> list[Expected]:
    return [Expected(np.repeat(host(x), host(repeats), axis))]


def _reduce_reference(x: Any, offsets: Any, op: Any = "+") -> list[Expected] | None:
    x, offsets = host(x), host(offsets).astype(np.int64)
    if x.dtype.kind not in "biuf":
        return None
    if x.dtype.kind == "f" and op == "+":  # in float64, within some units of the sum of the magnitudes
        sums, magnitudes = (_folded(one.astype(np.float64), offsets, op, np.float64) for one in (x, np.abs(x)))
        return [Expected(sums.astype(x.dtype), 64 * np.finfo(x.dtype).eps * np.nan_to_num(magnitudes, posinf=0.0))]
    wide = op == "+" and x.dtype.kind != "f"
    return [Expected(_folded(x, offsets, op, (np.uint64 if x.dtype.kind == "u" else np.int64) if wide else x.dtype))]


def _folded(x: np.ndarray, offsets: np.ndarray, op: str, dtype: Any) -> np.ndarray:
    """The results of the segments of `x`, in `dtype`."""
    dtype = np.dtype(dtype)
    starts, ends = np.clip(offsets[:-1], 0, x.size), np.clip(offsets[1:], 0, x.size)
    found = np.full(len(starts), identity(op, dtype), dtype)
    filled = np.flatnonzero(starts < ends)
    if filled.size:  # the elements between two of these segments, if any, begin one that is dropped
        places = np.stack([starts[filled], ends[filled]], axis=-1).reshape(-1)
        padded = np.append(x.astype(dtype), found[:1])
        found[filled] = UFUNCS[op].reduceat(padded, places)[::2]
    return found


def _sort_reference(indexes: bool, x: Any, offsets: Any, *, descending: Any = False) -> list[Expected]:
    x, offsets = host(x), np.clip(host(offsets).astype(np.int64), 0, host(x).size)
    segments = np.searchsorted(offsets[1:], np.arange(x.size), "right")
    step = -1 if descending else 1  # stable: descending, it is the order of the reversed elements, reversed
    order = np.lexsort((x[::step], step * segments[::step]))[::step]
    order = x.size - 1 - order if descending else order
    return [Expected(order.astype(np.int64) if indexes else x[order])]


_LENGTH = 16  # elements of a segment, for commands that get the number of elements only


def _shapes(size: Shape) -> list[Shape] | None:
    """The shapes of the elements and of the offsets."""
    return [size, (size[0] // _LENGTH + 2,)] if len(size) == 1 else None


def _even_offsets(shapes: Sequence[Shape]) -> np.ndarray:
    """Offsets of segments of nearly the same length."""
    elements, offsets = shapes
    return np.linspace(0, prod(elements), prod(offsets)).astype(np.int64).reshape(offsets)


_FLAT: dict[str, Any] = {
    "sizes": ("1048576",),
    "shapes": vectors(2),
    "accepted": ("N",),
    "operands": 2,
    "benchmark": "pydp.bench.bench_segments",
}
register(Algorithm(scan_by_key, _explain_scan, _scan_reference, dtype="int32", dtypes="biu", **_FLAT))
register(Algorithm(repeat, _explain_repeat, _repeat_reference, numbers="counts", dtypes="iu", dtype="int32", **_FLAT))
register(
    Algorithm(
        run_length_decode, _explain_repeat, _repeat_reference, numbers="counts", dtypes="iu", dtype="int32", **_FLAT
    )
)
for _function, _explain_function, _reference in (
    (segmented_reduce, _explain_reduce, _reduce_reference),
    (segmented_sort, functools.partial(_explain_sort, False), functools.partial(_sort_reference, False)),
    (segmented_argsort, functools.partial(_explain_sort, True), functools.partial(_sort_reference, True)),
):
    register(
        Algorithm(
            _function,
            _explain_function,
            _reference,
            dtypes="biuf",
            dtype="int32",
            numbers="sorted",
            own_values={1: _even_offsets},
            **{**_FLAT, "shapes": _shapes},
        )
    )
