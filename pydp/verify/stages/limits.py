"""Stage (d): the rates that the device reaches: multiply-adds, copies, reads, local memory, launches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.verify.check import Check, Context, NotApplicable

BYTES = 16 << 20  # bytes of an array, here and in stage (e), so both find it in the same caches
GPU_BYTES = 256 << 20  # several times the largest caches
_REPEATS = 15
_LAUNCHES = 200


def _limit(name: str, bound: Callable[[Any], Any]) -> Check:
    """bound: the probe of one limit, from :class:`pydp.bench.limits.Limits`."""

    def run(context: Context) -> dict[str, Any]:
        if context.pack is not None:
            return dict(context.device.limit(name))
        from pydp.bench.limits import Limits
        from pydp.bench.measure import alternating

        probe = bound(Limits(context.device))
        alternating({name: probe}, repeats=_REPEATS, budget=2.0)
        return _best(probe)

    return Check(name, run)


def _best(probe: Any) -> dict[str, Any]:
    """The best rate of a probe's calls: other work of the machine can lower a rate, nothing can raise it."""
    return {"rate": probe.limit, "unit": probe.unit, "seconds": probe.least}


def _bytes(device: Any) -> int:
    return GPU_BYTES if device.kind == "gpu" else BYTES


def _peak64(limits: Any) -> Any:
    if not limits.device.profile.fp64:
        raise NotApplicable("the device has no float64")
    return limits.peak("float64")


def _driver_copy(context: Context) -> dict[str, Any]:
    """The driver's own copy of a buffer."""
    if context.pack is not None:
        return dict(context.device.limit("driver copy"))
    import pyopencl as cl

    from pydp.bench.limits import Probe
    from pydp.bench.measure import alternating
    from pydp.runtime.memory.large_pages import new_buffer

    device = context.device
    flags = cl.mem_flags.READ_WRITE
    size = _bytes(device)
    source, target = (new_buffer(device.context, flags, size) for _ in range(2))
    cl.enqueue_copy(device.queue, source, np.zeros(size, np.uint8))
    probe = Probe(lambda: cl.enqueue_copy(device.queue, target, source).wait(), 2.0 * size, "GB/s")
    alternating({"copy": probe}, repeats=_REPEATS, budget=2.0)
    return _best(probe)


def _banks(context: Context) -> dict[str, Any]:
    """Reads of local memory at several strides: their time relative to stride 1, and the model's conflict degree."""
    if context.pack is not None:
        return dict(context.device.limit("local memory banks"))
    from pydp.bench.bench_lds import bank_conflicts

    return {"by stride": {str(stride): one for stride, one in bank_conflicts(context.device).items()}}


def _launches(context: Context) -> dict[str, Any]:
    """Microseconds of an empty kernel: enqueued and waited for, and enqueued back to back."""
    if context.pack is not None:
        return dict(context.device.limit("launch"))
    import pyopencl as cl

    from pydp.runtime.programs.program import kernel

    device = context.device
    params: dict[str, object] = {"type": "float", "width": 1, "chains": 1, "group": 1}
    params |= {"fused": True, "hints": False}
    made = kernel(device, "bench_limits.mako", "limit_peak", params)
    args = [cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 4), np.int32(0), np.float32(0)]
    one = []
    for _ in range(_LAUNCHES):
        began = time.perf_counter()
        made.enqueue(device.queue, (1,), (1,), args).wait()
        one.append(time.perf_counter() - began)
    began = time.perf_counter()
    for _ in range(_LAUNCHES):
        made.enqueue(device.queue, (1,), (1,), args)
    device.queue.finish()
    together = (time.perf_counter() - began) / _LAUNCHES
    return {"one at a time (us)": statistics.median(one) * 1e6, "back to back (us)": together * 1e6}


CHECKS = (
    _limit("f32 multiply-adds", lambda limits: limits.peak("float32")),
    _limit("f64 multiply-adds", _peak64),
    _limit("copy kernel", lambda limits: limits.copy(_bytes(limits.device))),
    _limit("read kernel", lambda limits: limits.read(_bytes(limits.device))),
    Check("driver copy", _driver_copy),
    Check("local memory banks", _banks),
    Check("launch", _launches),
)
