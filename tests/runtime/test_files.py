"""Files are whole or absent, and a disk that cannot be written costs a log line."""

from __future__ import annotations

import logging
import multiprocessing
import os
from pathlib import Path

import pytest

from pydp.runtime.programs import files as cache
from pydp.runtime.programs.files import atomic_write, cache_dir, listed, log_once, read

pytestmark = pytest.mark.host


def test_the_folder_follows_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "a"))
    assert cache_dir() == tmp_path / "a"
    assert not cache_dir().exists()
    monkeypatch.delenv("PYDP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir().name == "pydp"


@pytest.mark.parametrize("chosen", ["~nobody-of-this-name/x", None])
def test_users_without_a_home_go_on_without_files(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(*_: object, **__: object) -> str:
        raise RuntimeError("could not determine the home directory")

    if chosen is None:
        monkeypatch.delenv("PYDP_CACHE_DIR", raising=False)
        monkeypatch.setattr("platformdirs.user_cache_dir", unknown)
    else:
        monkeypatch.setenv("PYDP_CACHE_DIR", chosen)
    path = cache_dir() / "file"
    assert read(path) is None and not atomic_write(path, b"x") and listed(path.parent, "*") == []
    assert "no cache folder is known" in caplog.text


def test_folders_that_cannot_be_looked_into(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert listed(tmp_path, "*.json") == listed(tmp_path / "none", "*.json") == []
    (tmp_path / "b.json").write_text("")
    (tmp_path / "a.json").write_text("")
    assert [path.name for path in listed(tmp_path, "*.json")] == ["a.json", "b.json"]
    assert not caplog.text
    assert listed(tmp_path / ("a" * 5000), "*.json") == []


def test_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "file"
    assert atomic_write(path, b"first")
    assert atomic_write(path, b"second")
    assert read(path) == b"second"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
    assert read(path.parent / "other") is None


def test_where_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with caplog.at_level(logging.WARNING, "pydp"):
        assert not atomic_write(blocker / "below" / "file", b"x")
        assert not atomic_write(blocker / "below" / "other", b"x")
    assert len([record for record in caplog.records if "cannot keep files" in record.message]) == 1
    assert read(blocker / "below" / "file") is None


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    assert not atomic_write(tmp_path / "file", b"x")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "file", b"x")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read(tmp_path) is None  # a folder
    assert "cannot read" in caplog.text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
def test_a_pipe_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert read(tmp_path / "pipe") is None
    assert "it is no regular file" in caplog.text


def test_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        log_once("said once by this test")
    assert caplog.text.count("said once by this test") == 1


def _write_many(path: Path, letter: bytes) -> None:
    for _ in range(100):
        atomic_write(path, letter * 10000)


def test_writers_in_several_processes_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, letter)) for letter in (b"a", b"b")]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(read(path))
    for writer in writers:
        writer.join()
    seen.add(read(path))
    assert seen <= {None, b"a" * 10000, b"b" * 10000}
