"""The profile of a device: the properties that algorithms and parameters are chosen by, queried once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydp.runtime.device import host_cpu
from pydp.runtime.device.quirks import Quirks, version_of

_FMA, _DENORMALS, _ROUNDED_DIVIDE = 1 << 5, 1, 1 << 7  # bits of CL_DEVICE_SINGLE_FP_CONFIG
_SMALL_L2 = 512 << 10  # bytes; nearly every GPU has at least this much
_FINE_GRAIN_BUFFERS = 1 << 1  # bit of CL_DEVICE_SVM_CAPABILITIES


@dataclass(frozen=True)
class Profile:
    """The sizes and abilities of a device. Sizes are in bytes; ``sources`` names the origin of each value.

    direct_host_memory: kernels use the host memory of an in-place buffer itself, so its elements are complete when the
    kernel is, without a map. tensor_cores: ten times NVIDIA's compute capability, from 80 on; 0 without tensor cores
    that kernels can use. amd_cpu: the device is a processor of AMD.
    """

    kind: str
    mapping: str
    compute_units: int
    max_group_size: int
    max_item_sizes: tuple[int, ...]
    local_bytes: int
    global_bytes: int
    max_allocation: int
    cache_line: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    l1_ways: int
    l2_ways: int
    simd_bytes: int
    vector_registers: int
    subgroup_sizes: tuple[int, ...]
    lockstep: int
    banks: int
    bank_bytes: int
    fp16: bool
    fp64: bool
    denormals: bool
    int64_atomics: bool
    shares_host_memory: bool
    group_progress: bool
    loop_limit: int | None
    fma_fast: bool
    cl_c_version: tuple[int, int]
    build_options: tuple[str, ...]
    barriers_under_conditions: bool
    unaligned_records: bool
    is_simulator: bool
    extensions: frozenset[str] = field(repr=False)
    direct_host_memory: bool = False
    tensor_cores: int = 0
    amd_cpu: bool = False
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def most_private_bytes(self) -> int:
        """Bytes of private arrays that a kernel may have. CPUs hold them on the stack of a thread. NVIDIA's driver
        reserves them for all work-items that can run at once: a quarter of a million on an H200."""
        return 1 << 14 if self.kind == "gpu" else 1 << 19

    @property
    def prefetches(self) -> bool:
        """Whether kernels use clang's __builtin_prefetch. A processor's own prefetching ends at each page of 4 KB, and
        the first loads from the next page wait for memory. Oclgrind does not know the built-in."""
        return self.kind == "cpu" and self.loop_limit is None and not self.is_simulator

    @property
    def prefetches_beside_work(self) -> bool:
        """Whether reductions that run several instructions for each vector use prefetches.

        Measured on AMD's Zen 4: with prefetches, maxima and `top_k` took 1.1 to 1.3 times as long and variances up to
        1.1 times, but sums less. Other processors keep them; the two forms were compared on Zen 4 only.
        """
        return self.prefetches and not self.amd_cpu

    @property
    def nontemporal_bytes(self) -> int | None:
        """Results of more bytes are stored past the caches (nontemporal stores); None if the device has no such stores.

        They do not read the overwritten cache lines first, but write to memory even what the caches would hold.
        """
        if self.kind != "cpu" or self.is_simulator or self.loop_limit is not None:
            return None
        return max(2 * self.l2_bytes * self.compute_units, 1 << 23)

    def stores_nontemporal(self, nbytes: int) -> bool:
        """Whether results of so many bytes are stored past the caches, unless they overwrite what is read."""
        return self.nontemporal_bytes is not None and nbytes > self.nontemporal_bytes


class _Reader:
    """Collects the values of a profile and the origin of each."""

    def __init__(self, cl_device: Any, quirks: Quirks) -> None:
        self.device = cl_device
        self.quirks = quirks
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}

    def put(self, name: str, value: Any, source: str) -> Any:
        self.values[name] = value
        self.sources[name] = self.quirks.reasons.get(name, source)
        return value

    def ask(self, name: str, default: Any) -> Any:
        """Query a device property by its lower-case pyopencl name; returns `default` if the driver lacks it."""
        import pyopencl as cl

        try:
            return getattr(self.device, name)
        except (cl.Error, AttributeError):
            return default

    def query(self, name: str, info: str, default: Any, convert: Callable[[Any], Any] = int) -> Any:
        """Query `info` and store the result as `name`."""
        return self.put(name, convert(self.ask(info, default)), f"driver: {info}")


def read_profile(cl_device: Any, kind: str, quirks: Quirks) -> Profile:
    """The profile of a pyopencl device. For a CPU, the cache sizes are read from the host."""
    reader = _Reader(cl_device, quirks)
    reader.put("kind", kind, "driver: type")
    reader.put("mapping", "vector" if kind == "cpu" else "simt", f"kind is {kind}")
    reader.put("amd_cpu", kind == "cpu" and host_cpu.is_amd(), "host: processor")
    _sizes(reader, kind)
    _caches(reader, kind)
    _vectors(reader, kind)
    _abilities(reader, kind)
    return Profile(**reader.values, sources=reader.sources)


def _sizes(reader: _Reader, kind: str) -> None:
    units = int(reader.ask("max_compute_units", 1))
    if kind == "cpu" and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < units:
        reader.put("compute_units", len(os.sched_getaffinity(0)), f"CPUs available to this process (driver: {units})")
    else:
        reader.put("compute_units", max(1, units), "driver: max_compute_units")
    reader.query("max_group_size", "max_work_group_size", 1)
    reader.query("max_item_sizes", "max_work_item_sizes", [1, 1, 1], tuple)
    reader.query("local_bytes", "local_mem_size", 0)
    reader.query("global_bytes", "global_mem_size", 0)
    reader.query("max_allocation", "max_mem_alloc_size", 0)


def _caches(reader: _Reader, kind: str) -> None:
    host = host_cpu.caches() if kind == "cpu" else {}
    line = int(reader.ask("global_mem_cacheline_size", 0))
    reader.put("cache_line", line or 64 if kind == "cpu" else line or 128, "driver" if line else "common size")
    if kind == "cpu":
        for level, default in ((1, 32 << 10), (2, 512 << 10), (3, 8 << 20)):
            known = host.get(level)
            reader.put(f"l{level}_bytes", known or default, "host: sysfs" if known else "common size")
        for level in (1, 2):
            ways = host_cpu.ways().get(level)
            reader.put(f"l{level}_ways", ways or 8, "host: sysfs" if ways else "common number")
        return
    reader.put("l1_bytes", 32 << 10, "common size; OpenCL has no query")
    # Some drivers report no cache, others the cache of one compute unit.
    reported = int(reader.ask("global_mem_cache_size", 0))
    source = "driver: global_mem_cache_size" if reported >= _SMALL_L2 else "common size"
    reader.put("l2_bytes", max(reported, _SMALL_L2), source)
    reader.put("l3_bytes", 0, "GPUs have no L3 cache")
    for level in (1, 2):
        reader.put(f"l{level}_ways", 8, "common number; OpenCL has no query")


def _vectors(reader: _Reader, kind: str) -> None:
    quirks = reader.quirks
    width = 4 * int(reader.ask("native_vector_width_float", 1) or 1)
    if quirks.simd_bytes is not None:
        simd = quirks.simd_bytes
        reader.put("simd_bytes", simd, "table")
    elif kind == "cpu":
        host = host_cpu.simd_bytes()
        simd = max(16, min(64, width)) if width > 4 else host
        reader.put("simd_bytes", simd, "driver: native_vector_width_float" if width > 4 else "host: processor flags")
    else:
        simd = 16
        reader.put("simd_bytes", simd, "widest single access of common GPUs")
    if kind == "cpu":
        wide = simd == 64 or host_cpu.is_arm()
        reader.put("vector_registers", 32 if wide else 16, "instruction set of the vector width")
    else:
        reader.put("vector_registers", 255 if quirks.driver == "nvidia" else 128, "table, by driver")
    fast = quirks.fma_fast
    if fast is None:
        fast = host_cpu.has_fma() if kind == "cpu" else bool(int(reader.ask("single_fp_config", 0)) & _FMA)
    reader.put("fma_fast", fast, "host: processor flags" if kind == "cpu" else "driver: single_fp_config")


def _abilities(reader: _Reader, kind: str) -> None:
    quirks = reader.quirks
    extensions = reader.put("extensions", frozenset(str(reader.ask("extensions", "")).split()), "driver")
    reader.put("cl_c_version", _c_version(reader), "driver: OpenCL C versions")
    config = int(reader.ask("single_fp_config", 0))
    reader.put("fp16", "cl_khr_fp16" in extensions, "driver: extensions")
    reader.put("fp64", "cl_khr_fp64" in extensions or bool(reader.ask("double_fp_config", 0)), "driver: extensions")
    reader.put("denormals", bool(config & _DENORMALS), "driver: single_fp_config")
    both = {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"} <= extensions
    reader.put("int64_atomics", both, "driver: extensions")
    shares = bool(reader.ask("host_unified_memory", 0)) and not quirks.is_simulator
    reader.put("shares_host_memory", shares, "driver: host_unified_memory")
    # PoCL's devices on other machines have only coarse-grained memory.
    direct = shares and quirks.direct_host_memory and bool(int(reader.ask("svm_capabilities", 0)) & _FINE_GRAIN_BUFFERS)
    origin = "driver: svm_capabilities" if quirks.direct_host_memory else "results are mapped on this driver"
    reader.put("direct_host_memory", direct, origin)
    reader.put("subgroup_sizes", _subgroup_sizes(reader, extensions), "driver: subgroups")
    reader.put("lockstep", 1, "OpenCL guarantees no lockstep")
    on_gpu = kind != "cpu"
    reader.put("banks", 32 if on_gpu else 1, "common GPU layout" if on_gpu else "a CPU has no banks")
    reader.put("bank_bytes", 4, "common GPU layout" if on_gpu else "a CPU has no banks")
    reader.put("group_progress", quirks.group_progress, "work-groups that have started make progress on this driver")
    reader.put("loop_limit", quirks.loop_limit, "no limit known")
    reader.put("barriers_under_conditions", quirks.barriers_under_conditions, "no fault known")
    reader.put("unaligned_records", quirks.unaligned_records, "no fault known")
    reader.put("is_simulator", quirks.is_simulator, "driver's name")
    capability = 0
    if quirks.driver == "nvidia":
        major, minor = (int(reader.ask(f"compute_capability_{part}_nv", 0)) for part in ("major", "minor"))
        capability = 10 * major + minor
    reader.put("tensor_cores", capability if capability >= 80 else 0, "driver: compute capability")
    rounded = ("-cl-fp32-correctly-rounded-divide-sqrt",) if config & _ROUNDED_DIVIDE else ()
    reader.put("build_options", (*rounded, *quirks.build_options), "driver: single_fp_config")


def _c_version(reader: _Reader) -> tuple[int, int]:
    """The highest OpenCL C version that the driver compiles. OpenCL 3.0 drivers report 1.2 in the older query."""
    found = [(1, 0)]
    text = str(reader.ask("opencl_c_version", "OpenCL C 1.2 ")).split()
    if len(text) > 2 and text[2].count(".") == 1:
        major, minor = text[2].split(".")
        found.append((int(major), int(minor)))
    modern = version_of(str(reader.ask("version", ""))) >= (3, 0)
    for entry in (reader.ask("opencl_c_all_versions", []) or []) if modern else []:
        found.append((int(entry.version) >> 22, (int(entry.version) >> 12) & 0x3FF))
    return max(found)


def _subgroup_sizes(reader: _Reader, extensions: frozenset[str]) -> tuple[int, ...]:
    """The subgroup sizes that a kernel can have or request; () without subgroups."""
    count = int(reader.ask("max_num_sub_groups", 0) or 0)
    if not count and not extensions & {"cl_khr_subgroups", "cl_intel_subgroups"}:
        return ()
    if reader.quirks.subgroup_sizes is not None:
        return reader.quirks.subgroup_sizes
    for name in ("warp_size_nv", "wavefront_width_amd"):
        size = int(reader.ask(name, 0) or 0)
        if size:
            return (size,)
    return ()
