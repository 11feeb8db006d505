"""The policy of the radix sort: its sizes, default, candidates, limits and counts for the cost model.

All functions are pure: they depend only on the device's profile, the problem and the specialization.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pydp.algorithms.sort.spec import SortProblem, SortSpec, key_bits
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import variants
from pydp.runtime.device.profile import Profile

BUCKETS = 1024  # most buckets of a segment: their lines, 64 KiB, stay in the second-level cache
RADIX_ELEMENTS = 3 << 30  # elements of all rows together: places and ends of chunks are 32-bit numbers
RANKED = {32: 128, 64: 64}  # elements, by the bits of a rank, that are sorted by comparing each with all others
_ALONE = 1 << 16  # elements of a row that one work-item sorts sooner than all work-items in rounds
_ONE_ROUND = 1 << 17  # elements that all fit into caches: a large bucket is sorted sooner than distributed again
_PER_BIN = 16  # elements of a segment for each bin and chunk, because one work-item reads all bins
_EVERY_KEY = 1 << 19  # elements for which a bin for each of the keys of 16 bits pays off
_CHUNKS = 4  # chunks per compute unit, to balance the load
_TASKS = 8  # minimum buckets per compute unit


@dataclass(frozen=True)
class Rounds:
    """The sizes of a sort in rounds.

    chunk: elements of a chunk; per_row: chunks of a row. bins, again: bits of the digits of both rounds (again: 0
    without a second round). target: most elements of a bucket that joins bins. limit: most elements of a bucket that is
    not distributed again. segments, chunks: at most, in the second round. tasks: the most buckets of both rounds.
    workers: work-items that sort buckets.
    """

    chunk: int
    per_row: int
    bins: int
    again: int
    target: int
    limit: int
    segments: int
    chunks: int
    tasks: int
    workers: int


def whole_rows(profile: Profile, spec: SortSpec, n: int, rows: int) -> bool:
    """Whether one work-item sorts a whole row."""
    return n <= 2 * spec.run and (rows >= profile.compute_units or n <= _ALONE)


def rounds(profile: Profile, spec: SortSpec, n: int, rows: int) -> Rounds:
    """The sizes of the rounds for rows that are not sorted whole."""
    total, units = n * rows, profile.compute_units
    chunk = max(spec.chunk, -(-total // (_CHUNKS * units)))
    per_row = -(-n // chunk)
    bins = min(spec.bins, max(10, (n // (_PER_BIN * per_row)).bit_length() - 1))
    if spec.bins == 16 and n >= _EVERY_KEY:
        bins = 16
    again = min(spec.bins, 12) if total > min(_ONE_ROUND, 16 * spec.run) else 0
    target, limit = max(1, min(spec.run, total // (_TASKS * units))), 2 * spec.run
    segments = total // limit  # of the second round: each has more than `limit` elements
    tasks = 8 * (rows + segments) + 8 * (total // target) + 64
    chunks = segments + -(-total // chunk)
    return Rounds(chunk, per_row, bins, again, target, limit, max(1, segments), max(1, chunks), tasks, units)


def radix_default(profile: Profile, problem: SortProblem) -> SortSpec:
    """The default radix sort: two copies of a run fit into a quarter of the second-level cache."""
    size = max(problem.element_bytes, 1)
    run = min(1 << 16, 1 << max(5, (profile.l2_bytes // (8 * size)).bit_length() - 1))
    counted = problem.dtype in ("int16", "uint16") and size == 2  # every bin has one key: results are filled in
    bins = 16 if counted else 15 if "float" in problem.dtype else 12
    streams = not profile.is_simulator
    return SortSpec("vector", run, 1, 1, 1, 1, 1, "auto", None, "radix", 12, bins, 1 << 14, streams)


def radix_space(profile: Profile, problem: SortProblem) -> list[SortSpec]:
    """Candidates for tuning."""
    base = radix_default(profile, problem)
    return variants(base, run=(base.run // 4, base.run, 2 * base.run), digit=(8, 11, 12))


def usable(profile: Profile, problem: SortProblem) -> bool:
    """Whether a radix sort can run."""
    return bool(problem.element_bytes) and profile.mapping == "vector" and profile.loop_limit is None


def refused(profile: Profile, problem: SortProblem, spec: SortSpec) -> str | None:
    """One sentence why a radix sort cannot run, or None."""
    if not problem.element_bytes:
        return "strategy is 'radix'; keys compared by functions, records and keys of over 64 bits need 'merge'"
    if spec.mapping != "vector":
        return f"strategy is 'radix' with mapping {spec.mapping!r}; 'vector' is accepted"
    if profile.kind == "gpu":  # the driver would reserve its private arrays for every lane of the device
        return "strategy is 'radix', which is for CPUs; 'onesweep' and 'merge' are accepted"
    if profile.loop_limit is not None:
        return "strategy is 'radix'; its loops are longer than this driver allows"
    if (spec.lanes, spec.items) != (1, 1):
        return f"lanes is {spec.lanes} and items {spec.items}; with strategy 'radix', both must be 1"
    return None


# Cycles per element, measured on a core that starts two vector operations per cycle.
_RANGE, _COUNT, _SCATTER, _COPY, _PASS, _INSERT = 0.4, 1.5, 6.0, 1.5, 2.5, 2.0
_TABLE = 2.0  # cycles per entry of a table of digits: clear and add up


def radix_counts(profile: Profile, problem: SortProblem, spec: SortSpec) -> Counts:
    """Phases: the rows; or the two rounds and the buckets."""
    n, rows = max(1, problem.n), max(1, problem.rows)
    return Counts(problem.dtype, _phases(profile, problem.dtype, problem.element_bytes, n, rows, spec))


@lru_cache(maxsize=256)
def _phases(profile: Profile, dtype: str, size: int, n: int, rows: int, spec: SortSpec) -> tuple[Phase, ...]:
    bits, total, units = key_bits(dtype), n * rows, profile.compute_units
    far = float(total * size) if 2 * total * size > 0.75 * profile.l2_bytes * units else 0.0
    slow = 1.0 + (size - 1) / 16.0  # larger elements fill more lines

    def phase(name: str, groups: int, cycles: float, moved: tuple[float, float], launches: int = 1) -> Phase:
        share = efficiency(profile, dtype, 1.0, cycles)
        balance = spread(groups, units)
        read, written = (one * far for one in moved)
        return Phase(
            name, groups, 1, float(total), share, read, written, cached=0.0 if far else total * size,
            balance=balance, launches=launches,
        )  # fmt: skip

    if whole_rows(profile, spec, n, rows):
        return (phase("rows", rows, _cached(n, bits, spec.digit, 1 << 15, 3) * slow + _COPY, (1.0, 1.0)),)
    sizes = rounds(profile, spec, n, rows)
    chunks, bucket = rows * sizes.per_row, max(1, min(sizes.target, total))
    left = max(1, bits - (n // bucket).bit_length() + 1)
    return (
        phase("range", chunks, _RANGE, (1.0, 0.0)),
        phase("count", chunks, _COUNT, (1.0, 0.0), 2),
        phase("scatter", chunks, _SCATTER * slow, (1.0, 1.0), 5 if sizes.again else 1),
        phase(
            "buckets", max(1, total // bucket), _cached(bucket, left, spec.digit, 8192, 2) * slow + _COPY, (1.0, 1.0)
        ),
    )


def _cached(n: int, bits: int, digit: int, many: int, long: int) -> float:
    """Cycles per element to sort n elements in a cache by this many bits (see sort_radix_cached.mako)."""
    width = 32 if bits <= 32 else 64
    if n <= RANKED[width]:
        return 8.0 + n * width / 320.0
    most, cycles = (6, 1.4) if n < 2048 else (8, 1.6) if n < many else (digit, _PASS)
    most = min(most, digit)
    passes = min(3 if n < many else long, -(-bits // most))
    return _COUNT + passes * (cycles + _TABLE * (1 << most) / n) + (_INSERT if bits > passes * most else 0.0) + 60.0 / n
