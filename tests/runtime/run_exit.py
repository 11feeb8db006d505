"""Ends with objects of pydp alive, in one way, named by the argument. The status is to be 0 and stderr empty.

For each buffer that is watched a line is printed when it is released.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import functools
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

_events: list[cl.Event] = []  # of commands that must be complete at the end


@atexit.register  # Python calls handlers in reverse order: this one after those of pydp
def _check() -> None:
    for event in _events:
        if event.command_execution_status != cl.command_execution_status.COMPLETE:
            os.write(1, b"pending\n")


import pydp  # noqa: E402

N = 1 << 18  # float32s of a pooled buffer
WAYS = {}
_watches: list[weakref.ref[Any]] = []
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_watches))  # outlives all modules


class Buffer(cl.Buffer):
    """A buffer that can be watched."""


def way(function: Callable[[], None]) -> Callable[[], None]:
    WAYS[function.__name__] = function
    return function


def watched(field: Any) -> Any:
    def released(_: object, write: Any = os.write) -> None:
        write(1, b"released\n")

    os.write(1, b"watched\n")
    _watches.append(weakref.ref(field._storage.buffer, released))
    return field


def made() -> Any:
    """A Field whose memory is from the pool."""
    field = pydp.field(np.ones(N, np.float32)) + 1
    assert field.event is not None  # computes it
    assert field._storage.pool_queue is not None
    return watched(field)


class Holder:
    """Part of a cycle."""

    def __init__(self, field: Any) -> None:
        self.me, self.field = self, field


class WithFinalizer(Holder):
    """Part of a cycle; makes another Field when it goes."""

    def __del__(self) -> None:
        self.other = self.field[::2]


@way
def held_by_modules() -> None:
    """Modules that are cleared after those of pydp hold Fields, functions and cycles; errors of those in `sys` and
    `builtins` would not be seen, for stderr is gone by then."""
    first, second = made(), made()
    sys.kept = [made(), lambda: first, Holder(made()), WithFinalizer(made())]  # type: ignore[attr-defined]
    builtins.kept = lambda: second  # type: ignore[attr-defined]
    functools.kept = Holder(made())  # type: ignore[attr-defined]
    cl.kept = made()
    pydp.kept = made()  # type: ignore[attr-defined]
    globals()["kept"] = lambda: globals()


@way
def held_by_cycles_that_are_never_collected() -> None:
    gc.disable()
    for _ in range(3):
        Holder(made())
        WithFinalizer(made())


@way
def held_by_threads() -> None:
    own = threading.local()
    ready = threading.Event()
    own.field = made()

    def wait() -> None:
        own.field = made()
        sys.kept = made()  # type: ignore[attr-defined]
        ready.set()
        time.sleep(1000)

    threading.Thread(target=wait, daemon=True).start()
    ready.wait()
    globals()["own"] = own


@way
def trials_that_were_left_behind() -> None:
    """Threads of tuning that calculate until the end."""
    from pydp.tuning.trial import TooLong, within

    field = made()

    def work() -> None:
        while True:
            pydp.sort(field).get()

    for _ in range(2):
        try:
            within(0.1, work)
        except TooLong as error:
            assert error.stuck


@way
def failed_calls() -> None:
    """Calls that an exception has ended half-way, which holds them."""
    from pydp.runtime.call import Call

    x = np.ones(N, np.float32)
    call = Call.begin({"x": x}, writable=["x"])
    operand = call.inout("x")
    call.copy(operand, call.temporary(operand.shape, operand.dtype))
    call.scratch(1 << 20)
    functools.kept = call  # type: ignore[attr-defined]
    call = Call.begin({"x": made()})
    call.scratch(1 << 20)
    cl.kept = call


@way
def pending_work() -> None:
    field = watched(pydp.field(np.random.default_rng(1).random(N, np.float32)))
    results = [watched(pydp.sort(field)) for _ in range(8)]
    target = np.empty(N, np.float32)
    results[-1].copy_out(target, blocking=False)
    for _ in range(3):
        field.copy_in(np.ones(N, np.float32), blocking=False)
    sys.kept = results, lambda: field  # type: ignore[attr-defined]
    sys.exit(0)


def ones(index: Any, x: Any) -> None:
    x[index] = 1


@way
def pending_builds() -> None:
    """PoCL and rusticl compile kernels in threads of their own when they first run."""
    field = pydp.field(np.zeros(1000, np.int64))  # from no pool: the queue has no other state
    pydp.forall(1000, ones, field)
    _events.append(field.event)
    sys.kept = watched(field)  # type: ignore[attr-defined]


@way
def pending_builds_on_another_queue() -> None:
    queue = cl.CommandQueue(pydp.device().context)
    field = watched(pydp.field(np.zeros(N, np.int64)))
    result = pydp.sort(field, queue=queue)
    _events.append(result.event)
    sys.kept = result, queue  # type: ignore[attr-defined]


@way
def commands_that_never_run() -> None:
    gate = cl.UserEvent(pydp.device().context)
    sys.kept = gate, pydp.sort(made(), wait_for=gate)  # type: ignore[attr-defined]


@way
def pending_work_behind_other_queues() -> None:
    device = pydp.device()
    gate = cl.UserEvent(device.context)
    field = watched(pydp.field(np.ones(N, np.float32)))
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE & device.cl.queue_properties
    for properties in (0, mode):
        other = cl.CommandQueue(device.context, device.cl, properties=properties)
        field = watched(pydp.sort(field, queue=other, wait_for=gate))
    sys.kept = watched(field + 1)  # type: ignore[attr-defined]
    gate.set_status(cl.command_execution_status.COMPLETE)
    sys.exit(0)


if __name__ == "__main__":
    cl.Buffer = Buffer
    WAYS[sys.argv[1]]()
