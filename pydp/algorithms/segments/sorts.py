"""Sorts of segments, and scans of runs of any keys: what other algorithms need to know about the segments.

A sort of segments is two stable radix sorts: by key, then by the number of the segment, of which few bits are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of
from pydp.algorithms.composed import launch_elements, placed, taken
from pydp.algorithms.runs.equality import differ
from pydp.algorithms.segments.reduction import OFFSET, check_offsets
from pydp.algorithms.segments.repeats import expand, plan_of
from pydp.algorithms.sort import argsort, sort, sort_by_key
from pydp.dtypes import c_declarations, c_name, check_kept_whole, check_supported
from pydp.errors import InvalidArgument
from pydp.model.explanation import given
from pydp.runtime.call import Call
from pydp.runtime.field.field import Field
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.programs.program import kernel

_SEGMENT = np.dtype(np.int32)
_MOST = 1 << 31


def check(x: Any, offsets: Any) -> tuple[Any, Any]:
    """Check the arrays of a sort of segments."""
    x = normal_input("x", x)
    if x.ndim != 1:
        raise InvalidArgument(f"x has shape {x.shape}; an array of rank 1 is accepted")
    if x.size >= _MOST:
        raise InvalidArgument(f"x has {x.size} elements; less than 2**31 are accepted")
    return x, check_offsets(offsets, x.size, True)


def sorted_segments(
    indexes: bool, x: Any, offsets: Any, how: dict[str, Any], device: Any, queue: Any, wait_for: Any
) -> Any:
    """The sorted elements of each segment, or their indexes in x. how: arguments of `sort`."""
    wait_on_host(wait_for, offsets)
    x, offsets = check(x, offsets)
    place = placed({"x": x, "offsets": offsets}, device, queue)
    where = place.where
    how = {**how, **where}
    checked = {**how, "device": place.device}
    sort.__pydp_explain__(given(sort, (x,), checked))  # raises its errors before anything is enqueued
    place.after(wait_for)
    keys, starts = place.fields()
    if not keys.size:
        return place.returned(
            sort(keys, wait_for=wait_for, **where) if not indexes else argsort(keys, wait_for=wait_for, **where)
        )
    numbers = segment_numbers(starts, keys.size, where, wait_for)
    bits = bits_of(starts.size - 1)
    if indexes:
        order = argsort(keys, wait_for=wait_for, **how)
        _, found = sort_by_key(taken(numbers, order, where), order, bits=bits, **where)
        return place.returned(found)
    ordered, moved = sort_by_key(keys, numbers, **how)
    _, found = sort_by_key(moved, ordered, bits=bits, **where)
    return place.returned(found)


def bits_of(segments: int) -> tuple[int, int]:
    """The bits in which the numbers of so many segments differ, for `sort_by_key`."""
    return 0, max(1, (segments - 1).bit_length())


def segment_numbers(offsets: Field, n: int, where: dict[str, Any], wait_for: Any = None) -> Field:
    """The number (int32) of the segment of each of `n` elements; the segments have all elements."""
    call = Call.begin({"offsets": offsets}, **where, wait_for=wait_for)
    ends = call.input("offsets")
    segments = max(ends.size - 1, 1)
    out = call.output((n,), _SEGMENT)
    plan = plan_of(call.device, None, False, segments, True, None)
    behind = ends.view((ends.size - 1,), ends.strides)
    behind.offset += ends.strides[0]
    expand(call, plan, None, call.contiguous(behind, OFFSET), 0, out, (1, segments, n, 1))
    found: Field = call.finish(out)
    return found


def head_flags(keys: Any, axis: Any, reverse: bool, where: dict[str, Any], wait_for: Any) -> Any:
    """Head flags (uint8) of runs of equal keys along an axis, in the kind of `keys`."""
    call = Call.begin({"keys": keys}, **where, wait_for=wait_for)
    source = call.input("keys")
    check_supported(source.dtype, call.device, "keys")
    check_kept_whole(source.dtype, call.device)
    shape = source.shape
    at = None if axis is None else axis_of(axis, len(shape))
    out = call.output(shape, np.uint8)
    if out.size:
        n = source.size if at is None else shape[at]
        inner = 1 if at is None else int(np.prod(shape[at + 1 :], dtype=np.int64))
        params = {
            "declarations": c_declarations([source.dtype]),
            "key": c_name(source.dtype),
            "differ": differ(source.dtype, False),
            "reverse": reverse,
        }
        ready = kernel(call.device, "segment_heads.mako", "segment_heads", params)
        source = call.contiguous(source)
        launch_elements(
            call, ready, out.size, source, np.int64(source.offset), out, np.int64(out.offset), np.int64(n),
            np.int64(inner), np.int64(out.size),
        )  # fmt: skip
    return call.finish(out)
