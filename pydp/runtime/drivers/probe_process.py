"""The process that probes a device. If it crashes or hangs, its parent continues (see runtime.drivers.probe)."""

from __future__ import annotations

import sys

from pydp.runtime.drivers.devices import all_devices
from pydp.runtime.drivers.interpreter import say
from pydp.runtime.drivers.probe import run


def main() -> None:
    """Probe the device whose uid is the first argument; print the result on one line."""
    for device in all_devices():
        if device.uid == sys.argv[1]:
            say(run(device))
            return
    say({"reason": "a new process does not list the device", "subgroups": []})
