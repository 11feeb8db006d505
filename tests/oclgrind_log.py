"""Run a command under the simulator's log and fail on findings: oclgrind_log.py LOG COMMAND [ARGUMENT]...

Oclgrind ends with status 0 whatever it finds, so its log is read afterwards. The status is the command's where that
failed, 1 where the log holds findings, else 0.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections import Counter
from pathlib import Path


def findings(text: str) -> Counter[str]:
    """How often each kind of finding stands in a log; every line that is not indented is the title of one."""
    titles = [line for line in text.splitlines() if line and not line[0].isspace()]
    return Counter(re.sub(r" at \w+ memory address.*| to \w+ memory address.*", "", title).strip() for title in titles)


def run(command: list[str], log: Path) -> tuple[int, bool]:
    """Run the command with its simulator logging to LOG: the command's status, and whether a simulator opened the log.

    Oclgrind empties the file that it logs to each time a context begins, in whichever process: earlier findings would
    be lost. So it logs to a named pipe, and what comes out of the pipe is written to the file.
    """
    pipe = log.with_name(f"{log.name}.pipe")
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    watch = select.poll()
    watch.register(reader, select.POLLIN)
    writer = None  # opened after the simulator's first: with a writer left, the pipe never ends between two contexts
    with subprocess.Popen(command, env={**os.environ, "OCLGRIND_LOG": str(pipe)}) as process, log.open("wb") as file:
        ended = False
        while not ended:
            ended = process.poll() is not None
            while watch.poll(0 if ended else 100):
                writer = os.open(pipe, os.O_WRONLY) if writer is None else writer
                try:
                    file.write(os.read(reader, 1 << 16))
                except BlockingIOError:  # a context that ended without a finding
                    continue
    for one in (reader, writer):
        if one is not None:
            os.close(one)
    pipe.unlink()
    return process.returncode, writer is not None


def main(arguments: list[str]) -> int:
    """Run the command; print and count the findings of its simulator."""
    if len(arguments) < 2:
        print("usage: oclgrind_log.py LOG COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    log, command = Path(arguments[0]), arguments[1:]
    log.parent.mkdir(parents=True, exist_ok=True)
    status, used = run(command, log)
    if not used:
        print("Oclgrind: no simulator opened the log: it was not used")
        return status or 1
    text = log.read_text(errors="replace")
    found = findings(text)
    for kind, count in found.most_common():
        print(f"  {count} x {kind}")
    if found:
        print("\n".join(text.splitlines()[:60]))
        print(f"the whole log: {log}")
    print(f"Oclgrind: {sum(found.values())} findings")
    return status or (1 if found else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
