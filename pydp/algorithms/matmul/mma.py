"""The method "mma": products of warps by tensor cores (kernels_cl/matmul_mma.mako). Its candidates, limits and counts.

NVIDIA's OpenCL C has no functions for tensor cores, but it accepts inline PTX. Devices without PTX can emulate the
instructions (slowly, for tests) if their profile has `tensor_cores`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydp.algorithms.matmul.spec import MatmulProblem, MatmulSpec, up
from pydp.groups.barrier import is_nvidia
from pydp.model.counts import Phase, spread
from pydp.model.family import altered

if TYPE_CHECKING:
    from pydp.algorithms.matmul.problem import Arithmetic, Matrix
    from pydp.runtime.device.profile import Profile

KINDS = {"float16": "f16", "float64": "f64"}
SPAN = 16  # rows of tiles that successive groups take before the next column of tiles; about a square at a time
_WARP_M, _WARP_N = 8, 4  # lanes of a warp along the rows and columns of its results
_CHUNK = 16  # bytes copied at a time

# How many times faster than fused multiply-adds of float32 (f16) and float64 (f64) a warp's products are, by compute
# capability: rates of NVIDIA's white papers. For sm_90, mma.sync reaches about 0.6 of the rate of wgmma, which OpenCL
# cannot use. Devices with few float64 units have no fast float64 tensor cores.
_SPEEDUP = {
    "f16": {80: 16.0, 86: 2.0, 87: 4.0, 89: 2.0, 90: 10.0, 100: 8.0, 120: 2.0},
    "f64": {80: 2.0, 90: 2.0, 100: 1.0},
}
# (tile_m, tile_n, tile_k, warps along m, along n, buffers), largest first. At most 48 KiB of local memory.
_TILES = {
    "f16": (
        (128, 128, 32, 2, 2, 3), (256, 128, 32, 4, 2, 2), (128, 256, 32, 2, 4, 2), (128, 128, 32, 2, 4, 3),
        (128, 128, 32, 2, 2, 2), (128, 64, 32, 2, 2, 4), (64, 128, 32, 2, 2, 4), (64, 64, 32, 2, 2, 4),
        (64, 64, 64, 2, 2, 3), (64, 32, 64, 2, 1, 3), (32, 64, 64, 1, 2, 3), (32, 32, 64, 2, 2, 4),
    ),
    "f64": (
        (128, 128, 8, 2, 4, 3), (128, 64, 16, 2, 2, 2), (64, 128, 16, 2, 2, 2), (128, 64, 8, 2, 2, 4),
        (64, 128, 8, 2, 2, 4), (64, 64, 16, 2, 2, 3), (64, 64, 8, 2, 2, 4), (64, 32, 16, 2, 1, 4),
        (32, 32, 16, 2, 2, 4),
    ),
}  # fmt: skip
_LATENCY = 900.0  # cycles of a copy from the last-level cache to local memory
# Registers and bytes of local memory per multiprocessor, which limit the resident groups.
_REGISTERS, _LOCAL = 65536, 100 << 10
_ISSUED = 0.9  # share of the tensor cores' peak rate that is reached, with loads of fragments between
_FAR = 5.5  # bytes of local memory that are read in the time of one byte from the last-level cache (H100: 5.5 TB/s)


def has_mma(profile: Profile, problem: MatmulProblem) -> bool:
    """Whether the device's tensor cores compute products of this dtype faster than multiply-adds."""
    kind = KINDS.get(problem.dtype)
    if kind is None or not profile.tensor_cores:
        return False
    return kind == "f16" or profile.tensor_cores in _SPEEDUP["f64"]


def shape(profile: Profile) -> tuple[int, int]:
    """(m, k) of an m x 8 x k product of float64."""
    return (16, 8) if profile.tensor_cores >= 90 else (8, 4)


def warps(spec: MatmulSpec) -> tuple[int, int]:
    """The warps of a group along m and n."""
    return spec.lanes_m // _WARP_M, spec.lanes_n // _WARP_N


def _spec(tile: tuple[int, int, int, int, int, int]) -> MatmulSpec:
    tile_m, tile_n, tile_k, warps_m, warps_n, buffers = tile
    lanes_m, lanes_n = _WARP_M * warps_m, _WARP_N * warps_n
    rows, columns = tile_m // lanes_m, tile_n // lanes_n
    return MatmulSpec(
        "simt", "mma", tile_m, tile_n, tile_k, rows, columns, lanes_m, lanes_n, 2, tile_k, buffers=buffers
    )  # fmt: skip


def _able(profile: Profile, problem: MatmulProblem) -> list[MatmulSpec]:
    specs = [_spec(tile) for tile in _TILES[KINDS[problem.dtype]]]
    return [spec for spec in specs if check_mma(profile, problem, spec) is None]


