"""One interval between barriers, for all blocks of a group: loops, values that cross barriers, one or two versions.

If all accesses of a block are in bounds (and the block is inside the grid), a fast path without guards and masks runs.
Blocks at the edges run a version with guards: of vectors with masks or, if the body is small, lane by lane (`edges`).
"""

from __future__ import annotations

import math

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import Block, identifier, private_type
from pydp.lang.opencl.scalar import scalar_paths
from pydp.lang.opencl.vector.edges import EdgeC, run_by_lane
from pydp.lang.opencl.vector.flow import Flow
from pydp.lang.opencl.vector.ranges import Ranges
from pydp.lang.opencl.vector.values import KernelContext, StripValue
from pydp.lang.opencl.vector_text import BOOL

_MOST_COPIED = 64


class IntervalWriter:
    """Writes an interval into the kernel's block."""

    def __init__(
        self, kernel: KernelContext, block: Block, interval: regions.Interval, carried_privates: set[str]
    ) -> None:
        self.kernel, self.layout, self.block = kernel, kernel.layout, block
        self.body, self.scopes = interval.body, kernel.variances.scopes[interval]
        self.assigned = regions.assigned_in(interval.body)
        names = private_uses(self.body) if kernel.function.privates else set()
        self.privates = [array for array in kernel.function.privates if array.name in names]
        self.carried_privates = carried_privates
        self.stores = any(
            isinstance(s, ir.Atomic) or (isinstance(s, ir.Store) and isinstance(s.array, ir.GlobalArray))
            for s in ir.statements(interval.body)
        )
        # Group-uniform values that this interval changes (each block starts from the old value), and values per block.
        self.changed: list[tuple[str, str]] = []
        self.crossing: list[tuple[str, StripValue]] = []
        for name in [] if self.layout.single else sorted(kernel.variances.carried & set(self.scopes.of)):
            values = kernel.members(kernel.variables[name])
            if not kernel.variances.variables[name].group_uniform:
                self.crossing += [(name, value) for value in values]
            elif name in self.assigned:
                self.changed += [(value.texts[0], private_type(value.dtype)) for value in values]

    def write(self) -> None:
        self.block.open("")
        if self._group_uniform():
            Flow(self.kernel, self.block, self.scopes).statements(self.body)
            self.block.close()
            return
        for name, c_type in self.changed:
            self.block.line(f"const {c_type} o_{name} = {name};")
            self.block.line(f"{c_type} n_{name} = o_{name};")
        if not self.layout.single:
            self.block.line("int block = 0;")
        depth = self._open_loops()
        for name, c_type in self.changed:
            self.block.line(f"{c_type} {name} = o_{name};")
        self._load_crossing()
        self._versions()
        self._store_crossing()
        for name, _ in self.changed:
            self.block.line(f"n_{name} = {name};")
        if not self.layout.single:
            self.block.line("block++;")
        for _ in range(depth):
            self.block.close()
        for name, _ in self.changed:
            self.block.line(f"{name} = n_{name};")
        self.block.close()

    def _group_uniform(self) -> bool:
        """Whether the interval can run once for all blocks: it only assigns group-uniform variables, and no part of
        their values is an index of a lane or differs between blocks."""
        variances, inside = self.kernel.variances, list(ir.statements(self.body))
        if not all(isinstance(s, ir.Assign) and variances.variables[s.variable.name].group_uniform for s in inside):
            return False
        indexes = (ir.LocalIndex, ir.GlobalIndex)
        return all(variances.of(e).group_uniform and not isinstance(e, indexes) for e in ir.parts(inside))

    def _open_loops(self) -> int:
        """Open the loops over the blocks of the group; returns their number."""
        layout, index = self.layout, private_type(self.kernel.function.index_dtype)
        # Copies of a body with two versions take long to build and gain nothing.
        versions = any(isinstance(access.array, ir.GlobalArray) for access in ir.accesses(ir.statements(self.body)))
        hint = "__attribute__((opencl_unroll_hint(1))) " if versions and not layout.clipped else ""
        opened = 0
        for axis, (size, step) in enumerate(zip(layout.group, layout.spans, strict=True)):
            name = f"local_{axis}"
            if size <= step:
                # A clipped group has at least one lane inside the grid, or it would not have been launched.
                self.block.line(f"const {index} {name} = 0;")
                continue
            end = f"count_{axis}" if layout.clipped else str(size)
            self.block.open(f"{hint}for ({index} {name} = 0; {name} < {end}; {name} += {step})")
            opened += 1
        return opened

    # -- values that cross barriers -------------------------------------------------------------------------------

    def _load_crossing(self) -> None:
        for _, value in self.crossing:
            rows = len(value.texts)
            for row, text in enumerate(value.texts):
                self.block.line(f"{self.kernel.c_type(value)} {text} = c_{value.texts[0]}[block * {rows} + {row}];")
        for array in self._crossing_privates():
            total = math.prod(array.shape)
            for name, kept, c_type in private_names(self.kernel, array):
                if self._copied(array):
                    self.block.line(f"{c_type} {name}[{total}];")
                    self._copy(name, kept, total)
                else:
                    self.block.line(f"{c_type}* const {name} = {kept};")

    def _store_crossing(self) -> None:
        for name, value in self.crossing:
            if name in self.assigned:
                rows = len(value.texts)
                for row, text in enumerate(value.texts):
                    self.block.line(f"c_{value.texts[0]}[block * {rows} + {row}] = {text};")
        changed = private_changes(self.body)
        for array in self._crossing_privates():
            if array.name in changed and self._copied(array):
                for name, kept, _ in private_names(self.kernel, array):
                    self._copy(kept, name, math.prod(array.shape))

    def _crossing_privates(self) -> list[ir.PrivateArray]:
        return [a for a in self.privates if a.name in self.carried_privates and not self.layout.single]

    def _copied(self, array: ir.PrivateArray) -> bool:
        """Whether only constants index the array: a copy can then be in registers."""
        uses = (access for access in ir.accesses(ir.statements(self.body)) if access.array.name == array.name)
        constant = all(isinstance(index, ir.Const) for access in uses for index in access.indices)
        return math.prod(array.shape) <= _MOST_COPIED and constant

    def _copy(self, to: str, of: str, count: int) -> None:
        """Copy element by element without a loop: drivers do not unroll it and keep the copy in memory."""
        for item in range(count):
            self.block.line(f"{to}[{item}] = {of}[{item}];")

    # -- versions --------------------------------------------------------------------------------------------------

    def _versions(self) -> None:
        if not self.layout.whole and self.layout.strips == 1:
            self._guarded_version()
            return
        fast, entry = self.block.inner(), self.block.inner(0)
        writer = Flow(self.kernel, fast, self.scopes)
        writer.ranges = Ranges(self.kernel, self.body, Flow(self.kernel, entry, self.scopes).expr)
        self._body(writer)
        conditions = [*self._layout_conditions(), *writer.ranges.conditions]
        self.block.extend(entry)
        if not conditions:
            fast.lines = [line[4:] for line in fast.lines]
        self.block.open(f"if ({' && '.join(conditions)})" if conditions else "")
        self.block.extend(fast)
        self.block.close()
        if conditions:
            self.block.open("else")
            if not self.privates and run_by_lane(self.kernel, self.body):
                EdgeC(self.kernel, self.block, masked=not self.layout.clipped and self.stores).write(self.body)
            else:
                self._guarded_version()
            self.block.close()

    def _body(self, writer: Flow) -> None:
        updates = (s for s in ir.statements(self.body) if isinstance(s, ir.Atomic))
        found = {one.old.name for one in updates if one.old is not None}
        for array in self.privates:
            if array.name not in self.carried_privates:
                for name, _, c_type in private_names(self.kernel, array):
                    # Old values of atomics are stored lane by lane; inactive lanes need a defined value.
                    first = f" = {{({c_type})(0)}}" if array.name in found else ""
                    writer.block.line(f"{c_type} {name}[{math.prod(array.shape)}]{first};")
        writer.statements(self.body)

    def _layout_conditions(self) -> list[str]:
        """The conditions that all lanes of the block are in the group and, if it matters, in the grid."""
        layout, tests = self.layout, []
        for axis, span in enumerate(layout.spans):
            if layout.clipped:
                if span > 1:
                    tests.append(f"local_{axis} + {span} <= count_{axis}")
                continue
            if axis == len(layout.group) - 1 and not layout.whole:
                tests.append(f"local_{axis} + {layout.width} <= {layout.columns}")
            if self.stores:
                tests.append(f"base_{axis} + local_{axis} + {span} <= end_{axis}")
        return tests

    def _guarded_version(self) -> None:
        writer = Flow(self.kernel, self.block, self.scopes)
        layout = self.layout
        last = len(layout.group) - 1
        if not layout.group:
            writer.mask = self._lane_mask(writer, "0", "1")
        elif layout.clipped:
            writer.mask = self._lane_mask(writer, f"local_{last}", f"count_{last}")
            if layout.rows > 1:
                axis = layout.row_axis
                texts = tuple(f"(local_{axis} + {row} < count_{axis})" for row in range(layout.rows))
                both = writer.mask_and(writer.mask, StripValue(texts, 0, BOOL))
                assert both is not None
                writer.mask = writer.temporary(both)
        elif not layout.whole:
            writer.mask = self._lane_mask(writer, f"local_{last}", str(layout.columns))
        if layout.group and not layout.clipped and self.stores:
            writer.inside_grid = self._grid_mask(writer)
        self._body(writer)

    def _lane_mask(self, writer: Flow, first: str, end: str) -> StripValue:
        """The mask of the lanes of a strip whose index is below `end`."""
        text, splat = self.kernel.strips, self.kernel.strips.splat
        index = self.kernel.function.index_dtype
        iota = text.ramp(first, 1, index)
        mask = text.compare("lt", iota, splat(end, index), index)
        return writer.temporary(StripValue((mask,), None, BOOL))

    def _grid_mask(self, writer: Flow) -> StripValue:
        """The mask of the lanes inside the grid, if lanes outside it run, too."""
        layout = self.layout
        last = len(layout.group) - 1
        mask: StripValue | None = self._lane_mask(writer, f"(base_{last} + local_{last})", f"end_{last}")
        for axis in range(last):
            rows = layout.rows if axis == layout.row_axis else 1
            texts = tuple(f"(base_{axis} + local_{axis} + {row} < end_{axis})" for row in range(rows))
            mask = writer.mask_and(mask, StripValue(texts, 0, BOOL))
        assert mask is not None
        return writer.temporary(mask)


