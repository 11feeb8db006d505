"""Fill arrays with random numbers: the kernel of a draw, its launch, and arrays beyond the largest buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.dtypes import c_name
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs.program import Kernel, kernel

_LANES = 8  # blocks that a work-item of the mapping "vector" computes at once
_PART = 8192  # elements of a work-item of the mapping "vector"
_GROUP = 128  # work-items of a work-group of the mapping "simt"


@dataclass(frozen=True)
class Draw:
    """A distribution of one dtype. wide: an element needs 64 random bits. values: the last arguments of the kernel.
    full: integers of all values that the bits can have."""

    kind: str
    dtype: np.dtype
    wide: bool
    values: tuple[np.generic, ...]
    full: bool = False

    @property
    def per_block(self) -> int:
        """The elements that are made from a block."""
        return 2 if self.wide else 4

    def blocks(self, n: int) -> int:
        """The blocks that n elements take."""
        return -(-n // self.per_block)


@dataclass(frozen=True)
class Place:
    """The start of a draw: the key, the first block, and the stream (the upper half of the counter)."""

    key: tuple[int, int]
    first: int
    stream: int

    def after(self, blocks: int) -> Place:
        """The place that so many blocks follow."""
        return Place(self.key, (self.first + blocks) % (1 << 64), self.stream)


def fill(call: Call, target: Operand, draw: Draw, place: Place) -> None:
    """Enqueue ``target[...] = numbers``, in C order."""
    if not target.size:
        return
    made = target if target.is_contiguous else call.temporary(target.shape, target.dtype)
    ready, global_size, local_size = launch_of(call.device, draw, target.size)
    where = (np.uint64(place.first), np.uint64(place.stream), *map(np.uint32, place.key))
    call.launch(
        ready, global_size, local_size, made, np.int64(made.offset), np.int64(target.size), *where, *draw.values
    )
    if made is not target:
        call.copy(made, target)


def mapping_of(profile: Profile) -> str:
    """The mapping of the kernels on a device. A driver that limits loops vectorizes over work-items itself."""
    return profile.mapping if profile.loop_limit is None else "simt"


def launch_of(device: Any, draw: Draw, n: int) -> tuple[Kernel, tuple[int, ...], tuple[int, ...]]:
    """(kernel, global size, local size) for n elements."""
    profile = device.profile
    beyond_cache = n * draw.dtype.itemsize > profile.l2_bytes * profile.compute_units
    key = ("random", draw.kind, draw.dtype, draw.wide, draw.full, beyond_cache)
    ready, group = device.plans.get(key) or device.plans.make(key, _prepare, device, draw, beyond_cache)
    if group is None:
        return ready, (-(-n // _PART),), (1,)
    items = -(-n // draw.per_block)
    return ready, (-(-items // group) * group,), (group,)


def _prepare(device: Any, draw: Draw, beyond_cache: bool) -> tuple[Kernel, int | None]:
    """The kernel of a draw, and the size of its work-groups (mapping "simt")."""
    profile = device.profile
    vector = mapping_of(profile) == "vector"
    streams = vector and profile.kind == "cpu" and not profile.is_simulator
    params = {
        "kind": draw.kind,
        "out": c_name(draw.dtype),
        "lanes": _LANES if vector else 1,
        "wide": draw.wide,
        "part": _PART if vector else 0,
        "streams": streams and beyond_cache,
        "item": draw.dtype.itemsize,
        "full": draw.full,
        "real": None if draw.kind == "integers" else c_name(draw.dtype),
    }
    ready = kernel(device, "random_fill.mako", "random_fill", params)
    return ready, None if vector else min(_GROUP, profile.max_group_size, ready.max_group_size)


def fill_in_parts(limit: int, out: np.ndarray, draw: Draw, place: Place, where: dict[str, Any]) -> None:
    """Fill a NumPy array that is larger than the device's largest buffer."""
    flat = out.reshape(-1) if out.flags.c_contiguous else np.empty(out.size, out.dtype)
    step = max(1, limit // out.itemsize // draw.per_block) * draw.per_block
    for start in range(0, flat.size, step):
        call = Call.begin({}, out=flat[start : start + step], **where)
        part = call.output(flat[start : start + step].shape, out.dtype)
        fill(call, part, draw, place.after(start // draw.per_block))
        call.finish(part)
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)
