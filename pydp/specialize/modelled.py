"""The model's pick for the choosing layer: the best-ranked candidate, by measured rates where they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydp.specialize.architectures import architecture_of, rates_of, structure_of
from pydp.specialize.calibration import kept
from pydp.specialize.costs import cost
from pydp.specialize.family import Family, Problem
from pydp.specialize.ranking import rank

if TYPE_CHECKING:
    from pydp.runtime.device import Device


def model_pick(family: Family, device: Device, problem: Problem) -> tuple[Any, str] | None:
    """(spec, reason) of the model for a problem, None for families without counts and for devices that it does not fit:
    a simulator's time means nothing, and where loops are cut short the default alone is made for that."""
    if family.counts is None or device.profile.is_simulator or device.profile.loop_limit is not None:
        return None
    rates = kept(device)
    ranked = rank(family, device.profile, problem, rates=rates, entry=architecture_of(device))
    if not ranked:
        return None
    first = ranked[0]
    by = "measured rates" if rates is not None else "the table's rates"
    return first.spec, f"the best of {len(ranked)} by the model with {by}: {first.reason}"


def predicted(family: Family, device: Device, problem: Problem, spec: Any) -> float | None:
    """Seconds of a call by the model; None where `model_pick` knows nothing."""
    profile = device.profile
    if family.counts is None or profile.is_simulator or profile.loop_limit is not None:
        return None
    entry = architecture_of(device)
    structure = structure_of(profile, entry) if profile.kind == "gpu" else None
    return cost(family.counts(profile, problem, spec), kept(device) or rates_of(profile, entry), structure).seconds
