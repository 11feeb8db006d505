"""A lane sets its environment and becomes its command; a missing driver is said, and fails where it must."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import lane

pytestmark = pytest.mark.host


def test_the_command_gets_the_lanes_environment() -> None:
    name = next(name for name, one in lane.LANES.items() if one.present())
    code = "import os; print(os.environ['PYDP_DEVICE'], os.environ['EXTRA'])"
    command = [sys.executable, lane.__file__, name, "EXTRA=a=b", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, f"{name} a=b"), done.stderr


def test_a_compilers_lane_names_no_device(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ran: list[list[str]] = []
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane(lambda: True, is_driver=False))
    monkeypatch.setattr(lane.os, "execvp", lambda name, command: ran.append(command))
    monkeypatch.setattr(lane.os, "environ", {})
    lane.main(["toy", "true"])
    assert ran == [["true"]] and lane.os.environ == {}


@pytest.mark.parametrize("arguments", [[], ["pocl"], ["nothing", "true"]])
def test_a_wrong_call_is_told_how(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert lane.main(arguments) == 2
    assert "usage: lane.py {pocl,intel,rusticl,oclgrind,offline}" in capsys.readouterr().err


def test_a_missing_driver(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane(lambda: False, apt=("toy-icd",)))
    monkeypatch.setattr(lane, "_install", lambda one: None)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(lane, "_is_root", lambda: False)
    assert lane.main(["toy", "true"]) == 0
    assert "apt install toy-icd; nothing was run" in capsys.readouterr().out
    monkeypatch.setattr(lane, "_is_root", lambda: True)
    assert lane.main(["toy", "true"]) == 1
    monkeypatch.setattr(lane, "_is_root", lambda: False)
    monkeypatch.setenv("CI", "true")
    assert lane.main(["toy", "true"]) == 1


def test_root_installs_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 1 if len(ran) == 1 else 0)

    monkeypatch.setattr(lane.subprocess, "run", run)
    monkeypatch.setattr(lane.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(lane, "_is_root", lambda: True)
    lane._install(lane.LANES["pocl"])
    assert ["update" if "update" in command else "install" for command in ran] == ["install", "update", "install"]
    assert ran[0][-1] == "pocl-opencl-icd"
    ran.clear()
    monkeypatch.setattr(lane, "_is_root", lambda: False)
    lane._install(lane.LANES["pocl"])
    assert ran == []
    assert os.path.basename(lane.__file__) == "lane.py"
