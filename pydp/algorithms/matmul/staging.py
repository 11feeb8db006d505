"""How the lanes of the staged method read a tile of A or B from memory and store it to local memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.algorithms.matmul.problem import Arithmetic, Matrix
from pydp.algorithms.matmul.spec import FEWER_REGISTERS, MOST_LIMITED, MatmulSpec, registers_of
from pydp.local_memory import Banks, Layout, Pattern, banks_of, layout, worst

if TYPE_CHECKING:
    from pydp.runtime.device.profile import Profile

_READ_BYTES = 16  # the largest read of one lane


@dataclass(frozen=True)
class Reads:
    """The elements of a tile of `size` x `tile_k` that lanes read: vectors of `width` adjacent elements.

    A tile of A has `size` rows, a tile of B `size` columns. Lane number l reads the vectors l, l + group, ... of the
    order given by `place`. along_k: vectors and adjacent lanes go along k: `run` vectors, then the next one of `rows`
    rows of the tile, then the next vectors. Otherwise they go across k. aligned: the addresses of vectors are multiples
    of their size.
    """

    size: int
    tile_k: int
    group: int
    along_k: bool
    width: int
    run: int
    rows: int
    aligned: bool = False

    def place(self, e: int) -> tuple[int, int]:
        """(row or column, k) in the tile of the first element of vector `e`."""
        if not self.along_k:
            wide = self.size // self.width
            return e % wide * self.width, e // wide
        deep, run, rows = self.tile_k // self.width, self.run, self.rows
        k = e % run + e // (run * rows) % (deep // run) * run
        return e // run % rows + e // (deep * rows) * rows, k * self.width

    def params(self) -> dict[str, Any]:
        """The parameters of matmul_simt.mako.

        count: reads per lane. ragged: the last one is not in the tile for some lanes. next_x, next_y: the distance
        between the reads of a lane, or None if it depends on the lane.
        """
        each = self.tile_k // self.width * self.rows if self.along_k else self.size // self.width
        regular = self.group % each == 0
        step = self.group // (self.tile_k // self.width) if self.along_k else self.group // each
        return {
            "size": self.size, "along_k": self.along_k, "width": self.width, "run": self.run, "rows": self.rows,
            "aligned": self.aligned, "count": -(-self.size * self.tile_k // (self.width * self.group)),
            "ragged": self.size * self.tile_k % (self.width * self.group) != 0,
            "next_x": (step if self.along_k else 0) if regular else None,
            "next_y": (0 if self.along_k else step) if regular else None,
        }  # fmt: skip


def reads_of(
    banks: Banks, spec: MatmulSpec, item_bytes: int, size: int, along_k: bool, width: int, aligned: bool = False
) -> Reads:
    """The reads of a tile. item_bytes: of a staged element.

    Lanes that go along k store vectors to `width` rows of local memory. They turn to the next row of the tile after so
    many steps of k that their blocks of `spec.width` elements cover all banks."""
    group, block = spec.lanes_m * spec.lanes_n, spec.width
    deep = spec.tile_k // width
    if along_k and banks.count > 1:
        stretch, rows = max(1, banks.count * banks.width // (item_bytes * block)), block * width
        if spec.tile_k % stretch == 0 and stretch % width == 0 and size % rows == 0:
            return Reads(size, spec.tile_k, group, True, width, stretch // width, rows, aligned)
    return Reads(size, spec.tile_k, group, along_k, width, deep, 1, aligned)


def reads_along_k(operand: Matrix, transposed: bool) -> bool:
    """Whether lanes read an operand along k: k is contiguous, and, for B (`transposed`), columns are not."""
    return operand.row == 1 and operand.col != 1 if transposed else operand.col == 1


def read_width(
    spec: MatmulSpec, dtype: np.dtype, operand: Matrix, size: int, k: int, tile: int, transposed: bool
) -> int:
    """The largest width of reads such that no vector crosses an edge of the operand and all are equally aligned.

    size: rows of A or columns of B. tile: those of a tile. transposed: the operand is B.
    """
    along_k = reads_along_k(operand, transposed)
    unit, across = (operand.row, operand.col) if along_k == transposed else (operand.col, operand.row)
    if unit != 1:
        return 1
    whole = (k, spec.tile_k) if along_k else (size, tile)
    for width in (4, 2):
        steps = (operand.offset, across, *operand.batch, *whole, spec.width, spec.pad)
        if width * dtype.itemsize <= _READ_BYTES and all(step % width == 0 for step in steps):
            return width
    return 1


@lru_cache(maxsize=256)
def staged_rows(banks: Banks, tile: int, tile_k: int, block: int, item_bytes: int) -> Layout:
    """The local memory layout of a staged tile: (k, m), stored along k or m and read along m."""
    return layout(banks, (tile_k, tile), item_bytes, _stores(banks, tile, tile_k, block, item_bytes), step=block)


def _stores(banks: Banks, tile: int, tile_k: int, block: int, item_bytes: int, group: int = 0) -> list[Pattern]:
    """Access patterns of the stores, for contiguous k and for contiguous m, and for single elements and vectors."""
    spec = MatmulSpec("simt", "staged", tile, tile, tile_k, 1, 1, max(1, group), 1, block)
    found: list[Pattern] = []
    for width in dict.fromkeys((1, block)):
        if tile_k % width == 0:
            found.append(_pattern(reads_of(banks, spec, item_bytes, tile, True, width)))
    # A vector across k is one access to adjacent banks.
    found.append(_pattern(reads_of(banks, spec, item_bytes, tile, False, 1)))
    return found


def _pattern(reads: Reads) -> Pattern:
    def stored(lane: int) -> tuple[int, int]:
        x, y = reads.place(lane)
        return y % reads.tile_k, x

    return stored


def bank_note(profile: Profile, how: Arithmetic, spec: MatmulSpec) -> str:
    """One sentence on the bank conflicts of staged rows."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    if banks.count == 1:
        return f"staged rows are padded by {spec.pad} elements; the device has no banks"
    item_bytes, tile = lane_bytes(how), max(spec.tile_m, spec.tile_n)
    patterns = _stores(banks, tile, spec.tile_k, spec.width, item_bytes)
    lanes = min(banks.lanes, spec.lanes_m * spec.lanes_n)
    degrees = [
        worst(banks, Layout((spec.tile_k, tile), pad, 1, ""), item_bytes, patterns, lanes) for pad in (0, spec.pad)
    ]
    return f"staged rows are padded by {spec.pad} elements: conflict degree {degrees[1]}, {degrees[0]} without padding"


def register_limit(profile: Profile, how: Arithmetic, spec: MatmulSpec) -> tuple[str, ...]:
    """A compiler option for NVIDIA GPUs: at most `FEWER_REGISTERS` per work-item if a kernel needs about as many.

    With one register more, half of the groups of 256 work-items would be resident."""
    needed = registers_of(max(1, lane_bytes(how) // 4) * how.planes, spec)
    if "cl_nv_compiler_options" in profile.extensions and 0.8 * FEWER_REGISTERS < needed < MOST_LIMITED:
        return (f"-cl-nv-maxrregcount={FEWER_REGISTERS}",)
    return ()


def lane_bytes(how: Arithmetic) -> int:
    """Bytes of a staged element; real and imaginary parts are staged separately."""
    return how.item_bytes // how.planes
