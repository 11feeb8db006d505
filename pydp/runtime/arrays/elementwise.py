"""Copies, conversions, arithmetic and comparisons of strided data on the device (kernels_cl/elementwise.mako)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyopencl as cl
import pyopencl.cltypes

from pydp.dtypes import c_declarations, c_name, check_parameter, check_supported, is_record
from pydp.errors import InvalidArgument
from pydp.runtime.arrays import comparison, copy_transposed
from pydp.runtime.arrays.comparison import lane, part
from pydp.runtime.arrays.copy_transposed import Prepared, TransposeTiling
from pydp.runtime.arrays.indexing import broadcast_strides
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.programs.program import MOST_GROUPS, kernel
from pydp.space import merge_axes

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device
    from pydp.runtime.programs.program import Kernel

_UFUNCS = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power, "shl": np.left_shift, "shr": np.right_shift},
}
WORD_SIZES = (1, 2, 4, 8)  # bytes of the elements that `fill` takes
_PAIR = cl.cltypes.ulong2
_KNOWN_STRIDES = (0, 1, -1)  # strides for which kernels are made; with others, vectors are slower than elements
_ITEM_BYTES = 16  # bytes of an array that one work-item of a GPU handles
_MOST_ITEMS = 8
_BLOCK_BYTES = 512  # bytes of a block of results that a CPU stores past the caches: a fraction of the smallest cache
_PART_BYTES = 1 << 17  # bytes of the results of a work-item that stores blocks
_RESIDENT = 2048  # work-items that a compute unit of a GPU runs at once
_SIGNS = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"},
    **{"floordiv": "//", "mod": "%", "pow": "**", "shl": "<<", "shr": ">>"},
}
_OF_INTEGERS = ("and", "or", "xor", "shl", "shr")
# Dtypes that cannot be kernel arguments, and the dtypes that carry their values.
_BY_VALUE: dict[np.dtype, Any] = {np.dtype(np.float16): np.dtype(np.float32), np.dtype(np.bool_): np.dtype(np.uint8)}


@dataclass(frozen=True)
class Step:
    """One operation of a kernel. op: as in :func:`apply`, except "call". args: the positions of its arguments in the
    inputs of the kernel followed by the results of all steps. dtype: of the result."""

    op: str
    args: tuple[int, ...]
    dtype: np.dtype


class Launcher(Protocol):
    """The part of :class:`pydp.runtime.call.Call` that this module uses."""

    device: Device

    def overlaps(self, a: Operand, b: Operand) -> bool: ...

    def same(self, a: Operand, b: Operand) -> bool: ...

    def temporary(self, shape: Sequence[int], dtype: Any, name: str = ...) -> Operand: ...

    def launch(self, kernel: Any, global_size: Any, local_size: Any, *args: Any) -> Any: ...


def collapse(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """(sizes, steps) of the same elements with as few axes as possible, ordered by the strides of the first array.

    Axes of size 1 are removed. Neighbouring axes that are contiguous to each other in every array are merged.
    """
    order = sorted(range(len(shape)), key=lambda axis: -abs(strides[0][axis]))
    merged = merge_axes((shape[axis], tuple(one[axis] for one in strides)) for axis in order)
    if not merged:
        return [1], [[1] for _ in strides]
    return [size for size, _ in merged], [list(steps) for steps in zip(*(steps for _, steps in merged), strict=True)]


def result_dtype(op: str, left: Any, right: Any) -> np.dtype:
    """The dtype of ``left op right`` by NumPy's rules; `left` and `right` are dtypes or types of Python numbers."""
    try:
        return _UFUNCS[op].resolve_dtypes((left, right, None))[2]
    except TypeError:
        bitwise = "booleans, and integers with a common integer dtype,"
        accepted = bitwise if op in _OF_INTEGERS else "numbers for which NumPy defines it"
        raise undefined(op, left, right, accepted) from None


def undefined(op: str, left: Any, right: Any, accepted: str) -> InvalidArgument:
    """The error of an operator that does not take these dtypes or types of Python numbers."""
    names = [getattr(one, "__name__", str(one)) for one in (left, right)]
    return InvalidArgument(f"{_SIGNS[op]} is not defined for {' and '.join(names)}; {accepted} are accepted")


