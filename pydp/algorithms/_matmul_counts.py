"""What one specialization of a matrix product does, from the templates' own arithmetic: phases for the cost model.

The processor of the vector kernels is taken to start two vector multiply-adds and two loads in a cycle and to have a
latency of four cycles, as x86 and large Arm cores do; its register and cache sizes are the profile's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..specialize.counts import Counts, Phase, efficiency, spread
from ._matmul_space import even, up
from ._matmul_types import arithmetic

if TYPE_CHECKING:
    from ..runtime.profile import Profile
    from ..specialize.family import Problem
    from ._matmul_spec import MatmulSpec

_LATENCY, _ISSUED = 4.0, 2.0  # cycles of a multiply-add; multiply-adds, and loads, started in a cycle
_TILE_CYCLES = 30.0  # calling a register tile: arguments, loop set-up, the first loads' latency
_GROUPS_PER_UNIT = 4  # as in _matmul_plan


class _Size:
    """The numbers that all phases share."""

    def __init__(self, profile: Profile, problem: Problem, spec: MatmulSpec) -> None:
        how = arithmetic(np.dtype(problem.dtype))
        self.profile, self.spec = profile, spec
        self.batches, self.m, self.n, self.k = (max(1, size) for size in problem.sizes)
        self.planes = how.planes
        self.scalar = how.item_bytes // how.planes
        self.item = how.item_bytes
        self.narrow = np.dtype(problem.dtype).itemsize  # bytes as stored
        self.lanes = max(1, profile.simd_bytes // self.scalar)
        self.dtype = problem.dtype
        # Two instructions where there is no fused one; a product of integers goes at half the speed at best.
        self.slower = 1.0 if self.dtype[0] in "fc" else 3.0
        parts = max(1, min(spec.parts, self.k))
        step = spec.tile_k if spec.method == "staged" else 16
        self.part_k = up(-(-self.k // parts), step) if parts > 1 else self.k
        self.parts = max(1, -(-self.k // self.part_k))

    @property
    def multiply_adds(self) -> float:
        """Multiply-adds of the product itself, of real numbers."""
        return float(self.batches * self.m * self.n * self.k * self.planes**2)

    def efficiency(self, useful: float, cycles: float) -> float:
        """The part of the peak at which `useful` operations take `cycles`."""
        return efficiency(self.profile, self.dtype, useful, cycles)

    @property
    def partial_near(self) -> bool:
        """Whether C, or all parts of it, stay in the units' caches until they are read again."""
        return self.fits(self.batches * self.m * self.n * self.item * self.parts / self.profile.compute_units)

    def fits(self, nbytes: float) -> bool:
        """Whether that much stays in the units' second-level caches from call to call."""
        return nbytes < 0.75 * self.profile.l2_bytes


def counts(profile: Profile, problem: Problem, spec: MatmulSpec) -> Counts:
    """Phases of one product: packing, multiplying, adding up the parts of k."""
    size = _Size(profile, problem, spec)
    phases = {"packed": _packed, "thin": _thin, "staged": _staged}[spec.method](size)
    if size.parts > 1:
        phases.append(_combine(size))
    return Counts(problem.dtype, tuple(phases))


# --- one work-item per group, packed panels ------------------------------------------------------------------


