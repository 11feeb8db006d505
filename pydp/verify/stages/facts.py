"""Stage (a): the installation, the device as the driver describes it, and the profile that pydp derives."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
from typing import Any

import numpy as np

from pydp.verify.check import Check, Context, NotApplicable

_MODULES = ("numpy", "pyopencl", "mako", "torch", "cupy", "cuda")


def versions() -> dict[str, str]:
    """The versions of Python, the system, and the installed packages that matter."""
    import importlib.metadata as metadata

    found = {"python": platform.python_version(), "system": platform.platform()}
    known = metadata.packages_distributions()
    for package in dict.fromkeys(package for name in _MODULES for package in known.get(name, ())):
        with contextlib.suppress(Exception):  # a package with damaged metadata
            found[package] = metadata.version(package)
    return found


def _installation(context: Context) -> dict[str, Any]:
    processor = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    if context.pack is not None:
        return {"versions": versions(), **processor}
    from pydp.runtime.drivers.doctor import examine

    return {"versions": versions(), **processor, "doctor": [f"{one.level}: {one.text}" for one in examine()]}


def _driver(context: Context) -> dict[str, Any]:
    """Every property that the driver reports; a property whose query fails is left out."""
    if context.pack is not None:
        return dict(context.device.facts())
    import pyopencl as cl

    device = context.device.cl
    found = {}
    for name in dir(cl.device_info):
        if name.isupper() and not name.startswith("_"):
            try:
                found[name] = _plain(device.get_info(getattr(cl.device_info, name)))
            except Exception:  # drivers answer unknown queries with different errors
                continue
    return {**found, "platform": context.device.platform, "platform version": device.platform.version}


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


CHECKS = (Check("installation", _installation), Check("driver", _driver), Check("profile", _profile))
