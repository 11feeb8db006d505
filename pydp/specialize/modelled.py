"""The model's pick for the choosing layer: the best-ranked candidate, by measured rates where they are kept."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from pydp.specialize.architectures import architecture_of, rates_of, structure_of
from pydp.specialize.calibration import kept
from pydp.specialize.costs import Cost, cost
from pydp.specialize.family import Family, Problem
from pydp.specialize.parallelism import parallelism
from pydp.specialize.ranking import Ranked, first_of, rank, rejected
from pydp.specialize.rates import Rates
from pydp.specialize.units import seconds_text

if TYPE_CHECKING:
    from pydp.runtime.device import Device

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
