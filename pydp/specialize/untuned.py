"""The choice without measurements: the model's, else that of a provider that was added, else the default."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from pydp.errors import UnsupportedOnDevice
from pydp.forks import fork_safe
from pydp.runtime.device import Device
from pydp.specialize.choices import Choice, forget
from pydp.specialize.family import Family, Problem
from pydp.specialize.modelled import model_pick

Provider = Callable[[Family, Device, Problem], "Choice | None"]
_providers: list[Provider] = []
_lock = fork_safe(threading.RLock())  # a finalizer or a signal handler may ask while its thread holds it


def add_provider(provider: Provider) -> None:
    """Ask `provider` before the default, after the built-in ones and those added earlier; it returns None where it
    knows nothing."""
    with _lock:
        if provider not in _providers:
            _providers.append(provider)
    forget()


def by_model(family: Family, device: Device, problem: Problem) -> Choice | None:
    """The model's pick as a choice; None where the model knows nothing."""
    found = model_pick(family, device, problem)
    return None if found is None else Choice(found[0], "model", found[1])


def of_providers(family: Family, device: Device, problem: Problem, first: Sequence[Provider] = (by_model,)) -> Choice:
    """What the first provider knows, `first` before those that were added, else the default.

    Raises UnsupportedOnDevice where no specialization can run.
    """
    profile = device.profile
    refused: list[str] = []
    for provider in (*first, *_providers):
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
    able = family.candidates(profile, problem)
    if able:
        return Choice(able[0], "candidate", "the first that can run; refused: " + "; ".join(refused))
    raise UnsupportedOnDevice(f"no specialization of {problem} can run on {device.name!r}: {why}")


def untuned(family: Family, device: Device, problem: Problem) -> Choice:
    """What would be chosen if nothing had been measured: the model's pick, else the default."""
    return of_providers(family, device, problem)
