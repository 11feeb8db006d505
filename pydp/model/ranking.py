"""Rank the candidates of a family by predicted time, without running them.

for one in rank(FAMILY, device.profile, problem)[:5]:
    print(one.spec, one.seconds, one.limiter, one.reason)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydp.errors import InvalidArgument
from pydp.model.architectures import Architecture, architecture, rates_of, structure_of
from pydp.model.costs import Cost, costs
from pydp.model.family import Family, Problem
from pydp.model.parallelism import seconds_text
from pydp.model.rates import Rates
from pydp.model.structure import Structure
from pydp.runtime.device.profile import Profile

NEAR = 1.05  # predictions within this factor of the best count as equal: then the default goes first


@dataclass(frozen=True)
class Ranked:
    """One candidate with its predicted `cost`. best: the best prediction, in seconds. spilling: a note on spills."""

    spec: Any
    cost: Cost
    best: float
    spilling: str = ""

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
        return self.spilling + _reason(self.seconds, self.best, self.cost)


_Costed = tuple[int, Any, Cost]  # registers needed, if a work-item has fewer, else 0; specialization; its cost


@dataclass(frozen=True)
class Rejected:
    """A candidate that cannot run, and the reason in one sentence."""

    spec: Any
    reason: str


def rank(
    family: Family,
    profile: Profile,
    problem: Problem,
    structure: Structure | None = None,
    rates: Rates | None = None,
    entry: Architecture | None = None,
) -> list[Ranked]:
    """The candidates that can run, best first.

    structure: for a GPU; by default derived from `entry`, else from the profile. rates: by default estimated from the
    table; a stored calibration is better. On GPUs, candidates that need more registers than a work-item has go last.
    The list is empty if no candidate can run. Raises InvalidArgument for a family without counts.
    """
    best, ordered, most = _ordered(family, profile, problem, structure, rates, entry)
    return [Ranked(spec, by, best, _spilling(spills, most)) for spills, spec, by in ordered]


def first_of(
    family: Family, profile: Profile, problem: Problem, rates: Rates | None = None, entry: Architecture | None = None
) -> tuple[Ranked, int] | None:
    """(first of `rank`, number of candidates), faster than `rank`; None if no candidate can run."""
    best, ordered, most = _ordered(family, profile, problem, None, rates, entry)
    if not ordered:
        return None
    spills, spec, by = ordered[0]
    return Ranked(spec, by, best, _spilling(spills, most)), len(ordered)


def _ordered(
    family: Family,
    profile: Profile,
    problem: Problem,
    structure: Structure | None,
    rates: Rates | None,
    entry: Architecture | None,
) -> tuple[float, list[_Costed], int | None]:
    """(best prediction in seconds, candidates in order, registers per work-item of a GPU)."""
    if family.counts is None:
        raise InvalidArgument(f"family {family.name!r} has no counts, so its candidates cannot be ranked")
    if rates is None:
        rates = rates_of(profile, entry)
    if structure is None and profile.kind == "gpu":
        structure = structure_of(profile, entry)
    most = (entry or architecture(profile)).registers_per_lane if structure is not None else None
    default = family.default(profile, problem)
    specs = family.candidates(profile, problem)
    counted = [family.counts(profile, problem, spec) for spec in specs]
    need = [one.registers if most is not None and one.registers > most else 0 for one in counted]
    found = list(zip(need, specs, costs(counted, rates, structure), strict=True))
    if not found:
        return 0.0, found, most
    best = min([by.seconds for spills, _, by in found if not spills] or [by.seconds for _, _, by in found])
    order = sorted(found, key=lambda one: (one[0] > 0, one[2].seconds))
    # If predictions are equal, the default goes first.
    spills, spec, by = found[0]
    if spec == default and by.seconds <= NEAR * best and (not spills or order[0][0]):
        order.remove(found[0])
        order.insert(0, found[0])
    return best, order, most


def rejected(family: Family, profile: Profile, problem: Problem) -> list[Rejected]:
    """The specs of the family's space that cannot run, with reasons."""
    found = []
    for spec in dict.fromkeys(family.space(profile, problem)):
        why = family.check(profile, problem, spec)
        if why is not None:
            found.append(Rejected(spec, why))
    return found


def _spilling(registers: int, most: int | None) -> str:
    return f"needs about {registers} registers, a work-item has {most}: they would spill; " if registers else ""


def _reason(seconds: float, best: float, by: Cost) -> str:
    share = by.parts[by.limiter] / by.seconds if by.seconds else 1.0
    slower = f"{seconds / best:.2f} times the best prediction" if seconds > best else "the best prediction"
    return f"{seconds_text(seconds)} predicted, {share:.0%} of it {by.limiter}; {slower}"
