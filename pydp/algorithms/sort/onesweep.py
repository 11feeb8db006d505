"""The radix sort of GPUs: kernels, launches and scratch memory.

The digits of all passes are counted up front. Then each pass moves all elements by one digit, lowest digit first, and
reads and writes them once: the places of a tile's digits come from decoupled look-back (Onesweep), or from a pass that
counts and a scan where the driver does not promise progress between work-groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.algorithms.lookback import descriptors, slot_parameters
from pydp.algorithms.sort.onesweep_policy import ADDED_AT_ONCE, COLUMNS, IN_FLIGHT, Sweep, run_of, sweep
from pydp.algorithms.sort.order import Order
from pydp.algorithms.sort.radix import carried_as
from pydp.algorithms.sort.spec import SortSpec
from pydp.dtypes import c_declarations, c_name, movable
from pydp.groups.barrier_plan import build_kernel, describe_barriers
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel


@dataclass(frozen=True)
class Onesweep:
    """The kernels and sizes of a radix sort on a GPU. held_bytes: of a carried value between passes, or 0."""

    kernels: dict[str, Kernel]
    sizes: Sweep
    key_bytes: int
    held_bytes: int
    carried: str | None

    def reads(self, stride: int) -> bool:
        """Whether the kernels read keys with this stride."""
        return stride == 1

    @property
    def reads_first(self) -> bool:
        """Whether the source is read before a result is written."""
        return self.sizes.passes > 1

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
        """Enqueue the sort; the arguments are as for `Merge.run`."""
        sizes, rows, lanes, n = self.sizes, order.rows, spec.lanes, np.uint32(order.n)
        group, passes, bins = (lanes,), sizes.passes, 1 << sizes.width
        written = [one for one in (result, moved) if one is not None]
        over = any(call.overlaps(source, one) for one in written)  # two passes at least: results are written last
        least = np.int32(2 if over else 1)
        x = [source, np.uint64(source.offset), np.int64(steps[1]), n]
        counts = call.scratch(4 * rows * sizes.parts * passes * bins)
        bases, varies = call.scratch(4 * rows * passes * bins), call.scratch(4 * rows * passes)
        parts = np.uint32(sizes.parts)
        call.launch(
            self.kernels["counts"], (rows * sizes.parts * lanes,), group, *x, np.uint32(sizes.part), parts, counts
        )
        call.launch(self.kernels["places"], (rows * passes * lanes,), group, counts, n, parts, bases, varies)
        keys = self._between(call, rows * order.n * self.key_bytes, None if over else result)
        held = []
        if self.carried:
            own = moved if self.carried == "value" and not over else None
            held = self._between(call, rows * order.n * self.held_bytes, own)
        arguments = [*x, *keys, *([result] if result is not None else [])]
        arguments += [values, np.uint64(values.offset)] if values is not None else []
        arguments += [*held, moved] if self.carried else []
        walks = rows * sizes.walks
        offsets = call.scratch(4 * walks * bins) if "offsets" in self.kernels else None
        for number in range(passes):
            step = [np.int32(number), least]
            if offsets is None:
                tiles = rows * sizes.per_row
                state, tag = descriptors(call, tiles * bins, 4)
                ends = [np.uint32(sizes.per_row), bases, state, tag, np.int32(tiles)]
                call.launch(self.kernels["pass"], (tiles * lanes,), group, *arguments, varies, *step, *ends)
                continue
            part, each = np.uint32(sizes.walk * sizes.tile), np.uint32(sizes.walks)
            grid, digits = (walks * lanes,), rows * bins
            call.launch(self.kernels["pass counts"], grid, group, *x, part, each, offsets, *keys, varies, *step)
            call.launch(
                self.kernels["offsets"], (-(-digits // lanes) * lanes,), group,
                bases, varies, *step, each, np.uint64(digits), offsets,
            )  # fmt: skip
            ends = [each, offsets, np.uint32(sizes.walk)]
            call.launch(self.kernels["pass"], grid, group, *arguments, varies, *step, *ends)

    def _between(self, call: Call, nbytes: int, result: Operand | None) -> list[Any]:
        """The two arrays between passes; the second one may be the result."""
        passes = self.sizes.passes
        first = call.scratch(nbytes if passes > 1 else 16)
        return [first, result if result is not None else call.scratch(nbytes if passes > 2 else 16)]

    def describe(self, device: Any, spec: SortSpec, order: Order) -> list[str]:
        """Sentences about the launches."""
        one = self.sizes
        how = (
            "the places of a tile's digits come from decoupled look-back"
            if spec.strategy == "onesweep"
            else f"{order.rows * one.walks} work-group(s) count their digits and walk over {one.walk} tile(s) each"
        )
        return [
            f"{one.passes} pass(es) by digits of {one.width} bits; a pass whose digit all keys share moves nothing",
            f"{order.rows * one.per_row} tile(s) of {one.tile} elements are sorted by a digit in local memory; {how}",
            *describe_barriers(self.kernels["pass"]),
        ]

    def all_kernels(self) -> list[Kernel]:
        """All kernels, in the order of their launches."""
        return list(self.kernels.values())


def onesweep(
    device: Any,
    spec: SortSpec,
    dtype: np.dtype,
    carried: np.dtype | None,
    order: Order,
    positions: bool,
    sorts: bool,
) -> Onesweep:
    """Build the kernels. positions: the carried values are positions in the row. sorts: the sorted keys are stored."""
    profile, how = device.profile, carried_as(carried, positions)
    first, last = order.bits or (0, 8 * dtype.itemsize)
    if first == last:
        first = last = 0  # an empty window: all digits are 0
    sizes = sweep(profile, spec, order.n, order.rows, max(last - first, 1))
    value = held = None
    if carried is not None and how is not None:
        value = None if how == "index" else movable(carried) if how == "gather" else np.dtype(f"u{carried.itemsize}")
        held = np.dtype(f"u{carried.itemsize}") if how == "value" else np.dtype(np.uint32)
    digits: dict[str, object] = {
        "key": c_name(np.dtype(f"u{dtype.itemsize}")),
        "kind": "u" if dtype.kind == "b" else dtype.kind,
        "key_bits": 8 * dtype.itemsize,
        "descending": order.descending,
        "rank_window": None,  # the passes sort by the window's bits of whole ranks
        "first_bit": first,
        "last_bit": last,
        "width": sizes.width,
        "passes": sizes.passes,
        "lanes": spec.lanes,
    }
    unroll = "#pragma unroll" if profile.kind == "gpu" else ""
    some = f"{unroll} {IN_FLIGHT}" if unroll else ""
    counting = {**digits, "in_flight": IN_FLIGHT, "unroll": unroll}
    scan = {**digits, "columns": COLUMNS, "unroll": f"{unroll} {ADDED_AT_ONCE}" if unroll else ""}
    moves = {
        **scan,
        "declarations": c_declarations([value]) if value is not None else "",
        "items": spec.items,
        "unroll": unroll,
        "unroll_some": some,
        "run": run_of(spec),
        "predecessors": spec.predecessors,
        "lookback": spec.strategy == "onesweep",
        "carried": how,
        "value": c_name(value) if value is not None else None,
        "held": c_name(held) if held is not None else None,
        "keys_out": sorts,
        **slot_parameters(profile, spec, 4),
    }

    def built(stem: str, name: str, params: dict[str, object], **needs: int) -> Kernel:
        template = f"sort_onesweep_{stem}.mako"
        return build_kernel(
            device, template, name, params, needs, lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup
        )

    kernels = {
        "counts": built("counts", "sort_count", {**counting, "whole": True}),
        "places": built("places", "sort_places", scan, summed=COLUMNS),
    }
    if spec.strategy == "reduce_then_scan":
        kernels["pass counts"] = built("counts", "sort_count", {**counting, "whole": False})
        kernels["offsets"] = built("places", "sort_offsets", scan, summed=COLUMNS)
    kernels["pass"] = built("pass", "sort_pass", moves, matched=run_of(spec), summed=COLUMNS)
    return Onesweep(kernels, sizes, dtype.itemsize, held.itemsize if held is not None else 0, how)
