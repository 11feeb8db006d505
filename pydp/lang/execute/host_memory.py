"""Loads, stores and atomics of many lanes at once, as strided views for affine indexes, else as gathers and scatters.

`memory` is any strided array; `indices` has one value (see :mod:`host_values`) for each axis. Out-of-bounds loads give
`fill`; out-of-bounds stores and updates are dropped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pydp.lang.execute.host_values import Affine, bounds_of, is_uniform, materialize
from pydp.lang.execute.masks import Mask, mask_and

Box = tuple[tuple[int, int], ...]  # first and end position along each axis of the lanes


def _inside_box(memory: np.ndarray, indices: Sequence[Any], shape: tuple[int, ...]) -> Box | None:
    """The range of in-bounds lanes per axis, if these lanes form a box: () if there are none, None if they do not."""
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
    """A view with one axis for each axis of lanes: the element of each lane of the box.

    keep: axes along which the element does not change have the box's extent; else they have extent 1.
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
    """A mask of the lanes whose indexes are in bounds."""
    mask: Mask = True
    for index, extent in zip(indices, memory.shape, strict=True):
        low, high = bounds_of(index)
        if low < 0 or high >= extent:
            values = materialize(index)
            mask = mask_and(mask, np.asarray((values >= 0) & (values < extent)))
    if mask is not True and np.ndim(mask) == 0:
        return bool(mask)
    return mask


def load(memory: np.ndarray, indices: Sequence[Any], fill: Any, shape: tuple[int, ...]) -> Any:
    """The element of each lane. The result may be a view of the memory: copy it before the next store."""
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
    at = tuple(materialize(index) for index in indices)
    if inside is True:
        return memory[at]
    safe = tuple(np.clip(index, 0, extent - 1) for index, extent in zip(at, memory.shape, strict=True))
    return np.where(inside, memory[safe], fill)


def _element(value: Any) -> Any:
    """A copy of a scalar, because NumPy's record scalars are views."""
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
    """Whether it is provable that no two lanes have the same element: each axis of lanes steps an index by more than
    the range of the axes with smaller steps."""
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


def _crop(value: Any, box: Box) -> Any:
    """The part of a value or mask that belongs to the lanes of the box."""
    if np.ndim(value) == 0:
        return value
    return value[tuple(slice(*b) if n > 1 else slice(None) for n, b in zip(value.shape, box, strict=True))]


def store(memory: np.ndarray, indices: Sequence[Any], value: Any, active: Mask, shape: tuple[int, ...]) -> None:
    """Store ``memory[indices] = value`` for the active lanes. Of several stores to one element, one remains."""
    if active is False:
        return
    if not indices:
        memory, indices = memory[None], [np.int64(0)]
    if _is_slicing(indices) and _is_one_to_one(indices, shape):
        box = _inside_box(memory, indices, shape)
        if box == ():
            return
        if box is not None:
            target = _view(memory, indices, box, len(shape), keep=True)
            where = True if active is True else _crop(active, box)
            np.copyto(target, _crop(materialize(value), box), where=where, casting="no")
            return
    _scatter(operator.setitem, memory, indices, value, active, shape)


def atomic(
    update: np.ufunc, memory: np.ndarray, indices: Sequence[Any], value: Any, active: Mask, shape: tuple[int, ...]
) -> None:
    """Perform ``memory[indices] = update(memory[indices], value)`` for each active lane, in lane order."""
    if not indices:
        memory, indices = memory[None], [np.int64(0)]
    _scatter(update.at, memory, indices, value, active, shape)


def _scatter(
    put: Callable[..., None],
    memory: np.ndarray,
    indices: Sequence[Any],
    value: Any,
    active: Mask,
    shape: tuple[int, ...],
) -> None:
    """Call ``put(memory, elements, values)`` with the elements and values of the active in-bounds lanes, in lane
    order."""
    mask = mask_and(active, inside_mask(memory, indices))
    if mask is False:
        return
    lanes = ... if mask is True else np.broadcast_to(mask, shape)
    *at, values = (np.broadcast_to(materialize(one), shape)[lanes].ravel() for one in (*indices, value))
    put(memory, tuple(at), values)


def fetch_update(
    update: np.ufunc, memory: np.ndarray, indices: Sequence[Any], value: Any, active: Mask, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`atomic`; returns a mask of the lanes that performed the update, and the previous value of each lane."""
    if not indices:
        memory, indices = memory[None], [np.int64(0)]
    done = np.broadcast_to(np.asarray(mask_and(active, inside_mask(memory, indices))), shape)
    before = np.zeros(shape, memory.dtype)
    lanes = np.flatnonzero(done)
    if not len(lanes):
        return done, before
    at = [np.broadcast_to(materialize(index), shape).ravel()[lanes] for index in indices]
    values = np.broadcast_to(materialize(value), shape).ravel()[lanes]
    place = np.ravel_multi_index(tuple(at), memory.shape)
    order = np.argsort(place, kind="stable")
    _, first, counts = np.unique(place[order], return_index=True, return_counts=True)
    found = np.empty(len(lanes), memory.dtype)
    if counts.max() > len(first):  # few elements: loop over the elements, accumulate over the lanes of each
        for start, count in zip(first, counts, strict=True):
            those = order[start : start + count]
            element = tuple(int(index[those[0]]) for index in at)
            all_values = np.concatenate([np.asarray(memory[element])[None], values[those]])
            steps = update.accumulate(all_values, dtype=memory.dtype)
            found[those], memory[element] = steps[:-1], steps[-1]
    else:  # many elements: update all with their first lane, then with their second lane, and so on
        for rank in range(int(counts.max())):
            those = order[first[counts > rank] + rank]
            elements = tuple(index[those] for index in at)
            found[those] = memory[elements]
            memory[elements] = update(found[those], values[those])
    before.reshape(-1)[lanes] = found
    return done, before
