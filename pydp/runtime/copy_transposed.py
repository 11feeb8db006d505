"""Copies between data whose contiguous axes differ, in blocks that use whole cache lines of both."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..dtypes import c_name
from .program import kernel

if TYPE_CHECKING:
    from .device import Device

_LINE = 64  # bytes of a cache line
_SMALLEST = 8  # elements of an axis below which blocks would be mostly empty
_CHUNK = 8  # blocks of one work-item on drivers with a limit of loops; up to 64 elsewhere
_STREAM = ("pocl", "intel")  # drivers whose compilers have stores that go round the caches


class Prepared(NamedTuple):
    """A prepared launch; `rest` follows the two buffers and offsets among the arguments."""

    kernel: Any
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    rest: tuple[Any, ...]


def applies(sizes: list[int], steps: list[list[int]]) -> int | None:
    """The axis along which the source is contiguous, where that is not the target's; None for other copies.

    sizes and steps are those of `elementwise.collapse`, the target's steps first.
    """
    target, source = steps
    if len(sizes) < 2 or target[-1] != 1 or sizes[-1] < _SMALLEST or source[-1] == 1:
        return None
    for axis in range(len(sizes) - 1):
        if source[axis] == 1 and sizes[axis] >= _SMALLEST:
            return axis
    return None


def prepare(device: Device, dtype: np.dtype, sizes: list[int], steps: list[list[int]], axis: int) -> Prepared:
    """The launch that copies words of `dtype`; `axis` is that of `applies`."""
    mapping = device.profile.mapping
    block = min(_LINE // dtype.itemsize, 32) if mapping == "vector" else (32 if dtype.itemsize <= 4 else 16)
    rows = min(block, max(device.profile.max_group_size // block, 1), 8)
    # Vectors are worth their shuffles where a block's line is one whole cache line.
    lines = mapping == "vector" and block * dtype.itemsize == _LINE and block in (8, 16)
    chunk = _CHUNK if device.profile.loop_limit is not None else min(64, max(1, sizes[axis] // block))
    chunk = 1 << chunk.bit_length() - 1
    target, source = steps
    others = [k for k in range(len(sizes) - 1) if k != axis]
    params = {
        "mapping": mapping,
        "type": c_name(dtype),
        "block": block,
        "chunk": chunk,
        "lines": lines,
        "streams": lines and device.driver in _STREAM and prod(sizes) * dtype.itemsize > device.profile.l2_bytes,
        "rows": rows,
        "others": len(others),
    }
    rest = [np.int64(value) for k in others for value in (sizes[k], target[k], source[k])]
    rest += [np.int64(value) for value in (sizes[axis], target[axis], sizes[-1], source[-1])]
    along_i, along_j = -(-sizes[axis] // block), -(-sizes[-1] // block)
    local_size = (1, 1, 1) if mapping == "vector" else (block, rows, 1)
    if mapping == "vector":
        along_i = -(-along_i // chunk)
    global_size = (along_i * local_size[0], along_j * local_size[1], prod(sizes[k] for k in others))
    made = kernel(device, "copy_transposed.mako", "copy_transposed", params)
    return Prepared(made, global_size, local_size, tuple(rest))
