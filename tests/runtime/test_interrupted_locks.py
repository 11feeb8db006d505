"""Code that runs with a lock held may be interrupted by a finalizer or a signal handler that does the same.

The interruption is put where the code calls a function: in place of the function comes one that does the same first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mako.lookup
import pyopencl as cl
import pytest

from pydp.runtime.device import core as device_core
from pydp.runtime.drivers import devices
from pydp.runtime.drivers import find as drivers
from pydp.runtime.drivers.devices import Device
from pydp.runtime.memory import queue_state
from pydp.runtime.programs import disk_bound, template
from pydp.tuning import store as stores
from pydp.tuning import tuned
from pydp.tuning.shape_class import ShapeClass
from pydp.tuning.store import Store, Trial

PARAMS = {"T": "int", "add": 3, "fail": False}
Interrupt = Callable[[Any, str, Callable[[], Any]], list[Any]]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Let the first call of an owner's function run something before; returns a list of its result."""

    def interrupt(owner: Any, name: str, work: Callable[[], Any]) -> list[Any]:
        before, results = getattr(owner, name), []

        def interrupted(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(owner, name, before)
            results.append(work())
            return before(*args, **options)

        monkeypatch.setattr(owner, name, interrupted)
        return results

    return interrupt


@pytest.mark.parametrize(("owner", "name"), [(template, "folder"), (mako.lookup, "Template")])
def test_rendering(interrupt: Interrupt, owner: Any, name: str) -> None:
    template.add_folder(Path(__file__).parent)
    expected = template.render("program.mako", PARAMS)
    template._lookup.cache_clear()
    nested = interrupt(owner, name, lambda: template.render("program.mako", PARAMS))
    assert template.render("program.mako", PARAMS) == expected and nested == [expected]


def test_the_state_of_a_queue(device: Device, interrupt: Interrupt) -> None:
    queue = cl.CommandQueue(device.context, device.cl)
    nested = interrupt(queue_state, "QueueState", lambda: queue_state.state_of(queue))
    assert queue_state.state_of(queue) is nested[0] is queue_state.state_of(queue)


def test_the_search_for_devices(interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch) -> None:
    known = drivers.raw_devices()
    monkeypatch.setattr(drivers, "_found", None)
    monkeypatch.setattr(drivers, "_query", lambda: list(known))
    nested = interrupt(drivers, "_query", drivers.raw_devices)
    assert drivers.raw_devices() == nested[0] == known
    monkeypatch.setattr(devices, "_all", None)
    nested = interrupt(drivers, "raw_devices", devices.all_devices)
    assert list(map(id, devices.all_devices())) == list(map(id, nested[0])) != []


def test_a_devices_first_context_and_queue(device: Device, interrupt: Interrupt) -> None:
    fresh = Device(device.cl)
    nested = interrupt(cl, "Context", lambda: fresh.queue)
    assert fresh.queue is nested[0] and fresh.queue.context == fresh.context
    assert isinstance(fresh, device_core.DeviceCore)


def test_notes_of_written_files(tmp_path: Path, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(find=disk_bound._since.find, put=disk_bound._since.put)
    monkeypatch.setattr(disk_bound, "_since", found)
    nested = interrupt(found, "find", lambda: disk_bound.written(tmp_path / "failed" / "a", 1))
    disk_bound.written(tmp_path / "failed" / "b", 1)
    assert nested == [None]


def test_the_library_of_tuning_results(interrupt: Interrupt) -> None:
    tuned.reread()
    nested = interrupt(tuned, "_Library", tuned._known)
    assert tuned._known().folder == nested[0].folder


def test_a_store_is_read_while_it_is_read_or_written(tmp_path: Path, interrupt: Interrupt) -> None:
    shape = ShapeClass("k", "float32", (1,))
    trials = [Trial(shape, {"tile": number}, 0.5) for number in range(3)]
    assert Store("dev", {}, tmp_path).add(trials[:1])
    store = Store("dev", {}, tmp_path)
    nested = interrupt(stores, "parse", store.trials)
    assert store.trials() == trials[:1] == nested[0]
    nested = interrupt(stores, "atomic_write", store.trials)
    assert store.add(trials[1:]) and store.trials() == trials == nested[0]


def test_what_is_added_while_a_store_is_written_is_not_lost(
    tmp_path: Path, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LOCK_SECONDS", 0.01)
    shape = ShapeClass("k", "float32", (1,))
    trials = [Trial(shape, {"tile": number}, 0.5) for number in range(2)]
    store = Store("dev", {}, tmp_path)
    nested = interrupt(stores, "atomic_write", lambda: store.add(trials[1:]))
    assert store.add(trials[:1]) and nested == [False]
    assert store.trials() == trials
    assert store.keep() and Store("dev", {}, tmp_path).trials() == trials
