"""The policy of the sorts: specializations, their limits, candidates, merge passes and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pydp.algorithms import lookback
from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.sort.onesweep_policy import (
    PREDECESSORS,
    STRATEGIES,
    sweep_counts,
    sweep_default,
    sweep_refused,
    sweep_space,
    sweeps,
)
from pydp.algorithms.sort.radix_policy import radix_counts, radix_default, radix_space, refused, usable
from pydp.algorithms.sort.spec import SortProblem, SortSpec
from pydp.groups.barrier_plan import Widths
from pydp.local_memory import Skew, banks_of, skew
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, altered, between, field_error, one_of, power_of_two, variants
from pydp.runtime.device.profile import Profile

_MISS = 15.0  # cycles of a branch misprediction
_CHAINED = {1: 13.0, 2: 8.0, 4: 5.5}  # cycles per merged element, by the number of interleaved chains
# Bytes per element that a merge pass on a GPU moves to and from caches: with short stretches, and for each byte of a
# stretch. Measured on an H200, for stretches of 16 to 256 bytes.
_MERGED_BYTES, _STRETCH_BYTES = 160.0, 5.4
_PROBE = 25.0  # cycles per step of the binary search for the start of a stretch


def counts(profile: Profile, problem: SortProblem, spec: SortSpec) -> Counts:
    """Phases of a merge sort: the sort of the runs, then the merge passes. The radix sorts have their own."""
    if spec.strategy in STRATEGIES:
        return sweep_counts(profile, problem, spec)
    if spec.strategy == "radix":
        return radix_counts(profile, problem, spec)
    passes = max(0, (-(-_sizes(problem)[0] // spec.run) - 1).bit_length())  # each merges runs of twice the length
    if spec.mapping == "simt":
        merges = [_merge(profile, problem, spec, spec.run << step) for step in range(passes)]
        return Counts(problem.dtype, (_runs_of_lanes(profile, problem, spec), *merges))
    runs = _runs(profile, problem, spec.run, spec.small, spec.chains)
    if not passes:
        return Counts(problem.dtype, (runs,))
    return Counts(problem.dtype, (runs, _merges(profile, problem, passes, (spec.run, spec.stretch, spec.chains))))


def _sizes(problem: SortProblem) -> tuple[int, int, int]:
    """(elements of a row, rows, bytes of an element), each at least 1."""
    return max(1, problem.n), max(1, problem.rows), max(1, problem.item_bytes)


def _moved(profile: Profile, size: float) -> tuple[float, float]:
    """Bytes that a pass moves: (memory reads or writes, cache accesses). Data stay in cache if both copies fit."""
    near = profile.kind == "cpu" and 2 * size < 0.75 * profile.l2_bytes * profile.compute_units
    return (0.0, 2 * size) if near else (size, 0.0)


def _runs_of_lanes(profile: Profile, problem: SortProblem, spec: SortSpec) -> Phase:
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
def _runs(profile: Profile, problem: SortProblem, run: int, small: int, chains: int) -> Phase:
    """Cached across candidates: the first choice has one millisecond for all of them."""
    n, rows, item = _sizes(problem)
    size = float(n * rows)
    groups = rows * -(-n // run)
    far, near = _moved(profile, size * item)
    # Insertion moves a quarter of a piece per element, with one branch misprediction. The merges within the run use
    # private arrays, which compilers address less efficiently than the buffers of the later passes.
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


def _merge(profile: Profile, problem: SortProblem, spec: SortSpec, width: int) -> Phase:
    """One merge pass of mapping "simt". On a GPU, adjacent lanes access elements a stretch apart. The longer the
    stretch, the more lines they use at once, and the fewer accesses find their line in a cache."""
    n, rows, item = _sizes(problem)
    size = float(n * rows)
    work = rows * -(-n // min(spec.stretch, 2 * width))
    groups = -(-work // spec.lanes)
    far, near = _moved(profile, size * item)
    return Phase(
        "merge",
        groups=groups,
        lanes=spec.lanes,
        operations=size * 8.0 + work * (2 * width).bit_length() * 4.0,
        efficiency=0.125,
        balance=spread(groups, profile.compute_units),
        registers=32,
        access=item,
        read=far,
        written=far,
        cached=near if profile.kind == "cpu" else size * (_MERGED_BYTES + _STRETCH_BYTES * spec.stretch * item),
    )


@lru_cache(maxsize=64)
def _merges(profile: Profile, problem: SortProblem, passes: int, how: tuple[int, int, int]) -> Phase:
    """All merge passes on a CPU as one phase: they differ only in their search steps. how: (run, stretch, chains)."""
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
    """Sums over all merge passes, independent of chains.

    Returns (work-groups of the busiest compute unit times the units, balance, search steps per element, search steps
    per element times balance)."""
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


def _run_bytes(profile: Profile) -> int:
    """The most bytes of a run that a work-item sorts alone, with a copy, in private memory."""
    return min(1 << 17, profile.most_private_bytes // 2)


def needs(lanes: int, items: int) -> dict[str, Widths]:
    """Widths of the barriers in sort_tile_simt.mako, for the iterations that merge runs of items, 2 * items, ...

    An iteration reads from the lane's pair of runs. It overwrites elements that the previous iteration read within the
    same run.
    """
    runs = [1 << step for step in range(lanes.bit_length() - 1)]
    merged = [(items * run, run) for run in runs]
    placed = [(items * run, 2 * run) for run in runs]
    return {"loaded": lanes, "merged": merged or lanes, "placed": placed or lanes}


def skewed(profile: Profile, spec: SortSpec, item_bytes: int) -> Skew:
    """The layout of elements in the local memory of sort_tile_simt.mako, chosen by the device's bank model."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    return skew(banks, item_bytes, spec.lanes, spec.items, spec.lanes)


