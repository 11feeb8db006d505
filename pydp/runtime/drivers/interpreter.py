"""Start another process of this Python interpreter with the same import path."""

from __future__ import annotations

import os
import sys


def python_process(code: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of a process that runs `code`, with `arguments` in ``sys.argv[1:]``.

    The process imports from the ``sys.path`` of this one. ``-P`` prevents ``python -c`` from searching the working
    directory first, because other users may have put files there.
    """
    folders = [folder or os.curdir for folder in sys.path]  # "" is the working directory
    return [sys.executable, "-P", "-c", code, *arguments], {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
