"""Functions that are composed of other functions of pydp: their intermediate results are Fields.

    place = placed({"x": x, "offsets": offsets}, device, queue)
    place.after(wait_for)
    x, offsets = place.fields()
    return place.returned(pydp.sort(x, **place.where))

NumPy arrays are copied to the device once, and only results are copied back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from pydp.algorithms.arguments import refuse_shared, scalar_of
from pydp.dtypes import c_declarations, c_name, movable
from pydp.errors import DeviceNotPresent
from pydp.model.explanation import Explanation, given
from pydp.runtime import placement
from pydp.runtime.arrays.data import Array
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.field.construct import field
from pydp.runtime.field.field import Field
from pydp.runtime.programs.program import kernel

GROUP = 256  # work-items of a work-group of element-wise kernels


class Place(NamedTuple):
    """The device and queue of a composed function. given: its arguments by name, as arrays. kind: the first array; the
    results have its kind. chosen: the queue of the calls; None for a target that is not present."""

    device: Any
    queue: Any
    given: dict[str, Any]
    kind: Any
    chosen: Any = None

    @property
    def arrays(self) -> list[Any]:
        """The arguments, as arrays."""
        return list(self.given.values())

    @property
    def where(self) -> dict[str, Any]:
        """The arguments device and queue of the functions that it calls."""
        return {"device": self.device, "queue": self.queue}

    def after(self, wait_for: Any) -> None:
        """Make every later use of the arguments wait for these events. Call it before the first use of `fields`."""
        events = placement.check_events(wait_for)
        if not events or self.chosen is None:
            return
        if any(map(placement.may_change, self.arrays)):
            placement.wait_for_all(events)
            return
        marker = cl.enqueue_marker(self.chosen, wait_for=placement.of_context(self.chosen.context, events) or None)
        for one in self.arrays:
            if isinstance(one, (Field, Array)):
                self.field(one)._storage.note(marker, self.chosen)

    def fields(self) -> list[Field]:
        """The arguments as Fields; NumPy arrays are copied."""
        return [self.field(one) for one in self.arrays]

    def field(self, array: Any) -> Field:
        """An array as a Field. Raises DeviceNotPresent on a target that is not present."""
        if self.chosen is None:
            raise DeviceNotPresent(
                f"{self.device.name} is a compile-only target; this function calls other functions of pydp and needs "
                "a device that is present"
            )
        if isinstance(array, Field):
            return array
        return Field.wrap(array) if isinstance(array, Array) else field(array, device=self.device)

    def returned(self, *results: Field) -> Any:
        """The results in the kind of the first argument; one, or a tuple."""
        found = [self._returned(one) for one in results]
        return found[0] if len(found) == 1 else tuple(found)

    def _returned(self, result: Field) -> Any:
        if isinstance(self.kind, np.ndarray):
            return result.get()
        if not isinstance(self.kind, Array):
            return result
        return result.array.with_queue(self.queue or self.kind.queue or result.array.queue)


def placed(arrays: dict[str, Any], device: Any, queue: Any) -> Place:
    """The place of a call with these arrays. Raises InvalidArgument for values that are no arrays, and for arrays on
    different devices."""
    values = {name: placement.normal_input(name, one) for name, one in arrays.items()}
    if getattr(device, "is_target", False):  # kernels are only compiled
        return Place(device, queue, values, next(iter(values.values())))
    wrapped = {name: Field.wrap(one) if isinstance(one, Array) else one for name, one in values.items()}
    place, chosen = placement.place(wrapped, [], device, queue)
    return Place(place, chosen if queue is not None else None, values, next(iter(values.values())), chosen)


def delivered(place: Place, result: Field, out: Any) -> Any:
    """A result in the kind of the first argument, or copied to `out`. A NumPy array of rank 0 becomes a scalar."""
    if out is None:
        return scalar_of(place.returned(result))
    call = Call.begin({"x": result}, out=out, **place.where)
    call.copy(call.input("x"), target := call.output(result.shape, result.dtype))
    return call.finish(target)


def refuse_count(place: Place, count: Any) -> None:
    """Raise InvalidArgument if `count` shares memory with an array of the call, which is read after `count` is
    written."""
    for name, one in place.given.items() if count is not None else ():
        if isinstance(one, (Field, Array)):
            call = Call.begin({name: one}, out=count, out_name="count", **place.where)
            refuse_shared(call, call.output(count.shape, count.dtype, "count"), call.input(name), name="count")


def explanation_of(function: Any, *arrays: Any, **named: Any) -> Explanation:
    """The explanation of a call of another function; raises the errors of the call. Nothing is enqueued."""
    found: Explanation = function.__pydp_explain__(given(function, arrays, named))
    return found


def launch_elements(call: Call, ready: Any, count: int, *args: Any) -> None:
    """Enqueue an element-wise kernel with a work-item for each of `count` elements."""
    group = min(GROUP, 1 << max(call.device.profile.max_group_size.bit_length() - 1, 0))
    call.launch(ready, (-(-count // group) * group,), (group,), *args)


def take_rows(call: Call, x: Operand, indexes: Operand, out: Operand) -> None:
    """Enqueue ``out[row, j] = x[row, indexes[row, j]]``, for operands of rank 2 with equal numbers of rows. Rows of the
    indexes may be longer than those of the contiguous `out`."""
    if not out.size or not x.size:
        return
    words = movable(x.dtype)
    params = {
        "declarations": c_declarations([words]),
        "word": c_name(words),
        "index": c_name(indexes.dtype),
    }
    ready = kernel(call.device, "take_rows.mako", "take_rows", params)
    sizes = (x.shape[1], out.shape[1], out.size)
    launch_elements(
        call, ready, out.size, x, np.int64(x.offset), np.int64(x.strides[0]), np.int64(x.strides[1]), indexes,
        np.int64(indexes.offset), np.int64(indexes.strides[0]), out, np.int64(out.offset), *map(np.int64, sizes),
    )  # fmt: skip


def taken(x: Field, indexes: Field, where: dict[str, Any]) -> Field:
    """``x[indexes]`` of a contiguous array of rank 1, or of its rows of rank 2."""
    call = Call.begin({"x": x, "indexes": indexes}, **where)
    source, places = call.input("x"), call.contiguous(call.input("indexes"))
    if len(source.shape) == 1:
        source = source.view((1, source.size), (0, source.strides[0]))
        places = places.view((1, places.size), (places.size, 1))
    out = call.output(places.shape if len(x.shape) == 2 else (places.size,), source.dtype)
    take_rows(call, source, places, out.view(places.shape, (places.shape[1], 1)))
    found: Field = call.finish(out)
    return found


# --- rows along an axis ---------------------------------------------------------------------------------------


def axis_last(operand: Operand, axis: int | None) -> Operand:
    """The same elements with `axis` last. None: as they are."""
    if axis is None or axis == len(operand.shape) - 1:
        return operand
    order = [a for a in range(len(operand.shape)) if a != axis] + [axis]
    return operand.view(tuple(operand.shape[a] for a in order), tuple(operand.strides[a] for a in order))


def rows_of_result(
    call: Call, shape: tuple[int, ...], axis: int | None, k: int, dtype: np.dtype
) -> tuple[Operand, Operand]:
    """(A result of `shape` with k elements along the axis; the same, or a temporary operand, with contiguous rows)."""
    found = (k,) if axis is None else (*shape[:axis], k, *shape[axis + 1 :])
    result = call.output(found, dtype)
    moved = axis_last(result, axis)
    rows = moved if moved.is_contiguous else call.temporary(moved.shape, dtype)
    count = rows.size // k if k else 0
    return result, rows.view((count, k), (k, 1))


def delivered_rows(call: Call, rows: Operand, result: Operand, axis: int | None) -> None:
    """Enqueue the copy of the rows to the result, unless they are the same."""
    moved = axis_last(result, axis)
    if rows.buffer is not result.buffer:
        call.copy(rows.view(moved.shape, c_strides(moved.shape)), moved)
