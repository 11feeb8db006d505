"""The radix sort of CPU devices: kernels, launches and scratch memory.

Rows that fit into a cache are sorted whole, each by one work-item. Longer rows are distributed to buckets in two
rounds, and every bucket is sorted in the cache (see kernels_cl/sort_radix_rounds.mako).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.algorithms.sort.order import Order
from pydp.algorithms.sort.radix_policy import BUCKETS, RANKED, Rounds, rounds, whole_rows
from pydp.algorithms.sort.spec import SortSpec
from pydp.dtypes import c_declarations, c_name, movable, natural_alignment
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel

_PHASES = ("range", "count", "cut", "scatter")
_TASK_BYTES, _SEGMENT_BYTES, _DIGIT_BYTES, _SPAN_BYTES = 32, 16, 40, 40
_ASCENDING, _DESCENDING, _KEEP = 1, 2, 4  # orders of the source that the kernels look for; see sort_radix_rounds.mako
STATE_WORDS, KEPT = 16, 5  # words of the counters of a call, and the word that is 1 if the results were not written
_ROWS_EACH = 4  # work-items for each compute unit that sort whole rows: enough to balance the load


def carried_as(carried: np.dtype | None, positions: bool) -> str | None:
    """How values move with keys: as a "value", or by position ("index": it is the result; "gather": it is not)."""
    if carried is None or positions:
        return "index" if carried is not None else None
    return "value" if carried.itemsize in (1, 2, 4, 8) and natural_alignment(carried) == carried.itemsize else "gather"


def element_bytes(dtype: np.dtype, carried: np.dtype | None, positions: bool) -> int:
    """Bytes of an element: a key and, if there are carried values, a word for the value or its position."""
    how = carried_as(carried, positions)
    if how is None or carried is None:
        return dtype.itemsize
    return 2 * max(dtype.itemsize, carried.itemsize if how == "value" else 4)


@dataclass(frozen=True)
class Radix:
    """The kernels and sizes of a radix sort. rounds: None if rows are sorted whole."""

    kernels: dict[str, Kernel]
    rounds: Rounds | None
    element_bytes: int

    def reads(self, stride: int) -> bool:
        """Whether the kernels read keys with this stride."""
        return stride == 1

    @property
    def reads_first(self) -> bool:
        """Whether the source is read before a result is written."""
        return self.rounds is not None

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
        kept: Operand | None = None,
    ) -> None:
        """Enqueue the sort; the arguments are as for `Merge.run`.

        kept: memory for the counters of a sort of one row; if the row is in order already, the results are not written.
        """
        results = [one for one in (result, moved) if one is not None]
        sources = [source, np.uint64(source.offset), np.int64(steps[1]), np.uint32(order.n)]
        taken = [values, np.uint64(values.offset)] if values is not None else []
        sizes = self.rounds
        if sizes is None:
            units = call.device.profile.compute_units
            # A work-item needs scratch memory of two rows; half as many as rows need no more than the array itself.
            items = min(order.rows, _ROWS_EACH * units, max(order.rows // 2, units))
            share = -(-order.rows // items)
            items = -(-order.rows // share)
            scratch = call.scratch(items * 2 * order.n * self.element_bytes)
            rows = (np.uint64(order.rows), np.uint64(share))
            call.launch(self.kernels["rows"], (items,), (1,), *sources, *taken, *results, *rows, scratch)
            return
        chunks, n = order.rows * sizes.per_row, np.uint32(order.n)
        first, second = (call.scratch(order.rows * order.n * self.element_bytes) for _ in range(2))
        state = call.scratch(4 * STATE_WORDS) if kept is None else kept
        orders = np.uint32(_orders(call, source, result, moved) | (_KEEP if kept is not None else 0))
        spans = call.scratch(_SPAN_BYTES * max(chunks, sizes.chunks))
        counts = call.scratch(4 * max(chunks << sizes.bins, sizes.chunks << sizes.again))
        width, again = order.rows << sizes.bins, sizes.segments << sizes.again
        totals = call.scratch(4 * (width + again))
        table = call.scratch(2 * max(width, again))
        digits = call.scratch(_DIGIT_BYTES * max(order.rows, sizes.segments))
        tasks = call.scratch(_TASK_BYTES * sizes.tasks)
        segments, chunk_segments = call.scratch(_SEGMENT_BYTES * sizes.segments), call.scratch(4 * sizes.chunks)
        most, target, chunk = np.uint32(sizes.tasks), np.uint32(sizes.target), np.uint32(sizes.chunk)
        per_row = np.uint32(sizes.per_row)
        heads = [*sources, *taken, chunk, per_row, state], [first, n, chunk, state, segments, chunk_segments]
        grids = ((chunks,), (order.rows,)), ((sizes.chunks,), (sizes.segments,))
        for place, which in enumerate(("rows", "again") if sizes.again else ("rows",)):
            head, (many, few), to = heads[place], grids[place], (first, second)[place]
            kernels = {phase: self.kernels[f"{phase}_{which}"] for phase in _PHASES}
            call.launch(kernels["range"], many, (1,), *head, spans, *([] if place else [orders]))
            call.launch(kernels["count"], many, (1,), *head, spans, counts)
            shared = (n, chunk, per_row, state, segments, chunk_segments, spans, counts, totals, table, digits, tasks)
            call.launch(kernels["cut"], few, (1,), *shared, most, target, np.uint32(width * place))
            call.launch(kernels["scatter"], many, (1,), *head, counts, table, digits, to)
        scratch = call.scratch(sizes.workers * sizes.limit * self.element_bytes)
        call.launch(
            self.kernels["buckets"], (sizes.workers,), (1,),
            first, second, scratch, state, tasks, most, totals, *sources, *taken, *results,
        )  # fmt: skip

    def describe(self, device: Any, spec: SortSpec, order: Order) -> list[str]:
        """Sentences about the launches."""
        cached = f"sorted by one work-item in its cache, by digits of up to {spec.digit} bits"
        if self.rounds is None:
            return [f"each row is {cached}"]
        one = self.rounds
        return [
            f"{order.rows * one.per_row} chunk(s) of {one.chunk} elements are distributed to buckets by a digit of "
            f"{one.bins} bits" + (f"; buckets of more than {one.limit} are distributed again" if one.again else ""),
            f"each bucket is {cached}",
            "a row that is in ascending or descending order is only copied",
        ]

    def all_kernels(self) -> list[Kernel]:
        """All kernels, in the order of their launches."""
        return list(self.kernels.values())


def _orders(call: Call, source: Operand, result: Operand | None, moved: Operand | None) -> int:
    """The orders of rows that are copied from the source: none if that could overwrite elements not read yet."""
    if any(one is not None and call.overlaps(source, one) for one in (result, moved)):
        return _ASCENDING if moved is None and result is not None and call.same(source, result) else 0
    return _ASCENDING | _DESCENDING


def radix(
    device: Any, spec: SortSpec, dtype: np.dtype, carried: np.dtype | None, order: Order, positions: bool, sorts: bool
) -> Radix:
    """Build the kernels. positions: the carried values are positions in the row. sorts: the sorted keys are stored."""
    how = carried_as(carried, positions)
    size = element_bytes(dtype, carried, positions)
    value = None
    if carried is not None and how != "index":
        value = movable(carried) if how == "gather" else np.dtype(f"u{carried.itemsize}")
    params: dict[str, object] = {
        "declarations": c_declarations([value]) if value is not None else "",
        "key": c_name(np.dtype(f"u{dtype.itemsize}")),
        "kind": "u" if dtype.kind == "b" else dtype.kind,
        "key_bits": 8 * dtype.itemsize,
        "descending": order.descending,
        "rank_window": order.bits,
        "carried": how,
        "word": c_name(np.dtype(f"u{size // 2 if how else size}")),
        "value": c_name(value) if value is not None else None,
        "keys_out": sorts,
        "digit": spec.digit,
        "ranked": RANKED[64 if dtype.itemsize == 8 else 32],
    }
    if whole_rows(device.profile, spec, order.n, order.rows):
        return Radix({"rows": kernel(device, "sort_radix_rows.mako", "sort_rows", params)}, None, size)
    sizes = rounds(device.profile, spec, order.n, order.rows)
    params |= {
        "word_bytes": size // 2 if how else size,
        "bins": sizes.bins,
        "again": sizes.again,
        "buckets": BUCKETS,
        "limit": sizes.limit,
        "nontemporal": spec.nontemporal,
        "prefetch": device.profile.prefetches,
    }
    which = ("rows", "again") if sizes.again else ("rows",)
    names = [*(f"{phase}_{one}" for one in which for phase in _PHASES), "buckets"]
    kernels = {name: kernel(device, "sort_radix_rounds.mako", f"sort_{name}", params) for name in names}
    return Radix(kernels, sizes, size)
