"""Other processes of this Python interpreter, with the same import path."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any


def python_process(code: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of a process that runs `code`, with `arguments` in ``sys.argv[1:]``.

    The process imports from the ``sys.path`` of this one. ``-P`` prevents ``python -c`` from searching the working
    directory first, because other users may have put files there.
    """
    folders = [folder or os.curdir for folder in sys.path]  # "" is the working directory
    return [sys.executable, "-P", "-c", code, *arguments], {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Kill a process and wait for its end, at most `seconds`. A thread waits for one that the system cannot end now,
    for example because a driver holds it."""
    process.kill()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()
