"""The space of a scan's specializations, and what one of them does: phases for the cost model."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pydp.algorithms._scan_spec import STRATEGIES, ScanSpec
from pydp.specialize.counts import Counts, Phase, efficiency, spread

if TYPE_CHECKING:
    from pydp.runtime.profile import Profile
    from pydp.specialize.family import Problem

SMALL = 4096  # elements below which a partition is not made smaller to keep more cores busy
_PARTS = (4096, 16384, 65536, 1 << 18, 1 << 20)
_STREAMED = 0.6  # the cost of a store that goes round the caches over one that reads what it overwrites first
_LOOKS = 0.05  # signals of a partition in the look-back of a busy device: most predecessors are done


def partition(spec: ScanSpec, size: int, units: int) -> int:
    """Elements of a partition: as specialized, but enough partitions for the cores."""
    if spec.mapping == "simt":
        return spec.lanes * spec.items
    share = -(-size // (4 * units))
    return min(spec.part, max(SMALL, -(-share // 1024) * 1024))


def specializations(profile: Profile, problem: Problem, base: ScanSpec) -> list[ScanSpec]:
    """The default; partitions with every strategy, vectors, stores; groups of lanes."""
    if profile.loop_limit is not None:  # partitions are as large as such a driver's loops allow
        found = [base, *(dataclasses.replace(base, part=max(16, base.part >> shift)) for shift in (1, 2))]
        return list(dict.fromkeys(found))
    found = [base]
    if base.mapping == "vector" and _columns(problem, base):
        # Every vector of a row is written out in the kernel: beyond four it grows without being faster.
        widths = [(base.vector or 2) * count for count in (1, 2, 4)]
        found += [dataclasses.replace(base, width=width) for width in widths]
    elif base.mapping == "vector":
        found += _vector_space(profile, problem, base)
    found += _lane_space(base)
    return list(dict.fromkeys(found))


def _vector_space(profile: Profile, problem: Problem, base: ScanSpec) -> list[ScanSpec]:
    size = 1 << (problem.sizes[0] + problem.sizes[1])
    kept: dict[tuple[int, str], ScanSpec] = {(partition(base, size, profile.compute_units), base.strategy): base}
    for part in (base.part, *_PARTS):
        for strategy in STRATEGIES if profile.group_progress else (base.strategy,):
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
    """Groups of lanes: on GPUs all of them, on CPUs a few to be compared with."""
    if base.mapping == "simt":
        found = [dataclasses.replace(base, lanes=lanes) for lanes in (64, 128, 256, 512)]
        found += [
            dataclasses.replace(base, lanes=lanes, items=items)
            for lanes in (128, 256, 512)
            for items in (3, 5, 7, 9, 11, 15, 19, 23)
        ]
        found += [dataclasses.replace(base, columns=32), dataclasses.replace(base, barriers="group")]
        return [*found, dataclasses.replace(base, strategy="reduce_then_scan")]
    lanes = dataclasses.replace(base, mapping="simt", vector=0, nontemporal=False, width=1)
    return [
        dataclasses.replace(lanes, lanes=count, columns=16, items=items)
        for count, items in ((64, 15), (256, 7), (256, 15))
    ]


def _columns(problem: Problem, spec: ScanSpec) -> bool:
    """Whether neighbouring columns are gone down side by side; see `_scan_plan.down_columns`."""
    columns = problem.sizes[3]
    return spec.mapping == "vector" and bool(columns) and (columns >= 8 or problem.sizes[1] <= 2)


# --- counts --------------------------------------------------------------------------------------------------


class _Size:
    """The numbers that all phases share."""

    def __init__(self, profile: Profile, problem: Problem, spec: ScanSpec) -> None:
        log_rows, log_n, self.item, self.columns = problem.sizes
        self.profile, self.problem, self.spec = profile, problem, spec
        self.size = 1 << (log_rows + log_n)
        self.units = profile.compute_units
        self.part = partition(spec, self.size, self.units)
        self.parts = max(1, -(-self.size // self.part))
        self.bytes = float(self.size * self.item)
        cpu = profile.kind == "cpu"
        self.near = cpu and 2 * self.bytes < 0.75 * profile.l2_bytes * self.units
        self.shared = cpu and 2 * self.bytes < min(4 * profile.l2_bytes * self.units, max(profile.l3_bytes, 1))
        self.add = 4.0 if "float" in problem.dtype or "complex" in problem.dtype else 1.0  # cycles of an operator

    @property
    def looks(self) -> float:
        """Messages that wait for one another: of every partition in a chain, of few where look-back goes on."""
        if self.spec.strategy == "reduce_then_scan" or self.parts == 1:
            return 0.0
        return self.parts * _LOOKS / (1 if self.spec.strategy == "chained" else self.units)

    def efficiency(self, cycles: float) -> float:
        """One operation an element that takes `cycles`."""
        return efficiency(self.profile, self.problem.dtype, 1.0, cycles)


def counts(profile: Profile, problem: Problem, spec: ScanSpec) -> Counts:
    """Phases of one scan: the passes over partitions, and the scan of their aggregates."""
    size = _Size(profile, problem, spec)
    if _columns(problem, spec):
        return Counts(problem.dtype, (_down(size),))
    lanes = spec.mapping == "simt"
    if size.parts == 1:
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
    """Four accumulators of vectors; element by element for scalars, which integers' compilers make vectors of."""
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
    """Cycles of an element in a partition's scan: the prefix within a vector, and the chain of the carry.

    A vector of w takes log2(w) shuffles and operations and two more for the carry. Registers beyond 32 bytes have one
    port for shuffles, and beyond 16 bytes moving an element to all lanes takes three cycles.
    """
    vector = size.spec.vector
    if not vector:
        return max(size.add, 1.5)
    nbytes = min(vector * size.item, size.profile.simd_bytes)
    pieces = max(1.0, vector * size.item / size.profile.simd_bytes)
    issued = (2.0 * vector.bit_length()) * pieces / (1.3 if nbytes > 32 else 2.5)
    return max(issued, size.add + (3.0 if nbytes > 16 else 1.0)) / vector


