"""The one-off measurement: plausible figures, kept per driver, measured again where the file is damaged."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pydp.runtime import cache
from pydp.specialize import calibration
from pydp.specialize.architectures import by_target, rates_of
from pydp.specialize.calibration import calibrate, calibrated, dump, kept, parse, path_of

RATES = rates_of(by_target("avx512")[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any) -> Any:
    """An empty cache folder, and a device that knows of no calibration before and after."""
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_said", set())
    before = device.kernels.pop(calibration._KEY, None)
    yield tmp_path
    device.kernels.pop(calibration._KEY, None)
    if before is not None:
        device.kernels[calibration._KEY] = before


@pytest.mark.oclgrind
def test_a_device_is_measured_once(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(device) is None
    found = calibrate(device)
    assert found.units == device.profile.compute_units
    assert found.source == "measured"
    assert found.unit_memory <= found.memory_read
    assert path_of(device).is_relative_to(folder)
    monkeypatch.setattr(calibration, "_measured", lambda device: pytest.fail("measured again"))
    assert calibrated(device) == found
    device.kernels.pop(calibration._KEY)  # as in another process
    assert kept(device) == found


def test_nothing_is_measured_by_looking(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_measured", lambda device: pytest.fail("measured"))
    assert kept(device) is None
    assert kept(device) is None
    assert not list(folder.iterdir())


def test_a_damaged_file_is_measured_again(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_measured", lambda device: RATES)
    calibrate(device)
    path_of(device).write_bytes(path_of(device).read_bytes()[:-20])
    device.kernels.pop(calibration._KEY)
    assert kept(device) is None
    device.kernels.pop(calibration._KEY)
    assert calibrated(device) == RATES
    device.kernels.pop(calibration._KEY)
    assert kept(device) == RATES


@pytest.mark.host
def test_rates_of_fewer_units_are_kept_apart() -> None:
    """A process that may use one of two cores measures other rates under the same driver."""
    one: Any = SimpleNamespace(uid="cpu", profile=SimpleNamespace(compute_units=1))
    two: Any = SimpleNamespace(uid="cpu", profile=SimpleNamespace(compute_units=2))
    assert path_of(one) != path_of(two)


@pytest.mark.host
def test_files_go_there_and_back() -> None:
    assert parse(dump(RATES, "3.1"), "3.1") == RATES


def _changed(data: bytes, **values: Any) -> bytes:
    record = json.loads(data)
    record.update(values)
    return json.dumps(record).encode()


@pytest.mark.host
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\x00",
        dump(RATES, "3.0"),
        dump(RATES, "3.1").replace(b"table: avx512", b"table: avx511"),
        _changed(dump(RATES, "3.1"), schema="pydp-calibration-0"),
        _changed(dump(RATES, "3.1"), rates={}),
        _changed(dump(RATES, "3.1"), sum="0"),
    ],
)
def test_what_cannot_be_trusted_is_not_used(
    data: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_said", set())
    with caplog.at_level(logging.WARNING, "pydp"):
        assert parse(data, "3.1") is None
    assert len(caplog.records) == 1
