"""The process in which a device is probed: it may end or hang, and its parent goes on (see pydp.runtime.probe)."""

from __future__ import annotations

import json
import sys

from pydp.runtime.device import all_devices
from pydp.runtime.probe import MARK, run


def main() -> None:
    """Probe the device whose uid is the first argument; the verdict is one line of the output."""
    for device in all_devices():
        if device.uid == sys.argv[1]:
            print(f"\n{MARK}{json.dumps(run(device))}", flush=True)
            return
    print(f'\n{MARK}{{"reason": "another process does not list it", "subgroups": []}}', flush=True)
