"""The simulator's lane can fail: each seeded fault is found, by the very commands that the lane runs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(shutil.which("oclgrind") is None, reason="Oclgrind is not installed (apt install oclgrind)"),
]


def _run(fault: str, log: Path, *others: str) -> subprocess.CompletedProcess[str]:
    """One process runs the fault; further ones run others, after it."""
    command = [sys.executable, str(HERE / "lane.py"), "oclgrind", sys.executable, str(HERE.parent / "oclgrind_log.py")]
    runs = [shlex.join([sys.executable, str(HERE / "run_fault.py"), one]) for one in (fault, *others)]
    command += [str(log), "sh", "-c", " && ".join(runs)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OCLGRIND_", "OCL_ICD"))}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)


def test_a_kernel_without_fault_has_no_findings(tmp_path: Path) -> None:
    done = _run("none", tmp_path / "log")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Oclgrind: 0 findings" in done.stdout


@pytest.mark.parametrize(
    ("fault", "title"),
    [
        ("race", "Read-write data race"),
        ("global race", "Write-write data race"),
        ("equal values", "Write-write data race"),
        ("uninitialized", "Uninitialized value"),
        ("bounds", "Invalid read of size 4"),
        ("divergence", "Work-group divergence detected"),
    ],
)
def test_a_seeded_fault_is_found(fault: str, title: str, tmp_path: Path) -> None:
    done = _run(fault, tmp_path / "log")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"x {title}" in done.stdout


def test_a_finding_is_not_lost_when_another_process_uses_the_simulator(tmp_path: Path) -> None:
    done = _run("uninitialized", tmp_path / "log", "none")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "x Uninitialized value" in done.stdout


def test_a_failed_command_fails_the_lane(tmp_path: Path) -> None:
    log = str(HERE.parent / "oclgrind_log.py")
    command = [sys.executable, log, str(tmp_path / "log"), sys.executable, "-c", "import sys; sys.exit(3)"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3


def test_a_run_without_the_simulator_fails_the_lane(tmp_path: Path) -> None:
    log = str(HERE.parent / "oclgrind_log.py")
    command = [sys.executable, log, str(tmp_path / "log"), sys.executable, "-c", "pass"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no simulator opened the log" in done.stdout
