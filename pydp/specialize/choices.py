"""What a choice is, how a call is asked for the one it depends on, and what is forgotten when choices change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
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


class Key:
    """What stands for a value in the key of a kept plan, equal to no plain value."""

    __slots__ = ("content",)

    def __init__(self, content: Hashable) -> None:
        self.content = content

    def __hash__(self) -> int:
        return hash(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.content == self.content


class Keyed:
    """An argument of a kept plan with the key that stands for it. The plan is made from `value` and kept by `key`
    alone: a function keeps all alive that it reads, which may be the user's largest objects."""

    __slots__ = ("key", "value")
    __hash__ = None  # type: ignore[assignment]  # so that none gets into a key

    def __init__(self, value: Any, key: Key) -> None:
        self.value = value
        self.key = key


def kept_plan(function: _Function) -> _Function:
    """A decorator of functions of a device and of what can be hashed or is `Keyed`: results are kept in
    ``device.plans``. They must not hold what a `Keyed` has for its value."""

    @functools.wraps(function)
    def found_or_made(device: Device, *arguments: Any) -> Any:
        key = (function, tuple([one.key if type(one) is Keyed else one for one in arguments]))
        found = device.plans.get(key, ABSENT)
        return device.plans.make(key, function, device, *arguments) if found is ABSENT else found

    return cast(_Function, found_or_made)


def forget() -> None:
    """Choose again from now on: called when what a provider knows has changed. Plans rest on choices and go too; the
    kernels stay."""
    for device in known_devices():
        device.choices.clear()
        device.plans.clear()
