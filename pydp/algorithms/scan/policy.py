"""The policy of the scans: specializations, their limits, candidates and counts for the cost model.

All functions are pure: they depend only on the device's profile and the problem.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from pydp.algorithms import lookback
from pydp.local_memory import Skew, banks_of, skew, skewed
from pydp.model.counts import Counts, Phase, efficiency, spread
from pydp.model.family import Family, Problem, between, field_error, one_of, variants
from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class ScanSpec:
    """One specialization of scan.

    mapping: "vector" (one work-item per work-group: CPUs) or "simt" (lanes and local memory: GPUs).
    strategy: "lookback", "chained" (each partition waits for its predecessor's prefix) or "reduce_then_scan". Scans by
    lanes along adjacent columns always use the last one, because lanes cannot wait for one another.
    part: maximum elements of a partition (vector; along adjacent columns, only if there are too few chains to fill the
    device, see `cut_columns`). vector: elements of a vector, 0 for scalar code. nontemporal:
    results bypass the cache.
    lanes: work-items of a work-group. columns: lanes of a row in the work-group's scan. items: elements of a lane.
    pad: one unused element of local memory after each `pad` elements, 0 for none. A work-group that scans one whole row
    has other items and no pad, see `row_items`. window: maximum lanes that look back
    together, as many predecessors at once (see `looking`). (All simt.)
    barriers, subgroup: synchronization of the lanes (see :mod:`pydp.groups.barrier`; simt).
    width: maximum adjacent columns that a work-item scans together. polls: unsuccessful polls of a predecessor before
    its aggregate is recomputed (0: wait without a limit). plain_polls: poll with volatile loads instead of atomics.
    order, suppress: for tests only. Partitions are numbered without a ticket, and one partition in `suppress` publishes
    nothing (0: all publish).
    """

    mapping: str
    strategy: str
    part: int = 65536
    vector: int = 0
    nontemporal: bool = False
    lanes: int = 256
    columns: int = 16
    items: int = 15
    pad: int = 0
    window: int = 1
    width: int = 16
    polls: int = 20000
    plain_polls: bool = False
    order: str = "ticket"
    suppress: int = 0
    barriers: str = "auto"
    subgroup: int | None = None


@dataclass(frozen=True)
class ScanProblem(Problem):
    """A scan as far as its specialization depends on it.

    dtype: the dtype of the results, after the dtype of x and a comma if x has another one.
    log_rows, log_n: logarithms of the rows and of the elements of a row, rounded up. item_bytes: bytes of a result.
    columns: length of the axis with unit stride in all arrays, if it is another axis than the scanned one; else 0.
    exclusive, segments, in_place: variants of the call. record: the results are records. vectors: the operator has a
    vector form for this dtype.
    """

    family: ClassVar[str] = "scan"
    log_rows: int
    log_n: int
    item_bytes: int
    columns: int
    exclusive: bool = False
    segments: bool = False
    in_place: bool = False
    record: bool = False
    vectors: bool = False


MOST_COLUMNS = 8192  # columns of a strip: work-items keep their values in private memory
_SIGNALLED = 64  # columns of a strip with look-back, whose values are published one word at a time
_MOST_ROW_ITEMS = 63
SMALL = 4096  # partitions are not made smaller than this to give more cores work
_PARTS = (4096, 16384, 65536, 1 << 18, 1 << 20)
_STREAMED = 0.6  # cost of a nontemporal store relative to a normal store, which first reads the cache line
_LOOKS = 0.05  # signals per partition during look-back on a busy device: most predecessors are done


def power_below(n: int) -> int:
    """The largest power of two that is at most n; 1 for 0."""
    return 1 << max(n.bit_length() - 1, 0)


def partition(spec: ScanSpec, size: int, units: int) -> int:
    """Elements of a partition: as specialized, or fewer to give all cores work."""
    if spec.mapping == "simt":
        return spec.lanes * spec.items
    share = -(-size // (4 * units))
    return min(spec.part, max(SMALL, -(-share // 1024) * 1024))


def row_items(profile: Profile, spec: ScanSpec, n: int, item_bytes: int) -> int | None:
    """Elements of a lane if a work-group scans one whole row of n elements: no work-group waits for another, and the
    kernel needs no heads. It replaces the spec's `items` and `pad`: the number is odd, so lanes read from different
    banks. None for rows that do not fit into local memory, for short ones (a work-group scans several), on CPUs, and on
    drivers that limit loops.
    """
    if spec.mapping != "simt" or profile.loop_limit is not None or 4 * n <= spec.lanes * spec.items:
        return None
    items = -(-n // spec.lanes) | 1
    fits = _local_bytes(item_bytes, spec.lanes, spec.columns, items) <= profile.local_bytes
    return items if fits and items <= _MOST_ROW_ITEMS else None


def specializations(profile: Profile, problem: ScanProblem, base: ScanSpec) -> list[ScanSpec]:
    """The default, and candidates of other partitions, strategies, vectors, stores and work-groups."""
    if profile.loop_limit is not None:  # the default partitions are as large as this driver's loops allow
        found = [base, *(dataclasses.replace(base, part=max(16, base.part >> shift)) for shift in (1, 2))]
        return list(dict.fromkeys(found))
    found = [base]
    if base.mapping == "vector" and _columns(problem, base):
        widths = [base.width * 2, base.width // 2, base.width // 4, 4 * base.vector]
        found += [
            dataclasses.replace(base, width=width) for width in widths if max(base.vector, 1) <= width <= MOST_COLUMNS
        ]
        found.append(dataclasses.replace(base, nontemporal=not base.nontemporal and base.vector > 0))
    elif base.mapping == "vector":
        found += _vector_space(profile, problem, base)
    found += _lane_space(base)
    return list(dict.fromkeys(found))


def _vector_space(profile: Profile, problem: ScanProblem, base: ScanSpec) -> list[ScanSpec]:
    size = 1 << (problem.log_rows + problem.log_n)
    kept: dict[tuple[int, str], ScanSpec] = {(partition(base, size, profile.compute_units), base.strategy): base}
    for part in (base.part, *_PARTS):
        for strategy in lookback.STRATEGIES if profile.group_progress else (base.strategy,):
            spec = dataclasses.replace(base, part=part, strategy=strategy)
            whole = partition(spec, size, profile.compute_units)
            kept.setdefault((whole, strategy if whole < size else base.strategy), spec)
    found = list(kept.values())
    if base.vector:
        widths = [vector for vector in (0, 2, 4, 8, 16) if vector != base.vector]
        found += [
            dataclasses.replace(base, vector=vector, nontemporal=base.nontemporal and vector > 0) for vector in widths
        ]
        found += [dataclasses.replace(one, nontemporal=not base.nontemporal) for one in list(kept.values())]
    return found


def _lane_space(base: ScanSpec) -> list[ScanSpec]:
    """Candidates of mapping "simt": all on GPUs, a few for comparison on CPUs."""
    if base.mapping == "simt":
        found = variants(base, lanes=(64, 128, 256, 512))
        found += variants(base, lanes=(128, 256, 512), items=(3, 7, 11, 15, 19, 23, 31))
        found += [dataclasses.replace(base, columns=32), dataclasses.replace(base, barriers="group")]
        found += variants(base, window=(1, 64))
        return [*found, dataclasses.replace(base, strategy="reduce_then_scan")]
    lanes = dataclasses.replace(base, mapping="simt", vector=0, nontemporal=False, width=1)
    return [
        dataclasses.replace(lanes, lanes=count, columns=16, items=items)
        for count, items in ((64, 15), (256, 7), (256, 15))
    ]


def _columns(problem: ScanProblem, spec: ScanSpec) -> bool:
    """Whether the columns kernel is used; see `plan.down_columns`."""
    return spec.mapping == "vector" and problem.columns > 1


class ColumnCut(NamedTuple):
    """How a scan along adjacent columns is divided; see scan_columns.mako.

    vector: elements of a piece, 0 for scalars. pieces, width: pieces and columns of a strip. chains: strips of all
    slabs. rows: rows of a block, at least 2 if a chain has more than one; blocks look back, or on GPUs are reduced
    first. share: chains of a work-item.
    """

    vector: int
    pieces: int
    width: int
    chains: int
    rows: int
    share: int


def _strip(width: int, vector: int, columns: int) -> int:
    """Columns of a strip, about `width`: whole vectors, or scalars; similar arrays get the same strips and kernels."""
    width = min(max(width, vector), columns)
    width = -(-columns // -(-columns // width))  # strips of about the same width
    few = vector or (1 if width <= 4 else 4)
    width = -(-width // few) * few
    if width == vector and columns % vector:
        return 2 * vector  # the last two strips share their columns: each needs a whole vector
    return width


_BUSY_LANES = 1024  # lanes of a compute unit that keep its memory accesses busy
_LEAST_ROWS = 32  # rows of a block that a lane scans: the scan of the blocks' sums takes a small part of the time


def cut_columns(
    spec: ScanSpec, units: int, n: int, columns: int, slabs: int, vectors: bool = True, most: int | None = None
) -> ColumnCut:
    """Cut `slabs` arrays of n rows by `columns`, to give all cores work.

    vectors: whether elements can be loaded as vectors. most: the elements and pieces of a block that the driver's limit
    of loop iterations allows; None: no limit.

    >>> cut_columns(ScanSpec("vector", "lookback", vector=16, width=64), 2, 1 << 20, 8, 1).rows
    8192
    """
    if spec.mapping == "simt":  # a lane scans a block of a strip
        chains = -(-columns // spec.width) * slabs
        blocks = max(1, min(_BUSY_LANES * units // chains, n // _LEAST_ROWS))
        return ColumnCut(0, spec.width, spec.width, chains, -(-n // blocks), 1)
    vector = min(spec.vector, power_below(columns)) if vectors else 0
    narrow = columns & -columns  # nontemporal stores are aligned; vectors below a half waste more than they save
    if spec.nontemporal and 1 < narrow < vector <= 2 * narrow:
        vector = narrow
    most_width = spec.width
    if most is not None:  # two rows of a strip
        few = vector or 4
        most_width = min(most_width, max(few, most // (4 * few) * few))
    width = _strip(most_width, vector, columns)
    rows = n
    if -(-columns // width) * slabs < 2 * units:
        narrow_strip = _strip(min(width, _SIGNALLED), vector, columns)
        # A block of a wide strip publishes more values: larger blocks keep their share of the time small.
        larger = dataclasses.replace(spec, part=spec.part * max(1, min(4, narrow_strip // 16)))
        least = max(2, partition(larger, n * columns * slabs, units) // narrow_strip)
        if least < n:
            width = narrow_strip
            rows = n if -(-columns // width) * slabs >= 2 * units else least
    pieces = width // (vector or 1)
    chains = -(-columns // width) * slabs
    if most is not None:
        rows = min(rows, max(2, most // (width + pieces)))
    rows = min(rows, n)
    each = -(-SMALL // (n * width))
    share = max(1, min(each, chains // (4 * units))) if rows == n and most is None else 1
    return ColumnCut(vector, pieces, width, chains, rows, share)


# --- counts --------------------------------------------------------------------------------------------------


class _Size:
    """Quantities that all phases share."""

    def __init__(self, profile: Profile, problem: ScanProblem, spec: ScanSpec) -> None:
        self.profile, self.problem, self.spec = profile, problem, spec
        self.item, self.columns = problem.item_bytes, problem.columns
        self.size = 1 << (problem.log_rows + problem.log_n)
        self.units = profile.compute_units
        self.part = partition(spec, self.size, self.units)
        n = 1 << problem.log_n
        whole = problem.log_rows > 0 and not problem.segments and not problem.columns
        items = row_items(profile, spec, n, self.item) if whole else None
        if items is not None:
            self.part, self.spec = n, dataclasses.replace(spec, items=items, pad=0)
        self.parts = max(1, -(-self.size // self.part))
        self.alone = items is not None or self.parts == 1  # no partition needs a prefix of another one
        self.bytes = float(self.size * self.item)
        cpu = profile.kind == "cpu"
        self.near = cpu and 2 * self.bytes < 0.75 * profile.l2_bytes * self.units
        self.shared = cpu and 2 * self.bytes < min(4 * profile.l2_bytes * self.units, max(profile.l3_bytes, 1))
        # Bytes that move for each byte that is stored, relative to a store that reads its cache line first.
        self.streamed, self.stored = (1.0, _STREAMED) if problem.in_place else (_STREAMED, 1.0)
        self.add = 4.0 if "float" in problem.dtype or "complex" in problem.dtype else 1.0  # latency of op in cycles

    @property
    def looks(self) -> float:
        """Signals on the critical path: one per partition if chained, few with look-back."""
        if self.spec.strategy == "reduce_then_scan" or self.alone:
            return 0.0
        if self.spec.mapping == "simt":
            return lookback.chain_signals(self.spec, self.parts)
        return self.parts * _LOOKS / (1 if self.spec.strategy == "chained" else self.units)

    def efficiency(self, cycles: float) -> float:
        """The efficiency of one operation per element that takes `cycles`."""
        return efficiency(self.profile, self.problem.dtype, 1.0, cycles)


def counts(profile: Profile, problem: ScanProblem, spec: ScanSpec) -> Counts:
    """Phases of one scan: the passes over partitions, and the scan of their aggregates."""
    size = _Size(profile, problem, spec)
    if _columns(problem, spec):
        return Counts(problem.dtype, tuple(_down(size)))
    lanes = spec.mapping == "simt"
    if size.alone:
        phases = [_lanes(size, "scan") if lanes else _scanned(size, 1, 1.0)]
    elif spec.strategy == "reduce_then_scan":
        reduced = _lanes(size, "reduce") if lanes else _reduced(size)
        phases = [reduced, *_between(size), _lanes(size, "scan") if lanes else _scanned(size, 1, 1.0)]
    elif lanes:
        phases = [_lanes(size, "scan")]
    else:
        again = min(1.0, max(0.0, size.part * size.item / max(profile.l2_bytes, 1) - 0.25) / 1.25)
        phases = [_reduced(size), _scanned(size, 0, again)]
    return Counts(problem.dtype, tuple(phases))


def _reduced(size: _Size) -> Phase:
    """Four vector accumulators, or scalar code (compilers vectorize it for integers)."""
    spec = size.spec
    pieces = max(1.0, spec.vector * size.item / size.profile.simd_bytes)
    cycles = max(pieces, size.add / 4) / spec.vector if spec.vector else size.add if size.add > 1 else 0.5
    return Phase(
        "reduce", groups=size.parts, operations=float(size.size), efficiency=size.efficiency(cycles),
        read=0.0 if size.near else size.bytes, cached=size.bytes if size.near else 0.0,
        balance=spread(size.parts, size.units),
        signals=size.looks,
    )  # fmt: skip


def scan_cycles(size: _Size) -> float:
    """Cycles per element of a partition's scan: the prefix within a vector, and the dependency chain of the carry.

    A vector of w elements takes log2(w) shuffles and operations, and two more for the carry. Registers of more than 32
    bytes have one shuffle port. Broadcasting an element takes three cycles in registers of more than 16 bytes.
    """
    vector = size.spec.vector
    if not vector:
        return max(size.add, 1.5)
    nbytes = min(vector * size.item, size.profile.simd_bytes)
    pieces = max(1.0, vector * size.item / size.profile.simd_bytes)
    issued = (2.0 * vector.bit_length()) * pieces / (1.3 if nbytes > 32 else 2.5)
    return max(issued, size.add + (3.0 if nbytes > 16 else 1.0)) / vector


def _scanned(size: _Size, launches: int, again: float) -> Phase:
    """again: the fraction of elements read from memory; the previous phase left the rest in a cache.

    Nontemporal stores do not read the overwritten cache lines first. But they write to memory even if the results would
    fit into a cache. In place, the caches have read the lines anyway, and nontemporal stores drive them out.
    """
    read, written, cached = again * size.bytes, 0.0, (1.0 - again) * size.bytes
    if size.spec.nontemporal:
        written = size.bytes * (1.0 if size.shared and not size.near else size.streamed)
    elif size.near:
        cached += size.bytes
    elif size.shared:
        read += size.bytes
    else:
        written = size.bytes * size.stored
    if size.near:
        read, cached = 0.0, cached + read
    return Phase(
        "scan", groups=size.parts, operations=float(size.size), efficiency=size.efficiency(scan_cycles(size)),
        read=read, written=written, cached=cached, launches=launches, balance=spread(size.parts, size.units),
    )  # fmt: skip


def _between(size: _Size) -> list[Phase]:
    """The scan of the partitions' aggregates in place: few elements, on one compute unit."""
    groups = max(1, -(-size.parts // max(size.part, 1)))
    bytes_ = float(size.parts * size.item)
    return [
        Phase(
            "prefixes", groups=groups, lanes=size.spec.lanes if size.spec.mapping == "simt" else 1,
            operations=float(size.parts), efficiency=size.efficiency(size.add),
            read=bytes_, written=bytes_, balance=spread(groups, size.units),
        )
    ]  # fmt: skip


_IN_FLIGHT = 4  # loads of a lane that wait for memory together


def _lanes(size: _Size, phase: str) -> Phase:
    """A partition staged in local memory: the lanes walk it twice, then the work-group scans the lanes' sums."""
    spec = size.spec
    tile = spec.lanes * spec.items
    rows = spec.lanes // max(spec.columns, 1)
    work = 4.0 * size.size * (1.0 if phase == "reduce" else 2.0) + size.parts * spec.lanes * 2.0 * spec.columns
    return Phase(
        phase, groups=size.parts, lanes=spec.lanes, operations=work, efficiency=0.25, read=size.bytes,
        written=0.0 if phase == "reduce" else size.bytes, cached=4.0 * size.bytes,
        balance=spread(size.parts, size.units),
        barriers=5.0 + rows / max(spec.lanes, 1), signals=size.looks,
        local_bytes=tile * (size.item + 1) + 2 * spec.lanes * (size.item + 1), registers=24 + 2 * size.item // 4,
        access=size.item * min(_IN_FLIGHT, spec.items),
    )  # fmt: skip


def _down(size: _Size) -> list[Phase]:
    """The columns kernel: each work-item scans a strip of columns, one row of pieces after the other."""
    profile, spec, n = size.profile, size.spec, 1 << size.problem.log_n
    cut = cut_columns(spec, size.units, n, size.columns, max(1, size.size // (n * size.columns)))
    lanes = cut.vector or 1
    pieces = max(1.0, lanes * size.item / profile.simd_bytes)
    cycles = (max(cut.pieces * pieces * 1.5, size.add) + 2.0) / cut.width
    strip = cut.width * size.item
    row = 1.0
    if cut.width < size.columns:  # a strip's row begins and ends inside a cache line and a page
        row += 64.0 / strip + 0.25 * min(1.0, profile.simd_bytes * 4 / strip)
    blocks = -(-n // cut.rows)
    groups = -(-cut.chains // cut.share) * blocks
    memory = 0.0 if size.near else size.bytes * row
    moved = (1.0 if size.shared else size.streamed) if spec.nontemporal else size.stored
    scanned = Phase(
        "columns", groups=groups, operations=float(size.size), efficiency=size.efficiency(cycles), read=memory,
        written=memory * moved, cached=2 * size.bytes,
        balance=spread(groups, size.units),
    )  # fmt: skip
    if blocks == 1:
        return [scanned]
    reduced = scanned._replace(name="reduce", written=0.0, signals=size.looks)
    if spec.strategy == "reduce_then_scan":
        return [reduced, *_between(size), scanned]
    return [reduced, scanned._replace(read=0.0, launches=0)]


_LOOP_BOUND_PART = 1024  # two walks and the polls of a few dozen look-backs stay below 65,535 iterations


def _simt_items(profile: Profile, itemsize: int, lanes: int) -> int:
    """Elements of a lane. Odd numbers avoid bank conflicts without padding (see `local_memory.skew`). About 16 KiB of
    local memory per work-group keep the occupancy high."""
    available = min(profile.local_bytes // 2, 16 << 10) - _local_bytes(itemsize, lanes, 16, 0)
    items = min(15, available // (lanes * itemsize)) if available > 0 else 0
    return items - 1 if items > 1 and items % 2 == 0 else items


def _local_bytes(
    itemsize: int, lanes: int, columns: int, items: int, pad: int = 0, window: int = lookback.WINDOW
) -> int:
    tile = lanes * items + (lanes * items // pad if pad else 0)
    others = lanes + lanes // columns + lanes // columns
    return tile * itemsize + others * (itemsize + 1) + lanes * items + lookback.window_bytes(itemsize, window) + 64


def default(profile: Profile, problem: ScanProblem) -> ScanSpec:
    """The default specialization, without measurements."""
    itemsize = problem.item_bytes
    wide = 0
    if problem.vectors:
        wide = max(4, min(16, power_below(profile.simd_bytes // itemsize)))
    # A partition stays in the cache until its second pass, and the next one is prefetched meanwhile: together they take
    # half of L2. With 1 MiB of L2, 256 KiB were fastest for elements of 4 and of 8 bytes; larger L2 keep that size.
    cached = min(max(profile.l2_bytes, 1 << 18) // 4, 1 << 18)
    part = max(16, min(1 << 17, power_below(cached // itemsize)))
    nbytes = itemsize << (problem.log_rows + problem.log_n)
    spec = ScanSpec(
        mapping="vector",
        **lookback.default_fields(profile),
        part=part if profile.loop_limit is None else min(part, _LOOP_BOUND_PART),
        vector=wide,
        nontemporal=bool(wide) and profile.stores_nontemporal(nbytes) and not problem.in_place,
        width=_width(profile, problem, wide),
    )
    if profile.mapping != "simt":
        return spec
    lanes = min(256, power_below(profile.max_group_size))
    while lanes > 32 and not _simt_items(profile, itemsize, lanes):
        lanes //= 2
    items = _simt_items(profile, itemsize, lanes)
    if not items:
        return spec  # elements too large for local memory
    return padded(profile, problem, dataclasses.replace(
        spec, mapping="simt", lanes=lanes, columns=min(16, lanes), items=items, vector=0, nontemporal=False, width=1,
        window=lookback.WINDOW,
    ))  # fmt: skip


def padded(profile: Profile, problem: ScanProblem, spec: ScanSpec) -> ScanSpec:
    """The specialization with the padding that the bank model of the device recommends."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    return dataclasses.replace(spec, pad=skew(banks, problem.item_bytes, spec.lanes, spec.items, spec.columns).every)


def bank_layout(profile: Profile, itemsize: int, spec: ScanSpec) -> Skew:
    """The layout of a work-group's elements in local memory, and its bank conflicts."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    return skewed(banks, itemsize, spec.lanes, spec.items, spec.columns, spec.pad)


def _width(profile: Profile, problem: ScanProblem, wide: int) -> int:
    """Columns of a strip: up to 16 vectors, which are registers, or fewer to give all cores work without look-back.

    Short columns are faster with 4 vectors (measured on PoCL and Intel: 1.3 to 2 times).
    Strips are narrower if there is no other way to give all cores work; see `cut_columns`.
    """
    width = (4 if problem.log_n <= 4 else 16) * wide or (16 if problem.item_bytes <= 64 else 2)
    least = min(width, max(wide, _SIGNALLED))
    slabs = max(1, (1 << problem.log_rows) // max(problem.columns, 1))
    while width > least and -(-problem.columns // width) * slabs < 4 * profile.compute_units:
        width //= 2
    return width


def space(profile: Profile, problem: ScanProblem) -> list[ScanSpec]:
    """Candidates for tuning: partition sizes, strategies, vectors, work-groups."""
    found = specializations(profile, problem, default(profile, problem))
    return [padded(profile, problem, spec) if spec.mapping == "simt" else spec for spec in found]


_ACCEPTED = {
    **lookback.ACCEPTED,
    "vector": one_of(0, 2, 4, 8, 16),
    "part": between(1, (1 << 30) - 1),
    "width": between(1, MOST_COLUMNS),
}


def check(profile: Profile, problem: ScanProblem, spec: ScanSpec) -> str | None:
    """One sentence why `spec` cannot run on the device, or None."""
    itemsize = problem.item_bytes
    error = field_error(spec, _ACCEPTED) or lookback.spec_error(profile, spec)
    if error:
        return error
    if spec.vector and not problem.vectors:
        return f"vector {spec.vector} needs a named operator on a scalar dtype; 0 is accepted here"
    if spec.vector and spec.width % spec.vector:
        return f"width {spec.width} is not a multiple of vector {spec.vector}"
    if spec.mapping == "vector":
        return None
    if not 1 <= spec.lanes <= profile.max_group_size:
        return f"lanes {spec.lanes} is not between 1 and {profile.max_group_size}"
    if spec.columns < 1 or spec.lanes % spec.columns or spec.items < 1 or spec.pad < 0:
        return (
            f"columns {spec.columns} must divide lanes {spec.lanes}, items {spec.items} must be at least 1, pad "
            f"{spec.pad} at least 0"
        )
    if profile.loop_limit is not None and problem.record and itemsize % 4:
        return (
            f"mapping is {spec.mapping!r}; this driver corrupts records of {itemsize} bytes in local arrays; 'vector' "
            "is accepted"
        )
    need = _local_bytes(itemsize, spec.lanes, spec.columns, spec.items, spec.pad, lookback.looking(spec))
    if need > profile.local_bytes:
        return f"the spec needs {need} bytes of local memory; the device has {profile.local_bytes}"
    return None


FAMILY = Family("scan", ScanSpec, default, space, check, counts)
