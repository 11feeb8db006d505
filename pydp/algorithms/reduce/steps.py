"""The launches of the passes of a reduction: kernels of reduce_*.mako with their launch sizes and arguments.

Reductions with and without hooks differ in what their kernels compute; `make_step` adds what a pass decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.algorithms.lookback import words_per_slot
from pydp.algorithms.reduce.passes import Pass
from pydp.algorithms.reduce.policy import ReduceSpec
from pydp.groups.barrier_plan import build_kernel, tree
from pydp.runtime.programs.program import Kernel, kernel

MANY_ROWS = 1024
"""Fewer rows are not worth a kernel for their own number of elements."""
_LONG_ROW = 1 << 17  # bytes: what is prefetched behind the end of such a row is little

WITHOUT_HOOKS: dict[str, object] = {"hook": None, "last": False, "target": "", "widths": (), "most": 0, "chain": 0}
"""The parameters of the templates for hooks, in reductions without hooks."""
UNBOUNDED: dict[str, object] = {"bounded": False, "empty": ""}
"""The parameters of the templates for a number of elements that the host knows."""


@dataclass(frozen=True)
class Step:
    """A pass with its kernel, its launch size and all arguments except the buffers, in the kernel's order.

    The arguments of the descriptors of a pass that joins its parts are between `after` and `dims`. unit: the elements
    of the input for each of this pass."""

    action: Pass
    kernel: Kernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    dims: tuple[Any, ...]
    unit: int = 1


def make_step(
    device: Any, action: Pass, spec: ReduceSpec, given: Mapping[str, object], accumulator_bytes: int, unit: int
) -> Step:
    """The step of a pass. given: the parameters of its template, except those of the pass. unit: see Step."""
    outer = action.outer or ((1, 0),)
    params = {**given, "outer_dims": len(outer)}
    dims = tuple(np.int64(value) if i else np.uint64(value) for dim in outer for i, value in enumerate(dim))
    shared = (np.int64(action.step), np.uint64(action.n), np.uint64(action.part), np.uint64(action.rows))
    count, column_step = action.columns or (1, action.step)
    sides = (np.uint64(count), np.int64(column_step))

    def step(ready: Kernel, groups: int, lanes: int, after: tuple[Any, ...]) -> Step:
        return Step(action, ready, (groups * lanes,), (lanes,), shared, after, dims, unit)

    if spec.mapping == "vector":
        groups, each = action.parts * -(-action.rows // action.each), np.uint64(action.each)
        if action.columns:
            block = min(spec.columns, count)
            params["unit"] = column_step == 1
            ready = kernel(device, "reduce_columns_vector.mako", "reduce_columns", params)
            after = (*sides, np.uint64(block), each, np.uint64(action.ragged))
            return step(ready, groups * -(-count // block), 1, after)
        params |= {"several": action.each > 1, "joins": action.joins}
        if action.joins:
            words = words_per_slot(device.profile, accumulator_bytes)
            params |= {"wide_words": device.profile.int64_atomics, "words": words}
            params |= {"order": "ticket", "plain_polls": False}
        return step(kernel(device, "reduce_rows_vector.mako", "reduce_rows", params), groups, 1, (each,))
    params["unit"] = column_step == 1
    work = action.parts * action.rows
    if action.columns:
        ready = kernel(device, "reduce_columns_simt.mako", "reduce_columns", params)
        return step(ready, -(-work * count // spec.lanes), spec.lanes, (*sides, np.uint64(work * count)))
    params |= {"lanes": spec.lanes, "items": spec.items, "waves": spec.waves}
    ready = build_kernel(
        device,
        "reduce_rows_simt.mako",
        "reduce_rows",
        params,
        tree(spec.lanes),
        lanes=spec.lanes,
        choice=spec.barriers,
        subgroup=spec.subgroup,
    )
    return step(ready, work, spec.lanes, ())


def reads_on(action: Pass, source: np.dtype) -> bool:
    """Whether memory that is prefetched behind the end of a row (see prefetch.mako) is read soon, or is little."""
    adjacent = action.rows == 1 or action.outer == ((action.rows, action.n),)
    return adjacent or action.n * source.itemsize >= _LONG_ROW


def rows_ahead(device: Any, action: Pass, unroll: int, vector: int) -> bool:
    """Whether a reduction of columns prefetches the next `unroll` rows: there are such rows, and a vector, of `vector`
    bytes, is at least half a cache line."""
    return bool(device.profile.prefetches and min(action.part, action.n) > 2 * unroll and vector >= 32)


def at_most(width: int, count: int) -> int:
    """The largest power of two up to both, or 0 if it is 1: no vectors."""
    found = min(width, 1 << max(count, 1).bit_length() - 1)
    return found if found > 1 else 0
