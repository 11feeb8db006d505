"""Measure the rates of a device with micro-kernels and store them in the cache folder, per device and driver.

A call of an algorithm never measures: :func:`kept` only reads the result of an earlier :func:`calibrate`. The tuner and
``pydp bench --specializations`` calibrate. Without a calibration, the model uses the table of architectures. Background
load can only lengthen the measured times. The first few processes therefore all measure, and the best figures are
kept: a later process improves a calibration made on a busy machine.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pydp.model.architectures import architecture_of, rates_of
from pydp.model.family import forget
from pydp.model.rates import Rates, from_dict
from pydp.runtime.drivers.devices import Device
from pydp.runtime.programs.files import atomic_write, cache_dir, log_once, read

__all__ = ["Meter", "best_of", "measured"]

_RUNS = 5
_STEPS, _ROUNDS = 32, 8
_OPERATIONS = 2.0 * 4 * _STEPS  # operations of a work-item between two barriers
_PASSES = 4
_LAUNCHES, _PAUSE = 25, 2e-3  # number of launches for a median, and seconds between them


def best_of(one: Rates, other: Rates) -> Rates:
    """Combine two measurements of one device: each figure from the less disturbed one."""
    faster = ("float32", "float64", "integer", "memory_read", "unit_memory", "unit_cache")
    found = {name: max(getattr(one, name), getattr(other, name)) for name in faster}
    found |= {name: min(getattr(one, name), getattr(other, name)) for name in ("launch", "group")}
    # barrier and lane_slowdown were split from one measured time with the peak of the same run, so they are taken
    # together. memory_read and memory_write were split from the time of a copy in the same way.
    lanes = min(one, other, key=_lane_seconds)
    slowdown = max(1.0, lanes.lane_slowdown * found["float32"] / lanes.float32) if lanes.lane_slowdown > 1 else 1.0
    copied = max(1.0 / (1.0 / each.memory_read + 1.0 / each.memory_write) for each in (one, other))
    found["memory_write"] = _written(found["memory_read"], copied)
    return replace(one, **found, barrier=lanes.barrier, lane_slowdown=slowdown)


def _written(read: float, copied: float) -> float:
    """Bytes per second of writing, from the rates of reading and copying."""
    return 1.0 / max(1.0 / copied - 1.0 / read, 0.25 / read)


def _lane_seconds(rates: Rates) -> float:
    """Measured seconds of a work-item of a group: its operations and one barrier."""
    return rates.barrier + rates.lane_slowdown * _OPERATIONS / rates.float32


def measured(device: Device) -> Rates:
    """Measure the rates, from the least times of a few passes.

    One pass is not enough: the first pass over new memory runs at half the speed, and all threads of a driver may share
    a core for some milliseconds. The best rate of each pass would be wrong: if only the launches of a pass were slow,
    too much launch time would be subtracted, and its rates would be too good.
    """
    meter = Meter(device)
    found = [_pass(meter) for _ in range(meter.rounds)][-1]  # the meter keeps the least times
    return replace(found, launch=meter.launch())


def _pass(meter: Meter) -> Rates:
    """The rates from the least times of this pass and earlier ones."""
    device = meter.device
    base = rates_of(device.profile, architecture_of(device))
    launch, group = meter.groups()
    peak = meter.peak("float32", launch)
    double = meter.peak("float64", launch) if device.profile.fp64 else peak / 2
    read, copied, alone = meter.memory(launch)
    barrier, slowdown = meter.lanes(launch, peak)
    cpu = device.profile.kind == "cpu"
    return Rates(
        units=base.units,
        float32=peak,
        float64=double,
        integer=peak / 2,
        memory_read=read,
        memory_write=_written(read, copied),
        unit_memory=min(alone, read),
        unit_cache=meter.cache(launch) if cpu else base.unit_cache,
        launch=launch,
        group=group,
        barrier=barrier,
        lane_slowdown=slowdown if cpu else 1.0,
        signal=base.signal,
        source="measured",
    )


class Meter:
    """Run the micro-kernels on one device."""

    def __init__(self, device: Device) -> None:
        import pyopencl as cl

        self.device = device
        self.profile = device.profile
        self.units = device.profile.compute_units
        self.vector = device.profile.mapping == "vector"
        self.quick = device.profile.is_simulator
        self.rounds = 1 if self.quick else _PASSES
        self.group = 1 if self.vector else 8 if self.quick else 128
        self.lanes_group = min(8 if self.quick else 128, device.profile.max_group_size)
        self.items = self.units * (1 if self.quick else 16) * self.group
        least = self.items * 8 * max(16, self.profile.simd_bytes)  # eight vectors for each work-item
        self._least: dict[tuple[Any, ...], float] = {}  # least seconds by kernel, sizes and arguments
        self.nbytes = max(least, min(64 << 20, self.profile.max_allocation // 4) if not self.quick else 0)
        flags = cl.mem_flags.READ_WRITE
        self.buffers = [cl.Buffer(device.context, flags, self.nbytes) for _ in range(2)]
        for buffer in self.buffers:
            cl.enqueue_copy(device.queue, buffer, np.zeros(self.nbytes, np.uint8))

    def seconds(self, kernel: Any, items: int, group: int, args: list[Any], runs: int = _RUNS) -> float:
        """Least seconds of a launch, over `runs` runs and earlier passes. Background load only adds time."""
        took = min(self._once(kernel, items, group, args) for _ in range(2 if self.quick else 1 + runs))
        what = (kernel, items, group, *args)
        self._least[what] = took = min(took, self._least.get(what, took))
        return took

    def _once(self, kernel: Any, items: int, group: int, args: list[Any]) -> float:
        start = time.perf_counter()
        kernel.enqueue(self.device.queue, (items,), (group,), args).wait()
        return time.perf_counter() - start

    def _limit(self, name: str, dtype: str, group: int) -> tuple[Any, int]:
        from pydp.runtime.programs.program import kernel

        size = np.dtype(dtype).itemsize
        width = max(1, self.profile.simd_bytes // size) if self.vector else (1 if name == "limit_peak" else 4)
        params = {"type": {4: "float", 8: "double"}[size], "width": width, "chains": 12, "group": group}
        params |= {"fused": self.profile.fma_fast or not self.vector, "hints": False}
        return kernel(self.device, "bench_limits.mako", name, params), width

    def _own(self, name: str) -> tuple[Any, int]:
        from pydp.runtime.programs.program import kernel

        width = max(1, self.profile.simd_bytes // 4) if self.vector else 4
        params = {"width": width, "group": self.lanes_group, "steps": _STEPS, "fused": self.profile.fma_fast}
        return kernel(self.device, "calibrate.mako", name, params), width

    def launch(self) -> float:
        """Median seconds of a launch after a pause, as in programs: the driver's threads sleep meanwhile.

        The minimum would measure threads that happen to be awake.
        """
        empty, _ = self._own("calibrate_empty")
        found = []
        for _ in range(1 if self.quick else _LAUNCHES):
            time.sleep(_PAUSE)
            found.append(self._once(empty, 1, 1, [self.buffers[1]]))
        return statistics.median(found)

    def groups(self) -> tuple[float, float]:
        """(least seconds of a launch, seconds to start a group on a unit)."""
        empty, _ = self._own("calibrate_empty")
        many = 4 if self.quick else 512 * self.units
        one = self.seconds(empty, 1, 1, [self.buffers[1]], 9)
        all_of_them = self.seconds(empty, many, 1, [self.buffers[1]])
        return one, max((all_of_them - one) * self.units / many, one * 1e-4)

    def peak(self, dtype: str, launch: float) -> float:
        """Operations per second of one unit."""
        made, width = self._limit("limit_peak", dtype, self.group)
        items = self.units * 4 if self.vector else self.items
        steps = 2 if self.quick else 10000
        args = [self.buffers[1], np.int32(steps), np.dtype(dtype).type(0.5)]
        took = self.seconds(made, items, self.group, args, 3 * _RUNS)
        return 2.0 * items * width * 12 * 4 * steps / max(took - launch, took / 2) / self.units

    def memory(self, launch: float) -> tuple[float, float, float]:
        """Bytes per second of (reading, copying, reading by one unit alone)."""
        reading, width = self._limit("limit_read", "float32", self.group)
        copying, _ = self._limit("limit_copy", "float32", self.group)

        def rate(made: Any, count: int, nbytes: int) -> float:
            each = self._each(nbytes // (4 * width * count))
            stride = np.int64(1 if self.vector else count)
            took = self.seconds(made, count, self.group, [*self.buffers, np.int32(each), stride])
            return count * each * width * 4 / max(took - launch, took / 2)

        read, copy = rate(reading, self.items, self.nbytes), rate(copying, self.items, self.nbytes)
        return read, copy, rate(reading, self.group, self.nbytes // (4 if self.vector else 64))

    def _each(self, wanted: int) -> int:
        limit = self.profile.loop_limit
        return max(8, wanted if limit is None else min(wanted, limit // 2))

    def cache(self, launch: float) -> float:
        """Bytes per second of a unit that reads from its second-level cache."""
        made, width = self._own("calibrate_cache")
        each = max(8, min(self.profile.l2_bytes // 4, self.nbytes // self.units) // (4 * width) // 8 * 8)
        rounds = 1 if self.quick else 50
        if self.profile.loop_limit is not None:
            rounds = max(1, min(rounds, 8 * (self.profile.loop_limit // 2) // each))
        took = self.seconds(made, self.units, 1, [*self.buffers, np.int32(each), np.int32(rounds)])
        return float(each * width * 4 * rounds / max(took - launch, took / 2))

    def lanes(self, launch: float, peak: float) -> tuple[float, float]:
        """(seconds of a work-item at a barrier, slowdown of lanes relative to full vectors)."""
        made, _ = self._own("calibrate_lanes")
        rounds = 1 if self.quick else _ROUNDS
        groups = 2 * self.units
        took = self.seconds(made, groups * self.lanes_group, self.lanes_group, [self.buffers[1], np.int32(rounds)])
        each = max(took - launch, took / 2) / (groups / self.units * self.lanes_group * rounds)
        # The barrier gets the time beyond that of vector multiply-adds, but at most half of the time.
        barrier = max(min(each / 2, each - _OPERATIONS / peak), 1e-12)
        return barrier, max(1.0, (each - barrier) * peak / _OPERATIONS)


SCHEMA = "pydp-calibration-2"
_KEY = "calibration"  # key in a device's facts
_DONE = "calibrated"  # key: this process has measured
_TIMES = 3  # measurements to combine before a file is used without another one


def path_of(device: Device) -> Path:
    """The file of a device's calibration. Its name has the number of units that this process may use."""
    return cache_dir() / "calibration" / f"{device.uid}-{device.profile.compute_units}.json"


