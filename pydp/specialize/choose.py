"""Choosing a specialization: the caller's, else what a provider knows (tuned, modelled), else the default.

Choices are kept per device and problem, so that the second call with the same description costs one look-up.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.runtime.device import Device, known_devices
from pydp.specialize.family import Family, Problem


@dataclass(frozen=True)
class Choice:
    """A specialization, where it comes from ("caller", "tuned", "model", "default", "candidate") and why."""

    spec: Any
    source: str
    reason: str


Provider = Callable[[Family, Device, Problem], "Choice | None"]
_providers: list[Provider] = []
_lock = threading.Lock()


def add_provider(provider: Provider) -> None:
    """Ask `provider` before the default, after those added earlier; it returns None where it knows nothing."""
    with _lock:
        if provider not in _providers:
            _providers.append(provider)
    forget()


def forget() -> None:
    """Choose again from now on: called when what a provider knows has changed."""
    for device in known_devices():
        for key in [key for key in list(device.kernels) if key[0] == "choice"]:
            device.kernels.pop(key, None)


def choose(family: Family, device: Device, problem: Problem, spec: Any = None) -> Choice:
    """The specialization of `family` for `problem` on `device`.

    spec: None; an instance of the family's spec type; or a mapping of names to values that replace the default's.
    Raises InvalidArgument for unknown names and for a spec that cannot run there, naming what is accepted;
    UnsupportedOnDevice where no specialization can.
    """
    if spec is not None:
        return _of_caller(family, device, problem, spec)
    key = ("choice", family.name, problem)
    found = device.kernels.get(key)
    if found is None:
        found = device.kernels[key] = _of_policy(family, device, problem)
    return found


def _of_policy(family: Family, device: Device, problem: Problem) -> Choice:
    profile = device.profile
    refused: list[str] = []
    for provider in list(_providers):
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
        base = _of_policy(family, device, problem).spec
        try:
            spec = dataclasses.replace(base, **spec)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"spec={dict(spec)!r} is not a specialization of {family.name}: {error}") from error
    elif not isinstance(spec, family.spec_type):
        raise InvalidArgument(
            f"spec={spec!r} is not accepted; None, a {family.spec_type.__name__} or a mapping of its fields is"
        )
    why = family.check(device.profile, problem, spec)
    if why is not None:
        raise InvalidArgument(f"spec={spec!r} cannot run on {device.name!r}: {why}")
    return Choice(spec, "caller", "given as spec=")
