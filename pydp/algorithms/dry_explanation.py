"""Explanations of functions without specializations: the launches of a dry run of the call.

explain = explained_by_launches(flip, "one copy of a view with negative strides")
"""

from __future__ import annotations

import inspect
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.model.explanation import Explanation, Given, sources_of
from pydp.runtime import placement
from pydp.runtime.arrays.data import Array, FieldData
from pydp.runtime.field.field import Field


def explained_by_launches(
    function: Callable[..., Any], *choices: str, call: Callable[..., Any] | None = None
) -> Callable[[Given], Explanation]:
    """The explanation of a function without specializations: the launches of a dry run of the call.

    choices: sentences on the function. call: is called in place of the function, for methods; an argument `self` is
    dropped then. In the dry run, all elements are zeros.
    """

    def explain(g: Given) -> Explanation:
        from pydp.offline.target import Target, dry_run

        named = {name: value for name, value in vars(g).items() if name != "self"}
        place = _place_of(named)
        target = place
        if not place.is_target:
            target = Target(place.name, place.driver, place.profile)
            target.quirks = place.quirks
        layouts: dict[int, Any] = {}
        named = {name: _as_layout(value, layouts) for name, value in named.items()}
        bound = inspect.BoundArguments(inspect.signature(call or function), OrderedDict(named))
        results: list[Any] = []
        options = {name: value for name, value in bound.kwargs.items() if name not in ("device", "queue", "wait_for")}
        launches = dry_run(
            target, lambda *args, **kw: results.append((call or function)(*args, **kw)), *bound.args, **options
        )
        counts = Counter(one.kernel.name for one in launches)
        found = results[0] if isinstance(results[0], tuple) else results
        facts: dict[str, object] = {
            "device": place.name,
            "result": ", ".join(f"{one.shape} {one.dtype}" for one in found if hasattr(one, "dtype")) or "none",
            "launches": ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none",
        }
        title = f"{function.__name__} on {place.name}"
        return Explanation(title, facts, list(choices), sources_of(one.kernel for one in launches))

    return explain


def _place_of(named: dict[str, Any]) -> Any:
    """The device of a call. Raises InvalidArgument for invalid arguments device and queue."""
    device = named.get("device")
    if getattr(device, "is_target", False):
        return device
    arrays: dict[str, Any] = {}
    pending = list(named.items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, (FieldData, Array)):
            arrays[f"{name} {len(arrays)}"] = value
        elif isinstance(value, (list, tuple)):
            pending += [(name, one) for one in value]
        elif isinstance(value, dict):
            pending += value.items()
    return placement.place(arrays, [], device, named.get("queue"))[0]


def _as_layout(value: Any, known: dict[int, Any]) -> Any:
    """An argument of a dry run: an array on a device becomes zeros of the same layout, the same for the same array."""
    if isinstance(value, (list, tuple)):
        return type(value)(_as_layout(one, known) for one in value)
    if isinstance(value, dict):
        return {name: _as_layout(one, known) for name, one in value.items()}
    if not isinstance(value, (FieldData, Array)):
        return value
    if id(value) not in known:
        array = Field.wrap(value) if isinstance(value, Array) else value
        reach = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
        low = sum(min(0, one) for one in reach)
        high = sum(max(0, one) for one in reach) if array.size else 0
        memory = np.zeros(high - low + 1, array.dtype)  # not touched: takes no memory
        steps = [step * array.dtype.itemsize for step in array.strides]
        layout = np.lib.stride_tricks.as_strided(memory[-low if array.size else 0 :], array.shape, steps)
        if isinstance(value, FieldData) and not value.writable:
            layout.flags.writeable = False
        known[id(value)] = layout
    return known[id(value)]
