"""Skips for missing features of devices and drivers. Each has one wording, so a test lane's summary can count it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

_UNORDERED = 1  # CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE


def vector_mapping(device: Any, mapping: str = "vector") -> None:
    """Skip where `mapping` is "vector" and the driver ends long loops: only lanes as work-items run there."""
    if mapping == "vector" and device.profile.loop_limit is not None:
        pytest.skip("the driver ends long loops: user functions run in the mapping simt only")


def endless_loops(device: Any) -> None:
    """Skip where the driver ends a work-item's loops after so many iterations."""
    if device.profile.loop_limit is not None:
        pytest.skip("the driver ends long loops: such loops are refused")


def ended_loops(device: Any) -> None:
    """Skip where the driver runs loops to their end."""
    if device.profile.loop_limit is None:
        pytest.skip("the driver runs long loops to their end: none are refused")


def dtype(device: Any, *names: Any) -> None:
    """Skip where the device cannot calculate with one of these types."""
    for name in names:
        if not has(device, np.dtype(name)):
            real = np.zeros(0, name).real.dtype.name
            pytest.skip(f"the device has no {real}")


def has(device: Any, dtype: np.dtype) -> bool:
    """Whether the device can calculate with a number type."""
    if dtype.kind not in "fc":
        return True
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    return bool({2: device.profile.fp16, 8: device.profile.fp64}.get(size, True))


def int64_atomics(device: Any) -> None:
    """Skip where the device has no atomics of 64 bits."""
    if not device.profile.int64_atomics:
        pytest.skip("the device has no 64-bit atomics")


def out_of_order_queues(device: Any) -> None:
    """Skip where the driver has in-order queues only."""
    if not device.cl.queue_properties & _UNORDERED:
        pytest.skip("the driver has in-order queues only")


def subgroups(device: Any, lanes: int) -> tuple[int, ...]:
    """The sizes of subgroups in groups of so many lanes; skips where there are none."""
    from pydp.groups.barrier import subgroup_sizes

    sizes = subgroup_sizes(device.profile, lanes)
    if not sizes:
        pytest.skip("the device has no subgroups of known layout")
    return sizes


def another_device(device: Any) -> Any:
    """A usable device beside this one; skips where there is none."""
    import pydp

    others = [one for one in pydp.devices() if one.cl != device.cl and one.driver != "oclgrind"]
    if not others:
        pytest.skip("no other device is there")
    return others[0]
