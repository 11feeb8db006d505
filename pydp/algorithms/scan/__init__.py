"""Prefix scans along any axis: inclusive, exclusive, reversed, segmented, with any associative operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.lengths import LENGTH, limit, trimmed, whole
from pydp.algorithms.lookback import why_two_passes
from pydp.algorithms.pieces import explaining_pieces, needed, on_host, unallocated
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.scan import stream
from pydp.algorithms.scan.arguments import segments_of, value_dtype
from pydp.algorithms.scan.plan import Arrays
from pydp.algorithms.scan.policy import ScanSpec, bank_layout
from pydp.algorithms.scan.request import Request, prepare, request_of
from pydp.errors import OutOfResources
from pydp.model.explanation import Explanation, Given
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.placement import wait_on_host
from pydp.runtime.recording import recorded
from pydp.tuning.reference import UFUNCS, Expected, host, identity, rounding, wide

__all__ = ["ScanSpec", "scan"]


def scan(
    x: Any,
    op: Any = "+",
    *,
    axis: int | None = -1,
    exclusive: bool = False,
    reverse: bool = False,
    init: Any = None,
    segments: Any = None,
    length: Any = None,
    dtype: Any = None,
    strategy: str | None = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Scan `x` along `axis`: element k of the result is ``x[0] op x[1] op ... op x[k]``.

    x: NumPy array, Field or pyopencl Array of any rank, strides and dtype (bool, integers, floats, complex numbers,
    OpenCL vectors, records). The result has the same kind and shape. axis=None scans the elements in C order and
    returns an array of rank 1.

    op: any associative operator, commutative or not: ``+ * min max & | ^ logaddexp``, an OpenCL C expression in a and
    b, a dict of names and expressions for the fields of a record, or a Python function. `a` is the earlier one.
    The bracketing depends only on the sizes, the device and the specialization, so float results are bitwise
    reproducible; `pydp.tune` may change the bracketing. The operator only receives elements of `x` and their
    reductions, with one exception: in an in-place scan (out=x), it may receive elements that are being overwritten, of
    which an element of more than 8 bytes may mix old and new bytes. It must return for such values; its result is then
    discarded.

    exclusive: element k is the reduction of the elements before k. Element 0 is `init`, or the operator's identity (an
    operator without a known identity needs init). reverse: scan from the end of the axis. init: the first
    value of every scan and of every segment: a value, or a Field or pyopencl Array of one element that is read on the
    device. segments: head flags (bool or uint8; nonzero starts a segment) or keys (other integers; a run of equal keys
    is a segment), of the shape of x. Pass ("flags", array) or ("keys", array) to select one explicitly. A flag marks
    the first element in scan order.

    length: only the first `length` elements count: an integer, or a Field or pyopencl Array of one integer, such as the
    `count` of `select`. `x` has rank 1, or axis is None; reverse is not accepted. The kernels read it on the device, so
    the call does not wait for it. If `x` is a result whose length only the device knows, the call does not wait for
    that either. On the device, a negative length counts as 0; a length larger than the array counts as the array's
    size. The result has `length` elements, as a result of `select`; an `out` has the shape of x, and its other elements
    are not written.

    dtype: dtype of the computation and the result. The default is the dtype of x (as in CUB and pyopencl, unlike
    NumPy), or int64 for sums and products of bools. out: output array; may be x. strategy: "lookback" (one pass),
    "chained" or "reduce_then_scan". The default is "lookback", or "reduce_then_scan" on drivers without forward
    progress between work-groups; drivers that limit loop iterations accept only "reduce_then_scan".
    spec: a :class:`pydp.algorithms.scan.policy.ScanSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for invalid arguments and UnsupportedOnDevice for dtypes that the device does not support,
    both before anything is enqueued.

    >>> pydp.scan(np.array([3, 1, 4], np.int32))
    array([3, 4, 8], dtype=int32)

    Source: D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back (2016); the fallback
    follows T. Smith, R. Levien and J. Owens, Decoupled Fallback (2025).
    """
    if length is not None:
        x = whole(x, length)
        segments = whole(segments, length)
    named = {"out": out, "device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
    found = _scanned(x, op, axis, exclusive, reverse, init, segments, length, dtype, strategy, **named)
    if length is None:
        return found
    return found[0] if out is not None else trimmed(*found)


@recorded
def _scanned(
    x: Any, op: Any, axis: Any, exclusive: Any, reverse: Any, init: Any, segments: Any, length: Any, dtype: Any,
    strategy: Any, *, out: Any, device: Any, queue: Any, wait_for: Any, spec: Any,
) -> Any:  # fmt: skip
    wait_on_host(wait_for, init)
    request = request_of(op, axis, exclusive, reverse, init, segments, dtype, strategy, spec, length)
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    heads = request.segments[1] if on_host(request.segments[1]) else None
    result = x.size * value_dtype(x.dtype, dtype, op).itemsize if on_host(x) else 0
    if needed(where, x, heads, result=result):
        if length is not None:
            raise OutOfResources(f"length= needs an array that fits the largest buffer; x has {x.nbytes} bytes")
        return stream.scan_in_pieces(_scan, x, request, where)
    return _scan(x, request, where)


def _scan(x: Any, request: Request, where: dict[str, Any], carry: Any = None, total: Any = None) -> Any:
    """Scan arrays that fit the device. `carry` (a buffer of one value) replaces init before the first element.
    The last inclusive value is written to the buffer `total`."""
    ready = prepare(x, request, where, carry is not None, total is not None)
    call, y, init, heads = ready.call, ready.y, ready.init, ready.heads
    results, length = [ready.result], None
    if request.length is not None:
        length = limit(call, ready.result.size, call.output((), LENGTH, "length"))
        results.append(length)
    if ready.plan is None:
        return call.finish(*results)
    init_argument = (init.buffer, init.offset) if type(init) is Operand else init
    h_buffer, h_offset = (heads.buffer, heads.offset) if heads is not None else (None, 0)
    x_buffer, x_offset = ready.x.buffer, ready.x.offset
    arrays = Arrays(x_buffer, x_offset, y.buffer, y.offset, h_buffer, h_offset, init_argument, carry, total, length)
    ready.plan.run(call, arrays)
    if y is not ready.result:
        call.copy(y, ready.result)
    return call.finish(*results)


def _explain(given: Given) -> Explanation:
    """Explain ``scan(x, op, ...)`` on this device."""
    request = request_of(
        given.op, given.axis, given.exclusive, given.reverse, given.init, given.segments, given.dtype, given.strategy,
        given.spec, given.length,
    )  # fmt: skip
    ready = prepare(given.x, request, given.where, run=False)
    device, plan, x = ready.call.device, ready.plan, ready.x
    op = f"{ready.operator.name!r}{ready.operator.computed_as}"
    title = f"scan of {x.shape} {x.dtype} with {op} along axis {request.axis} on {device.name}"
    if plan is None:
        return Explanation(title, {"result": "nothing to do"})
    choices = ["the other axes need more than two strides: the scan uses contiguous copies"] if ready.copies else []
    choices += [plan.why, *plan.describe()]
    choices.append(f"mapping {plan.spec.mapping!r}: the device is a {device.profile.kind}")
    choices.append(_why_strategy(device.profile, plan.spec))
    if plan.spec.mapping == "simt":
        choices.append(
            f"in local memory: {bank_layout(device.profile, ready.operator.dtype.itemsize, plan.spec).reason}"
        )
    kernels = plan.all_kernels()
    facts = {
        "device": device.name,
        "dtype": str(ready.operator.dtype),
        "specialization": plan.spec,
        "groups": plan.grid[0] // plan.group[0],
        "group": plan.group,
    }
    return Explanation(title, facts, choices, {name: one.source for name, one in kernels.items()})


def _explain_any(given: Given) -> Explanation:
    """Explain a scan of arrays that may exceed the device's largest buffer."""
    given = given.but(x=whole(given.x, given.length), segments=whole(given.segments, given.length))
    kind, heads = segments_of(given.segments)

    def explain(part: Given) -> Explanation:
        return _explain(part if heads is None else part.but(segments=(kind, part.segments)))

    def result(given: Given) -> np.ndarray:
        return unallocated(given.x.shape, value_dtype(given.x.dtype, given.dtype, given.op))

    return explaining_pieces(explain, "x", "segments", result=result)(given.but(segments=heads))


def _why_strategy(profile: Any, spec: ScanSpec) -> str:
    if spec.strategy != "reduce_then_scan":
        if not profile.group_progress:
            return f"strategy {spec.strategy!r}: requested; this driver has no forward progress between work-groups"
        return f"strategy {spec.strategy!r}: this driver has forward progress between work-groups, so one pass is safe"
    return f"strategy {spec.strategy!r}: {why_two_passes(profile)}"


def _reference(
    x: Any, op: Any = "+", *, axis: Any = -1, exclusive: Any = False, reverse: Any = False
) -> list[Expected] | None:
    x = host(x)
    x = np.moveaxis(x.reshape(-1) if axis is None else x, -1 if axis is None else axis, -1)
    x = x[..., ::-1] if reverse else x
    dtype = np.dtype(np.int64) if x.dtype.kind == "b" and op == "+" else x.dtype
    sums = UFUNCS[op].accumulate(wide(x), axis=-1, dtype=wide(np.zeros(0, dtype)).dtype)
    tolerance = rounding(x) if dtype.kind in "fc" and op == "+" else np.zeros(x.shape)
    if exclusive and x.size:
        sums[..., 1:] = sums[..., :-1].copy()
        sums[..., 0] = identity(op, dtype)
    step = -1 if reverse else 1
    sums, tolerance = (
        np.moveaxis(one[..., ::step], -1, 0 if axis is None else axis) for one in (sums.astype(dtype), tolerance)
    )
    return [Expected(sums, tolerance)]


register(
    Algorithm(
        scan,
        _explain_any,
        _reference,
        sizes=("65536", "1048576", "16777216", "2048x2048"),
        dtype="int32",
        benchmark="pydp.bench.bench_scan",
    )
)
