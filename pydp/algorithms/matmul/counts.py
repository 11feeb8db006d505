"""Operation counts of a matmul specialization, derived from the templates: phases for the cost model.

The model of the vector kernels assumes a core that issues two vector multiply-adds and two loads per cycle, with a
latency of four cycles, like x86 and large Arm cores. Register and cache sizes come from the device profile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pydp.algorithms.matmul.mma import mma_phase
from pydp.algorithms.matmul.spec import FEWER_REGISTERS, MOST_LIMITED, MatmulProblem, MatmulSpec, even, registers_of, up
from pydp.model.counts import Counts, Phase, operations_per_cycle, spread
from pydp.model.family import altered

if TYPE_CHECKING:
    from pydp.runtime.device.profile import Profile

_LATENCY, _ISSUED = 4.0, 2.0  # latency of a multiply-add in cycles; multiply-adds (and loads) issued per cycle
_TILE_CYCLES = 30.0  # overhead of a register tile: arguments, loop set-up, latency of the first loads
_BLOCK_CYCLES = 1000.0  # overhead of a block that is packed: its indexes, and edges and set-up of the two packings
_GROUPS_PER_UNIT = 4  # as in plan.py
_REGISTERS = 65536  # 32-bit registers per multiprocessor of most GPUs
_HIDING, _STALLED = 512, 0.03  # work-items that hide all waiting; half as many wait for this share of the time
_TWO_BUFFERS, _SPILLING = 1.02, 0.1  # times of a step with two buffers, and what spilled registers add (an H200)
_WAITING = 0.25  # share of a barrier's time that the other warps of a group do not hide (an H200)
_LATE = 0.25  # share of a block's time by which a product ends later if a thread wakes late


class _Product:
    """The quantities that all specializations of a product share."""

    def __init__(self, profile: Profile, problem: MatmulProblem) -> None:
        how = problem.arithmetic
        self.profile = profile
        self.batches, self.m = max(1, problem.batches), max(1, problem.m)
        self.n, self.k = max(1, problem.n), max(1, problem.k)
        self.planes = how.planes
        self.scalar = how.item_bytes // how.planes
        self.item = how.item_bytes
        self.words = max(1, self.scalar // 4) * how.planes
        self.narrow = how.dtype.itemsize  # bytes as stored
        self.lanes = max(1, profile.simd_bytes // self.scalar)
        self.dtype = problem.dtype
        self.peak = operations_per_cycle(profile, problem.dtype)
        # Integers have no fused multiply-add, and an integer product runs at half speed at best.
        self.slower = 1.0 if self.dtype[0] in "fc" else 3.0
        self.multiply_adds = float(self.batches * self.m * self.n * self.k * self.planes**2)  # of real numbers

    def efficiency(self, useful: float, cycles: float) -> float:
        """The fraction of peak reached if `useful` operations take `cycles`."""
        return max(1e-6, min(1.0, useful / (max(cycles, 1e-9) * self.peak)))

    def fits(self, nbytes: float) -> bool:
        """Whether `nbytes` stay in the L2 caches from call to call."""
        return nbytes < 0.75 * self.profile.l2_bytes


class _Size:
    """A product and one specialization, with its split of k."""

    def __init__(self, product: _Product, spec: MatmulSpec) -> None:
        self.product, self.spec = product, spec
        k = product.k
        parts = max(1, min(spec.parts, k))
        step = spec.tile_k if spec.method in ("staged", "mma") else 16
        self.part_k = up(-(-k // parts), step) if parts > 1 else k
        self.parts = max(1, -(-k // self.part_k))

    @property
    def partial_near(self) -> bool:
        """Whether C, or all its partial sums, stay in the caches until they are read again."""
        product = self.product
        nbytes = product.batches * product.m * product.n * product.item * self.parts
        return product.fits(nbytes / product.profile.compute_units)


@lru_cache(maxsize=16)
def _product(profile: Profile, problem: MatmulProblem) -> _Product:
    """The cached product: a first choice must evaluate all candidates within a millisecond."""
    return _Product(profile, problem)


def counts(profile: Profile, problem: MatmulProblem, spec: MatmulSpec) -> Counts:
    """Phases of one product: packing, multiplying, and adding the parts of k."""
    size = _Size(_product(profile, problem), spec)
    if spec.method == "mma":
        phases = [mma_phase(profile, problem, spec, size.part_k, size.parts)]
    else:
        phases = {"packed": _packed, "direct": _direct, "thin": _thin, "staged": _staged}[spec.method](size)
    if size.parts > 1:
        phases.append(_combine(size))
    return Counts(problem.dtype, tuple(phases))


# --- one work-item per group, packed panels ------------------------------------------------------------------


def _packed(size: _Size) -> list[Phase]:
    spec, product = size.spec, size.product
    units = product.profile.compute_units
    tile_m, tile_n = even(product.m, spec.tile_m, spec.rows), even(product.n, spec.tile_n, spec.columns)
    tile_k = even(size.part_k, spec.tile_k, 32)
    blocks_m, blocks_n = -(-product.m // tile_m), -(-product.n // tile_n)
    blocks = blocks_m * blocks_n * size.parts * product.batches
    groups = min(blocks, _GROUPS_PER_UNIT * units)
    balance = spread(blocks, units) + _LATE * units / blocks
    return [
        _pack_b(product, spec.width, blocks_m, groups, balance),
        _pack_a(product, (spec.rows, spec.width), blocks_n, groups, balance),
        _multiply(size, (tile_m, tile_n, tile_k), groups, balance),
    ]


@lru_cache(maxsize=64)
def _pack_b(product: _Product, width: int, times: int, groups: int, balance: float) -> Phase:
    """Contiguous vectors are read and written at cache speed. Every block of rows of C packs B again."""
    nbytes = float(times * product.batches * product.k * product.n * product.narrow)
    near = product.fits(product.k * product.n * product.narrow)
    elements = nbytes / product.narrow
    cycles = 2.0 / min(1.0, width / product.lanes)
    return Phase(
        "pack b", operations=elements, efficiency=product.efficiency(product.lanes, cycles),
        read=0.0 if near else nbytes, cached=elements * product.item * (3.0 if near else 2.0), launches=1,
        groups=groups, balance=balance,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _pack_a(product: _Product, panel: tuple[int, int], times: int, groups: int, balance: float) -> Phase:
    """Rows are interleaved: in registers if a column of the padded panel fits a vector, else element by element."""
    rows, width = panel
    padded = 1 << (rows - 1).bit_length()
    nbytes = float(times * product.batches * product.m * product.k * product.narrow)
    if padded <= width:
        shuffles = padded * max(1, (padded - 1).bit_length())
        stores = padded if padded == rows else width
        cycles = (padded + 2.0 * shuffles + 2.0 * stores) / (rows * width)
    else:
        cycles = 2.0
    near = product.fits(product.m * product.k * product.narrow)
    return Phase(
        "pack a", operations=nbytes / product.narrow, efficiency=product.efficiency(1.0, cycles),
        read=0.0 if near else nbytes, cached=nbytes if near else 0.0, launches=0, groups=groups, balance=balance,
    )  # fmt: skip


def step_cycles(product: _Product, spec: MatmulSpec, vectors: int) -> float:
    """Cycles of one step of k in a register tile of spec.rows x `vectors`."""
    planes = product.planes
    pieces = max(1, spec.width // product.lanes)  # registers of one OpenCL vector
    products = spec.rows * vectors * pieces * planes**2
    loads = planes * (spec.rows + vectors * pieces)
    live = planes * (spec.rows * vectors + vectors) * pieces + 1
    spilled = max(0, live - product.profile.vector_registers)
    return max(products * product.slower / _ISSUED, loads / _ISSUED, _LATENCY) + 2.0 * spilled + 0.5 / spec.unroll


def _multiply(size: _Size, tiles: tuple[int, int, int], groups: int, balance: float) -> Phase:
    """The register tiles: steps of k, overhead per tile, C once per block of k, and traffic of panels from L2."""
    spec, product = size.spec, size.product
    m, n, k, item = product.m, product.n, product.k, product.item
    tile_m, tile_n, tile_k = tiles
    vectors = spec.columns // spec.width
    strips = product.batches * -(-m // spec.rows)  # tiles of C are whole numbers of register tiles
    full, rest = divmod(n, spec.columns)
    depth_blocks = size.parts * -(-size.part_k // tile_k)
    pieces = max(1, spec.width // product.lanes)
    stores = 4.0 * spec.rows * pieces * product.planes
    cycles = 0.0
    if full:
        each = k * step_cycles(product, spec, vectors) + depth_blocks * (_TILE_CYCLES + stores * vectors)
        cycles += strips * full * each
    if rest:
        fitting = next((c for c in (1, 2, 4, 8) if c < vectors and rest <= c * spec.width), vectors)
        each = k * step_cycles(product, spec, fitting) + depth_blocks * (_TILE_CYCLES + stores * fitting)
        cycles += strips * each
    blocks = product.batches * -(-m // tile_m) * -(-n // tile_n)
    cycles += _BLOCK_CYCLES * depth_blocks * blocks
    edge = m % spec.rows * n + (n % spec.width and m)  # results stored one by one
    cycles += 2.0 * depth_blocks * product.batches * edge
    useful = 2.0 * product.multiply_adds
    panels = float(strips * n * k * item)
    l1, l2 = product.profile.l1_bytes, max(1, product.profile.l2_bytes)  # a driver may report 0
    b_block = tile_k * min(tile_n, up(n, spec.columns)) * item
    cached = 0.0 if b_block + spec.rows * tile_k * item < 0.8 * l1 else panels
    if (spec.rows + spec.columns) * tile_k * item > 0.9 * l1 and spec.rows * tile_k * item > l1 / 2:
        cached += strips * (full + 1) * k * spec.rows * item  # the panel of A does not stay in L1
    # The fraction of the panels that L2 does not keep from strip to strip; L3 keeps up with the rest.
    beyond = max(0.0, min(1.0, (b_block / l2 - 0.75) / 0.25))
    c_bytes = float(product.batches * m * n * product.narrow)
    c_block = min(tile_m, m) * min(tile_n, n) * product.narrow
    near = product.fits(c_bytes) or c_block + b_block < 0.75 * l2  # C stays in L2 between blocks of k
    passes = size.parts if near else depth_blocks
    c_near = 2.0 * c_bytes * depth_blocks if near else 0.0
    return Phase(
        "multiply", operations=useful, efficiency=product.efficiency(useful, cycles),
        read=beyond * panels + c_bytes * (passes - size.parts),
        written=0.0 if size.partial_near else c_bytes * passes,
        cached=cached + c_near, launches=0,
        registers=int((spec.rows * vectors + vectors) * pieces * product.lanes), groups=groups, balance=balance,
    )  # fmt: skip


# --- one work-item per group, operands in place ---------------------------------------------------------------


def _direct(size: _Size) -> list[Phase]:
    """The register tiles. The last ones overlap those before; every strip of tiles reads all of B."""
    spec, product = size.spec, size.product
    m, n, k, units = product.m, product.n, product.k, product.profile.compute_units
    width = min(spec.width, 1 << n.bit_length() - 1)
    vectors = max(1, min(spec.columns // width, n // width))
    rows = min(m, spec.rows)
    blocks_m = -(-m // max(spec.tile_m, rows))
    blocks = blocks_m * -(-n // spec.tile_n) * size.parts * product.batches
    strips = product.batches * -(-m // rows)
    full, rest = divmod(n, vectors * width)
    deinterleaved = 4.0 * vectors if product.planes == 2 else 0.0  # shuffles per step of k
    pieces = max(1, width // product.lanes)
    tile = size.parts * (_TILE_CYCLES + 4.0 * rows * pieces * product.planes * vectors)
    each = k * (step_cycles(product, altered(spec, rows=rows, width=width), vectors) + deinterleaved) + tile
    cycles = strips * (full + (rest > 0)) * each
    useful = 2.0 * product.multiply_adds
    nbytes = k * n * product.narrow
    near = product.fits(product.batches * (m + n) * k * product.narrow)
    beyond = max(0.0, min(1.0, nbytes / max(1, product.profile.l2_bytes) - 0.5))  # of B, which L2 does not keep
    swept = float(strips * nbytes)
    return [
        Phase(
            "multiply in place", operations=useful, efficiency=product.efficiency(useful, cycles),
            read=beyond * swept + (0.0 if near else float(product.batches * (m + n) * k * product.narrow)),
            written=float(product.batches * m * n * size.parts * product.narrow) if not near else 0.0,
            cached=swept if nbytes > product.profile.l1_bytes / 2 else 0.0,
            registers=int((rows * vectors + vectors) * pieces * product.lanes),
            groups=min(blocks, 4 * _GROUPS_PER_UNIT * units), balance=spread(blocks, units),
        )
    ]  # fmt: skip


# --- few rows: the matrix is read once -----------------------------------------------------------------------


def _thin(size: _Size) -> list[Phase]:
    spec, product = size.spec, size.product
    units = product.profile.compute_units
    tile_n = even(product.n, spec.tile_n, spec.width if product.n > spec.width else 1)
    blocks = -(-product.n // tile_n) * size.parts * product.batches
    groups = min(blocks, 4 * _GROUPS_PER_UNIT * units)
    elements = float(product.batches * product.n * product.k)
    near = product.fits(elements * product.narrow / units)
    narrow = min(1.0, spec.width / product.lanes)
    pieces = max(1.0, spec.width / product.lanes)
    # Per vector of B: one load, and a multiply-add per row. `unroll` rows of B share the load and store of the sums.
    cycles = pieces * max(1.0, spec.rows * (1.0 + 1.5 / spec.unroll)) / product.planes
    cycles += 12.0 * spec.width / max(tile_n, spec.width) / spec.unroll  # overhead of advancing to the next rows of B
    return [
        Phase(
            "sweep", groups=groups, operations=2.0 * elements * spec.rows * product.planes**2,
            efficiency=product.efficiency(2.0 * spec.rows * product.lanes * pieces * narrow, cycles),
            read=0.0 if near else elements * product.narrow, cached=elements * product.narrow,
            written=float(product.batches * product.m * product.n * size.parts * product.item),
            balance=spread(blocks, units),
        )
    ]  # fmt: skip


# --- lanes and local memory ----------------------------------------------------------------------------------


_IN_FLIGHT = 2  # loads of a lane that wait for memory together, as measured on an H200


def _staged(size: _Size) -> list[Phase]:
    """Tiles are staged in local memory; registers hold the results and the prefetched elements."""
    spec, product = size.spec, size.product
    profile = product.profile
    blocks_m, blocks_n = -(-product.m // spec.tile_m), -(-product.n // spec.tile_n)
    groups = blocks_m * blocks_n * size.parts * product.batches
    group = spec.lanes_m * spec.lanes_n
    depth = up(size.part_k, spec.tile_k)
    steps = depth // spec.tile_k
    padded = 2.0 * groups * spec.tile_m * spec.tile_n * depth * product.planes**2
    staged = spec.buffers * spec.tile_k * (spec.tile_m + spec.tile_n + 2 * spec.pad) * product.item
    loads = -(-(spec.tile_m + spec.tile_n) * spec.tile_k // group)
    products = spec.rows * spec.columns * product.planes
    # Other instructions of a step of k: loads from local memory, and a share of the reads and stores of the next tiles.
    # Instructions on double take two cycles, others one.
    others = (spec.rows + spec.columns) / spec.width + (14.0 * loads / spec.width + 14.0) / spec.tile_k
    cycles = 2.0 if product.scalar == 8 else 1.0
    waste = products / (products + others / cycles)
    if profile.kind == "cpu":  # each barrier saves the state of a work-item to memory
        state = product.words * (spec.rows * spec.columns + spec.rows + spec.columns + loads) + 24
        waste *= products / (products + 2.0 * state / spec.tile_k)
    # Other resident groups compute while one waits at a barrier or for local memory: a barrier counts as a part of one.
    registers, resident, waiting = registers_of(product.words, spec), 1, 1.0
    if profile.kind != "cpu":
        resident = max(1, _REGISTERS // (group * (FEWER_REGISTERS if registers < MOST_LIMITED else registers)))
        waste /= 1.0 + _STALLED / cycles * max(0.0, _HIDING / (resident * group) - 1.0)
        waiting = _WAITING / min(resident, 4)
        if spec.buffers == 2:  # two sets of addresses, and spills if the registers hardly suffice
            waste /= _TWO_BUFFERS + _SPILLING * (FEWER_REGISTERS - 8 < registers < MOST_LIMITED)
    # Concurrent groups share what they read: a wave of groups covers the rows of blocks first.
    side_by_side = min(groups, 2 * profile.compute_units)
    rows_and_columns = min(side_by_side, blocks_m) * spec.tile_m + -(-side_by_side // blocks_m) * spec.tile_n
    moved = groups / side_by_side * rows_and_columns * depth * float(product.narrow)
    once = product.batches * product.k * (product.m + product.n) * float(product.narrow)
    l2 = profile.l2_bytes * (profile.compute_units if profile.kind == "cpu" else 1)
    read = once if once < l2 / 2 else max(once, moved)
    local = padded / 2 * (1 / spec.rows + 1 / spec.columns) * product.item
    if spec.lanes_m % 4 == 0 and spec.lanes_n % 8 == 0 and spec.width * product.scalar >= 8:
        local /= 2  # pairs of lanes that load the same vector share an access, see matmul_simt.mako
    return [
        Phase(
            "multiply", groups=groups, lanes=group, operations=padded, efficiency=max(1e-6, waste), read=read,
            written=float(product.batches * product.m * product.n * size.parts * product.narrow),
            cached=local if profile.kind != "cpu" else 0.0,
            balance=spread(groups, profile.compute_units), barriers=(steps + 1) * (3 - spec.buffers) * waiting,
            local_bytes=staged,
            registers=registers, access=product.narrow * min(_IN_FLIGHT, loads),
        )
    ]  # fmt: skip


def _combine(size: _Size) -> Phase:
    """Add the parts of k: one work-item per element; its index takes two long divisions."""
    product = size.product
    count = product.batches * product.m * product.n
    groups = max(1, -(-count // 64))
    cpu = product.profile.kind == "cpu"
    each = 14.0 + size.parts * product.planes
    return Phase(
        "add parts", groups=groups, lanes=1 if cpu else 64, operations=count * (1.0 if cpu else 2.0 * each),
        efficiency=product.efficiency(1.0, each) if cpu else 0.5,
        read=0.0 if size.partial_near else float(count * size.parts * product.item),
        cached=float(count * size.parts * product.item), written=float(count * product.narrow),
        balance=spread(groups, product.profile.compute_units), access=product.item,
    )  # fmt: skip
