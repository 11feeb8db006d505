"""The limits of a device: fused multiply-adds in registers, copy, read. Benchmarks report ratios to them.

limits = Limits(device)
limits.peak("float32")()      # runs the kernel once and blocks
limits.measure()              # {"f32 FMA peak": GFLOP/s, "copy kernel": GB/s, "read kernel": GB/s, ...}
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
from pydp.bench.measure import alternating

import pydp
from pydp.runtime.memory.large_pages import new_buffer
from pydp.runtime.programs.program import kernel

_TYPES = {"float32": "float", "float64": "double"}


class Probe:
    """The kernel of one limit. A call runs it once and waits. `work`: operations or bytes per call.

    least: the seconds of the fastest call. A limit is the best rate, not a median: on a busy machine, the median call
    may have had half of the cores, and longer kernels beside it would exceed it. cores: on a CPU, the cores that a
    computation keeps busy; a call then takes at most the CPU time of the process divided by them, so a probe that other
    programs interrupt still finds the limit. 0: only the wall time counts.
    """

    def __init__(self, run: Callable[[], Any], work: float, unit: str, cores: int = 0) -> None:
        self._run = run
        self._cores = cores
        self.work = work
        self.unit = unit
        self.least = float("inf")

    def __call__(self) -> None:
        start, used = time.perf_counter(), time.process_time()
        self._run()
        self.least = min(self.least, time.perf_counter() - start)
        if self._cores:
            self.least = min(self.least, (time.process_time() - used) / self._cores)

    @property
    def limit(self) -> float:
        """The best rate of all calls, in units of 1e9."""
        return self.rate(self.least)

    def rate(self, seconds: float) -> float:
        """Operations or bytes per second, in units of 1e9."""
        return self.work / seconds / 1e9


class Limits:
    """The limits of one device, measured by kernels of bench_limits.mako."""

    def __init__(self, device: Any) -> None:
        self.device = device
        profile = device.profile
        self.vector = profile.mapping == "vector"
        self.group = 1 if self.vector else 128

    def _kernel(self, name: str, dtype: str, share: int = 1, hints: bool = False) -> tuple[Any, int]:
        """A kernel and its vector width. share: use vectors of 1 / share of the device's width."""
        size = np.dtype(dtype).itemsize
        full = max(1, self.device.profile.simd_bytes // size)
        width = max(1, full // share) if self.vector else (1 if name == "limit_peak" else 4)
        params = {
            "type": _TYPES[dtype], "width": width, "chains": 12, "group": self.group,
            "fused": self.device.profile.fma_fast or not self.vector, "hints": hints,
        }  # fmt: skip
        return kernel(self.device, "bench_limits.mako", name, params), width

    def peak(self, dtype: str = "float32", seconds: float = 0.005) -> Probe:
        """Chains of multiply-adds in registers. A call takes about `seconds`.

        On CPUs, the faster of whole and half vectors: some drivers split whole ones, and some processors lower their
        clock for them.
        """
        tried = [self._peak(dtype, seconds, share) for share in ((1, 2) if self.vector else (1,))]
        if len(tried) > 1:
            alternating({str(place): probe for place, probe in enumerate(tried)}, repeats=5)
        return max(tried, key=lambda probe: probe.limit)

    def _peak(self, dtype: str, seconds: float, share: int) -> Probe:
        made, width = self._kernel("limit_peak", dtype, share)
        profile = self.device.profile
        items = profile.compute_units * (8 if self.vector else 16 * self.group)
        steps = 4 if profile.is_simulator else 20000  # much longer than a launch, even on a busy machine
        out = cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, items * width * np.dtype(dtype).itemsize)
        scalar = np.dtype(dtype).type(0.5)

        def probe(count: int) -> Probe:
            def run() -> None:
                made.enqueue(self.device.queue, (items,), (self.group,), [out, np.int32(count), scalar]).wait()

            cores = profile.compute_units if profile.kind == "cpu" and not profile.is_simulator else 0
            return Probe(run, 2.0 * items * width * 12 * 4 * count, "GFLOP/s", cores)

        most = 60000 if profile.loop_limit else steps if profile.is_simulator else 5_000_000
        first = probe(steps)
        alternating({"peak": first}, repeats=3)
        return probe(max(steps, min(most, int(steps * seconds / max(first.least, 1e-7)))))

    def _stream(self, name: str, nbytes: int, source: Any = None, target: Any = None, hints: bool = False) -> Probe:
        """hints: with clang's built-ins: a copy with nontemporal stores, a read with prefetches."""
        made, width = self._kernel(name, "float32", hints=hints)
        profile = self.device.profile
        items = profile.compute_units * (16 if self.vector else 16 * self.group)
        each = max(1, nbytes // (4 * width * items))
        if profile.loop_limit:
            each = min(each, profile.loop_limit // 2)
        count = items * each * width * 4
        stores = count if name == "limit_copy" else items * width * 4  # a read stores its sums
        args = [self._memory(source, count), self._memory(target, stores)]
        args += [np.int32(each), np.int64(1 if self.vector else items)]

        def run() -> None:
            made.enqueue(self.device.queue, (items,), (self.group,), args).wait()

        return Probe(run, count * (2.0 if name == "limit_copy" else 1.0), "GB/s")

    def _memory(self, array: Any, nbytes: int) -> Any:
        """The buffer of a Field or a pyopencl Array. If it is missing or too small, this allocates another one."""
        if array is not None:  # Field.array would change the Field: pydp no longer sees all uses of its memory
            buffer = array._storage.buffer if isinstance(array, pydp.Field) else array.base_data
            if buffer.size >= nbytes:
                return buffer
        # On CPUs, small pages would lower the limit below what pydp's own arrays reach.
        made = new_buffer(self.device.context, cl.mem_flags.READ_WRITE, nbytes)
        cl.enqueue_copy(self.device.queue, made, np.zeros(nbytes, np.uint8))
        return made

    def copy(self, nbytes: int = 256 << 20, source: Any = None, target: Any = None) -> Probe:
        """A copy kernel; its bytes count reads and writes.

        source, target: Fields or pyopencl Arrays that the compared algorithm uses. Other memory may have pages of
        another size, and the caches may hold it when they do not hold the algorithm's.
        """
        return self._stream("limit_copy", nbytes, source, target)

    def copies(self, nbytes: int = 256 << 20, source: Any = None, target: Any = None) -> dict[str, Probe]:
        """`copy`, and on CPUs the same with nontemporal stores, which do not read the lines that they overwrite."""
        found = {"copy kernel": self.copy(nbytes, source, target)}
        if self.device.profile.nontemporal_bytes is not None:
            found["nontemporal copy"] = self._stream("limit_copy", nbytes, source, target, hints=True)
        return found

    def read(self, nbytes: int = 256 << 20, source: Any = None) -> Probe:
        """A kernel that reads and adds up. source: see `copy`."""
        return self._stream("limit_read", nbytes, source)

    def reads(self, nbytes: int = 256 << 20, source: Any = None) -> dict[str, Probe]:
        """`read`, and on CPUs the same with prefetches."""
        found = {"read kernel": self.read(nbytes, source)}
        if self.device.profile.prefetches:
            found["prefetched read"] = self._stream("limit_read", nbytes, source, hints=True)
        return found

    def launch(self) -> Probe:
        """A kernel that reads nothing, with a work-group for each compute unit: the time to launch it and wait for its
        end."""
        made, width = self._kernel("limit_read", "float32")
        items = self.device.profile.compute_units * self.group
        args = [self._memory(None, items * width * 4), self._memory(None, items * width * 4), np.int32(0), np.int64(1)]

        def run() -> None:
            made.enqueue(self.device.queue, (items,), (self.group,), args).wait()

        return Probe(run, 1.0, "launches")

    def measure(self, repeats: int = 7) -> dict[str, float]:
        """Measure all limits, alternating: name -> best rate."""
        probes = {"f32 FMA peak": self.peak("float32"), **self.copies(), **self.reads()}
        if self.device.profile.fp64:
            probes["f64 FMA peak"] = self.peak("float64")
        alternating(probes, repeats=repeats)
        return {name: probe.limit for name, probe in probes.items()}
