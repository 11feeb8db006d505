"""``pydp.pad``: a copy with a border."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of, refuse_shared
from pydp.algorithms.moves.conditions import check_held
from pydp.algorithms.moves.gather import gather
from pydp.algorithms.moves.views import along, broadcast, part_of
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.recording import recorded

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
_MOST_RUNS = 8  # blocks of a border; a border of more is gathered with a table of indexes


@recorded
def pad(
    array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0,
    *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Copy of an array with borders along its axes, as ``numpy.pad``.

    array: any shape, strides and dtype. pad_width: the elements before and after, for each axis: an integer, a pair
    (before, after), one pair per axis, or a dict of axes to integers or pairs (its other axes get no border). mode:
    "constant" (`constant_values`: a number, a pair, or one pair per axis), "edge" (the elements at the edge), "reflect"
    (the elements mirrored at the edge element), "symmetric" (mirrored at the edge), "wrap" (the elements from the other
    end). out: array for the result, which must not share memory with `array`.

    Raises InvalidArgument for other modes and widths, for Python integers that the dtype does not hold, and if an
    empty axis gets a border that is not constant.

    >>> pydp.pad(np.array([1, 2, 3]), 2, "reflect")
    array([3, 2, 1, 2, 3, 2, 1])
    """
    if not isinstance(mode, str) or mode not in _MODES:
        raise InvalidArgument(f"mode is {shown(mode)}; {', '.join(map(repr, _MODES))} are accepted")
    wait_on_host(wait_for, pad_width, constant_values)
    rank = len(normal_input("array", array).shape)
    widths = _by_axis(pad_width, rank) if isinstance(pad_width, dict) else _pairs(pad_width, rank, "pad_width")
    if widths.size and (widths.dtype.kind not in "iu" or widths.min() < 0):
        raise InvalidArgument(f"pad_width is {shown(pad_width)}; integers that are not negative are accepted")
    values = _pairs(constant_values, rank, "constant_values") if mode == "constant" else None
    call = Call.begin({"array": array}, out=out, device=device, queue=queue, wait_for=wait_for)
    source = call.input("array")
    borders = [(int(before), int(after)) for before, after in widths]
    for k, border in enumerate(borders):
        if mode != "constant" and not source.shape[k] and any(border):
            raise InvalidArgument(f"axis {k} is empty; a border of mode {shown(mode)} needs at least one element")
    if values is not None and not isinstance(constant_values, (np.ndarray, np.generic)):
        for one in np.asarray(constant_values, object).flat:
            check_held(one, source.dtype, "a number in constant_values")
    fills = None if values is None else [[_fill(one, source.dtype) for one in pair] for pair in values]
    shape = [sum(border) + size for border, size in zip(borders, source.shape, strict=True)]
    result = call.output(shape, source.dtype)
    refuse_shared(call, result, source)
    inside = [slice(border[0], border[0] + size) for border, size in zip(borders, source.shape, strict=True)]
    if source.size:
        call.copy(source, part_of(result, *inside))
    for k, border in enumerate(borders):
        done = part_of(result, *(slice(None) for _ in range(k + 1)), *inside[k + 1 :])  # the axes before have borders
        if any(border) and done.size:
            _border(call, done, k, border, mode, None if fills is None else fills[k])
    return call.finish(result)


def _by_axis(given: dict[Any, Any], rank: int) -> np.ndarray:
    """A pair for each axis, from a dict of axes to integers or pairs."""
    pairs: list[Any] = [(0, 0)] * rank
    for axis, width in given.items():
        pairs[axis_of(axis, rank, "an integer as a key of pad_width")] = _pairs(width, 1, "pad_width")[0]
    return np.array(pairs).reshape(rank, 2)


def _pairs(given: Any, rank: int, name: str) -> np.ndarray:
    """A pair for each axis."""
    try:
        values = np.asarray(given)
        return np.broadcast_to(values, (rank, 2))
    except ValueError:
        raise InvalidArgument(
            f"{name} is {shown(given)}; a number, a pair, or a pair for each of {rank} axes is accepted"
        ) from None


def _fill(value: Any, dtype: np.dtype) -> Any:
    try:
        with np.errstate(all="ignore"):
            made: Any = np.asarray(value).astype(dtype)[()]
            return made
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"constant_values is {shown(value)}; values that convert to {dtype} are accepted"
        ) from None


def _border(
    call: Call, done: Operand, axis: int, border: tuple[int, int], mode: str, fills: list[np.generic] | None
) -> None:
    """Write the border of one axis of a view whose inside is complete."""
    before, after = border
    whole = done.shape[axis]
    size = whole - before - after
    sides = [slice(0, before), slice(whole - after, whole)]
    if fills is not None:
        for side, value in zip(sides, fills, strict=True):
            target = along(done, axis, side)
            if target.size:
                elementwise.apply(call, "copy", [value], target)
        return
    if mode == "edge" or size == 1:
        for side, at in zip(sides, (before, whole - after - 1), strict=True):
            target = along(done, axis, side)
            if target.size:
                call.copy(broadcast(along(done, axis, slice(at, at + 1)), target.shape), target)
        return
    inside = along(done, axis, slice(before, before + size))
    runs = list(_runs(mode, size, before, after))
    if len(runs) <= _MOST_RUNS:
        for start, stop, first, step in runs:
            count = stop - start
            last = first + step * count
            key = slice(first, last if last >= 0 else None, step)
            call.copy(along(inside, axis, key), along(done, axis, slice(start, stop)))
        return
    places = np.concatenate(
        [np.arange(first, first + step * (stop - start), step) for start, stop, first, step in runs]
    )
    indexes = call.constant(places.astype(np.int64))
    gathered = call.temporary((*done.shape[:axis], before + after, *done.shape[axis + 1 :]), done.dtype)
    gather(call, call.contiguous(inside), indexes, axis, "plain", gathered)
    for side, part in zip(sides, (slice(0, before), slice(before, before + after)), strict=True):
        call.copy(along(gathered, axis, part), along(done, axis, side))


def _runs(mode: str, size: int, before: int, after: int) -> Iterator[tuple[int, int, int, int]]:
    """The borders as (start, stop, index in the array, step): blocks of consecutive indexes, up or down."""
    turn = size - 1 if mode == "reflect" else size  # elements until the direction changes
    for low, high in ((-before, 0), (size, size + after)):
        at = low
        while at < high:
            number, within = divmod(at, turn)
            stop = min(high, at - within + turn)
            down = mode != "wrap" and number % 2
            first = within
            if down:
                first = (size - 1 if mode == "reflect" else turn - 1) - within
            yield at + before, stop + before, first, -1 if down else 1
            at = stop
