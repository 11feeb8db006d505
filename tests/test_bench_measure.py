"""How benchmarks take turns, and the memory that limits are measured on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from pydp.bench import measure
from pydp.bench.limits import Limits
from pydp.bench.measure import alternating

import pydp


def test_candidates_take_turns_in_changing_order() -> None:
    calls: list[str] = []
    names = "abcde"
    alternating({name: lambda name=name: calls.append(name) for name in names}, repeats=6, budget=1e9)
    turns = [one for one, before in zip(calls, ["", *calls[:-1]], strict=True) if one != before]
    rounds = ["".join(turns[at : at + 5]) for at in range(5, len(turns), 5)]
    assert turns[:5] == list(names) and len(set(rounds)) > 1
    assert all(calls.count(name) > 7 for name in names)  # each is repeated before it is timed


def test_a_call_whose_first_run_builds_kernels_is_repeated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    calls: list[float] = []

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    def call() -> None:
        calls.append(now[0])
        pass_by(1.0 if len(calls) == 1 else 0.01)

    clock = SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: 0.0, sleep=pass_by)
    monkeypatch.setattr(measure, "time", clock)
    assert alternating({"call": call}, repeats=3)["call"] == pytest.approx(0.01)
    assert len(calls) == 1 + 1 + 2 * (3 + 1)  # the build; a round without repetitions; two rounds with 30 ms of them


def test_threads_that_spin_are_seen_between_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    def process_time() -> float:  # another thread computes until 0.1 s; its time is counted every 10 ms
        return min(now[0] // 0.01 * 0.01, 0.1)

    monkeypatch.setattr(
        measure, "time", SimpleNamespace(perf_counter=lambda: now[0], process_time=process_time, sleep=pass_by)
    )
    measure.wait_for_idle_threads()
    assert 0.1 < now[0] < 0.14
    monkeypatch.setattr(measure.time, "process_time", lambda: now[0])
    measure.wait_for_idle_threads(limit=0.3)
    assert now[0] < 0.14 + 0.33


def test_limits_are_measured_on_the_given_arrays(device: Any) -> None:
    x = np.arange(1 << 18, dtype=np.float32)
    field, array = pydp.field(x, device=device), cl.array.zeros(device.queue, x.size, np.float32)
    small = pydp.zeros(4, device=device)
    limits = Limits(device)
    for copy in limits.copies(x.nbytes, field, array).values():
        copy()
        moved = int(copy.work) // 8
        assert 0 < moved <= x.size and np.array_equal(array.get()[:moved], x[:moved])
        array.fill(0)
    for read in limits.reads(x.nbytes, field).values():
        read()
    limits.copy(x.nbytes, small, small)()
    assert not small.get().any() and np.array_equal(field.get(), x)
    assert field._storage.array is None  # pydp still sees all uses of the memory
