"""The process that runs the checks. If it crashes or hangs, the process that started it ends it and continues."""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from pydp.errors import InvalidArgument
from pydp.runtime.drivers.interpreter import say
from pydp.runtime.programs import program
from pydp.verify.check import Context, Limit, outcome
from pydp.verify.pack.cuda import Driver
from pydp.verify.stages import STAGES


def main() -> None:
    """Run the checks that the standard input names, one JSON object a line; print a line for each result.

    The first argument is a JSON object: the uid of the device, its number among those with this uid, and the folder of
    compiled kernels or null.
    """
    faulthandler.enable()  # the report keeps the end of the standard error
    watch = _Watch()
    program._build = watch.announced(program._build)
    Driver.function = watch.announced(Driver.function)  # type: ignore[method-assign]
    arguments = json.loads(sys.argv[1])
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    device = _device(**arguments)
    checks = {(stage.letter, check.name): (check, stage.decides) for stage in STAGES for check in stage.checks}
    say({"status": "ready"})
    while True:
        request = json.loads(requests.get())
        limit, seconds = request["limit"], request["seconds"]
        context = Context(device, min(limit, seconds), arguments["pack"], request.get("rates", {}))
        check, decides = checks[request["stage"], request["check"]]
        watch.begin(Limit(limit, seconds))
        result = outcome(check, context, decides)
        watch.end()
        say(result)


class _Watch:
    """Tells the other process when kernels are built, and writes the stack before that process ends this one."""

    def __init__(self) -> None:
        self._limit: Limit | None = None

    def begin(self, limit: Limit) -> None:
        """A check begins."""
        self._limit = limit
        self._prepare(limit)

    def end(self) -> None:
        """The check has ended."""
        self._limit = None
        faulthandler.cancel_dump_traceback_later()

    def _prepare(self, limit: Limit) -> None:
        left = limit.left()
        faulthandler.dump_traceback_later(max(left - 1, left / 2, 1e-3))

    def announced(self, build: Callable[..., Any]) -> Callable[..., Any]:
        """A function that builds a kernel, and announces its begin and end during a check."""

        @functools.wraps(build)
        def announcing(*args: Any, **options: Any) -> Any:
            limit = self._limit
            if limit is None:
                return build(*args, **options)
            self._change(limit, 1)
            try:
                return build(*args, **options)
            finally:
                self._change(limit, -1)

        return announcing

    def _change(self, limit: Limit, change: int) -> None:
        if limit is self._limit:  # else a thread that the check left behind builds
            limit.build(change)
            say({"build": change})
            self._prepare(limit)


def _read(requests: queue.Queue[str]) -> None:
    """Pass on the lines of the standard input. At its end the other process is gone, and this one ends at once."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def _device(uid: str, number: int, pack: str | None) -> Any:
    if pack is not None:
        from pydp.verify.pack.launch import Gpu

        return Gpu.first(pack)
    from pydp.runtime.drivers.devices import all_devices

    equal = [one for one in all_devices() if one.uid == uid]
    if number < len(equal):
        return equal[number]
    raise InvalidArgument(
        f"the process of the checks does not find the device {uid!r}; devices that `pydp devices` lists are accepted"
    )
