"""A lane sets its environment and becomes its command; a missing driver is said, and fails where it must."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import lane

pytestmark = pytest.mark.host


def test_the_command_gets_the_lanes_environment() -> None:
    present = [name for name, one in lane.LANES.items() if one.apt and one.device and not lane.why_missing(name, one)]
    if not present:
        pytest.skip("no lane's driver is here")
    name = present[0]
    code = "import os; print(os.environ['PYDP_DEVICE'], os.environ['EXTRA'])"
    command = [sys.executable, lane.__file__, name, "EXTRA=a=b", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, f"{name} a=b"), done.stderr


def test_a_compilers_lane_names_no_device(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ran: list[list[str]] = []
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane(""))
    monkeypatch.setattr(lane.os, "execvp", lambda name, command: ran.append(command[2:]))
    monkeypatch.setattr(lane.os, "environ", {})
    lane.main(["toy", "true"])
    assert ran == [["true"]] and lane.os.environ == {}


@pytest.mark.parametrize("arguments", [[], ["pocl"], ["nothing", "true"]])
def test_a_wrong_call_is_told_how(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert lane.main(arguments) == 2
    assert "usage: lane.py {pocl,intel,rusticl,oclgrind,offline,pocl7,gpu}" in capsys.readouterr().err


MISSING = "print('a word of a driver'); print('missing: no device of toy')"


def test_a_missing_driver(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane(MISSING, "toy", apt=("toy-icd",)))
    monkeypatch.setattr(lane, "_install", lambda one: False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(lane, "_is_root", lambda: False)
    assert lane.main(["toy", "true"]) == 0
    told = "lane toy: the driver is missing (no device of toy), install it with: apt install toy-icd"
    assert capsys.readouterr().out == f"{told}; nothing was run\n"
    monkeypatch.setattr(lane, "_is_root", lambda: True)
    assert lane.main(["toy", "true"]) == 1
    assert capsys.readouterr().out == f"{told}\n"
    monkeypatch.setattr(lane, "_is_root", lambda: False)
    monkeypatch.setenv("CI", "true")
    assert lane.main(["toy", "true"]) == 1


def test_an_installation_that_fails_fails_its_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[list[str]] = []
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane(MISSING, "toy", pip=("toy",)))
    run = lane.subprocess.run

    def no_pip(command: list[str], **options: Any) -> Any:
        if "pip" not in command:
            return run(command, **options)
        tried.append(command)
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(lane.subprocess, "run", no_pip)
    monkeypatch.setattr(lane.sys, "base_prefix", "elsewhere")  # as in a virtual environment
    monkeypatch.setattr(lane, "_is_root", lambda: False)
    monkeypatch.delenv("CI", raising=False)
    assert lane.main(["toy", "true"]) == 1 and tried


def test_what_is_installed_is_looked_for_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []
    come = f"import os; os.path.exists({str(tmp_path / 'here')!r}) or print('missing: no device of toy')"
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane(come, "toy", environment={"TOY": "1"}))
    monkeypatch.setattr(lane, "_install", lambda one: (tmp_path / "here").write_text(""))
    monkeypatch.setattr(lane.os, "execvp", lambda name, command: ran.append(command[2:]))
    monkeypatch.setattr(lane.os, "environ", {**os.environ, "TOY": "0"})
    lane.main(["toy", "true"])
    assert ran == [["true"]] and (os.environ["TOY"], os.environ["PYDP_DEVICE"]) == ("1", "toy")


@pytest.mark.parametrize("must", [False, True])
def test_a_lane_without_pydp_fails(
    must: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(lane.LANES, "toy", lane.Lane("import nowhere.to_be_found"))
    monkeypatch.setattr(lane, "_install", lambda one: pytest.fail("nothing is to be installed"))
    monkeypatch.setattr(lane, "_is_root", lambda: must)
    assert lane.main(["toy", "true"]) == 1
    assert "pydp cannot be asked for its devices: ModuleNotFoundError: No module" in capsys.readouterr().out


def _without(tmp_path: Path, *, path: str = "", vendors: str = "") -> dict[str, str]:
    """An environment of no compiler and no driver but those given, and no rights or way to install any."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    if vendors:
        (folder / "driver.icd").write_text(vendors)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OCL", "PYDP_DEVICE", "CI"))}
    return {**kept, "PATH": path, "OCL_ICD_VENDORS": str(folder), "PYDP_CACHE_DIR": str(tmp_path / "cache")}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pocl", "no device of pocl"),
        ("intel", "no device of intel"),
        ("rusticl", "no device of rusticl"),
        ("oclgrind", "no device of oclgrind"),
        ("gpu", "no OpenCL driver lists a GPU"),
        ("offline", "clang is not installed, so nothing is compiled for sm_70; install clang 19 to 22 and a libclc"),
    ],
)
def test_every_lane_asks_pydp(name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = _without(tmp_path, vendors="libnothing-of-the-kind.so")
    monkeypatch.setattr(lane.os, "environ", environment)
    assert lane.why_missing(name, lane.LANES[name]).startswith(reason)


def _main_of_pocl7(monkeypatch: pytest.MonkeyPatch, **changes: str) -> list[list[str]]:
    """Runs the lane with POCL7 as given; the commands that it became."""
    ran: list[list[str]] = []
    kept = {name: value for name, value in os.environ.items() if name not in ("POCL7", "OCL_ICD_VENDORS")}
    monkeypatch.setattr(lane.os, "environ", {**kept, "CI": "true", **changes})
    monkeypatch.setattr(lane.os, "execvp", lambda name, command: ran.append(command[2:]))
    ran.append([str(lane.main(["pocl7", "true"]))])
    return ran


def test_without_an_installation_its_lane_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main_of_pocl7(monkeypatch) == _main_of_pocl7(monkeypatch, POCL7="") == [["0"]]
    assert capsys.readouterr().out.splitlines() == ["lane pocl7: POCL7 names no installation; nothing was run"] * 2


def test_a_folder_without_an_installation_fails_its_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main_of_pocl7(monkeypatch, POCL7=str(tmp_path)) == [["1"]]
    folder = tmp_path / "etc" / "OpenCL" / "vendors"
    told = f"lane pocl7: POCL7={tmp_path} is no installation, {folder} has no .icd file\n"
    assert capsys.readouterr().out == told
    folder.mkdir(parents=True)
    (folder / "pocl.icd").write_text("/nowhere/libpocl.so")
    assert _main_of_pocl7(monkeypatch, POCL7=str(tmp_path)) == [["1"]]
    told = f"lane pocl7: the installation in {tmp_path} cannot be used: no device of pocl\n"
    assert capsys.readouterr().out == told


def test_an_installation_is_all_that_its_lane_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "etc" / "OpenCL" / "vendors"
    folder.mkdir(parents=True)
    (folder / "pocl.icd").write_text("")
    monkeypatch.setattr(lane, "why_missing", lambda *_: "")
    ran = _main_of_pocl7(monkeypatch, POCL7=os.path.relpath(tmp_path))
    assert ran[0] == ["true"] and os.environ["PYDP_DEVICE"] == "pocl"
    assert os.path.realpath(os.environ["OCL_ICD_VENDORS"]) == os.path.realpath(folder)
    assert os.path.isabs(os.environ["OCL_ICD_VENDORS"])


def test_without_a_gpu_its_lane_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lane.os, "environ", {**_without(tmp_path), "CI": "true"})
    monkeypatch.setattr(lane, "_install", lambda one: pytest.fail("nothing is to be installed"))
    assert lane.main(["gpu", "true"]) == 0
    assert capsys.readouterr().out == "lane gpu: skipped: no OpenCL driver lists a GPU; nothing was run\n"


def test_an_old_compiler_is_none_to_its_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where clang-15 came with another package: the lane installs the one that pydp can use."""
    (tmp_path / "clang-15").write_text("#!/bin/sh\n")
    (tmp_path / "clang-15").chmod(0o755)
    monkeypatch.setattr(lane.os, "environ", _without(tmp_path, path=str(tmp_path)))
    assert lane.why_missing("offline", lane.LANES["offline"]).startswith("clang 15 cannot be used, so nothing is")
    assert lane.LANES["offline"].apt[0] == "clang-19"


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
