"""Pytest plugin: a test that exceeds its time limit ends the run with the stacks of all threads and the last kernel.

pytest-timeout ends a test whose interpreter still runs. Where native code keeps the interpreter from running, a thread
of faulthandler, which needs no interpreter, does so `grace` seconds later. tests/drivers/watch.py, which a lane runs
around pytest, ends a process in which no thread can do it, and tells the last kernel for all three from the record.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from run_record import ENDING, STACKS_SIGNAL, VARIABLE, Writer, grace

_COLLECTING_SECONDS, _ENDING_SECONDS = 600.0, 120.0
_DISTRIBUTING_SECONDS = 24 * 3600.0  # pytest-xdist's controller waits for its workers, each of which is watched
_state: dict[str, Any] = {"record": None, "stderr": None, "task": "", "wrapped": False}


def pytest_configure(config: pytest.Config) -> None:
    name = os.environ.pop(VARIABLE, None)  # a pytest that a test runs keeps no record
    _state["record"] = Writer(Path(name)) if name else None
    _state["stderr"] = os.dup(sys.stderr.fileno())  # of the terminal: nothing is captured now
    # Drivers replace the handlers of other signals.
    faulthandler.register(STACKS_SIGNAL, file=_state["stderr"], all_threads=True)
    timeouts = config.pluginmanager.getplugin("timeout")
    dump = getattr(timeouts, "dump_stacks", None)
    if dump is not None:

        def dump_stacks(terminal: Any) -> None:
            dump(terminal)
            terminal.sep("~", title="Last kernel")
            terminal.write(f"{_last_kernels()}\nin the test: {_state['task']}\n")

        timeouts.dump_stacks = dump_stacks
    if getattr(config.option, "numprocesses", None):
        _begin("distributing tests", _DISTRIBUTING_SECONDS)
    else:
        _begin("collecting tests", _COLLECTING_SECONDS)


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist lives as long as its controller
        faulthandler.cancel_dump_traceback_later()
    else:
        _begin(ENDING, _ENDING_SECONDS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _record_launches()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    if settings.timeout:
        _begin(item.nodeid, settings.timeout)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    _begin(f"after {item.nodeid}", _COLLECTING_SECONDS)


def _begin(task: str, seconds: float) -> None:
    _state["task"] = task
    if _state["record"] is not None:
        _state["record"].begin(task, seconds)
    faulthandler.dump_traceback_later(seconds + grace(), exit=True, file=_state["stderr"])


def _last_kernels() -> str:
    """Of every device of this process; without locks, which a thread that hangs may hold."""
    devices: Any = sys.modules.get("pydp.runtime.device.core")
    launches = [one.last_launch for one in list(devices._made)] if devices is not None else []
    return "\n".join(filter(None, launches)) or "none"


def _record_launches() -> None:
    """Have kernels noted in the record before they are enqueued, once pydp is imported."""
    program: Any = sys.modules.get("pydp.runtime.programs.program")
    record = _state["record"]
    if record is None or _state["wrapped"] or program is None:
        return
    _state["wrapped"] = True
    launch = program.Kernel._launch

    def noted(self: Any, queue: Any, global_size: Any, local_size: Any, *rest: Any, **named: Any) -> Any:
        record.launch(program.described((self._about, global_size, local_size)))
        return launch(self, queue, global_size, local_size, *rest, **named)

    program.Kernel._launch = noted
