"""One interval between barriers, for all blocks of a group: loops, values that cross barriers, one or two versions.

If all accesses of a block are in bounds (and the block is inside the grid), a fast path without guards and masks runs;
blocks at the edges run the version with guards.
"""

from __future__ import annotations

import math

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import Block, identifier, private_type
from pydp.lang.opencl.vector.expressions import Path, scalar_paths
from pydp.lang.opencl.vector.flow import Flow
from pydp.lang.opencl.vector.ranges import Ranges
from pydp.lang.opencl.vector.values import KernelContext, StripValue
from pydp.lang.opencl.vector.variance import Variance
from pydp.lang.opencl.vector_text import BOOL

_MOST_COPIED = 64


class IntervalWriter:
    """Writes an interval into the kernel's block."""

    def __init__(
        self,
        kernel: KernelContext,
        block: Block,
        interval: regions.Interval,
        scopes: regions.Scopes,
        carried: set[str],
        carried_privates: set[str],
    ) -> None:
        self.kernel, self.layout, self.block = kernel, kernel.layout, block
        self.body, self.scopes, self.carried = interval.body, scopes, carried
        self.carried_privates = carried_privates
        self.assigned = regions.assigned_in(interval.body)
        self.used = set(scopes.of)
        names = private_uses(self.body) if kernel.function.privates else ()
        self.privates = [array for array in kernel.function.privates if array.name in names]
        self.stores = any(
            isinstance(s, ir.Atomic) or (isinstance(s, ir.Store) and isinstance(s.array, ir.GlobalArray))
            for s in ir.statements(interval.body)
        )

    def write(self) -> None:
        self.block.open("")
        changed = self._uniform_changed()
        for name, c_type in changed:
            self.block.line(f"const {c_type} o_{name} = {name};")
            self.block.line(f"{c_type} n_{name} = o_{name};")
        if not self.layout.single:
            self.block.line("int block = 0;")
        depth = self._open_loops()
        for name, c_type in changed:
            self.block.line(f"{c_type} {name} = o_{name};")
        self._load_crossing()
        self._versions()
        self._store_crossing()
        for name, _ in changed:
            self.block.line(f"n_{name} = {name};")
        if not self.layout.single:
            self.block.line("block++;")
        for _ in range(depth):
            self.block.close()
        for name, _ in changed:
            self.block.line(f"{name} = n_{name};")
        self.block.close()

    # -- loops over blocks ---------------------------------------------------------------------------------------

    def _open_loops(self) -> int:
        layout, index = self.layout, private_type(self.kernel.function.index_dtype)
        last = len(layout.group) - 1
        opened = 0
        for axis, size in enumerate(layout.group):
            step = layout.width if axis == last else layout.rows if axis == layout.row_axis else 1
            name = f"local_{axis}"
            if size <= step:
                # A clipped group has at least one lane inside the grid, or it would not have been launched.
                self.block.line(f"const {index} {name} = 0;")
                continue
            end = f"count_{axis}" if layout.clipped else str(size)
            self.block.open(f"for ({index} {name} = 0; {name} < {end}; {name} += {step})")
            opened += 1
        return opened

    # -- values that cross barriers -------------------------------------------------------------------------------

    def _leaf_values(self, name: str) -> list[tuple[Path, StripValue, Variance]]:
        variable, variance = self.kernel.variables[name], self.kernel.variances.variables[name]
        plain = Flow(self.kernel, Block(), self.scopes, self.carried)
        return [(path, plain.variable(variable, path), variance) for path in scalar_paths(variable.dtype)]

    def _uniform_changed(self) -> list[tuple[str, str]]:
        """(C name, type) of group-uniform values that this interval changes: each block starts from the old value."""
        if self.layout.single:
            return []
        return [
            (value.texts[0], private_type(value.dtype))
            for name in sorted(self.carried & self.assigned)
            for _, value, variance in self._leaf_values(name)
            if variance.group_uniform
        ]

    def _crossing(self) -> list[tuple[str, StripValue, str]]:
        """(variable, C names, C type) of the values kept per block that this interval uses."""
        if self.layout.single:
            return []
        plain = Flow(self.kernel, Block(), self.scopes, self.carried)
        return [
            (name, value, plain.c_type(value))
            for name in sorted(self.carried & self.used)
            for _, value, variance in self._leaf_values(name)
            if not variance.group_uniform
        ]

    def _load_crossing(self) -> None:
        for _, value, c_type in self._crossing():
            rows = len(value.texts)
            for row, text in enumerate(value.texts):
                self.block.line(f"{c_type} {text} = c_{value.texts[0]}[block * {rows} + {row}];")
        for array in self.privates:
            if array.name in self.carried_privates and not self.layout.single:
                self._load_private(array)

    def _store_crossing(self) -> None:
        for name, value, _ in self._crossing():
            if name in self.assigned:
                rows = len(value.texts)
                for row, text in enumerate(value.texts):
                    self.block.line(f"c_{value.texts[0]}[block * {rows} + {row}] = {text};")
        changed = private_changes(self.body)
        for array in self.privates:
            copied_back = array.name in self.carried_privates and not self.layout.single and self._copied(array)
            if copied_back and array.name in changed:
                total = math.prod(array.shape)
                for name, kept, _ in private_names(self.kernel, array):
                    self._copy(kept, name, total)

    def _copied(self, array: ir.PrivateArray) -> bool:
        """Whether only constants index the array: a copy can then be in registers."""
        if math.prod(array.shape) > _MOST_COPIED:
            return False
        return all(
            isinstance(index, ir.Const) for indices in _private_indices(self.body, array.name) for index in indices
        )

    def _copy(self, to: str, of: str, count: int) -> None:
        """Copy element by element without a loop: drivers do not unroll it and keep the copy in memory."""
        for item in range(count):
            self.block.line(f"{to}[{item}] = {of}[{item}];")

    def _load_private(self, array: ir.PrivateArray) -> None:
        total = math.prod(array.shape)
        for name, kept, c_type in private_names(self.kernel, array):
            if self._copied(array):
                self.block.line(f"{c_type} {name}[{total}];")
                self._copy(name, kept, total)
            else:
                self.block.line(f"{c_type}* const {name} = {kept};")

    # -- versions --------------------------------------------------------------------------------------------------

    def _versions(self) -> None:
        never_whole = not self.layout.whole and self.layout.strips == 1
        fast, entry = Block(self.block.depth + 1, self.block._counter), Block(self.block.depth, self.block._counter)
        if never_whole:
            self._guarded_version(self.block)
            return
        writer = self._writer(fast)
        start = Flow(self.kernel, entry, self.scopes, self.carried)
        writer.ranges = Ranges(self.kernel, self.body, self.carried, start.expr)
        self._body(writer)
        conditions = [*self._layout_conditions(), *writer.conditions]
        self.block.extend(entry)
        if not conditions:
            fast.lines = [line[4:] for line in fast.lines]
            self.block.open("")
            self.block.extend(fast)
            self.block.close()
            return
        self.block.open(f"if ({' && '.join(conditions)})")
        self.block.extend(fast)
        self.block.close()
        self.block.open("else")
        self._guarded_version(self.block)
        self.block.close()

    def _writer(self, block: Block) -> Flow:
        return Flow(self.kernel, block, self.scopes, self.carried)

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
        layout = self.layout
        axes = range(len(layout.group))
        spans = [layout.width if a == len(axes) - 1 else layout.rows if a == layout.row_axis else 1 for a in axes]
        tests = []
        for axis in axes:
            last = axis == len(axes) - 1
            if layout.clipped:
                if spans[axis] > 1:
                    tests.append(f"local_{axis} + {spans[axis]} <= count_{axis}")
                continue
            if last and not layout.whole:
                tests.append(f"local_{axis} + {layout.width} <= {layout.columns}")
            if self.stores:
                tests.append(f"base_{axis} + local_{axis} + {spans[axis]} <= end_{axis}")
        return tests

    def _guarded_version(self, block: Block) -> None:
        writer = self._writer(block)
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
    found = set()
    for statement in ir.statements(body):
        if isinstance(statement, ir.Store | ir.Atomic) and isinstance(statement.array, ir.PrivateArray):
            found.add(statement.array.name)
        if isinstance(statement, ir.Atomic) and statement.old is not None:
            found.add(statement.old.name)
    return found


def private_uses(body: list[ir.Stmt]) -> set[str]:
    """Names of the private arrays that `body` uses."""
    loads = {load.array.name for load in ir.loads(ir.statements(body)) if isinstance(load.array, ir.PrivateArray)}
    return private_changes(body) | loads


def _private_indices(body: list[ir.Stmt], name: str) -> list[tuple[ir.Expr, ...]]:
    found = []
    for statement in ir.statements(body):
        if isinstance(statement, ir.Store | ir.Atomic) and statement.array.name == name:
            found.append(statement.indices)
    return found + [load.indices for load in ir.loads(ir.statements(body)) if load.array.name == name]


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