def kept(device: Device) -> Rates | None:
    """The measured rates of a device; None if it is not calibrated. A process reads the file once."""
    found = device.facts.get(_KEY)
    if found is None:
        data = read(path_of(device))
        found = device.facts[_KEY] = (parse(data, device.driver_version) if data is not None else None,)
    assert isinstance(found, tuple)
    rates = found[0]
    assert rates is None or isinstance(rates, Rates)
    return rates


def calibrated(device: Device) -> Rates:
    """The stored rates. They are measured now if fewer than three processes have measured them."""
    found = kept(device)
    if found is not None and (_DONE in device.facts or _times(device) >= _TIMES):
        return found
    return calibrate(device)


def calibrate(device: Device) -> Rates:
    """Measure the rates of a device, combine them with the stored ones, and store the result.

    This takes less than a second once the micro-kernels are built. Cached choices are dropped, because they were made
    without these rates. If the folder cannot be written, one line is logged.
    """
    rates, before = measured(device), kept(device)
    device.facts.pop(_KEY, None)  # read the file again: other processes may have written it
    for known in (before, kept(device)):
        rates = rates if known is None else best_of(rates, known)
    times = _times(device)
    atomic_write(path_of(device), dump(rates, device.driver_version, times + 1))
    device.facts[_KEY] = (rates,)
    device.facts[_DONE] = True
    forget()
    return rates


def _times(device: Device) -> int:
    """The number of measurements combined in the stored file; 0 if there is no file."""
    data = read(path_of(device)) if kept(device) is not None else None
    try:
        return max(1, int(json.loads(data)["times"])) if data is not None else 0
    except (ValueError, KeyError, TypeError, OverflowError):  # the count is missing or not a number
        return 1


def dump(rates: Rates, driver: str, times: int = 1) -> bytes:
    """The bytes of a calibration file."""
    record: dict[str, Any] = {"schema": SCHEMA, "driver": driver, "rates": rates.as_dict(), "times": times}
    return (json.dumps({**record, "sum": _checksum(record)}, indent=1, sort_keys=True) + "\n").encode()


def parse(data: bytes, driver: str) -> Rates | None:
    """The rates in a file's bytes. For a damaged file or another driver, log one line and return None."""
    try:
        record = json.loads(data)
        found = record.pop("sum")
        if record["schema"] != SCHEMA or record["driver"] != driver or found != _checksum(record):
            log_once("a stored calibration has another driver or format, or is damaged; it is not used")
            return None
        return from_dict(record["rates"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log_once(f"a stored calibration cannot be read ({type(error).__name__}); it is not used")
        return None


def _checksum(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
