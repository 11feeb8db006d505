"""Loads, stores and atomics of many lanes at once: strided views where the indexes are affine, gathers elsewhere.

`memory` is any strided array; `indices` has one value (see :mod:`host_values`) for each of its axes. Elements
outside are never touched: a load gives `fill` there, a store drops the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pydp.lang.execute.host_values import Affine, Mask, bounds_of, is_uniform, mask_and, plain

Box = tuple[tuple[int, int], ...]  # first and end position along each axis of the lanes


def _inside_box(memory: np.ndarray, indices: Sequence[Any], shape: tuple[int, ...]) -> Box | None:
    """The box of lanes whose element exists, where that is a box: () for none of them, None where it is no box."""
    box = [(0, n) for n in shape]
    for index, extent in zip(indices, memory.shape, strict=True):
        low, high = bounds_of(index)
        if low >= 0 and high < extent:
            continue
        if high < 0 or low >= extent:
            return ()
        axes = [axis for axis, step in enumerate(index.steps) if step]
        if len(axes) != 1:
            return None
        (axis,) = axes
        step = index.steps[axis]
        ends = (-index.base, extent - index.base) if step > 0 else (index.base - extent + 1, index.base + 1)
        first, end = (-(-ends[0] // abs(step)), -(-ends[1] // abs(step)))
        box[axis] = (max(box[axis][0], first), min(box[axis][1], end))
        if box[axis][0] >= box[axis][1]:
            return ()
    return tuple(box)


def _view(memory: np.ndarray, indices: Sequence[Any], box: Box, rank: int, keep: bool) -> np.ndarray:
    """A view with one axis for each axis of the lanes: the element of each lane of the box.

    `keep` keeps axes along which the element does not change at the box's extent; else they have extent 1.
    """
    origin, strides = [], [0] * rank
    for index, stride in zip(indices, memory.strides, strict=True):
        if isinstance(index, Affine):
            origin.append(index.base + sum(s * first for s, (first, _) in zip(index.steps, box, strict=True)))
            for axis, step in enumerate(index.steps):
                strides[axis] += step * stride
        else:
            origin.append(int(index))
    extents = [end - first for first, end in box]
    if not keep:
        used = [any(isinstance(i, Affine) and i.steps[axis] for i in indices) for axis in range(rank)]
        extents = [n if u else 1 for n, u in zip(extents, used, strict=True)]
    element = memory[tuple(slice(at, at + 1) for at in origin)]
    return as_strided(element, tuple(extents), tuple(strides))


def _is_slicing(indices: Sequence[Any]) -> bool:
    return all(isinstance(index, Affine) or is_uniform(index) for index in indices)


def inside_mask(memory: np.ndarray, indices: Sequence[Any]) -> Mask:
    """Lanes whose element exists."""
    mask: Mask = True
    for index, extent in zip(indices, memory.shape, strict=True):
        low, high = bounds_of(index)
        if low < 0 or high >= extent:
            values = plain(index)
            mask = mask_and(mask, np.asarray((values >= 0) & (values < extent)))
    if mask is not True and np.ndim(mask) == 0:
        return bool(mask)
    return mask


def load(memory: np.ndarray, indices: Sequence[Any], fill: Any, shape: tuple[int, ...]) -> Any:
    """The element of each lane. It may be a view of the memory: copy it before anything is stored."""
    if not indices:
        return _element(memory[()])
    if _is_slicing(indices):
        box = _inside_box(memory, indices, shape)
        if box == ():
            return fill
        if box is not None:
            return _load_box(memory, indices, box, fill, shape)
    inside = inside_mask(memory, indices)
    if inside is False:
        return fill
    at = tuple(plain(index) for index in indices)
    if inside is True:
        return memory[at]
    safe = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(at, memory.shape, strict=True))
    return np.where(inside, memory[safe], fill)


def _element(value: Any) -> Any:
    """A scalar as it is now: NumPy's record scalars are views."""
    return value.copy() if isinstance(value, np.void) else value


def _load_box(memory: np.ndarray, indices: Sequence[Any], box: Box, fill: Any, shape: tuple[int, ...]) -> Any:
    view = _view(memory, indices, box, len(shape), keep=False)
    if all(bounds == (0, n) for bounds, n in zip(box, shape, strict=True)):
        return _element(view[(0,) * len(shape)]) if view.size == 1 else view
    extents = [n if v > 1 or b[1] - b[0] < n else 1 for v, b, n in zip(view.shape, box, shape, strict=True)]
    value = np.full(extents, fill, memory.dtype)
    value[tuple(slice(*bounds) if n > 1 else slice(None) for n, bounds in zip(extents, box, strict=True))] = view
    return value


