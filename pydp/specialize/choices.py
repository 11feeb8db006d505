"""What a choice is, how a call is asked for the one it depends on, and what is forgotten when choices change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydp.bounded import ABSENT
from pydp.runtime.device import Device, known_devices
from pydp.specialize.family import Family, Problem

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """A specialization, where it comes from ("caller", "tuned", "model", "default", "candidate") and why."""

    spec: Any
    source: str
    reason: str


class Asked(Exception):
    """What `choose` raises where it was given an `Asking`: the choice that a call depends on."""

    def __init__(self, family: Family, device: Device, problem: Problem) -> None:
        super().__init__(f"{problem} on {device.name!r}")
        self.family, self.device, self.problem = family, device, problem


class Asking:
    """Given as ``spec=`` of a public function, ends the call with `Asked` before any kernel of that family runs."""

    def __repr__(self) -> str:
        return f"<what can be chosen, asked by {id(self):x}>"  # plans are kept by it, and no two must be alike


def kept_plan(function: _Function) -> _Function:
    """A decorator of functions of a device and of what can be hashed: results are kept in ``device.plans``."""

    @functools.wraps(function)
    def found_or_made(device: Device, *arguments: Any) -> Any:
        key = (function, arguments)
        found = device.plans.get(key, ABSENT)
        return device.plans.make(key, function, device, *arguments) if found is ABSENT else found

    return cast(_Function, found_or_made)


def forget() -> None:
    """Choose again from now on: called when what a provider knows has changed. Plans rest on choices and go too; the
    kernels stay."""
    for device in known_devices():
        device.choices.clear()
        device.plans.clear()