def passes(n: int, run: int) -> list[int]:
    """The run length before each merge pass."""
    widths = []
    while run < n:
        widths.append(run)
        run *= 2
    return widths


def _power_of_two(value: int, least: int, most: int) -> int:
    """The largest power of two up to `value`, clamped to least ... most."""
    return max(least, min(most, 1 << max(value, 1).bit_length() - 1))


def default(profile: Profile, problem: SortProblem) -> SortSpec:
    """The default specialization, without measurements: a radix sort where it can run. On GPUs, rows of a few tiles
    are merged sooner than sorted in passes."""
    if usable(profile, problem):
        return radix_default(profile, problem)
    merge = merge_default(profile, problem)
    if sweeps(profile, problem) and problem.n > 8 * merge.run:
        spec = sweep_default(profile, problem)
        return spec if sweep_refused(profile, problem, spec) is None else merge
    return merge


def merge_default(profile: Profile, problem: SortProblem) -> SortSpec:
    """The default merge sort."""
    size = problem.item_bytes
    lanes = _power_of_two(profile.max_group_size, 1, 256)
    while lanes and _local_bytes(profile, lanes, size) > profile.local_bytes:
        lanes //= 2
    # lanes is 0 if an element is too large for local memory.
    if profile.mapping == "vector" or not lanes or problem.records_lost_in_arrays:
        # Both copies of a run fit into half of L1. Stretches are short enough to give all cores work.
        run = _power_of_two(min(max(16, profile.l1_bytes // (4 * size)), _run_bytes(profile) // size), 1, 1024)
        stretch = _power_of_two(problem.n * problem.rows // (4 * profile.compute_units), 1024, 16384)
        chains, calls = 4, _calls(profile, problem)
        if calls is not None:
            run, stretch, chains = min(run, 256), 1024, 4 if calls > 4096 else 1
            while run > 1 and _iterations(run, min(run, 16), chains) > calls:
                run //= 2
            while stretch > 1 and _merged(stretch, chains) > calls:
                stretch //= 2
        # llvmpipe (the driver with a loop limit) compiles private arrays of large records very slowly.
        slow = profile.loop_limit is not None and (size & (size - 1) or size > 32)
        if slow or problem.records_lost_in_arrays:
            run, stretch = 1, min(stretch, 1024)
        return SortSpec("vector", run, min(run, 16), 1, 1, stretch, chains)
    items = _power_of_two(profile.local_bytes // (2 * lanes * size), 1, 8)
    spec = SortSpec("simt", lanes * items, items, lanes, items, min(16, 2 * lanes * items), 1)
    # A caller who only asks for another strategy gets its usual digits and polls.
    return replace(spec, digit=8, plain_polls=profile.kind == "gpu", predecessors=PREDECESSORS)


def _local_bytes(profile: Profile, run: int, size: int) -> int:
    """Bytes of local memory of a work-group that sorts a run, with an upper bound for padding."""
    return (run + (run // 8 if profile.banks > 1 else 0)) * size


def space(profile: Profile, problem: SortProblem) -> list[SortSpec]:
    """Candidates for tuning."""
    base = merge_default(profile, problem)
    if base.mapping == "vector":
        found = radix_space(profile, problem) if usable(profile, problem) else []
        return [*found, base, *_vector_space()] if problem.records_lost_in_arrays else [*found, *_vector_space()]
    found = variants(base, lanes=(64, 128, 256), items=(2, 4, 8), stretch=(4, 8, 16, 32))
    return [
        *(sweep_space(profile, problem) if sweeps(profile, problem) else []),
        *(altered(one, run=one.lanes * one.items, small=one.items) for one in found),
        replace(base, barriers="group"),
    ]


@lru_cache(maxsize=1)
def _vector_space() -> list[SortSpec]:
    """Cached: the same for all problems, and the first choice has one millisecond."""
    base = SortSpec("vector", 64, 8, 1, 1, 1024, 1)
    return variants(base, run=(64, 256, 1024), small=(8, 16, 32), stretch=(1024, 4096, 16384), chains=(1, 2, 4))


def _iterations(run: int, small: int, chains: int) -> int:
    """The maximum loop iterations of a work-item that sorts a run, including the final test of each loop.

    The work-item reads and writes the run, sorts pieces by insertion and merges them."""
    pieces = run // small
    iterations = 2 * (run + 1) + pieces * (1 + small + small * (small - 1) // 2 + small) + 2
    width = small
    while width < run:
        searches = chains + (chains - 1) * width.bit_length() if 2 * width >= chains else chains
        iterations += run + -(-run // (2 * width)) * (searches + chains + 2) + 2
        width *= 2
    return iterations


def _merged(stretch: int, chains: int) -> int:
    """The maximum loop iterations of a work-item in a merge pass, including its searches."""
    return 2 * stretch + 64 * chains


def _calls(profile: Profile, problem: SortProblem) -> int | None:
    """The maximum comparisons of a work-item on this driver; None: no limit."""
    return call_budget(profile.loop_limit, problem.iterations, "a comparison by key and less")


def _lane_iterations(lanes: int, items: int) -> int:
    """The maximum loop iterations of a lane that sorts a run with its work-group.

    `items` passes of an odd-even transposition sort, then for each doubled run length: placing, searching, merging."""
    widths, bits = lanes.bit_length() - 1, (lanes * items).bit_length()
    return 3 * (items + 1) + items * (items // 2 + 1) + widths * (2 * (items + 1) + bits + 2) + 1


_ACCEPTED = {
    **{name: power_of_two(1 << 20) for name in ("small", "lanes", "stretch")},
    **{name: between(1, 1 << 20) for name in ("run", "items")},
    "chains": power_of_two(16),
    "strategy": one_of("merge", "radix", *STRATEGIES),
    "digit": between(1, 12),
    "bins": between(1, 16),
    "chunk": power_of_two(1 << 24),
    **{name: lookback.ACCEPTED[name] for name in ("order", "polls", "suppress")},
    "predecessors": between(1, 16),
}
_SWEPT = {**_ACCEPTED, "lanes": between(1, 1 << 20)}
_MERGED = {**_ACCEPTED, "run": power_of_two(1 << 20), "items": power_of_two(1 << 20)}


def check(profile: Profile, problem: SortProblem, spec: SortSpec) -> str | None:
    """One sentence why a specialization cannot run, or None."""
    if spec.strategy in STRATEGIES:
        return field_error(spec, _SWEPT) or sweep_refused(profile, problem, spec)
    error = field_error(spec, _MERGED)
    if error or spec.strategy == "radix":
        return error or refused(profile, problem, spec)
    calls = _calls(profile, problem)
    if calls is not None:
        alone = spec.mapping == "vector"
        iterations = (
            _iterations(spec.run, spec.small, spec.chains) if alone else _lane_iterations(spec.lanes, spec.items)
        )
        if max(iterations, _merged(spec.stretch, spec.chains)) > calls:
            return (
                f"run is {spec.run}, small {spec.small}, items {spec.items}, chains {spec.chains} and stretch "
                f"{spec.stretch}; together they exceed the loop iterations that this driver allows"
            )
    size = problem.item_bytes
    if problem.records_lost_in_arrays and (spec.mapping, spec.run) != ("vector", 1):
        return (
            f"mapping is {spec.mapping!r} and run {spec.run}; this driver corrupts these records in private and local "
            "arrays. 'vector' with run 1 is accepted"
        )
    if spec.mapping == "simt":
        if spec.run != spec.lanes * spec.items:
            return f"run is {spec.run}; lanes * items, {spec.lanes * spec.items}, is accepted"
        if spec.lanes > profile.max_group_size or _local_bytes(profile, spec.run, size) > profile.local_bytes:
            return f"lanes {spec.lanes} with run {spec.run} exceeds the device's work-group size or local memory"
    elif (spec.lanes, spec.items) != (1, 1):
        return f"lanes is {spec.lanes} and items {spec.items}; with mapping 'vector', both must be 1"
    elif spec.small > spec.run or spec.run * size > max(_run_bytes(profile), size):
        most = _run_bytes(profile)
        return f"small is {spec.small} and run {spec.run}; small up to run, and runs up to {most} bytes are accepted"
    return None


FAMILY = Family("sort", SortSpec, default, space, check, counts)
