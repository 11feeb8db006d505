"""The policy of the sorts: specializations, their limits, candidates, merge passes and counts for the cost model.

All functions are pure: they depend on the device's profile and the problem only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pydp.model.counts import Counts, Phase, efficiency, spread

if TYPE_CHECKING:
    from pydp.model.family import Problem
    from pydp.runtime.device.profile import Profile
from dataclasses import replace

from pydp.groups.barrier import why_not
from pydp.groups.barrier_plan import Widths
from pydp.local_memory import Skew, banks_of, skew
from pydp.model.family import Family, Problem
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class SortSpec:
    """First stage: runs of `run` elements (CPU: a work-item sorts one, pieces of `small` by insertion; GPU: `lanes`
    with `items` elements each do, and run is their product). Then passes in which a work-item makes `stretch`
    results, in `chains` that take turns. barriers, subgroup: how lanes meet (see :mod:`pydp.groups.barrier`; GPU)."""

    mapping: str
    run: int
    small: int
    lanes: int
    items: int
    stretch: int
    chains: int
    barriers: str = "auto"
    subgroup: int | None = None


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


LOST = "records_lost_in_arrays"  # the flag of problems whose elements the driver loses in private and local arrays
ROUNDS = "rounds="  # the flag that gives the iterations of loops in a comparison, where the driver ends long loops
_RUN_BYTES = 1 << 17  # most of a run that a work-item of a CPU sorts in its own memory


def needs(lanes: int, items: int) -> dict[str, Widths]:
    """What the barriers of sort_tile_simt.mako need, in the turns that merge runs of `items`, 2 `items`, ... elements.

    A turn reads from the pair of runs that the lane is in; what it overwrites, the turn before has read in its run.
    """
    turns = [1 << turn for turn in range(lanes.bit_length() - 1)]
    merged = [(items * run, run) for run in turns]
    placed = [(items * run, 2 * run) for run in turns]
    return {"loaded": lanes, "merged": merged or lanes, "placed": placed or lanes}


def skewed(profile: Profile, spec: SortSpec, item_bytes: int) -> Skew:
    """How elements of so many bytes lie in sort_tile_simt.mako's local memory, by the model of the device's banks."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    return skew(banks, item_bytes, spec.lanes, spec.items, spec.lanes)


def passes(n: int, run: int) -> list[int]:
    """The widths of the runs before each merge pass."""
    widths = []
    while run < n:
        widths.append(run)
        run *= 2
    return widths


def _power_of_two(value: int, least: int, most: int) -> int:
    """The largest power of two up to `value`, kept between two powers of two."""
    return max(least, min(most, 1 << max(value, 1).bit_length() - 1))


