"""The choice without measurements: the model's pick, else the family's default.

The model picks the candidate with the least predicted time. It uses measured rates if the device is calibrated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydp.errors import UnsupportedOnDevice
from pydp.model.architectures import architecture_of, rates_of, structure_of
from pydp.model.calibration import kept
from pydp.model.explanation import differences
from pydp.model.family import Choice, Family, Problem
from pydp.model.parallelism import parallelism, seconds_text
from pydp.model.ranking import NEAR, Ranked, predictions, rank, rejected
from pydp.model.rates import Rates
from pydp.runtime.drivers.devices import Device

# Key of a device's facts for the last pick and its arguments. One choice asks for the same pick several times: once for
# each measurement that it is compared with, then for itself.
_LAST = "the model's last pick"


def applies(family: Family, device: Device) -> bool:
    """Whether the model applies: not to families without counts, simulators, and devices that cut long loops, for which
    only the default is made."""
    return family.counts is not None and not device.profile.is_simulator and device.profile.loop_limit is None


def by_model(family: Family, device: Device, problem: Problem) -> Choice | None:
    """The model's pick for a problem; None if the model does not apply, or if no specialization can run."""
    if not applies(family, device):
        return None
    rates = kept(device)
    last: tuple[Family, Problem, Rates | None, tuple[Ranked, int] | None] | None = device.facts.get(_LAST)
    if last is None or last[0] is not family or last[1] != problem or last[2] is not rates:
        ranked = rank(family, device.profile, problem, rates, architecture_of(device))
        last = device.facts[_LAST] = (family, problem, rates, (ranked[0], len(ranked)) if ranked else None)
    if last[3] is None:
        return None
    first, among = last[3]
    by = "measured rates" if rates is not None else "the table's rates"
    if first.seconds > first.best:
        found = f"the default: within {NEAR - 1:.0%} of the best of {among} predictions by the model with {by}"
    else:
        found = f"the best of {among} by the model with {by}"
    return Choice(first.spec, "model", f"{found}: {first.reason}")


def predicted(family: Family, device: Device, problem: Problem, spec: Any) -> float | None:
    """Predicted seconds of a call; None if the model does not apply."""
    if family.counts is None or not applies(family, device):
        return None
    counts = family.counts(device.profile, problem, spec)
    return predictions([counts], device.profile, kept(device), architecture_of(device))[0].seconds


def model_description(
    family: Family, device: Device, problem: Problem, spec: Any
) -> tuple[dict[str, object], list[str]]:
    """(facts, sentences) for an explanation; both are empty for a family without counts.

    They give the prediction for `spec`, the other candidates with the best predictions, some slower ones, candidates
    that cannot run, and on a GPU the values of SPEC S5.
    """
    profile, rates, entry = device.profile, kept(device), architecture_of(device)
    if family.counts is None or family.check(profile, problem, spec) is not None:
        return {}, []
    counts = family.counts(profile, problem, spec)
    (own,) = predictions([counts], profile, rates, entry)
    facts: dict[str, object] = {
        "predicted": f"{seconds_text(own.seconds)}, limited by {own.limiter}",
        "rates": "measured" if rates is not None else "from the table of architectures; `pydp tune` measures them",
    }
    if profile.kind == "gpu":
        facts |= parallelism(counts, structure_of(profile, entry), rates or rates_of(profile, entry))
    ranked = sorted(rank(family, profile, problem, rates, entry), key=lambda one: (one.spilling > 0, one.seconds))
    others = [(place, one) for place, one in enumerate(ranked, 1) if one.spec != spec]
    lines = [f"candidate {place} by predicted time: {_differs(one, spec)}" for place, one in others[:3]]
    slow = [one for _, one in reversed(others[3:]) if one.seconds > 1.2 * own.seconds]
    lines += [f"slower candidate: {_differs(one, spec)}" for one in slow[:: max(1, len(slow) // 3)][:3]]
    lines += [f"cannot run: {why}" for _, why in rejected(family, profile, problem)[:3]]
    return facts, lines


def _differs(one: Ranked, spec: Any) -> str:
    """The fields in which a candidate differs from `spec`, with its prediction."""
    return f"{differences(one.spec, spec)}: {one.reason}"


Provider = Callable[[Family, Device, Problem], Choice | None]


def of_providers(family: Family, device: Device, problem: Problem, *providers: Provider) -> Choice:
    """The choice of the first provider that has one that can run, else the default.

    A provider returns None if it has no choice. Raises UnsupportedOnDevice if no specialization can run.
    """
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
    able = family.candidates(profile, problem)
    if able:
        return Choice(able[0], "candidate", "the first that can run; refused: " + "; ".join(refused))
    raise UnsupportedOnDevice(f"no specialization of {problem} can run on {device.name!r}: {why}")


def untuned(family: Family, device: Device, problem: Problem) -> Choice:
    """The choice without measurements: the model's pick, else the default."""
    return of_providers(family, device, problem, by_model)
