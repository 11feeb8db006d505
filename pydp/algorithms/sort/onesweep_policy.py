"""The policy of the radix sort of GPUs: its sizes, default, candidates, limits and counts for the cost model.

All functions are pure: they depend only on the device's profile, the problem and the specialization.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydp.algorithms.lookback import spec_error
from pydp.algorithms.sort.spec import SortProblem, SortSpec, key_bits
from pydp.groups.barrier import is_nvidia
from pydp.model.counts import Counts, Phase, spread
from pydp.model.family import variants
from pydp.runtime.device.profile import Profile

STRATEGIES = ("onesweep", "reduce_then_scan")
COLUMNS = 16  # lanes of a row of a work-group's scan
IN_FLIGHT = 8  # keys that a lane loads before it counts or stores them
ADDED_AT_ONCE = 32  # counts that a lane loads before it adds them up
PREDECESSORS = 4  # tiles that a lane polls at once
_GROUPS = 4  # work-groups of a compute unit that count digits, or walk over tiles: enough to balance the load
_LANES, _ITEMS = 256, 23
_LOCAL = 48 << 10  # bytes of local memory that every work-group may have on current GPUs
_MOST_TILE = 1 << 15
_FILE = 1 << 16  # 32-bit registers of a compute unit
_RUN = 32  # the most lanes that find the lanes of equal digits together: the bits of a mask


@dataclass(frozen=True)
class Sweep:
    """The sizes of one sort.

    passes: of digits of `width` bits. tile: elements of a tile; per_row: tiles of a row. part: elements that a
    work-group counts for the digits of all passes; parts: parts of a row. walk: tiles that a work-group walks over
    (reduce-then-scan); walks: work-groups of a row that do so.
    """

    passes: int
    width: int
    tile: int
    per_row: int
    part: int
    parts: int
    walk: int
    walks: int


def sweep(profile: Profile, spec: SortSpec, n: int, rows: int, bits: int) -> Sweep:
    """The sizes of a sort of `rows` rows of n keys by `bits` bits."""
    passes = -(-bits // spec.digit)
    width = -(-bits // passes)
    tile = spec.lanes * spec.items
    per_row = -(-n // tile)
    wanted = -(-_GROUPS * profile.compute_units // rows)
    walk = -(-per_row // wanted)
    each = -(-n // wanted)
    if profile.loop_limit is not None:
        walk = min(walk, max(1, profile.loop_limit // (2 * _tile_iterations(spec))))
        each = min(each, spec.lanes * profile.loop_limit // 4)
    part = -(-max(each, tile) // spec.lanes) * spec.lanes
    return Sweep(passes, width, tile, per_row, part, -(-n // part), walk, -(-per_row // walk))


def run_of(spec: SortSpec) -> int:
    """The lanes that find the lanes of equal digits together, and have counters of their own."""
    return min(_RUN, spec.lanes)


def _tile_iterations(spec: SortSpec) -> int:
    """The most loop iterations of a lane for one tile."""
    scan = 2 * COLUMNS + spec.lanes // COLUMNS + 4
    bins, runs = 1 << spec.digit, spec.lanes // run_of(spec)
    digits = -(-bins // spec.lanes) + 1
    return 8 * (spec.items + 1) + scan + bins // run_of(spec) + 1 + digits * (2 * (runs + 1) + 3)


def _word(problem: SortProblem) -> tuple[int, int]:
    """(bytes of a key, bytes of a carried value between passes or 0)."""
    key = key_bits(problem.dtype) // 8
    carried = problem.item_bytes > key
    return key, problem.element_bytes // 2 if carried else 0


def local_bytes(spec: SortSpec, word: int) -> int:
    """An upper bound of the local memory of a work-group, for keys and values of `word` bytes."""
    bins = 1 << spec.digit
    counters = 2 * 4 * bins * (spec.lanes // run_of(spec))  # and as many masks, where lanes find each other by masks
    stage = max(spec.lanes * spec.items * word, counters)
    return stage + 4 * bins + 4 * (spec.lanes + 2 * spec.lanes // COLUMNS) + 64


def sweep_default(profile: Profile, problem: SortProblem) -> SortSpec:
    """The default: tiles of 5888 elements, or smaller ones if local memory or registers require it."""
    word = max(_word(problem))
    lanes = min(_LANES, 1 << max(profile.max_group_size, 1).bit_length() - 1)
    safe = profile.group_progress and profile.loop_limit is None
    spec = SortSpec(
        "simt", lanes * _ITEMS, 1, lanes, _ITEMS, 1, 1, strategy=STRATEGIES[0 if safe else 1], digit=8,
        barriers="auto" if profile.kind == "gpu" else "group", plain_polls=profile.kind == "gpu",
        predecessors=PREDECESSORS,
    )  # fmt: skip
    most = min(profile.local_bytes, _LOCAL)
    while spec.items > 1 and (local_bytes(spec, word) > most or not _two_fit(problem, spec)):
        spec = _of_tile(spec, spec.lanes, spec.items - 2)
    return spec


def _of_tile(spec: SortSpec, lanes: int, items: int) -> SortSpec:
    return replace(spec, run=lanes * items, lanes=lanes, items=items)


def sweep_space(profile: Profile, problem: SortProblem) -> list[SortSpec]:
    """Candidates for tuning."""
    base = sweep_default(profile, problem)
    found = variants(base, lanes=(256, 384, 512), items=(7, 11, 15, 19, 23))
    found = [_of_tile(one, one.lanes, one.items) for one in found if _two_fit(problem, one)]
    other = replace(base, strategy="reduce_then_scan")
    return [base, *(one for one in found if one != base), *([other] if other != base else [])]


def _registers(problem: SortProblem, spec: SortSpec) -> int:
    """An estimate of the 32-bit registers of a lane in a pass: places, keys and values of its elements, and others."""
    words = 1 + sum(_word(problem)) / 4
    return -(-int(31 + spec.lanes // 128 + spec.items * words) // 8) * 8


def _two_fit(problem: SortProblem, spec: SortSpec) -> bool:
    """Whether the registers of a compute unit are enough for two work-groups: one waits while the other computes."""
    return 2 * spec.lanes * _registers(problem, spec) <= _FILE


def sweeps(profile: Profile, problem: SortProblem) -> bool:
    """Whether the radix sort of GPUs is a candidate on this device."""
    return bool(problem.element_bytes) and profile.kind == "gpu" and profile.mapping == "simt"


def sweep_refused(profile: Profile, problem: SortProblem, spec: SortSpec) -> str | None:
    """One sentence why the sort cannot run, or None."""
    if not problem.element_bytes:
        return (
            f"strategy is {spec.strategy!r}; keys compared by functions, records and keys of over 64 bits need 'merge'"
        )
    if spec.mapping != "simt":
        return f"strategy is {spec.strategy!r} with mapping {spec.mapping!r}; 'simt' is accepted"
    error = spec_error(profile, spec)
    if error:
        return error
    if not COLUMNS <= spec.lanes <= profile.max_group_size:
        return f"lanes is {spec.lanes}; {COLUMNS} to {profile.max_group_size} are accepted"
    if spec.lanes % run_of(spec) or spec.lanes % COLUMNS:
        return f"lanes is {spec.lanes}; {COLUMNS} and multiples of {_RUN} are accepted"
    if spec.digit > 8:
        return f"digit is {spec.digit}; 1 to 8 are accepted with strategy {spec.strategy!r}"
    tile = spec.lanes * spec.items
    if spec.run != tile or tile > _MOST_TILE:
        return f"run is {spec.run}; lanes * items, {tile}, is accepted up to {_MOST_TILE}"
    need = local_bytes(spec, max(_word(problem)))
    if need > profile.local_bytes:
        return f"the spec needs {need} bytes of local memory; the device has {profile.local_bytes}"
    n, rows, bits = _sizes(problem)
    sizes = sweep(profile, spec, n, rows, bits)
    if profile.loop_limit is not None and max(sizes.walks, sizes.parts) > profile.loop_limit // 4:
        return f"run is {spec.run}; rows of {n} elements need larger tiles, because this driver ends long loops"
    if n > _MOST_OF_A_ROW:
        return f"strategy {spec.strategy!r} takes rows of up to {_MOST_OF_A_ROW} elements, not {n}; 'merge' is accepted"
    if (rows * -(-n // tile)) << spec.digit >= 1 << 31:
        return f"run is {spec.run} and digit {spec.digit}; tiles times digits must be below 2**31"
    return None


_MOST_OF_A_ROW = (1 << 32) - (1 << 24)  # the kernels count with 32 bits, up to a tile or part beyond the end


def _sizes(problem: SortProblem) -> tuple[int, int, int]:
    return max(1, problem.n), max(1, problem.rows), key_bits(problem.dtype)


# Instructions per element: of a digit that is counted; of a pass, for each bit of its digit and beside them. And of a
# lane for a tile: setup, sums of counters, look-back.
_COUNT, _BIT, _MOVE, _TILE = 10.0, 3.5, 42.0, 400.0
_ISSUED = 0.5  # share of a unit's peak instruction rate that the kernels reach
_LOOKS = 0.05  # signals of a tile during look-back on a busy device: most predecessors are done
_ALONE = 6.0  # signals of a pass: as long as a tile takes, of which nothing hides the first and the last


def sweep_counts(profile: Profile, problem: SortProblem, spec: SortSpec) -> Counts:
    """Phases: the counts of all digits, their places, and the passes as one phase for each kind of kernel."""
    n, rows, bits = _sizes(problem)
    key, value = _word(problem)
    sizes = sweep(profile, spec, n, rows, bits)
    units, total = profile.compute_units, float(n * rows)
    bins, passes = 1 << sizes.width, sizes.passes
    moved, groups = total * (key + value), rows * sizes.per_row
    look = spec.strategy == "onesweep"
    parts = rows * sizes.parts
    counts = Phase(
        "counts", parts, spec.lanes, total * _COUNT * passes, _ISSUED, total * key, 4.0 * bins * passes * parts,
        cached=4.0 * total * passes, balance=spread(parts, units), barriers=2, local_bytes=4 * bins * passes,
        registers=24 + 2 * passes + IN_FLIGHT * key // 4, access=IN_FLIGHT * key,
    )  # fmt: skip
    places = Phase(
        "places", rows * passes, spec.lanes, 2.0 * bins * passes * parts, _ISSUED, 4.0 * bins * passes * parts,
        balance=spread(rows * passes, units), barriers=4, local_bytes=4 * spec.lanes,
        access=4 * ADDED_AT_ONCE,
    )  # fmt: skip
    phases = [counts, places]
    if not look:
        groups = rows * sizes.walks
        again = Phase(
            "pass counts", groups, spec.lanes, total * _COUNT * passes, _ISSUED, total * key * passes,
            4.0 * bins * groups * passes, cached=4.0 * total * passes, balance=spread(groups, units),
            launches=2 * passes, barriers=2 * passes, local_bytes=4 * bins, access=key,
        )  # fmt: skip
        phases.append(again)
    waits = look and sizes.per_row > 1
    slots = (16.0 if waits else 4.0) * bins * groups
    tiles = rows * sizes.per_row
    # Without votes, the lanes of a run may need barriers of the whole work-group for each element.
    barriers = (8.0 if value else 6.0) + (0.0 if is_nvidia(profile) else 3.0 * spec.items)
    moves = Phase(
        "passes", groups, spec.lanes, passes * (total * (_MOVE + _BIT * sizes.width) + _TILE * tiles * spec.lanes),
        _ISSUED, passes * (moved + slots), passes * (moved + slots), passes * total * (50.0 + 7.0 * (key + value)),
        balance=spread(groups, units), launches=passes, barriers=passes * tiles / groups * barriers,
        signals=passes * (_ALONE + sizes.per_row * _LOOKS / units) if waits else 0.0,
        local_bytes=local_bytes(spec, max(key, value)), registers=_registers(problem, spec), access=4 * max(key, value),
    )  # fmt: skip
    phases.append(moves)
    return Counts("int32", tuple(phases))  # words, counters and places, whatever the keys are
