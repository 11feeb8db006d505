"""Stage (a): the installation, the device as the driver describes it, and the profile that pydp derives."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
from typing import Any

import numpy as np

from pydp.verify.check import Check, Context, NotApplicable

_PEERS = (
    "torch", "cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy-rocm-7-0", "cupy-rocm-5-0",
)  # fmt: skip
_PACKAGES = (
    "numpy", "pyopencl", "mako", "numba", *_PEERS, "cuda-python", "cuda-bindings", "intel-opencl-rt",
    "pocl-binary-distribution",
)  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of Python, the system, and the installed packages that matter."""
    return {"python": platform.python_version(), "system": platform.platform(), **_installed(_PACKAGES)}


def peers() -> list[str]:
    """The installed packages that stage (e) compares with, with their versions. Stage (a) lists them, too."""
    return [f"{package} {version}" for package, version in _installed(_PEERS).items()]


def _installed(packages: tuple[str, ...]) -> dict[str, str]:
    import importlib.metadata as metadata

    found = {}
    for package in packages:
        with contextlib.suppress(Exception):  # a package that is missing or has damaged metadata
            found[package] = metadata.version(package)
    return found


def _versions(context: Context) -> dict[str, Any]:
    processor = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    return {"versions": versions(), **processor}


def doctor(only: Any = None) -> list[str]:
    """The findings of `pydp doctor`, on all devices or on one."""
    from pydp.runtime.drivers.doctor import examine

    return [f"{one.level}: {one.text}" for one in examine(only)]


def _doctor(context: Context) -> dict[str, Any]:
    if context.pack is not None:
        raise NotApplicable("the pack needs no OpenCL")
    return {"doctor": doctor(context.device)}


def _driver(context: Context) -> dict[str, Any]:
    if context.pack is not None:
        return dict(context.device.facts())
    return properties(context.device.cl)


def properties(device: Any) -> dict[str, Any]:
    """Every property that a driver reports of its device; a property whose query fails is left out."""
    import pyopencl as cl

    found = {}
    for name in dir(cl.device_info):
        if name.isupper() and not name.startswith("_"):
            try:
                found[name] = _plain(device.get_info(getattr(cl.device_info, name)))
            except Exception:  # drivers answer unknown queries with different errors
                continue
    return {**found, "platform": device.platform.name, "platform version": device.platform.version}


def _profile(context: Context) -> dict[str, Any]:
    if context.pack is not None:
        raise NotApplicable("the kernels were compiled for the profile of the pack's target")
    profile = context.device.profile
    values = {field.name: _plain(getattr(profile, field.name)) for field in dataclasses.fields(profile)}
    quirks = [f"{row.driver} {row.versions}: {row.symptom}" for row in context.device.quirks.rows]
    return {**values, "quirks": quirks}


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value.strip(" \0") if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "items"):
        return {str(key): _plain(one) for key, one in value.items()}
    return str(value)


CHECKS = (
    Check("profile", _profile),
    Check("driver", _driver),
    Check("versions", _versions, depends_on=peers),
    Check("doctor", _doctor),
)
