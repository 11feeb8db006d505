"""A small table of architectures: properties that drivers do not report, and devices that are not present.

Figures of a multiprocessor (`sm`: NVIDIA's SM, AMD's compute unit, Intel's Xe core, a CPU's core) come from the
vendors' programming guides. Figures of a whole board (multiprocessors, clock, bandwidth) are those of one common board
of the architecture. They are estimates for choosing; if the device is present, a calibration replaces them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydp.errors import InvalidArgument
from pydp.model.rates import Rates
from pydp.model.structure import Structure
from pydp.runtime.device.profile import Profile

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device

_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Architecture:
    """One architecture and one common board of it.

    name: the compiler's name of the target. vendor: "nvidia", "amd", "intel" or "cpu". warp: work-items that run
    together. registers: 32-bit registers per multiprocessor; registers_per_lane: the most per work-item. local: bytes
    of local memory per multiprocessor; local_per_group: the most per group in OpenCL. warps, blocks: most resident
    warps and groups per multiprocessor. lanes, lanes64: fused multiply-adds of float32 and float64 per cycle and
    multiprocessor. sms, l2, clock, bandwidth: the board's multiprocessors, bytes of last-level cache, Hz, bytes per
    second. latency: seconds of a memory access. note: the board, and the source.
    """

    name: str
    vendor: str
    warp: int
    registers: int
    registers_per_lane: int
    local: int
    local_per_group: int
    warps: int
    blocks: int
    lanes: int
    lanes64: int
    sms: int
    l2: int
    clock: float
    bandwidth: float
    latency: float
    note: str


_CUDA = "CUDA C++ programming guide, compute capabilities"


def _nvidia(
    cc: int, local_kb: int, warps: int, blocks: int, lanes: int, lanes64: int, board: tuple[str, int, float, float, int]
) -> Architecture:
    """board: (its name, SMs, GHz, GB/s, MB of L2). Every SM since Maxwell has 65,536 registers."""
    name, sms, clock, bandwidth, l2 = board
    return Architecture(
        f"sm_{cc}", "nvidia", 32, 65536, 255, local_kb * _KB, 48 * _KB, warps, blocks, lanes, lanes64, sms, l2 * _MB,
        clock * 1e9, bandwidth * 1e9, 500e-9, f"{name}; {_CUDA}",
    )  # fmt: skip


def _amd(
    name: str, warp: int, registers: int, most: int, warps: int, blocks: int, lanes: int, lanes64: int,
    board: tuple[str, int, float, float, int],
) -> Architecture:  # fmt: skip
    label, units, clock, bandwidth, l2 = board
    return Architecture(
        name, "amd", warp, registers, most, 64 * _KB, 64 * _KB, warps, blocks, lanes, lanes64, units, l2 * _MB,
        clock * 1e9, bandwidth * 1e9, 600e-9, f"{label}; AMD's ISA manuals and LLVM's AMDGPU guide",
    )  # fmt: skip


def _xe(name: str, registers: int, warps: int, lanes64: int, board: tuple[str, int, float, float, int]) -> Architecture:
    label, cores, clock, bandwidth, l2 = board
    return Architecture(
        name, "intel", 16, registers, 128, 128 * _KB, 64 * _KB, warps, 64, 128, lanes64, cores, l2 * _MB, clock * 1e9,
        bandwidth * 1e9, 600e-9, f"{label}; Intel's oneAPI GPU optimization guide",
    )  # fmt: skip


def _cpu(name: str, simd: int, registers: int, note: str) -> Architecture:
    """A core with two vector multiply-adds per cycle; `registers` is per work-item."""
    lanes = 2 * simd // 4
    return Architecture(
        name, "cpu", 1, registers * simd // 4, registers * simd // 4, 32 * _KB, 32 * _KB, 1, 1, lanes, lanes // 2, 8,
        16 * _MB, 3e9, 40e9, 90e-9, note,
    )  # fmt: skip


_ALL = (
    _nvidia(50, 64, 64, 32, 128, 4, ("GTX 750 Ti", 5, 1.02, 86, 2)),
    _nvidia(52, 96, 64, 32, 128, 4, ("GTX Titan X", 24, 1.0, 336, 3)),
    _nvidia(60, 64, 64, 32, 64, 32, ("Tesla P100", 56, 1.33, 732, 4)),
    _nvidia(61, 96, 64, 32, 128, 4, ("GTX 1080 Ti", 28, 1.48, 484, 3)),
    _nvidia(70, 96, 64, 32, 64, 32, ("Tesla V100", 80, 1.38, 900, 6)),
    _nvidia(75, 64, 32, 16, 64, 2, ("RTX 2080 Ti", 68, 1.545, 616, 6)),
    _nvidia(80, 164, 64, 32, 64, 32, ("A100", 108, 1.41, 1555, 40)),
    _nvidia(86, 100, 48, 16, 128, 2, ("RTX 3090", 82, 1.695, 936, 6)),
    _nvidia(87, 164, 48, 16, 128, 2, ("Jetson Orin", 16, 1.3, 204, 4)),
    _nvidia(89, 100, 48, 24, 128, 2, ("RTX 4090", 128, 2.52, 1008, 72)),
    _nvidia(90, 228, 64, 32, 128, 64, ("H100 SXM", 132, 1.83, 3350, 50)),
    _nvidia(100, 228, 64, 32, 128, 64, ("B200", 148, 1.85, 8000, 126)),
    _nvidia(120, 100, 48, 24, 128, 2, ("RTX 5090", 170, 2.41, 1792, 96)),
    _amd("gfx803", 64, 65536, 256, 40, 16, 64, 4, ("Radeon RX 580", 36, 1.34, 256, 2)),
    _amd("gfx900", 64, 65536, 256, 40, 16, 64, 4, ("Radeon RX Vega 64", 64, 1.55, 484, 4)),
    _amd("gfx906", 64, 65536, 256, 40, 16, 64, 32, ("Instinct MI50", 60, 1.73, 1024, 4)),
    _amd("gfx908", 64, 131072, 512, 40, 16, 64, 32, ("Instinct MI100", 120, 1.5, 1229, 8)),
    _amd("gfx90a", 64, 131072, 512, 32, 16, 64, 64, ("Instinct MI250X, one die", 110, 1.7, 1638, 8)),
    _amd("gfx942", 64, 131072, 512, 32, 16, 128, 64, ("Instinct MI300X", 304, 2.1, 5300, 4)),
    _amd("gfx1010", 32, 65536, 256, 40, 20, 64, 4, ("Radeon RX 5700 XT", 40, 1.9, 448, 4)),
    _amd("gfx1030", 32, 65536, 256, 32, 16, 64, 4, ("Radeon RX 6900 XT", 80, 2.25, 512, 4)),
    _amd("gfx1100", 32, 98304, 256, 32, 16, 128, 4, ("Radeon RX 7900 XTX", 96, 2.5, 960, 6)),
    _amd("gfx1201", 32, 98304, 256, 32, 16, 128, 4, ("Radeon RX 9070 XT", 64, 2.97, 640, 8)),
    _xe("xe_lp", 114688, 112, 4, ("Iris Xe, 96 execution units", 6, 1.35, 68, 4)),
    _xe("xe_hpg", 131072, 128, 4, ("Arc A770", 32, 2.1, 560, 16)),
    _xe("xe_hpc", 131072, 64, 128, ("Data Center GPU Max 1550, one stack", 64, 1.6, 1640, 204)),
    _xe("xe2", 131072, 64, 8, ("Arc B580", 20, 2.67, 456, 18)),
    _cpu("sse", 16, 16, "a core with 16 registers of 128 bits"),
    _cpu("avx2", 32, 16, "a core with 16 registers of 256 bits"),
    _cpu("avx512", 64, 32, "a core with 32 registers of 512 bits"),
    _cpu("neon", 16, 32, "a 64-bit Arm core with 32 registers of 128 bits"),
)
TABLE = {item.name: item for item in _ALL}


def by_name(name: str) -> Architecture:
    """The table's entry of a target. Raises InvalidArgument with the accepted names for an unknown name."""
    found = TABLE.get(name.lower().split(":")[0])
    if found is None:
        raise InvalidArgument(f"target {name!r} is not known; {', '.join(TABLE)} are accepted")
    return found


