"""The store of measured specializations: one JSON file for each device and driver, in the user's cache folder.

A file is replaced as a whole, under a lock that is held for milliseconds and waited for at most two seconds; readers
take no lock and see the old file or the new one. Every trial carries a checksum of its own. What cannot be read
(truncated, flipped bits, a version of another time, a file that is not ours) is a miss and one line in the log; what
cannot be written (a read-only or full disk, a lock that is held) is kept for this process and one line in the log.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydp.errors import InvalidArgument
from pydp.runtime.cache import atomic_write, cache_dir, log_once, read

SCHEMA = "pydp-tuned-1"
LOCK_SECONDS = 2.0
_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")


@dataclass(frozen=True)
class Trial:
    """One candidate of one shape class, as measured.

    spec: the specialization's fields. ratio: its time over the default's of the same run (below 1 is faster), None
    where it failed: then `failure` says why. The result of a trial with a ratio was verified.
    """

    key: str
    spec: Mapping[str, Any]
    ratio: float | None
    failure: str | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """What a later trial of the same candidate replaces."""
        return self.key, json.dumps(dict(self.spec), sort_keys=True)


class Store:
    """The trials of one device. `uid` names the file; `about` tells what the device is (see `device_about`)."""

    def __init__(self, uid: str, about: Mapping[str, str], folder: Path | None = None) -> None:
        if not _NAME.match(uid):
            raise InvalidArgument(f"the device's name {uid!r} is not accepted; letters, digits, '.', '_' and '-' are")
        self.uid = uid
        self.about = dict(about)
        self.path = (folder if folder is not None else cache_dir() / "tuned") / f"{uid}.json"
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._trials: dict[tuple[str, str], Trial] = {}
        self._unsaved: dict[tuple[str, str], Trial] = {}

    def trials(self, key: str | None = None) -> list[Trial]:
        """What is known, of one shape class or of all."""
        with self._lock:
            self._refresh()
            found = {**self._trials, **self._unsaved}
        return [trial for trial in found.values() if key is None or trial.key == key]

    def best(self, key: str) -> Trial | None:
        """The fastest verified trial of a shape class; of equal ones the first."""
        measured = [trial for trial in self.trials(key) if trial.ratio is not None]
        return min(measured, key=lambda trial: trial.ratio or 0.0, default=None)

    def add(self, trials: Iterable[Trial]) -> bool:
        """Keeps trials, those of other processes too; False where they are only kept for this process."""
        from filelock import FileLock, Timeout

        with self._lock:
            self._unsaved.update({trial.identity: trial for trial in trials})
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(str(self.path) + ".lock", timeout=LOCK_SECONDS, poll_interval=0.002):
                    self._stamp = None
                    self._refresh()
                    merged = {**self._trials, **self._unsaved}
                    saved = atomic_write(self.path, dump(self.about, merged.values()))
            except Timeout:
                log_once(f"{self.path} is locked for over {LOCK_SECONDS:.0f} s; results are kept for this process only")
                return False
            except OSError as error:
                log_once(f"cannot keep files in {self.path.parent}: {error.strerror or error}; going on without")
                return False
            if saved:
                self._trials, self._unsaved = merged, {}
                self._stamp = _stamp(self.path)
        return saved

    def _refresh(self) -> None:
        """Reads the file where it has changed since."""
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        data = read(self.path) if stamp is not None else None
        _, found = parse(data, str(self.path)) if data is not None else ({}, [])
        self._trials = {trial.identity: trial for trial in found}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def dump(about: Mapping[str, str], trials: Iterable[Trial]) -> bytes:
    """The bytes of a store's file, the same for the same trials."""
    records = [dataclasses.asdict(trial) for trial in sorted(trials, key=lambda trial: trial.identity)]
    for record in records:
        record["sum"] = _checksum(record)
    document = {"schema": SCHEMA, "about": dict(about), "trials": records}
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def parse(data: bytes, name: str) -> tuple[dict[str, str], list[Trial]]:
    """(about, trials) of a store's bytes. What is damaged or foreign is left out, with one line in the log."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            log_once(f"{name} is not of the form {SCHEMA}; it is not used", level=logging.INFO)
            return {}, []
        about = {str(k): str(v) for k, v in dict(document["about"]).items()}
        records = list(document["trials"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        log_once(f"{name} cannot be read ({type(error).__name__}); it is not used")
        return {}, []
    trials = [trial for trial in map(_trial, records) if trial is not None]
    if len(trials) < len(records):
        log_once(f"{name} has {len(records) - len(trials)} damaged trial(s); they are not used")
    return about, trials


def _trial(record: Any) -> Trial | None:
    """A trial of its JSON form; None where the checksum or a type is wrong."""
    try:
        kept = dict(record)
        if kept.pop("sum") != _checksum(kept):
            return None
        trial = Trial(**kept)
        fine = isinstance(trial.key, str) and isinstance(trial.spec, dict)
        fine = fine and (trial.ratio is None or (isinstance(trial.ratio, float) and trial.ratio > 0))
        return trial if fine else None
    except (KeyError, TypeError, ValueError):
        return None


def _checksum(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
