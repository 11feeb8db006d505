"""Fixtures of the tests of tuning: a cache, a clock and a device of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toy_tuning as toy

from pydp.tuning import store, trial, tuned, tuner


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that only a hanging candidate reaches, however busy the machine is."""
    monkeypatch.setattr(trial, "LIMIT", 300.0)
    monkeypatch.setattr(trial, "_STOPPING", 300.0)
    monkeypatch.setattr(store, "LOCK_SECONDS", 300.0)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing tuned, nothing shipped; races that end soon."""
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuned, "STARTER", tmp_path / "none")
    monkeypatch.setattr(tuner, "_FINAL_SECONDS", 0.2)
    monkeypatch.setattr(tuner, "_AGAIN_SECONDS", 0.05)
    toy.RUNS.clear()
    yield
    tuned._renewed()


@pytest.fixture
def toys(own_cache: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device of `toy_tuning`. Its specializations take exactly as long as they say by the clock of the tuner and of
    trials, whatever else the machine does, and no time by any other."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    clock = SimpleNamespace(sleep=sleep, perf_counter=lambda: now, monotonic=lambda: now)
    for module in (toy, trial, tuner):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(tuned, "device_info", toy.device_info)
    return toy.device()
