"""Forked processes: a child of a process that has used OpenCL gets an error, and never waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_forks import WAYS

from pydp.runtime.drivers.devices import Device

SCRIPT = Path(__file__).with_name("run_forks.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("way", WAYS)
def test_a_child_that_is_forked(way: str, device: Device) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), way], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
