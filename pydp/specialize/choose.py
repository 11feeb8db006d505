"""Choosing a specialization: the caller's, else what a provider knows (tuned, modelled), else the default.

Choices are kept per device and problem, so that the second call with the same description costs one look-up. Every
few seconds, and only when something is chosen, the stores of measured specializations are looked at again.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.runtime.device import Device, known_devices
from pydp.specialize.family import Family, Problem

_LOOK_SECONDS = 2.0  # between two looks at whether stored measurements have changed


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


def _tuned(family: Family, device: Device, problem: Problem) -> Choice | None:
    if not isinstance(device, Device):  # one that is not there has no measurements
        return None
    from pydp.specialize.tuned import provide

    found = provide(family, device, problem)
    return None if found is None else Choice(found[0], "tuned", found[1])


def _modelled(family: Family, device: Device, problem: Problem) -> Choice | None:
    from pydp.specialize.modelled import model_pick

    found = model_pick(family, device, problem)
    return None if found is None else Choice(found[0], "model", found[1])


Provider = Callable[[Family, Device, Problem], "Choice | None"]
_BUILT_IN: tuple[Provider, ...] = (_tuned, _modelled)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_providers: list[Provider] = []
_kept: list[Any] = []
_lock = threading.Lock()
_next_look = 0.0


def add_provider(provider: Provider) -> None:
    """Ask `provider` before the default, after the built-in ones and those added earlier; it returns None where it
    knows nothing."""
    with _lock:
        if provider not in _providers:
            _providers.append(provider)
    forget()


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


def choose(family: Family, device: Device, problem: Problem, spec: Any = None) -> Choice:
    """The specialization of `family` for `problem` on `device`.

    spec: None; an instance of the family's spec type; or a mapping of names to values that replace those of the
    choice without it (of the default, where they do not go with that choice).
    Raises InvalidArgument for unknown names and for a spec that cannot run there, naming what is accepted;
    UnsupportedOnDevice where no specialization can; Asked for an `Asking`.
    """
    if spec is not None:
        if isinstance(spec, Asking):
            raise Asked(family, device, problem)
        return _of_caller(family, device, problem, spec)
    if time.monotonic() >= _next_look:
        _look()
    key = ("choice", family.name, problem)
    found = device.kernels.get(key)
    if found is None:
        found = device.kernels[key] = _of_policy(family, device, problem, (*_BUILT_IN, *_providers))
    return found


def untuned(family: Family, device: Device, problem: Problem) -> Choice:
    """What would be chosen if nothing had been measured: the model's pick, else the default."""
    providers = [provider for provider in (*_BUILT_IN, *_providers) if provider is not _tuned]
    return _of_policy(family, device, problem, providers)


def _look() -> None:
    """Forgets the choices where stored measurements have changed, of another process's tuning for example."""
    from pydp.specialize.tuned import changed

    global _next_look
    _next_look = time.monotonic() + _LOOK_SECONDS
    if changed():
        forget()


def _of_policy(family: Family, device: Device, problem: Problem, providers: Sequence[Provider]) -> Choice:
    profile = device.profile
    refused: list[str] = []
    for provider in providers:
        choice = provider(family, device, problem)
        if choice is not None:
            why = family.check(profile, problem, choice.spec)
            if why is None:
                return choice
            refused.append(f"{choice.source} {choice.spec}: {why}")
    spec = family.default(profile, problem)
    why = family.check(profile, problem, spec)
    if why is None:
        return Choice(spec, "default", "; ".join((f"the policy of {family.name} for a {profile.kind}", *refused)))
    refused.append(f"default {spec}: {why}")
    for candidate in family.candidates(profile, problem):
        if family.check(profile, problem, candidate) is None:
            return Choice(candidate, "candidate", "the first that can run; refused: " + "; ".join(refused))
    raise UnsupportedOnDevice(f"no specialization of {problem} can run on {device.name!r}: {why}")


def _of_caller(family: Family, device: Device, problem: Problem, spec: Any) -> Choice:
    if isinstance(spec, Mapping):
        names = [field.name for field in dataclasses.fields(family.spec_type) if field.init]
        unknown = [name for name in spec if name not in names]
        if unknown:
            raise InvalidArgument(f"spec= of {family.name} has no {unknown[0]!r}; {', '.join(names)} are accepted")
        return Choice(_replaced(family, device, problem, spec), "caller", "given as spec=")
    if not isinstance(spec, family.spec_type):
        raise InvalidArgument(
            f"spec={spec!r} is not accepted; None, a {family.spec_type.__name__} or a mapping of its fields is"
        )
    why = family.check(device.profile, problem, spec)
    if why is not None:
        raise InvalidArgument(f"spec={spec!r} cannot run on {device.name!r}: {why}")
    return Choice(spec, "caller", "given as spec=")


def _replaced(family: Family, device: Device, problem: Problem, fields: Mapping[str, Any]) -> Any:
    """The chosen spec with some of its fields replaced; the default's where they do not go with the chosen one's."""
    profile = device.profile
    why: str | None = ""
    for base in (choose(family, device, problem).spec, family.default(profile, problem)):
        try:
            spec = dataclasses.replace(base, **fields)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"spec={dict(fields)!r} is not a specialization of {family.name}: {error}") from error
        why = family.check(profile, problem, spec)
        if why is None:
            return spec
    raise InvalidArgument(f"spec={spec!r} cannot run on {device.name!r}: {why}")
