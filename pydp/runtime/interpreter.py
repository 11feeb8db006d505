"""Another process of this Python interpreter that imports the modules that this one would import."""

from __future__ import annotations

import os
import sys


def python_process(code: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of a process that runs `code`, with `arguments` in ``sys.argv[1:]``.

    It imports from this process's ``sys.path`` and, by ``-P``, from nowhere else: ``python -c`` alone would put the
    working directory first, and that may be a folder of other users.
    """
    folders = [folder or os.curdir for folder in sys.path]  # "" is the working directory, if this process uses it
    return [sys.executable, "-P", "-c", code, *arguments], {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