def default_mma(profile: Profile, problem: MatmulProblem) -> MatmulSpec | None:
    """The largest tiles that still give a group for each multiprocessor; None if no tile can run."""
    able = _able(profile, problem)
    if not able:
        return None

    def blocks(spec: MatmulSpec) -> int:
        return problem.batches * -(-problem.m // spec.tile_m) * -(-problem.n // spec.tile_n)

    units = profile.compute_units
    enough = (spec for spec in able if blocks(spec) >= units and spec.tile_m < 2 * problem.m)
    spec = next(enough, able[-1])
    count, parts = blocks(spec), 1
    if 0 < count < units:
        parts = max(1, min(32, 2 * units // count, problem.k // (8 * spec.tile_k)))
    return altered(spec, parts=parts)


def mma_space(profile: Profile, problem: MatmulProblem) -> list[MatmulSpec]:
    """All tiles, each with the default's number of parts of k and with one part; empty without tensor cores."""
    first = default_mma(profile, problem) if has_mma(profile, problem) else None
    if first is None:
        return []
    found = [_spec(tile) for tile in _TILES[KINDS[problem.dtype]]]
    return [altered(spec, parts=parts) for parts in dict.fromkeys((first.parts, 1)) for spec in found]


def check_mma(profile: Profile, problem: MatmulProblem, spec: MatmulSpec) -> str | None:
    """One sentence on why the kernel cannot run, or None."""
    if not has_mma(profile, problem):
        return (
            f"method is 'mma' and the result {problem.dtype}; it is accepted for float16 and float64 on NVIDIA GPUs of "
            "compute capability 8.0 or higher with fast tensor cores for the type"
        )
    item = 2 if problem.dtype == "float16" else 8
    tiles = (spec.tile_m, spec.tile_n, spec.tile_k)
    least = 16 if item == 2 else 8  # of tile_k: a product of a warp
    if any(size & size - 1 for size in (*tiles, spec.lanes_m, spec.lanes_n)) or spec.tile_k < least:
        return (
            f"tile_m, tile_n and tile_k are {tiles}, lanes_m and lanes_n {(spec.lanes_m, spec.lanes_n)}; powers of two "
            f"are accepted, tile_k from {least}"
        )
    if spec.lanes_m % _WARP_M or spec.lanes_n % _WARP_N or spec.lanes_m * spec.lanes_n > profile.max_group_size:
        return (
            f"lanes_m and lanes_n are {spec.lanes_m} and {spec.lanes_n}; multiples of {_WARP_M} and {_WARP_N} are "
            f"accepted, at most {profile.max_group_size} work-items"
        )
    if (spec.rows * spec.lanes_m, spec.columns * spec.lanes_n) != tiles[:2] or spec.rows % 2 or spec.columns % 4:
        return (
            f"rows and columns are {spec.rows} and {spec.columns}; tile_m / lanes_m and tile_n / lanes_n are accepted, "
            "multiples of 2 and 4"
        )
    words = item // 4 or 1
    if spec.rows * spec.columns * words > 128:
        return f"the results of a work-item take {spec.rows * spec.columns * words} registers; at most 128 are accepted"
    if spec.buffers < 2:
        return f"buffers is {spec.buffers}; 2 to 4 are accepted"
    needed = spec.buffers * spec.tile_k * (spec.tile_m + spec.tile_n) * item
    if needed > profile.local_bytes:
        return f"the staged tiles need {needed} bytes of local memory; the device has {profile.local_bytes}"
    return None


# --- the kernel's parameters ----------------------------------------------------------------------------------


def along_k(across: int, down: int) -> bool:
    """Whether chunks of an operand lie along k. across, down: its strides along m or n, and along k."""
    return down == 1 if 1 in (across, down) else abs(down) < abs(across)


def is_copied(matrix: Matrix, across: int, down: int, item: int) -> bool:
    """Whether aligned chunks of 16 bytes can be copied as they are."""
    step = _CHUNK // item
    unit, other = (down, across) if along_k(across, down) else (across, down)
    return unit == 1 and not any(x % step for x in (other, matrix.offset, *matrix.batch))


def params(
    profile: Profile,
    how: Arithmetic,
    spec: MatmulSpec,
    operands: tuple[Matrix, Matrix, Matrix],
    c_part: int,
    same: tuple[bool, bool],
) -> dict[str, Any]:
    """Parameters of matmul_mma.mako. operands: a, b and c. c_part: the distance of parts of k in c. same: whether a
    and b have the result's dtype."""
    a, b, c = operands
    ptx = is_nvidia(profile)
    # Buffers begin at aligned addresses, except those that use the host's memory in place. The emulation needs none.
    aligned = not (ptx and profile.shares_host_memory)
    item = how.dtype.itemsize
    strides = {"a": (a.row, a.col), "b": (b.col, b.row)}
    matrices = {"a": (a, same[0]), "b": (b, same[1])}
    warps_m, warps_n = warps(spec)
    return {
        "kind": KINDS[how.dtype.name], "ptx": ptx, "shape": shape(profile), "span": SPAN,
        "tile_m": spec.tile_m, "tile_n": spec.tile_n, "tile_k": spec.tile_k, "warps_m": warps_m, "warps_n": warps_n,
        "buffers": spec.buffers,
        "along": {name: along_k(*two) for name, two in strides.items()},
        "copied": {
            name: aligned and like and is_copied(one, *strides[name], item) for name, (one, like) in matrices.items()
        },
        "pairs": aligned and c.col == 1 and not any(x % 2 for x in (c.row, c.offset, c_part, *c.batch)),
    }  # fmt: skip


def notes(kernel_params: dict[str, Any]) -> list[str]:
    """Sentences on how the kernel multiplies and copies."""
    m, k = (16, 16) if kernel_params["kind"] == "f16" else kernel_params["shape"]
    way = "PTX mma.sync" if kernel_params["ptx"] else "an emulation of PTX mma.sync, for tests"
    copied = kernel_params["copied"]
    words = {True: "16 bytes at a time", False: "element by element (not contiguous, not aligned, or another dtype)"}
    return [
        f"{kernel_params['warps_m']} x {kernel_params['warps_n']} warps multiply blocks of {m} x 8 x {k} by {way}",
        *(f"{name} is staged {words[copied[name]]}" for name in "ab"),
    ]


# --- counts ---------------------------------------------------------------------------------------------------


def _speedup(profile: Profile, kind: str) -> float:
    table = _SPEEDUP[kind]
    return table[max((cc for cc in table if cc <= profile.tensor_cores), default=min(table))]


def mma_phase(profile: Profile, problem: MatmulProblem, spec: MatmulSpec, part_k: int, parts: int) -> Phase:
    """The kernel's phase. Operations count as the multiply-adds that take the same time."""
    kind = KINDS[problem.dtype]
    item = 2 if kind == "f16" else 8
    batches, m, n = max(1, problem.batches), max(1, problem.m), max(1, problem.n)
    blocks_m, blocks_n = -(-m // spec.tile_m), -(-n // spec.tile_n)
    groups, group = blocks_m * blocks_n * parts * batches, spec.lanes_m * spec.lanes_n
    steps = up(part_k, spec.tile_k) // spec.tile_k
    warps_m, warps_n = warps(spec)
    operations = 2.0 * spec.tile_m * spec.tile_n * spec.tile_k / _speedup(profile, kind)  # of a step
    staged = float(spec.tile_k * (spec.tile_m + spec.tile_n) * item)
    # Every row of warps reads the tile of B, every column of warps the tile of A.
    local = max(staged + spec.tile_k * (spec.tile_m * warps_n + spec.tile_n * warps_m) * item, _FAR * staged)
    words = item // 4 or 1
    registers = words * (spec.rows * spec.columns + 2 * spec.rows + spec.columns) + 64  # by ptxas: up to 32 fewer
    resident = max(1, min(_REGISTERS // (min(registers, 255) * group), int(_LOCAL // (spec.buffers * staged))))
    rate = 2.0 * (64 if profile.tensor_cores == 80 or kind == "f64" else 128)  # multiply-adds of a multiprocessor
    cycles = max(operations / rate, local / 128)
    hidden = min(1.0, resident * (spec.buffers - 1) * cycles / (cycles + _LATENCY))
    # Concurrent groups share what they read: a span of tiles at a time.
    side = min(groups, 2 * profile.compute_units)
    tall = min(side, blocks_m, SPAN)
    rows_and_columns = tall * spec.tile_m + -(-side // tall) * spec.tile_n
    once = float(batches * max(1, problem.k) * (m + n) * item)
    moved = groups / side * rows_and_columns * steps * spec.tile_k * float(item)
    c_item = (4 if kind == "f16" else 8) if parts > 1 else item
    return Phase(
        "multiply", groups=groups, lanes=group, operations=operations * groups * steps, efficiency=_ISSUED * hidden,
        read=once if once < profile.l2_bytes / 2 else max(once, moved),
        written=float(batches * m * n * parts * c_item), cached=local * groups * steps / hidden,
        balance=spread(groups, profile.compute_units), barriers=steps, local_bytes=int(spec.buffers * staged),
        registers=registers, access=32,  # two vectors of a lane are loaded together
    )  # fmt: skip
