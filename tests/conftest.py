"""Fixtures of all tests: the test lane's device, and the counts of skipped tests by reason."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from verify_form import verify

from pydp.lang.ir import AFTER_PASS

pytest_plugins = ["hang_watch", "unoptimized"]

if hasattr(os, "geteuid"):
    os.umask(os.umask(0o077) | 0o022)  # pydp does not read files that other users may write to

AFTER_PASS.append(verify)

settings.register_profile("pydp", deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("pydp-ci", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
same = os.environ.get("CI") or os.environ.get("TOX_ENV_NAME")  # a lane draws the same examples in every run
settings.load_profile("pydp-ci" if same else "pydp")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked huge may take hours: the watchdog's ten minutes would end them."""
    for item in items:
        if item.get_closest_marker("huge") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(6 * 3600))


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
        _never_reuse_addresses()
    with pydp.using(chosen):
        yield chosen


@pytest.fixture
def nontemporal(device: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Results of every size are stored past the caches; a device without such stores skips the test."""
    from pydp.runtime.device.profile import Profile

    if device.profile.nontemporal_bytes is None:
        pytest.skip("the device has no nontemporal stores")
    monkeypatch.setattr(Profile, "nontemporal_bytes", 1)

    def forget() -> None:
        device.plans.clear()
        device.recordings.clear()

    forget()
    yield
    forget()


_TELL_ADDRESS = "kernel void tell_address(global ulong *out) { out[0] = (ulong) out; }"


def _never_reuse_addresses() -> None:
    """Give every buffer an address that was never used before.

    Oclgrind reports memory as uninitialized, or not, by what stood at its address before. Addresses that buffers, and
    kernels with constant arrays, have freed are taken by buffers that nothing uses. These are small: the simulator
    visits every byte of every buffer at the end of each kernel.
    """
    import pyopencl

    from pydp.runtime.memory import scratch

    kept: list[object] = []
    newest: dict[pyopencl.Context, int] = {}
    plain = pyopencl.Buffer

    @functools.cache
    def teller(context: pyopencl.Context) -> tuple[pyopencl.CommandQueue, pyopencl.Kernel]:
        program = pyopencl.Program(context, _TELL_ADDRESS).build()
        return pyopencl.CommandQueue(context), pyopencl.Kernel(program, "tell_address")

    def take_used_addresses(context: pyopencl.Context) -> None:
        queue, tell = teller(context)
        while True:
            spare = plain(context, pyopencl.mem_flags.READ_WRITE, 8)
            address = np.zeros(1, np.uint64)
            tell(queue, (1,), (1,), spare)
            pyopencl.enqueue_copy(queue, address, spare)
            kept.append(spare)
            if int(address[0]) > newest.get(context, 0):
                newest[context] = int(address[0])
                return

    class Buffer(plain):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: object, **named: object) -> None:
            take_used_addresses(arguments[0] if arguments else named["context"])
            super().__init__(*arguments, **named)

    pyopencl.Buffer = Buffer
    scratch._MAX_IDLE_BYTES = 0
    scratch._share_of = lambda device: 0
