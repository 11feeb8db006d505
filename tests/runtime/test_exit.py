"""The end of the interpreter: whatever holds objects of pydp, they are released without a word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from run_exit import WAYS

from pydp.runtime.drivers.devices import Device

SCRIPT = Path(__file__).with_name("run_exit.py")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
def test_objects_that_are_alive_at_the_end_are_released_silently(way: str, device: Device) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), way], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("released") == lines.count("watched") > 0
