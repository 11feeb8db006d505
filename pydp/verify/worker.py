"""The process that runs the checks. If it crashes or hangs, the process that started it ends it and continues."""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import sys
import threading
from typing import Any

from pydp.errors import InvalidArgument
from pydp.verify.check import Context, outcome
from pydp.verify.stages import STAGES

MARK = "pydp-verify:"


def main() -> None:
    """Run the checks that the standard input names, one JSON object a line; print a line for each result.

    The first argument is a JSON object: the uid of the device, its number among those with this uid, and the folder of
    compiled kernels or null.
    """
    faulthandler.enable()  # the report keeps the end of the standard error
    arguments = json.loads(sys.argv[1])
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    device = _device(**arguments)
    checks = {(stage.letter, check.name): (check, stage.decides) for stage in STAGES for check in stage.checks}
    _say({"status": "ready"})
    while True:
        request = json.loads(requests.get())
        context = Context(device, request["seconds"], arguments["pack"], request.get("rates", {}))
        check, decides = checks[request["stage"], request["check"]]
        seconds = context.seconds
        faulthandler.dump_traceback_later(max(seconds - 1, seconds / 2, 1e-3))  # before the other process ends this one
        result = outcome(check, context, decides)
        faulthandler.cancel_dump_traceback_later()
        _say(result)


def _read(requests: queue.Queue[str]) -> None:
    """Pass on the lines of the standard input. At its end the other process is gone, and this one ends at once."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def _say(result: dict[str, Any]) -> None:
    print(f"\n{MARK}{json.dumps(result, default=str)}", flush=True)


def _device(uid: str, number: int, pack: str | None) -> Any:
    if pack is not None:
        from pydp.verify.pack.launch import Gpu

        return Gpu.first(pack)
    from pydp.runtime.drivers.devices import all_devices

    equal = [one for one in all_devices() if one.uid == uid]
    if number < len(equal):
        return equal[number]
    raise InvalidArgument(f"a new process does not list the device {uid!r}; the devices of `pydp devices` are accepted")
