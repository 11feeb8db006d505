"""The process that probes a device. If it crashes or hangs, its parent continues (see runtime.drivers.probe)."""

from __future__ import annotations

import json
import sys

from pydp.runtime.drivers.devices import all_devices
from pydp.runtime.drivers.probe import MARK, run


def main() -> None:
    """Probe the device whose uid is the first argument; print the result on one line."""
    for device in all_devices():
        if device.uid == sys.argv[1]:
            print(f"\n{MARK}{json.dumps(run(device))}", flush=True)
            return
    print(f'\n{MARK}{{"reason": "a new process does not list the device", "subgroups": []}}', flush=True)
