"""An interrupt (Ctrl-C) at any line keeps the lists of work that is left: nothing is lost, and no lock stays held."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from pydp.runtime.memory import deferred_release, held_queues
from pydp.runtime.memory.storage import Storage

pytestmark = pytest.mark.host
_DONE = cl.command_execution_status.COMPLETE


def _interrupted_everywhere(function: Callable[[], None], *inner: Callable[..., Any]) -> Iterator[None]:
    """Call `function` once per line of it and of the `inner` functions, with an interrupt at this line."""
    for code in (function.__code__, *(one.__code__ for one in inner)):
        for stop in sorted({line for *_, line in code.co_lines() if line and line > code.co_firstlineno}):

            def interrupt(frame: Any, event: str, argument: object, code: Any = code, stop: int = stop) -> Any:
                if event == "line" and (frame.f_code, frame.f_lineno) == (code, stop):
                    raise KeyboardInterrupt
                return interrupt

            before = sys.gettrace()
            sys.settrace(interrupt)
            try:
                function()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            yield


def test_transfers_that_have_ended_are_dropped_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_release, "_transfers", deque())
    for _ in _interrupted_everywhere(deferred_release._drop_ended):
        deferred_release._transfers.append(SimpleNamespace(command_execution_status=_DONE))  # type: ignore[arg-type]
        deferred_release._drop_ended()
        assert not deferred_release._transfers


def test_queues_with_commands_stay_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held = held_queues._HeldQueue(SimpleNamespace(finish=lambda: None))  # type: ignore[arg-type]
    held.events.append(SimpleNamespace(command_execution_status=_DONE + 1))  # type: ignore[arg-type]
    monkeypatch.setattr(held_queues, "_held", OrderedDict({1: held}))
    for _ in _interrupted_everywhere(held_queues.release, held_queues._HeldQueue.may_go):
        assert held_queues._held == {1: held} and len(held.events) == 1


def test_an_interrupted_constructor_of_a_storage(monkeypatch):
    """The finalizer runs for a storage without attributes, too."""
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)

    def make() -> None:
        Storage(None, None)

    for _ in _interrupted_everywhere(make, Storage.__init__):
        assert not errors
