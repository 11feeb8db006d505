"""Other processes of this Python interpreter, with the same import path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

_MARK = "pydp-answer:"
_EXIT_SECONDS = 5.0


def python_process(code: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of a process that runs `code`, with `arguments` in ``sys.argv[1:]``.

    The process imports from the ``sys.path`` of this one. ``-P`` prevents ``python -c`` from searching the working
    directory first, because other users may have put files there.
    """
    folders = [folder or os.curdir for folder in sys.path]  # "" is the working directory
    return [sys.executable, "-P", "-c", code, *arguments], {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def say(answer: Any) -> None:
    """Print an answer for :func:`answers`, with one write because other threads may print too."""
    print(f"\n{_MARK}{json.dumps(answer, default=str)}\n", end="", flush=True)


def answer_of(line: str) -> Any:
    """The answer on a line of output; None if there is none."""
    return json.loads(line[len(_MARK) :]) if line.startswith(_MARK) else None


def answers(seconds: float, code: str, *arguments: str) -> tuple[list[Any], str]:
    """(the answers of another process, how it ended). A process that takes too long is killed. Raises OSError."""
    command, environment = python_process(code, *arguments)
    environment.pop("OCLGRIND_LOG", None)  # another process would overwrite the simulator's log of this one
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        try:
            output, errors = process.communicate(timeout=seconds)
            status = process.returncode
            how = f"status {status}" if status >= 0 else f"signal {-status}"
            fault = f"ended with {how}: {(errors.decode(errors='replace').strip().splitlines() or ['no output'])[-1]}"
        except subprocess.TimeoutExpired as error:
            output, fault = error.stdout or b"", f"did not end within {seconds:.0f} s"
        finally:
            end(process, _EXIT_SECONDS)
    found = map(answer_of, output.decode(errors="replace").splitlines())
    return [one for one in found if one is not None], fault


def end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Kill a process and wait for its end, at most `seconds`. A thread waits for one that the system cannot end now,
    for example because a driver holds it."""
    process.kill()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()
