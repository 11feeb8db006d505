"""Folders of the cache stay within their bounds on disk, the files that were used last stay, and processes may meet."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.errors import BuildFailed
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.programs import binaries, disk_bound, program
from pydp.runtime.programs import files as cache
from pydp.runtime.programs.disk_bound import Bound, sweep, used, written

HOUR = 3600


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(disk_bound, "_since", BoundedCache(16))
    monkeypatch.setattr(cache, "_said", BoundedCache(64))
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    found = tmp_path / "binaries"
    found.mkdir(mode=0o700)
    return found


def _file(folder: Path, name: str, hours: float, nbytes: int = 100) -> Path:
    """A file that was used some hours ago."""
    path = folder / name
    path.write_bytes(bytes(nbytes))
    at = time.time() - hours * HOUR
    os.utime(path, (at, at))
    return path


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.host
def test_the_oldest_go_until_there_is_room(folder: Path) -> None:
    for number in range(20):
        _file(folder, f"{number:02}.bin", hours=2 + number)
    sweep(folder, Bound(20, 2000))
    assert len(_names(folder)) == 20  # not more than the bound: nothing goes
    sweep(folder, Bound(16, 1 << 30))
    assert _names(folder) == {f"{number:02}.bin" for number in range(12)}
    sweep(folder, Bound(1 << 30, 1000))
    assert _names(folder) == {f"{number:02}.bin" for number in range(7)}


@pytest.mark.host
def test_a_file_that_is_used_is_not_the_oldest(folder: Path) -> None:
    old = [_file(folder, f"{number}.bin", hours=9 - number) for number in range(4)]
    recent = _file(folder, "recent.bin", hours=0.5)
    noted = recent.stat().st_mtime_ns
    used(old[0])
    used(recent)
    used(folder / "none.bin")
    assert recent.stat().st_mtime_ns == noted  # within the hour: no write for each use
    sweep(folder, Bound(4, 1 << 30))
    assert _names(folder) == {"0.bin", "3.bin", "recent.bin"}


@pytest.mark.host
def test_looks_are_rare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    monkeypatch.setattr(disk_bound, "sweep", lambda folder, bound: looks.append(folder))
    monkeypatch.setitem(disk_bound.BOUNDS, "binaries", Bound(320, 1600))
    for _ in range(61):
        written(folder / "a.bin", 1)
    assert len(looks) == 1 + 3  # at the first write, then after each sixteenth part of the bound
    for _ in range(5):
        written(folder / "a.bin", 60)
    assert len(looks) == 1 + 3 + 2
    written(folder.parent / "failed" / "a.cl", 1)
    assert looks[-1].name == "failed"


@pytest.mark.host
def test_writes_that_never_ended_are_removed_and_others_left(folder: Path) -> None:
    _file(folder, ".writing-old", hours=30)
    _file(folder, ".writing-now", hours=0)
    (folder / "folder").mkdir()
    sweep(folder, Bound(4, 1000))
    assert _names(folder) == {".writing-now", "folder"}


@pytest.mark.host
def test_what_other_processes_do_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [_file(folder, f"{number}.bin", hours=9 - number) for number in range(8)]
    listed = disk_bound._files

    def and_then(folder: Path) -> Any:
        found = listed(folder)
        paths[0].unlink()  # another process removes the oldest, a third one uses the next
        used(paths[1])
        return found

    monkeypatch.setattr(disk_bound, "_files", and_then)
    sweep(folder, Bound(4, 1 << 30))
    assert _names(folder) == {"1.bin", "6.bin", "7.bin"}


@pytest.mark.host
def test_a_folder_that_cannot_be_looked_at_is_one_line_of_the_log(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        sweep(folder / "none", Bound(1, 1))
    assert [record.message for record in caplog.records] == [
        f"cannot remove old files in {folder / 'none'}: No such file or directory"
    ]


_SWEEPS = """
import sys
from pathlib import Path
from pydp.runtime.programs.disk_bound import Bound, sweep, written, used
folder, mine = Path(sys.argv[1]), sys.argv[2]
for number in range(150):
    path = folder / f"{mine}-{number}.bin"
    path.write_bytes(bytes(100))
    used(path)
    sweep(folder, Bound(40, 1 << 20))
"""


@pytest.mark.host
def test_processes_that_sweep_together(folder: Path) -> None:
    command = [sys.executable, "-c", _SWEEPS, str(folder)]
    running = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE, text=True) for n in range(4)]
    for process in running:
        assert process.communicate() == (None, "") and process.returncode == 0
    assert 20 <= len(_names(folder)) <= 44  # each may have written one since it looked


def test_binaries_of_distinct_operators_stay_within_the_bound(
    device: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not binaries._kept_here(device):
        pytest.skip(f"the driver {device.driver} keeps built programs itself, or pydp does not keep them")
    monkeypatch.setitem(disk_bound.BOUNDS, "binaries", Bound(8, 1 << 30))
    monkeypatch.setattr(disk_bound, "_EVERY", 8)
    x = np.arange(50, dtype=np.int32)
    first = None
    for number in range(20):
        assert pydp.reduce(x, f"a + b + {number} * 0", dtype=np.int32) == x.sum()
        assert len(_names(folder)) <= 8
        first = first or next(folder.iterdir())
        old = time.time() - (100 - number) * HOUR
        for path in folder.iterdir():
            if path != first and path.stat().st_mtime > time.time() - HOUR:
                os.utime(path, (old, old))
    assert first is not None and first.exists()  # the newest of all
    device.plans.clear()
    device.kernels.clear()
    assert pydp.reduce(x, "a + b + 0 * 0", dtype=np.int32) == x.sum()


def test_a_binary_that_is_used_is_noted(device: Any, folder: Path) -> None:
    if not binaries._kept_here(device):
        pytest.skip(f"the driver {device.driver} keeps built programs itself, or pydp does not keep them")
    x = np.arange(50, dtype=np.int32)
    for _ in range(2):
        device.plans.clear()
        device.kernels.clear()
        assert pydp.reduce(x, "a + b + 123 * 0", dtype=np.int32) == x.sum()
        found = list(folder.iterdir())
        assert found and all(time.time() - path.stat().st_mtime < HOUR for path in found)
        for path in found:
            os.utime(path, (1e9, 1e9))
    assert all(path.stat().st_mtime == 1e9 for path in found)


def test_sources_of_failed_builds_stay_within_the_bound(
    device: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(disk_bound.BOUNDS, "failed", Bound(4, 1 << 20))
    for number in range(8):
        with pytest.raises(BuildFailed) as caught:
            program.build_source(device, f"this is no kernel {number}")
        assert caught.value.source_path is not None and Path(caught.value.source_path).exists()
        assert len(_names(folder.parent / "failed")) <= 4
