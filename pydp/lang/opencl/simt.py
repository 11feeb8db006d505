"""The lowering "simt": a lane is a work-item. The mapping for GPUs.

Groups of any rank are mapped to up to three dimensions. The last axis is dimension 0, so adjacent elements in memory
belong to adjacent lanes of a subgroup. Every access to an argument is guarded by its extents. If the function has
barriers or local arrays, lanes outside the grid are masked and do not return early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.barriers.lowering import BarrierPlan, plan_barriers
from pydp.lang.opencl import helpers
from pydp.lang.opencl.bank_layout import field_bytes, local_layouts
from pydp.lang.opencl.c_text import Block, identifier
from pydp.lang.opencl.lane import LaneC
from pydp.lang.opencl.lowered import Lowered, Slot, argument_names, by_dimension, declaration, dtypes_of, standard_slots
from pydp.lang.opencl.lowering import Lowering, register
from pydp.local_memory import Layout
from pydp.runtime.device.profile import Profile

_ATOMIC_TYPES = ("int", "uint", "long", "ulong", "float", "double")


class Simt(Lowering):
    """A lane is a work-item: the mapping for GPUs, and for drivers that limit loop iterations."""

    name = "simt"
    takes_barriers = True
    allows_aliasing = True

    def default_reason(self, profile: Profile) -> str | None:
        if profile.loop_limit is not None:
            return "this driver limits loop iterations, and a lane runs fewer than a group"
        return super().default_reason(profile)

    def pick_group(self, rank: int, extent: Sequence[int], profile: Profile) -> tuple[int, ...]:
        """A group of up to 256 lanes, no longer than the grid (in powers of two): up to 32 along the last axis, then
        along the axes before it, then the rest along the last axis again."""
        left = 1 << min(256, profile.max_group_size).bit_length() - 1
        reach = [1 << max(0, int(size) - 1).bit_length() for size in extent] if len(extent) == rank else [left] * rank
        group = [1] * rank
        for axis, most in [(rank - 1, 32), *((axis, left) for axis in reversed(range(rank - 1))), (rank - 1, left)]:
            if axis >= 0:
                grow = max(1, min(reach[axis] // group[axis], most // group[axis], left))
                group[axis] *= grow
                left //= grow
        return tuple(group)

    def lower(
        self,
        function: ir.Function,
        profile: Profile,
        unit_strides: frozenset[tuple[str, int]] = frozenset(),
        *,
        flat: bool = False,
        barriers: str = "auto",
        subgroup: int | None = None,
        shared: bool = False,
        loop_guarded: bool = False,
    ) -> Lowered:
        group = function.group if function.group is not None else self.pick_group(function.grid_rank, (), profile)
        flat = flat or math.prod(group[:-2]) > 64
        # In a group with one work-item along dimension 0, PoCL's first work-item may run code twice (see quirks.TABLE).
        flat = flat or (group[-1:] == (1,) and math.prod(group) > 1)
        rows = [math.prod(group if flat else group[-1:])]
        if profile.kind != "cpu" or barriers != "auto" or subgroup is not None:
            rows.append(math.prod(group))  # on CPUs, vectors along dimension 0 gain more than cheaper barriers
        plan = plan_barriers(function, profile, rows, choice=barriers, subgroup=subgroup)
        runs = not flat and plan.row != rows[0]
        flat = flat or runs
        layouts = local_layouts(function, profile)
        writer = _SimtC(function, group, flat, unit_strides, plan, layouts, shared)
        if loop_guarded:
            writer.guard_loops()
        writer.write()
        local_bytes = sum(field_bytes(array, layouts) for array in function.locals)
        _check_limits(function, group, local_bytes, writer, profile)
        return Lowered(
            kernel_name=identifier("forall_", function.name),
            template="forall_simt.mako",
            params=writer.params(),
            group=group,
            work_items=group,
            arguments=writer.slots,
            local_bytes=local_bytes,
            notes=[*_notes(flat, runs, writer.loop_guarded, plan), *(one.reason for one in layouts.values())],
            barriers=plan.reasons,
            flat=flat,
            uses_ptx=plan.uses_ptx,
            assumes_no_alias=plan.assumes_no_alias,
        )


def _check_limits(
    function: ir.Function, group: tuple[int, ...], local_bytes: int, writer: _SimtC, profile: Profile
) -> None:
    lanes = math.prod(group)
    if lanes > profile.max_group_size:
        raise InvalidArgument(
            f"group={group} has {lanes} lanes; this device's groups have at most {profile.max_group_size}"
        )
    if local_bytes > profile.local_bytes:
        raise UnsupportedOnDevice(
            f"the local fields of {function.name} need {local_bytes} bytes in each group; "
            f"this device has {profile.local_bytes}"
        )
    helpers.check_atomics(function, writer.atomics, profile)


def _notes(flat: bool, runs: bool, loop_guarded: bool, plan: BarrierPlan) -> list[str]:
    notes = ["one work-item per lane", *([plan.summary] if plan.summary else [])]
    if plan.assumes_no_alias:
        notes.append(
            "barriers assume arguments that share no memory; a call with other arguments uses whole-group barriers"
        )
    if loop_guarded:
        notes.append(
            "loops may exceed the driver's iteration limit: the call waits and checks whether one was ended early"
        )
    if flat:
        why = ", so subgroups are runs of lanes, and fewer barriers need the whole group" if runs else ""
        notes.append(f"groups are numbered along dimension 0 only{why}")
    return notes


class _SimtC(LaneC):
    """Writes the body of a kernel whose work-items are lanes."""

    private = "PRIVATE_FIELD "  # a macro of the template

    def __init__(
        self,
        function: ir.Function,
        group: tuple[int, ...],
        flat: bool,
        unit_strides: frozenset[tuple[str, int]],
        plan: BarrierPlan,
        layouts: Mapping[str, Layout],
        shared: bool,
    ) -> None:
        masked = bool(group) and bool(ir.barriers(function.body) or function.locals)
        super().__init__(Block(1), function, argument_names(function), unit_strides, masked)
        self.group, self.flat, self.plan, self.layouts, self.shared = group, flat, plan, layouts, shared
        self.slots = standard_slots(function, self.names, unit_strides)
        self.atomics: set[helpers.Atomic] = set()
        self._next_barrier = 0

    def guard_loops(self) -> None:
        """Record in the kernel's last argument whether a loop was ended early."""
        self.loop_guarded = True
        self.slots.append(Slot("overran", "overran_any", dtype=np.dtype(np.int32)))

    def write(self) -> None:
        """Write the body into the block."""
        if self.loop_guarded:
            self.block.line("int overran = 0;")
            self.block.line("volatile __global int* ended = overran_any + 1 + LANE_NUMBER;")
        self._write()
        if self.loop_guarded:
            # One more loop, for the unguarded ones (in powers, remainders and updates): all share one iteration count.
            self.block.line("*ended = 2;")
            self.block.line("while (*ended > 0) *ended -= 1;")
            self.block.line("if (overran || *ended) atomic_or(overran_any, 1);")

    def _write(self) -> None:
        for array in self.function.arrays:
            name = self.names[array.name, None]
            self.block.line(f"{name} += {name}_o;")
        self._indexes()
        for one in self.plan.lowered:
            if one["by"] == "iteration":
                self.block.line(f"int iteration_{one['number']} = 0;")
        self.declare(self.function.variables, self.function.privates)
        if self.masked or not self.group:
            self.statements(self.function.body)
        else:
            self.block.open("if (in_grid)")
            self.statements(self.function.body)
            self.block.close()

    def params(self) -> dict[str, object]:
        """The template's parameters."""
        shape = by_dimension((math.prod(self.group),) if self.flat else self.group)
        return {
            "name": identifier("forall_", self.function.name),
            "declarations": dtypes.c_declarations(sorted(set(dtypes_of(self.function)), key=str)),
            "shared_types": sorted({dtypes.c_name(a.dtype) for a in self.function.arrays}) if self.shared else [],
            "functions": helpers.text(self.helpers, self.atomics),
            "barriers": self.plan.lowered,
            **self.plan.build,
            "arguments": [declaration(slot, self.function, self.shared) for slot in self.slots],
            "private_fields": bool(self.function.privates),
            "local_arrays": [self._local(array) for array in self.function.locals],
            "shape": list(shape),
            "body": str(self.block),
            "int64_atomics": helpers.has_wide(self.atomics),
        }

    def extents(self, array: ir.LocalArray | ir.PrivateArray) -> tuple[int, ...]:
        found = self.layouts.get(array.name) if isinstance(array, ir.LocalArray) else None
        return array.shape if found is None else (*array.shape[:-1], found.row)

    def _local(self, array: ir.LocalArray) -> str:
        size = math.prod(self.extents(array))
        return f"__local {dtypes.c_name(array.dtype)} {self.array_name(array)}[{size}]"

    # -- indexes of the lane -------------------------------------------------------------------------------

    def _indexes(self) -> None:
        """Declare group_k, local_k and global_k of every axis, and in_grid."""
        rank, line = self.function.grid_rank, self.block.line
        for kind in ("group", "local"):
            for dimension, axes in self._dimensions():
                self._split(kind, f"({self.index})get_{kind}_id({dimension})", axes)
        for axis in range(rank):
            line(f"const {self.index} global_{axis} = grid_o{axis} + group_{axis} * {self.group[axis]} + local_{axis};")
        inside = " && ".join(f"global_{axis} - grid_o{axis} < grid_e{axis}" for axis in range(rank))
        if rank:
            line(f"const int in_grid = {inside};")

    def _dimensions(self) -> list[tuple[int, list[int]]]:
        """(dimension, the axes mapped to it, last axis first)."""
        axes = list(range(self.function.grid_rank - 1, -1, -1))
        parts = [axes] if self.flat else [axes[:1], axes[1:2], axes[2:]]
        return [(dimension, part) for dimension, part in enumerate(parts) if part]

    def _split(self, kind: str, text: str, axes: list[int]) -> None:
        """Declare the index along each of `axes`, which are mapped to one dimension in row-major order."""
        rest = text
        for place, axis in enumerate(axes):
            if kind == "group":
                size = f"((grid_e{axis} + {self.group[axis] - 1}) / {self.group[axis]})"
            else:
                size = str(self.group[axis])
            if place == len(axes) - 1:
                self.block.line(f"const {self.index} {kind}_{axis} = {rest};")
                return
            whole = self.block.temporary(self.index, rest)
            self.block.line(f"const {self.index} {kind}_{axis} = {whole} % {size};")
            rest = f"{whole} / {size}"

    def on_atomic(self, statement: ir.Atomic) -> None:
        array, dtype = statement.array, statement.array.dtype
        inside, element = self.place(array, statement.indices)
        value = self.expr(statement.value)
        if isinstance(array, ir.PrivateArray):
            self.block.line(f"{element} = {self.updated(statement.op, element, value, dtype)};")
            return
        c_type = dtypes.c_name(dtype)
        bitwise = statement.op in ("and", "or", "xor")
        if dtype == np.bool_ or c_type not in _ATOMIC_TYPES or (bitwise and dtype.kind == "f"):
            raise helpers.unsupported_atomic(statement, dtype)
        space = "local" if isinstance(array, ir.LocalArray) else "global"
        self.atomics.add(helpers.atomic(statement.op, space, c_type))
        condition = self.store_condition(inside)
        guard = f"if ({condition}) " if condition else ""
        call = f"lane_atomic_{statement.op}_{space}_{c_type}(&{element}, {value})"
        if statement.old is not None:
            _, slot = self.place(statement.old, (ir.Const(self.function.index_dtype, 0),))
            call = f"{slot} = {call}"
        self.block.line(f"{guard}{call};")

    def combine(self, op: str, left: str, right: str, dtype: np.dtype[Any]) -> str:
        text = super().combine(op, left, right, dtype)
        divides = op in ("floordiv", "mod") and dtype.kind in "iu"
        return self.helper("quotient", dtypes.c_name(dtype), text) if divides else text

    def on_barrier(self, statement: ir.Barrier) -> None:
        number = self._next_barrier
        self._next_barrier += 1
        one = self.plan.lowered[number]
        if one["by"] == "iteration":
            self.block.line(f"LANE_BARRIER_{number}(iteration_{number})")
            self.block.line(f"iteration_{number} = (iteration_{number} + 1) % {one['period']};")
        elif one["by"] == "width":
            assert statement.width is not None
            width = self.block.temporary(dtypes.c_name(statement.width.dtype), self.expr(statement.width))
            self.block.line(f"LANE_BARRIER_{number}({width})")
        else:
            self.block.line(f"LANE_BARRIER_{number}(0)")


LOWERING = register(Simt())
