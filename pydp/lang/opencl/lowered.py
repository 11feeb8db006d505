"""The result of a lowering: a template with its parameters, and the order of the kernel's arguments.

The call site renders and builds the kernel once, and fills the argument slots at each call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.lang import ir
from pydp.lang.opencl.c_text import identifier

LONG = np.dtype(np.int64)
Names = dict[tuple[str, int | None], str]  # C names by (name of the array or parameter, item of the parameter)


@dataclass(frozen=True)
class Slot:
    """One argument of a lowered kernel.

    kind: "array" (the buffer of argument `position`); "offset", "stride", "extent" (of that array's view, in
    elements; `axis`: of the view); "grid" and "grid_offset" (the launch grid's extent and offset along `axis`);
    "parameter" (the number or record of argument `position`; `item`: the item of a tuple); "overran" (a buffer of
    int32: a flag, 0 before the launch and nonzero after it if the driver ended a loop early, then one for each
    work-item).
    name: the C name of the kernel's argument. dtype: its type.
    """

    kind: str
    name: str
    position: int = -1
    axis: int = -1
    item: int | None = None
    dtype: np.dtype[Any] = LONG


@dataclass(frozen=True)
class Lowered:
    """A vector function as a kernel.

    kernel_name, template, params: arguments of :func:`pydp.runtime.programs.program.kernel`.
    group: extents of the group, given by the function or picked by the lowering. work_items: the work-items that run a
    group, along each axis. arguments: the kernel's arguments in order. local_bytes: local memory per group.
    flat: the groups, and the lanes of a group, are numbered in row-major order along dimension 0 only.
    uses_ptx: barriers are PTX instructions. assumes_no_alias: barriers do not suffice if written arguments share
    memory.
    notes: sentences for explain, one for each choice. barriers: one for each barrier, in source order.
    """

    kernel_name: str
    template: str
    params: dict[str, object]
    group: tuple[int, ...]
    work_items: tuple[int, ...]
    arguments: list[Slot]
    local_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    barriers: list[str] = field(default_factory=list)
    flat: bool = False
    uses_ptx: bool = False
    assumes_no_alias: bool = False


def standard_slots(
    function: ir.Function, names: Names, unit_strides: frozenset[tuple[str, int]] = frozenset()
) -> list[Slot]:
    """The slots of all arguments in the order of the call, then the slots of the grid.

    names: see :func:`argument_names`. An array ``a`` has the slots ``a`` (the buffer),
    ``a_o`` (offset, long), ``a_s0`` ... (strides) and ``a_e0`` ... (extents), both of the index type; a stride in
    `unit_strides` is known to be 1 and has no slot. The grid has ``grid_e0`` ... and ``grid_o0`` ....
    """
    index = function.index_dtype
    slots: list[Slot] = []
    for array in function.arrays:
        name = names[array.name, None]
        slots.append(Slot("array", name, array.position, dtype=array.dtype))
        slots.append(Slot("offset", f"{name}_o", array.position))
        for axis in range(array.rank):
            if (array.name, axis) not in unit_strides:
                slots.append(Slot("stride", f"{name}_s{axis}", array.position, axis, dtype=index))
        slots += [Slot("extent", f"{name}_e{axis}", array.position, axis, dtype=index) for axis in range(array.rank)]
    for parameter in function.parameters:
        name = names[parameter.name, parameter.item]
        slots.append(Slot("parameter", name, parameter.position, item=parameter.item, dtype=parameter.dtype))
    for kind, letter in (("grid", "e"), ("grid_offset", "o")):
        slots += [Slot(kind, f"grid_{letter}{axis}", axis=axis, dtype=index) for axis in range(function.grid_rank)]
    return slots


def group_counts(extent: Sequence[int], group: Sequence[int]) -> tuple[int, ...]:
    """The number of groups along each axis: the ceiling of extent / group."""
    return tuple(-(-size // part) for size, part in zip(extent, group, strict=True))


def by_dimension(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes by dimension: dimension 0 is the last axis, 1 the one before, 2 all others."""
    return tuple(math.prod(part) for part in (sizes[-1:], sizes[-2:-1], sizes[:-2]))


def launch_shape(lowered: Lowered, extent: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(global size, local size) of a launch over a grid of `extent`, with three dimensions and whole groups.

    Dimension 0 is the last axis, 1 the one before, 2 all others in row-major order. If the kernel is `flat`, dimension
    0 is all axes.
    """
    counts = group_counts(extent, lowered.group)
    lanes = lowered.work_items
    if lowered.flat:
        counts, lanes = (math.prod(counts),), (math.prod(lanes),)
    groups, local = by_dimension(counts), by_dimension(lanes)
    return tuple(number * size for number, size in zip(groups, local, strict=True)), local


def dtypes_of(function: ir.Function | ir.ValueFunction) -> Iterator[np.dtype[Any]]:
    """Every dtype that the function's text names: of its data and of its expressions."""
    if isinstance(function, ir.Function):
        yield from (array.dtype for array in function.arrays)
        yield from (array.dtype for array in function.locals)
        yield from (parameter.dtype for parameter in function.parameters)
    else:
        yield from (variable.dtype for variable in function.arguments)
        yield from (inner.dtype.base for inner in ir.walk(function.result))
    yield from (array.dtype for array in function.privates)
    yield from (variable.dtype for variable in function.variables)
    yield from (part.dtype.base for part in ir.parts(ir.statements(function.body)))


def argument_names(function: ir.Function) -> Names:
    """C names of arrays and parameters, numbered, so derived names (a0_x_o) are unique."""
    names: Names = {(one.name, None): identifier(f"a{n}_", one.name) for n, one in enumerate(function.arrays)}
    parameters = enumerate(function.parameters)
    return names | {(one.name, one.item): identifier(f"p{n}_", one.name) for n, one in parameters}


def declaration(slot: Slot, function: ir.Function, shared: bool = False) -> str:
    """The C declaration of a kernel's argument; shared: arrays of different types may share memory."""
    c_type = dtypes.c_name(slot.dtype)
    if slot.kind == "overran":
        return f"volatile __global int* {slot.name}"
    if slot.kind != "array":
        return f"const {c_type} {slot.name}"
    written = next(array.writable for array in function.arrays if array.position == slot.position)
    return f"__global {'' if written else 'const '}{c_type}{'_shared' if shared else ''}* {slot.name}"