def default(profile: Profile, problem: Problem) -> SortSpec:
    """problem.sizes: (elements of a row, rows, bytes of a key and what it carries)."""
    n, rows, size = problem.sizes
    lanes = _power_of_two(profile.max_group_size, 1, 256)
    while lanes and _local_bytes(profile, lanes, size) > profile.local_bytes:
        lanes //= 2
    # Without lanes elements are too large for local memory.
    if profile.mapping == "vector" or not lanes or LOST in problem.flags:
        # Both copies of a run stay in half of L1; a run is not longer than what gives every core one.
        run = _power_of_two(min(max(16, profile.l1_bytes // (4 * size)), _RUN_BYTES // size), 1, 1024)
        stretch = _power_of_two(n * rows // (4 * profile.compute_units), 1024, 16384)
        chains, calls = 4, _calls(profile, problem)
        if calls is not None:
            run, stretch, chains = min(run, 256), 1024, 4 if calls > 4096 else 1
            while run > 1 and _rounds(run, min(run, 16), chains) > calls:
                run //= 2
            while stretch > 1 and _merged(stretch, chains) > calls:
                stretch //= 2
        # llvmpipe, which the limit of loops tells, compiles very slowly private arrays of large records.
        slow = profile.loop_limit is not None and (size & (size - 1) or size > 32)
        if slow or LOST in problem.flags:
            run, stretch = 1, min(stretch, 1024)
        return SortSpec("vector", run, min(run, 16), 1, 1, stretch, chains)
    items = _power_of_two(profile.local_bytes // (2 * lanes * size), 1, 8)
    return SortSpec("simt", lanes * items, items, lanes, items, min(16, 2 * lanes * items), 1)


def _local_bytes(profile: Profile, run: int, size: int) -> int:
    """Local memory of a group that sorts a run, with what bank conflicts may cost."""
    return (run + (run // 8 if profile.banks > 1 else 0)) * size


def space(profile: Profile, problem: Problem) -> list[SortSpec]:
    """Specializations worth a look."""
    base = default(profile, problem)
    if base.mapping == "vector":
        return [base, *_vector_space()] if LOST in problem.flags else _vector_space()
    found = [
        SortSpec("simt", lanes * items, items, lanes, items, stretch, 1)
        for lanes in (64, 128, 256)
        for items in (2, 4, 8)
        for stretch in (4, 8, 16, 32)
    ]
    return [*found, replace(base, barriers="group")]


@lru_cache(maxsize=1)
def _vector_space() -> list[SortSpec]:
    """Kept, for it is the same for all problems and a first choice has a millisecond."""
    return [
        SortSpec("vector", run, small, 1, 1, stretch, chains)
        for run in (64, 256, 1024)
        for small in (8, 16, 32)
        for stretch in (1024, 4096, 16384)
        for chains in (1, 2, 4)
    ]


def _rounds(run: int, small: int, chains: int) -> int:
    """The most rounds that all loops of a work-item take together where it sorts a run, those in which a loop finds its
    end counted too: the run is read and written, pieces are sorted by insertion, and merged."""
    pieces = run // small
    rounds = 2 * (run + 1) + pieces * (1 + small + small * (small - 1) // 2 + small) + 2
    width = small
    while width < run:
        searches = chains + (chains - 1) * width.bit_length() if 2 * width >= chains else chains
        rounds += run + -(-run // (2 * width)) * (searches + chains + 2) + 2
        width *= 2
    return rounds


def _merged(stretch: int, chains: int) -> int:
    """The same of a work-item that merges, its searches included."""
    return 2 * stretch + 64 * chains


def _calls(profile: Profile, problem: Problem) -> int | None:
    """How often a work-item may compare; None: as often as it likes."""
    rounds = next((int(flag.removeprefix(ROUNDS)) for flag in problem.flags if flag.startswith(ROUNDS)), 0)
    return None if profile.loop_limit is None else profile.loop_limit // (1 + rounds)


def _lane_rounds(lanes: int, items: int) -> int:
    """The same of a lane that sorts a run with its group: neighbours trade places in `items` turns, and runs of twice
    the length each time are placed, searched and merged."""
    widths, bits = lanes.bit_length() - 1, (lanes * items).bit_length()
    return 3 * (items + 1) + items * (items // 2 + 1) + widths * (2 * (items + 1) + bits + 2) + 1


def check(profile: Profile, problem: Problem, spec: SortSpec) -> str | None:
    """Why a specialization cannot run, or None."""
    powers = (spec.run, spec.small, spec.lanes, spec.items, spec.stretch, spec.chains)
    for name, value in zip(("run", "small", "lanes", "items", "stretch", "chains"), powers, strict=True):
        if value < 1 or value & (value - 1) or value > 2**20:
            return f"{name} is {value}; powers of two up to 2**20 are accepted"
    if spec.chains > 16:
        return f"chains is {spec.chains}; at most 16 are accepted"
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    calls = _calls(profile, problem)
    if calls is not None:
        alone = spec.mapping == "vector"
        rounds = _rounds(spec.run, spec.small, spec.chains) if alone else _lane_rounds(spec.lanes, spec.items)
        if max(rounds, _merged(spec.stretch, spec.chains)) > calls:
            return (
                f"run is {spec.run}, small {spec.small}, items {spec.items}, chains {spec.chains} and stretch "
                f"{spec.stretch}, more than this driver's loops take"
            )
    size = problem.sizes[2]
    if LOST in problem.flags and (spec.mapping, spec.run) != ("vector", 1):
        return (
            f"mapping is {spec.mapping!r} and run {spec.run}; 'vector' and 1 are accepted, for this driver loses such "
            "records in arrays"
        )
    if spec.mapping == "simt":
        if spec.run != spec.lanes * spec.items:
            return f"run is {spec.run}; lanes * items, {spec.lanes * spec.items}, is accepted"
        if spec.lanes > profile.max_group_size or _local_bytes(profile, spec.run, size) > profile.local_bytes:
            return f"lanes is {spec.lanes} and run {spec.run}, more than the device's group or local memory takes"
    elif (spec.lanes, spec.items) != (1, 1):
        return (
            f"lanes is {spec.lanes} and items {spec.items}; the vector mapping has one work-item a group, with 1 and 1"
        )
    elif spec.small > spec.run or spec.run * size > max(_RUN_BYTES, size):
        return f"small is {spec.small} and run {spec.run}; small up to run, and runs of 128 KiB are accepted"
    return None


FAMILY = Family("sort", SortSpec, default, space, check, counts)
