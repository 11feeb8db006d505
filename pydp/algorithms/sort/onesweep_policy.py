"""The policy of the radix sort of GPUs: its sizes, default, candidates, limits and counts for the cost model.

All functions are pure: they depend only on the device's profile, the problem and the specialization.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydp.algorithms.sort.spec import SortProblem, SortSpec, key_bits
from pydp.local_memory import Skew, banks_of, skew
from pydp.model.counts import Counts, Phase, spread
from pydp.model.family import variants
from pydp.runtime.device.profile import Profile

STRATEGIES = ("onesweep", "reduce_then_scan")
ORDERS = ("ticket", "reversed", "permuted")
COLUMNS = 16  # lanes of a row of a work-group's scan
IN_FLIGHT = 8  # loads of a lane that adds up counts
_GROUPS = 4  # work-groups of a compute unit that count digits, or walk over tiles: enough to balance the load
_LANES, _ITEMS = 256, 15  # the lanes' bytes and 16-bit words of odd numbers of items are in different banks
_LOCAL = 48 << 10  # bytes of local memory that every work-group may have on current GPUs
_MOST_TILE = 1 << 15  # counters and positions in a tile have 16 bits
_STEPS = 4  # bits of a step of the local sort: 8 counters of a lane


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


def _tile_iterations(spec: SortSpec) -> int:
    """The most loop iterations of a lane for one tile."""
    steps = -(-spec.digit // _STEPS)
    scan = 2 * COLUMNS + spec.lanes // COLUMNS + 4
    bins = -(-(1 << spec.digit) // spec.lanes) + 1
    return steps * (2 * (spec.items + 1) + scan + 3 * ((1 << _STEPS) // 2 + 1)) + 6 * (spec.items + 1) + 2 * bins


def _word(problem: SortProblem) -> tuple[int, int]:
    """(bytes of a key, bytes of a carried value between passes or 0)."""
    key = key_bits(problem.dtype) // 8
    carried = problem.item_bytes > key
    return key, problem.element_bytes // 2 if carried else 0


def counter_skew(profile: Profile, spec: SortSpec, width: int) -> Skew:
    """The layout of the lanes' counters in local memory."""
    half = 1 << min(_STEPS, width) - 1
    return skew(banks_of(profile.banks, profile.bank_bytes), 4, spec.lanes, half, spec.lanes)


