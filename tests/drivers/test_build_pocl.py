"""The script that builds PoCL: what it refuses, and what it would run. The build itself takes minutes: none is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import build_pocl

pytestmark = pytest.mark.host


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something like PoCL's sources, and every tool."""
    folder = tmp_path / "pocl"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("# PoCL\nproject(pocl)\n")
    monkeypatch.setattr(build_pocl.shutil, "which", lambda name: None if "missing" in name else f"/usr/bin/{name}")
    return folder


def test_the_commands(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_pocl.main([str(source), str(tmp_path / "to"), "--jobs", "3", "--dry-run"]) == 0
    configure, build, install = capsys.readouterr().out.splitlines()
    assert configure.startswith(f"+ cmake -G Ninja -S {source} -B {source / 'build'} ")
    prefix = f"CMAKE_INSTALL_PREFIX={tmp_path / 'to'}"
    for option in ("ENABLE_ICD=ON", "WITH_LLVM_CONFIG=/usr/bin/llvm-config-19", prefix):
        assert f" -D{option}" in configure
    assert build == f"+ cmake --build {source / 'build'} --parallel 3"
    assert install == f"+ cmake --install {source / 'build'}" and not (tmp_path / "to").exists()


def test_what_it_refuses(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "CMakeLists.txt").write_text("project(poclet)\n")
    (other / "file").write_text("")
    for arguments, said in (
        ([tmp_path / "nowhere", tmp_path / "to"], "nowhere is no folder of PoCL's sources"),
        ([other, tmp_path / "to"], "other is no folder of PoCL's sources"),
        ([source, other], "other has other files in it"),
        ([source, other / "file"], "file is a file"),
        ([source, source / "to"], "lies in the folder of the sources"),
        ([source, tmp_path / "to", "--llvm-config", "missing-19"], "missing-19 cannot be found; install them"),
    ):
        assert build_pocl.main([*map(str, arguments), "--dry-run"]) == 1
        captured = capsys.readouterr()
        assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_a_failed_command_ends_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, int("--build" in command))

    monkeypatch.setattr(build_pocl.subprocess, "run", run)
    assert build_pocl.main([str(source), str(tmp_path / "to")]) == 1 and len(ran) == 2
    assert capsys.readouterr().err == "build_pocl.py: cmake ended with status 1\n"


def test_an_installation_without_a_driver_is_told(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_pocl.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0))
    assert build_pocl.main([str(source), str(tmp_path / "to")]) == 1
    assert "has no etc/OpenCL/vendors/*.icd" in capsys.readouterr().err
    (tmp_path / "to" / "etc" / "OpenCL" / "vendors").mkdir(parents=True)
    (tmp_path / "to" / "etc" / "OpenCL" / "vendors" / "pocl.icd").write_text("")
    (tmp_path / "to" / "lib").mkdir()
    (tmp_path / "to" / "lib" / "libpocl.so.2").write_text("")
    assert build_pocl.main([str(source), str(tmp_path / "to")]) == 0
    assert f"POCL7={tmp_path / 'to'} tox -e pocl7" in capsys.readouterr().out


def test_its_help_names_everything() -> None:
    done = subprocess.run([sys.executable, build_pocl.__file__, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("SOURCE", "PREFIX", "--build", "--llvm-config", "--jobs", "--dry-run"))
