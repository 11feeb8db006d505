"""Cache sizes and vector instructions of the host processor, for CPU devices."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
_CPUINFO = Path("/proc/cpuinfo")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def caches() -> dict[int, int]:
    """Size in bytes of the data (or unified) cache of each level in sysfs: {1: 49152, 2: ..., 3: ...}."""
    return _listed("size")


@functools.cache
def ways() -> dict[int, int]:
    """Associativity of the same caches: {1: 12, 2: 16, 3: ...}; 0 if sysfs does not know it."""
    return _listed("ways_of_associativity")


def _listed(what: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in sorted(_SYSFS.glob("index*")) if _SYSFS.is_dir() else []:
        try:
            level = int((folder / "level").read_text())
            text = (folder / what).read_text().strip()
            if (folder / "type").read_text().strip() != "Instruction":
                found[level] = int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)
        except (OSError, ValueError):
            continue
    return found


@functools.cache
def flags() -> frozenset[str]:
    """The feature flags in /proc/cpuinfo; empty if the file does not exist."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return frozenset()
    words = next((line.split(":", 1)[1] for line in lines if line.lower().startswith(("flags", "features"))), "")
    return frozenset(words.split())


@functools.cache
def is_amd() -> bool:
    """Whether /proc/cpuinfo names AMD as the maker of the processor."""
    try:
        return "AuthenticAMD" in _CPUINFO.read_text()
    except OSError:
        return False


def is_arm() -> bool:
    """True on 64-bit Arm, which has 32 vector registers of 16 bytes."""
    return platform.machine().lower() in ("aarch64", "arm64")


def simd_bytes() -> int:
    """Width of the widest vector register in bytes: 64 with AVX-512, 32 with AVX, else 16."""
    if "avx512f" in flags():
        return 64
    return 32 if "avx" in flags() else 16


def has_fma() -> bool:
    """True if fused multiply-add is one instruction (all 64-bit Arm; x86 with FMA3)."""
    return is_arm() or "fma" in flags()
