"""Checks and stages, and how the outcome of a check is described in a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydp.errors import PydpError, UnsupportedOnDevice

__all__ = ["Check", "Context", "NoTime", "NotApplicable", "Stage", "Wrong", "outcome"]

Outcome = dict[str, Any]


class NotApplicable(PydpError):
    """The check does not apply to the device; the message is the reason."""


class NoTime(PydpError):
    """The check needs more seconds than it was given; the message says what for."""


class Wrong(PydpError):
    """A result differs from its reference."""


@dataclass(frozen=True)
class Context:
    """What a check may use: the device (a `Device`, or a `Gpu` of pydp.verify.pack), and the seconds that it may take.

    pack: the folder of compiled kernels if the checks launch them through CUDA, else None. rates: those that checks
    measured before, by stage and check, as "d copy kernel".
    """

    device: Any
    seconds: float
    pack: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One check. run: returns figures, or raises. least: minimum remaining seconds to start the check.

    limit: most seconds of the check, if fewer than the limit of its stage. group: a mechanism that may not end, such as
    "look-back"; after a check without an end, the others of its stage and group run last.
    """

    name: str
    run: Callable[[Context], Outcome]
    least: float = 0.0
    limit: float = math.inf
    group: str = ""


@dataclass(frozen=True)
class Stage:
    """Checks with a common limit.

    share: part of the whole time that it may use, in addition to the time that earlier stages left over.
    decides: whether its checks decide the exit status. limit: most seconds of one check; a check that takes longer
    has failed.
    """

    letter: str
    title: str
    share: float
    checks: tuple[Check, ...]
    decides: bool = False
    limit: float = 120.0


def outcome(check: Check, context: Context, decides: bool = False) -> Outcome:
    """Run a check: {"status": "passed", "failed", "skipped" or "unfinished", "note": one sentence, "figures": {...}}.

    decides: whether its stage decides. Such a check names what the device must have; another refusal is a failure.
    """
    try:
        return {"status": "passed", "figures": check.run(context)}
    except NotApplicable as error:
        return {"status": "skipped", "note": first_line(error)}
    except NoTime as error:
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