def architecture(profile: Profile, name: str = "") -> Architecture:
    """The entry that fits a device best: by a target's name in `name`, else by the profile.

    A profile from :func:`by_target` contains its target's name.
    """
    words = [
        *name.lower().replace(":", " ").split(),
        *profile.sources.get("kind", "").removeprefix("table: ").split()[:1],
    ]
    for word in words:
        found = TABLE.get(word) or _akin(word)
        if found is not None:
            return found
    if profile.kind == "cpu":
        if profile.simd_bytes >= 64:
            return TABLE["avx512"]
        return TABLE["avx2" if profile.simd_bytes >= 32 else "neon" if profile.vector_registers >= 32 else "sse"]
    if profile.vector_registers == 255 or "cl_nv_device_attribute_query" in profile.extensions:
        return TABLE["sm_86"]
    if "cl_amd_device_attribute_query" in profile.extensions:
        return TABLE["gfx1030" if profile.subgroup_sizes == (32,) else "gfx90a"]
    if any(word.startswith("cl_intel") for word in profile.extensions):
        return TABLE["xe_hpg"]
    return TABLE["gfx1030" if profile.subgroup_sizes[:1] == (32,) else "gfx906"]


def _akin(word: str) -> Architecture | None:
    """A similar entry for an AMD target that the table lacks; None for other words.

    It is the first of its series ("gfx90c": gfx900, because gfx90a has twice the registers), else the last of its
    generation.
    """
    if not re.fullmatch(r"gfx\d{1,2}[0-9a-f]{2}", word):
        return None
    generation = [entry for entry in _ALL if entry.name[:-2] == word[:-2]]
    series = [entry for entry in generation if entry.name[:-1] == word[:-1]]
    return next(iter(series or generation[-1:]), None)


