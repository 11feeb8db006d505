"""What is known of particular drivers and cannot be asked of them: every peculiarity in one place.

A quirk is chosen by the driver and its version, never by the machine. Each carries its reason, which
``pydp devices --verbose`` and ``Profile.sources`` show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_DRIVERS = (  # (part of the platform's name, key), first match wins
    ("oclgrind", "oclgrind"),
    ("portable computing language", "pocl"),
    ("rusticl", "rusticl"),
    ("clover", "clover"),
    ("nvidia", "nvidia"),
    ("amd", "amd"),
    ("intel", "intel"),
    ("apple", "apple"),
    ("arm", "arm"),
    ("qualcomm", "qualcomm"),
)
DRIVER_KEYS = frozenset(key for _, key in _DRIVERS)


@dataclass(frozen=True)
class Quirks:
    """The peculiarities of one driver on one device; the defaults are those of a driver without any."""

    driver: str
    version: tuple[int, ...]
    is_simulator: bool = False
    barriers_under_conditions: bool = True
    loop_limit: int | None = None
    fma_fast: bool | None = None
    group_progress: bool = True
    keeps_own_binaries: bool = False
    binaries_usable: bool = True
    subgroup_sizes: tuple[int, ...] | None = None
    simd_bytes: int | None = None
    flush_before_wait: bool = False
    kernel_group_size_known: bool = True
    unaligned_records: bool = True
    build_options: tuple[str, ...] = ()
    rank: int = 50
    notes: tuple[str, ...] = ()  # traps that kernels avoid everywhere, so that no flag is needed
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)


def driver_key(platform_name: str) -> str:
    """The short name of the driver behind an OpenCL platform, ``other`` where it is none of the known."""
    name = platform_name.lower()
    return next((key for part, key in _DRIVERS if part in name), "other")


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version text: ``3.1+debian`` is (3, 1)."""
    match = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def quirks_of(platform_name: str, device_name: str, driver_version: str, kind: str) -> Quirks:
    """The quirks of a device; `kind` is "cpu", "gpu" or "accelerator"."""
    driver = driver_key(platform_name)
    version = version_of(driver_version)
    make = {"pocl": _pocl, "intel": _intel, "rusticl": _rusticl, "oclgrind": _oclgrind, "nvidia": _nvidia, "amd": _amd}
    return make.get(driver, _other)(driver, version, device_name, kind)


def _pocl(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    return Quirks(
        driver,
        version,
        barriers_under_conditions=False,
        keeps_own_binaries=True,
        build_options=("-DKEEP_MASKED_INTEGERS",) if kind == "cpu" else (),
        rank=20,
        notes=(
            "mem_fence is an empty function: groups talk through atomics only",
            "the last, partial group of a range is miscompiled: ranges are padded to whole groups",
            "barriers in loops with 64-bit counters or data-dependent ends are miscompiled",
        ),
        reasons={
            "barriers_under_conditions": "PoCL has miscompiled barriers in non-uniform loops and branches in "
            "several releases",
            "build_options": "LLVM's vectors of loops' rounds read wrong elements where a counter that was multiplied "
            "and masked is an index",
            "keeps_own_binaries": "PoCL keeps built kernels in its own cache",
        },
    )


def _intel(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    return Quirks(
        driver,
        version,
        subgroup_sizes=(8, 16, 32, 64) if kind == "cpu" else (8, 16, 32),
        build_options=(
            ("-DPRIVATE_FIELDS_APART", "-DDIVIDING_LOOPS_AS_WRITTEN", "-DKEEP_QUOTIENTS") if kind == "cpu" else ()
        ),
        rank=10,
        notes=(
            "each built program keeps several megabytes",
            "an out-of-order queue that is released while its commands run hangs a thread: queues are held until then",
            "loops over one-element private arrays of records are miscompiled",
            "unsigned comparisons with a work-item id may be folded wrongly: ids are taken as int or long",
        ),
        reasons={
            "subgroup_sizes": "sizes that intel_reqd_sub_group_size takes on this family",
            "build_options": "private arrays of work-items that run as vectors are read at places that none asked for, "
            "and the compiler ends the process where it makes vectors of the rounds of some loops that divide, or of "
            "work-items in loops inside loops that go on as a quotient has it",
        },
    )


def _rusticl(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    if "llvmpipe" not in device_name.lower():
        return Quirks(driver, version, flush_before_wait=True, rank=30)
    bits = re.search(r"(\d+) bits", device_name)
    return Quirks(
        driver,
        version,
        loop_limit=65535,
        fma_fast=False,
        simd_bytes=int(bits.group(1)) // 8 if bits else 16,
        flush_before_wait=True,
        kernel_group_size_known=False,
        unaligned_records=False,
        build_options=("-DORDER_UNSIGNED", "-DWIDEN_BY_ARITHMETIC"),
        notes=(
            "?: between records ends the process, as does a record that is loaded and not used",
            "division of bytes is wrong: it is done in int",
        ),
        rank=40,
        reasons={
            "loop_limit": "llvmpipe ends all loops of a work-item after 65,535 iterations, silently",
            "fma_fast": "llvmpipe calls a library routine for fma()",
            "simd_bytes": "llvmpipe names its vector width in the device's name",
            "flush_before_wait": "work that another queue waits for is not started without a flush",
            "build_options": "the order of an int that is widened to long and of a constant is taken wrongly, as are "
            "choices between a widened byte or short and a constant",
            "unaligned_records": "records with members off their alignment are lost in private and local variables",
            "kernel_group_size_known": "32 is reported as the largest group of every kernel; the device's holds",
        },
    )


def _oclgrind(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    return Quirks(
        driver,
        version,
        is_simulator=True,
        fma_fast=False,
        simd_bytes=16,
        binaries_usable=False,
        build_options=("-cl-opt-disable",),
        rank=90,
        reasons={
            "fma_fast": "a simulator",
            "simd_bytes": "a simulator",
            "build_options": "its compiler makes instructions (freeze) of a / b with a % b that its checks do not know",
        },
    )


def _nvidia(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    return Quirks(
        driver,
        version,
        keeps_own_binaries=True,
        rank=0,
        reasons={"keeps_own_binaries": "NVIDIA's driver keeps built kernels in its own cache"},
    )


def _amd(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    return Quirks(driver, version, rank=5)


def _other(driver: str, version: tuple[int, ...], device_name: str, kind: str) -> Quirks:
    return Quirks(
        driver,
        version,
        group_progress=False,
        rank=60,
        reasons={"group_progress": "an unknown driver promises no progress between groups"},
    )