def _as_words(operand: Operand) -> Operand:
    """The same bytes as unsigned words. An element of several words gets a new last axis.

    Words have at most 8 bytes, or 16 for dtypes that are aligned to 16 bytes (records are not).
    """
    size = operand.dtype.itemsize
    word = min(size & -size, 8 if is_record(operand.dtype) else 16)
    count = size // word
    dtype = np.dtype(f"u{word}") if word <= 8 else _PAIR
    if count == 1:
        shape, strides, offset = operand.shape, operand.strides, operand.offset
        return Operand(operand.name, operand.buffer, offset, shape, strides, dtype, operand.owner)
    return Operand(
        operand.name,
        operand.buffer,
        operand.offset * count,
        (*operand.shape, count),
        (*(stride * count for stride in operand.strides), 1),
        dtype,
        operand.owner,
    )


def copy(call: Launcher, source: Operand, target: Operand, tiling: TransposeTiling | None = None) -> None:
    """Enqueue ``target[...] = source``, broadcast and converted as by astype. The two may overlap.

    tiling: the tiling used if source and target are contiguous along different axes; None: the default tiling.
    """
    if source.shape != target.shape:
        strides = broadcast_strides(source.shape, source.strides, target.shape, source.name)
        source = source.view(target.shape, strides)
    if source.dtype == target.dtype:
        source, target = _as_words(source), _as_words(target)
    elif "V" in (source.dtype.kind, target.dtype.kind):
        raise InvalidArgument(f"{source.dtype} cannot be converted to {target.dtype}; the same dtype is needed")
    elif source.dtype.kind == "c" and target.dtype.kind not in "cb":
        raise InvalidArgument(f"{source.dtype} cannot be converted to {target.dtype}: imaginary parts would be lost")
    apply(call, "copy", [source], target, tiling)


def fill(call: Launcher, value: np.ndarray, target: Operand) -> None:
    """Enqueue ``target[...] = value``, one element of the target's dtype of 1, 2, 4 or 8 bytes."""
    apply(call, "copy", [value.reshape(1).view(f"u{value.itemsize}")[0]], _as_words(target))


def apply(
    call: Launcher,
    op: str,
    inputs: Sequence[Operand | np.generic],
    target: Operand,
    tiling: TransposeTiling | None = None,
    function: str = "",
) -> None:
    """Enqueue ``target[...] = op(inputs...)``; inputs are numbers or operands that broadcast to the target.

    op: "copy", "add", "sub", "mul", "div", "and", "or", "xor", computed in the target's dtype; or "eq", "ne", "lt",
    "le", "gt", "ge" of two inputs, compared as NumPy does, with a boolean target; or "call": the C function
    ``evaluate`` of the source `function` on the inputs in their own types (float for a half number). Raises
    UnsupportedOnDevice for a dtype without arithmetic on the device.
    """
    if target.size == 0:
        return
    ready: list[Operand | np.generic] = []
    in_place = False
    for one in inputs:
        if isinstance(one, Operand):
            if one.shape != target.shape:
                strides = broadcast_strides(one.shape, one.strides, target.shape, one.name)
                one = one.view(target.shape, strides)
            if call.overlaps(one, target):
                if call.same(one, target):
                    in_place = True
                else:
                    one = _via_scratch(call, one)
        ready.append(one)
    key = ("elementwise", op, tiling, function, in_place, *(_layout(one) for one in (target, *ready)))
    plan = call.device.plans.get(key)
    if plan is None:
        plan = call.device.plans.make(key, _plan, call.device, op, ready, target, tiling, function, in_place)
    args: list[Any] = [target.buffer, np.int64(target.offset)]
    for one in ready:
        args += (one.buffer, np.int64(one.offset)) if isinstance(one, Operand) else (by_value(one),)
    call.launch(plan.kernel, plan.global_size, plan.local_size, *args, *plan.rest)


def by_value(number: np.generic) -> np.generic:
    """A number as an argument of a kernel."""
    kind = _BY_VALUE.get(number.dtype)
    return number if kind is None else number.astype(kind)


def _layout(one: Operand | np.generic) -> Any:
    return (one.dtype, one.shape, one.strides) if isinstance(one, Operand) else one.dtype


def _via_scratch(call: Launcher, operand: Operand) -> Operand:
    """A copy of the operand in scratch memory; repeated axes keep stride 0."""
    shape = tuple(1 if stride == 0 else size for size, stride in zip(operand.shape, operand.strides, strict=True))
    packed = call.temporary(shape, operand.dtype, operand.name)
    apply(call, "copy", [operand.view(shape, operand.strides)], packed)
    return packed.view(operand.shape, broadcast_strides(shape, c_strides(shape), operand.shape, operand.name))


