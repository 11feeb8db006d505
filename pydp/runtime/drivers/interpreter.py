"""Another process of this Python interpreter that imports the modules that this one would import."""

from __future__ import annotations

import os
import sys


def python_process(code: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of a process that runs `code`, with `arguments` in ``sys.argv[1:]``.

    It imports from the folders of this process's ``sys.path``. ``python -c`` would search the working directory first,
    where other users may have put files; ``-P`` prevents that.
    """
    folders = [folder or os.curdir for folder in sys.path]  # "" is the working directory, if this process uses it
    return [sys.executable, "-P", "-c", code, *arguments], {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
