"""forall: run a vector function for every index of a grid (SPEC S1).

The source of the function is translated once per combination of argument types, then compiled to a kernel for the
device. GPUs run one work-item per lane, CPUs one work-item per group, the host runs NumPy. A lane is one index of the
grid. Later calls with the same argument types reuse the cached kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from pydp.algorithms.forall import host as forall_host
from pydp.algorithms.forall.aliases import check_launch
from pydp.algorithms.forall.arguments import Arguments, differently_typed_overlap, no_written_overlap
from pydp.algorithms.forall.plan import Plan, Translation, too_deep, translation
from pydp.algorithms.forall.policy import ForallSpec, check_group
from pydp.errors import InvalidArgument, UnsupportedOnDevice, shown
from pydp.lang import ir
from pydp.lang.execute.checked import is_checked
from pydp.lang.ir.text import ir_text
from pydp.lang.opencl import lowerings
from pydp.lang.source.fingerprint import fingerprint
from pydp.lang.vector import VectorFunction
from pydp.model.explanation import Explanation, Given, explained_by
from pydp.model.family import check_spec
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.drivers.devices import Device
from pydp.runtime.field.tile_range import TileRange
from pydp.runtime.recording import recorded
from pydp.space import Grid
from pydp.space import grid as make_grid

__all__ = ["ForallSpec", "forall"]

_NARROW = 1 << 30


def _content(fn: Any) -> Any:
    """The key of a vector function or a tile in recordings of calls, and the arguments that it contains; None for other
    values, and in checked mode."""
    if isinstance(fn, (FunctionType, VectorFunction)):
        return None if is_checked() else (("vector function", fingerprint(fn)), ())
    if type(fn) is TileRange:
        return (TileRange, fn.tiles, fn._writable), (fn.base, fn.tail, fn.fill)
    return None


@recorded(content=_content)
def forall(
    grid: Any,
    fn: Callable[..., Any],
    *args: Any,
    group: tuple[int, ...] | int | None = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: ForallSpec | Mapping[str, Any] | None = None,
) -> Any:
    """Run ``fn(index, *args)`` in parallel for every index of `grid`, in no particular order.

    grid: a Grid, an extent (tuple or integer), or an object with a grid or shape (a Field, an ndarray); ranks 0 to 6.
    If a Grid has an offset, indexes start at the offset.
    args: NumPy arrays, Fields, pyopencl Arrays, their tiles (`pydp.tile`) and views, numbers, NumPy scalars, records,
    tuples of numbers. `fn` changes arrays in place. At indexes outside an array, also at negative ones, reads give 0
    (or the fill value of a tile) and writes are dropped. Arrays may share memory (if arrays of different types do, the
    mapping "simt" is used).
    group: the extents of a group; needed if `fn` uses ``idx.group``, ``idx.local``, local fields or barriers.
    If the last group extends beyond the grid, its lanes outside the grid take part in barriers and use local fields,
    but write nothing to the arguments. A function that writes once per group (sums, bins) needs a grid of whole groups.
    device: where to run (default: the device of the arguments, else the default device); "host" runs `fn` with NumPy.
    spec: a :class:`pydp.algorithms.forall.policy.ForallSpec`, or a mapping of its fields: ``{"mapping": "simt"}``.

    Python integers from -2**63 to 2**63 - 1 are accepted. Arithmetic on Python integers and indexes is exact in 64
    bits; only a store to a narrower type wraps. A Python integer combined with a 32- or 64-bit integer of an array
    takes that type. Combined with an integer of 8 or 16 bits, literals and constants from outside `fn` take its type
    too; other Python integers widen the result. Literals, arguments, and their sums, differences and products must fit
    the type that they take; other values wrap. A variable, a conditional expression, or a `min` or `max` of a Python
    integer and an array's integer keeps the exact value. It is converted by arithmetic with an array's integer, a cast
    or a store.

    Returns the pyopencl event of the launch. Returns None, after waiting for the results, if `fn` writes NumPy arrays
    or runs on the host.
    Raises VectorError (an InvalidArgument) with the Python line for code outside the language, InvalidArgument for an
    integer that does not fit its type, UnsupportedOnDevice if the device lacks a feature. Nothing is enqueued then.

    >>> def double(idx, a):
    ...     a[idx] = 2 * a[idx]
    >>> a = np.arange(4); pydp.forall(a.shape, double, a); a
    array([0, 2, 4, 6])

    Source: the call sites of Ringseth's tile operator.
    """
    ready = _prepared(grid, fn, args, group, device, queue, wait_for, spec)
    call, plan = ready.call, ready.plan
    if call is None or plan is None:
        return forall_host.run(ready.made, ready.space, ready.given, device, queue, wait_for)
    extent = tuple(ready.space.extent)
    global_size, local_size = plan.launch_shape(extent)
    arguments = plan.arguments(ready.operands, ready.given.values, extent, tuple(ready.space.offset))
    if plan.loop_guarded:
        _guarded_launch(call, plan, global_size, local_size, arguments)
    else:
        call.launch(plan.kernel, global_size, local_size, *arguments)
    call.uses_layout(grid)
    call.finish()
    return None if call.blocking else call.event


class _Prepared(NamedTuple):
    """Everything that a launch needs; `call` and `plan` are None for runs on the host.

    reasons: why this mapping was chosen, and why these barriers if arguments share memory.
    """

    space: Grid
    given: Arguments
    made: Translation
    call: Call | None
    plan: Plan | None
    operands: dict[int, Operand]
    reasons: tuple[str, ...] = ()


def _prepared(
    grid: Any,
    fn: Callable[..., Any],
    args: Sequence[Any],
    group: Any,
    device: Any,
    queue: Any,
    wait_for: Any,
    spec: ForallSpec | Mapping[str, Any] | None,
) -> _Prepared:
    """Do all steps before the launch; shared by `forall` and `explain`."""
    space = grid if type(grid) is Grid else _grid(grid)
    given = Arguments(args)
    made = _translate(space, fn, given, group)
    try:
        return _ready(space, given, made, device, queue, wait_for, spec)
    except RecursionError:
        raise too_deep(made.function.name) from None


def _ready(
    space: Grid,
    given: Arguments,
    made: Translation,
    device: Any,
    queue: Any,
    wait_for: Any,
    spec: ForallSpec | Mapping[str, Any] | None,
) -> _Prepared:
    """The second part of `_prepared`, for a translated function."""
    made = made.for_launch(given.values, given.arrays, space.extent, space.offset)
    extent, checked = tuple(space.extent), is_checked()
    if not checked or made.launch_check.has_widths:
        check_launch(made, extent, tuple(space.offset), given, checked)
    if device == "host" or checked:
        check_spec("forall", ForallSpec, spec)
        return _Prepared(space, given, made, None, None, {})
    names, values = made.arrays, given.values
    call = Call.begin(
        {name: values[position] for position, name in names},
        device=device,
        queue=queue,
        wait_for=wait_for,
        writable=made.written,
    )
    loop_guarded = _must_guard_loops(made, call.device, values, extent)
    plan = made.plan(call.device, spec, extent, loop_guarded=loop_guarded)
    operands = _operands(call, made)
    if made.differently_typed and differently_typed_overlap(call, operands, made.differently_typed):
        plan = made.plan(call.device, spec, extent, shared=True, loop_guarded=loop_guarded)
    reasons: tuple[str, ...] = (plan.reason,)
    if plan.lowered.assumes_no_alias and not no_written_overlap(
        call, operands, [p for p, n in names if n in made.written]
    ):
        plan = made.plan(call.device, replace(plan.spec, barriers="group"), extent, loop_guarded=loop_guarded)
        reasons = (*reasons, "written arrays share memory with others, so every barrier waits for the whole group")
    return _Prepared(space, given, made, call, plan, operands, reasons)


def _operands(call: Call, made: Translation) -> dict[int, Operand]:
    """The arrays of a call, by their positions."""
    operands: dict[int, Operand] = {}
    for position, name in made.arrays:
        operands[position] = call.inout(name) if name in made.written else call.input(name)
    return operands


def _grid(grid: Any) -> Grid:
    if isinstance(grid, (str, bytes, float, bool)) or grid is None:
        raise InvalidArgument(f"grid is {shown(grid)}; a Grid, an extent or an array is accepted")
    return make_grid(grid)


def _translate(space: Grid, fn: Callable[..., Any], given: Arguments, group: Any) -> Translation:
    if not callable(fn):
        raise InvalidArgument(f"{shown(fn)} is not a function; forall takes (grid, function, arguments...)")
    rank = len(space.extent)
    shape = group if group is None else check_group(group, rank)
    wide = given.wide
    for size, start in zip(space.extent, space.offset, strict=True):
        if size > _NARROW or not -_NARROW <= start <= _NARROW:
            wide = True
            if size >= 1 << 63 or start < -(1 << 63) or start + size > 1 << 63:
                raise InvalidArgument(f"grid is {shown(space)}; sizes and indexes that fit int64 are accepted")
    return translation(fn, fingerprint(fn), rank, shape, given.parts, wide)


def _launch_values(values: Sequence[Any], extent: tuple[int, ...]) -> Callable[[ir.Expr], int | None]:
    """A function from an expression to its value in this launch (extents, integer arguments), None if unknown."""

    def leaf(expr: ir.Expr) -> int | None:
        if isinstance(expr, ir.ArrayExtent):
            return int(values[expr.array.position].shape[expr.axis])
        if isinstance(expr, ir.GridExtent):
            return extent[expr.axis]
        if isinstance(expr, ir.Parameter) and expr.dtype.kind in "iub":
            value = values[expr.position]
            return int(value if expr.item is None else value[expr.item])
        return None

    return leaf


def _must_guard_loops(made: Translation, device: Device, values: Sequence[Any], extent: tuple[int, ...]) -> bool:
    """Whether a loop of this launch may exceed the driver's iteration limit; the kernel then records an early end.
    Raises UnsupportedOnDevice if a loop certainly exceeds the limit."""
    limit = device.profile.loop_limit
    if limit is None or not made.loops.has_loops:
        return False
    leaf = _launch_values(values, extent)
    count = made.loops.upper_bound(leaf)
    if count is not None and count <= limit:
        return False
    least = made.loops.lower_bound(leaf)
    if least > limit and 0 not in extent:
        raise UnsupportedOnDevice(
            f"{made.function.name} runs at least {least} loop iterations in each lane; "
            f"this driver ends the loops of a work-item after {limit} iterations"
        )
    return True


def _guarded_launch(call: Call, plan: Plan, global_size: Any, local_size: Any, arguments: list[Any]) -> None:
    """Launch, wait, and raise UnsupportedOnDevice if the driver ended a loop early, because the results are wrong."""
    flag = call.temporary((1 + math.prod(global_size),), np.int32, "overran")
    call.enqueue(cl.enqueue_fill_buffer, flag, np.int32(0), 0, 4)
    arguments[-1] = flag
    call.launch(plan.kernel, global_size, local_size, *arguments)
    limit = call.device.profile.loop_limit
    if call.fetch(flag.view((1,), (1,)))[0]:
        raise UnsupportedOnDevice(
            f"the driver ended a loop of {plan.translation.function.name} early: it runs at most {limit} loop "
            "iterations in a work-item. The written arrays are incomplete"
        )


# --- explanation -------------------------------------------------------------------------------------------


def _explain(given: Given) -> Explanation:
    """Describe what `forall` would run: typed form, mapping, group, barriers and kernel source."""
    ready = _prepared(
        given.grid, given.fn, given.args, given.group, given.device, given.queue, given.wait_for, given.spec
    )
    space, made, call, plan = ready.space, ready.made, ready.call, ready.plan
    name = getattr(given.fn, "__name__", "a function")
    text = ir_text(made.function)
    if call is None or plan is None:
        facts: dict[str, object] = {"device": "host (NumPy)", "grid": space, "group": made.function.group}
        facts |= _common_facts(made)
        why = "requested by device='host'" if given.device == "host" else "checked mode runs on the host"
        return Explanation(f"forall {name}", facts, [why, *_width_reasons(made)], {"typed form": text})
    lowered, mapping = plan.lowered, plan.spec.mapping
    global_size, local_size = plan.launch_shape(tuple(space.extent))
    facts = {
        "device": call.device.name,
        "mapping": mapping,
        "grid": space,
        "group": lowered.group,
        "work-items": f"{global_size} in groups of {local_size}",
        "local memory": f"{lowered.local_bytes} bytes per group",
        **_common_facts(made),
    }
    why, *more = ready.reasons
    choices = [f"mapping {mapping}: {why}", *more, *lowered.notes, *_width_reasons(made)]
    if made.function.group is None:
        choices.append(f"group {lowered.group} chosen: the call gives no group, and the function uses none")
    choices += [f"barrier {number}: {reason}" for number, reason in enumerate(lowered.barriers)]
    choices += lowerings()[mapping].remarks(made.function)
    return Explanation(f"forall {name}", facts, choices, {"typed form": text, lowered.template: plan.kernel.source})


def _width_reasons(made: Translation) -> list[str]:
    if not made.widened:
        return []
    needed = "the arguments and extents of this launch do not prove that all intermediate values fit into 32 bits"
    return [f"Python integers have 64 bits here: {needed}"]


def _common_facts(made: Translation) -> dict[str, object]:
    """The facts of the typed form, the same on every device."""
    fields = sum(field.dtype.itemsize * math.prod(field.shape) for field in made.function.locals)
    barriers = len(ir.barriers(made.function.body))
    return {"local fields": f"{fields} bytes per group", "barriers": barriers, "index type": made.function.index_dtype}


explained_by(forall, _explain)
