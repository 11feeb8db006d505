"""How the local fields of a vector function lie where local memory has banks (SPEC S3).

The symbolic run evaluates the indexes of every access for all lanes; :mod:`pydp.local_memory` counts the turns that
each takes, and rows are made longer where that saves turns. A value that is the same for all lanes (a loop's counter, a
parameter) moves all addresses alike and changes no conflict. Accesses whose indexes depend on data are ignored.
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

_MOST = 64  # different patterns of one field that are looked at
Pattern = tuple[tuple[int, ...], ...]
"""The indexes of the lanes that ask together, from the first one's on."""


def local_layouts(function: ir.Function, profile: Profile) -> dict[str, Layout]:
    """The layout of each local field that is padded or could be, by its name; none where the device has no banks."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    rows = [array for array in function.locals if len(array.shape) > 1]
    if banks.count == 1 or not rows or function.group is None:
        return {}
    events = trace_group(function)
    found: dict[str, Layout] = {}
    room = profile.local_bytes - sum(_bytes(array, 0) for array in function.locals)
    for array in rows:
        layout = _layout(array, banks, _patterns(events, array, banks.lanes), room)
        room -= _bytes(array, layout.pad) - _bytes(array, 0)
        found[array.name] = layout
    return found


def field_bytes(array: ir.LocalArray, layouts: Mapping[str, Layout]) -> int:
    """Local memory of a field, in whole 16 bytes."""
    return _bytes(array, layouts[array.name].pad if array.name in layouts else 0)


def _bytes(array: ir.LocalArray, pad: int) -> int:
    return -(-_elements(array.shape, pad) * array.dtype.itemsize // 16) * 16


def _elements(shape: tuple[int, ...], pad: int) -> int:
    return Layout(shape, pad, 1, "").size


def _patterns(events: Sequence[Event], array: ir.LocalArray, together: int) -> Counter[Pattern]:
    """How often lanes that ask together touch the field in which pattern."""
    found: Counter[Pattern] = Counter()
    for event in events:
        if not isinstance(event, Access) or event.array is not array or event.dims is None:
            continue
        lanes = event.lanes
        values = []
        for index in event.dims:
            assert index is not None
            known = np.asarray(index.lanes).astype(np.int64)
            values.append(known[lanes] if known.ndim else np.full(len(lanes), known))
        places = np.stack(values, axis=1)
        for chunk in np.unique(lanes // together):
            asked = places[lanes // together == chunk]
            pattern = tuple(tuple(int(i) for i in one) for one in asked - asked[0])
            if pattern in found or len(found) < _MOST:
                found[pattern] += 1
    return found


def _layout(array: ir.LocalArray, banks: Banks, patterns: Counter[Pattern], room: int) -> Layout:
    """The padding with the fewest turns in all, the least of those."""
    bare = Layout(array.shape, 0, 1, "")
    if not patterns:
        return replace(bare, reason=f"local field {array.name}: no index is known before the launch, rows as they are")
    best: tuple[int, int, Layout] | None = None
    before = 0
    for pad in range(banks.count):
        if _bytes(array, pad) - _bytes(array, 0) > room:
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
    longer = f"rows {rows.pad} element(s) longer" if rows.pad else "rows as they are"
    turns_told = f"{worst} turn(s) of {banks.count} banks at worst" + (f", {before} without" if rows.pad else "")
    return Layout(array.shape, rows.pad, worst, f"local field {array.name}: {longer}, {turns_told}")


def _turns(banks: Banks, rows: Layout, item_bytes: int, pattern: Pattern) -> int:
    addresses = [item_bytes * rows.offset(index) for index in pattern]
    lowest = min(addresses)
    return degree(banks, [address - lowest for address in addresses], item_bytes)
