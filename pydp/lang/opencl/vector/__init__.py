"""The lowering "vector": one work-item runs a whole group, without OpenCL barriers. The mapping for CPUs.

The body is split at its barriers; each interval runs for all lanes of the group before the next one starts. Lanes are
vectors along the last local axis. Rows of lanes are unrolled, so data that they share is loaded once. Local arrays are
private memory of the work-item (they stay in the L1 cache).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pydp import dtypes
from pydp.errors import UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.barriers import widths
from pydp.lang.ir import member_dtype
from pydp.lang.opencl import helpers
from pydp.lang.opencl.c_text import Block, identifier
from pydp.lang.opencl.lowered import Lowered, declaration, dtypes_of, standard_slots
from pydp.lang.opencl.lowering import Lowering, register
from pydp.lang.opencl.scalar import scalar_paths
from pydp.lang.opencl.unroll import unroll
from pydp.lang.opencl.vector.flow import Flow, loop
from pydp.lang.opencl.vector.interval import IntervalWriter, private_names, private_uses
from pydp.lang.opencl.vector.layout import StripLayout, pick_width
from pydp.lang.opencl.vector.shape import pick_layout_rows, widest
from pydp.lang.opencl.vector.values import KernelContext, StripValue
from pydp.runtime.device.profile import Profile

_MOST_PRIVATE_BYTES = 2 << 20
_STRIPE_LANES = 64  # columns of lanes of a stripe, which groups run from top to bottom: its data fits the L2 cache


class Vector(Lowering):
    """A work-item runs a whole group, lane vectors one after the other: the mapping for CPUs."""

    name = "vector"

    def default_reason(self, profile: Profile) -> str | None:
        return super().default_reason(profile) if profile.loop_limit is None else None

    def pick_group(self, rank: int, extent: Sequence[int], profile: Profile) -> tuple[int, ...]:
        """Up to 8 rows of up to 256 lanes (one row of 2048 for rank 1), no longer than the grid (in powers of two), and
        small enough for every core to have several groups."""
        if rank == 0:
            return ()
        known = len(extent) == rank
        reach = [1 << max(0, int(size) - 1).bit_length() for size in extent] if known else [1 << 20] * rank
        lanes = 2048
        if known:
            share = math.prod(int(size) for size in extent) // max(1, 8 * profile.compute_units)
            lanes = max(256, min(lanes, 1 << max(0, share).bit_length()))
        columns = max(4, min(reach[-1], lanes if rank == 1 else 256))
        group = [1] * rank
        group[-1] = columns
        if rank > 1:
            group[-2] = max(1, min(reach[-2], 8, lanes // columns))
        return tuple(group)

    def remarks(self, function: ir.Function) -> list[str]:
        needed = widths.infer(function, max_intervals=40)
        known = {number: width for number, width in needed.items() if width.inferred}
        return [f"barrier {number} needs width {width} for the accesses around it" for number, width in known.items()]

    def lower(
        self,
        function: ir.Function,
        profile: Profile,
        unit_strides: frozenset[tuple[str, int]] = frozenset(),
        *,
        flat: bool = False,
        **ignored: object,
    ) -> Lowered:
        group = function.group if function.group is not None else self.pick_group(function.grid_rank, (), profile)
        flat = flat or math.prod(group[:-2]) > 64
        clipped = not (ir.barriers(function.body) or function.locals)
        width = pick_width(group[-1] if group else 1, widest(function, profile))
        function = ir.passed(replace(function, body=unroll(function.body)))
        nodes = regions.split(function.body)
        layout = StripLayout(tuple(group), width, 1, clipped)
        layout = pick_layout_rows(nodes, layout, profile)
        writer = _VectorC(function, nodes, layout, unit_strides, flat, profile)
        writer.write()
        _check_limits(function, writer, profile)
        return Lowered(
            kernel_name=identifier("forall_", function.name),
            template="forall_vector.mako",
            params=writer.params(),
            group=tuple(group),
            work_items=(1,) * len(group),
            arguments=writer.slots,
            local_bytes=0,
            notes=_notes(function, layout, flat, writer.kernel),
            barriers=["none: one work-item runs the group, interval by interval" for _ in ir.barriers(function.body)],
            flat=flat,
        )


def _notes(function: ir.Function, layout: StripLayout, flat: bool, kernel: KernelContext) -> list[str]:
    notes = [
        "mapping vector: one work-item per group",
        f"strips of {layout.width} lanes along the last axis, {layout.rows} rows unrolled",
    ]
    if function.locals:
        notes.append("local fields are private memory of the work-item")
    orders = sorted(kernel.arrangements.items())
    notes += [f"local field {name} {order.reason}" for name, order in orders if order.reason]
    if kernel.streams:
        names = ", ".join(sorted(kernel.streams))
        notes.append(
            f"stores to {names} do not go through the caches if the array is larger than these and does not start "
            "where a loaded array starts"
        )
    if flat:
        notes.append("groups are numbered along dimension 0 only")
    return notes


def _check_limits(function: ir.Function, writer: _VectorC, profile: Profile) -> None:
    if writer.private_bytes > _MOST_PRIVATE_BYTES:
        raise UnsupportedOnDevice(
            f"the local and private fields of {function.name} need {writer.private_bytes} bytes in each group; "
            f"at most {_MOST_PRIVATE_BYTES} are accepted"
        )
    helpers.check_atomics(function, writer.kernel.atomics, profile)
    if profile.loop_limit is not None:
        raise UnsupportedOnDevice(
            f"{function.name}: mapping 'vector' runs a group in one work-item, which may exceed the driver's limit of "
            f"{profile.loop_limit} loop iterations; mapping 'simt' is accepted"
        )


class _VectorC:
    """Writes the kernel's body: the group's indexes, then the regions between barriers."""

    def __init__(
        self,
        function: ir.Function,
        nodes: list[regions.Node],
        layout: StripLayout,
        unit_strides: frozenset[tuple[str, int]],
        flat: bool,
        profile: Profile,
    ) -> None:
        self.function, self.nodes, self.layout, self.flat = function, nodes, layout, flat
        self.kernel = KernelContext(function, nodes, layout, unit_strides, profile)
        self.slots = standard_slots(function, self.kernel.names, unit_strides)
        self.carried_privates = self._carried_privates()
        self.block = Block(1)
        self.private_bytes = 0
        self.index = dtypes.c_name(function.index_dtype)

    def params(self) -> dict[str, object]:
        """The template's parameters."""
        maps = [made for _, made in sorted(self.kernel.strips.maps.items())]
        return {
            "name": identifier("forall_", self.function.name),
            "declarations": dtypes.c_declarations(sorted(set(dtypes_of(self.function)), key=str)),
            "functions": helpers.text(self.kernel.helpers, self.kernel.atomics),
            "in_memory": sorted(self.kernel.in_memory | {(one["value"], one["width"]) for one in maps}),
            "streams": sorted(set(self.kernel.streams.values())),
            "accesses": sorted(self.kernel.accesses.values(), key=lambda one: ("by_lane" in one, one["name"])),
            "maps": maps,
            "arguments": [declaration(slot, self.function) for slot in self.slots],
            "body": str(self.block),
            "int64_atomics": helpers.has_wide(self.kernel.atomics),
        }

    def write(self) -> None:
        for array in self.function.arrays:
            name = self.kernel.names[array.name, None]
            self.block.line(f"{name} += {name}_o;")
        loaded = {load.array.name for load in ir.loads(ir.statements(self.function.body))}
        sources = [self.kernel.names[one.name, None] for one in self.function.arrays if one.name in loaded]
        for array in self.kernel.streamable:
            name = self.kernel.names[array.name, None]
            count = " * ".join(f"(long){name}_e{axis}" for axis in range(array.rank))
            large = f"{count} > {self.kernel.nontemporal_bytes // array.dtype.itemsize}"
            apart = "".join(f" && (ulong){name} != (ulong){source}" for source in sources)
            self.block.line(f"const int {name}_past_caches = {large}{apart};")
        self._group_indexes()
        self._local_arrays()
        self._declare_carried()
        self._nodes(self.nodes)

    # -- the group ------------------------------------------------------------------------------------------------

    def _group_indexes(self) -> None:
        group, block, index = self.layout.group, self.block, self.index
        for axis, size in enumerate(group):
            block.line(f"const {index} groups_{axis} = (grid_e{axis} + {size - 1}) / {size};")
        rank, shares = len(group), self._shares_loads()
        if rank and self.flat:
            block.line("long number = (long)get_group_id(0);")
        elif rank > 2:
            block.line("long number = (long)get_group_id(2);")
        if shares:
            self._number_in_stripes()
        last = [] if shares else list(range(rank))[-2:]
        for axis in reversed(range(rank - 2 if shares else rank)):
            if axis in last and not self.flat:
                block.line(f"const {index} group_{axis} = ({index})get_group_id({rank - 1 - axis});")
            else:
                block.line(f"const {index} group_{axis} = ({index})(number % groups_{axis});")
                block.line(f"number /= groups_{axis};")
        for axis, size in enumerate(group):
            block.line(f"const {index} base_{axis} = grid_o{axis} + group_{axis} * {size};")
            block.line(f"const {index} end_{axis} = grid_o{axis} + grid_e{axis};")
            if self.layout.clipped:
                block.line(f"const {index} count_{axis} = min(({index}){size}, end_{axis} - base_{axis});")

    def _shares_loads(self) -> bool:
        """Whether groups of one column or row load the same data: a loop loads from the arguments."""
        loops = [s for s in ir.statements(self.function.body) if isinstance(s, ir.For | ir.While)]
        loads = (load for loop in loops for load in ir.loads(ir.statements(loop.body)))
        return len(self.layout.group) > 1 and any(isinstance(load.array, ir.GlobalArray) for load in loads)

    def _number_in_stripes(self) -> None:
        """Number the groups of the last two axes in stripes of a few columns, whose data stays in the L2 cache."""
        block, index, last = self.block, self.index, len(self.layout.group) - 1
        stripe = max(1, _STRIPE_LANES // self.layout.group[-1])
        rows, columns = f"groups_{last - 1}", f"groups_{last}"
        if self.flat:
            block.line(f"const long plane = (long){rows} * {columns}, place = number % plane;")
            block.line("number /= plane;")
        else:
            block.line(f"const long place = (long)get_group_id(1) * {columns} + get_group_id(0);")
        block.line(
            f"const long stripe = place / ((long){rows} * {stripe}), inside = place % ((long){rows} * {stripe});"
        )
        block.line(f"const long wide = min((long){stripe}, {columns} - stripe * {stripe});")
        block.line(f"const {index} group_{last - 1} = ({index})(inside / wide);")
        block.line(f"const {index} group_{last} = ({index})(stripe * {stripe} + inside % wide);")

    # -- memory ---------------------------------------------------------------------------------------------------

    def _local_arrays(self) -> None:
        """Declare local arrays, with one strip of padding on either side for masked lanes."""
        pad = self.layout.width
        for array in self.function.locals:
            total = self.kernel.arrangements[array.name].total
            for path in scalar_paths(array.dtype):
                dtype = member_dtype(array.dtype, path)
                name, c_type = identifier("s_", "_m_".join((array.name, *path))), dtypes.c_name(dtype)
                self.block.line(
                    f"{c_type} {name}_padded[{total + 2 * pad}] __attribute__((aligned(64))){self.kernel.initial};"
                )
                self.block.line(f"{c_type}* const {name} = {name}_padded + {pad};")
                self.private_bytes += (total + 2 * pad) * dtype.itemsize

    def _carried_privates(self) -> set[str]:
        """The private arrays whose content is used in several intervals."""
        found: dict[str, int] = {}
        for interval in regions.intervals(self.nodes) if self.function.privates else ():
            for name in private_uses(interval.body):
                found[name] = found.get(name, 0) + (2 if interval.looped else 1)
        return {name for name, uses in found.items() if uses > 1}

    def _declare_carried(self) -> None:
        """Declare the values that live across barriers: of the group, and of each block."""
        kernel, variances = self.kernel, self.kernel.variances
        for name in sorted(variances.carried & set(variances.variables)):
            if variances.variables[name].group_uniform or self.layout.single:
                kernel.declare(self.block, kernel.variables[name])
                continue
            for value in kernel.members(kernel.variables[name]):
                cells = self.layout.blocks * len(value.texts)
                self.block.line(f"{kernel.c_type(value)} c_{value.texts[0]}[{cells}]{kernel.initial};")
                self.private_bytes += cells * value.dtype.itemsize * (self.layout.width if value.vector else 1)
        for array in self.function.privates:
            self._declare_private(array)

    def _declare_private(self, array: ir.PrivateArray) -> None:
        total = math.prod(array.shape)
        blocks = self.layout.blocks if array.name in self.carried_privates else 1
        lanes = self.layout.rows * self.layout.width
        self.private_bytes += total * blocks * lanes * array.dtype.itemsize
        if array.name not in self.carried_privates:
            return
        if self.layout.single:
            for name, _, c_type in private_names(self.kernel, array):
                self.block.line(f"{c_type} {name}[{total}];")
            return
        for path in scalar_paths(array.dtype):
            base = identifier("p_", "_m_".join((array.name, *path)))
            c_type = self.kernel.strips.type(member_dtype(array.dtype, path))
            self.block.line(f"{c_type} c_{base}[{blocks * self.layout.rows * total}];")

    # -- regions --------------------------------------------------------------------------------------------------

    def _nodes(self, nodes: list[regions.Node]) -> None:
        for node in nodes:
            if isinstance(node, regions.Interval):
                IntervalWriter(self.kernel, self.block, node, self.carried_privates).write()
            elif isinstance(node, regions.Jump):
                self.block.line("break;" if isinstance(node.statement, ir.Break) else "continue;")
            else:
                self._uniform_control(node)

    def _uniform_control(self, node: regions.GroupControl) -> None:
        """Write control flow that is uniform in the group."""
        statement = node.statement
        writer = Flow(self.kernel, self.block, regions.Scopes([], set()))
        if isinstance(statement, ir.For):
            counter = writer.open_count(statement, [self._uniform_value(writer, e) for e in ir.expressions(statement)])
            self.block.line(f"{self.kernel.variable(statement.variable).texts[0]} = {counter};")
            self._nodes(node.body)
        elif isinstance(statement, ir.While):
            self.block.open(f"{loop(statement)} (;;)")
            self.block.line(f"if (!({self._uniform_value(writer, statement.condition).texts[0]})) break;")
            self._nodes(node.body)
        else:
            self.block.open(f"if ({self._uniform_value(writer, statement.condition).texts[0]})")
            self._nodes(node.body)
            self.block.close()
            self.block.open("else")
            self._nodes(node.orelse)
        self.block.close()

    def _uniform_value(self, writer: Flow, expr: ir.Expr) -> StripValue:
        """The value of an expression that must be uniform in the group."""
        variance = self.kernel.variances.of(expr)
        if not variance.group_uniform:
            raise UnsupportedOnDevice(
                f"{self.function.name} has a barrier under a divergent condition or in a divergent loop; "
                f"conditions and loops that are uniform in the group are accepted"
            )
        return writer.expr(expr)


LOWERING = register(Vector())
