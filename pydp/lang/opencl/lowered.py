"""What a lowering hands to the call site: a template with its parameters, and the kernel's argument order.

A lowering is ``lower(function, profile, ...) -> Lowered``. The call site renders and builds the kernel
once, then fills the slots from the arguments of each call.
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


@dataclass(frozen=True)
class Slot:
    """One argument of a lowered kernel.

    kind: "array" (the buffer of argument `position`); "offset", "stride", "extent" (of that array's view, in
    elements; `axis` counts the view's axes); "grid" and "grid_offset" (the launch grid's extent and offset along
    `axis`); "parameter" (the number or record of argument `position`; `item` picks one of a tuple); "overran" (a
    buffer of int32: one that is 0 before the launch and not 0 after it if the driver ended a loop early, then one
    for each work-item).
    `name` is the C name of the kernel's argument and `dtype` its type.
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

    mapping: "simt" (a lane is a work-item) or "vector" (a work-item runs a group).
    kernel_name, template, params: what :func:`pydp.runtime.programs.program.kernel` takes.
    group: extents of the group, which is the given one or the lowering's own pick.
    arguments: the kernel's arguments in order. local_bytes: of local memory for each group.
    flat: the groups, and the lanes of a group, are numbered row by row along dimension 0 alone. uses_ptx: barriers are
    instructions of NVIDIA's own. assumes_no_alias: barriers do too little for written arguments that share memory.
    notes: one sentence for each choice that a user may ask for; barriers: one for each barrier, in source order.
    """

    mapping: str
    kernel_name: str
    template: str
    params: dict[str, object]
    group: tuple[int, ...]
    arguments: list[Slot]
    local_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    barriers: list[str] = field(default_factory=list)
    flat: bool = False
    uses_ptx: bool = False
    assumes_no_alias: bool = False


def standard_slots(
    function: ir.Function, names: dict[tuple[str, int], str], unit_strides: frozenset[tuple[str, int]] = frozenset()
) -> list[Slot]:
    """The slots of every argument in the order of the call, then the grid's.

    `names` maps (array's or parameter's name, item or -1) to the C name. An array ``a`` takes ``a`` (the buffer),
    ``a_o`` (offset, long), ``a_s0`` ... (strides) and ``a_e0`` ... (extents), both of the index type; a stride in
    `unit_strides` is known to be 1 and has no slot. The grid's are ``grid_e0`` ... and ``grid_o0`` ....
    """
    index = function.index_dtype
    slots: list[Slot] = []
    for array in function.arrays:
        name = names[array.name, -1]
        slots.append(Slot("array", name, array.position, dtype=array.dtype))
        slots.append(Slot("offset", f"{name}_o", array.position))
        for axis in range(array.rank):
            if (array.name, axis) not in unit_strides:
                slots.append(Slot("stride", f"{name}_s{axis}", array.position, axis, dtype=index))
        slots += [Slot("extent", f"{name}_e{axis}", array.position, axis, dtype=index) for axis in range(array.rank)]
    for parameter in function.parameters:
        item = -1 if parameter.item is None else parameter.item
        name = names[parameter.name, item]
        slots.append(Slot("parameter", name, parameter.position, item=parameter.item, dtype=parameter.dtype))
    for kind, letter in (("grid", "e"), ("grid_offset", "o")):
        slots += [Slot(kind, f"grid_{letter}{axis}", axis=axis, dtype=index) for axis in range(function.grid_rank)]
    return slots


def group_counts(extent: Sequence[int], group: Sequence[int]) -> tuple[int, ...]:
    """Groups along each axis: the ceiling of extent / group."""
    return tuple(-(-size // part) for size, part in zip(extent, group, strict=True))


def _three(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes by axis as sizes by dimension: the last axis is dimension 0, all before the last two are dimension 2."""
    return tuple(math.prod(part) for part in (sizes[-1:], sizes[-2:-1], sizes[:-2]))


def launch_shape(lowered: Lowered, extent: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(global size, local size) of a launch over a grid of `extent`, always of three dimensions and whole groups.

    Dimension 0 is the last axis, dimension 1 the one before, dimension 2 all others, row by row; where the
    kernel is `flat`, dimension 0 is all of them. In the "vector" mapping each group is one work-item.
    """
    counts = group_counts(extent, lowered.group)
    lanes = lowered.group if lowered.mapping == "simt" else (1,) * len(counts)
    if lowered.flat:
        counts, lanes = (math.prod(counts),), (math.prod(lanes),)
    groups, local = _three(counts), _three(lanes)
    return tuple(number * size for number, size in zip(groups, local, strict=True)), local


def dtypes_of(function: ir.Function | ir.ValueFunction) -> Iterator[np.dtype[Any]]:
    """Every dtype that the function's text names: of its data, and of the values of its expressions."""
    if isinstance(function, ir.Function):
        yield from (array.dtype for array in function.arrays)
        yield from (array.dtype for array in function.locals)
        yield from (parameter.dtype for parameter in function.parameters)
    else:
        yield from (variable.dtype for variable in function.arguments)
        yield from (inner.dtype.base for inner in ir.walk(function.result))
    yield from (array.dtype for array in function.privates)
    yield from (variable.dtype for variable in function.variables)
    for statement in ir.statements(function.body):
        for expr in ir.expressions(statement):
            yield from (inner.dtype.base for inner in ir.walk(expr))


def argument_names(function: ir.Function) -> dict[tuple[str, int], str]:
    """C names of arrays and parameters: numbered, so that no derived name (a0_x_o) meets another's."""
    names = {}
    for number, array in enumerate(function.arrays):
        names[array.name, -1] = identifier(f"a{number}_", array.name)
    for number, parameter in enumerate(function.parameters):
        item = -1 if parameter.item is None else parameter.item
        names[parameter.name, item] = identifier(f"p{number}_", parameter.name)
    return names


def declaration(slot: Slot, function: ir.Function, shared: bool = False) -> str:
    """The C declaration of a kernel's argument; shared: arrays are of the types that may lie in memory of others."""
    c_type = dtypes.c_name(slot.dtype)
    if slot.kind == "overran":
        return f"volatile __global int* {slot.name}"
    if slot.kind != "array":
        return f"const {c_type} {slot.name}"
    written = next(array.writable for array in function.arrays if array.position == slot.position)
    return f"__global {'' if written else 'const '}{c_type}{'_shared' if shared else ''}* {slot.name}"
