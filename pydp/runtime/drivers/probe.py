"""The probe: a device is used only after small kernels computed correct results on it.

Some drivers list a device but fail every build on it, or run barriers incorrectly. Such a driver may also crash or
hang, so the probe runs in a separate process. The result is stored on disk per device, driver version and
``Quirks.probed_variables``; a failure expires after one day. Simulators are probed in this process because they write
one log file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.errors import PydpError
from pydp.runtime.drivers.interpreter import answers
from pydp.runtime.forks import fork_safe, raise_if_lost
from pydp.runtime.programs.files import atomic_write, cache_dir, log_once, read
from pydp.runtime.programs.program import kernel

if TYPE_CHECKING:
    from pydp.runtime.device.core import DeviceCore

_VERSION = 3  # version of the probe; a new version probes every device again
_SECONDS = 120.0
_COMMAND = "from pydp.runtime.drivers.probe_process import main; main()"
_FAILURE_KEPT_SECONDS = 86400
_GROUPS = 96
_lock = fork_safe(threading.RLock())
_verdicts: dict[str, dict[str, Any]] = {}


def verdict(device: DeviceCore) -> str | None:
    """Why `device` cannot be used, in one sentence, or None; determined once per process and device."""
    found = _verdicts.get(device.uid)
    if found is None:
        with _lock:
            found = _verdicts.get(device.uid)
            if found is None:
                found = _verdicts[device.uid] = _from_disk(device) or _ask(device)
    _apply(device, found)
    return found["reason"]


def ask_again(device: DeviceCore) -> str | None:
    """Probe `device` again and store the new result."""
    with _lock:
        _verdicts[device.uid] = _ask(device)
    return verdict(device)


def _apply(device: DeviceCore, found: dict[str, Any]) -> None:
    """Remove features from the profile that the driver reports but that failed the probe."""
    profile = device.profile
    trusted = tuple(size for size in profile.subgroup_sizes if size in found["subgroups"])
    if trusted != profile.subgroup_sizes:
        sources = {**profile.sources, "subgroup_sizes": "probe: other sizes are not laid out by local id"}
        device._profile = dataclasses.replace(profile, subgroup_sizes=trusted, sources=sources)


def _from_disk(device: DeviceCore) -> dict[str, Any] | None:
    data = read(_path(device))
    if data is None:
        return None
    try:
        kept = json.loads(data)
        fresh = kept["reason"] is None or time.time() - kept["time"] < _FAILURE_KEPT_SECONDS
        current = kept["version"] == _VERSION and kept.get("variables", {}) == _variables(device)
        return kept if current and fresh and isinstance(kept["subgroups"], list) else None
    except (ValueError, KeyError, TypeError):
        log_once(f"{_path(device)} is damaged; {device.name} is probed again")
        return None


def _variables(device: DeviceCore) -> dict[str, str]:
    """The environment variables that change the driver's compiler, with their values."""
    return {name: os.environ[name] for name in device.quirks.probed_variables if name in os.environ}


def _path(device: DeviceCore) -> Any:
    return cache_dir() / "probe" / f"{device.uid}.json"


def _ask(device: DeviceCore) -> dict[str, Any]:
    raise_if_lost()  # before the probe: a fork must not be stored as a failure of the device
    separate = not device.quirks.is_simulator and bool(sys.executable)
    found = _in_process_of_its_own(device) if separate else run(device)
    asked = {"version": _VERSION, "time": time.time(), "device": device.name, "variables": _variables(device)}
    found = {**asked, **found}
    atomic_write(_path(device), json.dumps(found).encode())
    return found


def _in_process_of_its_own(device: DeviceCore) -> dict[str, Any]:
    try:
        found, fault = answers(_SECONDS, _COMMAND, device.uid)
    except OSError as error:
        log_once(f"cannot start a process for the probe ({error}); running it in this process")
        return run(device)
    return dict(found[0]) if found else {"reason": f"the probe {fault}", "subgroups": []}


def run(device: DeviceCore) -> dict[str, Any]:
    """Probe `device` in this process: {"reason": text or None, "subgroups": the subgroup sizes that work}."""
    import pyopencl as cl

    try:
        reason = _group_probe(device)
    except (cl.Error, PydpError) as error:
        reason = f"the probe failed to run: {str(error).splitlines()[0]}"
    sizes: list[int] = []
    if reason is None and device.profile.subgroup_sizes:
        try:
            sizes = _subgroup_probe(device)
        except (cl.Error, PydpError):
            sizes = []
    return {"reason": reason, "subgroups": sizes}


def _params(device: DeviceCore, mode: str, size: int, **more: object) -> dict[str, object]:
    profile = device.profile
    plain = {"mode": mode, "size": size, "int64": profile.int64_atomics, "fp64": profile.fp64}
    return {**plain, "sizes": [], "attribute": "", "cl_std": "CL1.2", **more}


