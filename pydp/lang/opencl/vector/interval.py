"""One interval between barriers, for all blocks of a group: loops, values that cross barriers, one or two versions.

If all accesses of a block are in bounds (and the block is inside the grid), a fast path without guards and masks runs.
Blocks at the edges run a version with guards: of vectors with masks or, if the body is small, lane by lane (`edges`).
If the blocks of the innermost loop that run the fast path are known before it, they have a loop of their own: in a loop
with both versions, compilers keep variables in memory (PoCL: a stencil in the cache took 1.7 times as long).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import Block, identifier, private_type
from pydp.lang.opencl.scalar import scalar_paths
from pydp.lang.opencl.vector.edges import EdgeC, run_by_lane
from pydp.lang.opencl.vector.flow import Flow
from pydp.lang.opencl.vector.ranges import Bound, Ranges, Test, local_index
from pydp.lang.opencl.vector.values import KernelContext, StripValue
from pydp.lang.opencl.vector_text import BOOL

_MOST_COPIED = 64


class _Loop(NamedTuple):
    """A loop over the blocks along one axis. hint: an attribute before the loop. c_type: of the counter."""

    axis: int
    end: str
    step: int
    hint: str
    c_type: str

    @property
    def counter(self) -> str:
        return f"local_{self.axis}"

    @property
    def head(self) -> str:
        name = self.counter
        return f"{self.hint}for ({self.c_type} {name} = 0; {name} < {self.end}; {name} += {self.step})"


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
        loops = self._loops()
        for loop in loops[:-1]:
            self.block.open(loop.head)
        self._innermost(loops[-1] if loops else None)
        for _ in loops[:-1]:
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

    def _loops(self) -> list[_Loop]:
        """The loops over the blocks of the group, outermost first. Writes the indexes of axes without a loop."""
        layout, index = self.layout, private_type(self.kernel.function.index_dtype)
        # Copies of a body with two versions take long to build and gain nothing.
        versions = any(isinstance(access.array, ir.GlobalArray) for access in ir.accesses(ir.statements(self.body)))
        hint = "__attribute__((opencl_unroll_hint(1))) " if versions and not layout.clipped else ""
        found = []
        for axis, (size, step) in enumerate(zip(layout.group, layout.spans, strict=True)):
            if size <= step:
                # A clipped group has at least one lane inside the grid, or it would not have been launched.
                self.block.line(f"const {index} local_{axis} = 0;")
                continue
            found.append(_Loop(axis, f"count_{axis}" if layout.clipped else str(size), step, hint, index))
        return found

    def _block(self, inside: Block) -> None:
        """Write one block of lanes: `inside` between the loads and the stores of values that cross barriers."""
        for name, c_type in self.changed:
            self.block.line(f"{c_type} {name} = o_{name};")
        self._load_crossing()
        self.block.extend(inside)
        self._store_crossing()
        for name, _ in self.changed:
            self.block.line(f"n_{name} = {name};")
        if not self.layout.single:
            self.block.line("block++;")

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

    def _innermost(self, loop: _Loop | None) -> None:
        """Write the innermost loop over blocks (without `loop`, the only block), with the versions of its body."""
        if not self.layout.whole and self.layout.strips == 1:
            self._looped(loop, self._guarded_version())
            return
        fast, entry = self.block.inner(), self.block.inner()
        writer = Flow(self.kernel, fast, self.scopes)
        entry_value = Flow(self.kernel, entry, self.scopes).expr
        writer.ranges = Ranges(self.kernel, self.body, entry_value, None if loop is None else loop.axis)
        fast.open("")
        self._body(writer)
        fast.close()
        tests = [*self._layout_tests(loop), *writer.ranges.tests]
        if not tests:
            self._looped(loop, fast)
        elif loop is not None and all(test.fixed for test in tests):
            self.block.extend(entry)
            self._separate_loops(loop, self._fast_blocks(loop, tests, writer.ranges), fast)
        else:
            entry.line(f"if ({' && '.join(test.text for test in tests)})")
            entry.extend(fast)
            entry.line("else")
            entry.extend(self._edge_version())
            self._looped(loop, entry)

    def _looped(self, loop: _Loop | None, inside: Block) -> None:
        if loop is not None:
            self.block.open(loop.head)
        self._block(inside)
        if loop is not None:
            self.block.close()

    def _separate_loops(self, loop: _Loop, is_fast: str, fast: Block) -> None:
        """Write a loop over the blocks at the edges and, inside it, the loop over the blocks of the fast path."""
        counter = loop.counter
        self.block.open(loop.head)
        self.block.open(f"{loop.hint}for (; {is_fast}; {counter} += {loop.step})")
        self._block(fast)
        self.block.close()
        self.block.line(f"if ({counter} >= {loop.end}) break;")
        self._block(self._edge_version())
        self.block.close()

    def _fast_blocks(self, loop: _Loop, tests: list[Test], ranges: Ranges) -> str:
        """The condition that a block is one of the fast path's. Its limits are computed before the loop."""
        lows, ends, others = [], [f"(long){loop.end}"], []
        for test in tests:
            step, rest = test.bound.step, test.bound._replace(step=0)
            size = abs(step)
            if not step:
                others.append(test.text)
            elif test.end is None:  # rest + step * counter >= 0
                if step > 0:
                    lows.append(ranges.divide(Bound.of(size - 1).plus(rest, -1), size).text)
                else:
                    ends.append(ranges.divide(rest, size).plus(Bound.of(1)).text)
            elif step > 0:  # rest + step * counter < end
                ends.append(ranges.divide(test.end.plus(rest, -1).plus(Bound.of(size - 1)), size).text)
            else:
                lows.append(ranges.divide(rest.plus(test.end, -1), size).plus(Bound.of(1)).text)
        end = f"max(0L, {_chain('min', ends)})"
        end = self.block.temporary(loop.c_type, f"{' && '.join(others)} ? {end} : 0L" if others else end)
        if not lows:
            return f"{loop.counter} < {end}"
        first = f"min((long){loop.end}, {_chain('max', ['0L', *lows])})"
        first = self.block.temporary(loop.c_type, first)
        return f"{loop.counter} >= {first} && {loop.counter} < {end}"

    def _edge_version(self) -> Block:
        """The version for blocks at the edges."""
        if self.privates or not run_by_lane(self.kernel, self.body):
            return self._guarded_version()
        block = self.block.inner()
        block.open("")
        EdgeC(self.kernel, block, masked=not self.layout.clipped and self.stores).write(self.body)
        block.close()
        return block

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

    def _layout_tests(self, loop: _Loop | None) -> list[Test]:
        """The conditions that all lanes of the block are in the group and, if it matters, in the grid."""
        layout, tests = self.layout, []
        for axis, span in enumerate(layout.spans):
            last = local_index(axis, loop is not None and axis == loop.axis).plus(Bound.of(span - 1))
            if layout.clipped:
                if span > 1:
                    tests.append(Test(last, Bound(f"(long)count_{axis}")))
                continue
            if axis == len(layout.group) - 1 and not layout.whole:
                tests.append(Test(last, Bound.of(layout.columns)))
            if self.stores:
                tests.append(Test(last.plus(Bound(f"(long)base_{axis}")), Bound(f"(long)end_{axis}")))
        return tests

    def _guarded_version(self) -> Block:
        """The version with guards and masks, for any block."""
        block = self.block.inner()
        block.open("")
        writer = Flow(self.kernel, block, self.scopes)
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
        block.close()
        return block

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


def _chain(function: str, texts: list[str]) -> str:
    """Calls of a C function of two arguments for all of `texts`."""
    found = texts[0]
    for text in texts[1:]:
        found = f"{function}({found}, {text})"
    return found


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
