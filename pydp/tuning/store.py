"""The store of measured specializations: one JSON file for each device and driver, in the user's cache folder.

A file is replaced as a whole under a lock. The lock is held for milliseconds; a writer waits for it for at most two
seconds. Readers take no lock and see the old file or the new one. Every trial has its own checksum. An unreadable file
(truncated, damaged, of another version, of another user) counts as a miss and writes one line to the log. If a file
cannot be written (a read-only or full disk, a held lock), the results are kept for this process, with one line in the
log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydp.errors import InvalidArgument
from pydp.runtime.forks import fork_safe
from pydp.runtime.programs.files import atomic_write, cache_dir, log_once, make_folder, read
from pydp.tuning.shape_class import ShapeClass

SCHEMA = "pydp-tuned-1"
LOCK_SECONDS = 2.0
TUNED, SEARCHES = "tuned", "searches"  # folders: winners, and the trials of unfinished searches
_MOST_UNSAVED = 1 << 14  # trials, and classes, that a process keeps if they cannot be written
_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")


@dataclass(frozen=True)
class Unfinished:
    """The state of a trial without a result.

    ended: number of earlier processes that ended while they ran it. process: id of the process that runs it; None if it
    was stopped. start: start time of that process; None if unknown. machine: name of that process's machine.
    """

    ended: int = 0
    process: int | None = None
    start: str | None = None
    machine: str = ""


_STATE_TYPES = {"ended": (int,), "process": (int, type(None)), "start": (str, type(None)), "machine": (str,)}


@dataclass(frozen=True)
class Trial:
    """The measurement of one candidate of one shape class.

    spec: the specialization's fields. ratio: its time divided by the untuned choice's time in the same run (below 1 is
    faster; 1 for the untuned choice itself), or None if it failed. failure: the reason of a failure. The result of a
    trial with a ratio was verified. imported: the name of the imported file; "" if measured on this machine.
    unfinished: the state of a trial that has neither ratio nor failure.
    """

    shape: ShapeClass
    spec: Mapping[str, Any]
    ratio: float | None
    failure: str | None = None
    imported: str = ""
    unfinished: Unfinished | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """The key of the trial: a later trial of the same candidate replaces it."""
        return str(self.shape), spec_text(self.spec)


Trials = dict[tuple[str, str], Trial]


def spec_text(spec: Mapping[str, Any]) -> str:
    """A specialization's fields as text; equal fields give equal text."""
    return json.dumps(dict(spec), sort_keys=True)


