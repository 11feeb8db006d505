"""Every run that hangs or crashes ends, fails, and prints the stacks, the test and the last kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WATCH = [sys.executable, str(HERE / "watch.py")]
SCAN = ("of scan_vector.mako", "'combine'", "driver")

pytestmark = pytest.mark.host


NAMES = (
    "sleeps",
    "sleeps_and_keeps_the_interpreter",
    "is_stopped",
    "disarms_what_watches_inside",
    "crashes",
    "leaves_with_status_0",
    "a_kernel_never_ends",
    "fails",
)
ALONE = "sleeps, and nobody watches"


def _started(name: str, watch: list[str]) -> subprocess.Popen[str]:
    command = [*watch, sys.executable, "-m", "pytest", "-q", "-p", "hang_watch", "-c", os.devnull]
    command += ["--timeout-method=thread", f"{HERE / 'hanging_tests.py'}::test_{name}"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "PYDP_RUN_GRACE": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def ended() -> dict[str, tuple[int, str]]:
    """Status and output of every run; all of them wait at the same time."""
    runs = {name: _started(name, WATCH) for name in NAMES} | {ALONE: _started("sleeps", [])}
    return {name: (run.communicate(timeout=300)[0], run.returncode)[::-1] for name, run in runs.items()}


def _check(run: tuple[int, str], *words: str) -> str:
    status, output = run
    assert status != 0, output
    for word in words:
        assert word in output, output
    return output


def test_a_test_that_sleeps(ended: Any) -> None:
    output = _check(ended["sleeps"], "::test_sleeps", "Stack of MainThread", "time.sleep(1000)", "last kernel", *SCAN)
    assert output.count("of scan_vector.mako") == 2  # by the process itself, and by the one that watches


def test_a_test_that_keeps_the_interpreter(ended: Any) -> None:
    name = "sleeps_and_keeps_the_interpreter"
    _check(ended[name], f"in test_{name}", "most recent call first", f"::test_{name}", "last kernel", *SCAN)


def test_a_process_in_which_nothing_runs(ended: Any) -> None:
    _check(ended["is_stopped"], "::test_is_stopped", "nothing inside ended it", "last kernel", *SCAN)


def test_a_process_that_does_not_end_itself(ended: Any) -> None:
    name = "disarms_what_watches_inside"
    _check(ended[name], "nothing inside ended it", f"in test_{name}", "last kernel", *SCAN)


def test_a_process_that_crashes(ended: Any) -> None:
    _check(ended["crashes"], "::test_crashes", "ended with status 134", "last kernel", *SCAN)


def test_a_process_that_ends_well_before_its_tests(ended: Any) -> None:
    _check(ended["leaves_with_status_0"], "::test_leaves_with_status_0", "ended with status 0", "last kernel", *SCAN)


def test_a_kernel_that_never_ends(ended: Any) -> None:
    name = "a_kernel_never_ends"
    if "1 skipped" in ended[name][1]:
        pytest.skip("the driver ends long loops: such loops are refused")
    _check(ended[name], f"::test_{name}", "Stack of MainThread", "kernel endless of endless.mako", "on purpose")


def test_a_test_that_fails_is_no_hang(ended: Any) -> None:
    output = _check(ended["fails"], "::test_fails", "1 failed")
    assert "last kernel" not in output.lower()


def test_a_run_that_nobody_watches(ended: Any) -> None:
    output = _check(ended[ALONE], "in the test: ", "::test_sleeps", "Stack of MainThread", "Last kernel", *SCAN)
    assert output.count("of scan_vector.mako") == 1


def test_the_status_is_that_of_the_command() -> None:
    for status in (0, 3):
        command = [*WATCH, sys.executable, "-c", f"raise SystemExit({status})"]
        assert subprocess.run(command, check=False).returncode == status
    assert subprocess.run(WATCH, capture_output=True, check=False).returncode == 2
