"""Layouts of the local fields of a vector function that avoid bank conflicts (SPEC S3).

The symbolic run evaluates the indexes of every access for all lanes; :mod:`pydp.local_memory` counts the bank conflicts
of each access, and rows are padded if that reduces them. A uniform value (a loop's counter, a parameter) shifts all
addresses equally and changes no conflict. Accesses whose indexes depend on data are ignored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.lane_events import Access, Event
from pydp.lang.execute.symbolic_run import trace_group
from pydp.local_memory import Banks, Layout, banks_of, degree
from pydp.runtime.device.profile import Profile

_MOST = 64  # examined access patterns of one field
Pattern = tuple[tuple[int, ...], ...]
"""The indexes of the lanes that access memory at once, relative to the first lane's index."""


def local_layouts(function: ir.Function, profile: Profile) -> dict[str, Layout]:
    """The layouts of the local fields that could be padded, by name; empty if the device has no banks."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    rows = [array for array in function.locals if len(array.shape) > 1]
    if banks.count == 1 or not rows or function.group is None:
        return {}
    events = trace_group(function)
    found: dict[str, Layout] = {}
    free_bytes = profile.local_bytes - sum(field_bytes(array, {}) for array in function.locals)
    for array in rows:
        layout = _layout(array, banks, _patterns(events, array, banks.lanes), free_bytes)
        free_bytes -= _bytes(array, layout) - field_bytes(array, {})
        found[array.name] = layout
    return found


def field_bytes(array: ir.LocalArray, layouts: Mapping[str, Layout]) -> int:
    """The local memory of a field, a multiple of 16 bytes."""
    return _bytes(array, layouts.get(array.name, Layout(array.shape, 0, 1, "")))


def _bytes(array: ir.LocalArray, layout: Layout) -> int:
    return -(-layout.size * array.dtype.itemsize // 16) * 16


def _patterns(events: Sequence[Event], array: ir.LocalArray, lanes_at_once: int) -> Counter[Pattern]:
    """The access patterns of the lanes that access the field at once, and the number of each."""
    found: Counter[Pattern] = Counter()
    for event in events:
        if not isinstance(event, Access) or event.array is not array or event.dims is None:
            continue
        lanes = event.lanes
        values = []
        for index in event.dims:
            assert index is not None
            values.append(np.broadcast_to(event.index_values(index), lanes.shape))
        places = np.stack(values, axis=1)
        for chunk in np.unique(lanes // lanes_at_once):
            accessed = places[lanes // lanes_at_once == chunk]
            pattern = tuple(tuple(int(i) for i in one) for one in accessed - accessed[0])
            if pattern in found or len(found) < _MOST:
                found[pattern] += 1
    return found


def _layout(array: ir.LocalArray, banks: Banks, patterns: Counter[Pattern], free_bytes: int) -> Layout:
    """The layout with the lowest sum of conflict degrees; the least padding of several."""
    bare = Layout(array.shape, 0, 1, "")
    if not patterns:
        return replace(bare, reason=f"local field {array.name}: indexes are unknown before the launch, no padding")
    best, least, unpadded = bare, math.inf, 1
    for pad in range(banks.count):
        layout = replace(bare, pad=pad)
        if _bytes(array, layout) - _bytes(array, bare) > free_bytes:
            break
        degrees = {pattern: _degree(banks, layout, array.dtype.itemsize, pattern) for pattern in patterns}
        total, worst = sum(each * patterns[pattern] for pattern, each in degrees.items()), max(degrees.values())
        unpadded = unpadded if pad else worst
        if total < least:
            best, least = replace(layout, degree=worst), total
        if worst == 1:
            break
    if least == math.inf:
        return bare
    padding = f"rows {best.pad} element(s) longer" if best.pad else "rows without padding"
    conflicts = f"bank conflict degree {best.degree} at worst" + (f", {unpadded} without" if best.pad else "")
    return replace(best, reason=f"local field {array.name}: {padding}, {conflicts} ({banks.count} banks)")


def _degree(banks: Banks, rows: Layout, item_bytes: int, pattern: Pattern) -> int:
    addresses = [item_bytes * rows.offset(index) for index in pattern]
    lowest = min(addresses)
    return degree(banks, [address - lowest for address in addresses], item_bytes)
