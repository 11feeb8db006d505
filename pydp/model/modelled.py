"""The choice without measurements: the model's pick, else a registered provider's, else the family's default.

The model picks the candidate with the least predicted time. It uses measured rates if the device is calibrated.
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

# Key of a device's facts for the last pick and its arguments. One choice asks for the same pick several times: once for
# each measurement that it is compared with, then for itself.
_LAST = "the model's last pick"


def model_pick(family: Family, device: Device, problem: Problem) -> tuple[Any, str] | None:
    """(spec, reason) of the model's pick for a problem; None if the model does not apply.

    It does not apply to families without counts, to simulators, and to devices that cut long loops: only the default
    is made for those.
    """
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
    """Predicted seconds of a call; None if the model does not apply (see `model_pick`)."""
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


def model_description(
    family: Family, device: Device, problem: Problem, spec: Any
) -> tuple[dict[str, object], list[str]]:
    """(facts, sentences) for an explanation; both are empty for a family without counts.

    They give the prediction for `spec`, the candidates ranked next, candidates that cannot run, and on a GPU the values
    of SPEC S5.
    """
    if family.counts is None or family.check(device.profile, problem, spec) is not None:
        return {}, []
    rates = kept(device)
    ranked = rank(family, device.profile, problem, rates=rates, entry=architecture_of(device))
    own = _own(family, device, problem, spec, rates)
    facts: dict[str, object] = {
        "predicted": f"{seconds_text(own.seconds)}, limited by {own.limiter}",
        "rates": "measured" if rates is not None else "from the table of architectures; `pydp tune` measures them",
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
    """The fields in which a candidate differs from `spec`, with its prediction."""
    if not is_dataclass(one.spec) or isinstance(one.spec, type):
        return f"{one.spec}: {one.reason}"
    ours = asdict(spec)
    fields = [f"{name}={value!r}" for name, value in asdict(one.spec).items() if ours[name] != value]
    return f"{', '.join(fields)}: {one.reason}"


Provider = Callable[[Family, Device, Problem], "Choice | None"]
_providers: list[Provider] = []
_lock = fork_safe(threading.RLock())  # reentrant: a finalizer or a signal handler may take it again


def add_provider(provider: Provider) -> None:
    """Add a provider. It is asked after the built-in ones and earlier additions, and before the default.

    A provider returns None if it has no choice.
    """
    with _lock:
        if provider not in _providers:
            _providers.append(provider)
    forget()


def by_model(family: Family, device: Device, problem: Problem) -> Choice | None:
    """The model's pick as a choice; None if the model does not apply."""
    found = model_pick(family, device, problem)
    return None if found is None else Choice(found[0], "model", found[1])


def of_providers(family: Family, device: Device, problem: Problem, first: Sequence[Provider] = (by_model,)) -> Choice:
    """The choice of the first provider that has one that can run, else the default.

    The providers in `first` come before added ones. Raises UnsupportedOnDevice if no specialization can run.
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
    """The choice without measurements: the model's pick, else the default."""
    return of_providers(family, device, problem)
