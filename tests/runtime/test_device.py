"""Devices are found, ordered, named, made the default of a block; a profile says where its values come from."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.errors import InvalidArgument, NoUsableDevice
from pydp.runtime.device import host_cpu
from pydp.runtime.device import profile as profiles
from pydp.runtime.device.profile import Profile
from pydp.runtime.device.quirks import quirks_of
from pydp.runtime.drivers import devices as module
from pydp.runtime.drivers import probe
from pydp.runtime.drivers.devices import Device, all_devices, from_context, from_queue


@pytest.fixture
def no_defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No default of an enclosing block and none from the environment."""
    monkeypatch.delenv("PYDP_DEVICE", raising=False)
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    token = module._current.set(None)
    yield monkeypatch
    module._current.reset(token)


def test_devices_are_usable_and_best_first(device: Device) -> None:
    found = pydp.devices()
    assert device in found
    assert all(one.reason is None and one.usable for one in found)
    order = [(one.profile.is_simulator, ("gpu", "accelerator", "cpu").index(one.kind)) for one in found]
    assert order == sorted(order)
    assert found == [one for one in all_devices() if one.usable]


def test_what_a_device_says_of_itself(device: Device) -> None:
    assert device.name and device.vendor and device.platform and device.driver_version
    assert device.kind in ("cpu", "gpu", "accelerator")
    assert device.context.devices == [device.cl]
    assert device.queue.context == device.context
    assert device.queue is device.queue
    assert device.uid == Device(device.cl).uid
    assert device.name in repr(device)


def test_naming_a_device(device: Device) -> None:
    assert pydp.device(device) is device
    assert pydp.device(device.cl) is device
    assert pydp.device(device.driver) is device
    assert pydp.device(device.name.upper()).name == device.name
    assert pydp.device(device.platform[2:9]) in pydp.devices()
    number = pydp.devices().index(device)
    assert pydp.device(number) is device
    assert pydp.device(str(number)) is device
    assert pydp.device(device.kind).kind == device.kind


def test_a_drivers_name_means_the_driver(device: Device) -> None:
    """A PoCL device on an Intel processor has "Intel" in its name."""
    if any(one.driver == "intel" for one in pydp.devices()):
        assert pydp.device("intel").driver == "intel"
    else:
        with pytest.raises(NoUsableDevice):
            pydp.device("intel")


@pytest.mark.parametrize("which", [-1, 99, "no such device", "qualcomm"])
def test_what_is_not_there(which: object, device: Device) -> None:
    with pytest.raises(NoUsableDevice, match=r"no.*device|usable"):
        pydp.device(which)


@pytest.mark.parametrize("which", [True, 1.5, [], np.zeros(2)])
def test_what_names_no_device(which: object, device: Device) -> None:
    with pytest.raises(InvalidArgument, match="is not a device"):
        pydp.device(which)


def test_the_default_follows_the_environment(device: Device, no_defaults: pytest.MonkeyPatch) -> None:
    assert pydp.device() is pydp.devices()[0]
    no_defaults.setenv("PYDP_DEVICE", device.driver)
    assert pydp.device() is device
    no_defaults.setenv("PYOPENCL_CTX", "99")
    assert pydp.device() is device  # PYDP_DEVICE goes first
    no_defaults.setenv("PYDP_DEVICE", "no such device")
    with pytest.raises(NoUsableDevice, match="no such device"):
        pydp.device()


def test_pyopencl_ctx(device: Device, no_defaults: pytest.MonkeyPatch) -> None:
    no_defaults.setenv("PYOPENCL_CTX", device.platform)
    assert pydp.device() is device
    no_defaults.setenv("PYOPENCL_CTX", f"{device.platform}:0")
    assert pydp.device() is device
    no_defaults.setenv("PYOPENCL_CTX", "no such platform")
    with pytest.raises(NoUsableDevice, match="PYOPENCL_CTX"):
        pydp.device()


def test_using_is_per_thread_and_nests(device: Device, no_defaults: pytest.MonkeyPatch) -> None:
    outside = pydp.device()
    seen: list[Device] = []
    with pydp.using(device) as inner:
        assert inner is pydp.device() is device
        thread = threading.Thread(target=lambda: seen.append(pydp.device()))
        thread.start()
        thread.join()
        with pydp.using(outside):
            assert pydp.device() is outside
        assert pydp.device() is device
    assert seen == [outside]
    with pytest.raises(ZeroDivisionError), pydp.using(device):
        raise ZeroDivisionError
    assert pydp.device() is outside


def test_the_callers_own_context_and_queue(device: Device) -> None:
    assert from_queue(device.queue) is device
    context = cl.Context([device.cl])
    foreign = from_queue(cl.CommandQueue(context))
    assert foreign is not device
    assert foreign.context == context
    assert foreign.uid == device.uid
    assert from_context(context, device.cl) is foreign
    assert foreign.usable
    assert foreign.profile is device.profile  # which is without what the probe did not find


