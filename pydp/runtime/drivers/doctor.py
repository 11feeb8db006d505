"""The checks of ``pydp doctor``: the ICD loader, the drivers, the devices, the cache, and drivers to install."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydp.errors import NoUsableDevice
from pydp.runtime.drivers import find as drivers
from pydp.runtime.drivers import probe
from pydp.runtime.drivers.devices import Device, all_devices, default_device
from pydp.runtime.forks import proc_text
from pydp.runtime.programs.files import atomic_write, cache_dir, untrusted

_VARIABLES = (
    "PYDP_DEVICE",
    "PYDP_CACHE_DIR",
    "PYOPENCL_CTX",
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",
    "RUSTICL_ENABLE",
    "POCL_CACHE_DIR",
    "POCL_WORK_GROUP_METHOD",
    "POCL_MAX_PTHREAD_COUNT",
    "LD_PRELOAD",
)


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``level`` is "good", "note", "bad", or "fail" if calls without ``device=`` will fail."""

    level: str
    text: str


def examine(only: Device | None = None) -> list[Finding]:
    """All findings, in order. Every device is probed again; with `only`, that device alone, and no other is probed."""
    return [*_software(), *_vendors(), *(_devices() if only is None else _device(only)), *_cache()]


def _software() -> Iterator[Finding]:
    import mako
    import numpy
    import pyopencl

    import pydp

    yield Finding("note", f"pydp {pydp.__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield Finding("note", f"NumPy {numpy.__version__}, pyopencl {pyopencl.VERSION_TEXT}, Mako {mako.__version__}")
    yield Finding("note", f"ICD loader: {_loader() or 'not found among the mapped libraries'}")
    for name in _VARIABLES:
        if name in os.environ:
            yield Finding("note", f"{name}={os.environ[name]}")


def _loader() -> str | None:
    """The path of the OpenCL library that this process has loaded."""
    drivers.raw_devices()
    paths = {line.split()[-1] for line in proc_text("maps").splitlines() if "libOpenCL" in line}
    return ", ".join(sorted(paths)) or None


def _vendors() -> Iterator[Finding]:
    own = drivers.loader_variable()
    if own is not None:
        yield Finding("note", f"{own} is set: the loader sees only the drivers that it names")
        return
    files = drivers.vendor_files()
    if not files:
        yield Finding("bad", "no OpenCL driver is installed, neither in /etc/OpenCL/vendors nor by pip")
    for name, library in sorted(files.items()):
        try:
            ctypes.CDLL(library)
        except OSError as error:
            yield Finding("bad", f"driver {name}: {library} cannot be loaded: {error}")
        else:
            yield Finding("good", f"driver {name}: {library}")


def _devices() -> Iterator[Finding]:
    known = all_devices()
    present = {one.driver for one in known}
    reasons = {one: probe.ask_again(one) for one in known}
    for one, reason in reasons.items():
        yield from _judged(one, reason)
    yield _default(reasons)
    if "rusticl" not in present and "RUSTICL_ENABLE" not in os.environ and _names("usticl"):
        yield Finding("note", "rusticl is installed but shows no device; set RUSTICL_ENABLE=llvmpipe")
    if "intel" not in present and platform.machine() == "x86_64":
        yield Finding("note", "Intel's CPU runtime is not installed: pip install intel-opencl-rt intel-cmplr-lib-rt")
    if "oclgrind" not in present:
        there = "is installed: set PYDP_DEVICE=oclgrind to use it" if shutil.which("oclgrind") else "is not installed"
        yield Finding("note", f"Oclgrind, a simulator that detects data races, {there}")


def _device(only: Device) -> Iterator[Finding]:
    for one in all_devices():
        if one is only:
            yield from _judged(one, probe.ask_again(one))
        else:
            yield Finding("note", f"not probed: {_where(one)}")


def _judged(one: Device, reason: str | None) -> Iterator[Finding]:
    if reason:
        yield Finding("bad", f"not used: {_where(one)}: {reason}")
    else:
        yield Finding("good", f"usable: {_where(one)}")
        yield from _remarks(one)


def _where(one: Device) -> str:
    return f"{one.name} ({one.kind}) on {one.platform} {one.driver_version}"


def _default(reasons: dict[Device, str | None]) -> Finding:
    """The default device (PYDP_DEVICE or PYOPENCL_CTX may select it), or why it cannot be used.

    reasons: maps each device to the reason why it cannot be used, or None.
    """
    if all(reasons.values()):
        return Finding("fail", "no device can be used; " + _cure())
    variable = next((name for name in ("PYDP_DEVICE", "PYOPENCL_CTX") if os.environ.get(name)), None)
    chosen_by = f"{variable}={os.environ[variable]}" if variable else "the best one"
    try:
        found = default_device()
        why = reasons.get(found)
    except NoUsableDevice as error:
        why = str(error)
    if why is not None:
        return Finding("fail", f"the default device ({chosen_by}) cannot be used: {why}")
    return Finding("good", f"default device ({chosen_by}): {found.name} on {found.platform}")


def _names(part: str) -> bool:
    return any(part in library for library in drivers.vendor_files().values())


def _remarks(one: Device) -> Iterator[Finding]:
    for row in one.quirks.rows:
        fields = ", ".join(map(_setting, sorted(row.sets.items()))) or "all kernels avoid it"
        yield Finding("note", f"    {row.driver} {row.versions}: {row.symptom} ({fields})")


def _setting(item: tuple[str, Any]) -> str:
    """One field that a quirk sets. Environment variables are shown with values because they replace the user's."""
    name, value = item
    return ", ".join(f"{key}={one}" for key, one in value.items()) if name == "environment" else name


def _cure() -> str:
    if sys.platform.startswith("linux"):
        pip = "pip install intel-opencl-rt intel-cmplr-lib-rt, " if platform.machine() == "x86_64" else ""
        return f"install one: {pip}apt install pocl-opencl-icd, or the driver of your GPU's vendor"
    return "install the OpenCL driver of your processor's or GPU's vendor"


def _cache() -> Iterator[Finding]:
    folder = cache_dir()
    for path, why in untrusted():
        yield Finding("note", f"{path} is not read: {why}")
    if not atomic_write(folder / "written-by-doctor", b"pydp\n"):
        yield Finding("note", f"the cache folder {folder} is not writable; every process builds its kernels again")
        return
    (folder / "written-by-doctor").unlink(missing_ok=True)
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another process may rename or remove it
            size += path.stat().st_size if path.is_file() else 0
    yield Finding("good", f"cache folder {folder}: {size / (1 << 20):.1f} MiB")
