"""The one-off measurement: plausible figures, kept per driver, measured again where the file is damaged."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pydp.model import calibration
from pydp.model.architectures import by_target, rates_of
from pydp.model.calibration import Meter, best_of, calibrate, calibrated, dump, kept, measured, parse, path_of
from pydp.model.rates import Rates
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.programs import files as cache

RATES = rates_of(by_target("avx512")[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any) -> Any:
    """An empty cache folder, and a device that knows of no calibration before and after."""
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_said", BoundedCache(64))
    keys = (calibration._KEY, calibration._DONE)
    before = {key: device.facts.pop(key) for key in keys if key in device.facts}
    yield tmp_path
    _another_process(device)
    device.facts.update(before)


def _plain(rates: Rates) -> dict[str, float]:
    return {name: value for name, value in rates.as_dict().items() if name != "source"}


def _figures(rates: Rates) -> Any:
    """For comparing: what is computed of sums may be off by a rounding."""
    return pytest.approx(_plain(rates))


def _another_process(device: Any) -> None:
    """Forgets what this process knows of the device's calibration."""
    for key in (calibration._KEY, calibration._DONE):
        device.facts.pop(key, None)


@pytest.mark.oclgrind
def test_a_process_measures_a_device_once(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept(device) is None
    found = calibrate(device)
    assert found.units == device.profile.compute_units
    assert found.source == "measured"
    assert found.unit_memory <= found.memory_read
    assert path_of(device).is_relative_to(folder)
    monkeypatch.setattr(calibration, "measured", lambda device: pytest.fail("measured again"))
    assert calibrated(device) == found
    _another_process(device)
    assert kept(device) == found


def test_nothing_is_measured_by_looking(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "measured", lambda device: pytest.fail("measured"))
    assert kept(device) is None
    assert kept(device) is None
    assert not list(folder.iterdir())


def test_a_damaged_file_is_measured_again(folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "measured", lambda device: RATES)
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
    """A machine is busy at times; disturbances only add time."""
    busy = replace(RATES, memory_read=RATES.memory_read / 5, launch=RATES.launch * 3)
    late = replace(RATES, float32=RATES.float32 / 2)
    measured = [busy, RATES, late]
    monkeypatch.setattr(calibration, "measured", lambda device: measured.pop(0))
    for want in (busy, RATES, RATES, RATES):
        found = calibrated(device)
        assert found == calibrated(device) and _plain(found) == _figures(want)
        _another_process(device)
    assert not measured
    # A file without a count has one measurement.
    record = json.loads(dump(busy, device.driver_version))
    del record["times"], record["sum"]
    path_of(device).write_text(json.dumps({**record, "sum": calibration._checksum(record)}))
    measured.append(RATES)
    assert _plain(calibrated(device)) == _figures(RATES) and not measured


def test_what_another_process_has_kept_meanwhile_stays(
    folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = replace(RATES, float32=RATES.float32 / 2, memory_read=RATES.memory_read / 2)
    other = replace(busy, memory_read=RATES.memory_read)
    for before in (None, busy):
        path_of(device).unlink(missing_ok=True)
        _another_process(device)
        if before is not None:
            path_of(device).write_bytes(dump(before, device.driver_version))
        assert kept(device) == before

        def measured(device: Any) -> Rates:
            path_of(device).parent.mkdir(exist_ok=True)
            path_of(device).write_bytes(dump(other, device.driver_version, 1))
            return replace(busy, float32=RATES.float32)

        monkeypatch.setattr(calibration, "measured", measured)
        assert _plain(calibrate(device)) == _figures(RATES)
        _another_process(device)
        found = kept(device)
        assert found is not None and _plain(found) == _figures(RATES)
        assert json.loads(path_of(device).read_bytes())["times"] == 2


def test_what_a_process_has_measured_stays_without_a_file(
    folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = replace(RATES, float32=RATES.float32 / 2, memory_read=RATES.memory_read / 2)
    measured = [replace(busy, float32=RATES.float32), replace(busy, memory_read=RATES.memory_read)]
    monkeypatch.setattr(calibration, "measured", lambda device: measured.pop())
    monkeypatch.setattr(calibration, "atomic_write", lambda *_: False)
    calibrate(device)
    assert _plain(calibrate(device)) == _figures(RATES) == _plain(calibrated(device))


def test_a_pass_whose_launches_were_disturbed_makes_nothing_better(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch is subtracted from all other times: one that took long must not stay in the figures."""
    true = {"calibrate_empty": 1e-5, "calibrate_lanes": 8e-5, "limit_peak": 3e-4, "calibrate_cache": 2e-4}
    slow: set[tuple[int, str]] = set()  # (a pass, a kernel that was disturbed in it)
    passes, paused = [0], iter([1e-5, *[5e-5] * 23, 9e-3] * 8)
    run: set[Any] = set()  # (a pass, what ran in it): the first turn of the peak goes slowly
    slept: list[float] = []

    def once(meter: Any, kernel: Any, items: int, group: int, args: Any) -> float:
        if passes[0] > meter.rounds:
            return next(paused) if slept.pop() > 1e-3 else 1e-5
        took = true.get(kernel.name, 2e-3) + 1e-7 * (items if kernel.name == "calibrate_empty" else 0)
        first = (passes[0], kernel, items, *args) not in run
        run.add((passes[0], kernel, items, *args))
        return took + 6e-5 * ((passes[0], kernel.name) in slow) + 3e-5 * (first and kernel.name == "limit_peak")

    groups, launch = Meter.groups, Meter.launch

    def counted(of: Any) -> Any:
        def count(meter: Any) -> Any:
            passes[0] += 1
            return of(meter)

        return count

    monkeypatch.setattr("pydp.model.calibration.time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(Meter, "_once", once)
    monkeypatch.setattr(Meter, "groups", counted(groups))
    monkeypatch.setattr(Meter, "launch", counted(launch))
    found = []
    for disturbed in ((), (1, 2, 3), (2, 3, 4)):
        passes[0] = 0
        run.clear()
        slow = {(one, "calibrate_empty") for one in disturbed} | {(1, "limit_peak"), (2, "calibrate_lanes")}
        found.append(measured(device))
    assert found[0].launch == pytest.approx(5e-5) and not slept
    assert found[0].float32 == pytest.approx(_peak(device, 3e-4 - 1e-5 - 1e-7))
    assert _plain(found[1]) == _plain(found[2]) == _figures(found[0])


def _peak(device: Any, seconds: float) -> float:
    """Operations per second of a unit, where the kernel of the peak takes so long beyond its launch."""
    meter = Meter(device)
    items = meter.units * 4 if meter.vector else meter.items
    width = max(1, device.profile.simd_bytes // 4) if meter.vector else 1
    return 2.0 * items * width * 12 * 4 * 10000 / seconds / meter.units


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


def _signed(data: bytes, **values: Any) -> bytes:
    """The same with the checksum that belongs to it."""
    record = json.loads(_changed(data, **values))
    del record["sum"]
    return _changed(data, **values, sum=calibration._checksum(record))


@pytest.mark.parametrize("times", [None, True, "many", "", [], {}, float("inf"), float("nan"), -5, 0, 1.5, 1e308])
def test_junk_for_a_count_is_a_measurement(
    folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch, times: Any
) -> None:
    path_of(device).parent.mkdir()
    path_of(device).write_bytes(_signed(dump(RATES, device.driver_version), times=times))
    assert kept(device) == RATES
    monkeypatch.setattr(calibration, "measured", lambda device: RATES)
    assert _plain(calibrate(device)) == _figures(RATES)
    assert json.loads(path_of(device).read_bytes())["times"] >= 2


def test_what_a_signed_file_claims_never_reaches_a_user(
    folder: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "measured", lambda device: RATES)
    path_of(device).parent.mkdir()
    for value in (5e-324, 1e-300, 1.0, 9.99e17, 10**17):
        for names in [[name] for name in _plain(RATES) if name != "units"] + [
            [n for n in _plain(RATES) if n != "units"]
        ]:
            _another_process(device)
            claimed = {**RATES.as_dict(), **dict.fromkeys(names, value)}
            path_of(device).write_bytes(_signed(dump(RATES, device.driver_version), rates=claimed))
            assert kept(device) is not None
            assert calibrate(device).units == RATES.units


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
        _signed(dump(RATES, "3.1"), schema="pydp-calibration-1"),  # another launch was measured
        _changed(dump(RATES, "3.1"), rates={}),
        _changed(dump(RATES, "3.1"), sum="0"),
    ],
)
def test_what_cannot_be_trusted_is_not_used(
    data: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_said", BoundedCache(64))
    with caplog.at_level(logging.WARNING, "pydp"):
        assert parse(data, "3.1") is None
    assert len(caplog.records) == 1
