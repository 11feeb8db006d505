"""The end of the interpreter: whatever holds objects of pydp, they are released without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_exit import WAYS

from pydp.runtime.drivers.devices import Device

SCRIPT = Path(__file__).with_name("run_exit.py")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
def test_objects_that_are_alive_at_the_end_are_released_silently(way: str, device: Device, tmp_path: Path) -> None:
    if way == "commands_that_never_run" and device.driver == "intel":
        pytest.skip("Intel's runtime crashes if the process ends while commands wait for an event")
    environment = dict(os.environ)
    if way == "pending_builds":  # with no kernel in a cache
        environment |= {"PYDP_CACHE_DIR": str(tmp_path / "cache"), "POCL_CACHE_DIR": str(tmp_path / "pocl")}
        environment["MESA_SHADER_CACHE_DISABLE"] = "1"
    command = [sys.executable, str(SCRIPT), way]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert "pending" not in lines
    assert lines.count("released") == lines.count("watched") > 0