def architecture_of(device: Device) -> Architecture:
    """The entry of a device. NVIDIA's drivers report the compute capability, AMD's the target's name."""
    import pyopencl as cl

    try:
        found = f"sm_{device.cl.compute_capability_major_nv}{device.cl.compute_capability_minor_nv}"
    except (cl.Error, AttributeError):
        return architecture(device.profile, device.name)
    if found in TABLE:
        return TABLE[found]
    older = [entry for entry in _ALL if entry.vendor == "nvidia" and int(entry.name[3:]) <= int(found[3:])]
    return older[-1] if older else TABLE["sm_50"]


def structure_of(profile: Profile, entry: Architecture | None = None) -> Structure:
    """Structure parameters (SPEC S5) of a device: from the profile; those that no driver reports, from the table."""
    entry = entry if entry is not None else architecture(profile)
    local = max(entry.local, profile.local_bytes) if entry.vendor != "cpu" else profile.local_bytes
    return Structure(
        warp_size=entry.warp,
        sms=profile.compute_units,
        registers_per_sm=entry.registers,
        local_per_sm=max(local, 1),
        max_warps_per_sm=entry.warps,
        max_active_blocks_per_sm=entry.blocks,
        min_block=entry.warp,
        max_block=max(entry.warp, profile.max_group_size),
        mem_cycle=entry.latency,
        comp_cycle=entry.warp / entry.lanes / entry.clock,
        t_allo=_GROUP_SECONDS[entry.vendor],
    )


# Seconds to start one group on a unit, and to launch a kernel. Common figures; a calibration replaces them.
_GROUP_SECONDS = {"nvidia": 5e-9, "amd": 1e-8, "intel": 2e-8, "cpu": 3e-7}
_LAUNCH_SECONDS = {"nvidia": 5e-6, "amd": 8e-6, "intel": 1e-5, "cpu": 1e-5}


