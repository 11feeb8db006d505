"""Run a command under the simulator's log and fail on findings: oclgrind_log.py LOG COMMAND [ARGUMENT]...

Oclgrind ends with status 0 whatever it finds, so its log is read afterwards. The status is the command's where that
failed, 1 where the log holds findings, else 0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path


def findings(text: str) -> Counter[str]:
    """How often each kind of finding stands in a log; every line that is not indented is the title of one."""
    titles = [line for line in text.splitlines() if line and not line[0].isspace()]
    return Counter(re.sub(r" at \w+ memory address.*| to \w+ memory address.*", "", title).strip() for title in titles)


def main(arguments: list[str]) -> int:
    """Run the command with its simulator logging to LOG; print and count the findings."""
    if len(arguments) < 2:
        print("usage: oclgrind_log.py LOG COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    log, command = Path(arguments[0]), arguments[1:]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    status = subprocess.run(command, env={**os.environ, "OCLGRIND_LOG": str(log)}, check=False).returncode
    if not log.exists():
        print(f"Oclgrind: no log was written to {log}: the simulator was not used")
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
