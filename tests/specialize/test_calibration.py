"""The one-off measurement: plausible figures, kept per driver, measured again where the file is damaged."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pydp.runtime import cache
from pydp.specialize import calibration
from pydp.specialize.architectures import by_target, rates_of
from pydp.specialize.calibration import best_of, calibrate, calibrated, dump, kept, parse, path_of
from pydp.specialize.rates import Rates

RATES = rates_of(by_target("avx512")[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any) -> Any:
    """An empty cache folder, and a device that knows of no calibration before and after."""
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_said", set())
    keys = (calibration._KEY, calibration._DONE)
    before = {key: device.kernels.pop(key) for key in keys if key in device.kernels}
    yield tmp_path
    _another_process(device)
    device.kernels.update(before)


def _plain(rates: Rates) -> dict[str, float]:
    return {name: value for name, value in rates.as_dict().items() if name != "source"}


def _figures(rates: Rates) -> Any:
    """For comparing: what is computed of sums may be off by a rounding."""
    return pytest.approx(_plain(rates))


def _another_process(device: Any) -> None:
    """Forgets what this process knows of the device's calibration."""
    for key in (calibration._KEY, calibration._DONE):
        device.kernels.pop(key, None)


@pytest.mark.oclgrind
def test_a_process_measures_a_device_once(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(device) is None
    found = calibrate(device)
    assert found.units == device.profile.compute_units
    assert found.source == "measured"
    assert found.unit_memory <= found.memory_read
    assert path_of(device).is_relative_to(folder)
    monkeypatch.setattr(calibration, "_measured", lambda device: pytest.fail("measured again"))
    assert calibrated(device) == found
    _another_process(device)
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
    _another_process(device)
    assert kept(device) is None
    _another_process(device)
    assert calibrated(device) == RATES
    _another_process(device)
    assert kept(device) == RATES


def test_the_first_processes_measure_and_the_best_stays(
    folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine is busy at times; what disturbs only adds."""
    busy = replace(RATES, memory_read=RATES.memory_read / 5, launch=RATES.launch * 3)
    late = replace(RATES, float32=RATES.float32 / 2)
    measured = [busy, RATES, late]
    monkeypatch.setattr(calibration, "_measured", lambda device: measured.pop(0))
    for want in (busy, RATES, RATES, RATES):
        found = calibrated(device)
        assert found == calibrated(device) and _plain(found) == _figures(want)
        _another_process(device)
    assert not measured
    # A file of an earlier version counts as one measurement.
    record = json.loads(dump(busy, device.driver_version))
    del record["times"], record["sum"]
    path_of(device).write_text(json.dumps({**record, "sum": calibration._checksum(record)}))
    measured.append(RATES)
    assert _plain(calibrated(device)) == _figures(RATES) and not measured


@pytest.mark.host
def test_the_best_of_two_measurements() -> None:
    busy = replace(RATES, float32=RATES.float32 / 2, integer=RATES.integer * 2, group=RATES.group / 2, signal=1e-3)
    want = _figures(replace(RATES, integer=RATES.integer * 2, group=RATES.group / 2))
    assert _plain(best_of(RATES, busy)) == want and _plain(best_of(RATES, replace(busy, float32=1.0))) == want
    # A work-item and its barrier took 1.5 us, then 1.3, then 1.2.
    one = replace(RATES, float32=1e9, lane_slowdown=2.0, barrier=1e-6)
    two = replace(one, float32=4e9, lane_slowdown=4.0)
    assert _plain(best_of(one, two)) == _plain(best_of(two, one)) == _figures(two)
    three = replace(one, float32=2e9, lane_slowdown=1.5)
    both = best_of(two, three)
    assert (both.float32, both.barrier, both.lane_slowdown) == (4e9, 1e-6, 3.0)
    gpu = replace(RATES, lane_slowdown=1.0)
    assert best_of(gpu, replace(gpu, float32=gpu.float32 * 2)).lane_slowdown == 1.0


@pytest.mark.host
def test_what_is_written_is_told_of_the_best_copy_and_the_best_reading() -> None:
    """A run that read slowly takes all of a copy's time for reading, and writing for fast."""
    quiet = replace(RATES, memory_read=60e9, memory_write=30e9)
    disturbed = replace(RATES, memory_read=7e9, memory_write=28e9)
    assert best_of(quiet, disturbed).memory_write == best_of(disturbed, quiet).memory_write == pytest.approx(30e9)
    assert best_of(quiet, replace(quiet, memory_write=20e9)).memory_write == pytest.approx(30e9)
    fast = best_of(replace(quiet, memory_read=30e9, memory_write=60e9), quiet)  # 20e9 copied in both
    assert (fast.memory_read, fast.memory_write) == (60e9, pytest.approx(30e9))


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
