"""Copies between arrays that are contiguous along different axes, in blocks that use full cache lines of both."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pydp.dtypes import c_name
from pydp.local_memory import Banks, Exchange, banks_of, exchange
from pydp.runtime.programs.program import kernel

if TYPE_CHECKING:
    from pydp.runtime.device.profile import Profile
    from pydp.runtime.drivers.devices import Device
    from pydp.runtime.programs.program import Kernel

_LINE = 64  # bytes of a cache line
_SMALLEST = 8  # elements; along shorter axes, blocks would be mostly empty
_CHUNK = 8  # blocks per work-item on drivers with a loop limit; up to 64 elsewhere
_STREAM = ("pocl", "intel")  # drivers whose compilers support nontemporal stores


class Prepared(NamedTuple):
    """A prepared launch; `rest` are the arguments after the buffers and offsets."""

    kernel: Any
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    rest: tuple[Any, ...]


def applies(sizes: list[int], steps: list[list[int]]) -> int | None:
    """The contiguous axis of the source, if it differs from that of the target; None for other copies.

    sizes and steps: results of `elementwise.collapse`, with the steps of the target first.
    """
    target, source = steps
    if len(sizes) < 2 or target[-1] != 1 or sizes[-1] < _SMALLEST or source[-1] == 1:
        return None
    for axis in range(len(sizes) - 1):
        if source[axis] == 1 and sizes[axis] >= _SMALLEST:
            return axis
    return None


@dataclass(frozen=True)
class TransposeTiling:
    """How blocks of `block` x `block` elements are transposed.

    mapping "vector": each work-item transposes `chunk` blocks in sequence. "simt": a work-group of `block` x `rows`
    work-items transposes one block in local memory. streams: use nontemporal stores for large results, if the compiler
    supports them.
    """

    mapping: str
    block: int
    rows: int = 1
    chunk: int = 1
    streams: bool = True

    def build(self, device: Device, params: dict[str, object]) -> Kernel:
        """The kernel with work-group barriers; higher layers provide other barriers."""
        met = {"lowerings": None, "attribute": "", "subgroups": False}
        return kernel(device, "copy_transposed.mako", "copy_transposed", {**params, **met})


def usual(profile: Profile, item_bytes: int, along: int) -> TransposeTiling:
    """The default tiling: block rows are cache lines (or as wide as a subgroup). `along`: size of the source's axis."""
    if profile.mapping == "simt":
        block = 32 if item_bytes <= 4 else 16
        while block > 2 and (block > profile.max_group_size or 2 * block**2 * item_bytes > profile.local_bytes):
            block //= 2
        rows = max(profile.max_group_size // block, 1)
        return TransposeTiling("simt", block, min(block, 1 << rows.bit_length() - 1, 8))
    block = min(_LINE // item_bytes, 32)
    chunk = _CHUNK if profile.loop_limit is not None else min(64, max(1, along // block))
    return TransposeTiling("vector", block, 1, 1 << chunk.bit_length() - 1)


@functools.lru_cache(maxsize=256)
def placed(banks: Banks, block: int, rows: int, item_bytes: int) -> Exchange:
    """The local memory layout in which a work-group reads columns without bank conflicts."""

    def turned(lane: int) -> tuple[int, int]:
        x, y = lane % block, lane // block
        return x % rows * block + y, x // rows

    return exchange(banks, block * rows, block // rows, item_bytes, [turned])


def placement(profile: Profile, how: TransposeTiling, item_bytes: int) -> Exchange:
    """The layout for the banks of a device."""
    return placed(banks_of(profile.banks, profile.bank_bytes), how.block, how.rows, item_bytes)


def prepare(
    device: Device,
    dtype: np.dtype,
    sizes: list[int],
    steps: list[list[int]],
    axis: int,
    how: TransposeTiling | None = None,
) -> Prepared:
    """The launch that copies words of `dtype`; `axis` is the result of `applies`. how: None for the default tiling."""
    profile = device.profile
    how = usual(profile, dtype.itemsize, sizes[axis]) if how is None else how
    block, vector = how.block, how.mapping == "vector"
    # Vector shuffles pay off only if a row of a block is one full cache line.
    lines = vector and block * dtype.itemsize == _LINE and block in (8, 16)
    streams = lines and how.streams and device.driver in _STREAM
    target, source = steps
    others = [k for k in range(len(sizes) - 1) if k != axis]
    params: dict[str, object] = {
        "mapping": how.mapping,
        "type": c_name(dtype),
        "block": block,
        "chunk": how.chunk,
        "lines": lines,
        "streams": streams and prod(sizes) * dtype.itemsize > profile.l2_bytes,
        "rows": how.rows,
        "placed": None if vector else placement(profile, how, dtype.itemsize).params(),
        "others": len(others),
    }
    rest = [np.int64(value) for k in others for value in (sizes[k], target[k], source[k])]
    rest += [np.int64(value) for value in (sizes[axis], target[axis], sizes[-1], source[-1])]
    along_i, along_j = -(-sizes[axis] // block), -(-sizes[-1] // block)
    local_size = (1, 1, 1) if vector else (block, how.rows, 1)
    if vector:
        along_i = -(-along_i // how.chunk)
    groups = along_i * along_j * prod(sizes[k] for k in others)
    global_size = (groups * local_size[0], local_size[1], 1)
    return Prepared(how.build(device, params), global_size, local_size, tuple(rest))