def local_bytes(spec: SortSpec, word: int) -> int:
    """An upper bound of the local memory of a work-group, for keys and values of `word` bytes."""
    tile, counters = spec.lanes * spec.items, spec.lanes << _STEPS - 1
    stage = max(tile * word, 4 * (counters + counters // 8) + 2 * tile)
    return stage + 3 * tile + 3 * (4 << spec.digit) + 4 * (spec.lanes + 2 * spec.lanes // COLUMNS) + 64


def sweep_default(profile: Profile, problem: SortProblem) -> SortSpec:
    """The default: tiles of 3840 elements, or smaller ones if local memory requires it."""
    word = max(_word(problem))
    lanes = min(_LANES, 1 << max(profile.max_group_size, 1).bit_length() - 1)
    safe = profile.group_progress and profile.loop_limit is None
    spec = SortSpec(
        "simt", lanes * _ITEMS, 1, lanes, _ITEMS, 1, 1, strategy=STRATEGIES[0 if safe else 1], digit=8,
        barriers="auto" if profile.kind == "gpu" else "group", plain_polls=profile.kind == "gpu",
    )  # fmt: skip
    while spec.items > 1 and local_bytes(spec, word) > min(profile.local_bytes, _LOCAL):
        spec = _of_tile(spec, spec.lanes, spec.items - 2)
    return spec


def _of_tile(spec: SortSpec, lanes: int, items: int) -> SortSpec:
    return replace(spec, run=lanes * items, lanes=lanes, items=items)


def sweep_space(profile: Profile, problem: SortProblem) -> list[SortSpec]:
    """Candidates for tuning."""
    base = sweep_default(profile, problem)
    found = variants(base, lanes=(128, 256), items=(7, 11, 15, 19, 23), digit=(7, 8))
    found += variants(base, lanes=(512,), items=(7, 11), digit=(8,))
    found = [_of_tile(one, one.lanes, one.items) for one in found]
    other = replace(base, strategy="reduce_then_scan")
    return [base, *(one for one in found if one != base), *([other] if other != base else [])]


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
    if spec.strategy == "onesweep" and profile.loop_limit is not None:
        return (
            f"strategy 'onesweep' waits in loops, and this driver ends loops after {profile.loop_limit} iterations; "
            "'reduce_then_scan' is accepted"
        )
    if (spec.order != "ticket" or spec.suppress) and not spec.polls:
        return f"polls is 0 with order {spec.order!r} and suppress {spec.suppress}; at least 1 is required here"
    if not COLUMNS <= spec.lanes <= profile.max_group_size:
        return f"lanes is {spec.lanes}; {COLUMNS} to {profile.max_group_size} are accepted"
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
    if (rows * -(-n // tile)) << spec.digit >= 1 << 31:
        return f"run is {spec.run} and digit {spec.digit}; tiles times digits must be below 2**31"
    return None


def _sizes(problem: SortProblem) -> tuple[int, int, int]:
    return max(1, problem.n), max(1, problem.rows), key_bits(problem.dtype)


# Instructions per element: of a digit that is counted, and of a pass, for each step of its local sort and beside them.
_COUNT, _STEP, _MOVE = 10.0, 30.0, 40.0
_ISSUED = 0.5  # of the instructions that a unit could start
_LOOKS = 0.05  # signals of a tile during look-back on a busy device: most predecessors are done


def sweep_counts(profile: Profile, problem: SortProblem, spec: SortSpec) -> Counts:
    """Phases: the counts of all digits, their places, and the passes as one phase for each kind of kernel."""
    n, rows, bits = _sizes(problem)
    key, value = _word(problem)
    sizes = sweep(profile, spec, n, rows, bits)
    units, total = profile.compute_units, float(n * rows)
    bins, passes = 1 << sizes.width, sizes.passes
    moved, groups = total * (key + value), rows * sizes.per_row
    look = spec.strategy == "onesweep"
    steps = -(-sizes.width // _STEPS)
    parts = rows * sizes.parts
    counts = Phase(
        "counts", parts, spec.lanes, total * _COUNT * passes, _ISSUED, total * key, 4.0 * bins * passes * parts,
        cached=4.0 * total * passes, balance=spread(parts, units), barriers=2, local_bytes=4 * bins * passes,
        registers=24 + 2 * passes, access=key,
    )  # fmt: skip
    places = Phase(
        "places", rows * passes, spec.lanes, 2.0 * bins * passes * parts, _ISSUED, 4.0 * bins * passes * parts,
        balance=spread(rows * passes, units), barriers=4, local_bytes=4 * spec.lanes,
        access=4 * IN_FLIGHT,
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
    tiles_each = rows * sizes.per_row / groups
    moves = Phase(
        "passes", groups, spec.lanes, passes * total * (_MOVE + steps * _STEP), _ISSUED, passes * (moved + slots),
        passes * (moved + slots), cached=passes * total * (22.0 * steps + 16.0 + 2.0 * (key + value)),
        balance=spread(groups, units), launches=passes, barriers=passes * tiles_each * (5.0 * steps + 6.0),
        signals=passes * sizes.per_row * _LOOKS / units if waits else 0.0,
        local_bytes=local_bytes(spec, max(key, value)),
        registers=56 + spec.items * 3 + spec.items * key // 8, access=key,
    )  # fmt: skip
    phases.append(moves)
    return Counts("int32", tuple(phases))  # words, counters and places, whatever the keys are
