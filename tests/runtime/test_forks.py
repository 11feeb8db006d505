"""Forked processes: a child of a process that has used OpenCL gets an error, and never waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_forks import WAYS

from pydp.runtime import forks
from pydp.runtime.drivers.devices import Device

SCRIPT = Path(__file__).with_name("run_forks.py")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list loaded libraries")
@pytest.mark.parametrize("variable", forks.LOADER_VARIABLES)
@pytest.mark.parametrize("form", ["folder", "file", "library", "another first", "version"])
def test_a_loaded_driver_is_found(variable: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl._cl

    library = pyopencl._cl.__file__  # stands for a driver: it is loaded
    (tmp_path / "a.icd").write_text(f"{library}\n")
    others = f"/nowhere/libnone.so{os.pathsep}{library}"
    values = {"folder": tmp_path, "file": tmp_path / "a.icd", "library": library, "another first": others}
    values["version"] = f"{library}.1"  # a link to a file with another version number
    monkeypatch.setattr(forks, "VENDORS", tmp_path / "none")
    for name in forks.LOADER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not forks._driver_is_loaded()
    monkeypatch.setenv(variable, str(values[form]))
    assert forks._driver_is_loaded()
    monkeypatch.setenv(variable, "/nowhere/libnone.so")
    assert not forks._driver_is_loaded()


@pytest.mark.sweep
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("way", WAYS)
def test_a_child_that_is_forked(way: str, device: Device) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), way], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
