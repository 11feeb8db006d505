"""Prints how every command that tox ran closed: the test runner's counts and its reasons of skips, lane by lane."""

from __future__ import annotations

import json
import re
import sys


def closing(output: str) -> str:
    """The lines that sum a run up: its skips by reason and pytest's counts, else whatever was printed last."""
    lines = [line for line in output.splitlines() if line.strip()]
    skips = [line for line in lines if re.match(r"skipped \d+: ", line)]
    counts = [line for line in lines if re.search(r"\d+ (passed|failed|errors?|skipped|deselected|findings)\b", line)]
    return "\n".join([*skips, *counts[-2:]] if counts else lines[-1:])


def main(path: str) -> None:
    with open(path) as file:
        result = json.load(file)
    for name, environment in sorted(result.get("testenvs", {}).items()):
        for run in environment.get("test", []):
            print(f"-- {name}: exit {run.get('retcode')}")
            print(closing(run.get("output", "")))


if __name__ == "__main__":
    main(sys.argv[1])
