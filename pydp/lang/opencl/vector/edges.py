"""Blocks at the edges of the grid or of arrays, one lane after the other, for small bodies.

Guarded accesses go lane by lane also in code of vectors, so nothing is lost, and drivers build the scalar code in a
third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.intrinsics import FUNCTIONS
from pydp.lang.opencl.c_text import Block, identifier, private_type
from pydp.lang.opencl.lane import LaneC
from pydp.lang.opencl.vector.values import KernelContext, StripValue, Values
from pydp.lang.opencl.vector_text import BOOL

_OPERATIONS = (ir.Unary, ir.Binary, ir.Compare, ir.Logical, ir.Select, ir.Cast, ir.Math)
# Operations for each access of an argument. A guarded access of a vector takes the time of some eight operations of
# each lane, so bodies with more are left to vectors.
_MOST_OPERATIONS = 8


def run_by_lane(kernel: KernelContext, body: list[ir.Stmt]) -> bool:
    """Whether the edges of an interval without private arrays can run lane by lane: the bits are the same, and guarded
    accesses are most of the work."""
    inside = list(ir.statements(body))
    if not kernel.layout.group or regions.assigned_in(body) & kernel.variances.carried:
        return False
    if not all(isinstance(one, ir.Assign | ir.Store | ir.If) for one in inside):
        return False
    parts = list(ir.parts(inside))
    arrays = [access.array for access in ir.accesses(inside)]
    if any(array.dtype.names is not None or array.dtype.subdtype is not None for array in arrays):
        return False
    guarded = sum(isinstance(array, ir.GlobalArray) for array in arrays)
    operations = sum(isinstance(part, _OPERATIONS) for part in parts)
    return operations <= _MOST_OPERATIONS * guarded and all(map(_same_bits, parts))


def _same_bits(expr: ir.Expr) -> bool:
    """Whether scalar code gives the same bits as code of vectors. Division and most functions of floats may not, nor
    operations on float16, which devices may compute in float32."""
    if expr.dtype.names is not None or expr.dtype.subdtype is not None or expr.dtype == "f2":
        return False
    if isinstance(expr, ir.Math):
        return FUNCTIONS[expr.name].is_exact(expr.values[0].dtype)
    if isinstance(expr, ir.Binary) and expr.dtype.kind == "f":
        return expr.op in ("add", "sub", "mul")
    return True


class EdgeC(LaneC):
    """Writes the body as a loop over the lanes of a block: lane `at % width` of row `at / width`.

    Indexes that are uniform in the block are computed before the loop, with the condition that they are in bounds: the
    extent of another axis becomes 0 if they are not. Uniform conditions inside the loop would make compilers copy the
    loop for each combination of them (loop unswitching), which takes longer than the rest of the kernel.
    """

    prefix = "lane_"

    def __init__(self, kernel: KernelContext, block: Block, masked: bool) -> None:
        super().__init__(block.inner(), kernel.function, kernel.names, kernel.unit_strides, masked, kernel.helpers)
        self.kernel, self.layout, self.before = kernel, kernel.layout, block
        self._spilled: dict[str, StripValue] = {}

    def write(self, body: list[ir.Stmt]) -> None:
        """Write the loop into the block of the kernel."""
        layout, last = self.layout, len(self.layout.group) - 1
        carried, variables = self.kernel.variances.carried, self.kernel.variables
        reads = {variable.name for expr in ir.parts(ir.statements(body)) for variable in regions.reads(expr)}
        for name in sorted(reads & carried):
            self._spill(name, self.kernel.variable(variables[name]))
        count, tests = str(layout.rows * layout.width), []
        if layout.clipped and layout.rows == 1:
            self.before.line(f"const int lanes = min(({self.index}){count}, count_{last} - local_{last});")
            count = "lanes"
        elif layout.clipped:
            tests = [f"lane_local_{axis} < count_{axis}" for axis in (last - 1, last)]
        elif not layout.whole:
            tests = [f"lane_local_{last} < {layout.columns}"]
        self._indexes()
        self.block.open(f"if ({' && '.join(tests)})" if tests else "")
        self.declare([variables[name] for name in sorted(regions.assigned_in(body))], [])
        self.statements(body)
        self.block.close()
        self.before.open(f"__attribute__((opencl_unroll_hint(1))) for (int at = 0; at < {count}; at++)")
        self.before.extend(self.block)
        self.before.close()

    def _indexes(self) -> None:
        """Declare the indexes of a lane and, if lanes outside the grid run too, in_grid."""
        layout, last, inside = self.layout, len(self.layout.group) - 1, []
        self.block.line(f"const int lane = at % {layout.width};")
        if layout.rows > 1:
            self.block.line(f"const int row = at / {layout.width};")
        for axis in range(last + 1):
            step = " + lane" if axis == last else " + row" if axis == layout.row_axis and layout.rows > 1 else ""
            block = self.block if step else self.before
            block.line(f"const {self.index} lane_local_{axis} = local_{axis}{step};")
            block.line(f"const {self.index} lane_global_{axis} = base_{axis} + lane_local_{axis};")
            inside.append(f"lane_global_{axis} < end_{axis}")
        if self.masked:
            self.block.line(f"const int in_grid = {' && '.join(inside)};")

    def _spill(self, name: str, value: StripValue) -> None:
        """Store the rows' values of a variable in memory, where each lane can read its own."""
        if value.step == 0 and len(value.texts) == 1:
            return
        self._spilled[name] = value
        kind, width = private_type(value.dtype), self.layout.width
        self.before.line(f"{kind} {_memory(name)}[{len(value.texts) * width}] __attribute__((aligned(64)));")
        self.kernel.in_memory.add((kind, width))
        for row, text in enumerate(Values(self.kernel, self.before).vector(value).texts):
            self.before.line(f"ADJACENT({kind}{width}_in_memory, __private, {_memory(name)} + {row * width}) = {text};")

    def on_read(self, expr: ir.Read) -> str:
        name = expr.variable.name
        if name not in self._spilled:
            return super().on_read(expr)
        row = f"row * {self.layout.width} + " if len(self._spilled[name].texts) > 1 else ""
        text = f"{_memory(name)}[{row}lane]"
        return f"({text} != 0)" if expr.dtype == BOOL else text

    # -- elements of arrays ----------------------------------------------------------------------------------------

    def place(self, array: ir.Array, indices: Sequence[ir.Expr]) -> tuple[str, str]:
        if isinstance(array, ir.LocalArray):
            return "", self._local_element(array, indices)
        assert isinstance(array, ir.GlobalArray)
        uniform = {axis: index for axis, index in enumerate(indices) if self._is_uniform(index)}
        if not uniform or len(uniform) == len(indices):
            return super().place(array, indices)
        first = next(axis for axis in range(len(indices)) if axis not in uniform)
        with self._before_the_loop():
            tests, terms = self.global_parts(array, {axis: self.kept_index(one) for axis, one in uniform.items()})
            inside = self.block.temporary("int", " && ".join(tests))
            extent = f"{self.names[array.name, None]}_e{first}"
            extent = self.block.temporary(self.index, f"{inside} ? {extent} : 0")
            start = self.block.temporary("long", f"{inside} ? {' + '.join(terms)} : 0")
        others = {axis: self.kept_index(one) for axis, one in enumerate(indices) if axis not in uniform}
        tests, terms = self.global_parts(array, others, {first: extent})
        return " && ".join(tests), f"{self.names[array.name, None]}[{' + '.join([start, *terms])}]"

    @contextmanager
    def _before_the_loop(self) -> Iterator[None]:
        loop, self.block = self.block, self.before
        try:
            yield
        finally:
            self.block = loop

    def _is_uniform(self, index: ir.Expr) -> bool:
        """Whether the index can be computed before the loop: no part of it differs between lanes, is assigned in the
        body, or is in memory."""
        variances, carried = self.kernel.variances, self.kernel.variances.carried
        parts = list(ir.walk(index))
        if any(variances.of(part).divergent or isinstance(part, ir.Load) for part in parts):
            return False
        return all(part.variable.name in carried for part in parts if isinstance(part, ir.Read))

    def _local_element(self, array: ir.LocalArray, indices: Sequence[ir.Expr]) -> str:
        order = self.kernel.arrangements[array.name]
        terms = []
        for axis, (index, stride) in enumerate(zip(indices, order.strides, strict=True)):
            text = self.expr(index)
            if axis == order.axis and order.interleave_factor > 1:
                factor = order.interleave_factor
                plane, inside = (self.binary(op, text, str(factor), index.dtype, factor) for op in ("mod", "floordiv"))
                text = f"({plane} * {order.plane_size} + {inside})"
            terms.append(f"{text} * {stride}")
        return f"{identifier('s_', array.name)}[{' + '.join(terms) or '0'}]"


def _memory(name: str) -> str:
    return identifier("x_", name)