def private_changes(body: list[ir.Stmt]) -> set[str]:
    """Names of the private arrays that `body` writes."""
    writes = [one for one in ir.statements(body) if isinstance(one, ir.Store | ir.Atomic)]
    found = {one.array.name for one in writes if isinstance(one.array, ir.PrivateArray)}
    return found | {one.old.name for one in writes if isinstance(one, ir.Atomic) and one.old is not None}


def private_uses(body: list[ir.Stmt]) -> set[str]:
    """Names of the private arrays that `body` uses."""
    loads = {load.array.name for load in ir.loads(ir.statements(body)) if isinstance(load.array, ir.PrivateArray)}
    return private_changes(body) | loads


def private_names(kernel: KernelContext, array: ir.PrivateArray) -> list[tuple[str, str, str]]:
    """(C name in a block, C text of its storage between intervals, C type of its elements) by member and row."""
    rows, total = kernel.layout.rows, math.prod(array.shape)
    found = []
    for path in scalar_paths(array.dtype):
        base = identifier("p_", "_m_".join((array.name, *path)))
        c_type = kernel.strips.type(member_dtype(array.dtype, path))
        for row in range(rows):
            name = f"{base}_r{row}" if rows > 1 else base
            found.append((name, f"(c_{base} + (block * {rows} + {row}) * {total})", c_type))
    return found
