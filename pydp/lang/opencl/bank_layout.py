"""Layouts of the local fields of a vector function that avoid bank conflicts (SPEC S3).

The symbolic run evaluates the indexes of every access for all lanes; :mod:`pydp.local_memory` counts the turns of
each access, and rows are padded if that saves turns. A uniform value (a loop's counter, a parameter) shifts all
addresses equally and changes no conflict. Accesses whose indexes depend on data are ignored.
"""

from __future__ import annotations

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
    free_bytes = profile.local_bytes - sum(_bytes(array, 0) for array in function.locals)
    for array in rows:
        layout = _layout(array, banks, _patterns(events, array, banks.lanes), free_bytes)
        free_bytes -= _bytes(array, layout.pad) - _bytes(array, 0)
        found[array.name] = layout
    return found


def field_bytes(array: ir.LocalArray, layouts: Mapping[str, Layout]) -> int:
    """The local memory of a field, a multiple of 16 bytes."""
    return _bytes(array, layouts[array.name].pad if array.name in layouts else 0)


def _bytes(array: ir.LocalArray, pad: int) -> int:
    return -(-_elements(array.shape, pad) * array.dtype.itemsize // 16) * 16


def _elements(shape: tuple[int, ...], pad: int) -> int:
    return Layout(shape, pad, 1, "").size


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
    """The layout with the fewest turns in total; the least padding of several."""
    bare = Layout(array.shape, 0, 1, "")
    if not patterns:
        return replace(bare, reason=f"local field {array.name}: indexes are unknown before the launch, no padding")
    best: tuple[int, int, Layout] | None = None
    before = 0
    for pad in range(banks.count):
        if _bytes(array, pad) - _bytes(array, 0) > free_bytes:
            break
        rows = Layout(array.shape, pad, 1, "")
        turns = [(_turns(banks, rows, array.dtype.itemsize, pattern), count) for pattern, count in patterns.items()]
        total, worst = sum(each * count for each, count in turns), max(each for each, _ in turns)
        before = worst if pad == 0 else before
        if best is None or total < best[0]:
            best = (total, worst, rows)
        if worst == 1:
            break
    if best is None:
        return bare
    _, worst, rows = best
    padding = f"rows {rows.pad} element(s) longer" if rows.pad else "rows without padding"
    turns_text = f"{worst} turn(s) of {banks.count} banks at worst" + (f", {before} without" if rows.pad else "")
    return Layout(array.shape, rows.pad, worst, f"local field {array.name}: {padding}, {turns_text}")


def _turns(banks: Banks, rows: Layout, item_bytes: int, pattern: Pattern) -> int:
    addresses = [item_bytes * rows.offset(index) for index in pattern]
    lowest = min(addresses)
    return degree(banks, [address - lowest for address in addresses], item_bytes)