class Store:
    """The trials of one device. `name` is the file's name; `device_info` describes the device."""

    def __init__(self, name: str, device_info: Mapping[str, str], folder: Path | None = None) -> None:
        if not _NAME.match(name):
            raise InvalidArgument(f"the store's name is {name!r}; letters, digits, '.', '_' and '-' are accepted")
        self.name = name
        self.device_info = dict(device_info)
        self.path = (folder if folder is not None else cache_dir() / TUNED) / f"{name}.json"
        self._lock = fork_safe(threading.RLock())  # reentrant: a finalizer or a signal handler may read the store
        self._stamp: tuple[int, int, int] | None = None
        self._trials: Trials = {}
        self._replaced: dict[ShapeClass, object] = {}  # classes whose trials in the file are to be removed
        self._unsaved: Trials = {}  # trials to be added then

    def trials(self, shape: ShapeClass | None = None) -> list[Trial]:
        """The trials of one shape class, or of all."""
        with self._lock:
            self._refresh()
            found = self._merged()
        return [trial for trial in found.values() if shape is None or trial.shape == shape]

    def best(self, shape: ShapeClass) -> Trial | None:
        """The fastest verified trial of a shape class; the first one if several are equal."""
        measured = [trial for trial in self.trials(shape) if trial.ratio is not None]
        return min(measured, key=lambda trial: trial.ratio or 0.0, default=None)

    def add(self, trials: Iterable[Trial]) -> bool:
        """Add trials to those of other processes. Return False if they are kept for this process only."""
        return self._change(None, trials)

    def replace_class(self, shape: ShapeClass, trials: Iterable[Trial]) -> bool:
        """Replace all trials of a shape class. Return False if they are kept for this process only."""
        return self._change(shape, trials)

    def keep(self) -> bool:
        """Try again to write unsaved trials. Return whether all trials of this process are on disk."""
        with self._lock:
            waiting = bool(self._unsaved or self._replaced)
        return not waiting or self.add([])

    def _change(self, gone: ShapeClass | None, trials: Iterable[Trial]) -> bool:
        """Add trials; first remove the earlier trials of class `gone`."""
        found = list(trials)
        with self._lock:
            if gone is not None:
                self._replaced[gone] = object()
                self._unsaved = {identity: one for identity, one in self._unsaved.items() if one.shape != gone}
            self._unsaved.update({one.identity: one for one in found})
            saved = self._save()
            if not saved:
                self._bound_unsaved()
        return saved

    def _save(self) -> bool:
        from filelock import FileLock, Timeout

        if not make_folder(self.path.parent):
            return False
        try:
            lock = FileLock(f"{self.path}.lock", timeout=LOCK_SECONDS, poll_interval=0.002, mode=0o600)
            with lock:
                if not self._refresh(anew=True):  # read first, so that results of other processes are not lost
                    return False
                replaced, unsaved, merged = dict(self._replaced), dict(self._unsaved), self._merged()
                saved = atomic_write(self.path, dump(self.device_info, merged.values()))
        except Timeout:
            log_once(f"{self.path} is locked for over {LOCK_SECONDS:.0f} s; results are kept for this process only")
            return False
        except (OSError, NotImplementedError) as error:  # filelock raises the latter if a file system has no locks
            reason = getattr(error, "strerror", None) or error
            log_once(f"cannot keep files in {self.path.parent}: {reason}; going on without")
            return False
        if saved:  # a finalizer or a signal handler may have added changes meanwhile
            self._trials = merged
            self._replaced = {one: mark for one, mark in self._replaced.items() if replaced.get(one) is not mark}
            self._unsaved = {one: trial for one, trial in self._unsaved.items() if unsaved.get(one) is not trial}
            self._stamp = stamp(self.path)
        return saved

    def _bound_unsaved(self) -> None:
        """Forgets the oldest of too much that cannot be written."""
        while len(self._replaced) > _MOST_UNSAVED:
            del self._replaced[next(iter(self._replaced))]
        if len(self._unsaved) > _MOST_UNSAVED:
            log_once(f"{self.path} cannot be written; of over {_MOST_UNSAVED} results the oldest are forgotten")
        while len(self._unsaved) > _MOST_UNSAVED:
            del self._unsaved[next(iter(self._unsaved))]

    def _merged(self) -> Trials:
        """The file's trials with this process's unsaved changes."""
        kept = {identity: trial for identity, trial in self._trials.items() if trial.shape not in self._replaced}
        return {**kept, **self._unsaved}

    def _refresh(self, anew: bool = False) -> bool:
        """Read the file if it has changed, or always with `anew`. Return False if it exists but cannot be read."""
        now = stamp(self.path)
        if now == self._stamp and not anew:
            return True
        data = read(self.path) if now is not None else None
        _, found = parse(data, str(self.path)) if data is not None else ({}, [])
        self._trials = {trial.identity: trial for trial in found}
        self._stamp = now if data is not None else None  # read an unreadable file again next time
        return data is not None or stamp(self.path) is None


def stamp(path: Path) -> tuple[int, int, int] | None:
    """A value that differs between two versions of a file; None if there is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def load(path: Path, *, of_package: bool = False) -> tuple[dict[str, str], list[Trial]]:
    """(device_info, trials) of a store's file in the cache or in the package; empty if it is not read."""
    data = read(path, of_package=of_package)
    return parse(data, str(path)) if data is not None else ({}, [])


