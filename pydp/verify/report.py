"""The report file of `pydp verify`: one JSON object, replaced as a whole after every step.

A reader therefore always finds a complete file, also if the process was killed while it wrote. The file is not a file
of the cache: it goes to other people, so it is written where and as the user asks.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydp.errors import InvalidArgument
from pydp.verify.check import Stage
from pydp.verify.text import line, speedup

SCHEMA = "pydp-verify-1"
NO_INTERFACE = "none"  # in place of the interface, if no device was usable
MOST_ATTEMPTS = 3  # attempts at a check, at most; a check that takes the whole command with it each time has failed
_FINAL = ("passed", "failed", "skipped")


class Report:
    """The results of one device, by stage and check.

    A result has a "status": "passed", "failed", "skipped" (the device lacks something), "unfinished" (no time) or
    "running". "attempts" counts the starts of the check, without those that ended for lack of time. If a check that has
    a result runs again and the command is killed, the result stays, and "killed" counts these starts; after
    MOST_ATTEMPTS the check has failed. "ran": the longest time in seconds that the check ran without ending. A failed
    check runs again in the next run of the command; "earlier" is the last failure that has another cause than a killed
    command, if there was one, else the result of the previous run. "depends on" names what the result depends on beside
    the device; if that has changed, the check runs again. about: the device, the versions and the interface that
    launches kernels; a file belongs to one device and one interface. A file that only says why no device was usable is
    replaced by a report of a device.
    """

    def __init__(self, path: Path, about: dict[str, Any], again: bool = False) -> None:
        self.path = path
        self.about = about
        self.results: dict[str, dict[str, dict[str, Any]]] = {}
        self.runs: list[dict[str, Any]] = []
        self._ran: set[tuple[str, str]] = set()
        if path.exists():
            found = load(path)  # also with `again`: only a report is replaced
            again = again or found["about"].get("interface") == NO_INTERFACE != about["interface"]
        if path.exists() and not again:
            if _identity(found["about"]) != _identity(about):
                raise InvalidArgument(
                    f"{path} is a report of {_identity(found['about'])}, not of {_identity(about)}. "
                    "Choose another --out, or replace it with --again."
                )
            self.results, self.runs = found["results"], found["runs"]
        self.runs.append({"began": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), "seconds": 0.0})
        for stage, checks in self.results.items():
            for check, result in checks.items():
                if result["status"] == "running":  # the process ended meanwhile
                    self.unfinished(stage, check, "the command was killed while this check ran", killed=True)
        self._ran.clear()
        self.write()

    def result(self, stage: str, check: str) -> dict[str, Any]:
        """The result of a check; empty if there is none."""
        return self.results.get(stage, {}).get(check, {})

    def rates(self) -> dict[str, float]:
        """The rates that checks measured, by stage and check, as "d copy kernel"."""
        return {
            f"{stage} {check}": result["figures"]["rate"]
            for stage, checks in self.results.items()
            for check, result in checks.items()
            if result["status"] == "passed" and result.get("figures", {}).get("rate") is not None
        }

    def is_final(self, stage: str, check: str, depends_on: Sequence[str] = ()) -> bool:
        """Whether a check need not run again in this run."""
        found = self.result(stage, check)
        status = found.get("status")
        if status == "failed":
            return (stage, check) in self._ran
        return status in _FINAL and found.get("depends on", []) == list(depends_on)

    def is_retried_last(self, stage: str, check: str) -> bool:
        """Whether a check failed, was killed, or ran for long without an end; such checks run after the others."""
        found = self.result(stage, check)
        return found.get("status") == "failed" or found.get("attempts", 0) > 0 or self.has_no_end(stage, check)

    def has_no_end(self, stage: str, check: str) -> bool:
        """Whether a check ran for long without an end when it ran last."""
        return self.result(stage, check).get("ran", 0.0) > 0

    def begin(self, stage: str, check: str) -> None:
        """Record that a check begins."""
        found = self.result(stage, check)
        begun: dict[str, Any] = {"status": "running", "attempts": found.get("attempts", 0) + 1}
        if "ran" in found:
            begun["ran"] = found["ran"]
        if found.get("status") in _FINAL:
            failed_by_kills = found.get("killed", 0) >= MOST_ATTEMPTS
            kept = found["earlier"] if failed_by_kills and "earlier" in found else found
            begun |= {
                "attempts": found.get("killed", 0) + 1,
                "earlier": {key: value for key, value in kept.items() if key not in ("earlier", "killed")},
            }
        self._ran.add((stage, check))
        self._put(stage, check, begun)

    def end(
        self, stage: str, check: str, result: dict[str, Any], seconds: float, depends_on: Sequence[str] = ()
    ) -> None:
        """Record the result of a check. An earlier one is kept if it is a failure."""
        begun = self.result(stage, check)
        kept: dict[str, Any] = {key: begun[key] for key in ("attempts", "earlier") if key in begun}
        if kept.get("earlier", {}).get("status") != "failed":
            kept.pop("earlier", None)
        needed = {"depends on": list(depends_on)} if depends_on else {}
        self._put(stage, check, {**kept, **result, **needed, "seconds": round(seconds, 3)})

    def unfinished(
        self, stage: str, check: str, note: str, killed: bool = False, ran: float = 0.0, log: str = ""
    ) -> dict[str, Any]:
        """Record that a check did not run or did not end, and return the new result: the earlier one, if there is one.

        killed: whether the command was killed meanwhile. After MOST_ATTEMPTS the check has failed. ran: the seconds
        that it had without an end; a check that needs more time has not failed, however often it ran. log: what its
        process wrote to the standard error.
        """
        found = self.result(stage, check)
        begun = found.get("status") == "running"
        attempts = found.get("attempts", 0) - (begun and not killed)
        result = {"status": "unfinished", "note": note, "attempts": attempts}
        if ran := max(ran, found.get("ran", 0.0)):
            result["ran"] = round(ran, 1)
        if log:
            result["log"] = log
        if killed and attempts >= MOST_ATTEMPTS:
            result |= {"status": "failed", "note": f"{note}, in each of {attempts} attempts", "killed": attempts}
            if found.get("earlier", {}).get("status") == "failed":
                result["earlier"] = found["earlier"]
        elif "earlier" in found and begun:
            result = {**found["earlier"], **({"killed": attempts} if attempts else {})}
        self._put(stage, check, found if found.get("status") == "failed" else result)
        return self.result(stage, check)

    def _put(self, stage: str, check: str, result: dict[str, Any]) -> None:
        self.results.setdefault(stage, {})[check] = result
        self.write()

    def write(self) -> None:
        """Replace the file. Raises InvalidArgument if that is not possible."""
        record = {"schema": SCHEMA, "about": self.about, "runs": self.runs, "results": self.results}
        write_whole(self.path, json.dumps(_finite(record), indent=1, default=str, allow_nan=False))

    def status(self, stages: tuple[Stage, ...]) -> int:
        """The exit status, by the stages that decide: 0 if all their checks passed or do not apply, 1 if one failed,
        3 if some have not run."""
        found = [
            self.result(one.letter, check.name).get("status") for one in stages if one.decides for check in one.checks
        ]
        if "failed" in found:
            return 1
        return 0 if all(one in ("passed", "skipped") for one in found) else 3


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep another run of the command from writing the same report; the lock ends with this process, even if it is
    killed. Raises InvalidArgument if another run has the lock, or if the folder cannot be written."""
    name = path.absolute().with_name(f".{path.name}.lock")
    while True:
        try:
            name.parent.mkdir(parents=True, exist_ok=True)
            file = name.open("ab")
        except OSError as error:
            raise _not_writable(path, error) from error
        with file:
            if not _lock(file.fileno()):
                raise InvalidArgument(
                    f"{path} is in use by another `pydp verify`; wait until it has ended, or choose another --out"
                )
            if not _is_at(name, file.fileno()):
                continue  # another run has removed it since
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # Windows keeps open files
                    name.unlink()
            return


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def _lock(handle: int) -> bool:
    """Whether this process now has the lock of an open file. True also where the file system has no locks."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


def _not_writable(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(f"{path} cannot be written ({error.strerror}); a writable path is accepted")


def _finite(value: Any) -> Any:
    """A value for JSON, which has no infinities and no NaN: they become null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_whole(path: Path, text: str) -> None:
    """Replace a file as a whole; readers see the old or the new one. Raises InvalidArgument if that is not possible."""
    name = None
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise _not_writable(path, error) from error


def load(path: Path) -> dict[str, Any]:
    """The content of a report file. Raises InvalidArgument if it is not one."""
    try:
        found = json.loads(path.read_bytes())
        right = found["schema"] == SCHEMA and isinstance(found["about"], dict) and isinstance(found["runs"], list)
        right = right and all(_is_result(one) for checks in found["results"].values() for one in checks.values())
    except OSError as error:
        raise InvalidArgument(
            f"{path} cannot be read: {error.strerror}; a report of pydp verify is accepted"
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise InvalidArgument(f"{path} is not of the form {SCHEMA}; a report of pydp verify is accepted")
    return dict(found)


def _is_result(found: dict[str, Any]) -> bool:
    """Whether a part of a file is a result that can be shown. Other values raise or give False."""
    line(found)
    figures = found.get("figures", {})
    speedup(figures, figures)
    counts = (found.get("attempts", 0), found.get("ran", 0.0))
    return isinstance(found["status"], str) and all(isinstance(one, (int, float)) for one in counts)


def _identity(about: dict[str, Any]) -> str:
    words = (about.get("device"), about.get("driver"), about.get("interface"), f"pydp {about.get('pydp')}")
    return ", ".join(map(str, words))
