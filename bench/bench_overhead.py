"""The time of a warm call beyond the driver's own time: pydp against the same commands through pyopencl.

A call is recorded once: its kernels with their arguments, its fills and copies. Then calls of pydp and the recorded
commands alternate, each on a queue that was idle for 100 microseconds. (Without the pause, the faster of the two would
find the driver's threads awake, and the slower one would pay for waking them.) With Fields a call returns after the
enqueue; with NumPy arrays both wait for the results.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyopencl as cl
from pydp.bench.measure import Row

import pydp
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel

_ROUNDS = 800
_IDLE_SECONDS = 1e-4  # before each call: the driver's threads are then asleep
Command = Callable[[Any], Any]


@contextmanager
def _recorded(commands: list[Command]) -> Iterator[None]:
    """Record what the calls in the block enqueue; each command enqueues the same on a queue."""
    enqueue, other = Kernel.enqueue, Call.enqueue

    def note_kernel(self: Kernel, queue: Any, size: Any, group: Any, args: Any, *more: Any, **named: Any) -> Any:
        copy = cl.Kernel(self.program.cl, self.name)
        copy.set_args(*args)
        held = (copy, args)  # the driver does not keep the arguments' memory
        commands.append(lambda q: cl.enqueue_nd_range_kernel(q, held[0], size, group))
        return enqueue(self, queue, size, group, args, *more, **named)

    def note_command(self: Call, command: Any, *args: Any, **options: Any) -> Any:
        buffers = [getattr(one, "buffer", one) for one in args]
        commands.append(lambda q: command(q, *buffers, **options))
        return other(self, command, *args, **options)

    Kernel.enqueue, Call.enqueue = note_kernel, note_command  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Kernel.enqueue, Call.enqueue = enqueue, other  # type: ignore[method-assign]


def _add(a: Any, b: Any) -> Any:
    result = a + b
    assert result.event is not None  # computes it
    return result


def _cases(device: pydp.Device) -> list[tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]]:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(256).astype(np.float32) for _ in range(2))
    a, b = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))

    def double(idx: Any, out: Any, x: Any) -> None:
        out[idx] = 2 * x[idx]

    return [
        ("matmul", lambda p, q: pydp.matmul(p, q, device=device), (a, b)),
        ("scan", lambda p: pydp.scan(p, device=device), (x,)),
        ("reduce", lambda p: pydp.reduce(p, device=device), (x,)),
        ("sort", lambda p: pydp.sort(p, device=device), (x,)),
        ("forall", lambda p, q: pydp.forall(256, double, p, q, device=device), (y, x)),
        ("X + Y", _add, (x, y)),
    ]


def _measure(call: Callable[[], Any], device: pydp.Device, waits: bool) -> tuple[float, float]:
    """(seconds of a call, seconds of its commands through pyopencl): medians of the thread's processor time."""
    commands: list[Command] = []
    queue = device.queue
    call()
    device.recordings.clear()
    with _recorded(commands):
        kept = call()
    for _ in range(3):
        call()
    queue.finish()

    def raw() -> None:
        for command in commands:
            command(queue)
        if waits:
            queue.finish()

    times: dict[Any, list[float]] = {call: [], raw: []}
    for _ in range(_ROUNDS):
        for one, spent in times.items():
            end = time.perf_counter() + _IDLE_SECONDS
            while time.perf_counter() < end:
                pass
            start = time.thread_time()
            result = one()
            spent.append(time.thread_time() - start)
            queue.finish()
            del result
    del kept  # the recorded commands write to its memory
    return statistics.median(times[call]), statistics.median(times[raw])


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """Warm calls of small arrays, with Fields and with NumPy arrays."""
    rows = []
    for name, function, arrays in _cases(device):
        fields = [pydp.field(one, device=device) for one in arrays]
        for kind, given in (("Fields", fields), ("NumPy", arrays)):
            if name == "X + Y" and kind == "NumPy":
                continue  # NumPy's own addition
            ours, raw = _measure(lambda f=function, g=given: f(*g), device, kind == "NumPy")  # type: ignore[misc]
            case, above = f"{name}, {kind}", (ours - raw) * 1e6
            rows.append(Row("overhead", case, device.name, ours, above, "us above", {"raw enqueue": raw / ours}))
    return rows
