"""Explain what would run on a GPU that is not present: candidates, the model's ranking, and compiler reports.

    print(study("sm_90", pydp.matmul, a, b))

Registers, memory and spills come from a real compile if clang is installed (:mod:`pydp.offline.compilers`); the number
of resident warps follows from them by formula (3) of SPEC S5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydp.errors import BuildFailed, InvalidArgument
from pydp.model.architectures import Architecture, by_name, by_target, rates_of
from pydp.model.counts import Phase
from pydp.model.family import Family, Problem
from pydp.model.parallelism import parallelism, seconds_text
from pydp.model.ranking import predictions, rank, rejected
from pydp.model.structure import Analysis, Structure, wmpd_local, wmpd_registers
from pydp.offline.compilers import missing
from pydp.offline.reports import Resources
from pydp.offline.target import Launch, Target, dry_run
from pydp.runtime.device.profile import Profile
from pydp.tuning.choose import Choice, ProblemFound, SpecProbe, choose

_GRANULE = 8  # registers per work-item are allocated in multiples of this


def target_of(name: str) -> Target:
    """The target with a compiler's name, such as "sm_90", "gfx90a" or "avx512". Raises InvalidArgument for others."""
    entry = by_name(name)
    return Target(entry.name, entry.vendor, by_target(name)[0])


def probed(target: Target, call: Callable[..., Any], *args: Any, **kw: Any) -> tuple[Family, Problem] | None:
    """The family and problem of ``call(*args, **kw)``; None for a function without specializations."""
    try:
        dry_run(target, call, *args, **{**kw, "spec": SpecProbe()})
    except ProblemFound as found:
        return found.family, found.problem
    except (InvalidArgument, TypeError):  # TypeError: there is no parameter spec
        dry_run(target, call, *args, **kw)  # raises what is wrong with the call itself
    return None


# --- one kernel's resources, judged ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """One compiled kernel of a call.

    warps: resident warps of a multiprocessor, in whole groups, of at most `most`. limiter: the resource that limits
    them ("registers", "local memory", "groups", "warps"). faults: sentences on spills, scratch memory and exceeded
    limits.
    """

    name: str
    groups: int
    group: int
    resources: Resources
    warps: int
    most: int
    limiter: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        found = self.resources
        parts = [f"{self.name}: {self.groups} groups of {self.group}", f"{found.registers} registers"]
        parts += [f"{found.scalar_registers} scalar registers"] if found.scalar_registers else []
        parts.append(f"{found.local_bytes} bytes of local memory")
        parts.append(f"{found.spilled_bytes} bytes of spills" if found.spilled_bytes else "no spills")
        parts += [f"{found.scratch_bytes} bytes of scratch memory"] if found.scratch_bytes else []
        parts.append(f"{self.warps} of {self.most} warps resident, by {self.limiter}")
        return f"{', '.join(parts)} (by {found.source})"


def compiled_kernels(
    launches: list[Launch], profile: Profile, entry: Architecture, structure: Structure
) -> tuple[Compiled, ...]:
    """Each kernel of a call once, with its first launch: compiled, and checked against the target's limits."""
    first: dict[tuple[str, str, int], Launch] = {}
    for one in launches:
        first.setdefault((one.kernel.name, one.kernel.source, one.group), one)
    kernels = []
    for one in first.values():
        found, group = one.kernel.resources, one.group
        warps, limiter = occupancy(_possible(found, entry), group, structure)
        faults = tuple(faults_of(found, group, profile, entry, structure))
        most = structure.max_warps_per_sm
        kernels.append(Compiled(one.kernel.name, one.groups, group, found, warps, most, limiter, faults))
    return tuple(kernels)


