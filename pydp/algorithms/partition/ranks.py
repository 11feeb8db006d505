"""Radix select: the elements of each row before, at and after a position of the sorted row.

The digits of the rank at the position are found one by one, from the top; the host reads nothing back. Then one
selection stores the parts of every row in a single pass, because their sizes are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.lookback import WINDOW
from pydp.algorithms.partition.policy import PartitionSpec, digits_of, groups_of
from pydp.algorithms.select.plan import LIMIT_WORDS, Condition, Job, Limits, SelectPlan, select_plan
from pydp.dtypes import c_name
from pydp.groups.barrier_plan import build_kernel
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel

_ITEMS = {"simt": 8, "vector": 16}  # elements that a lane reads at once
_COLUMNS = 16
_STORED = 4  # candidates are stored if they are at most this part of the elements


class RankSelect:
    """The kernels that divide contiguous rows of n elements at a position of their order.

    kept: elements of a row of the result; fewer than n: only the elements before the position and as many of the equal
    ones as fit. elements, indexes: what the result has.
    """

    def __init__(
        self,
        device: Any,
        spec: PartitionSpec,
        dtype: np.dtype,
        shape: tuple[int, int],
        *,
        descending: bool = False,
        kept: int | None = None,
        elements: bool = True,
        indexes: bool = False,
    ) -> None:
        self.rows, self.n = shape
        self.spec = spec
        simt = spec.mapping == "simt"
        self.lanes, items = (spec.lanes if simt else 1), _ITEMS[spec.mapping]
        self.groups = groups_of(device.profile, spec, self.n, self.rows, items)
        self.capacity = max(1, self.n // _STORED)
        bits = 8 * dtype.itemsize
        self.digits = digits_of(bits, spec.digit)
        self.bins = 1 << max(width for *_, width in self.digits)
        self.rank = np.dtype(np.uint64 if bits == 64 else np.uint32)
        kind = "u" if dtype.kind == "b" else dtype.kind
        columns = min(_COLUMNS, self.lanes)
        params = {
            "key": c_name(np.dtype(f"u{dtype.itemsize}")),
            "kind": kind,
            "key_bits": bits,
            "descending": descending,
            "rank_window": None,
            "lanes": self.lanes,
            "columns": columns,
            "items": items,
            "digit": self.bins.bit_length() - 1,
            "unroll": "#pragma unroll" if device.profile.kind == "gpu" else "",
        }

        def built(name: str, first: bool, **needs: int) -> Kernel:
            return build_kernel(
                device, "rank_select.mako", name, {**params, "name": name, "first": first}, needs,
                lanes=self.lanes, choice=spec.barriers if simt else "group", subgroup=spec.subgroup,
            )  # fmt: skip

        self.kernels = {"first digit": built("rank_count", True)}
        if len(self.digits) > 1:
            self.kernels["next digits"] = built("rank_count", False)
        self.kernels["choice of a digit"] = built("rank_choose", False, summed=columns)
        most = self.n if kept is None else kept
        unsigned = np.dtype(f"u{dtype.itemsize}")
        job = Job(
            Condition("rank", unsigned, "", three=True),
            self.n,
            (1, 1, 1),
            element=dtype.itemsize if elements else 0,
            shape=(self.n,) if indexes else (),
            rest=kept is None,
            limits=Limits(self.rows, most, kind, descending),
        )
        self.selection: SelectPlan = select_plan(device, job, _selection_spec(device, spec))

    def run(self, call: Call, k: int, x: Operand, *outputs: Operand) -> None:
        """Enqueue the kernels. k: the position, from 0. x: contiguous rows. outputs: the elements, the indexes in the
        row, or both, at offset 0."""
        limits = call.scratch(8 * LIMIT_WORDS * self.rows)
        bins = call.temporary((self.rows * (self.bins + 1),), np.uint32)
        elementwise.apply(call, "copy", [np.uint32(0)], bins)
        candidates = call.scratch(self.rows * self.capacity * self.rank.itemsize if len(self.digits) > 1 else 16)
        group, grid = (self.lanes,), (self.rows * self.groups * self.lanes,)
        for number, (shift, higher, width) in enumerate(self.digits):
            count = self.kernels["next digits" if number else "first digit"]
            call.launch(
                count, grid, group, x, np.int64(x.offset), np.uint32(self.n), np.int32(self.groups),
                np.int32(shift), np.int32(higher), np.uint32((1 << width) - 1), limits, bins, candidates,
                np.uint32(self.capacity),
            )  # fmt: skip
            call.launch(
                self.kernels["choice of a digit"], (self.rows * self.lanes,), group, bins, limits, np.uint32(k),
                np.int32(shift), np.int32(number == 0), np.uint32(self.capacity),
            )  # fmt: skip
        has = self.selection.job
        inputs = (x, x if has.element else None, None)
        self.selection.run(call, inputs, outputs, limits=limits)

    def describe(self) -> list[str]:
        """Sentences about the launches."""
        return [
            f"{len(self.digits)} digit(s) of up to {self.bins.bit_length() - 1} bits of the element at the position "
            f"are found from the top; {self.groups} work-group(s) of a row count each one; when at most 1 / {_STORED} "
            "of the elements are candidates, later passes read only these",
            "the number of candidates stays on the device",
            *self.selection.describe(),
        ]

    def all_kernels(self) -> dict[str, Kernel]:
        """All kernels by purpose."""
        return {**self.kernels, **self.selection.all_kernels()}


def _selection_spec(device: Any, spec: PartitionSpec) -> dict[str, Any] | None:
    """The fields of the selection's specialization that the caller's specialization changes."""
    found: dict[str, Any] = {}
    if spec.mapping != device.profile.mapping:
        found["mapping"] = spec.mapping
    if spec.part:
        lanes = min(spec.lanes, spec.part)
        items = max(1, spec.part // lanes)
        simt = {"lanes": lanes, "columns": min(_COLUMNS, lanes), "items": items, "window": WINDOW}
        found |= {"mapping": spec.mapping, **(simt if spec.mapping == "simt" else {"part": spec.part})}
    if spec.mapping == "simt" and (spec.barriers != "auto" or spec.subgroup is not None):
        found |= {"barriers": spec.barriers, "subgroup": spec.subgroup}
    if spec.order != "ticket" or spec.suppress:
        found |= {"order": spec.order, "suppress": spec.suppress, "polls": 3}
    return found or None