def _packed(size: _Size) -> list[Phase]:
    spec, units = size.spec, size.profile.compute_units
    tile_m, tile_n = even(size.m, spec.tile_m, spec.rows), even(size.n, spec.tile_n, spec.columns)
    tile_k = even(size.part_k, spec.tile_k, 32)
    blocks_m, blocks_n = -(-size.m // tile_m), -(-size.n // tile_n)
    blocks = blocks_m * blocks_n * size.parts * size.batches
    groups = min(blocks, _GROUPS_PER_UNIT * units)
    shared = {"groups": groups, "balance": spread(blocks, units)}
    a_bytes = float(size.batches * size.m * size.k * size.narrow)
    b_bytes = float(size.batches * size.k * size.n * size.narrow)
    return [
        _pack_b(size, blocks_m * b_bytes, shared),
        _pack_a(size, blocks_n * a_bytes, shared),
        _multiply(size, (tile_m, tile_n, tile_k), shared),
    ]


def _pack_b(size: _Size, nbytes: float, shared: dict) -> Phase:
    """Rows of vectors read and written side by side: as fast as the caches. Every block of rows of C does it again."""
    near = size.fits(size.k * size.n * size.narrow)
    elements = nbytes / size.narrow
    vectors = size.spec.width / size.lanes
    cycles = 2.0 / min(1.0, vectors)
    return Phase(
        "pack b", operations=elements, efficiency=size.efficiency(size.lanes, cycles),
        read=0.0 if near else nbytes, cached=elements * size.item * (3.0 if near else 2.0), launches=1, **shared,
    )  # fmt: skip


def _pack_a(size: _Size, nbytes: float, shared: dict) -> Phase:
    """Rows are interleaved: in registers where a padded panel's column fits a vector, else one by one."""
    spec = size.spec
    padded = 1 << (spec.rows - 1).bit_length()
    elements = nbytes / size.narrow
    if padded <= spec.width:
        shuffles = padded * max(1, (padded - 1).bit_length())
        stores = padded if padded == spec.rows else spec.width
        cycles = (padded + 2.0 * shuffles + 2.0 * stores) / (spec.rows * spec.width)
    else:
        cycles = 2.0
    near = size.fits(size.m * size.k * size.narrow)
    return Phase(
        "pack a", operations=elements, efficiency=size.efficiency(1.0, cycles), read=0.0 if near else nbytes,
        cached=nbytes if near else 0.0, launches=0, **shared,
    )  # fmt: skip


def step_cycles(size: _Size, vectors: int) -> float:
    """Cycles of one step of k in a register tile of the spec's rows x `vectors`."""
    spec, planes = size.spec, size.planes
    pieces = max(1, spec.width // size.lanes)  # registers of one OpenCL vector
    products = spec.rows * vectors * pieces * planes**2
    loads = planes * (spec.rows + vectors * pieces)
    live = planes * (spec.rows * vectors + vectors) * pieces + 1
    spilled = max(0, live - size.profile.vector_registers)
    return max(products * size.slower / _ISSUED, loads / _ISSUED, _LATENCY) + 2.0 * spilled + 0.5 / spec.unroll


def _multiply(size: _Size, tiles: tuple[int, int, int], shared: dict) -> Phase:
    """The register tiles: their steps of k, what a call costs, C once per block of k, and the panels' way from L2."""
    spec, planes = size.spec, size.planes
    _, tile_n, tile_k = tiles
    vectors = spec.columns // spec.width
    strips = size.batches * -(-size.m // spec.rows)  # tiles of C are whole numbers of register tiles
    full, rest = divmod(size.n, spec.columns)
    fitting = next((c for c in (1, 2, 4, 8) if c < vectors and rest <= c * spec.width), vectors)
    depth_blocks = size.parts * -(-size.part_k // tile_k)
    pieces = max(1, spec.width // size.lanes)
    stores = 4.0 * spec.rows * pieces * planes
    cycles = 0.0
    for count, across in ((vectors, full), (fitting, 1 if rest else 0)):
        each = size.k * step_cycles(size, count) + depth_blocks * (_TILE_CYCLES + stores * count)
        cycles += strips * across * each
    edge = size.m % spec.rows * size.n + (size.n % spec.width and size.m)  # results stored one by one
    cycles += 2.0 * depth_blocks * size.batches * edge
    useful = 2.0 * size.multiply_adds
    panels = float(strips * size.n * size.k * size.item)
    l1 = size.profile.l1_bytes
    b_block = tile_k * min(tile_n, up(size.n, spec.columns)) * size.item
    cached = 0.0 if b_block + spec.rows * tile_k * size.item < 0.8 * l1 else panels
    if (spec.rows + spec.columns) * tile_k * size.item > 0.9 * l1 and spec.rows * tile_k * size.item > l1 / 2:
        cached += strips * (full + 1) * size.k * spec.rows * size.item  # the panel of A does not stay in L1
    l2 = size.profile.l2_bytes
    # The part of the panels that L2, which holds A's rows and C's results too, does not keep from strip to strip.
    beyond = max(0.0, min(1.0, (b_block / l2 - 0.35) / 0.65))
    c_bytes = float(size.batches * size.m * size.n * size.narrow)
    c_block = min(tiles[0], size.m) * min(tile_n, size.n) * size.narrow
    near = size.fits(c_bytes) or c_block + b_block < 0.75 * l2  # C stays there from one block of k to the next
    passes = size.parts if near else depth_blocks
    c_near = 2.0 * c_bytes * depth_blocks if near else 0.0
    return Phase(
        "multiply", operations=useful, efficiency=size.efficiency(useful, cycles),
        read=beyond * panels + c_bytes * (passes - size.parts),
        written=0.0 if size.partial_near else c_bytes * passes,
        cached=cached + c_near, launches=0,
        registers=int((spec.rows * vectors + vectors) * pieces * size.lanes), **shared,
    )  # fmt: skip


# --- few rows: the matrix is read once -----------------------------------------------------------------------


def _thin(size: _Size) -> list[Phase]:
    spec, units = size.spec, size.profile.compute_units
    tile_n = even(size.n, spec.tile_n, spec.width if size.n > spec.width else 1)
    blocks = -(-size.n // tile_n) * size.parts * size.batches
    groups = min(blocks, 4 * _GROUPS_PER_UNIT * units)
    elements = float(size.batches * size.n * size.k)
    near = size.fits(elements * size.narrow / units)
    narrow = min(1.0, spec.width / size.lanes)
    pieces = max(1.0, spec.width / size.lanes)
    # A vector of B: its load; for each row a multiply-add, with the sums' load and store, shared by `unroll` rows of B.
    cycles = pieces * max(1.0, spec.rows * (1.0 + 1.5 / spec.unroll)) / size.planes
    cycles += 12.0 * spec.width / max(tile_n, spec.width) / spec.unroll  # going on to the next rows of B
    return [
        Phase(
            "sweep", groups=groups, operations=2.0 * elements * spec.rows * size.planes**2,
            efficiency=size.efficiency(2.0 * spec.rows * size.lanes * pieces * narrow, cycles),
            read=0.0 if near else elements * size.narrow, cached=elements * size.narrow,
            written=float(size.batches * size.m * size.n * size.parts * size.item),
            balance=spread(blocks, units),
        )
    ]  # fmt: skip


# --- lanes and local memory ----------------------------------------------------------------------------------


def _staged(size: _Size) -> list[Phase]:
    """Tiles staged in local memory, two of each; a lane's registers hold its results and what it reads next."""
    spec, profile = size.spec, size.profile
    blocks_m, blocks_n = -(-size.m // spec.tile_m), -(-size.n // spec.tile_n)
    groups = blocks_m * blocks_n * size.parts * size.batches
    group = spec.lanes_m * spec.lanes_n
    depth = up(size.part_k, spec.tile_k)
    steps = depth // spec.tile_k
    padded = 2.0 * groups * spec.tile_m * spec.tile_n * depth * size.planes**2
    staged = spec.buffers * spec.tile_k * (spec.tile_m + spec.tile_n + 2 * spec.pad) * size.item
    words = (size.scalar // 4 if size.scalar >= 4 else 1) * size.planes
    loads = -(-(spec.tile_m + spec.tile_n) * spec.tile_k // group)
    products = spec.rows * spec.columns
    state = words * (products + spec.rows + spec.columns + loads) + 24
    # Fitted to compiles for seven GPUs, mostly within a quarter: what is staged keeps its address in registers too.
    registers = int(words * (1.1 * products + 1.6 * (spec.rows + spec.columns)) + loads * (5.9 + 0.5 * words)) + 26
    # Beside every multiply-add stand its share of the local loads and of the staging's addresses.
    others = (spec.rows + spec.columns) / spec.width + 6.0 * loads / spec.tile_k
    waste = products / (products + others)
    if profile.kind == "cpu":  # a work-item's state is kept in memory over every barrier
        waste *= products / (products + 2.0 * state / spec.tile_k)
    # Groups that run side by side share what they read: a wave of them goes down the rows of blocks first.
    side_by_side = min(groups, 2 * profile.compute_units)
    apart = min(side_by_side, blocks_m) * spec.tile_m + -(-side_by_side // blocks_m) * spec.tile_n
    moved = groups / side_by_side * apart * depth * float(size.narrow)
    once = size.batches * size.k * (size.m + size.n) * float(size.narrow)
    l2 = profile.l2_bytes * (profile.compute_units if profile.kind == "cpu" else 1)
    read = once if once < l2 / 2 else max(once, moved)
    local = padded / 2 * (1 / spec.rows + 1 / spec.columns) * size.item
    return [
        Phase(
            "multiply", groups=groups, lanes=group, operations=padded, efficiency=max(1e-6, waste), read=read,
            written=float(size.batches * size.m * size.n * size.parts * size.narrow),
            cached=local if profile.kind != "cpu" else 0.0,
            balance=spread(groups, profile.compute_units), barriers=(steps + 1) * (3 - spec.buffers),
            local_bytes=staged,
            registers=registers, access=size.narrow,
        )
    ]  # fmt: skip


def _combine(size: _Size) -> Phase:
    """The parts of k added up by one work-item for each element, whose place takes two long divisions."""
    count = size.batches * size.m * size.n
    groups = max(1, -(-count // 64))
    cpu = size.profile.kind == "cpu"
    each = 14.0 + size.parts * size.planes
    return Phase(
        "add parts", groups=groups, lanes=1 if cpu else 64, operations=count * (1.0 if cpu else 2.0 * each),
        efficiency=size.efficiency(1.0, each) if cpu else 0.5,
        read=0.0 if size.partial_near else float(count * size.parts * size.item),
        cached=float(count * size.parts * size.item), written=float(count * size.narrow),
        balance=spread(groups, size.profile.compute_units), access=size.item,
    )  # fmt: skip