def occupancy(found: Resources, group: int, structure: Structure) -> tuple[int, str]:
    """(resident warps of a multiprocessor in whole groups, what limits them), by formula (3).

    >>> found = Resources("f", 64, 0, 16384)
    >>> occupancy(found, 256, by_target("sm_80")[1])
    (32, 'registers')
    """
    warps = -(-group // structure.warp_size)
    registers = -(-found.registers // _GRANULE) * _GRANULE
    program = Analysis(registers, found.local_bytes / group, group, 0, 0)
    groups = {
        "warps": structure.max_warps_per_sm // warps,
        "groups": structure.max_active_blocks_per_sm,
        "registers": _whole(wmpd_registers(structure, program) / warps, structure),
        "local memory": _whole(wmpd_local(structure, program) * structure.warp_size / group, structure),
    }
    limiter = min(groups, key=lambda name: groups[name])
    return groups[limiter] * warps, limiter


def _possible(found: Resources, entry: Architecture) -> Resources:
    """Limit an estimate to the registers of a work-item, as compilers do."""
    if not found.source.startswith("an estimate"):
        return found
    return replace(found, registers=min(found.registers, entry.registers_per_lane))


def _whole(groups: float, structure: Structure) -> int:
    """The number of whole groups; infinity becomes the largest possible number."""
    return int(min(groups * (1 + 1e-9), structure.max_warps_per_sm * structure.warp_size))


def faults_of(found: Resources, group: int, profile: Profile, entry: Architecture, structure: Structure) -> list[str]:
    """Sentences on spills and on exceeded limits of the target; empty for a good kernel."""
    faults = []
    if found.spilled_bytes:
        faults.append(f"{found.spilled_bytes} bytes of registers spill")
    elif found.scratch_bytes and found.source != "an estimate from the PTX":  # ptxas often puts them into registers
        faults.append(f"{found.scratch_bytes} bytes of private arrays are in memory, not in registers")
    if found.registers > entry.registers_per_lane and not found.source.startswith("an estimate"):
        faults.append(f"{found.registers} registers, a work-item has {entry.registers_per_lane}")
    if found.local_bytes > profile.local_bytes:
        faults.append(f"{found.local_bytes} bytes of local memory, a group has {profile.local_bytes}")
    if group > profile.max_group_size:
        faults.append(f"groups of {group} work-items, {profile.max_group_size} is the most")
    if not faults and not occupancy(_possible(found, entry), group, structure)[0]:
        faults.append(f"groups of {group} with {found.registers} registers each do not fit a multiprocessor")
    return faults


# --- a call, studied ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """One specialization.

    seconds, limiter: the prediction; None if the family has no counts. reason: a sentence. kernels: its kernels, if
    they were compiled. compiled_registers: registers of the main phase's kernel. compiled_seconds: the prediction with
    the registers and local memory of that kernel instead of the estimates. not_taken: why another candidate runs; None
    for the one that runs.
    """

    spec: Any
    seconds: float | None
    limiter: str | None
    reason: str
    kernels: tuple[Compiled, ...] | None = None
    compiled_seconds: float | None = None
    compiled_registers: int | None = None
    not_taken: str | None = None

    @property
    def faults(self) -> list[str]:
        """The faults of its kernels."""
        return [f"{one.name}: {fault}" for one in self.kernels or () for fault in one.faults]


@dataclass(frozen=True)
class Study:
    """The result of :func:`study`.

    runs: the candidate that would run. others: the other candidates with reasons, best first. impossible: specs that
    cannot run on the target, with reasons. compiler: why nothing was compiled, or None. figures: the values of SPEC S5.
    """

    target: Target
    entry: Architecture
    problem: Problem | None
    choice: Choice | None
    runs: Candidate
    others: tuple[Candidate, ...]
    impossible: tuple[tuple[Any, str], ...]
    compiler: str | None
    figures: Mapping[str, str] = field(default_factory=dict)


def study(name: str, call: Callable[..., Any], *args: Any, top: int = 4, **kw: Any) -> Study:
    """Rank the candidates of ``call(*args, **kw)`` for a target; compile the choice and the best `top`.

    name: "sm_90", "gfx90a", ... call: a public function of pydp; the values of NumPy arguments are not read. Raises
    InvalidArgument for an unknown target, and for wrong arguments the same errors as the call.

    >>> study("gfx90a", pydp.scan, np.zeros(1 << 20, "f4")).runs.limiter          # doctest: +SKIP
    'memory'
    """
    target = target_of(name)
    workshop = _Workshop(target, by_name(name), by_target(name)[1], call, args, kw)
    compiler = missing(target.name)
    found = probed(target, call, *args, **kw)
    if found is None:
        only = Candidate(None, None, None, f"{call.__name__} has only one way to run this call")
        only = only if compiler else workshop.compiled(only, None)
        return Study(target, workshop.entry, None, None, only, (), (), compiler)
    family, problem = found
    choice = choose(family, target, problem, kw.get("spec"))
    ranked = _ranked(family, target.profile, problem, workshop.entry)
    if not any(one.spec == choice.spec for one in ranked):
        ranked.insert(0, _unlisted(family, target.profile, problem, workshop, choice))
    if compiler is None:
        wanted = [one.spec == choice.spec or place < top for place, one in enumerate(ranked)]
        ranked = [workshop.compiled(one, found) if now else one for one, now in zip(ranked, wanted, strict=True)]
    runs = next(one for one in ranked if one.spec == choice.spec)
    given = choice.source == "caller"
    others = tuple(_refused(one, runs, given) for one in ranked if one.spec != choice.spec)
    impossible = tuple(rejected(family, target.profile, problem))
    figures = {}
    if family.counts is not None and target.profile.kind == "gpu":
        counts = family.counts(target.profile, problem, choice.spec)
        figures = parallelism(counts, workshop.structure, rates_of(target.profile, workshop.entry))
    return Study(target, workshop.entry, problem, choice, runs, others, impossible, compiler, figures)


def _ranked(family: Family, profile: Profile, problem: Problem, entry: Architecture) -> list[Candidate]:
    """The candidates in the model's order, or in the family's order if it has no counts."""
    if family.counts is None:
        able = family.candidates(profile, problem)
        return [Candidate(spec, None, None, "not ranked: its family has no counts") for spec in able]
    found = rank(family, profile, problem, entry=entry)
    return [Candidate(one.spec, one.seconds, one.limiter, one.reason) for one in found]


@dataclass(frozen=True)
class _Workshop:
    """Compiles the candidates of one call for one target."""

    target: Target
    entry: Architecture
    structure: Structure
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kw: dict[str, Any]

    def compiled(self, one: Candidate, found: tuple[Family, Problem] | None) -> Candidate:
        """The candidate with its kernels and a new prediction; if it does not compile, with that reason."""
        options = self.kw if one.spec is None else {**self.kw, "spec": one.spec}
        launches = dry_run(self.target, self.call, *self.args, **options)
        try:
            kernels = compiled_kernels(launches, self.target.profile, self.entry, self.structure)
        except BuildFailed as error:
            return replace(one, kernels=(), not_taken=f"it does not compile: {str(error).splitlines()[0]}")
        reported = None if found is None else self._reported(*found, one.spec, kernels)
        seconds, registers = reported or (None, None)
        return replace(one, kernels=kernels, compiled_seconds=seconds, compiled_registers=registers)

    def _reported(
        self, family: Family, problem: Problem, spec: Any, kernels: tuple[Compiled, ...]
    ) -> tuple[float, int] | None:
        """(predicted seconds with the compiled resources of the main phase's kernel, registers of that kernel)."""
        profile = self.target.profile
        if family.counts is None or profile.kind != "gpu" or not kernels:  # no kernels: nothing to compute
            return None
        counts = family.counts(profile, problem, spec)
        own = _kernel_of(counts.main, kernels)
        main = counts.main._replace(registers=own.registers, local_bytes=own.local_bytes)
        phases = tuple(main if phase is counts.main else phase for phase in counts.phases)
        (found,) = predictions([replace(counts, phases=phases)], profile, entry=self.entry)
        return found.seconds, own.registers


def _kernel_of(phase: Phase, kernels: tuple[Compiled, ...]) -> Resources:
    """The resources of a phase's kernel.

    Among the kernels with the phase's launch shape (else among all), it is the one with the closest local memory; if
    several are equal, the one with the most registers.
    """
    same = [one.resources for one in kernels if (one.groups, one.group) == (phase.groups, phase.lanes)]
    able = same or [one.resources for one in kernels]
    return min(able, key=lambda one: (abs(one.local_bytes - phase.local_bytes), -one.registers))


def _unlisted(family: Family, profile: Profile, problem: Problem, workshop: _Workshop, choice: Choice) -> Candidate:
    """The prediction for a caller's specialization that is not among the candidates."""
    if family.counts is None:
        return Candidate(choice.spec, None, None, choice.reason)
    (by,) = predictions([family.counts(profile, problem, choice.spec)], profile, entry=workshop.entry)
    return Candidate(choice.spec, by.seconds, by.limiter, f"{seconds_text(by.seconds)} predicted")


def _refused(one: Candidate, runs: Candidate, given: bool) -> Candidate:
    """The candidate with the reason why another one runs. given: the caller chose that one."""
    if one.not_taken is not None:
        return one
    why = "; ".join(one.faults)
    if not why and one.seconds is not None and runs.seconds is not None:
        near = "; spec= asks for another" if given else "; within the model's error of the choice"
        why = one.reason + compiled_text(one) + (near if one.seconds <= runs.seconds else "")
    first = "spec= asks for another" if given else "the default goes before candidates that are not ranked"
    return replace(one, not_taken=why or first)


def compiled_text(one: Candidate) -> str:
    """The end of a sentence: the prediction with the compiled resources; empty if there is none."""
    if one.compiled_seconds is None:
        return ""
    return f"; {seconds_text(one.compiled_seconds)} with the compiled {one.compiled_registers} registers"
