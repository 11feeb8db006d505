"""The matmul policy: from the device profile and the problem to a `MatmulSpec`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pydp.algorithms.matmul.counts import counts
from pydp.algorithms.matmul.mma import check_mma, default_mma, has_mma, mma_space
from pydp.algorithms.matmul.problem import Arithmetic
from pydp.algorithms.matmul.spec import (
    MatmulProblem,
    MatmulSpec,
    direct_space,
    packed_space,
    staged_space,
    thin_space,
)
from pydp.algorithms.matmul.staging import lane_bytes, staged_rows
from pydp.local_memory import banks_of
from pydp.model.family import Family, altered, between, field_error, one_of

if TYPE_CHECKING:
    from pydp.runtime.device.profile import Profile

THIN_ROWS = 4  # up to this many rows, reading the matrix once limits the speed, and packing only adds cost
_WIDE = (2, 4, 8, 16)
_PAGE_BYTES = 4096


def rounded_size(size: int) -> int:
    """The size class of cached choices: sizes up to 8 unchanged, larger sizes rounded up to a power of two."""
    return size if size <= 8 else 1 << (size - 1).bit_length()


def _default(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    mapping = problem.mapping
    if mapping is None:  # drivers that limit loops run work-items as vector lanes
        mapping = profile.mapping if profile.loop_limit is None else "simt"
    return _simt(profile, problem) if mapping == "simt" else _vector(profile, problem)


def _simt(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    found = None
    if problem.method != "staged" and has_mma(profile, problem):
        found = default_mma(profile, problem)
    return _staged(profile, problem) if found is None else found


def _vector(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    if problem.method == "direct" and not problem.strided:
        return _direct(profile, problem)
    if problem.thin and problem.method != "packed":
        return _thin(profile, problem)
    small = not problem.strided and problem.method is None and _in_cache(profile, problem)
    return _direct(profile, problem) if small else _packed(profile, problem)


def _in_cache(profile: Profile, problem: MatmulProblem) -> bool:
    """Whether B stays in a core's caches while it is read once per register tile.

    Measured: above a quarter of L2, packing pays for itself. A row of B longer than a page needs a TLB entry each.
    """
    row = problem.n * problem.arithmetic.item_bytes
    return row <= _PAGE_BYTES and problem.k * row <= profile.l2_bytes // 4


def _width(profile: Profile, how: Arithmetic) -> int:
    return max(4 if how.item_bytes // how.planes == 4 else 2, profile.simd_bytes * how.planes // how.item_bytes)


# Minimum depth of a panel of A; half of it is 0.8 times as fast for float64 with 32 KiB of L1 (PoCL, Zen 4).
_LEAST_DEPTH = 256
_SHALLOW_COLUMNS = 512  # 3 to 5% faster than 384 for float64; 1024 were up to 10% slower (PoCL, Intel, Zen 5)
_LEAST_BLOCK = 800 << 10  # bytes of B; 400 KiB are 0.8 to 0.95 times as fast with 1 MiB of L2 (PoCL, Intel, Zen 4)


def _packed(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    """Blocking after Goto and van de Geijn: a panel of A in a fifth of L1, panels of B in two fifths of L2, or in up to
    three quarters of a small L2.

    B takes whole ways of L2, as in Low et al. (TOMS 2016). A takes at most a quarter of the ways of each L1 set,
    because streamed data takes a line of each set. If panels of A would be too shallow, they take up to half of L1,
    because every panel loads and stores its results once more. Products with a small k have wider panels of B."""
    how = problem.arithmetic
    batches, m, n, k = problem.batches, problem.m, problem.n, problem.k
    width = _width(profile, how)
    rows, columns = 6, width * max(1, (4 if profile.vector_registers >= 32 else 2) // how.planes)
    panel = min(profile.l1_bytes // 5, profile.l1_bytes // profile.l1_ways * max(1, profile.l1_ways // 4))
    way = profile.l2_bytes // profile.l2_ways
    ways = max(profile.l2_ways * 2 / 5, min(profile.l2_ways * 3 / 4, _LEAST_BLOCK / max(way, 1)))
    block = way * max(1, round(ways))
    depth = max(panel // (rows * how.item_bytes), min(_LEAST_DEPTH, profile.l1_bytes // 2 // (rows * how.item_bytes)))
    tile_k = max(64, min(1024, depth) // 64 * 64)
    tile_n = max(1, block // (tile_k * how.item_bytes) // columns) * columns
    if k <= tile_k // 2:  # room for more columns in L2, so that A is packed less often
        most = min(_SHALLOW_COLUMNS, block // (max(k, 1) * how.item_bytes))
        tile_n = max(tile_n, most // columns * columns)
    tile_m = 1024
    if profile.loop_limit is not None:  # the limit applies to all loops of a work-item together
        return MatmulSpec("vector", "packed", rows, columns, 64, rows, columns, 1, 1, width)
    wanted = 2 * profile.compute_units
    while batches * -(-m // tile_m) * -(-n // tile_n) < wanted and tile_m > 128:
        tile_m //= 2
    while batches * -(-m // tile_m) * -(-n // tile_n) < wanted and tile_n >= 4 * columns:
        tile_n = max(2 * columns, tile_n // 2 // columns * columns)
    blocks = batches * -(-m // tile_m) * -(-n // tile_n)
    parts = 1
    if blocks and blocks < profile.compute_units and k >= 4 * tile_k:
        parts = min(-(-profile.compute_units // blocks), k // (2 * tile_k))
    return MatmulSpec("vector", "packed", tile_m, tile_n, tile_k, rows, columns, 1, 1, width, parts=parts)


def _direct(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    """Register tiles of whole vectors that fit the product; blocks for every compute unit."""
    how = problem.arithmetic
    batches, m, n, k = problem.batches, max(1, problem.m), max(1, problem.n), problem.k
    width = max(2 * how.planes, min(_width(profile, how), 1 << n.bit_length() - 1))
    most = (4 if profile.vector_registers >= 32 else 2) // how.planes
    vectors = max(1, min(most, n // width))
    rows = min(m, 4 if vectors == 4 or profile.vector_registers < 32 else 8)
    tile_m, tile_n = 1024, 4096
    wanted = 4 * profile.compute_units
    while batches * -(-m // tile_m) * -(-n // tile_n) < wanted and tile_m >= 4 * rows:
        tile_m = tile_m // 2 // rows * rows
    parts = 1
    if profile.loop_limit is None and batches * -(-m // tile_m) < profile.compute_units and k >= 512:
        parts = min(profile.compute_units, k // 256)
    return MatmulSpec(
        "vector", "direct", tile_m, tile_n, max(k, 1), rows, vectors * width, 1, 1, width, 4, parts=parts
    )  # fmt: skip


def _thin(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    how = problem.arithmetic
    batches, m, n, k = problem.batches, problem.m, problem.n, problem.k
    width = _width(profile, how)
    rows = 1 if m <= 1 else THIN_ROWS
    span = profile.l1_bytes // 3 // (rows * how.item_bytes * width) * width
    span = max(width, min(span, 4096 if profile.loop_limit is None else 8 * width))
    wanted = 4 * profile.compute_units
    tile_n, parts = span, 1
    if problem.dots:
        tile_n = min(span, max(4, -(-n // wanted)))
    blocks = batches * -(-n // tile_n)
    if 0 < blocks < wanted and n * k >= 1 << 17:
        parts = max(1, min(-(-wanted // blocks), k // 256))
    if not problem.dots and blocks == 1 and n * k >= 1 << 17 and k < 512:
        tile_n = max(width, -(-n // profile.compute_units) // width * width)
    unroll = 4 if rows == 1 else 2  # rows of B added at a time: enough loads in flight, little code
    depth = min(max(k, 1), 1 << 30)  # nothing is staged or packed, so this only shows the depth of the sum
    return MatmulSpec("vector", "thin", rows, tile_n, depth, rows, span, 1, 1, width, unroll, 0, parts)


def _staged(profile: Profile, problem: MatmulProblem) -> MatmulSpec:
    """The largest tiles that still give enough groups and whose buffers fit local memory."""
    found = _staged_candidates(profile, problem)
    batches, m, n, k = problem.batches, problem.m, problem.n, problem.k
    enough = [
        spec
        for spec in found
        if batches * -(-m // spec.tile_m) * -(-n // spec.tile_n) >= profile.compute_units and spec.tile_m <= 2 * m
    ]
    small = [spec for spec in found if spec.tile_m <= 32 and spec.tile_k <= 8]
    spec = enough[0] if enough and profile.kind == "gpu" else small[0] if small else found[-1]
    blocks = batches * -(-m // spec.tile_m) * -(-n // spec.tile_n)
    parts = 1
    if profile.kind == "gpu" and 0 < blocks < profile.compute_units:
        parts = max(1, min(_MOST_PARTS, 2 * profile.compute_units // blocks, k // (8 * spec.tile_k)))
    return altered(spec, parts=parts)


def _staged_candidates(profile: Profile, problem: MatmulProblem) -> list[MatmulSpec]:
    """Staged specializations that fit, largest tiles first."""
    how = problem.arithmetic
    block = 4 if how.item_bytes <= 4 else 2
    banks = banks_of(profile.banks, profile.bank_bytes)
    shapes = [(128, 128, 8, 16, 16), (64, 64, 16, 16, 16), (32, 32, 16, 8, 8), (32, 32, 8, 8, 8), (16, 16, 8, 4, 4)]
    if how.item_bytes > 4:
        # 8 x 8 products of 64-bit integers need too many registers.
        shapes = [(128, 64, 8, 16, 8) if how.dtype.kind == "f" else (64, 64, 16, 16, 16), *shapes[2:]]
    if how.item_bytes > 8:
        shapes[-1] = (16, 16, 8, 8, 8)  # with 4 x 4 results and staging by 16 lanes, registers would spill
    specs = [
        MatmulSpec(
            "simt",
            "staged",
            tm,
            tn,
            tk,
            tm // lm,
            tn // ln,
            lm,
            ln,
            block,
            _unroll(profile, how, tm * tn // (lm * ln), tk),
            staged_rows(banks, tm, tk, block, lane_bytes(how)).pad,
        )
        for tm, tn, tk, lm, ln in shapes
    ]
    fits = [spec for spec in specs if _check(profile, problem, spec) is None]
    return fits or specs[-1:]


def _unroll(profile: Profile, how: Arithmetic, results: int, tile_k: int) -> int:
    """Steps of k per iteration of the staged kernel, for `results` per work-item. GPUs load the operands of several
    steps ahead, and half a thousand multiply-adds fit their instruction caches; products of integers need temporary
    registers, which spill on AMD GPUs with 8 steps. On CPUs kernels only take longer to build."""
    most = 8 if how.dtype.kind in "fc" else 4
    return max(1, min(tile_k, most, 512 // (results * how.planes**2))) if profile.kind == "gpu" else 1


def _space(profile: Profile, problem: MatmulProblem) -> list[MatmulSpec]:
    """The search space: the default, the blockings of its method, and the staged kernel if no mapping is requested."""
    first = _default(profile, problem)
    found = [first]
    if profile.loop_limit is not None and first.mapping == "vector":
        return found  # its loops are as long as the driver allows
    if first.method == "packed":
        found = packed_space(profile, problem, first)
    elif first.method == "direct":
        found = direct_space(profile, problem, first)
        if problem.method is None:
            found += packed_space(profile, problem, _packed(profile, problem))
    elif first.method == "thin":
        found = thin_space(profile, problem, first)
    if first.mapping == "simt" or (problem.mapping, problem.method) == (None, None):
        how = problem.arithmetic
        banks = banks_of(profile.banks, profile.bank_bytes)
        block = 4 if how.item_bytes <= 4 else 2

        def pad(tile: int, tile_k: int, width: int) -> int:
            return staged_rows(banks, tile, tile_k, width, lane_bytes(how)).pad

        steps = functools.partial(_unroll, profile, how)
        found += staged_space(first, block, pad, steps, functools.partial(_parts_of, profile, problem))
        if first.mapping == "simt":
            found += [altered(spec, buffers=1) for spec in _staged_candidates(profile, problem)]
            found += mma_space(profile, problem) if problem.method != "staged" else []
    return list(dict.fromkeys(found))


_MOST_PARTS = 32
_GROUPS = (4, 16)  # groups per compute unit of a GPU: fewer leave its memory idle, more cost time to add their results


def _parts_of(profile: Profile, problem: MatmulProblem, tile_m: int, tile_n: int, tile_k: int) -> tuple[int, ...]:
    """Numbers of parts of k with which these tiles fill a GPU, powers of two; none if tiles alone fill it."""
    blocks = problem.batches * -(-problem.m // tile_m) * -(-problem.n // tile_n)
    small = problem.batches * -(-problem.m // 32) * -(-problem.n // 32)
    if profile.kind != "gpu" or not blocks or small >= _GROUPS[0] * profile.compute_units:
        return ()
    most = [min(_MOST_PARTS, groups * profile.compute_units // blocks, problem.k // (8 * tile_k)) for groups in _GROUPS]
    return tuple(1 << one.bit_length() - 1 for one in most if one)


_METHODS = {("vector", "packed"), ("vector", "direct"), ("vector", "thin"), ("simt", "staged"), ("simt", "mma")}
_ACCEPTED = {
    **{name: between(1, (1 << 31) - 1) for name in ("tile_m", "tile_n", "tile_k", "rows", "columns")},
    **{name: between(1, (1 << 31) - 1) for name in ("lanes_m", "lanes_n", "width", "unroll", "parts")},
    "pad": between(0, (1 << 31) - 1),
    "buffers": one_of(1, 2, 3, 4),
}


def _check(profile: Profile, problem: MatmulProblem, spec: MatmulSpec) -> str | None:
    if (spec.mapping, spec.method) not in _METHODS:
        return (
            f"mapping is {spec.mapping!r} and method {spec.method!r}; 'vector' with 'packed', 'direct' or 'thin', and "
            "'simt' with 'staged' or 'mma' are accepted"
        )
    error = field_error(spec, _ACCEPTED)
    if error:
        return error
    if spec.method == "mma":
        return check_mma(profile, problem, spec)
    return _check_staged(profile, problem, spec) if spec.mapping == "simt" else _check_vector(problem, spec)


def _check_vector(problem: MatmulProblem, spec: MatmulSpec) -> str | None:
    if spec.width not in _WIDE:
        return f"width is {spec.width}; one of {_WIDE} is accepted"
    if spec.columns % spec.width:
        return f"columns is {spec.columns}; a multiple of the width {spec.width} is accepted"
    if (spec.lanes_m, spec.lanes_n) != (1, 1):
        return f"lanes_m and lanes_n are {spec.lanes_m} and {spec.lanes_n}; 1 and 1 are accepted for mapping 'vector'"
    if spec.rows > 16 or spec.unroll > 16:
        return f"rows is {spec.rows} and unroll {spec.unroll}; at most 16 are accepted"
    if spec.method == "thin" and not problem.thin:
        return (
            f"method is 'thin'; it is accepted for products of at most {THIN_ROWS} rows or columns if the rows or "
            "columns of the other operand are contiguous"
        )
    if spec.method == "thin" and not problem.m <= spec.rows:
        return f"rows is {spec.rows}; at least {problem.m}, the rows of the product, are accepted"
    if spec.method == "thin" and spec.columns > 1 << 16:
        return f"columns is {spec.columns}; at most 65536 are accepted"
    if spec.method == "thin" and spec.tile_n > spec.columns:
        return f"tile_n is {spec.tile_n}; at most columns={spec.columns} is accepted"
    if spec.method == "direct" and problem.strided:
        return "method is 'direct'; it is accepted if the rows of b are contiguous and hold a vector of two numbers"
    if spec.method == "direct" and spec.columns > 8 * spec.width:
        return f"columns is {spec.columns}; at most 8 * width is accepted"
    if spec.method == "packed" and (spec.tile_k % 32 or spec.columns > 8 * spec.width):
        return (
            f"tile_k is {spec.tile_k} and columns {spec.columns}; a multiple of 32 and at most 8 * width are accepted"
        )
    return None


def _check_staged(profile: Profile, problem: MatmulProblem, spec: MatmulSpec) -> str | None:
    group = spec.lanes_m * spec.lanes_n
    if spec.buffers > 2:
        return f"buffers is {spec.buffers}; 1 and 2 are accepted for method 'staged'"
    if group > profile.max_group_size:
        return f"lanes_m * lanes_n is {group}; at most {profile.max_group_size} are accepted"
    if (spec.rows * spec.lanes_m, spec.columns * spec.lanes_n) != (spec.tile_m, spec.tile_n):
        return (
            f"rows * lanes_m and columns * lanes_n are {spec.rows * spec.lanes_m} and {spec.columns * spec.lanes_n}; "
            f"tile_m and tile_n ({spec.tile_m} and {spec.tile_n}) are accepted"
        )
    if spec.width not in (1, 2, 4) or spec.rows % spec.width or spec.columns % spec.width or spec.pad % spec.width:
        return f"width is {spec.width}; 1, 2 or 4 is accepted, and must divide rows, columns and pad"
    if spec.rows * spec.columns > 256:
        return f"the register tile {spec.rows} x {spec.columns} is too large; at most 256 results are accepted"
    how = problem.arithmetic
    needed = spec.buffers * spec.tile_k * (spec.tile_m + spec.tile_n + 2 * spec.pad) * how.item_bytes
    if needed > profile.local_bytes:
        return f"the staged tiles need {needed} bytes of local memory; the device has {profile.local_bytes}"
    return None


FAMILY = Family("matmul", MatmulSpec, _default, _space, _check, counts)
