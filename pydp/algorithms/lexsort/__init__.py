"""``pydp.lexsort``: the order of several keys, by a stable sort for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of, check_same_shape
from pydp.algorithms.composed import explanation_of, placed, taken
from pydp.algorithms.registry import Algorithm, Passed, Shape, register
from pydp.algorithms.sort import argsort, sort, sort_by_key
from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, Given
from pydp.runtime.placement import normal_input
from pydp.tuning.reference import Expected, host

__all__ = ["lexsort"]


def lexsort(
    keys: Any, axis: int = -1, *, device: Any = None, queue: Any = None, wait_for: Any = None, spec: Any = None
) -> Any:
    """Return the indexes (int64) that sort by several keys along an axis; the last key is compared first, as
    ``numpy.lexsort``.

    keys: a sequence of arrays of one shape and of any dtypes that `sort` accepts, or an array whose first axis has the
    keys. The sort is stable. The result has the shape of one key and the kind of the first one.
    spec: a :class:`pydp.algorithms.sort.spec.SortSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for no keys, keys of different shapes or of rank 0, and an invalid axis, and the errors of
    `sort`, before anything is enqueued.

    >>> pydp.lexsort((np.array([3, 1, 2]), np.array([1, 0, 1])))
    array([1, 2, 0])
    """
    given_keys, axis = _checked_keys(keys, axis)
    place = placed({f"keys[{k}]": key for k, key in enumerate(given_keys)}, device, queue)
    for key in {key.dtype: key for key in given_keys}.values():  # raise errors before anything is enqueued
        explanation_of(sort, key, axis=axis, spec=spec, device=place.device)
    where, shape = place.where, tuple(place.arrays[0].shape)
    axes = [a for a in range(len(shape)) if a != axis] + [axis]
    moved = tuple(shape[a] for a in axes)
    rows = moved if len(moved) == 1 else (prod(moved[:-1]), moved[-1])
    order: Any = None
    place.after(wait_for)
    for key in place.fields():
        flat = key.transpose(*axes).reshape(*rows)
        if order is None:
            order = argsort(flat, **where, wait_for=wait_for, spec=spec)
        else:
            _, order = sort_by_key(taken(flat, order, where), order, **where, spec=spec)
    back = [axes.index(a) for a in range(len(shape))]
    result = order.reshape(*moved).transpose(*back)
    return place.returned(result if axis == len(shape) - 1 else result.copy())


def _checked_keys(keys: Any, axis: Any) -> tuple[list[Any], int]:
    if not isinstance(keys, (tuple, list)):
        keys = normal_input("keys", keys)
        count = keys.shape[0] if keys.ndim else 0
        keys = [keys[k] for k in range(count if keys.size else min(count, 1))]  # keys without elements are alike
    found = [normal_input(f"keys[{k}]", key) for k, key in enumerate(keys)]
    if not found:
        raise InvalidArgument("keys is empty; at least one key is accepted")
    for k, key in enumerate(found):
        check_same_shape(f"keys[{k}]", key, "keys[0]", found[0])
    return found, axis_of(axis, found[0].ndim, "an integer")


# --- explanation and reference -----------------------------------------------------------------------------------


def _explain_lexsort(g: Given) -> Explanation:
    keys, axis = _checked_keys(g.keys, g.axis)
    found = explanation_of(argsort, keys[0], axis=axis, spec=g.spec, device=g.device, queue=g.queue)
    found.choices.insert(0, f"{len(keys)} stable sort(s), from the first key to the last one; this is the first sort")
    return found


def _lexsort_reference(keys: Any, axis: Any = -1) -> list[Expected]:
    keys = [host(key) for key in keys] if isinstance(keys, (tuple, list)) else host(keys)
    return [Expected(np.lexsort(keys, axis).astype(np.int64))]


def _key_rows(size: Shape) -> list[Shape] | None:
    return [size if len(size) > 1 else (1, *size)]


def _passed_keys(arrays: Sequence[Any], options: dict[str, Any]) -> Passed:
    """The call of a command: the rows of one array are the keys, or each of several arrays is a key."""
    return (arrays[0] if len(arrays) == 1 < arrays[0].ndim else list(arrays),), options


register(
    Algorithm(
        lexsort,
        _explain_lexsort,
        _lexsort_reference,
        sizes=("2x1048576",),
        shapes=_key_rows,
        accepted=("keys N",),
        more=True,
        passed=_passed_keys,
        dtype="int32",
        dtypes="biuf",
        benchmark="pydp.bench.bench_sets",
    )
)
