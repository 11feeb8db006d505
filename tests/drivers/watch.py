"""Run a command that runs pytest, and end it where it hangs: watch.py COMMAND [ARGUMENT]...

The status is the command's; 1 where it had to be ended, or gave 0 before all tests had run. Where it ended in the
middle of a test (by a time limit, a crash), or had to be ended, the test and the last kernel that was enqueued are
told: its template, the parameters that it was rendered with, sizes, device and driver. See tests/hang_watch.py, which
must be loaded there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
import run_record

_DUMP_SECONDS = 3.0  # from the signal to the end


def main(command: list[str]) -> int:
    """Run the command; the status to end with."""
    if not command:
        print("usage: watch.py COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record"
        run_record.make(record)
        environment = {**os.environ, run_record.VARIABLE: str(record)}
        child = subprocess.Popen(command, env=environment, start_new_session=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: _signal_group(child.pid, number))
        status = _watched(child, record)
        task, launch = run_record.read(record)
        if task and task["task"] != run_record.ENDING:
            print(f"ended with status {status} in: {task['task']}\nlast kernel: {launch}", file=sys.stderr, flush=True)
            return status or 1  # not all tests have run
    return status


def _watched(child: subprocess.Popen[bytes], record: Path) -> int:
    """Wait for the child's end, or end it 2 * grace after a deadline."""
    while True:
        try:
            status = child.wait(timeout=0.5)
            return 128 - status if status < 0 else status
        except subprocess.TimeoutExpired:
            task, _ = run_record.read(record)
        if task and time.monotonic() > task["deadline"] + 2 * run_record.grace():
            _end(child, task)
            return 1


def _end(child: subprocess.Popen[bytes], task: dict[str, Any]) -> None:
    print(f"no end after {task['limit']:g} s, and nothing inside ended it: {task['task']}", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        os.kill(task["pid"], run_record.STACKS_SIGNAL)
        time.sleep(_DUMP_SECONDS)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
