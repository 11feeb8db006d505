"""What the tests of tuning share: a cache of their own, short last races, and a device that is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toy_tuning as toy

from pydp.specialize import trial, tuned, tuner


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
    """The device of `toy_tuning`."""
    monkeypatch.setattr(tuned, "about", toy.about)
    return toy.device()


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy's specializations take exactly as long as they say, whatever else the machine does, and no time."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(toy, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(trial, "time", SimpleNamespace(perf_counter=lambda: now))
