"""Rank the candidates of a family by predicted time, without running them.

for one in rank(FAMILY, device.profile, problem)[:5]:
    print(one.spec, one.seconds, one.limiter, one.reason)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pydp.errors import InvalidArgument
from pydp.model.architectures import Architecture, architecture, rates_of, structure_of
from pydp.model.costs import Cost, costs
from pydp.model.counts import Counts
from pydp.model.family import Family, Problem
from pydp.model.parallelism import seconds_text
from pydp.model.rates import Rates
from pydp.runtime.device.profile import Profile

NEAR = 1.05  # predictions within this factor of the best count as equal: then the default goes first


class Ranked(NamedTuple):
    """One candidate with its predicted `cost`.

    best: the best prediction, in seconds. spilling: the registers that it needs if a work-item has only `registers`,
    else 0.
    """

    spec: Any
    cost: Cost
    best: float
    spilling: int
    registers: float

    @property
    def seconds(self) -> float:
        """The predicted seconds of a call."""
        return self.cost.seconds

    @property
    def limiter(self) -> str:
        """The largest part: "memory", "compute", "latency" or "launch"."""
        return self.cost.limiter

    @property
    def reason(self) -> str:
        """A sentence that compares the prediction with the best one."""
        spills = f"needs about {self.spilling} registers, a work-item has {self.registers}: they would spill; "
        share = self.cost.parts[self.limiter] / self.seconds if self.seconds else 1.0
        ratio = f"{self.seconds / self.best:.2f} times the best" if self.seconds > self.best else "the best"
        predicted = f"{seconds_text(self.seconds)} predicted, {share:.0%} of it {self.limiter}; {ratio} prediction"
        return (spills if self.spilling else "") + predicted


def rank(
    family: Family, profile: Profile, problem: Problem, rates: Rates | None = None, entry: Architecture | None = None
) -> list[Ranked]:
    """The candidates that can run, best first.

    rates: by default estimated from the table of architectures; a stored calibration is better. entry: by default
    chosen by the profile. On GPUs, candidates that need more registers than a work-item has go last. The list is empty
    if no candidate can run. Raises InvalidArgument for a family without counts.
    """
    if family.counts is None:
        raise InvalidArgument(f"family {family.name!r} has no counts, so its candidates cannot be ranked")
    entry = entry or architecture(profile)
    most = entry.registers_per_lane if profile.kind == "gpu" else math.inf
    specs = family.candidates(profile, problem)
    if not specs:
        return []
    counted = [family.counts(profile, problem, spec) for spec in specs]
    predicted = predictions(counted, profile, rates, entry)
    spills = [one.registers if one.registers > most else 0 for one in counted]
    _, best = min((spilling > 0, by.seconds) for spilling, by in zip(spills, predicted, strict=True))
    found = [Ranked(*one, best, spills[place], most) for place, one in enumerate(zip(specs, predicted, strict=True))]
    order = sorted(found, key=lambda one: (one.spilling > 0, one.seconds))
    first = found[0]  # if predictions are equal, the default goes first
    near = first.seconds <= NEAR * best and (not first.spilling or order[0].spilling)
    if near and first.spec == family.default(profile, problem):
        order.remove(first)
        order.insert(0, first)
    return order


def predictions(
    counted: list[Counts], profile: Profile, rates: Rates | None = None, entry: Architecture | None = None
) -> list[Cost]:
    """The predicted costs of some counts on a device; for rates and entry see `rank`."""
    structure = structure_of(profile, entry) if profile.kind == "gpu" else None
    return costs(counted, rates or rates_of(profile, entry), structure)


def rejected(family: Family, profile: Profile, problem: Problem) -> list[tuple[Any, str]]:
    """(spec, reason in one sentence) of the specs of the family's space that cannot run."""
    reasons = {spec: family.check(profile, problem, spec) for spec in family.space(profile, problem)}
    return [(spec, why) for spec, why in reasons.items() if why is not None]