def _is_one_to_one(indices: Sequence[Any], shape: tuple[int, ...]) -> bool:
    """No two lanes have the same element, provably: each axis of the lanes moves some index as a digit of a number."""
    seen: set[int] = set()
    for index in indices:
        if not isinstance(index, Affine):
            continue
        reach = 0
        for axis in sorted((a for a, s in enumerate(index.steps) if s), key=lambda a: abs(index.steps[a])):
            if abs(index.steps[axis]) <= reach:
                return False
            reach += abs(index.steps[axis]) * (shape[axis] - 1)
            seen.add(axis)
    return all(axis in seen or n == 1 for axis, n in enumerate(shape))


def _cut(value: Any, box: Box) -> Any:
    """The lanes of the box of a value or mask."""
    if np.ndim(value) == 0:
        return value
    return value[tuple(slice(*b) if n > 1 else slice(None) for n, b in zip(value.shape, box, strict=True))]


def store(memory: np.ndarray, indices: Sequence[Any], value: Any, active: Mask, shape: tuple[int, ...]) -> None:
    """memory[indices] = value in the active lanes; where several lanes meet, one of them wins."""
    if active is False:
        return
    value = plain(value)
    if not indices:
        memory, indices = memory[None], [np.int64(0)]
    if _is_slicing(indices) and _is_one_to_one(indices, shape):
        box = _inside_box(memory, indices, shape)
        if box == ():
            return
        if box is not None:
            target = _view(memory, indices, box, len(shape), keep=True)
            where = True if active is True else _cut(active, box)
            np.copyto(target, _cut(value, box), where=where, casting="no")
            return
    scatter(memory, indices, value, active, shape, memory.__setitem__)


def scatter(
    memory: np.ndarray,
    indices: Sequence[Any],
    value: Any,
    active: Mask,
    shape: tuple[int, ...],
    put: Callable[[Any, Any], None],
) -> None:
    """put(elements, values) of the active lanes whose element exists, one after the other in lane order."""
    mask = mask_and(active, inside_mask(memory, indices))
    if mask is False:
        return
    value = plain(value)
    at = [plain(index) for index in indices]
    if mask is True:
        chosen = tuple(np.broadcast_to(index, shape).ravel() for index in at)
        put(chosen, np.broadcast_to(value, shape).ravel())
        return
    lanes = np.broadcast_to(mask, shape)
    put(tuple(np.broadcast_to(index, shape)[lanes] for index in at), np.broadcast_to(value, shape)[lanes])


def fetch(
    update: np.ufunc, memory: np.ndarray, indices: Sequence[Any], value: Any, active: Mask, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`atomic`; gives the lanes that did it (a mask) and what each of them found."""
    if not indices:
        memory, indices = memory[None], [np.int64(0)]
    done = np.broadcast_to(np.asarray(mask_and(active, inside_mask(memory, indices))), shape)
    before = np.zeros(shape, memory.dtype)
    lanes = np.flatnonzero(done)
    if not len(lanes):
        return done, before
    at = [np.broadcast_to(plain(index), shape).ravel()[lanes] for index in indices]
    values = np.broadcast_to(plain(value), shape).ravel()[lanes]
    place = np.ravel_multi_index(tuple(at), memory.shape)
    order = np.argsort(place, kind="stable")
    _, first, counts = np.unique(place[order], return_index=True, return_counts=True)
    found = np.empty(len(lanes), memory.dtype)
    if counts.max() > len(first):  # few elements: those that meet in each of them
        for start, count in zip(first, counts, strict=True):
            those = order[start : start + count]
            element = tuple(int(index[those[0]]) for index in at)
            all_values = np.concatenate([np.asarray(memory[element])[None], values[those]])
            steps = update.accumulate(all_values, dtype=memory.dtype)
            found[those], memory[element] = steps[:-1], steps[-1]
    else:  # many: the first lanes of all, then the second ones
        for turn in range(int(counts.max())):
            those = order[first[counts > turn] + turn]
            elements = tuple(index[those] for index in at)
            found[those] = memory[elements]
            memory[elements] = update(found[those], values[those])
    before.reshape(-1)[lanes] = found
    return done, before


def atomic(
    update: np.ufunc, memory: np.ndarray, indices: Sequence[Any], value: Any, active: Mask, shape: tuple[int, ...]
) -> None:
    """memory[indices] = update(memory[indices], value), lane after lane."""
    if not indices:
        memory, indices = memory[None], [np.int64(0)]

    def put(elements: Any, values: Any) -> None:
        update.at(memory, elements, values)

    scatter(memory, indices, value, active, shape, put)
