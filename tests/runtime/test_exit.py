"""The end of the interpreter: whatever holds objects of pydp, they are released without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyopencl as cl
import pytest
from run_exit import WAYS

from pydp.runtime.device import completion
from pydp.runtime.drivers.devices import Device

SCRIPT = Path(__file__).with_name("run_exit.py")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
def test_objects_that_are_alive_at_the_end_are_released_silently(way: str, device: Device, tmp_path: Path) -> None:
    if way == "commands_that_never_run" and device.driver == "intel":
        pytest.skip("Intel's runtime crashes if the process ends while commands wait for an event")
    environment = dict(os.environ)
    if way.startswith("pending_builds"):  # with no kernel in a cache
        environment |= {"PYDP_CACHE_DIR": str(tmp_path / "cache"), "POCL_CACHE_DIR": str(tmp_path / "pocl")}
        environment["MESA_SHADER_CACHE_DISABLE"] = "1"
    command = [sys.executable, str(SCRIPT), way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "pending" not in lines
    assert lines.count("released") == lines.count("watched") > 0


@pytest.mark.parametrize("computes, least, most", [(False, 3, 4), (True, 60, 61)])
def test_commands_that_never_run_are_not_waited_for_long(
    device: Device, monkeypatch: pytest.MonkeyPatch, computes: bool, least: float, most: float
) -> None:
    """By a clock of the test's own: 3 seconds if nothing computes, 60 if something else does."""
    if device.kind != "cpu":
        pytest.skip("only commands of CPUs are waited for")
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now)
    clock.process_time, clock.thread_time = lambda: now * (2 if computes else 1), lambda: now
    monkeypatch.setattr(completion, "time", clock)
    monkeypatch.setattr(completion, "_watched", set())
    queue, gate = cl.CommandQueue(device.context, device.cl), cl.UserEvent(device.context)
    completion.complete_at_exit(queue)
    try:
        cl.enqueue_marker(queue, wait_for=[gate])
        completion._complete()
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    assert least <= now < most
    queue.finish()
