"""The problems and specializations of matrix products: `MatmulProblem`, `MatmulSpec`, candidates for a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pydp.algorithms.matmul.problem import Arithmetic, arithmetic
from pydp.model.family import Problem, altered

if TYPE_CHECKING:
    from pydp.runtime.device.profile import Profile


@dataclass(frozen=True)
class MatmulProblem(Problem):
    """A matrix product as far as its specialization depends on it.

    dtype: the dtype of the result. batches: number of products. m, n: rows and columns of the result. k: products of a
    sum. thin: method "thin" applies. dots: it computes dot products, because the columns of B are contiguous and its
    rows are not. mapping, method: the caller asks for these values of the specialization's fields. strided: method
    "direct" does not apply, because the rows of B are not contiguous or shorter than a vector of two
    numbers.
    """

    family: ClassVar[str] = "matmul"
    batches: int
    m: int
    n: int
    k: int
    thin: bool = False
    dots: bool = False
    mapping: str | None = None
    method: str | None = None
    strided: bool = False

    @property
    def arithmetic(self) -> Arithmetic:
        """How the dtype is computed."""
        return arithmetic(np.dtype(self.dtype))


@dataclass(frozen=True)
class MatmulSpec:
    """One specialization of matmul.

    mapping: "vector" (a work-item is a thread with vector registers) or "simt" (a work-item is a lane).
    method: "packed", "direct" or "thin" (vector), "staged" or "mma" (simt; tensor cores).
    tile_m, tile_n: largest block of C per group. tile_k: depth staged or packed at a time.
    rows, columns: the register tile of a work-item. lanes_m, lanes_n: work-items of a group along m and n.
    width: vector lanes (vector) or adjacent results per block (simt). unroll: steps of k per iteration.
    pad: elements added to a staged row of local memory. parts: the minimal number of parts that k is split into.
    buffers: 2 separates even and odd steps and needs one barrier per step; 1 halves the local memory and needs two. For
    "mma", 2 to 4: copies begin buffers - 1 steps before their tiles are multiplied.
    barriers, subgroup: the barriers of the staged methods (see :mod:`pydp.groups.barrier`).
    """

    mapping: str
    method: str
    tile_m: int
    tile_n: int
    tile_k: int
    rows: int
    columns: int
    lanes_m: int = 1
    lanes_n: int = 1
    width: int = 1
    unroll: int = 1
    pad: int = 0
    parts: int = 1
    buffers: int = 2
    barriers: str = "group"
    subgroup: int | None = None


# Register tiles (rows, vectors of columns): from few results, which reload operands often, to more than any processor
# has registers for.
_TILES = ((6, 4), (8, 3), (12, 2), (4, 4), (4, 2), (8, 1), (2, 4), (1, 4), (8, 4))
_DIRECT_TILES = ((6, 4), (8, 2), (4, 4), (4, 2), (8, 1), (4, 1))  # more rows need more registers for addresses
# (tile_m, tile_n, tile_k, lanes_m, lanes_n) of the staged kernel.
_STAGED = tuple(
    (tm, tn, tk, lm, ln)
    for tm, tn, lm, ln in (
        (256, 128, 16, 16), (128, 128, 16, 16), (128, 64, 16, 16), (64, 128, 16, 16), (64, 64, 16, 16),
        (128, 64, 16, 8), (64, 64, 8, 8), (64, 32, 8, 8), (32, 32, 8, 8), (32, 32, 16, 16), (16, 16, 4, 4),
        (16, 16, 8, 8),
    )
    for tk in (8, 16, 32)
)  # fmt: skip


def up(size: int, step: int) -> int:
    """`size` rounded up to a multiple of `step`."""
    return -(-size // step) * step


def even(size: int, most: int, step: int) -> int:
    """The tile size, a multiple of `step` and about `most` at most, that splits `size` into equal blocks."""
    blocks = -(-size // max(most, step))
    return max(step, up(-(-size // max(1, blocks)), step))


def packed_space(profile: Profile, problem: MatmulProblem, first: MatmulSpec) -> list[MatmulSpec]:
    """Other blockings with the default's register tile, then other register tiles and narrower vectors."""
    found = [first]
    for tile_k in (64, 128, 256, 512, 1024):
        for tile_n in (2 * first.columns, 8 * first.columns, 1 << 14):
            most = max(1, profile.l2_bytes * 2 // (tile_k * 4) // first.columns) * first.columns
            found.append(altered(first, tile_k=tile_k, tile_n=min(tile_n, most)))
    found += [altered(first, tile_m=tile_m) for tile_m in (64, 128, 256, 512, 1024, 4096)]
    found += [altered(first, parts=parts) for parts in (1, 2, 4, 8, 16)]
    found += [altered(first, unroll=4)]
    for rows, vectors in _TILES:
        columns = vectors * first.width
        found.append(altered(first, rows=rows, columns=columns, tile_n=up(first.tile_n, columns)))
    for narrow in [width for width in (first.width // 2, first.width // 4) if width >= 2]:
        columns = first.columns // first.width * narrow
        found.append(altered(first, width=narrow, columns=columns, tile_n=up(first.tile_n, columns)))
    return _distinct(found, problem.m, problem.n, problem.k)


def direct_space(profile: Profile, problem: MatmulProblem, first: MatmulSpec) -> list[MatmulSpec]:
    """Other register tiles, narrower vectors and other blocks."""
    found = [first]
    for rows, vectors in _DIRECT_TILES:
        found.append(altered(first, rows=rows, columns=vectors * first.width))
    found += [altered(first, tile_m=tile_m) for tile_m in (32, 64, 256)]
    found += [altered(first, parts=parts) for parts in (1, 2, 4)]
    found += [altered(first, unroll=unroll) for unroll in (1, 2, 4)]
    if first.width > 2:
        found.append(altered(first, width=first.width // 2, columns=first.columns // 2))
    return list(dict.fromkeys(found))


def thin_space(profile: Profile, problem: MatmulProblem, first: MatmulSpec) -> list[MatmulSpec]:
    """Variants of the default: other parts of k, unrolls, vector widths, and narrower tiles."""
    parts = (1, first.parts // 4, first.parts // 2, first.parts * 2, first.parts * 4)
    found = [first, *(altered(first, parts=max(1, count)) for count in parts)]
    found += [altered(first, unroll=unroll) for unroll in (1, 2, 4, 8)]
    found += [altered(first, width=width) for width in (first.width // 2, first.width // 4) if width >= 2]
    found += [altered(first, tile_n=max(first.width, first.tile_n // share)) for share in (2, 4, 8)]
    return list(dict.fromkeys(found))


FEWER_REGISTERS = 128  # with these, 512 work-items share the 65,536 registers of a multiprocessor of NVIDIA GPUs
_AHEAD = 24  # elements of the next tiles that a work-item holds; with more, registers spill
MOST_LIMITED = 137  # estimates below this become FEWER_REGISTERS with few spills, outside the loop over k


def registers_of(words: int, spec: MatmulSpec) -> int:
    """32-bit registers per work-item of the staged kernel, for elements of `words` words: fitted to the compiler output
    for sm_90, within 20 %. A work-item reads elements of the next tiles ahead."""
    ahead = -(-(spec.tile_m + spec.tile_n) * spec.tile_k // (spec.lanes_m * spec.lanes_n))
    return int(words * (1.1 * spec.rows * spec.columns + 1.6 * (spec.rows + spec.columns) + ahead)) + 23


def staged_space(
    first: MatmulSpec,
    block: int,
    pad: Callable[[int, int, int], int],
    unroll: Callable[[int, int], int],
    parts_of: Callable[[int, int, int], tuple[int, ...]],
) -> list[MatmulSpec]:
    """Tiles and groups of the staged kernel; `pad(tile, tile_k, width)` is the padding of the bank model,
    `unroll(results, tile_k)` the steps of k per iteration, and `parts_of(tile_m, tile_n, tile_k)` the parts of k that
    give a GPU enough groups.

    Only a few if the default is not staged: on a CPU they serve as a comparison."""
    found = []
    few = first.mapping != "simt"
    for tm, tn, tk, lm, ln in _STAGED:
        if (few and (tk, lm) != (16, 8)) or (tm + tn) * tk > _AHEAD * lm * ln:
            continue
        width = min(block, tm // lm, tn // ln)
        spec = altered(
            first, mapping="simt", method="staged", tile_m=tm, tile_n=tn, tile_k=tk, rows=tm // lm, columns=tn // ln,
            lanes_m=lm, lanes_n=ln, width=width, unroll=unroll(tm * tn // (lm * ln), tk), pad=pad(tm, tk, width),
        )  # fmt: skip
        found += [
            altered(spec, parts=parts, buffers=buffers)
            for parts in ((1,) if few else dict.fromkeys((1, first.parts, *parts_of(tm, tn, tk))))
            for buffers in ((2,) if few else (2, 1))
        ]
    return found


def _distinct(found: list[MatmulSpec], m: int, n: int, k: int) -> list[MatmulSpec]:
    """The specs without duplicates for this product; tiles larger than the product count as equal."""
    kept: dict[Any, MatmulSpec] = {}
    for spec in found:
        tiles = (even(m, spec.tile_m, spec.rows), even(n, spec.tile_n, spec.columns), even(k, spec.tile_k, 32))
        kept.setdefault((tiles, spec.rows, spec.columns, spec.width, spec.unroll, min(spec.parts, max(k, 1))), spec)
    return list(kept.values())
