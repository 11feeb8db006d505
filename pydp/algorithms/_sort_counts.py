"""What one specialization of a sort does: sorting runs, then passes that merge them, as phases for the cost model."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pydp.algorithms._sort_spec import SortSpec
from pydp.specialize.counts import Counts, Phase, efficiency, spread

if TYPE_CHECKING:
    from pydp.runtime.profile import Profile
    from pydp.specialize.family import Problem

_MISS = 15.0  # cycles of a branch that was guessed wrong
_CHAINED = {1: 13.0, 2: 8.0, 4: 5.5}  # cycles of a merged element, by chains that take turns
_PROBE = 25.0  # cycles of one step of the search for a stretch's beginning


def counts(profile: Profile, problem: Problem, spec: SortSpec) -> Counts:
    """problem.sizes: (elements of a row, rows, bytes of an element with what it carries)."""
    passes = max(0, (-(-_sizes(problem)[0] // spec.run) - 1).bit_length())  # each merges runs of twice the length
    if spec.mapping == "simt":
        merges = [_merge(profile, problem, spec, spec.run << turn) for turn in range(passes)]
        return Counts(problem.dtype, (_runs_of_lanes(profile, problem, spec), *merges))
    runs = _runs(profile, problem, spec.run, spec.small, spec.chains)
    if not passes:
        return Counts(problem.dtype, (runs,))
    return Counts(problem.dtype, (runs, _merges(profile, problem, passes, (spec.run, spec.stretch, spec.chains))))


def _sizes(problem: Problem) -> tuple[int, int, int]:
    """(elements of a row, rows, bytes of an element), none of them 0."""
    n, rows, item = problem.sizes[:3]
    return max(1, n), max(1, rows), max(1, item)


def _moved(profile: Profile, size: float) -> tuple[float, float]:
    """Bytes that a pass moves: (each way to memory, within the cores' caches, where both copies fit them)."""
    near = profile.kind == "cpu" and 2 * size < 0.75 * profile.l2_bytes * profile.compute_units
    return (0.0, 2 * size) if near else (size, 0.0)


def _runs_of_lanes(profile: Profile, problem: Problem, spec: SortSpec) -> Phase:
    n, rows, item = _sizes(problem)
    groups = rows * -(-n // spec.run)
    far, near = _moved(profile, float(n * rows * item))
    steps = max(1, spec.lanes.bit_length() - 1)
    own = spec.items * spec.items / 2.0
    return Phase(
        "runs",
        groups=groups,
        lanes=spec.lanes,
        efficiency=0.25,
        operations=groups * spec.lanes * (own + steps * (6.0 * spec.items + 4.0 * spec.run.bit_length())),
        balance=spread(groups, profile.compute_units),
        barriers=2 * steps + 2,
        local_bytes=spec.run * item,
        registers=20 + 2 * spec.items * max(1, item // 4),
        access=item,
        read=far,
        written=far,
        cached=near,
    )


@lru_cache(maxsize=64)
def _runs(profile: Profile, problem: Problem, run: int, small: int, chains: int) -> Phase:
    """Kept from one candidate to the next: a first choice has a millisecond for all of them."""
    n, rows, item = _sizes(problem)
    size = float(n * rows)
    groups = rows * -(-n // run)
    far, near = _moved(profile, size * item)
    # Insertion moves a quarter of a piece for each element and is guessed wrong once; merges within the run follow, in
    # private arrays, which compilers address less well than the buffers of the later passes.
    merges = max(0, (run // small).bit_length() - 1)
    cycles = small / 4.0 + _MISS + merges * (2.0 * _CHAINED.get(chains, 5.5) + 2.0)
    cycles *= 1.0 if 2 * run * item < profile.l1_bytes else 1.3
    return Phase(
        "runs",
        groups=groups,
        operations=size,
        efficiency=efficiency(profile, problem.dtype, 1.0, cycles),
        balance=spread(groups, profile.compute_units),
        read=far,
        written=far,
        cached=near,
    )


def _merge(profile: Profile, problem: Problem, spec: SortSpec, width: int) -> Phase:
    """One pass by lanes."""
    n, rows, item = _sizes(problem)
    size = float(n * rows)
    work = rows * -(-n // min(spec.stretch, 2 * width))
    groups = -(-work // spec.lanes)
    far, near = _moved(profile, size * item)
    return Phase(
        "merge",
        groups=groups,
        lanes=spec.lanes,
        operations=size * 8.0 + work * (2 * width).bit_length() * 6.0,
        efficiency=0.125,
        balance=spread(groups, profile.compute_units),
        registers=32,
        access=item,
        read=far,
        written=far,
        cached=near,
    )


@lru_cache(maxsize=64)
def _merges(profile: Profile, problem: Problem, passes: int, how: tuple[int, int, int]) -> Phase:
    """All passes of a CPU as one phase, for they differ in the steps of a search alone. how: (run, stretch, chains)."""
    n, rows, item = _sizes(problem)
    run, stretch, chains = how
    chained = _CHAINED.get(chains, 5.5)
    groups, balances, probes, late = _stretches(n, rows, run, stretch, profile.compute_units)
    probe = chains * _PROBE
    cycles = passes * chained + probe * probes
    balance = (chained * balances + probe * late) / cycles
    size = float(n * rows) * passes
    far, near = _moved(profile, size / passes * item)
    return Phase(
        "merges",
        groups=max(1, round(groups / balance)),
        operations=size,
        efficiency=efficiency(profile, problem.dtype, 1.0, cycles / passes),
        balance=max(1.0, balance),
        read=far * passes,
        written=far * passes,
        cached=near * passes,
        launches=passes,
    )


@lru_cache(maxsize=64)
def _stretches(n: int, rows: int, run: int, stretch: int, units: int) -> tuple[float, float, float, float]:
    """What the passes come to, whatever their chains, summed over them: groups (of the busiest unit, times the units),
    balance, steps of a search for each element, and those of the busiest unit."""
    groups = balances = probes = late = 0.0
    width = run
    while width < n:
        across = min(stretch, 2 * width)
        work = rows * -(-n // across)
        balance, steps = spread(work, units), (2 * width).bit_length() / across
        groups += work * balance
        balances += balance
        probes += steps
        late += steps * balance
        width *= 2
    return groups, balances, probes, late