def _scanned(size: _Size, launches: int, again: float) -> Phase:
    """`again`: the part of the elements that comes from memory, not from where the phase before has left it.

    Stores that go round the caches spare reading what they overwrite, and cost a way to memory where the results would
    have stayed in a cache.
    """
    read, written, cached = again * size.bytes, 0.0, (1.0 - again) * size.bytes
    if size.spec.nontemporal:
        written = size.bytes * (1.0 if size.shared and not size.near else _STREAMED)
    elif size.near:
        cached += size.bytes
    elif size.shared:
        read += size.bytes
    else:
        written = size.bytes
    if size.near:
        read, cached = 0.0, cached + read
    return Phase(
        "scan", groups=size.parts, operations=float(size.size), efficiency=size.efficiency(scan_cycles(size)),
        read=read, written=written, cached=cached, launches=launches, balance=spread(size.parts, size.units),
    )  # fmt: skip


def _between(size: _Size) -> list[Phase]:
    """The aggregates of partitions scanned in place: few, by one unit."""
    groups = max(1, -(-size.parts // max(size.part, 1)))
    bytes_ = float(size.parts * size.item)
    return [
        Phase(
            "prefixes", groups=groups, operations=float(size.parts), efficiency=size.efficiency(size.add),
            read=bytes_, written=bytes_, balance=spread(groups, size.units),
        )
    ]  # fmt: skip


def _lanes(size: _Size, phase: str) -> Phase:
    """A partition staged in local memory: twice through it by lanes, then the group's scan of the lanes."""
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
        access=size.item,
    )  # fmt: skip


def _down(size: _Size) -> Phase:
    """Some columns of a work-item, element after element: rows of vectors."""
    spec = size.spec
    items = max(1, -(-size.columns // spec.width) * max(1, size.size // max(1, size.columns << size.problem.sizes[1])))
    pieces = max(1.0, (spec.vector or 1) * size.item / size.profile.simd_bytes)
    vectors = spec.width / (spec.vector or 1)
    cycles = (max(vectors * pieces * 1.5, size.add) + 2.0) / spec.width
    row = 1.0 + 64.0 / (spec.width * size.item)  # short runs of a row waste parts of cache lines
    return Phase(
        "columns", groups=items, operations=float(size.size), efficiency=size.efficiency(cycles),
        read=0.0 if size.near else size.bytes * row, written=0.0 if size.near else size.bytes * row,
        cached=2 * size.bytes, balance=spread(items, size.units),
    )  # fmt: skip