def _plan(
    device: Device,
    op: str,
    inputs: list[Any],
    target: Operand,
    tiling: TransposeTiling | None,
    function: str = "",
    in_place: bool = False,
) -> Prepared:
    check_dtypes(device, op, inputs, target)
    if op == "copy" and isinstance(inputs[0], Operand):
        found = _transposed(inputs[0], target)
        if found is not None:
            return copy_transposed.prepare(device, target.dtype, *found, tiling)
    steps = () if op == "call" else (Step(op, tuple(range(len(inputs))), target.dtype),)
    return prepare(device, f"elementwise_{op}", steps, inputs, target, function, in_place)


def check_dtypes(device: Device, op: str, inputs: Sequence[Any], target: Any) -> None:
    """Raise UnsupportedOnDevice unless the device supports the dtypes of an operation."""
    compares = op in comparison.UFUNCS
    for one in (target, *inputs):
        if isinstance(one, Operand):
            check_supported(one.dtype, device, one.name, moved=not compares and op != "call")
        elif isinstance(one, np.void):
            check_parameter(one.dtype, device, "a number")
    if compares:
        for dtype in comparison.dtypes_within(inputs[0].dtype, inputs[1].dtype):
            check_supported(dtype, device, "a comparison")


def prepare(
    device: Device,
    name: str,
    steps: Sequence[Step],
    inputs: Sequence[Any],
    target: Operand,
    function: str = "",
    in_place: bool = False,
) -> Prepared:
    """The kernel and launch that compute the steps, or ``evaluate`` of the source `function` without steps. The inputs
    are numbers and operands of the target's shape. in_place: one of them is the target."""
    arrays = [one for one in inputs if isinstance(one, Operand)]
    sizes, strides = collapse(target.shape, [target.strides, *(one.strides for one in arrays)])
    names = ["out", *(f"a{n}" for n, one in enumerate(inputs) if isinstance(one, Operand))]
    last = None
    if all(one[-1] in _KNOWN_STRIDES for one in strides):
        last = {name: one[-1] for name, one in zip(names, strides, strict=True)}
    dtypes = tuple(one.dtype for one in inputs)
    numbers = tuple(not isinstance(one, Operand) for one in inputs)
    columns, rows = sizes[-1], prod(sizes[:-1])
    itemsize = target.dtype.itemsize
    cut = {"items": 1, "block": _BLOCK_BYTES // itemsize, "part": _PART_BYTES // itemsize}
    across, along, each = 1, 1, cut["part"]
    if in_place or last is None or last["out"] != 1 or not _nontemporal(device.profile, columns, target):
        across, along = _group(device.profile, columns, rows)
        items = items_of(device.profile, columns, rows, across, [target.dtype, *(one.dtype for one in arrays)])
        each, cut = items * across, {"items": items, "block": 0, "part": 0}
    params = {
        "name": name,
        **cut,
        "ahead": device.profile.prefetches,
        "kind": "steps" if steps else "call",
        "rank": len(sizes),
        "last": last,
        "function": function,
        **_params(steps, dtypes, numbers, target.dtype),
    }
    axes = len(sizes) - (last is not None)  # whose strides are arguments
    rest = [np.int64(one[axis]) for axis in range(axes) for one in strides]
    rest += [np.int64(size) for size in sizes[1:-1]]
    rest += [np.int64(rows), np.int64(columns)] if axes else [np.int64(columns)]
    groups = -(-rows // along)  # split evenly over dimension 2 if too many for dimension 1
    shares = -(-groups // MOST_GROUPS)
    global_size = (-(-columns // each) * across, -(-groups // shares) * along, shares)
    ready = kernel(device, "elementwise.mako", name, params)
    return Prepared(ready, global_size, (across, along, 1), tuple(rest))


def _transposed(source: Operand, target: Operand) -> tuple[list[int], list[list[int]], int] | None:
    """(sizes, steps, contiguous axis of the source) of a copy that transposes blocks; None for other copies."""
    if source.dtype != target.dtype:
        return None
    sizes, steps = collapse(target.shape, [target.strides, source.strides])
    axis = copy_transposed.applies(sizes, steps)
    return None if axis is None else (sizes, steps, axis)


def turned(source: Operand, target: Operand) -> tuple[int, int, int] | None:
    """(word size in bytes, size of the source's contiguous axis, size of the target's) of a copy that transposes
    blocks; None for other copies."""
    one, other = _as_words(source), _as_words(target)
    found = _transposed(one, other)
    return None if found is None else (other.dtype.itemsize, found[0][found[2]], found[0][-1])


def copying_kernel(device: Device, source: Operand, target: Operand, tiling: TransposeTiling | None = None) -> Kernel:
    """The kernel of :func:`copy` for operands of the same shape and dtype."""
    return _plan(device, "copy", [_as_words(source)], _as_words(target), tiling).kernel


def _params(
    steps: Sequence[Step], dtypes: tuple[np.dtype, ...], numbers: tuple[bool, ...], target: np.dtype
) -> dict[str, Any]:
    """The template parameters that depend on dtypes. numbers: whether each input is a number."""
    types = [_argument_type(dtype, number) for dtype, number in zip(dtypes, numbers, strict=True)]
    values = [
        {"value": f"{'a' if number else 'e'}{n}", "type": one, "lane": lane(dtype)}
        for n, (one, dtype, number) in enumerate(zip(types, dtypes, numbers, strict=True))
    ]
    kinds = [*dtypes]
    made, declared = [], set(kinds) | {target}
    for n, step in enumerate(steps):
        args, of = [values[at] for at in step.args], [kinds[at] for at in step.args]
        made.append({"op": step.op, "args": args, "out": c_name(step.dtype), **_operation(step, of)})
        values.append({"value": f"r{n}", "type": c_name(step.dtype), "lane": lane(step.dtype)})
        kinds.append(step.dtype)
        declared |= {step.dtype, *(comparison.dtypes_within(*of) if step.op in comparison.UFUNCS else ())}
    return {
        "out": c_name(target),
        "inputs": [
            {"type": one, "number": number, "bytes": dtype.itemsize}
            for one, number, dtype in zip(types, numbers, dtypes, strict=True)
        ],
        "steps": made,
        "declarations": c_declarations([*dtypes, *sorted(declared - set(dtypes), key=str)]),
    }


def _operation(step: Step, args: list[np.dtype]) -> dict[str, Any]:
    """How a step computes its result. args: the dtypes of its arguments."""
    unused = dict.fromkeys(("compute", "lane", "scalar", "unsigned", "out_lane", "relation", "pair"))
    if step.op in comparison.UFUNCS:
        return {**unused, "relation": comparison.SIGNS[step.op], "pair": comparison.pair(*args)}
    compute = np.dtype(np.uint8) if step.op != "copy" and step.dtype.kind == "b" else step.dtype
    wraps = step.op != "copy" and compute.kind in "iu"
    return {
        **unused,
        "compute": c_name(compute),
        "lane": lane(compute),
        "scalar": part(compute),
        "unsigned": ("ulong" if compute.itemsize == 8 else "uint") if wraps else "",
        "out_lane": lane(step.dtype),
    }


def _argument_type(dtype: np.dtype, number: bool) -> str:
    """The C type of an input. A half number is passed as a float, because some drivers cannot pass half by value."""
    return "float" if number and dtype == np.float16 else c_name(dtype)


def _nontemporal(profile: Any, columns: int, target: Operand) -> bool:
    """Whether a work-item stores blocks past the caches; if not, it stores elements."""
    itemsize = target.dtype.itemsize
    whole = _BLOCK_BYTES % itemsize == 0 and columns * itemsize >= 4 * _BLOCK_BYTES
    return whole and bool(profile.stores_nontemporal(target.size * itemsize))


def _group(profile: Any, columns: int, rows: int) -> tuple[int, int]:
    """(work-items along a row, along the rows) of a work-group: at most 256 on a GPU, 1024 on a CPU, where a work-group
    is a loop."""
    most = min(1024 if profile.mapping == "vector" else 256, profile.max_group_size, profile.max_item_sizes[0])
    across = min(most, 1 << max(columns - 1, 0).bit_length())
    along = min(most // across, 1 << max(rows - 1, 0).bit_length(), profile.max_item_sizes[1], 16)
    return across, max(along, 1)


def items_of(profile: Any, columns: int, rows: int, across: int, dtypes: Sequence[np.dtype]) -> int:
    """Elements of a work-item, a power of two. On a GPU, they are about 16 bytes of the array with the largest
    elements, or fewer if else some of the work-items that it runs at once would have none. On a CPU, a work-group is a
    loop, and the compiler chooses."""
    enough = columns * rows // (_RESIDENT * profile.compute_units)
    if profile.mapping == "vector" or not enough:
        return 1
    most = min(max(_ITEM_BYTES // max(one.itemsize for one in dtypes), 1), _MOST_ITEMS, enough, -(-columns // across))
    return 1 << most.bit_length() - 1
