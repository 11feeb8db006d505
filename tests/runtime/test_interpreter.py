"""Processes that pydp starts: they import what this one would, nothing from the working directory; and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pydp.runtime.drivers.interpreter import answers, end, python_process

pytestmark = pytest.mark.host
_CODE = "import sys, colorsys; print(colorsys.__file__, sys.argv[1:])"


def _said(code: str, *arguments: str) -> str:
    command, environment = python_process(code, *arguments)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "colorsys.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    assert str(tmp_path) not in _said(_CODE) and _said(_CODE, "a", "b c").endswith("['a', 'b c']")
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as where a user types at Python's prompt
    assert _said(_CODE).startswith(os.path.join(tmp_path, "colorsys.py")) or "./colorsys.py" in _said(_CODE)


def test_modules_are_found_where_this_process_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_this_test.py").write_text("found = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _said("import of_this_test, pydp; print(of_this_test.found)") == "1"


_SAY = "from pydp.runtime.drivers.interpreter import say; say([1]); print('x', end=''); say({'a': 2}); "


@pytest.mark.parametrize(
    ("ending", "fault"),
    [
        ("", "ended with status 0: no output"),
        ("import sys; sys.exit('lost')", "ended with status 1: lost"),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal 9: no output"),
    ],
)
def test_answers_and_the_end_of_a_process(ending: str, fault: str) -> None:
    assert answers(60.0, _SAY + ending) == ([[1], {"a": 2}], fault)


def test_a_process_is_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    end(process, 60.0)
    assert process.returncode == -9
    process.communicate()


def test_a_process_that_does_not_end_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python warns about a process that was not waited for."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    wait, ended = process.wait, threading.Event()

    def held(timeout: float | None = None) -> Any:
        if timeout is not None:
            raise subprocess.TimeoutExpired("a process that a driver holds", timeout)
        wait()
        ended.set()

    monkeypatch.setattr(process, "wait", held)
    end(process, 0.0)
    assert ended.wait(60.0) and process.returncode == -9
    assert process.stdin is not None
    process.stdin.close()
