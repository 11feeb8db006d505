"""Checks that pass, fail, crash and hang, for a process without a device: its command is `COMMAND`."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from pydp.runtime.programs import program
from pydp.verify import worker
from pydp.verify.check import Check, Context, NotApplicable, Stage, Wrong

COMMAND = "import toy_checks; toy_checks.main()"


def _passes(context: Context) -> dict[str, Any]:
    return {"rate": 2.0, "unit": "GB/s"}


def _fails(context: Context) -> dict[str, Any]:
    raise Wrong("1 instead of 2")


def _does_not_apply(context: Context) -> dict[str, Any]:
    raise NotApplicable("the device has no toys")


def _raises(context: Context) -> dict[str, Any]:
    raise ZeroDivisionError("division by zero\nand more")


def _crashes(context: Context) -> dict[str, Any]:
    os.abort()


def _is_slow(context: Context) -> dict[str, Any]:
    time.sleep(2.0)
    return {}


def _hangs(context: Context) -> dict[str, Any]:
    threading.Event().wait()
    return {}


def _build(*_: Any) -> None:
    """In place of a driver's compiler: a slow one."""
    time.sleep(1.0)


def _builds(context: Context) -> dict[str, Any]:
    program._build()  # type: ignore[call-arg]
    return {}


def _builds_and_hangs(context: Context) -> dict[str, Any]:
    program._build()  # type: ignore[call-arg]
    return _hangs(context)


_poisoned = False


def _poisons(context: Context) -> dict[str, Any]:
    """As a fault on a GPU: afterwards every check of the process fails."""
    global _poisoned
    _poisoned = True
    raise Wrong("the device is lost")


def _needs_health(context: Context) -> dict[str, Any]:
    if _poisoned:
        raise Wrong("the device was lost before")
    return {}


def _crashes_writing_stacks(context: Context) -> dict[str, Any]:
    print("Timeout (0:00:01)!", file=sys.stderr, flush=True)
    os.abort()


def _closes_output(context: Context) -> dict[str, Any]:
    """The end of a process that a driver holds back."""
    os.close(1)
    time.sleep(30)
    os._exit(0)


POISONS, NEEDS_HEALTH = Check("poisons", _poisons), Check("needs health", _needs_health)
CRASHES_WRITING_STACKS = Check("crashes writing stacks", _crashes_writing_stacks)
CLOSES_OUTPUT = Check("closes output", _closes_output)
PASSES, FAILS, LACKS = Check("passes", _passes), Check("fails", _fails), Check("lacks", _does_not_apply)
RAISES, CRASHES, HANGS = Check("raises", _raises), Check("crashes", _crashes), Check("hangs", _hangs)
IS_SLOW = Check("is slow", _is_slow)
BUILDS, BUILDS_AND_HANGS = Check("builds", _builds), Check("builds and hangs", _builds_and_hangs)
STAGES = (
    Stage("a", "first", 0.5, (PASSES, LACKS)),
    Stage("b", "second", 0.5, (PASSES, FAILS, RAISES, CRASHES, LACKS), decides=True),
    Stage("c", "third", 0.0, (HANGS, PASSES), decides=True, limit=1.0),
    Stage("d", "last", 0.0, (PASSES,)),
)


def main() -> None:
    """The worker, with the checks of this file and no device."""
    program._build = _build
    others = (POISONS, NEEDS_HEALTH, CLOSES_OUTPUT, CRASHES_WRITING_STACKS, IS_SLOW, BUILDS, BUILDS_AND_HANGS)
    worker.STAGES = (*STAGES, Stage("e", "faults", 0.0, others))
    worker._device = lambda uid, number, pack: None
    worker.main()
