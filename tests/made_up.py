"""Profiles of devices that are not there."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydp.runtime.device.profile import Profile

_FIELDS: dict[str, Any] = {item.name: None for item in dataclasses.fields(Profile)}


def profile(*extensions: str, lockstep: int = 1, sizes: tuple[int, ...] = (), **given: Any) -> Profile:
    """A GPU with these extensions, lanes in lockstep and subgroup sizes, and other given properties."""
    known = {
        "kind": "gpu",
        "mapping": "simt",
        "lockstep": lockstep,
        "subgroup_sizes": sizes,
        "extensions": frozenset(extensions),
        "max_group_size": 1024,
        "local_bytes": 49152,
        "int64_atomics": True,
        "barriers_under_conditions": True,
        "cl_c_version": (1, 2),
        "simd_bytes": 16,
        "banks": 32,
        "bank_bytes": 4,
        "tensor_cores": 0,
    }
    return Profile(**{**_FIELDS, **known, **given})
