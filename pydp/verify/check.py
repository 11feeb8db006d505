"""Checks and stages, and how the outcome of a check is described in a report."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydp.errors import PydpError, UnsupportedOnDevice

__all__ = ["NOT_IN_PACK", "Check", "Context", "Limit", "NotApplicable", "Stage", "Unfinished", "Wrong", "outcome"]

Outcome = dict[str, Any]
NOT_IN_PACK = "not in the pack: "  # at the start of the notes of checks that a pack leaves out


class NotApplicable(PydpError):
    """The check does not apply to the device; the message is the reason."""


class Unfinished(PydpError):
    """The check lacks time or memory now, and may pass later; the message says what it lacks."""


class Wrong(PydpError):
    """A result differs from its reference."""


@dataclass(frozen=True)
class Context:
    """The arguments of a check: the device (a `Device`, or a `Gpu` of pydp.verify.pack), and its time limit in seconds.

    pack: the folder of compiled kernels if the checks launch them through CUDA, else None. rates: those that checks
    measured before, by stage and check, as "d copy kernel".
    """

    device: Any
    seconds: float
    pack: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One check. run: returns figures, or raises. least: the check starts only if at least this many seconds are left.

    limit: most seconds of the check, if fewer than the limit of its stage. group: a mechanism that may not end, such as
    "look-back"; after a check without an end, the others of its stage and group run last. depends_on: names what the
    result depends on beside the device, such as the installed peers; if they have changed, the check runs again.
    """

    name: str
    run: Callable[[Context], Outcome]
    least: float = 2.0  # a check that is killed costs the start of a new process
    limit: float = math.inf
    group: str = ""
    depends_on: Callable[[], list[str]] = list


@dataclass(frozen=True)
class Stage:
    """Checks with a common limit.

    share: part of the whole time that it may use, in addition to the time that earlier stages left over.
    decides: whether its checks decide the exit status. limit: most seconds of one check, without those of
    builds; a check that takes longer has failed.
    """

    letter: str
    title: str
    share: float
    checks: tuple[Check, ...]
    decides: bool = False
    limit: float = 120.0


class Limit:
    """The time that a check has: `seconds` in all, and `limit` seconds without builds.

    A compiler can be slow, for example without a cache. Its seconds do not show whether a kernel ends.
    """

    def __init__(self, limit: float, seconds: float) -> None:
        self._began = time.monotonic()
        self._limit, self._seconds = limit, seconds
        self._lock, self._builds = threading.Lock(), 0  # that run now
        self._since = self._spent = 0.0  # when the builds that run now began; the seconds of earlier builds

    def build(self, change: int) -> None:
        """Record that a build begins (1) or ends (-1)."""
        now = time.monotonic()
        with self._lock:
            if self._builds == 0:
                self._since = now
            self._builds += change
            if self._builds == 0:
                self._spent += now - self._since

    def left(self) -> float:
        """The seconds until the check must be ended, if no build begins or ends meanwhile."""
        return max(0.0, min(self._seconds - (time.monotonic() - self._began), self._without_builds()))

    def is_reached(self) -> bool:
        """Whether the check took longer than its limit, without builds."""
        return self._without_builds() <= 0

    def _without_builds(self) -> float:
        """The seconds that are left of the limit; infinite during a build."""
        return math.inf if self._builds else self._began + self._limit + self._spent - time.monotonic()


def outcome(check: Check, context: Context, decides: bool = False) -> Outcome:
    """Run a check: {"status": "passed", "failed", "skipped" or "unfinished", "note": one sentence, "figures": {...}}.

    decides: whether its stage decides. Such a check names what the device must have; another refusal is a failure.
    """
    try:
        return {"status": "passed", "figures": check.run(context)}
    except NotApplicable as error:
        return {"status": "skipped", "note": first_line(error)}
    except Unfinished as error:
        return {"status": "unfinished", "note": first_line(error)}
    except Wrong as error:
        return {"status": "failed", "note": first_line(error)}
    except Exception as error:  # every failure of a check is a finding
        if isinstance(error, UnsupportedOnDevice) and not decides:
            return {"status": "skipped", "note": first_line(error)}
        return {"status": "failed", "note": f"{type(error).__name__}: {first_line(error)}", "log": str(error)[:4000]}


def first_line(error: Exception) -> str:
    """The first line of an exception's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:400]
