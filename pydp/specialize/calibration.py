"""The one-off measurement of a device's rates by micro-kernels, kept in the cache folder per device and driver.

Nothing here runs by itself on a call's path: :func:`kept` only reads what an earlier :func:`calibrate` has left. The
tuner and ``pydp bench --specializations`` calibrate; everything else goes by the table of architectures until then.
What disturbs a measurement only adds to its times, so that the first few processes measure, and the best figures stay:
a calibration made while the machine was busy is mended by the next.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydp.runtime.cache import atomic_write, cache_dir, log_once, read
from pydp.specialize.choices import forget
from pydp.specialize.meter import best_of, measured
from pydp.specialize.rates import Rates, from_dict

if TYPE_CHECKING:
    from pydp.runtime.device import Device

SCHEMA = "pydp-calibration-2"
_KEY = "calibration"  # of a device's facts
_DONE = "calibrated"  # this process has measured
_TIMES = 3  # measurements that a file's rates are the best of before it is taken as it is


def path_of(device: Device) -> Path:
    """The file that a device's calibration is kept in. Part of its name is how many units this process may use: the
    rates are those of so many."""
    return cache_dir() / "calibration" / f"{device.uid}-{device.profile.compute_units}.json"


def kept(device: Device) -> Rates | None:
    """The measured rates of a device, None where it was not calibrated; the file is read once in a process."""
    found = device.facts.get(_KEY)
    if found is None:
        data = read(path_of(device))
        found = device.facts[_KEY] = (parse(data, device.driver_version) if data is not None else None,)
    assert isinstance(found, tuple)
    rates = found[0]
    assert rates is None or isinstance(rates, Rates)
    return rates


def calibrated(device: Device) -> Rates:
    """The kept rates; measured now where there are none, or where fewer than three processes have measured them."""
    found = kept(device)
    if found is not None and (_DONE in device.facts or _times(device) >= _TIMES):
        return found
    return calibrate(device)


def calibrate(device: Device) -> Rates:
    """Measures the rates of a device (less than a second once the micro-kernels are built), keeps the best of them and
    of those kept before, and forgets the choices that were made without them. A folder that cannot be written costs one
    line in the log."""
    rates, before = measured(device), kept(device)
    device.facts.pop(_KEY, None)  # what other processes have left since is in the file
    for known in (before, kept(device)):
        rates = rates if known is None else best_of(rates, known)
    times = _times(device)
    atomic_write(path_of(device), dump(rates, device.driver_version, times + 1))
    device.facts[_KEY] = (rates,)
    device.facts[_DONE] = True
    forget()
    return rates


def _times(device: Device) -> int:
    """How many measurements the kept file's rates are the best of; 0 where there are none."""
    data = read(path_of(device)) if kept(device) is not None else None
    try:
        return max(1, int(json.loads(data)["times"])) if data is not None else 0
    except (ValueError, KeyError, TypeError, OverflowError):  # no count, or no number
        return 1


def dump(rates: Rates, driver: str, times: int = 1) -> bytes:
    """The bytes of a calibration's file."""
    record: dict[str, Any] = {"schema": SCHEMA, "driver": driver, "rates": rates.as_dict(), "times": times}
    return (json.dumps({**record, "sum": _checksum(record)}, indent=1, sort_keys=True) + "\n").encode()


def parse(data: bytes, driver: str) -> Rates | None:
    """Rates of a file's bytes; None, with one line in the log, for damaged ones and for another driver's."""
    try:
        record = json.loads(data)
        found = record.pop("sum")
        if record["schema"] != SCHEMA or record["driver"] != driver or found != _checksum(record):
            log_once("a kept calibration is of another driver or form, or damaged; it is not used")
            return None
        return from_dict(record["rates"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log_once(f"a kept calibration cannot be read ({type(error).__name__}); it is not used")
        return None


def _checksum(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]
