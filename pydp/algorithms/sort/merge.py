"""The merge sort: kernels, launches and scratch memory.

First, a work-item, or a work-group in local memory, sorts each tile. Then passes merge adjacent runs. Each work-item
writes one stretch of the result, and finds its start by binary search (merge path: Green, McColl, Bader 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pydp.algorithms.sort.order import Order
from pydp.algorithms.sort.policy import needs, passes, skewed
from pydp.algorithms.sort.spec import SortSpec
from pydp.dtypes import c_declarations, c_name, is_record
from pydp.groups.barrier_plan import build_kernel, describe_barriers
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel


@dataclass(frozen=True)
class Merge:
    """The kernels of a merge sort. merge: None if a tile is a whole row."""

    tile: Kernel
    merge: Kernel | None
    dtype: np.dtype
    carried: np.dtype | None
    reads_first: ClassVar[bool] = False  # results are written while the source is read

    def reads(self, stride: int) -> bool:
        """Whether the kernels read keys with this stride."""
        return True

    def run(
        self,
        call: Call,
        spec: SortSpec,
        order: Order,
        source: Operand,
        steps: tuple[int, int],
        values: Operand | None,
        result: Operand | None,
        moved: Operand | None,
    ) -> None:
        """Enqueue the sort. steps: the source's strides between elements and rows. values: contiguous rows. result,
        moved: contiguous rows of sorted keys and of carried values."""
        widths = passes(order.n, spec.run)
        keys = _places(call, self.dtype, len(widths), result, order)
        carried = _places(call, self.carried, len(widths), moved, order) if self.carried else []
        per_row = -(-order.n // spec.run)
        lanes = spec.lanes
        call.launch(
            self.tile,
            (per_row * order.rows * lanes,),
            (lanes,),
            source,
            np.uint64(source.offset),
            np.int64(steps[0]),
            np.int64(steps[1]),
            keys[0],
            np.uint64(order.n),
            np.uint64(per_row),
            *([values, np.uint64(values.offset)] if values is not None else []),
            *carried[:1],
        )
        for place, width in enumerate(widths):
            assert self.merge is not None
            stretch = min(spec.stretch, 2 * width)
            per_row = -(-order.n // stretch)
            work = per_row * order.rows
            call.launch(
                self.merge,
                (-(-work // lanes) * lanes,),
                (lanes,),
                keys[place],
                keys[place + 1],
                np.uint64(order.n),
                np.uint64(width),
                np.uint64(stretch),
                np.uint64(per_row),
                np.uint64(work),
                *carried[place : place + 2],
            )

    def describe(self, device: Any, spec: SortSpec, order: Order) -> list[str]:
        """Sentences about the launches."""
        merges = len(passes(order.n, spec.run))
        lines = [f"runs of {spec.run} are sorted first, then {merges} pass(es) merge them"]
        if spec.mapping == "simt":
            lines.append(f"keys in local memory: {skewed(device.profile, spec, self.dtype.itemsize).reason}")
        return lines + describe_barriers(self.tile)

    def all_kernels(self) -> list[Kernel]:
        """All kernels, in the order of their launches."""
        return [self.tile, *([self.merge] if self.merge else [])]


def merging(
    device: Any,
    spec: SortSpec,
    dtype: np.dtype,
    carried: np.dtype | None,
    order: Order,
    ordering: dict[str, object],
    used: set[np.dtype],
    positions: bool,
) -> Merge:
    """Build the kernels. carried: the dtype that carried values move as. ordering, used: see `order.ordering`.
    positions: the carried values are positions in the row."""
    params: dict[str, object] = {
        "declarations": c_declarations([*sorted(used, key=str), *([carried] if carried else [])]),
        "key": c_name(dtype),
        "ordering": ordering,
        "carried": c_name(carried) if carried else None,
        "chains": spec.chains,
        "scalar": not is_record(dtype),
    }
    tile: dict[str, object] = {**params, "positions": positions}
    if spec.mapping == "vector":
        tile |= {"run": spec.run, "small": spec.small}
        first = kernel(device, "sort_tile_vector.mako", "sort_tile", tile)
    else:
        lanes, items = spec.lanes, spec.items
        tile |= {"lanes": lanes, "items": items, "key_skew": skewed(device.profile, spec, dtype.itemsize).every}
        tile["carried_skew"] = skewed(device.profile, spec, carried.itemsize).every if carried else 0
        first = build_kernel(
            device,
            "sort_tile_simt.mako",
            "sort_tile",
            tile,
            needs(lanes, items),
            lanes=lanes,
            choice=spec.barriers,
            subgroup=spec.subgroup,
        )
    merge = kernel(device, "sort_merge.mako", "sort_merge", params) if order.n > spec.run else None
    return Merge(first, merge, dtype, carried)


def _places(call: Call, dtype: np.dtype, merges: int, result: Operand | None, order: Order) -> list[Operand]:
    """The buffer that each pass writes; the last one is the result's."""
    shape = (order.rows * order.n,)
    last = call.temporary(shape, dtype) if result is None else result
    other = call.temporary(shape, dtype) if merges else last
    return [last if (merges - place) % 2 == 0 else other for place in range(merges + 1)]