def test_the_profile(device: Device) -> None:
    profile = device.profile
    assert profile is device.profile
    assert hash(profile) == hash(dataclasses.replace(profile, sources={}))
    assert {field.name for field in dataclasses.fields(Profile)} - set(profile.sources) == {"sources"}
    assert profile.mapping == ("vector" if device.kind == "cpu" else "simt")
    assert profile.simd_bytes in (16, 32, 64)
    assert profile.compute_units >= 1 and profile.max_group_size >= 1 and profile.local_bytes >= 16384
    assert 0 < profile.max_allocation <= profile.global_bytes
    assert profile.lockstep == 1
    assert profile.l1_bytes > 0
    assert set(profile.subgroup_sizes) <= {4, 8, 16, 32, 64, 128}
    assert profile.cl_c_version >= (1, 2)
    expected = {"pocl": (True, False, None), "intel": (True, True, None), "rusticl": (False, True, 65535)}
    if device.driver in expected:
        assert (profile.fp64, profile.barriers_under_conditions, profile.loop_limit) == expected[device.driver]
    assert profile.is_simulator == (device.driver == "oclgrind")
    assert profile.amd_cpu == (device.kind == "cpu" and host_cpu.is_amd())
    for maker in (False, True):
        made = dataclasses.replace(profile, amd_cpu=maker)
        assert made.prefetches_beside_work == (profile.prefetches and not maker)


@pytest.mark.oclgrind
def test_the_probe_passes_here_and_sees_faults(device: Device) -> None:
    assert probe.run(device)["reason"] is None
    groups, size, profile = 4, 8, device.profile
    rows = np.zeros((groups, size + 2), np.int32)
    for group in range(groups):
        rows[group] = [group, sum(range(group, group + size)), *range(group * size + size - 1, group * size - 1, -1)]
    wide, real = groups * (1 << 33) + 6, 1 / (np.arange(groups) + 3.0)
    assert probe._judge(rows, groups, wide, real, profile) is None
    assert probe._judge(rows[::-1], groups, wide, real, profile) is None
    assert "atomics" in str(probe._judge(rows, groups - 1, wide, real, profile))
    for column, word in ((0, "atomics"), (1, "sum"), (5, "barrier")):
        wrong = rows.copy()
        wrong[2, column] += 1
        assert word in str(probe._judge(wrong, groups, wide, real, profile))
    both = dataclasses.replace(profile, int64_atomics=True, fp64=True)
    assert "64-bit" in str(probe._judge(rows, groups, wide - 1, real, both))
    assert "fp64" in str(probe._judge(rows, groups, wide, real.astype(np.float32), both))


def test_an_untrusted_device_is_listed_with_its_reason_and_not_chosen(
    device: Device, no_defaults: pytest.MonkeyPatch
) -> None:
    no_defaults.setitem(probe._verdicts, device.uid, {"reason": "it was made to fail", "subgroups": []})
    assert device.reason == "it was made to fail"
    assert device in all_devices()
    assert device not in pydp.devices()
    with pytest.raises(NoUsableDevice, match="it was made to fail"):
        pydp.device(device.driver)
    with pytest.raises(NoUsableDevice, match="it was made to fail"):
        pydp.device(device.cl)


def test_verdicts_are_kept_and_failures_are_asked_again(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    path = tmp_path / "probe" / f"{device.uid}.json"
    path.parent.mkdir()

    def kept(**changes: object) -> dict[str, object] | None:
        good = {"version": probe._VERSION, "time": time.time(), "reason": None, "subgroups": []}
        path.write_text(json.dumps({**good, **changes}))
        return probe._from_disk(device)

    assert kept() is not None
    assert kept(reason="broken") is not None
    assert kept(reason="broken", time=time.time() - 2 * 86400) is None
    assert kept(time=time.time() - 200 * 86400) is not None
    assert kept(version=0) is None
    for damaged in (b"", b"{", b"[]", b'{"version": 1}', b"\xff\xfe"):
        path.write_bytes(damaged)
        assert probe._from_disk(device) is None


def test_a_driver_that_ends_the_process_or_hangs_is_not_trusted(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Fake:
        uid, name = "none", "none"

    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(probe, "_COMMAND", script)
    assert "signal 11" in probe._in_process_of_its_own(_Fake())["reason"]  # type: ignore[arg-type]
    monkeypatch.setattr(probe, "_COMMAND", "raise SystemExit('a last line')")
    assert "a last line" in probe._in_process_of_its_own(_Fake())["reason"]  # type: ignore[arg-type]
    monkeypatch.setattr(probe, "_COMMAND", "import time; time.sleep(60)")
    monkeypatch.setattr(probe, "_SECONDS", 0.5)
    assert "did not end" in probe._in_process_of_its_own(_Fake())["reason"]  # type: ignore[arg-type]


@pytest.mark.host
@pytest.mark.parametrize(
    ("platform", "version", "found"),
    [("NVIDIA CUDA", (9, 0), 90), ("NVIDIA CUDA", (12, 1), 121), ("NVIDIA CUDA", (7, 5), 0), ("Another", (9, 0), 0)],
)
def test_tensor_cores_are_those_of_nvidias_driver(platform: str, version: tuple[int, int], found: int) -> None:
    given = SimpleNamespace(compute_capability_major_nv=version[0], compute_capability_minor_nv=version[1])
    reader = profiles._Reader(given, quirks_of(platform, "", "", "gpu"))
    profiles._abilities(reader, "gpu")
    assert reader.values["tensor_cores"] == found


@pytest.mark.host
@pytest.mark.parametrize(("told", "taken"), [(0, 512 << 10), (16 << 10, 512 << 10), (50 << 20, 50 << 20)])
def test_a_gpus_driver_that_tells_of_a_units_cache_is_not_taken_at_its_word(told: int, taken: int) -> None:
    reader = profiles._Reader(SimpleNamespace(global_mem_cache_size=told), quirks_of("", "", "", "gpu"))
    profiles._caches(reader, "gpu")
    assert reader.values["l2_bytes"] == taken
    assert reader.sources["l2_bytes"].startswith("driver" if told == taken else "common")