def _group_probe(device: DeviceCore) -> str | None:
    profile = device.profile
    size = 1 << (min(64, profile.max_group_size).bit_length() - 1)
    probe = kernel(device, "probe.mako", "probe", _params(device, "group", size))
    rows, ticket, wide, real = _launch(
        device,
        probe,
        (_GROUPS * size,),
        (size,),
        np.zeros(_GROUPS * (size + 2), np.int32),
        np.zeros(1, np.int32),
        np.zeros(1, np.uint64),
        np.zeros(_GROUPS, np.float64),
    )
    wrong = _judge(rows.reshape(_GROUPS, size + 2), int(ticket[0]), int(wide[0]), real, profile)
    return wrong or _held_probe(device, size) or _alone_probe(device, size) or _complement_probe(device, size)


def _held_probe(device: DeviceCore, size: int) -> str | None:
    """Check that private values survive a barrier after which their source is overwritten."""
    held = kernel(device, "probe.mako", "held", _params(device, "group", size))
    (got,) = _launch(device, held, (_GROUPS * size,), (size,), np.zeros(_GROUPS * size, np.int32))
    expected = np.arange(_GROUPS)[:, None] + np.arange(size)[::-1]
    if not np.array_equal(got.reshape(_GROUPS, size), expected):
        return "values read before a barrier change when their source is overwritten after it"
    return None


def _alone_probe(device: DeviceCore, size: int) -> str | None:
    """Check that work-groups of one work-item run each statement once, in both branches of a condition."""
    alone = kernel(device, "probe.mako", "alone", _params(device, "group", size))
    steps, skipping = 5, _GROUPS // 2
    counts = np.zeros(_GROUPS, np.int32)
    (got,) = _launch(device, alone, (_GROUPS,), (1,), counts, np.int32(steps), np.int32(skipping))
    expected = np.arange(_GROUPS)
    for step in range(steps):
        expected = expected % 7 * 3 + step
    expected[:skipping] = 1
    if not np.array_equal(got, expected + 2):
        return "work-groups of one work-item run some statements twice"
    return None


def _complement_probe(device: DeviceCore, size: int) -> str | None:
    """Check the maximum of a number and a complement in scalar code."""
    complements = kernel(device, "probe.mako", "complements", _params(device, "group", size))
    values = np.arange(_GROUPS, dtype=np.int32) - 20
    others = values[::-1] * np.int32(3)
    got, _ = _launch(device, complements, (_GROUPS,), (1,), values, others.copy())
    if not np.array_equal(got, np.maximum(values, ~others)):
        return "the maximum of an integer and the complement of another one is wrong"
    return None


def _judge(rows: np.ndarray, ticket: int, wide: int, real: np.ndarray, profile: Any) -> str | None:
    groups, size = rows.shape[0], rows.shape[1] - 2
    if ticket != groups or sorted(rows[:, 0].tolist()) != list(range(groups)):
        return f"32-bit atomics are wrong: {groups} work-groups counted {ticket}"
    for row in rows.tolist():
        group = row[0]
        if row[2:] != [group * size + size - 1 - lane for lane in range(size)]:
            return "a barrier does not order local memory: values exchanged through it are wrong"
        if row[1] != sum(group + lane for lane in range(size)):
            return "barriers in a loop are wrong: a sum in local memory is incorrect"
    if profile.int64_atomics and wide != groups * (1 << 33) + sum(range(groups)):
        return "64-bit atomics are reported as supported, but give wrong results"
    if profile.fp64 and not np.allclose(real, [1.0 / (group + 3) for group in range(groups)], rtol=1e-15, atol=0):
        return "fp64 is reported as supported, but gives wrong results"
    return None


def _launch(
    device: DeviceCore,
    probe: Any,
    global_size: tuple[int, ...],
    local_size: tuple[int, ...],
    *args: np.ndarray | np.generic,
) -> list[np.ndarray]:
    """Run a kernel; arrays in `args` are passed as buffers and returned with their final contents."""
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    buffers = [cl.Buffer(device.context, flags, hostbuf=array) for array in arrays]
    given = iter(buffers)
    probe.enqueue(
        device.queue, global_size, local_size, [next(given) if isinstance(arg, np.ndarray) else arg for arg in args]
    )
    results = [np.empty_like(array) for array in arrays]
    for result, buffer in zip(results, buffers, strict=True):
        cl.enqueue_copy(device.queue, result, buffer)
    return results


def _subgroup_probe(device: DeviceCore) -> list[int]:
    profile = device.profile
    chosen = "cl_intel_required_subgroup_size" in profile.extensions
    group = 1 << (min(128, profile.max_group_size).bit_length() - 1)
    params = _params(
        device,
        "subgroup",
        group,
        int64=False,
        fp64=False,
        sizes=list(profile.subgroup_sizes),
        attribute="__attribute__((intel_reqd_sub_group_size(N)))" if chosen else "",
        cl_std="CL3.0" if profile.cl_c_version >= (3, 0) else "CL1.2",
    )
    right = []
    for size in profile.subgroup_sizes:
        layout = kernel(device, "probe.mako", f"layout_{size}", params)
        width, wrong = _launch(device, layout, (group,), (group,), np.zeros(1, np.int32), np.zeros(1, np.int32))
        if int(width[0]) == size and int(wrong[0]) == 0:
            right.append(size)
    return right
