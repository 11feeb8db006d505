"""``pydp.compress``: a selection by a mask, or, along an axis, a gather at the places where the mask is not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of
from pydp.algorithms.composed import Place, explanation_of, placed, refuse_count
from pydp.algorithms.moves import take
from pydp.algorithms.registry import Algorithm, register, vectors
from pydp.algorithms.select import SelectSpec, explain_selection, flatnonzero, masked
from pydp.algorithms.select.request import check_count, check_flat_mask
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.tuning.reference import Expected, host

__all__ = ["SelectSpec", "compress"]


def compress(
    mask: Any,
    x: Any,
    axis: int | None = None,
    *,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the slices of `x` along an axis where `mask` is not zero, as ``numpy.compress``.

    mask: array of bools or numbers of rank 1, at most as long as the axis; slices of x beyond it are dropped. A NumPy
    array or a list may be longer if it is zero beyond that. axis: an integer; None selects elements of `x` in C order.

    For an axis of an array of rank 2 and more, calls on Fields wait for the number of slices. `count` receives this
    number. With an axis, `length` is not accepted. If only the device knows the length of `x`, calls with an axis or
    with a mask on the host wait for it. x, count, length, spec, errors and source: see `select`.

    >>> pydp.compress(np.array([True, False, True]), np.array([3, 1, 4]))
    array([3, 4])
    >>> pydp.compress([0, 1], np.array([[1, 2, 3], [4, 5, 6]]), axis=0)
    array([[4, 5, 6]])
    """
    mask, x, axis = _checked(mask, x, axis, length, wait_for)
    if axis is None:
        where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
        return masked(mask, x, count, length, where)
    place = _place(mask, x, count, device, queue)
    place.after(wait_for)
    places = flatnonzero(mask, count=count, spec=spec, wait_for=wait_for, **place.where)
    return take(x, places, axis, mode="clip", **place.where)  # "raise" would read the indexes once more


def _place(mask: Any, x: Any, count: Any, device: Any, queue: Any) -> Place:
    """The device and queue that gather the slices along an axis; raises the errors of x and count."""
    place = placed({"x": x, "mask": mask}, device, queue)
    check_supported(x.dtype, place.device, "x", storage_only=True)
    if count is not None:
        check_count(count)
        refuse_count(place, count)
    return place


def _checked(mask: Any, x: Any, axis: Any, length: Any, wait_for: Any) -> tuple[Any, Any, int | None]:
    """(mask and x as arrays, the axis; None for the only one). A mask on the host that is longer than the axis is cut
    if all elements beyond it are zero."""
    if mask is None:
        raise InvalidArgument("mask is None; an array of rank 1 of bools or numbers is accepted")
    if axis is not None and length is not None:
        raise InvalidArgument(f"compress is given axis={shown(axis)} and length; length needs axis=None")
    x, given = normal_input("x", x), mask
    mask = np.zeros(0, bool) if isinstance(mask, (list, tuple)) and not mask else normal_input("mask", mask)
    if length is not None or (axis is None and not isinstance(mask, np.ndarray)):
        return mask, x, None  # their sizes, which only the device may know, are not needed yet
    axis = None if axis is None else axis_of(axis, len(x.shape))
    n = x.size if axis is None else x.shape[axis]
    if isinstance(mask, np.ndarray) and mask.ndim == 1 and mask.size > n:
        wait_on_host(wait_for, given)
        mask = mask if mask[n:].any() else mask[:n]
    if axis is not None:
        check_flat_mask(mask, n, f"axis {axis} of x")
    return mask, x, None if len(x.shape) == 1 else axis


def _explain(given: Given) -> Explanation:
    mask, x, axis = _checked(given.mask, given.x, given.axis, given.length, None)
    if axis is None:
        return explain_selection("compress", given.but(mask=mask, x=x))
    place = _place(mask, x, given.count, given.device, given.queue)
    found = explanation_of(flatnonzero, mask, count=given.count, spec=given.spec, device=place.device)
    found.title = f"compress of {tuple(x.shape)} {x.dtype} along axis {axis} on {place.device.name}"
    found.choices.insert(0, "the places where the mask is not zero are found first; then `take` gathers the slices")
    found.choices.insert(1, "the call waits for the number of slices")
    return found


def _reference(mask: Any, x: Any, axis: Any = None) -> list[Expected]:
    return [Expected(np.compress(host(mask).reshape(-1) != 0, host(x), axis))]


register(
    Algorithm(
        compress,
        _explain,
        _reference,
        sizes=("1048576",),
        shapes=vectors(2),
        accepted=("N",),
        operands=2,
        dtype="uint8",
        dtypes="biuf",
        benchmark="pydp.bench.bench_select",
    )
)
