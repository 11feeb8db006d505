"""The state of a test run, in a file that another process reads: the test, its deadline, the last kernel.

The file outlives a process that crashes, and is up to date in one whose interpreter cannot run any more.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import time
from pathlib import Path
from typing import Any

VARIABLE = "PYDP_RUN_RECORD"  # names the file
GRACE = "PYDP_RUN_GRACE"  # sets `grace`, for tests of the watchdogs
ENDING = "ending the process"  # the task when all tests have run
STACKS_SIGNAL = signal.SIGRTMIN + 5  # has the stacks of all threads dumped
_TASK_BYTES, _LAUNCH_BYTES = 4096, 1 << 16


def grace() -> float:
    """Seconds that the next watchdog waits for the one before it."""
    return float(os.environ.get(GRACE, 20))


def make(path: Path) -> None:
    """An empty record."""
    path.write_bytes(bytes(_TASK_BYTES + _LAUNCH_BYTES))


class Writer:
    """The record of this process."""

    def __init__(self, path: Path) -> None:
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), _TASK_BYTES + _LAUNCH_BYTES)

    def begin(self, task: str, seconds: float) -> None:
        """Store the task that begins now, and its time limit."""
        entry = {"task": task[:1000], "pid": os.getpid(), "deadline": time.monotonic() + seconds, "limit": seconds}
        self._put(0, _TASK_BYTES, json.dumps(entry).encode())

    def launch(self, text: str) -> None:
        """The kernel that is about to be enqueued."""
        self._put(_TASK_BYTES, _LAUNCH_BYTES, text.encode(errors="replace"))

    def _put(self, start: int, size: int, content: bytes) -> None:
        content = content[: size - 1] + b"\0"
        self.memory[start : start + len(content)] = content


def read(path: Path) -> tuple[dict[str, Any], str]:
    """The current task ({} if none was begun, or while it is being written), and the last kernel."""
    content = path.read_bytes()
    task = content[:_TASK_BYTES].partition(b"\0")[0]
    launch = content[_TASK_BYTES:].partition(b"\0")[0].decode(errors="replace")
    try:
        found = json.loads(task)
    except ValueError:
        found = {}
    return found, launch or "none"
