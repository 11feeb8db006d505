"""What all tests share: the lane's device, and the counts of what a run did not test, by reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from verify_form import verify

from pydp.lang.ir import AFTER_PASS

pytest_plugins = ["hang_watch"]

if hasattr(os, "geteuid"):
    os.umask(os.umask(0o077) | 0o022)  # pydp does not read files that other users may write to

AFTER_PASS.append(verify)

settings.register_profile("pydp", deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("pydp-ci", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
settings.load_profile("pydp-ci" if os.environ.get("CI") else "pydp")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each reason of skips: "skipped 12: the device has no float64"."""
    reports = terminalreporter.stats.get("skipped", [])
    texts = (one.longrepr[2] if isinstance(one.longrepr, tuple) else str(one.longrepr) for one in reports)
    reasons = Counter(" ".join(text.removeprefix("Skipped: ").split()) for text in texts)
    if reasons:
        terminalreporter.section("what was not tested, and why")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")


@pytest.fixture(scope="session")
def device() -> Iterator[object]:
    """The device that PYDP_DEVICE names, else the best one; the default device of every test."""
    import pydp

    chosen = pydp.device()
    if chosen.profile.is_simulator:
        _never_release()
    with pydp.using(chosen):
        yield chosen


def _never_release() -> None:
    """Keeps every buffer and uses none again: Oclgrind goes by what it knew of the memory, whatever is written."""
    import pyopencl

    from pydp.runtime.memory import scratch

    kept = []

    class Buffer(pyopencl.Buffer):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)
            kept.append(self)

    pyopencl.Buffer = Buffer
    scratch._MAX_IDLE_BYTES = 0
