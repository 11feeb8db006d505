"""What a choice is, how a call is asked for the one it depends on, and what is forgotten when choices change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydp.runtime.device import Device, known_devices
from pydp.specialize.family import Family, Problem

_Function = TypeVar("_Function", bound=Callable[..., Any])
_kept: list[Any] = []


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


def rests_on_choices(function: _Function) -> _Function:
    """A decorator above ``functools.lru_cache``: what is kept is forgotten together with the choices."""
    _kept.append(function)
    return function


def forget() -> None:
    """Choose again from now on: called when what a provider knows has changed."""
    for device in known_devices():
        for key in [key for key in list(device.kernels) if key[0] == "choice"]:
            device.kernels.pop(key, None)
    for function in _kept:
        function.cache_clear()
