"""The kernels of the probe: right on this device, and a driver with a known fault does not pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pydp.runtime.device.quirks import TABLE, quirks_of
from pydp.runtime.drivers import probe
from pydp.runtime.drivers.devices import Device

_WITHOUT_VARIABLE = """
import json, sys
from pydp.runtime.device import quirks
quirks.TABLE = tuple(row for row in quirks.TABLE if sys.argv[1] not in row.sets.get("environment", {}))
from pydp.runtime.drivers import devices, probe
print(json.dumps([probe.run(one)["reason"] for one in devices.all_devices() if one.uid == sys.argv[2]]))
"""


@pytest.mark.oclgrind
def test_this_device_passes(device: Device) -> None:
    assert probe.run(device)["reason"] is None


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("held", "values read before a barrier"),
        ("alone", "run some statements twice"),
        ("probe", "32-bit atomics are wrong"),
    ],
)
def test_a_wrong_value_of_each_kernel_is_seen(device: Device, monkeypatch, kernel: str, reason: str) -> None:
    launch = probe._launch

    def faulty(device, built, *args):
        results = launch(device, built, *args)
        if built.name == kernel:
            results[1 if kernel == "probe" else 0][0] += 1
        return results

    monkeypatch.setattr(probe, "_launch", faulty)
    assert reason in str(probe.run(device)["reason"])


@pytest.mark.host
def test_a_verdict_counts_for_the_variables_that_it_was_found_with(monkeypatch, tmp_path) -> None:
    """A compiler pass that was never probed is not trusted because another one passed."""
    quirks = quirks_of("Portable Computing Language", "cpu", "7.1", "cpu")
    device = SimpleNamespace(uid="one-1", name="one", quirks=quirks)
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(probe, "_in_process_of_its_own", lambda device: {"reason": None, "subgroups": []})
    for kept in ("cbs", None):
        for now in ("cbs", "loopvec", None):
            for value in (kept, now):
                monkeypatch.delenv("POCL_WORK_GROUP_METHOD", raising=False)
                if value is not None:
                    monkeypatch.setenv("POCL_WORK_GROUP_METHOD", value)
                if value is kept:
                    probe._ask(device)
            assert (probe._from_disk(device) is not None) == (now == kept), (kept, now)


_REASONS = {
    "POCL_PREGION_VALUE_REMAT": "values read before a barrier change",
    "POCL_FORCE_PARALLEL_OUTER_LOOP": "work-groups of one work-item run some statements twice",
    "CL_CONFIG_LLVM_OPTIONS": "the maximum of an integer and the complement",
}
_VARIABLES = sorted({name for row in TABLE for name in row.sets.get("environment", {})})


@pytest.mark.parametrize("variable", _VARIABLES)
def test_a_driver_does_not_pass_without_its_variable(device: Device, variable: str, tmp_path) -> None:
    if variable not in device.quirks.environment:
        pytest.skip(f"{device.platform} {device.driver_version} does not need {variable}")
    if variable == "CL_CONFIG_LLVM_OPTIONS" and device.profile.simd_bytes < 64:
        pytest.skip("the driver is wrong on processors with AVX-512 only")
    if os.environ.get("POCL_WORK_GROUP_METHOD") == "cbs" and variable == "POCL_PREGION_VALUE_REMAT":
        pytest.skip("PoCL's method cbs does not repeat loads")
    environment = {**os.environ, "POCL_CACHE_DIR": str(tmp_path)}
    for name in _VARIABLES:
        environment.pop(name, None)
    command = [sys.executable, "-c", _WITHOUT_VARIABLE, variable, device.uid]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    (reason,) = json.loads(done.stdout.splitlines()[-1])
    assert reason is not None and reason.startswith(_REASONS[variable])
