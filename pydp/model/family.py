"""Kernel families, and the choices made from them.

An algorithm describes one call as a :class:`Problem` and its policy as a :class:`Family`; the model and the tuner know
nothing else about it. A specialization ("spec") is a frozen dataclass of the algorithm's own. A :class:`Choice` is the
specialization that a call uses, with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydp.model.counts import Counts
from pydp.runtime.bounded import ABSENT
from pydp.runtime.device.profile import Profile
from pydp.runtime.drivers.devices import Device, known_devices

_Spec = TypeVar("_Spec")


@dataclass(frozen=True)
class Problem:
    """What a choice depends on, besides the device: the same description gets the same choice.

    family: the family's name. dtype: what is computed with, as text ("float32", or "int32,float64" for keys and
    values). sizes: the shape, or a class of shapes. flags: layout and variant words ("transposed_b", "exclusive").
    """

    family: str
    dtype: str
    sizes: tuple[int, ...]
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        shape = "x".join(str(size) for size in self.sizes) or "()"
        return " ".join((self.family, self.dtype, shape, *self.flags))


@dataclass(frozen=True)
class Family:
    """A family of kernels and its policy; all functions are pure.

    ``default(profile, problem)`` is a good spec without measuring; ``space(profile, problem)`` is everything that is
    looked at, what cannot run included, so that it can be told with its reason; ``check(profile, problem, spec)`` says
    in one sentence why a spec cannot run there, or is None. ``counts(profile, problem, spec)`` are the analysis
    parameters of a spec that can run, from arithmetic alone; a family without them cannot be ranked.
    ``lengths(problem)`` are the problem's sizes as they are, where ``problem.sizes`` holds something else (logarithms).
    """

    name: str
    spec_type: type
    default: Callable[[Profile, Problem], Any]
    space: Callable[[Profile, Problem], list[Any]]
    check: Callable[[Profile, Problem, Any], str | None]
    counts: Callable[[Profile, Problem, Any], Counts] | None = None
    lengths: Callable[[Problem], tuple[int, ...]] | None = None

    def candidates(self, profile: Profile, problem: Problem) -> list[Any]:
        """What is worth measuring there, all of which can run: the default first, then the space in its order."""
        specs = dict.fromkeys((self.default(profile, problem), *self.space(profile, problem)))
        return [spec for spec in specs if self.check(profile, problem, spec) is None]


def altered(spec: _Spec, **fields: Any) -> _Spec:
    """`dataclasses.replace` for policies, which make dozens of specializations for a first choice: a copy with other
    values of fields that it has.

    >>> altered(Problem("scan", "int32", (8,)), sizes=(9,))
    Problem(family='scan', dtype='int32', sizes=(9,), flags=())
    """
    copy = object.__new__(type(spec))
    copy.__dict__.update(spec.__dict__, **fields)
    return copy


_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """A specialization, where it comes from ("caller", "tuned", "model", "default", "candidate") and why."""

    spec: Any
    source: str
    reason: str


class ProblemFound(Exception):
    """What `choose` raises where it was given an `SpecProbe`: the choice that a call depends on."""

    def __init__(self, family: Family, device: Device, problem: Problem) -> None:
        super().__init__(f"{problem} on {device.name!r}")
        self.family, self.device, self.problem = family, device, problem


class SpecProbe:
    """Given as ``spec=`` of a public function, it ends the call with `ProblemFound` before a kernel is built."""

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