def rates_of(profile: Profile, entry: Architecture | None = None) -> Rates:
    """Estimated rates of a device: units and caches from the profile, the rest from its architecture.

    >>> profile, _ = by_target("sm_80")
    >>> round(rates_of(profile).float32 * 108 / 1e12, 1)
    19.5
    """
    entry = entry if entry is not None else architecture(profile)
    units = profile.compute_units
    cpu = entry.vendor == "cpu"
    # A CPU with few cores gets a desktop's bandwidth, one with many a server's. A GPU gets the board's share per unit.
    bandwidth = max(entry.bandwidth, 8e9 * units) if cpu else entry.bandwidth * units / entry.sms
    rate = 2.0 * entry.lanes * entry.clock
    return Rates(
        units=units,
        float32=rate,
        float64=2.0 * entry.lanes64 * entry.clock,
        integer=rate / 2,
        memory_read=bandwidth,
        memory_write=bandwidth * (0.6 if cpu else 1.0),
        unit_memory=12e9 if cpu else 3 * bandwidth / units,
        unit_cache=(profile.simd_bytes / 2 if cpu else 128) * entry.clock,
        launch=_LAUNCH_SECONDS[entry.vendor],
        group=_GROUP_SECONDS[entry.vendor],
        barrier=5e-9 if cpu else 20 / entry.clock / entry.warp,
        lane_slowdown=8.0 if cpu else 1.0,
        signal=1e-6 if cpu else 1.1 * entry.latency,  # measured on an H200
        source=f"table: {entry.name}",
    )


def by_target(name: str) -> tuple[Profile, Structure]:
    """(profile, structure) of a device that is not present, by its compiler's name: "sm_90", "gfx90a", "xe_hpg".

    Raises InvalidArgument for an unknown name.

    >>> by_target("sm_90")[0].compute_units
    132
    """
    entry = by_name(name)
    profile = _profile(entry)
    return profile, structure_of(profile, entry)


def _profile(entry: Architecture) -> Profile:
    cpu = entry.vendor == "cpu"
    simd = entry.lanes * 2 if cpu else 16
    source = f"table: {entry.name} ({entry.note})"
    memory = 16 * _GB
    extensions = {"nvidia": "cl_nv_device_attribute_query", "amd": "cl_amd_device_attribute_query"}.get(entry.vendor)
    values: dict[str, Any] = {
        "kind": "cpu" if cpu else "gpu", "mapping": "vector" if cpu else "simt", "compute_units": entry.sms,
        "max_group_size": 4096 if cpu else 256 if entry.vendor == "amd" else 1024, "max_item_sizes": (1024, 1024, 64),
        "local_bytes": entry.local_per_group, "global_bytes": memory, "max_allocation": memory // 4,
        "cache_line": 64 if cpu or entry.vendor == "intel" else 128, "l1_bytes": 32 * _KB,
        "l2_bytes": 1 * _MB if cpu else entry.l2, "l3_bytes": entry.l2 if cpu else 0, "l1_ways": 8, "l2_ways": 8,
        "simd_bytes": simd,
        "vector_registers": (32 if entry.name in ("avx512", "neon") else 16) if cpu else entry.registers_per_lane,
        "subgroup_sizes": () if cpu else (8, 16, 32) if entry.vendor == "intel" else (entry.warp,), "lockstep": 1,
        "banks": 1 if cpu else 32, "bank_bytes": 4, "fp16": not cpu, "fp64": True, "denormals": True,
        "int64_atomics": True, "shares_host_memory": cpu, "group_progress": True,
        "loop_limit": None, "fma_fast": True, "cl_c_version": (2, 0) if entry.vendor == "amd" else (1, 2),
        "build_options": (), "barriers_under_conditions": True, "unaligned_records": True, "is_simulator": False,
        "extensions": frozenset([extensions] if extensions else []),
        "tensor_cores": int(entry.name[3:]) if entry.vendor == "nvidia" and int(entry.name[3:]) >= 80 else 0,
    }  # fmt: skip
    return Profile(**values, sources=dict.fromkeys(values, source))