def dump(device_info: Mapping[str, str], trials: Iterable[Trial]) -> bytes:
    """The bytes of a store's file; equal trials give equal bytes."""
    return (json.dumps(document(device_info, trials), indent=1, sort_keys=True) + "\n").encode()


def document(device_info: Mapping[str, str], trials: Iterable[Trial]) -> dict[str, Any]:
    """A store as a JSON document."""
    records = [_record(trial) for trial in sorted(trials, key=lambda trial: trial.identity)]
    return {"schema": SCHEMA, "about": _signed(device_info), "trials": records}


def _record(trial: Trial) -> dict[str, Any]:
    record = {**trial.shape.fields(), "spec": dict(trial.spec), "ratio": trial.ratio, "failure": trial.failure}
    if trial.imported:
        record["imported"] = trial.imported
    if trial.unfinished is not None:
        record["unfinished"] = dict(vars(trial.unfinished))
    return _signed(record)


def parse(data: bytes, name: str) -> tuple[dict[str, str], list[Trial]]:
    """(device_info, trials) of a store's bytes. Damaged or foreign parts are left out, with one line in the log."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        log_once(f"{name} cannot be read ({type(error).__name__}); it is not used")
        return {}, []
    return parse_document(found, name)


def parse_document(found: Any, name: str) -> tuple[dict[str, str], list[Trial]]:
    """(device_info, trials) of a store's JSON document."""
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        log_once(f"{name} is not of the form {SCHEMA}; it is not used", level=logging.INFO)
        return {}, []
    device_info, records = _unsigned(found.get("about")), found.get("trials")
    if (
        device_info is None
        or not isinstance(records, list)
        or not all(isinstance(text, str) for text in device_info.values())
    ):
        log_once(f"{name} is damaged; it is not used")
        return {}, []
    trials = [trial for trial in map(_trial, records) if trial is not None]
    if len(trials) < len(records):
        log_once(f"{name} has {len(records) - len(trials)} damaged trial(s); they are not used")
    return device_info, trials


def _trial(record: Any) -> Trial | None:
    """The trial of a JSON record; None if the checksum or a type is wrong."""
    values = _unsigned(record)
    if values is None:
        return None
    try:
        spec, ratio, failure = values.pop("spec"), values.pop("ratio"), values.pop("failure")
        imported, state = values.pop("imported", ""), values.pop("unfinished", None)
        shape = ShapeClass.from_fields(values)
    except (KeyError, TypeError, ValueError):
        return None
    measured = isinstance(ratio, float) and math.isfinite(ratio) and ratio > 0 and failure is None
    plain = isinstance(spec, dict) and not any(isinstance(value, dict | list) for value in spec.values())
    failed, begun = ratio is None and isinstance(failure, str), ratio is failure is None and _is_state(state)
    if not plain or not (begun or ((measured or failed) and state is None)) or not isinstance(imported, str):
        return None
    return Trial(shape, spec, ratio, failure, imported, Unfinished(**state) if begun else None)


def _is_state(values: Any) -> bool:
    """Whether a JSON value has the fields of `Unfinished`."""
    named = isinstance(values, dict) and values.keys() == _STATE_TYPES.keys()
    return named and all(type(values[name]) in types for name, types in _STATE_TYPES.items())


def _signed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, "sum": _checksum(values)}


def _unsigned(values: Any) -> dict[str, Any] | None:
    """The values without their checksum; None if it is wrong or missing."""
    if not isinstance(values, dict):
        return None
    kept = {name: value for name, value in values.items() if name != "sum"}
    try:
        return kept if values.get("sum") == _checksum(kept) else None
    except RecursionError:  # lists nested almost as deeply as the parser allows
        return None


def _checksum(values: Mapping[str, Any]) -> str:
    text = json.dumps(dict(values), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
