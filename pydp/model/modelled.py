"""The choice without measurements: the model's pick, else that of a registered provider, else the family's default.

The model's pick is the candidate with the least predicted time, by measured rates if the device is calibrated.
"""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from pydp.model.architectures import architecture_of, rates_of, structure_of
from pydp.model.calibration import kept
from pydp.model.costs import Cost, cost
from pydp.model.family import Family, Problem
from pydp.model.parallelism import parallelism, seconds_text
from pydp.model.ranking import Ranked, first_of, rank, rejected
from pydp.model.rates import Rates

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device
import threading
from collections.abc import Callable, Sequence

from pydp.errors import UnsupportedOnDevice
from pydp.model.family import Choice, forget
from pydp.runtime.drivers.devices import Device
from pydp.runtime.forks import fork_safe

# Of a device's facts the pick made last, with what it was made for: a choice asks for it once for each measurement that
# it is compared with, then for itself.
_LAST = "the model's last pick"


def model_pick(family: Family, device: Device, problem: Problem) -> tuple[Any, str] | None:
    """(spec, reason) of the model for a problem, None for families without counts and for devices that it does not fit:
    a simulator's time means nothing, and where loops are cut short the default alone is made for that."""
    if family.counts is None or device.profile.is_simulator or device.profile.loop_limit is not None:
        return None
    rates = kept(device)
    last: tuple[Family, Problem, Rates | None, tuple[Ranked, int] | None] | None = device.facts.get(_LAST)
    if last is None or last[0] is not family or last[1] != problem or last[2] is not rates:
        found = first_of(family, device.profile, problem, rates, architecture_of(device))
        last = device.facts[_LAST] = (family, problem, rates, found)
    if last[3] is None:
        return None
    first, among = last[3]
    by = "measured rates" if rates is not None else "the table's rates"
    return first.spec, f"the best of {among} by the model with {by}: {first.reason}"


def predicted(family: Family, device: Device, problem: Problem, spec: Any) -> float | None:
    """Seconds of a call by the model; None where `model_pick` knows nothing."""
    profile = device.profile
    if family.counts is None or profile.is_simulator or profile.loop_limit is not None:
        return None
    return _own(family, device, problem, spec, kept(device)).seconds


def _own(family: Family, device: Device, problem: Problem, spec: Any, rates: Rates | None) -> Cost:
    """The predicted cost of one specialization."""
    assert family.counts is not None
    profile, entry = device.profile, architecture_of(device)
    structure = structure_of(profile, entry) if profile.kind == "gpu" else None
    return cost(family.counts(profile, problem, spec), rates or rates_of(profile, entry), structure)


def model_told(family: Family, device: Device, problem: Problem, spec: Any) -> tuple[dict[str, object], list[str]]:
    """(facts, sentences) for an explanation: what the model predicts for `spec`, what it ranks next, what cannot run;
    on a GPU the figures of SPEC S5. Nothing is told of a family without counts."""
    if family.counts is None or family.check(device.profile, problem, spec) is not None:
        return {}, []
    rates = kept(device)
    ranked = rank(family, device.profile, problem, rates=rates, entry=architecture_of(device))
    own = _own(family, device, problem, spec, rates)
    facts: dict[str, object] = {
        "predicted": f"{seconds_text(own.seconds)}, limited by {own.limiter}",
        "rates": "measured" if rates is not None else "of the table of architectures; `pydp tune` measures them",
    }
    if device.profile.kind == "gpu":
        counts, entry = family.counts(device.profile, problem, spec), architecture_of(device)
        structure = structure_of(device.profile, entry)
        facts |= parallelism(counts, structure, rates or rates_of(device.profile, entry))
    others = [one for one in ranked if one.spec != spec]
    lines = [f"ranked {place}: {_differs(one, spec)}" for place, one in enumerate(others[:3], 2)]
    slow = [one for one in reversed(others[3:]) if one.seconds > 1.2 * own.seconds]
    lines += [f"rejected: {_differs(one, spec)}" for one in slow[:: max(1, len(slow) // 3)][:3]]
    lines += [f"cannot run: {one.reason}" for one in rejected(family, device.profile, problem)[:3]]
    return facts, lines


def _differs(one: Ranked, spec: Any) -> str:
    """A candidate by the fields in which it differs from `spec`, with its prediction."""
    if not is_dataclass(one.spec) or isinstance(one.spec, type):
        return f"{one.spec}: {one.reason}"
    ours = asdict(spec)
    fields = [f"{name}={value!r}" for name, value in asdict(one.spec).items() if ours[name] != value]
    return f"{', '.join(fields)}: {one.reason}"


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
